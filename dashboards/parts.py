"""What every dashboard is made of: queries of our metrics, panels in one look, variables, links, annotations.

Metric names come from their definitions, so that a renamed metric renames its panels. A panel repeats the tuner's verdict and
judges nothing itself: colours and lines only.
"""

from __future__ import annotations

from collections.abc import Sequence

from grafana_foundation_sdk.builders import common as common_build
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import prometheus, stat, timeseries
from grafana_foundation_sdk.models import common, dashboard

from dashboards.runbook_page import RUNBOOK_AT, anchor
from streaming.shared.metric_def import MetricDef
from streaming.shared.metric_defs import TunerMetric

Panel = stat.Panel | timeseries.Panel
Rows = Sequence[tuple[str, Sequence[Panel]]]

TAG = "rheostat"
DATA_SOURCE = common.DataSourceRef(type_val="prometheus", uid="${datasource}")

# As the meaning of the metric says; two and four of the tuner's periods of 15 s.
STALL_SCORE_SECONDS_MAX = 15.0
SIGNAL_AGE_SECONDS_LATE, SIGNAL_AGE_SECONDS_STALE = 30.0, 60.0

# Grafana's names; SI, as Kafka's docs count.
BYTES, BYTES_PER_SECOND, SECONDS, COUNT, RATIO, PER_SECOND = "decbytes", "Bps", "s", "short", "percentunit", "cps"
FROM_NOW = "dateTimeFromNow"
CHANGES = '!~"hold|steer"'  # Actions that change something; the law's every second would be a curtain.
GREEN, YELLOW, RED = "green", "yellow", "red"


# -- queries -------------------------------------------------------------------------------------------------------------


def select(metric: MetricDef, **matchers: str) -> str:
    """The metric in the chosen cluster and, where it has that label, on the chosen brokers."""
    terms = ['cluster="$cluster"']
    if "broker" in metric.labels:
        terms.append('broker=~"$broker"')
    terms += [f'{label}="{value}"' for label, value in matchers.items()]
    return f"{metric.name}{{{', '.join(terms)}}}"


def most(metric: MetricDef, **matchers: str) -> str:
    """Of the cluster, whichever process exported it: a restart elsewhere doesn't start a second line."""
    return f"max({select(metric, **matchers)})"


def least(metric: MetricDef, **matchers: str) -> str:
    return f"min({select(metric, **matchers)})"


def per(labels: str, metric: MetricDef, **matchers: str) -> str:
    return f"max by ({labels}) ({select(metric, **matchers)})"


def per_broker(metric: MetricDef, **matchers: str) -> str:
    return per("broker", metric, **matchers)


def grown(metric: MetricDef, by: str = "", over: str = "$__rate_interval", **matchers: str) -> str:
    """How much a counter has gone up, in all or by these labels."""
    return f"sum{f' by ({by}) ' if by else ''}(increase({select(metric, **matchers)}[{over}]))"


def decided(metric: MetricDef, actions: str = "", over: str = "$__rate_interval") -> str:
    """How often something was decided, by action and reason.

    A reason's first time is its series' first value, which ``increase`` does not see: where there was no series before, all of it
    is new.

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
    """One number that is green when all is well.

    Args:
        alert: whose section of the runbook says what to do when it is not.
    """
    panel = (
        stat.Panel()
        .title(title)
        .description(_told(description, alert))
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
    title: str, description: str, unit: str, *targets: prometheus.Dataquery, alert: str | None = None
) -> timeseries.Panel:
    panel = (
        timeseries.Panel()
        .title(title)
        .description(_told(description, alert))
        .datasource(DATA_SOURCE)
        .unit(unit)
        .line_width(1)
        .fill_opacity(0)
        .show_points(common.VisibilityMode.AUTO)  # A value that stands alone between two gaps is still seen.
        .tooltip(common_build.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI))
        .span(12)
        .height(8)
    )
    for target in targets:
        panel = panel.with_target(target)
    return panel.links([_runbook(alert)]) if alert is not None else panel


def bars(title: str, description: str, *targets: prometheus.Dataquery, alert: str | None = None) -> timeseries.Panel:
    return (
        lines(title, description, COUNT, *targets, alert=alert)
        .draw_style(common.GraphDrawStyle.BARS)
        .fill_opacity(80)
        .stacking(common_build.StackingConfig().mode(common.StackingMode.NORMAL))
        .min(0)
    )


def from_here_on(panel: timeseries.Panel, value: float) -> timeseries.Panel:
    """Draws a fixed value as a line from which on it is not well."""
    dashed = common_build.GraphThresholdsStyleConfig().mode(common.GraphThresholdsStyleMode.DASHED)
    return panel.thresholds(thresholds((None, "transparent"), (value, RED))).thresholds_style(dashed)


def limit_line(panel: timeseries.Panel, name: str) -> timeseries.Panel:
    """Draws this query's line as what is allowed, beside what is."""
    return panel.override_by_name(name, styled(RED, dashed=True))


