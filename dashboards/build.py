"""Writes the Grafana dashboard 'rheostat / Reassignments'.

Read from top to bottom it answers, in this order: is anything wrong, does the move progress, what does the throttle
do and what binds it, do the clients notice, why did the tuner decide so, is anything left behind.

Metric names come from tuner/api/metric_defs.py, so that a renamed metric renames its panels. The output depends on
nothing else: the same source gives the same bytes.

    python -m dashboards.build            write the JSON
    python -m dashboards.build --check    exit 1 when the committed JSON is not what this file would write
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from grafana_foundation_sdk.builders import common as common_build
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common, dashboard

from tuner.api import metric_defs as metrics
from tuner.api.metric_defs import MetricDef

DASHBOARD_JSON = Path(__file__).parent / "rheostat-reassignments.json"
UID = "rheostat-reassignments"  # Links and bookmarks hang on it: never changes.
DATA_SOURCE = common.DataSourceRef(type_val="prometheus", uid="${datasource}")

# Colours and lines only: the verdicts themselves are metrics.
STALL_SCORE_SECONDS_MAX = 15.0  # As the meaning of the metric says.
SIGNAL_AGE_SECONDS_LATE, SIGNAL_AGE_SECONDS_STALE = 30.0, 60.0  # Two and four of the tuner's periods of 15 s.

BYTES, BYTES_PER_SECOND, SECONDS, COUNT = "decbytes", "Bps", "s", "short"  # Grafana's names; SI, as Kafka's docs count.
GREEN, YELLOW, RED = "green", "yellow", "red"


def select(metric: MetricDef, **matchers: str) -> str:
    """The metric in the chosen cluster and, where it has that label, on the chosen brokers."""
    terms = ['cluster="$cluster"']
    if "broker" in metric.labels:
        terms.append('broker=~"$broker"')
    terms += [f'{label}="{value}"' for label, value in matchers.items()]
    return f"{metric.name}{{{', '.join(terms)}}}"


def per_broker(metric: MetricDef, **matchers: str) -> str:
    """One line a broker, whichever process exported it: a restart elsewhere doesn't start a second line."""
    return f"max by (broker) ({select(metric, **matchers)})"


def query(expr: str, legend: str) -> prometheus.Dataquery:
    return prometheus.Dataquery().expr(expr).legend_format(legend).datasource(DATA_SOURCE).range()


def thresholds(*steps: tuple[float | None, str]) -> build.ThresholdsConfig:
    config = build.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE)
    return config.steps([dashboard.Threshold(value=value, color=color) for value, color in steps])


def verdict(
    title: str,
    description: str,
    expr: str,
    steps: build.ThresholdsConfig,
    unit: str = COUNT,
    words: dict[str, str] | None = None,
) -> stat.Panel:
    """One number that is green when all is well."""
    panel = (
        stat.Panel()
        .title(title)
        .description(description)
        .datasource(DATA_SOURCE)
        .unit(unit)
        .thresholds(steps)
        .no_value("no data")
        .graph_mode(common.BigValueGraphMode.NONE)
        .color_mode(common.BigValueColorMode.BACKGROUND)
        .reduce_options(common_build.ReduceDataOptions().calcs(["lastNotNull"]))
        .span(3)
        .height(4)
        .with_target(query(expr, title))
    )
    if words is not None:
        named = {value: dashboard.ValueMappingResult(text=text) for value, text in words.items()}
        panel = panel.mappings([dashboard.ValueMap(options=named)])
    return panel


