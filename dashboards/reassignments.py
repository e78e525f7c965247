"""A move, from top to bottom: is anything wrong, does it progress, what does the throttle do and what binds it, do the clients
notice, why did the tuner decide so, is anything left behind.
"""

from __future__ import annotations

from grafana_foundation_sdk.builders import stat, timeseries
from grafana_foundation_sdk.models import dashboard

from dashboards.parts import (
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
    styled,
    thresholds,
    verdict,
)
from streaming.shared.metric_defs import TunerMetric

UID = "rheostat-reassignments"


def wrong() -> list[stat.Panel]:
    return [
        verdict(
            "Tuner",
            "Ready while the tuner sees the cluster and fresh signals. A tuner that isn't there counts as not ready.",
            f"{most(TunerMetric.READY)} or vector(0)",
            thresholds((None, RED), (1, GREEN)),
            words={"0": "not ready", "1": "ready"},
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
            "Oldest signal",
            "Age of the newest sample of the broker that has been silent longest. The tuner never raises a throttle on "
            "stale signals.",
            most(TunerMetric.SIGNAL_AGE_SECONDS),
            thresholds((None, GREEN), (SIGNAL_AGE_SECONDS_LATE, YELLOW), (SIGNAL_AGE_SECONDS_STALE, RED)),
            unit=SECONDS,
            alert="SignalsStale",
        ),
        verdict(
            "Stalled moves",
            "Destination brokers whose move is judged stalled.",
            f"sum({per_broker(TunerMetric.STALLED)})",
            none_is_well(),
            alert="ReassignmentStalled",
        ),
        verdict(
            "Infeasible throttles",
            "Broker sides where no throttle up to the ceiling ends the move.",
            f"sum(max by (broker, side) ({select(TunerMetric.INFEASIBLE)}))",
            none_is_well(),
            alert="ThrottleInfeasible",
        ),
        verdict(
            "Partitions moving",
            "Partitions being reassigned now, as the controller lists them.",
            most(TunerMetric.REASSIGNING_PARTITIONS),
            thresholds((None, "blue")),
        ),
        verdict(
            "Done",
            "When all that moves or is planned has ended; absent while that is not known, or while a move has stalled.",
            f"{most(TunerMetric.EXPECTED_END)} * 1000",
            thresholds((None, "blue")),
            unit=FROM_NOW,
        ),
        verdict(
            "Time to the deadline",
            "Until reassignments are to be done, tuner.objective.finish_at; 'Done' should come before it. Absent without one.",
            f"{most(TunerMetric.DEADLINE)} - time()",
            thresholds((None, RED), (3600, GREEN)),
            unit=SECONDS,
            alert="ReassignmentStalledUrgent",
        ),
        verdict(
            "Idle throttle settings",
            "Rates and replica lists that stand on brokers where nothing is being reassigned.",
            most(TunerMetric.ORPHANED_THROTTLE_SETTINGS),
            none_is_well(),
            alert="ThrottleLeftBehind",
        ),
    ]


def progress() -> list[timeseries.Panel]:
    return [
        lines(
            "Remaining, per destination broker",
            "Bytes that adding replicas on each broker still lack, from log sizes. It should fall to zero.",
            BYTES,
            query(per_broker(TunerMetric.REMAINING_BYTES), "broker {{broker}}"),
        ).min(0),
        lines(
            "Trend of remaining, per destination broker",
            "Below zero the move progresses; at or above zero producers write as fast as replicas catch up, or faster.",
            BYTES_PER_SECOND,
            query(per_broker(TunerMetric.REMAINING_SLOPE), "broker {{broker}}"),
        ).axis_centered_zero(True),
        lines(
            "Lag in messages, per destination broker",
            "What adding replicas are behind, as their fetchers tell it; they do not ask while they are throttled, so "
            "that it may stand still beside bytes that fall. The hundred brokers with most.",
            COUNT,
            query(per_broker(TunerMetric.LAG_MESSAGES), "broker {{broker}}"),
        ).min(0),
        from_here_on(
            lines(
                "Seconds of expected progress lost",
                "The evidence behind 'stalled': it grows while a move makes less than half of the progress expected of "
                "it, shrinks while it makes more. Stalled above the red line.",
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
                "Stalled, and no throttle is what holds it",
                "1 where the source, a disk, the network or a fetcher thread holds the stalled move onto this broker: a higher "
                "throttle would not help. 0 where a throttle holds it, and nothing where none is stalled.",
                COUNT,
                query(per_broker(TunerMetric.BOUND_ELSEWHERE), "broker {{broker}}"),
                alert="ThrottleSaturatedBySourceOrDisk",
            )
            .min(0)
            .axis_soft_max(1),
            1,
        ),
        lines(
            "Partitions moving",
            "As the controller lists them, and those of which a replica that was in sync has fallen out and comes back.",
            COUNT,
            query(most(TunerMetric.REASSIGNING_PARTITIONS), "moving"),
            query(most(TunerMetric.RECOVERING_PARTITIONS), "of them recovering"),
            alert="RecoveryDuringMove",
        ).min(0),
        limit_line(
            lines(
                "Age of signals",
                "Age of the newest sample behind each broker's signal. The tuner never raises on signals older than the line.",
                SECONDS,
                query(per_broker(TunerMetric.SIGNAL_AGE_SECONDS), "broker {{broker}}"),
                query(most(TunerMetric.SIGNAL_AGE_MAX), "raises nothing above"),
                alert="SignalsStale",
            ).min(0),
            "raises nothing above",
        ),
    ]