def styled(color: str, *, dashed: bool) -> list[dashboard.DynamicConfigValue]:
    fill = {"fill": "dash", "dash": [8, 6]} if dashed else {"fill": "solid"}
    return [
        dashboard.DynamicConfigValue("color", {"mode": "fixed", "fixedColor": color}),
        dashboard.DynamicConfigValue("custom.lineStyle", fill),
    ]


def _told(description: str, alert: str | None) -> str:
    return description if alert is None else f"{description} Alert: {alert}."


def _runbook(alert: str) -> build.DashboardLink:
    link = build.DashboardLink(f"Runbook: {alert}").type(dashboard.DashboardLinkType.LINK)
    return link.url(f"${{runbook}}#{anchor(alert)}").target_blank(True)


# -- the whole -----------------------------------------------------------------------------------------------------------


def made(title: str, uid: str, description: str, rows: Rows) -> dashboard.Dashboard:
    """
    Args:
        uid: links and bookmarks hang on it: never changes.
    """
    board = (
        build.Dashboard(f"rheostat / {title}")
        .uid(uid)
        .description(f"{description} Generated by dashboards/build.py.")
        .tags([TAG, "kafka"])
        .time("now-1h", "now")
        .refresh("30s")
        .timezone("browser")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .editable()
        .link(_others())
    )
    for variable in _variables():
        board = board.with_variable(variable)
    for annotation in _annotations():
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


def _variables() -> list[build.DatasourceVariable | build.QueryVariable | build.TextBoxVariable]:
    cluster = (
        build.QueryVariable("cluster")
        .label("Cluster")
        .datasource(DATA_SOURCE)
        .query(f"label_values({TunerMetric.READY.name}, cluster)")
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
    # Where the tuner of conf/ serves it; who publishes it elsewhere says where.
    runbook = build.TextBoxVariable("runbook").label("Runbook at").default_value(RUNBOOK_AT)
    return [build.DatasourceVariable("datasource").label("Data source").type("prometheus"), cluster, broker, runbook]


def _annotations() -> list[build.AnnotationQuery]:
    """Vertical lines in every panel."""
    changes = decided(TunerMetric.DECISIONS, CHANGES, "1m")
    people = f'{TunerMetric.PAUSED.name}{{cluster="$cluster"}}'
    return [
        build.AnnotationQuery()
        .name("Decisions")
        .datasource(DATA_SOURCE)
        .enable(True)
        .icon_color("blue")
        .expr(f"{changes} > 0")
        .step("60s")
        .title_format("{{action}}")
        .text_format("{{reason}}")
        .tag_keys("action,reason"),
        build.AnnotationQuery()
        .name("Paused by a person")
        .datasource(DATA_SOURCE)
        .enable(True)
        .icon_color("orange")
        .expr(f"max by (cluster) ({people}) > 0")
        .step("15s")
        .title_format("paused")
        .text_format("a person has paused the tuner, or made it release what is its")
        .tag_keys("cluster"),
    ]