def lines(title: str, description: str, unit: str, *targets: prometheus.Dataquery) -> timeseries.Panel:
    panel = (
        timeseries.Panel()
        .title(title)
        .description(description)
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
    return panel


def bars(title: str, description: str, *targets: prometheus.Dataquery) -> timeseries.Panel:
    return (
        lines(title, description, COUNT, *targets)
        .draw_style(common.GraphDrawStyle.BARS)
        .fill_opacity(80)
        .stacking(common_build.StackingConfig().mode(common.StackingMode.NORMAL))
        .min(0)
    )


def overview() -> list[stat.Panel]:
    none_is_well = thresholds((None, GREEN), (1, RED))
    return [
        verdict(
            "Tuner",
            "Ready while the tuner sees the cluster and fresh signals. A tuner that isn't there counts as not ready.",
            f"max({select(metrics.READY)}) or vector(0)",
            thresholds((None, RED), (1, GREEN)),
            words={"0": "not ready", "1": "ready"},
        ),
        verdict(
            "Mode",
            "In a dry run the tuner decides and writes nothing: the throttle stays as somebody else left it.",
            f"max({select(metrics.DRY_RUN)})",
            thresholds((None, GREEN), (1, YELLOW)),
            words={"0": "acting", "1": "dry run"},
        ),
        verdict(
            "Oldest signal",
            "Age of the newest sample of the broker that has been silent longest. The tuner never raises a throttle on "
            "stale signals.",
            f"max({select(metrics.SIGNAL_AGE_SECONDS)})",
            thresholds((None, GREEN), (SIGNAL_AGE_SECONDS_LATE, YELLOW), (SIGNAL_AGE_SECONDS_STALE, RED)),
            unit=SECONDS,
        ),
        verdict(
            "Stalled moves",
            "Destination brokers whose move is judged stalled. Alert: ReassignmentStalled.",
            f"sum({per_broker(metrics.STALLED)})",
            none_is_well,
        ),
        verdict(
            "Infeasible throttles",
            "Broker sides where no throttle up to the ceiling ends the move. Alert: ThrottleInfeasible.",
            f"sum(max by (broker, side) ({select(metrics.INFEASIBLE)}))",
            none_is_well,
        ),
        verdict(
            "Partitions moving",
            "Partitions being reassigned now, as the controller lists them.",
            f"max({select(metrics.REASSIGNING_PARTITIONS)})",
            thresholds((None, "blue")),
        ),
        verdict(
            "Failed writes",
            "Writes to the cluster that failed or did not read back, within the time range shown.",
            f"sum(increase({select(metrics.ACTUATION_FAILURES)}[$__range]))",
            none_is_well,
        ),
        verdict(
            "Idle throttle settings",
            "Rates and replica lists standing while nothing is being reassigned. Alert: ThrottleLeftBehind.",
            f"max({select(metrics.THROTTLE_KEYS_IDLE)})",
            none_is_well,
        ),
    ]


def progress() -> list[timeseries.Panel]:
    return [
        lines(
            "Remaining, per destination broker",
            "Bytes that adding replicas on each broker still lack, from log sizes. It should fall to zero.",
            BYTES,
            query(per_broker(metrics.REMAINING_BYTES), "broker {{broker}}"),
        ).min(0),
        lines(
            "Trend of remaining, per destination broker",
            "Below zero the move progresses; at or above zero producers write as fast as replicas catch up, or faster.",
            BYTES_PER_SECOND,
            query(per_broker(metrics.REMAINING_SLOPE), "broker {{broker}}"),
        ).axis_centered_zero(True),
        lines(
            "Seconds of expected progress lost",
            "The evidence behind 'stalled': it grows while a move makes less than half of the progress expected of "
            "it, shrinks while it makes more. Stalled above the red line.",
            SECONDS,
            query(per_broker(metrics.STALL_SCORE_SECONDS), "broker {{broker}}"),
        )
        .min(0)
        .axis_soft_max(2 * STALL_SCORE_SECONDS_MAX)
        .thresholds(thresholds((None, "transparent"), (STALL_SCORE_SECONDS_MAX, RED)))
        .thresholds_style(
            common_build.GraphThresholdsStyleConfig().mode(common.GraphThresholdsStyleMode.DASHED),
        ),
        lines(
            "Age of signals",
            "Age of the newest sample behind each broker's signal. The tuner holds on late signals and never raises.",
            SECONDS,
            query(per_broker(metrics.SIGNAL_AGE_SECONDS), "broker {{broker}}"),
        ).min(0),
    ]


def throttle(side: str) -> timeseries.Panel:
    """All that bounds one side of one broker; Grafana repeats it for each chosen broker."""

    def styled(color: str, dashed: bool) -> list[dashboard.DynamicConfigValue]:
        fill = {"fill": "dash", "dash": [8, 6]} if dashed else {"fill": "solid"}
        return [
            dashboard.DynamicConfigValue("color", {"mode": "fixed", "fixedColor": color}),
            dashboard.DynamicConfigValue("custom.lineStyle", fill),
        ]

    return (
        lines(
            f"Broker $broker, {side} side",
            "live: the throttle set on the broker, absent while none is set. wanted: where the tuner is taking it, "
            "absent while it holds. measured: bytes that count against the throttle, Kafka's own 11 s mean. "
            "keep-up W: what the throttle must carry before anything catches up; at or below it the move never ends. "
            "ceiling: the operator's.",
            BYTES_PER_SECOND,
            query(per_broker(metrics.RATE_LIVE, side=side), "live"),
            query(per_broker(metrics.RATE_WANTED, side=side), "wanted"),
            query(per_broker(metrics.THROTTLED_BYTES, side=side), "measured"),
            query(per_broker(metrics.KEEP_UP_BYTES, side=side), "keep-up W"),
            query(f"max({select(metrics.RATE_MAX)})", "ceiling"),
        )
        .min(0)
        .repeat("broker")
        .repeat_direction("h")
        .max_per_row(3)
        .override_by_name("live", styled("blue", dashed=False))
        .override_by_name("wanted", styled("blue", dashed=True))
        .override_by_name("measured", styled("green", dashed=False))
        .override_by_name("keep-up W", styled("orange", dashed=True))
        .override_by_name("ceiling", styled("red", dashed=True))
    )


def clients() -> list[timeseries.Panel]:
    return [
        lines(
            "Produce latency, 99th percentile",
            "As each broker reports it. While it is above its objective the tuner gives way to the producers.",
            SECONDS,
            query(per_broker(metrics.PRODUCE_P99_SECONDS), "broker {{broker}}"),
        )
        .min(0)
        .span(24)
    ]


def decisions() -> list[timeseries.Panel]:
    def by_reason(action_matcher: str) -> str:
        expr = f'increase({metrics.DECISIONS.name}{{cluster="$cluster", {action_matcher}}}[$__rate_interval])'
        return f"sum by (action, reason) ({expr})"

    return [
        bars(
            "Decisions that change something, by reason",
            "Why a number changed. The journal holds each decision with its inputs.",
            query(by_reason('action!="hold"'), "{{action}}: {{reason}}"),
        ),
        bars(
            "Decisions to hold, by reason",
            "Why a number did not change.",
            query(by_reason('action="hold"'), "{{reason}}"),
        ),
    ]


def left_behind() -> list[timeseries.Panel]:
    return [
        lines(
            "Idle throttle settings and partitions moving",
            "Throttle settings standing while nothing is being reassigned slow down ordinary recovery of replicas. "
            "After a reassignment the count returns to zero.",
            COUNT,
            query(f"max({select(metrics.THROTTLE_KEYS_IDLE)})", "idle throttle settings"),
            query(f"max({select(metrics.REASSIGNING_PARTITIONS)})", "partitions moving"),
        )
        .min(0)
        .span(24)
    ]


def variables() -> list[build.DatasourceVariable | build.QueryVariable]:
    cluster = (
        build.QueryVariable("cluster")
        .label("Cluster")
        .datasource(DATA_SOURCE)
        .query(f"label_values({metrics.READY.name}, cluster)")
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.NATURAL_ASC)
    )
    broker = (
        build.QueryVariable("broker")
        .label("Broker")
        .datasource(DATA_SOURCE)
        .query(f'label_values({metrics.SIGNAL_AGE_SECONDS.name}{{cluster="$cluster"}}, broker)')
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.NATURAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(dashboard.VariableOption(selected=True, text=["All"], value=["$__all"]))
    )
    return [build.DatasourceVariable("datasource").label("Data source").type("prometheus"), cluster, broker]


