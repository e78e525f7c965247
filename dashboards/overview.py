"""The dashboard to open first: is anything wrong, are clients affected, and what is the tuner doing?"""

from __future__ import annotations

from grafana_foundation_sdk.builders import stat, timeseries
from grafana_foundation_sdk.models import dashboard

from dashboards.parts import (
    ACTION_AND_REASON,
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
    make_dashboard,
    most,
    none_is_well,
    per,
    per_broker,
    query,
    reasons_in_words,
    select,
    thresholds,
    verdict,
)
from streaming.shared.metric_defs import ProcessMetric, TunerMetric
from tuner.control.throttle.reason_texts import REASON_TEXTS

UID = "rheostat-overview"


def wrong() -> list[stat.Panel]:
    """The cluster."""
    return [
        verdict(
            "Stalled moves",
            "Brokers onto which a move has stalled. Above 0, a move may never end: `rheostat status` says what "
            "limits it.",
            f"sum({per_broker(TunerMetric.STALLED)}) or vector(0)",
            none_is_well(),
            alert="ReassignmentStalled",
        ),
        verdict(
            "Infeasible throttles",
            "Throttles (leader or follower, by broker) for which steady-state replication is at or above the ceiling. "
            "Above 0, a move cannot end: raise "
            "tuner.rate_bytes_per_s_max, or move fewer partitions at a time.",
            f"sum(max by (broker, side) ({select(TunerMetric.INFEASIBLE)})) or vector(0)",
            none_is_well(),
            alert="ThrottleInfeasible",
        ),
        verdict(
            "Partitions under min ISR",
            "Partitions with fewer in-sync replicas than min.insync.replicas. Above 0, Kafka refuses producers with "
            "acks=all: bring the missing broker back.",
            f"sum({per_broker(TunerMetric.UNDER_MIN_ISR)})",
            none_is_well(),
            alert="UnderMinIsrDuringMove",
        ),
        verdict(
            "Produce latency against its objective",
            "p99 produce latency relative to the broker's objective, for the broker with the highest ratio. Above 100 %, "
            "the tuner lowers throttles. If the latency stays high, see the runbook. No data without an objective.",
            f"max({per_broker(TunerMetric.PRODUCE_P99_SECONDS)} / {per_broker(TunerMetric.LATENCY_OBJECTIVE_SECONDS)})",
            thresholds((None, GREEN), (0.9, YELLOW), (1, RED)),
            unit="percentunit",
            alert="ClientLatencyOverObjective",
        ),
        verdict(
            "Controller pressure",
            "Load of the controller: measured value ÷ limit, for the measure with the highest ratio. Above 100 %, the "
            "controller creates topics too slowly or nodes apply metadata too late, and the tuner lowers the total rate. "
            "No data without mutation quotas.",
            most(TunerMetric.CONTROLLER_PRESSURE),
            thresholds((None, GREEN), (0.85, YELLOW), (1, RED)),
            unit="percentunit",
            alert="ControllerUnderPressure",
        ),
        verdict(
            "Throttled tenants",
            "Tenants whose mutation quota is exhausted now. Above 0, the creations and deletions of these tenants wait: "
            "`rheostat quotas` names the tenants.",
            most(TunerMetric.TENANTS_THROTTLED),
            thresholds((None, GREEN), (1, YELLOW)),
            alert="TenantQuotaExhausted",
        ),
        verdict(
            "Orphaned throttle settings",
            "Throttle rates and throttled-replica lists that no reassignment needs. Above 0, these settings slow down "
            "replicas that have to catch up: the runbook says how to remove them.",
            most(TunerMetric.ORPHANED_THROTTLE_SETTINGS),
            none_is_well(),
            alert="ThrottleLeftBehind",
        ),
        verdict(
            "Throttles that need attention",
            "Throttles that the tuner could not judge in the last cycle, or with which a move cannot end; at most 100. "
            "If it is above 0, run `rheostat status`: it shows the reason of each throttle.",
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
            "Ready: the tuner has current data of the cluster and fresh signals. Not ready, or no tuner runs: `rheostat "
            "status` says what is missing.",
            f"{most(TunerMetric.READY)} or vector(0)",
            thresholds((None, RED), (1, GREEN)),
            words={"0": "not ready", "1": "ready"},
        ),
        verdict(
            "Active tuner",
            "Whether a tuner of this cluster holds the lease; a dry run does not count. None: throttles and "
            "quotas keep their values, so start a tuner.",
            f"max({select(TunerMetric.ACTIVE)} unless {select(TunerMetric.DRY_RUN)} == 1) or vector(0)",
            thresholds((None, RED), (1, GREEN)),
            words={"0": "none", "1": "yes"},
            alert="TunerNotLeading",
        ),
        verdict(
            "Mode",
            "Dry run: the tuner makes decisions, but writes nothing to the cluster. If another tuner acts, the panel "
            "does not show the dry run.",
            least(TunerMetric.DRY_RUN),
            thresholds((None, GREEN), (1, YELLOW)),
            words={"0": "active", "1": "dry run"},
        ),
        verdict(
            "Paused",
            "Whether an operator has paused the tuner. A paused tuner changes nothing until `rheostat resume`.",
            most(TunerMetric.PAUSED),
            thresholds((None, GREEN), (1, YELLOW)),
            words={"0": "no", "1": "by an operator"},
        ),
        verdict(
            "Overrides",
            "Throttles with a rate that an operator ordered for a time. `rheostat status` shows who ordered the rate, "
            "and until when.",
            f"count({select(TunerMetric.OVERRIDE_UNTIL)}) or vector(0)",
            thresholds((None, GREEN), (1, YELLOW)),
            alert="OperatorOverrideInForce",
        ),
        verdict(
            "Oldest signal",
            "Age of the newest sample, for the broker whose newest sample is the oldest. If signals are too old, the "
            "tuner raises no "
            "throttle. If the age stays high, `rheostat doctor` checks collector and stream.",
            most(TunerMetric.SIGNAL_AGE_SECONDS),
            thresholds((None, GREEN), (SIGNAL_AGE_SECONDS_LATE, YELLOW), (SIGNAL_AGE_SECONDS_STALE, RED)),
            unit=SECONDS,
            alert="SignalsStale",
        ),
        verdict(
            "Failed writes",
            "Writes to the cluster that failed, or whose new value was missing when the tuner read it back, in the time "
            "range shown. If it is above 0, run `rheostat"
            " doctor`: it checks permissions and brokers.",
            grown(TunerMetric.ACTUATION_FAILURES, over="$__range"),
            none_is_well(),
            alert="TunerActuationFailing",
        ),
        verdict(
            "Settings file",
            "Whether every process would start with the present settings file. Invalid: `rheostat config "
            "check` names the error.",
            f"min({select(ProcessMetric.CONFIG_VALID)})",
            thresholds((None, RED), (1, GREEN)),
            words={"0": "invalid", "1": "valid"},
            alert="ConfigReloadFailed",
        ),
    ]


