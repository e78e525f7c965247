"""Moves: is anything wrong, do they progress, are clients affected, what does each throttle do and why, is anything left over."""

from __future__ import annotations

from grafana_foundation_sdk.builders import stat, timeseries
from grafana_foundation_sdk.models import dashboard

from dashboards.parts import (
    ACTION_AND_REASON,
    BYTES,
    BYTES_PER_SECOND,
    COUNT,
    FROM_NOW,
    GREEN,
    RED,
    SECONDS,
    SIGNAL_AGE_SECONDS_LATE,
    SIGNAL_AGE_SECONDS_STALE,
    STALL_SCORE_SECONDS_MAX,
    YELLOW,
    bars,
    decided,
    from_here_on,
    grown,
    in_words,
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
    styled,
    thresholds,
    verdict,
)
from streaming.shared.metric_defs import TunerMetric
from tuner.control.log_dir.reason_texts import LOG_DIR_REASON_TEXTS
from tuner.control.throttle.reason_texts import REASON_TEXTS

UID = "rheostat-reassignments"
_PLAN_STATES = {
    "arrived": "done",
    "electing": "waiting for a leader",
    "unconfirmed": "not yet confirmed by Kafka",
    "externally_owned": "reassigned by another tool",
    "dropped": "no longer part of the plan",
}


def wrong() -> list[stat.Panel]:
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
            "Mode",
            "Dry run: the tuner makes decisions, but writes nothing to the cluster. If another tuner acts, the panel "
            "does not show the dry run.",
            least(TunerMetric.DRY_RUN),
            thresholds((None, GREEN), (1, YELLOW)),
            words={"0": "active", "1": "dry run"},
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
            "Stalled moves",
            "Brokers onto which a move has stalled. Above 0, a move may never end: `rheostat status` says what "
            "limits it.",
            f"sum({per_broker(TunerMetric.STALLED)})",
            none_is_well(),
            alert="ReassignmentStalled",
        ),
        verdict(
            "Infeasible throttles",
            "Throttles (leader or follower, by broker) for which steady-state replication is at or above the ceiling. "
            "Above 0, a move cannot end: raise "
            "tuner.rate_bytes_per_s_max, or move fewer partitions at a time.",
            f"sum(max by (broker, side) ({select(TunerMetric.INFEASIBLE)}))",
            none_is_well(),
            alert="ThrottleInfeasible",
        ),
        verdict(
            "Partitions moving",
            "Partitions in reassignment, as the controller lists them.",
            most(TunerMetric.REASSIGNING_PARTITIONS),
            thresholds((None, "blue")),
        ),
        verdict(
            "Expected end",
            "When all running and planned moves will have ended. No data while this is unknown, or while a move "
            "has stalled.",
            f"{most(TunerMetric.EXPECTED_END)} * 1000",
            thresholds((None, "blue")),
            unit=FROM_NOW,
        ),
        verdict(
            "Time to the deadline",
            "Time until tuner.objective.finish_at. If the expected end is later, raise the ceiling or the latency"
            " objective. No data without a deadline.",
            f"{most(TunerMetric.DEADLINE)} - time()",
            thresholds((None, RED), (3600, GREEN)),
            unit=SECONDS,
            alert="ReassignmentStalledUrgent",
        ),
        verdict(
            "Orphaned throttle settings",
            "Throttle rates and throttled-replica lists that no reassignment needs. Above 0, these settings slow down "
            "replicas that have to catch up: the runbook says how to remove them.",
            most(TunerMetric.ORPHANED_THROTTLE_SETTINGS),
            none_is_well(),
            alert="ThrottleLeftBehind",
        ),
    ]


