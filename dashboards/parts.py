"""The building blocks of every dashboard: queries, panels, variables, links, annotations.

Metric names come from the metrics' definitions, so that a renamed metric is renamed in its panels too. A panel shows the tuner's
verdict and makes no verdict of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grafana_foundation_sdk.builders import common as common_build
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import prometheus, stat, timeseries
from grafana_foundation_sdk.models import common, dashboard

from dashboards.runbook_page import PAGE_AT, RUNBOOK_AT, anchor
from streaming.shared.metric_def import MetricDef
from streaming.shared.metric_defs import ProcessMetric, TunerMetric
from tuner.core.reason_text import ReasonText

Panel = stat.Panel | timeseries.Panel
Rows = Sequence[tuple[str, Sequence[Panel]]]

TAG = "rheostat"
DATA_SOURCE = common.DataSourceRef(type_val="prometheus", uid="${datasource}")

# The limit in the meaning of the metric.
STALL_SCORE_SECONDS_MAX = 14.5
SIGNAL_AGE_SECONDS_LATE, SIGNAL_AGE_SECONDS_STALE = 30.0, 60.0  # Two and four periods of 15 s of the tuner.

# Grafana's names of units. Byte units are decimal, as in Kafka's documentation.
BYTES, BYTES_PER_SECOND, SECONDS, COUNT, RATIO, PER_SECOND = "decbytes", "Bps", "s", "short", "percentunit", "cps"
FROM_NOW = "dateTimeFromNow"
ACTION_AND_REASON = "{{action}}: {{reason}}"
CHANGES = '!~"hold|allow_steering"'  # Actions that change a setting; the closed-loop control acts every second and is left out.
# Prometheus refuses a query with more than 11,000 steps. A week has 2,016 steps of this length.
_ANNOTATION_STEP_S = 300
GREEN, YELLOW, RED = "green", "yellow", "red"


# -- queries -------------------------------------------------------------------------------------------------------------


def select(metric: MetricDef, **matchers: str) -> str:
    """Returns the metric of the chosen cluster and, if it has the label broker, of the chosen brokers."""
    terms = ['cluster="$cluster"']
    if "broker" in metric.labels:
        terms.append('broker=~"$broker"')
    terms += [f'{label}="{value}"' for label, value in matchers.items()]
    return f"{metric.name}{{{', '.join(terms)}}}"


def most(metric: MetricDef, **matchers: str) -> str:
    """Returns the maximum over all processes, so that a restart on another machine does not add a second line to the panel."""
    return f"max({select(metric, **matchers)})"


def least(metric: MetricDef, **matchers: str) -> str:
    return f"min({select(metric, **matchers)})"


def per(labels: str, metric: MetricDef, **matchers: str) -> str:
    return f"max by ({labels}) ({select(metric, **matchers)})"


def per_broker(metric: MetricDef, **matchers: str) -> str:
    return per("broker", metric, **matchers)


def grown(metric: MetricDef, by: str = "", over: str = "$__rate_interval", **matchers: str) -> str:
    """Returns the increase of a counter, in total or by these labels."""
    return f"sum{f' by ({by}) ' if by else ''}(increase({select(metric, **matchers)}[{over}]))"


def decided(metric: MetricDef, actions: str = "", over: str = "$__rate_interval") -> str:
    """Returns the number of decisions, by action and reason.

    ``increase`` does not see the first value of a series, so the query adds a series that did not exist before as a whole.

    Args:
        actions: a matcher of the label action, with its operator.
    """
    counted = f'{metric.name}{{cluster="$cluster"{f", action{actions}" if actions else ""}}}'
    return f"sum by (action, reason) (({counted} unless {counted} offset {over}) or increase({counted}[{over}]))"


def query(expr: str, legend: str) -> prometheus.Dataquery:
    return prometheus.Dataquery().expr(expr).legend_format(legend).datasource(DATA_SOURCE).range()


# -- panels --------------------------------------------------------------------------------------------------------------


def thresholds(*steps: tuple[float | None, str]) -> build.ThresholdsConfig:
    config = build.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE)
    return config.steps([dashboard.Threshold(value=value, color=color) for value, color in steps])


def none_is_well() -> build.ThresholdsConfig:
    return thresholds((None, GREEN), (1, RED))


def verdict(
    title: str,
    description: str,
    expr: str,
    steps: build.ThresholdsConfig,
    unit: str = COUNT,
    words: dict[str, str] | None = None,
    alert: str | None = None,
    span: int = 3,
) -> stat.Panel:
    """Returns a panel with one number, green when all is well.

    Args:
        alert: the panel links to the section of this alert in the runbook.
    """
    panel = (
        stat.Panel()
        .title(title)
        .description(_description(description, alert))
        .datasource(DATA_SOURCE)
        .unit(unit)
        .thresholds(steps)
        .no_value("no data")
        .graph_mode(common.BigValueGraphMode.NONE)
        .color_mode(common.BigValueColorMode.BACKGROUND)
        .reduce_options(common_build.ReduceDataOptions().calcs(["lastNotNull"]))
        .span(span)
        .height(4)
        .with_target(query(expr, title))
    )
    if words is not None:
        named = {value: dashboard.ValueMappingResult(text=text) for value, text in words.items()}
        panel = panel.mappings([dashboard.ValueMap(options=named)])
    return panel.links([_runbook(alert)]) if alert is not None else panel


def lines(
    title: str, description: str, unit: str, *targets: prometheus.Dataquery, alert: str | None = None, axis: str = ""
) -> timeseries.Panel:
    """Returns a panel of lines over time.

    Args:
        axis: what the axis counts; empty where the unit says it.
    """
    panel = (
        timeseries.Panel()
        .title(title)
        .description(_description(description, alert))
        .datasource(DATA_SOURCE)
        .unit(unit)
        .axis_label(axis)
        .line_width(1)
        .fill_opacity(0)
        .show_points(common.VisibilityMode.AUTO)  # Shows a single value between two gaps.
        .tooltip(common_build.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI))
        .span(12)
        .height(8)
    )
    for target in targets:
        panel = panel.with_target(target)
    if any("{{broker}}" in (target.build().legend_format or "") for target in targets):
        panel = panel.data_links([_broker_page()])
    return panel.links([_runbook(alert)]) if alert is not None else panel


def bars(
    title: str, description: str, *targets: prometheus.Dataquery, alert: str | None = None, axis: str = ""
) -> timeseries.Panel:
    return (
        lines(title, description, COUNT, *targets, alert=alert, axis=axis)
        .draw_style(common.GraphDrawStyle.BARS)
        .fill_opacity(80)
        .stacking(common_build.StackingConfig().mode(common.StackingMode.NORMAL))
        .min(0)
    )


def from_here_on(panel: timeseries.Panel, value: float) -> timeseries.Panel:
    """Draws a fixed threshold as a dashed line."""
    dashed = common_build.GraphThresholdsStyleConfig().mode(common.GraphThresholdsStyleMode.DASHED)
    return panel.thresholds(thresholds((None, "transparent"), (value, RED))).thresholds_style(dashed)


def limit_line(panel: timeseries.Panel, name: str) -> timeseries.Panel:
    """Draws the line of this query as a limit: red and dashed."""
    return panel.override_by_name(name, styled(RED, dashed=True))


def reasons_in_words(
    panel: timeseries.Panel, texts: Mapping[Any, ReasonText], *, with_action: bool = True
) -> timeseries.Panel:
    """Shows each reason in the legend in words, with its code behind. The legend is a table below the graph.

    Args:
        with_action: whether the series are named ``ACTION_AND_REASON``; otherwise they are named by the reason alone.
    """
    table = common_build.VizLegendOptions().display_mode(common.LegendDisplayMode.TABLE)
    panel = panel.legend(table.placement(common.LegendPlacement.BOTTOM).show_legend(True).calcs([]))
    for reason, text in texts.items():
        words = f"{text.cause.partition(';')[0]} ({reason})"
        if with_action:
            panel = panel.override_by_regexp(f"/: {reason}$/", _named(f"${{__field.labels.action}}: {words}"))
        else:
            panel = panel.override_by_name(str(reason), _named(words))
    return panel


def in_words(panel: timeseries.Panel, names: Mapping[str, str]) -> timeseries.Panel:
    """Shows series under other names."""
    for name, words in names.items():
        panel = panel.override_by_name(name, _named(words))
    return panel


def _named(words: str) -> list[dashboard.DynamicConfigValue]:
    return [dashboard.DynamicConfigValue("displayName", words)]


def styled(color: str, *, dashed: bool) -> list[dashboard.DynamicConfigValue]:
    fill = {"fill": "dash", "dash": [8, 6]} if dashed else {"fill": "solid"}
    return [
        dashboard.DynamicConfigValue("color", {"mode": "fixed", "fixedColor": color}),
        dashboard.DynamicConfigValue("custom.lineStyle", fill),
    ]


def _description(description: str, alert: str | None) -> str:
    return description if alert is None else f"{description} Alert: {alert}."


def _runbook(alert: str) -> build.DashboardLink:
    link = build.DashboardLink(f"Runbook: {alert}").type(dashboard.DashboardLinkType.LINK)
    return link.url(f"${{runbook}}#{anchor(alert)}").target_blank(True)


def _broker_page() -> build.DashboardLink:
    """Returns the link that a click on a line offers: the broker of this line on the status page."""
    link = build.DashboardLink("Broker ${__field.labels.broker} on the status page").target_blank(True)
    return link.url("${page}/brokers?find=${__field.labels.broker}")


# -- the whole -----------------------------------------------------------------------------------------------------------


def make_dashboard(
    title: str, uid: str, description: str, rows: Rows, *, view: str = "/", days: int | None = None
) -> dashboard.Dashboard:
    """
    Args:
        uid: part of every link and bookmark, so it never changes.
        view: the view of the status page that shows the same subject.
        days: the time range that is shown at first; None means one hour.
    """
    board = (
        build.Dashboard(f"rheostat / {title}")
        .uid(uid)
        .description(f"{description} Generated by dashboards/build.py.")
        .tags([TAG, "kafka"])
        .time("now-1h" if days is None else f"now-{days}d", "now")
        .refresh("30s" if days is None else "10m")
        .timezone("browser")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .editable()
        .link(_others())
        .link(_status_page(view))
    )
    for variable in _variables():
        board = board.with_variable(variable)
    for annotation in _annotations(step_s=None if days is None else _ANNOTATION_STEP_S):
        board = board.annotation(annotation)
    panel_id = 0
    for row, panels in rows:
        panel_id += 1
        board = board.with_row(build.Row(row).id(panel_id))
        for panel in panels:
            panel_id += 1
            board = board.with_panel(panel.id(panel_id))
    return board.build()


def _others() -> build.DashboardLink:
    link = build.DashboardLink("rheostat").type(dashboard.DashboardLinkType.DASHBOARDS).tags([TAG])
    return link.as_dropdown(True).include_vars(True).keep_time(True)


def _status_page(view: str) -> build.DashboardLink:
    link = build.DashboardLink("Status page").type(dashboard.DashboardLinkType.LINK)
    return link.url(f"${{page}}{view}").target_blank(True)


def _variables() -> list[build.DatasourceVariable | build.QueryVariable | build.TextBoxVariable]:
    cluster = (
        build.QueryVariable("cluster")
        .label("Cluster")
        .datasource(DATA_SOURCE)
        # Of several clusters, the stream has the name of the metrics cluster, which may have no tuner.
        .query(f"label_values({ProcessMetric.STARTED_AT.name}, cluster)")
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.NATURAL_ASC)
    )
    broker = (
        build.QueryVariable("broker")
        .label("Broker")
        .datasource(DATA_SOURCE)
        .query(f'label_values({TunerMetric.SIGNAL_AGE_SECONDS.name}{{cluster="$cluster"}}, broker)')
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.NATURAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(dashboard.VariableOption(selected=True, text=["All"], value=["$__all"]))
    )
    # The addresses where the tuner of conf/ serves them; operators who publish them elsewhere change the variables.
    page = build.TextBoxVariable("page").label("Status page address").default_value(PAGE_AT)
    runbook = build.TextBoxVariable("runbook").label("Runbook address").default_value(RUNBOOK_AT)
    source = build.DatasourceVariable("datasource").label("Data source").type("prometheus")
    return [source, cluster, broker, page, runbook]


def _annotations(step_s: int | None = None) -> list[build.AnnotationQuery]:
    """Returns the vertical lines in every panel.

    Args:
        step_s: of both queries; None means short steps, for a time range of hours.
    """
    changes = decided(TunerMetric.DECISIONS, CHANGES, f"{step_s}s" if step_s is not None else "1m")
    paused = f'{TunerMetric.PAUSED.name}{{cluster="$cluster"}}'
    return [
        build.AnnotationQuery()
        .name("Decisions")
        .datasource(DATA_SOURCE)
        .enable(True)
        .icon_color("blue")
        .expr(f"{changes} > 0")
        .step(f"{step_s or 60}s")
        .title_format("{{action}}")
        .text_format("{{reason}}")
        .tag_keys("action,reason"),
        build.AnnotationQuery()
        .name("Paused by an operator")
        .datasource(DATA_SOURCE)
        .enable(True)
        .icon_color("orange")
        .expr(f"max by (cluster) ({paused}) > 0")
        .step(f"{step_s or 15}s")
        .title_format("paused")
        .text_format("an operator has paused the tuner, or ordered it to release its settings")
        .tag_keys("cluster"),
    ]