def doing() -> list[stat.Panel | timeseries.Panel]:
    blue = thresholds((None, "blue"))
    return [
        verdict(
            "Partitions moving",
            "Partitions in reassignment, as the controller lists them.",
            most(TunerMetric.REASSIGNING_PARTITIONS),
            blue,
            span=8,
        ),
        verdict(
            "Left to copy",
            "Bytes that are left to copy in all moves.",
            f"sum({per_broker(TunerMetric.REMAINING_BYTES)}) or vector(0)",
            blue,
            unit=BYTES,
            span=8,
        ),
        verdict(
            "Expected end",
            "When all running and planned moves will have ended. No data while this is unknown, or while a move "
            "has stalled.",
            f"{most(TunerMetric.EXPECTED_END)} * 1000",
            blue,
            unit=FROM_NOW,
            span=8,
        ),
        reasons_in_words(
            bars(
                "Throttles, by decision of the last cycle",
                "Number of throttles (leader or follower, by broker) that take part in moves, by action and reason of "
                "the tuner's last decision. The reference page of the reasons says what to do.",
                query(per("action, reason", TunerMetric.SIDES), ACTION_AND_REASON),
                axis="throttles",
            ),
            REASON_TEXTS,
        ),
        reasons_in_words(
            bars(
                "Changes by the tuner",
                "Decisions that changed a throttle setting, by action and reason. The journal has each decision with its inputs.",
                query(decided(TunerMetric.DECISIONS, CHANGES), ACTION_AND_REASON),
                axis="decisions",
            ),
            REASON_TEXTS,
        ),
    ]


def clients() -> list[timeseries.Panel]:
    return [
        limit_line(
            lines(
                "Produce latency (p99)",
                "p99 produce latency of the slowest broker, and the highest objective of all brokers. If a broker is "
                "above its objective, the tuner lowers its throttles. If the latency stays above the objective, another "
                "load is the cause.",
                SECONDS,
                query(most(TunerMetric.PRODUCE_P99_SECONDS), "slowest broker"),
                query(most(TunerMetric.LATENCY_OBJECTIVE_SECONDS), "objective"),
            ).min(0),
            "objective",
        ),
        limit_line(
            lines(
                "Age of the tuner's data",
                "Age of the cluster snapshot, and of the newest sample of each kind of signal. Above the dashed line "
                "the tuner raises no throttle: check collector and stream with `rheostat doctor`.",
                SECONDS,
                query(per("input", TunerMetric.INPUT_AGE_SECONDS), "{{input}}"),
                query(most(TunerMetric.SIGNAL_AGE_MAX), "maximum signal age"),
            ).min(0),
            "maximum signal age",
        ),
    ]


def board() -> dashboard.Dashboard:
    return make_dashboard(
        "Overview",
        UID,
        "Is anything wrong, are clients affected, and what is the tuner doing?",
        [
            ("Is anything wrong with the cluster?", wrong()),
            ("Does rheostat work?", itself()),
            ("Are clients affected, and is the data current?", clients()),
            ("What is the tuner doing?", doing()),
        ],
    )