def progress() -> list[timeseries.Panel]:
    return [
        lines(
            "Left to copy, by destination",
            "Bytes that are left to copy onto each broker. If a line does not fall, the move makes no progress: look at "
            "the throttles below.",
            BYTES,
            query(per_broker(TunerMetric.REMAINING_BYTES), "broker {{broker}}"),
            axis="bytes",
        ).min(0),
        lines(
            "Trend of the bytes left, by destination",
            "Change of the bytes that are left to copy, per second. Below zero the move makes progress. At or above "
            "zero, producers write at least as fast as the new replicas copy: if a throttle limits the copies, it must be "
            "higher.",
            BYTES_PER_SECOND,
            query(per_broker(TunerMetric.REMAINING_SLOPE), "broker {{broker}}"),
        ).axis_centered_zero(True),
        lines(
            "Lag, by destination",
            "Messages by which the new replicas are behind their leaders, as their fetchers report. While a throttle "
            "delays a fetcher, this lag does not change, although bytes are copied. At most the 100 brokers with the "
            "largest lag.",
            COUNT,
            query(per_broker(TunerMetric.LAG_MESSAGES), "broker {{broker}}"),
            axis="messages",
        ).min(0),
        from_here_on(
            lines(
                "Lost progress, by destination",
                "Seconds of expected progress that a move has lost. The value grows while the move makes less than half "
                "of the expected progress. At the dashed line the move counts as stalled. At most the 100 brokers with "
                "the highest values.",
                SECONDS,
                query(per_broker(TunerMetric.STALL_SCORE_SECONDS), "broker {{broker}}"),
                alert="ReassignmentStalled",
            )
            .min(0)
            .axis_soft_max(2 * STALL_SCORE_SECONDS_MAX),
            STALL_SCORE_SECONDS_MAX,
        ),
        from_here_on(
            lines(
                "Stalled without a binding throttle",
                "1: the move onto this broker has stalled, and a source, a disk, the network or a fetcher thread "
                "limits it; a higher throttle would not help. 0: a throttle limits it. No data without a stall.",
                COUNT,
                query(per_broker(TunerMetric.BOUND_ELSEWHERE), "broker {{broker}}"),
                alert="ThrottleSaturatedBySourceOrDisk",
                axis="1 = not the throttle",
            )
            .min(0)
            .axis_soft_max(1),
            1,
        ),
        lines(
            "Partitions moving",
            "Partitions in reassignment, and partitions with a replica that left the ISR and is catching up. If the second "
            "line stays above zero, check the brokers of these replicas.",
            COUNT,
            query(most(TunerMetric.REASSIGNING_PARTITIONS), "moving"),
            query(most(TunerMetric.RECOVERING_PARTITIONS), "with a replica that returns to the ISR"),
            alert="RecoveryDuringMove",
            axis="partitions",
        ).min(0),
        lines(
            "Recovering partitions, by broker",
            "Partitions whose replica on this broker left the ISR and is catching up. Replicas that a reassignment adds "
            "do not count. "
            "No data if `tuner.recovery` is off.",
            COUNT,
            query(per_broker(TunerMetric.RECOVERY_PARTITIONS), "broker {{broker}}"),
            axis="partitions",
        ).min(0),
        lines(
            "Bytes left to copy for recovering replicas, by broker",
            "Bytes that replicas on this broker have to copy after they left the ISR. Replicas that a reassignment adds "
            "do not count. `tuner.recovery` says whether the tuner throttles these copies. No data while nothing recovers.",
            BYTES,
            query(per_broker(TunerMetric.RECOVERY_REMAINING_BYTES), "broker {{broker}}"),
            axis="bytes",
        ).min(0),
        limit_line(
            lines(
                "Signal age, by broker",
                "Age of the newest sample in each broker's signal. Above the dashed line the tuner raises no "
                "throttle: check collector and stream with `rheostat doctor`.",
                SECONDS,
                query(per_broker(TunerMetric.SIGNAL_AGE_SECONDS), "broker {{broker}}"),
                query(most(TunerMetric.SIGNAL_AGE_MAX), "maximum signal age"),
                alert="SignalsStale",
            ).min(0),
            "maximum signal age",
        ),
    ]