def plans() -> list[timeseries.Panel]:
    """Of `rheostat reassign`."""
    return [
        bars(
            "Partitions of plans, by where they are",
            "arrived, moving, waiting, electing a leader, dropped; externally_owned are left alone. Nothing where no plan runs.",
            query(f"sum by (state) ({select(TunerMetric.PLAN_PARTITIONS)})", "{{state}}"),
            alert="ReassignmentPlanStuck",
        ),
        limit_line(
            lines(
                "Batch, per plan",
                "Partitions of each plan that move now, and how many of all plans may at a time (KIP-435).",
                COUNT,
                query(per("plan", TunerMetric.PLAN_PARTITIONS, state="moving"), "{{plan}}"),
                query(most(TunerMetric.PLAN_MOVEMENTS_MAX, of="partition"), "partitions at a time"),
                query(most(TunerMetric.PLAN_MOVEMENTS_MAX, of="replica"), "replicas at a time"),
                query(most(TunerMetric.PLAN_MOVEMENTS_MAX, of="leader"), "leaders at a time"),
            ).min(0),
            "partitions at a time",
        ),
        lines(
            "Paused or cancelled, per plan",
            "1 while a person has paused it, or it is being taken back; and where rheostat can carry out none.",
            COUNT,
            query(per("plan", TunerMetric.PLAN_PAUSED), "{{plan}} paused"),
            query(per("plan", TunerMetric.PLAN_CANCELLING), "{{plan}} cancelling"),
            query(most(TunerMetric.PLAN_EXECUTOR_FAILED), "no plan goes on: ended by an error"),
            query(most(TunerMetric.PLANS_STATE_UNKNOWN), "no plan goes on: the cluster is not seen"),
            alert="ReassignmentPlansNotExecuted",
        )
        .min(0)
        .axis_soft_max(1),
    ]


def throttle(side: str) -> timeseries.Panel:
    """All that bounds one side of one broker; Grafana repeats it for each chosen broker."""
    return (
        lines(
            f"Broker $broker, {side} side",
            "live: the throttle set on the broker, absent while none is set. wanted: where the tuner is taking it, "
            "absent while it holds. measured: bytes that count against the throttle, Kafka's own 11 s mean. "
            "keep-up W: what the throttle must carry before anything catches up; at or below it the move never ends. "
            "override: a person's. floor and ceiling: the operator's.",
            BYTES_PER_SECOND,
            query(per_broker(TunerMetric.RATE_CURRENT, side=side), "live"),
            query(per_broker(TunerMetric.RATE_SETPOINT, side=side), "wanted"),
            query(per_broker(TunerMetric.THROTTLED_BYTES, side=side), "measured"),
            query(per_broker(TunerMetric.STEADY_STATE_BYTES, side=side), "keep-up W"),
            query(per_broker(TunerMetric.OVERRIDE_RATE, side=side), "override"),
            query(most(TunerMetric.RATE_MIN), "floor"),
            query(most(TunerMetric.RATE_MAX), "ceiling"),
        )
        .min(0)
        .repeat("broker")
        .repeat_direction("h")
        .max_per_row(3)
        .override_by_name("live", styled("blue", dashed=False))
        .override_by_name("wanted", styled("blue", dashed=True))
        .override_by_name("measured", styled("green", dashed=False))
        .override_by_name("keep-up W", styled("orange", dashed=True))
        .override_by_name("override", styled("purple", dashed=True))
        .override_by_name("floor", styled("text", dashed=True))
        .override_by_name("ceiling", styled("red", dashed=True))
    )


