"""Is anything wrong, and what is rheostat doing? The board to open first, and to leave open."""

from __future__ import annotations

from grafana_foundation_sdk.builders import stat, timeseries
from grafana_foundation_sdk.models import dashboard

from dashboards.parts import (
    BYTES,
    CHANGES,
    FROM_NOW,
    GREEN,
    RED,
    SECONDS,
    SIGNAL_AGE_SECONDS_LATE,
    SIGNAL_AGE_SECONDS_STALE,
    YELLOW,
    bars,
    decided,
    grown,
    least,
    limit_line,
    lines,
    made,
    most,
    none_is_well,
    per,
    per_broker,
    query,
    select,
    thresholds,
    verdict,
)
from streaming.shared.metric_defs import ProcessMetric, TunerMetric

UID = "rheostat-overview"


def wrong() -> list[stat.Panel]:
    """The cluster."""
    return [
        verdict(
            "Stalled moves",
            "Destination brokers whose move is judged stalled.",
            f"sum({per_broker(TunerMetric.STALLED)}) or vector(0)",
            none_is_well(),
            alert="ReassignmentStalled",
        ),
        verdict(
            "Infeasible throttles",
            "Broker sides where no throttle up to the ceiling ends the move.",
            f"sum(max by (broker, side) ({select(TunerMetric.INFEASIBLE)})) or vector(0)",
            none_is_well(),
            alert="ThrottleInfeasible",
        ),
        verdict(
            "Under min ISR",
            "Partitions that take no writes with acks=all, as too few replicas are in sync.",
            f"sum({per_broker(TunerMetric.UNDER_MIN_ISR)})",
            none_is_well(),
            alert="UnderMinIsrDuringMove",
        ),
        verdict(
            "Worst produce latency",
            "99th percentile of the broker where it is longest, over the objective: 100 % is as long as promised. Absent "
            "without an objective.",
            f"{most(TunerMetric.PRODUCE_P99_SECONDS)} / {most(TunerMetric.LATENCY_OBJECTIVE_SECONDS)}",
            thresholds((None, GREEN), (0.9, YELLOW), (1, RED)),
            unit="percentunit",
            alert="ClientLatencyOverObjective",
        ),
        verdict(
            "Controller pressure",
            "Of its worst objective: 100 % is as hard as it may be pressed. Absent where no mutation quotas are turned.",
            most(TunerMetric.CONTROLLER_PRESSURE),
            thresholds((None, GREEN), (0.85, YELLOW), (1, RED)),
            unit="percentunit",
            alert="ControllerUnderPressure",
        ),
        verdict(
            "Tenants held back",
            "Tenants whose mutation quota is exhausted now.",
            most(TunerMetric.TENANTS_THROTTLED),
            thresholds((None, GREEN), (1, YELLOW)),
            alert="TenantQuotaExhausted",
        ),
        verdict(
            "Idle throttle settings",
            "Rates and replica lists that stand on brokers where nothing is being reassigned.",
            most(TunerMetric.ORPHANED_THROTTLE_SETTINGS),
            none_is_well(),
            alert="ThrottleLeftBehind",
        ),
        verdict(
            "Not judged, or not to be helped",
            "Throttles that the last cycle could not judge, or that turning does not help; the first hundred.",
            f"count({select(TunerMetric.NEEDS_ATTENTION)}) or vector(0)",
            thresholds((None, GREEN), (1, YELLOW)),
            alert="SignalsStale",
        ),
    ]