def log_dirs() -> list[timeseries.Panel]:
    """Returns the panels of copies between the log directories of a broker."""
    return [
        lines(
            "Left to copy between log directories, by broker",
            "Bytes that a broker still has to copy from one of its log directories to another. No data without such "
            "copies.",
            BYTES,
            query(per_broker(TunerMetric.LOG_DIR_REMAINING_BYTES), "broker {{broker}}"),
            axis="bytes",
        ).min(0),
        lines(
            "Copies between log directories: traffic and limit",
            "Bytes/s that a broker copies between its log directories, and the limit in force. If the traffic is at the "
            "limit, the limit slows down the copies.",
            BYTES_PER_SECOND,
            query(per_broker(TunerMetric.LOG_DIR_COPIED_BYTES), "broker {{broker}}"),
            query(per_broker(TunerMetric.LOG_DIR_RATE), "limit of broker {{broker}}"),
        ).min(0),
        lines(
            "Copies between log directories: time left",
            "Time until a broker has ended its copies between log directories, at the present rate. No data while this is unknown.",
            SECONDS,
            query(f"{per_broker(TunerMetric.LOG_DIR_EXPECTED_END)} - time()", "broker {{broker}}"),
        ).min(0),
        lines(
            "Copies between log directories: partitions",
            "Partitions that a broker copies between its log directories, including waiting partitions, and the number "
            "of limits that rheostat has set and will restore.",
            COUNT,
            query(per_broker(TunerMetric.LOG_DIR_PARTITIONS), "partitions of broker {{broker}}"),
            query(most(TunerMetric.LOG_DIR_THROTTLES_OWNED), "managed limits"),
            axis="partitions",
        ).min(0),
        reasons_in_words(
            bars(
                "Decisions about copies between log directories, by reason",
                "Why the limit of these copies changed or stayed. The reference page of the reasons says what to do.",
                query(decided(TunerMetric.LOG_DIR_DECISIONS), ACTION_AND_REASON),
                axis="decisions",
            ),
            LOG_DIR_REASON_TEXTS,
        ),
    ]


def plans() -> list[timeseries.Panel]:
    """Returns the panels of the plans of `rheostat reassign`."""
    return [
        in_words(
            bars(
                "Partitions of plans, by state",
                "If partitions wait and none moves, `rheostat reassign status` says what the plan waits for. No data "
                "without a plan.",
                query(f"sum by (state) ({select(TunerMetric.PLAN_PARTITIONS)})", "{{state}}"),
                alert="ReassignmentPlanStuck",
                axis="partitions",
            ),
            _PLAN_STATES,
        ),
        limit_line(
            lines(
                "Concurrent movements",
                "Partitions of each plan that move now, and the limits of all plans together (KIP-435). `rheostat "
                "reassign limits` changes the limits.",
                COUNT,
                query(per("plan", TunerMetric.PLAN_PARTITIONS, state="moving"), "plan {{plan}}"),
                query(most(TunerMetric.PLAN_MOVEMENTS_MAX, of="partition"), "limit: partitions at a time"),
                query(most(TunerMetric.PLAN_MOVEMENTS_MAX, of="replica"), "limit: replicas per step"),
                query(most(TunerMetric.PLAN_MOVEMENTS_MAX, of="leader"), "limit: leader changes at a time"),
                axis="movements",
            ).min(0),
            "limit: partitions at a time",
        ),
        lines(
            "Plans that do not proceed",
            "1 while an operator has paused or cancelled a plan, or while the tuner cannot execute plans. "
            "`rheostat status` shows the cause.",
            COUNT,
            query(per("plan", TunerMetric.PLAN_PAUSED), "plan {{plan}} is paused"),
            query(per("plan", TunerMetric.PLAN_CANCELLING), "plan {{plan}} is being cancelled"),
            query(most(TunerMetric.PLAN_EXECUTOR_FAILED), "no plan proceeds: internal error"),
            query(most(TunerMetric.PLANS_STATE_UNKNOWN), "no plan proceeds: cluster not readable"),
            alert="ReassignmentPlansNotExecuted",
            axis="1 = yes",
        )
        .min(0)
        .axis_soft_max(1),
        from_here_on(
            lines(
                "Cordoned targets of plans",
                "Cordoned brokers on which a plan adds replicas. Above 0, these steps do not start until the cordon is lifted.",
                COUNT,
                query(per("plan", TunerMetric.PLAN_CORDONED_TARGETS), "plan {{plan}}"),
                alert="PlanTargetCordoned",
                axis="brokers",
            ).min(0),
            1,
        ),
    ]