def clients() -> list[timeseries.Panel]:
    capacity = TunerMetric.CAPACITY_BYTES.name
    return [
        limit_line(
            lines(
                "Produce latency, 99th percentile",
                "As each broker reports it; it remembers minutes. While it is above its objective the tuner gives way to the "
                "producers.",
                SECONDS,
                query(per_broker(TunerMetric.PRODUCE_P99_SECONDS), "broker {{broker}}"),
                query(most(TunerMetric.LATENCY_OBJECTIVE_SECONDS), "objective"),
                alert="ClientLatencyOverObjective",
            ).min(0),
            "objective",
        ),
        from_here_on(
            lines(
                "Clients leave no room",
                "1 where the clients of a broker leave less than keeping up takes, so that the throttle runs at its floor.",
                COUNT,
                query(f"max by (broker, side) ({select(TunerMetric.NO_HEADROOM)})", "broker {{broker}}, {{side}}"),
                alert="ThrottleWithoutHeadroom",
            )
            .min(0)
            .axis_soft_max(1),
            1,
        ),
        lines(
            "Produce latency, mean",
            "Of the last half minute, so that it tells when a delay began and that it is over.",
            SECONDS,
            query(per_broker(TunerMetric.PRODUCE_MEAN_SECONDS), "broker {{broker}}"),
        ).min(0),
        limit_line(
            lines(
                "What producers send",
                "And what a broker can take in, clients and replication together, where it is not named by itself.",
                BYTES_PER_SECOND,
                query(per_broker(TunerMetric.CLIENT_BYTES, direction="in"), "broker {{broker}}"),
                query(f'max({capacity}{{cluster="$cluster", broker="", direction="in"}})', "capacity"),
            ).min(0),
            "capacity",
        ),
        limit_line(
            lines(
                "What consumers fetch",
                "And what a broker can send, clients and replication together, where it is not named by itself.",
                BYTES_PER_SECOND,
                query(per_broker(TunerMetric.CLIENT_BYTES, direction="out"), "broker {{broker}}"),
                query(f'max({capacity}{{cluster="$cluster", broker="", direction="out"}})', "capacity"),
            ).min(0),
            "capacity",
        ),
    ]


def decisions() -> list[timeseries.Panel]:
    return [
        bars(
            "Decisions that change something, by reason",
            "Why a number changed. The journal holds each decision with its inputs.",
            query(decided(TunerMetric.DECISIONS, '!="hold"'), "{{action}}: {{reason}}"),
        ),
        bars(
            "Decisions to hold, by reason",
            "Why a number did not change.",
            query(decided(TunerMetric.DECISIONS, '="hold"'), "{{reason}}"),
        ),
        bars(
            "Writes to the cluster",
            "That were tried, and those of them that failed or did not read back.",
            query(grown(TunerMetric.ACTUATIONS), "tried"),
            query(grown(TunerMetric.ACTUATION_FAILURES), "failed"),
        ),
        from_here_on(
            lines(
                "Left to people",
                "Throttles that a person has set for a while, and those that are left alone since somebody else changed them.",
                COUNT,
                query(f"count({select(TunerMetric.OVERRIDE_UNTIL)}) or vector(0)", "overrides"),
                query(f"count({select(TunerMetric.EXTERNAL_CHANGE_HOLD_UNTIL)}) or vector(0)", "externally owned"),
                alert="OperatorOverrideInForce",
            ).min(0),
            1,
        ),
    ]


def left_behind() -> list[timeseries.Panel]:
    return [
        lines(
            "Idle throttle settings and partitions moving",
            "Throttle settings on brokers where nothing is being reassigned slow down ordinary recovery of replicas. "
            "After a reassignment the count returns to zero.",
            COUNT,
            query(most(TunerMetric.ORPHANED_THROTTLE_SETTINGS), "idle throttle settings"),
            query(most(TunerMetric.REASSIGNING_PARTITIONS), "partitions moving"),
            alert="ThrottleLeftBehind",
        ).min(0),
        lines(
            "Throttle rates that rheostat will put back",
            "Its own, until the move ends.",
            COUNT,
            query(most(TunerMetric.THROTTLES_OWNED), "owned"),
        ).min(0),
    ]


def board() -> dashboard.Dashboard:
    return made(
        "Reassignments",
        UID,
        "Replication throttles as rheostat turns them.",
        [
            ("Is anything wrong?", wrong()),
            ("Does the move progress?", progress()),
            ("How far are plans?", plans()),
            ("Throttle, leader side", [throttle("leader")]),
            ("Throttle, follower side", [throttle("follower")]),
            ("Do the clients notice?", clients()),
            ("Why did the tuner decide so?", decisions()),
            ("Is anything left behind?", left_behind()),
        ],
    )