def reassignments() -> dashboard.Dashboard:
    rows: list[tuple[str, Sequence[stat.Panel | timeseries.Panel]]] = [
        ("Is anything wrong?", overview()),
        ("Does the move progress?", progress()),
        ("Throttle, leader side", [throttle("leader")]),
        ("Throttle, follower side", [throttle("follower")]),
        ("Do the clients notice?", clients()),
        ("Why did the tuner decide so?", decisions()),
        ("Is anything left behind?", left_behind()),
    ]
    board = (
        build.Dashboard("rheostat / Reassignments")
        .uid(UID)
        .description("Replication throttles as rheostat turns them. Generated by dashboards/build.py.")
        .tags(["rheostat", "kafka"])
        .time("now-1h", "now")
        .refresh("30s")
        .timezone("browser")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .editable()
    )
    for variable in variables():
        board = board.with_variable(variable)
    panel_id = 0
    for title, panels in rows:
        panel_id += 1
        board = board.with_row(build.Row(title).id(panel_id))
        for panel in panels:
            panel_id += 1
            board = board.with_panel(panel.id(panel_id))
    return board.build()


def render() -> str:
    return JSONEncoder(sort_keys=True, indent=2).encode(reassignments()) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m dashboards.build", description="Writes the Grafana dashboard.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the JSON is not current")
    wants_check = parser.parse_args(arguments).check
    wanted = render()
    if not wants_check:
        DASHBOARD_JSON.write_text(wanted, encoding="utf-8")
        print(f"wrote {DASHBOARD_JSON}")
        return 0
    found = DASHBOARD_JSON.read_text(encoding="utf-8") if DASHBOARD_JSON.exists() else None
    if found == wanted:
        return 0
    state = "is missing" if found is None else "is not what dashboards/build.py writes"
    print(f"{DASHBOARD_JSON} {state}: run `python -m dashboards.build` and commit the result", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