def throttle(side: str) -> timeseries.Panel:
    """Returns the panel of one side of a broker; Grafana repeats it for each chosen broker."""
    return (
        lines(
            f"Broker $broker, {side} side",
            "throttle: the rate that is set in Kafka now; absent while no rate is set. setpoint: the rate that the tuner "
            "wants; absent while the tuner does not change the throttle. throttled traffic: bytes that count against the "
            "throttle, as Kafka's mean over 11 s. steady-state replication W: the part that the replication of new "
            "writes uses; with a throttle at or below W the move never ends. If the traffic is at the throttle, the "
            "throttle limits the move. If the traffic is far below the throttle, something else limits the move.",
            BYTES_PER_SECOND,
            query(per_broker(TunerMetric.RATE_CURRENT, side=side), "throttle"),
            query(per_broker(TunerMetric.RATE_SETPOINT, side=side), "setpoint"),
            query(per_broker(TunerMetric.THROTTLED_BYTES, side=side), "throttled traffic"),
            query(per_broker(TunerMetric.STEADY_STATE_BYTES, side=side), "steady-state replication W"),
            query(per_broker(TunerMetric.OVERRIDE_RATE, side=side), "override of an operator"),
            query(most(TunerMetric.RATE_MIN), "lowest rate allowed"),
            query(most(TunerMetric.RATE_MAX), "ceiling"),
        )
        .min(0)
        .repeat("broker")
        .repeat_direction("h")
        .max_per_row(3)
        .override_by_name("throttle", styled("blue", dashed=False))
        .override_by_name("setpoint", styled("blue", dashed=True))
        .override_by_name("throttled traffic", styled("green", dashed=False))
        .override_by_name("steady-state replication W", styled("orange", dashed=True))
        .override_by_name("override of an operator", styled("purple", dashed=True))
        .override_by_name("lowest rate allowed", styled("text", dashed=True))
        .override_by_name("ceiling", styled("red", dashed=True))
    )


def clients() -> list[timeseries.Panel]:
    capacity = TunerMetric.CAPACITY_BYTES.name
    return [
        limit_line(
            lines(
                "Produce latency (p99), by broker",
                "p99 as each broker reports it, over some minutes. Above the objective the tuner lowers the throttles of "
                "this broker. If the latency stays above the objective, another load is the cause.",
                SECONDS,
                query(per_broker(TunerMetric.PRODUCE_P99_SECONDS), "broker {{broker}}"),
                query(most(TunerMetric.LATENCY_OBJECTIVE_SECONDS), "objective"),
                alert="ClientLatencyOverObjective",
            ).min(0),
            "objective",
        ),
        from_here_on(
            lines(
                "No headroom",
                "1 while clients leave less capacity than steady-state replication needs, so that the throttle is at the "
                "minimum rate. Wait for the peak to pass, or check tuner.capacity.",
                COUNT,
                query(f"max by (broker, side) ({select(TunerMetric.NO_HEADROOM)})", "broker {{broker}}, {{side}}"),
                alert="ThrottleWithoutHeadroom",
                axis="1 = no headroom",
            )
            .min(0)
            .axis_soft_max(1),
            1,
        ),
        lines(
            "Produce latency (mean), by broker",
            "Mean of the last half minute. The mean shows the beginning and the end of a delay minutes before the p99 shows them.",
            SECONDS,
            query(per_broker(TunerMetric.PRODUCE_MEAN_SECONDS), "broker {{broker}}"),
        ).min(0),
        limit_line(
            lines(
                "Producer traffic, by broker",
                "Bytes that brokers receive from producers, and the capacity of a broker for clients and replication "
                "together (`tuner.capacity`). Near the capacity little is left for replication.",
                BYTES_PER_SECOND,
                query(per_broker(TunerMetric.CLIENT_BYTES, direction="in"), "broker {{broker}}"),
                query(f'max({capacity}{{cluster="$cluster", broker="", direction="in"}})', "capacity"),
            ).min(0),
            "capacity",
        ),
        limit_line(
            lines(
                "Consumer traffic, by broker",
                "Bytes that brokers send to consumers, and the capacity of a broker for clients and replication "
                "together (`tuner.capacity`). Near the capacity little is left for replication.",
                BYTES_PER_SECOND,
                query(per_broker(TunerMetric.CLIENT_BYTES, direction="out"), "broker {{broker}}"),
                query(f'max({capacity}{{cluster="$cluster", broker="", direction="out"}})', "capacity"),
            ).min(0),
            "capacity",
        ),
    ]