def itself() -> list[stat.Panel]:
    """rheostat."""
    return [
        verdict(
            "Tuner",
            "Ready while the tuner sees the cluster and fresh signals. A tuner that isn't there counts as not ready.",
            f"{most(TunerMetric.READY)} or vector(0)",
            thresholds((None, RED), (1, GREEN)),
            words={"0": "not ready", "1": "ready"},
        ),
        verdict(
            "Leading",
            "Whether some tuner of this cluster has the lease. One that looks on in a dry run turns nothing, and is none.",
            f"max({select(TunerMetric.ACTING)} unless {select(TunerMetric.DRY_RUN)} == 1) or vector(0)",
            thresholds((None, RED), (1, GREEN)),
            words={"0": "nobody", "1": "yes"},
            alert="TunerNotLeading",
        ),
        verdict(
            "Mode",
            "In a dry run the tuner decides and writes nothing: the throttle stays as somebody else left it. One that looks on "
            "beside others does not count.",
            least(TunerMetric.DRY_RUN),
            thresholds((None, GREEN), (1, YELLOW)),
            words={"0": "acting", "1": "dry run"},
        ),
        verdict(
            "Paused",
            "Whether a person has paused the tuner.",
            most(TunerMetric.PAUSED),
            thresholds((None, GREEN), (1, YELLOW)),
            words={"0": "no", "1": "by a person"},
        ),
        verdict(
            "Overrides",
            "Throttles that a person has set for a while.",
            f"count({select(TunerMetric.OVERRIDE_UNTIL)}) or vector(0)",
            thresholds((None, GREEN), (1, YELLOW)),
            alert="OperatorOverrideInForce",
        ),
        verdict(
            "Oldest signal",
            "Age of the newest sample of the broker that has been silent longest. No throttle is raised on stale signals.",
            most(TunerMetric.SIGNAL_AGE_SECONDS),
            thresholds((None, GREEN), (SIGNAL_AGE_SECONDS_LATE, YELLOW), (SIGNAL_AGE_SECONDS_STALE, RED)),
            unit=SECONDS,
            alert="SignalsStale",
        ),
        verdict(
            "Failed writes",
            "Writes to the cluster that failed or did not read back, within the time range shown.",
            grown(TunerMetric.ACTUATION_FAILURES, over="$__range"),
            none_is_well(),
            alert="TunerActuationFailing",
        ),
        verdict(
            "Settings file",
            "Whether the next start of every part would take the settings file as it stands now.",
            f"min({select(ProcessMetric.CONFIG_VALID)})",
            thresholds((None, RED), (1, GREEN)),
            words={"0": "would be refused", "1": "in order"},
            alert="ConfigReloadFailed",
        ),
    ]


def doing() -> list[stat.Panel | timeseries.Panel]:
    blue = thresholds((None, "blue"))
    return [
        verdict(
            "Partitions moving",
            "Partitions being reassigned now, as the controller lists them.",
            most(TunerMetric.REASSIGNING_PARTITIONS),
            blue,
            span=8,
        ),
        verdict(
            "Still to be copied",
            "Bytes that all adding replicas still lack.",
            f"sum({per_broker(TunerMetric.REMAINING_BYTES)}) or vector(0)",
            blue,
            unit=BYTES,
            span=8,
        ),
        verdict(
            "Done",
            "When all that moves or is planned has ended; absent while that is not known, or while a move has stalled.",
            f"{most(TunerMetric.EXPECTED_END)} * 1000",
            blue,
            unit=FROM_NOW,
            span=8,
        ),
        bars(
            "Throttles, by what the last cycle decided",
            "Every side of every broker that takes part in a move, by action and reason.",
            query(per("action, reason", TunerMetric.SIDES), "{{action}}: {{reason}}"),
        ),
        bars(
            "Decisions that change something",
            "By action and reason; the journal holds each with its inputs.",
            query(decided(TunerMetric.DECISIONS, CHANGES), "{{action}}: {{reason}}"),
        ),
    ]


def notice() -> list[timeseries.Panel]:
    return [
        limit_line(
            lines(
                "Produce latency, 99th percentile",
                "The slowest broker, and what clients are promised.",
                SECONDS,
                query(most(TunerMetric.PRODUCE_P99_SECONDS), "slowest broker"),
                query(most(TunerMetric.LATENCY_OBJECTIVE_SECONDS), "objective"),
            ).min(0),
            "objective",
        ),
        limit_line(
            lines(
                "Age of what the tuner knows",
                "The look at the cluster, and of each kind of signal the newest sample. The tuner never raises a throttle on "
                "signals older than the line.",
                SECONDS,
                query(per("input", TunerMetric.INPUT_AGE_SECONDS), "{{input}}"),
                query(most(TunerMetric.SIGNAL_AGE_MAX), "raises nothing above"),
            ).min(0),
            "raises nothing above",
        ),
    ]


def board() -> dashboard.Dashboard:
    return made(
        "Overview",
        UID,
        "Is anything wrong, and what is rheostat doing?",
        [
            ("Is anything wrong with the cluster?", wrong()),
            ("Is anything wrong with rheostat?", itself()),
            ("What is it doing?", doing()),
            ("Does anybody notice?", notice()),
        ],
    )