def decisions() -> list[timeseries.Panel]:
    return [
        reasons_in_words(
            bars(
                "Changes, by reason",
                "Why the tuner changed a throttle setting. The journal has each decision with its inputs.",
                query(decided(TunerMetric.DECISIONS, '!="hold"'), ACTION_AND_REASON),
                axis="decisions",
            ),
            REASON_TEXTS,
        ),
        reasons_in_words(
            bars(
                "Throttles that did not change, by reason",
                "Why the tuner did not change a throttle. The reference page of the reasons says what to do.",
                query(decided(TunerMetric.DECISIONS, '="hold"'), "{{reason}}"),
                axis="decisions",
            ),
            REASON_TEXTS,
            with_action=False,
        ),
        bars(
            "Writes to the cluster",
            "Attempted writes, and failed writes: Kafka refused the write, or the new value was missing when the tuner "
            "read it back. If writes fail, `rheostat doctor` checks rights and brokers.",
            query(grown(TunerMetric.ACTUATIONS), "attempted"),
            query(grown(TunerMetric.ACTUATION_FAILURES), "failed"),
            axis="writes",
        ),
        from_here_on(
            lines(
                "Throttles that the tuner leaves alone",
                "Throttles with an override of an operator, and throttles that another tool has changed. `rheostat "
                "resume` lets the tuner control the changed throttles again.",
                COUNT,
                query(f"count({select(TunerMetric.OVERRIDE_UNTIL)}) or vector(0)", "overrides"),
                query(f"count({select(TunerMetric.EXTERNAL_CHANGE_HOLD_UNTIL)}) or vector(0)", "externally owned"),
                alert="OperatorOverrideInForce",
                axis="throttles",
            ).min(0),
            1,
        ),
    ]


def left_behind() -> list[timeseries.Panel]:
    return [
        lines(
            "Orphaned throttle settings and moving partitions",
            "Throttle settings that no reassignment needs slow down replicas that have to catch up. After a reassignment "
            "the count should return to zero. If it does not, the runbook says how to remove the settings.",
            COUNT,
            query(most(TunerMetric.ORPHANED_THROTTLE_SETTINGS), "orphaned throttle settings"),
            query(most(TunerMetric.REASSIGNING_PARTITIONS), "moving partitions"),
            alert="ThrottleLeftBehind",
            axis="settings, partitions",
        ).min(0),
        lines(
            "Managed throttle rates",
            "Rates that rheostat has set, and will restore or remove when the moves have ended.",
            COUNT,
            query(most(TunerMetric.THROTTLES_OWNED), "owned"),
            axis="throttles",
        ).min(0),
    ]


def board() -> dashboard.Dashboard:
    return make_dashboard(
        "Reassignments",
        UID,
        "Moves, their throttles, and why the tuner set them.",
        [
            ("Is anything wrong?", wrong()),
            ("Does the move progress?", progress()),
            ("Are clients affected?", clients()),
            ("What does each leader throttle do?", [throttle("leader")]),
            ("What does each follower throttle do?", [throttle("follower")]),
            ("Why did the tuner decide so?", decisions()),
            ("How far are copies between log directories?", log_dirs()),
            ("How far are the plans?", plans()),
            ("Are throttles left over?", left_behind()),
        ],
        view="/moves",
    )
