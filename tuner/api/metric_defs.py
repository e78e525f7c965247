"""Every metric of the tuner: name, kind, labels, meaning. Units are the last word of a name, as Prometheus asks.

What was measured, what is allowed and what is wanted are metrics of their own, so that a panel shows one against the other. A
number that could not be measured has no series: it is not 0. What every process tells of itself stands in streaming/metric_defs.py.
"""

from __future__ import annotations

from streaming.metric_defs import MetricDef, Unit, defined_in

# -- the tuner itself -----------------------------------------------------------------------------------------------------

READY = MetricDef(
    "rheostat_tuner_ready", "gauge", Unit.TRUTH, ("cluster",), "1 while the tuner sees the cluster and fresh signals."
)
ACTING = MetricDef(
    "rheostat_tuner_acting",
    "gauge",
    Unit.TRUTH,
    ("cluster",),
    "1 while this tuner has the lease or looks on in a dry run (rheostat_tuner_dry_run tells them apart), 0 on stand-by.",
)
DRY_RUN = MetricDef(
    "rheostat_tuner_dry_run", "gauge", Unit.TRUTH, ("cluster",), "1 while the tuner decides but writes nothing."
)
CYCLE_SECONDS = MetricDef(
    "rheostat_tuner_cycle_seconds", "gauge", Unit.SECONDS, ("cluster",), "How long the last cycle took."
)
CYCLED_AT = MetricDef(
    "rheostat_tuner_last_cycle_timestamp_seconds", "gauge", Unit.SINCE_1970, ("cluster",),
    "When the last cycle ended; absent before the first.",
)  # fmt: skip
SIGNAL_AGE_SECONDS = MetricDef(
    "rheostat_signal_age_seconds",
    "gauge",
    Unit.SECONDS,
    ("cluster", "broker"),
    "Age of the newest sample behind a broker's signal.",
)
SIGNAL_AGE_MAX = MetricDef(
    "rheostat_signal_age_max_seconds", "gauge", Unit.SECONDS, ("cluster",),
    "From this age on a signal raises no throttle: tuner.signal_age_s_max.",
)  # fmt: skip
INPUT_AGE_SECONDS = MetricDef(
    "rheostat_input_age_seconds", "gauge", Unit.SECONDS, ("cluster", "input"),
    "Age of what the tuner knows: the look at the cluster, and of each kind of signal the newest sample.",
)  # fmt: skip
DECISIONS = MetricDef(
    "rheostat_decisions_total",
    "counter",
    Unit.COUNT,
    ("cluster", "action", "reason"),
    "Decisions by action (hold, set, ...) and reason.",
)
SIDES = MetricDef(
    "rheostat_sides", "gauge", Unit.COUNT, ("cluster", "action", "reason"),
    "Broker sides (leader and follower throttles) by what the last cycle decided about them.",
)  # fmt: skip
SIDE_NOT_WELL = MetricDef(
    "rheostat_side_not_well", "gauge", Unit.TRUTH, ("cluster", "broker", "side", "reason"),
    "1 for a throttle that the last cycle could not judge, or that it cannot help; the first hundred, absent for the others.",
)  # fmt: skip
ACTUATIONS = MetricDef(
    "rheostat_actuations_total", "counter", Unit.COUNT, ("cluster",),
    "Writes to the cluster that were tried, with those that failed.",
)  # fmt: skip
ACTUATION_FAILURES = MetricDef(
    "rheostat_actuation_failures_total",
    "counter",
    Unit.COUNT,
    ("cluster",),
    "Writes to the cluster that failed or did not read back.",
)
# -- what people have said -----------------------------------------------------------------------------------------------

PAUSED = MetricDef(
    "rheostat_paused", "gauge", Unit.TRUTH, ("cluster",),
    "1 while a person has paused the tuner or made it release what is its, else 0.",
)  # fmt: skip
RELEASED = MetricDef(
    "rheostat_released", "gauge", Unit.TRUTH, ("cluster",),
    "1 while it is paused and everything that was its has been taken back, else 0.",
)  # fmt: skip
OVERRIDE_UNTIL = MetricDef(
    "rheostat_override_until_timestamp_seconds", "gauge", Unit.SINCE_1970, ("cluster", "broker", "side"),
    "When a person's override of this throttle ends; absent while there is none.",
)  # fmt: skip
OVERRIDE_RATE = MetricDef(
    "rheostat_override_rate_bytes_per_second", "gauge", Unit.BYTES_PER_SECOND, ("cluster", "broker", "side"),
    "The rate that it asks for.",
)  # fmt: skip
YIELD_UNTIL = MetricDef(
    "rheostat_yield_until_timestamp_seconds", "gauge", Unit.SINCE_1970, ("cluster", "broker", "side"),
    "Until when a throttle that somebody else has changed is left alone; absent where it is not.",
)  # fmt: skip

# -- moves and their throttles -------------------------------------------------------------------------------------------

REASSIGNING_PARTITIONS = MetricDef(
    "rheostat_reassigning_partitions",
    "gauge",
    Unit.COUNT,
    ("cluster",),
    "Partitions being reassigned, as the controller lists them.",
)
EXPECTED_END = MetricDef(
    "rheostat_move_expected_end_timestamp_seconds", "gauge", Unit.SINCE_1970, ("cluster",),
    "When the slowest move onto a broker will be done as it goes now; absent while one of them makes no progress.",
)  # fmt: skip
REMAINING_BYTES = MetricDef(
    "rheostat_move_remaining_bytes",
    "gauge",
    Unit.BYTES,
    ("cluster", "broker"),
    "Bytes that adding replicas on this broker still lack.",
)
REMAINING_SLOPE = MetricDef(
    "rheostat_move_remaining_slope_bytes_per_second",
    "gauge",
    Unit.BYTES_PER_SECOND,
    ("cluster", "broker"),
    "Trend of it; negative is progress.",
)
LAG_MESSAGES = MetricDef(
    "rheostat_move_lag_messages", "gauge", Unit.COUNT, ("cluster", "broker"),
    "Messages that adding replicas on this broker are behind, as their fetchers say; it stands still where they are throttled. The "
    "hundred brokers with most.",
)  # fmt: skip
PARTITION_REMAINING_BYTES = MetricDef(
    "rheostat_move_partition_remaining_bytes", "gauge", Unit.BYTES, ("cluster", "broker", "topic", "partition"),
    "What an adding replica still lacks: of the largest moving partitions, as many as tuner.metrics.partitions_named_max says.",
)  # fmt: skip
STALLED = MetricDef(
    "rheostat_move_stalled",
    "gauge",
    Unit.TRUTH,
    ("cluster", "broker"),
    "1 while the move onto this broker is judged stalled, else 0.",
)
STALL_SCORE_SECONDS = MetricDef(
    "rheostat_move_stall_score_seconds",
    "gauge",
    Unit.SECONDS,
    ("cluster", "broker"),
    "Seconds of expected progress lost; stalled above 15.",
)
BOUND_ELSEWHERE = MetricDef(
    "rheostat_move_bound_elsewhere", "gauge", Unit.TRUTH, ("cluster", "broker"),
    "1 while the stalled move onto this broker is held by no throttle on its way (but by source, disk, network, fetchers), 0 while "
    "a throttle holds it; absent where none is stalled. A hundred of them, those that are 1 first.",
)  # fmt: skip
RATE_LIVE = MetricDef(
    "rheostat_throttle_rate_bytes_per_second", "gauge", Unit.BYTES_PER_SECOND, ("cluster", "broker", "side"),
    "The throttle as set on the broker now; absent while none is set.",
)  # fmt: skip
RATE_WANTED = MetricDef(
    "rheostat_throttle_rate_wanted_bytes_per_second", "gauge", Unit.BYTES_PER_SECOND, ("cluster", "broker", "side"),
    "Where the tuner is taking it, or what it means it to be in the mean; absent while it holds.",
)  # fmt: skip
RATE_MAX = MetricDef(
    "rheostat_throttle_rate_max_bytes_per_second",
    "gauge",
    Unit.BYTES_PER_SECOND,
    ("cluster",),
    "The operator's ceiling.",
)
RATE_MIN = MetricDef(
    "rheostat_throttle_rate_min_bytes_per_second", "gauge", Unit.BYTES_PER_SECOND, ("cluster",), "The operator's floor."
)
THROTTLES_OWNED = MetricDef(
    "rheostat_throttles_owned",
    "gauge",
    Unit.COUNT,
    ("cluster",),
    "Throttle rates that rheostat has set and will put back.",
)
THROTTLED_BYTES = MetricDef(
    "rheostat_throttled_bytes_per_second", "gauge", Unit.BYTES_PER_SECOND, ("cluster", "broker", "side"),
    "Bytes that count against the throttle: Kafka's own 11 s mean, or where that is not collected an estimate.",
)  # fmt: skip
KEEP_UP_BYTES = MetricDef(
    "rheostat_keep_up_bytes_per_second", "gauge", Unit.BYTES_PER_SECOND, ("cluster", "broker", "side"),
    "What the throttle must carry before anything catches up: W. A throttle at or below it never ends the move.",
)  # fmt: skip
INFEASIBLE = MetricDef(
    "rheostat_throttle_infeasible", "gauge", Unit.TRUTH, ("cluster", "broker", "side"),
    "1 while neither the ceiling nor the throttle that stands is above the keep-up rate, so that the move never ends, else 0; a "
    "hundred of them, those that are 1 first.",
)  # fmt: skip
NO_HEADROOM = MetricDef(
    "rheostat_throttle_no_headroom", "gauge", Unit.TRUTH, ("cluster", "broker", "side"),
    "1 while the clients of this broker leave less than the keep-up rate, so that the throttle runs at its floor, else 0; "
    "absent without an objective. A hundred of them, those that are 1 first.",
)  # fmt: skip
RECOVERING_PARTITIONS = MetricDef(
    "rheostat_recovering_partitions", "gauge", Unit.COUNT, ("cluster",),
    "Moving partitions of which a replica on a living broker was in sync and is coming back.",
)  # fmt: skip
THROTTLE_KEYS_IDLE = MetricDef(
    "rheostat_throttle_keys_idle", "gauge", Unit.COUNT, ("cluster",),
    "Throttle settings that serve no move: rates and replica lists on brokers that no reassignment touches, all while there "
    "is none; a rate for all brokers (<default>) is one a side.",
)  # fmt: skip
# -- plans of rheostat reassign ------------------------------------------------------------------------------------------

PLAN_EXECUTOR_FAILED = MetricDef(
    "rheostat_plan_executor_failed", "gauge", Unit.TRUTH, ("cluster",),
    "1 once an error of its own has ended what executes plans: none goes on until this tuner is started anew; else 0.",
)  # fmt: skip
PLANS_NOT_SEEN = MetricDef(
    "rheostat_plans_not_seen", "gauge", Unit.TRUTH, ("cluster",),
    "1 while it is not known how the plans are, as the cluster cannot be seen or no look has ended for two minutes: none goes on, "
    "and none is told of; else 0.",
)  # fmt: skip
PLAN_PARTITIONS = MetricDef(
    "rheostat_plan_partitions", "gauge", Unit.COUNT, ("cluster", "plan", "state"),
    "Partitions of a plan by where they are: arrived, moving, waiting, electing (a leader), unclear (not seen yet to have been "
    "taken), somebody_elses, dropped; the oldest twenty plans that have not ended.",
)  # fmt: skip
PLAN_PAUSED = MetricDef(
    "rheostat_plan_paused", "gauge", Unit.TRUTH, ("cluster", "plan"), "1 while a person has paused this plan, else 0."
)
PLAN_CANCELLING = MetricDef(
    "rheostat_plan_cancelling",
    "gauge",
    Unit.TRUTH,
    ("cluster", "plan"),
    "1 while this plan is being taken back, else 0.",
)
PLAN_MOVEMENTS_MAX = MetricDef(
    "rheostat_plan_movements_max", "gauge", Unit.COUNT, ("cluster", "of"),
    "How much of all plans may move at a time (KIP-435), by leader, partition and replica; absent while there is no plan.",
)  # fmt: skip

# -- brokers and their clients -------------------------------------------------------------------------------------------

PRODUCE_P99_SECONDS = MetricDef(
    "rheostat_produce_p99_seconds",
    "gauge",
    Unit.SECONDS,
    ("cluster", "broker"),
    "Produce latency, 99th percentile, as the broker reports it.",
)
PRODUCE_MEAN_SECONDS = MetricDef(
    "rheostat_produce_mean_seconds", "gauge", Unit.SECONDS, ("cluster", "broker"),
    "Mean produce latency of the last half minute; the percentile remembers minutes.",
)  # fmt: skip
LATENCY_OBJECTIVE_SECONDS = MetricDef(
    "rheostat_latency_objective_seconds", "gauge", Unit.SECONDS, ("cluster",),
    "The produce latency that clients are promised; absent where tuner.objective is not set.",
)  # fmt: skip
CLIENT_BYTES = MetricDef(
    "rheostat_client_bytes_per_second", "gauge", Unit.BYTES_PER_SECOND, ("cluster", "broker", "direction"),
    "What producers (in) and consumers (out) move.",
)  # fmt: skip
CAPACITY_BYTES = MetricDef(
    "rheostat_capacity_bytes_per_second", "gauge", Unit.BYTES_PER_SECOND, ("cluster", "broker", "direction"),
    "What a broker can carry each way, as tuner.capacity says; without a broker's name, of all that are not named. Absent where "
    "nothing is said.",
)  # fmt: skip
UNDER_MIN_ISR = MetricDef(
    "rheostat_under_min_isr_partitions", "gauge", Unit.COUNT, ("cluster", "broker"),
    "Partitions led by this broker that have fewer replicas in sync than producers with acks=all need; beyond a hundred brokers "
    "only where there are any.",
)  # fmt: skip
ISR_SHRINKS = MetricDef(
    "rheostat_isr_shrinks_per_second", "gauge", Unit.PER_SECOND, ("cluster",),
    "How often replicas fall out of sync, on all brokers together.",
)  # fmt: skip
PARTITIONS = MetricDef(
    "rheostat_partitions", "gauge", Unit.COUNT, ("cluster", "broker"),
    "Replicas that the broker hosts, those of internal topics included.",
)  # fmt: skip
PARTITIONS_LIMIT = MetricDef(
    "rheostat_partitions_limit", "gauge", Unit.COUNT, ("cluster", "broker"),
    "How many it may host, as the settings' section limits says; without a broker's name, of all that are not named. Absent where "
    "nothing is said.",
)  # fmt: skip
CLUSTER_PARTITIONS = MetricDef(
    "rheostat_cluster_partitions", "gauge", Unit.COUNT, ("cluster",), "Replicas on all brokers that are heard of."
)
CLUSTER_PARTITIONS_LIMIT = MetricDef(
    "rheostat_cluster_partitions_limit", "gauge", Unit.COUNT, ("cluster",),
    "How many the cluster may have, as the settings' section limits says; absent where it says nothing.",
)  # fmt: skip
FETCHER_COLLISIONS = MetricDef(
    "rheostat_fetcher_collisions", "gauge", Unit.COUNT, ("cluster", "broker"),
    "Fetcher threads of this destination that idle beside one of the same source with two or more moving partitions; absent "
    "where there is none. The hundred with most.",
)  # fmt: skip

# -- the controller and its tenants --------------------------------------------------------------------------------------

QUOTAS_SEEN = MetricDef(
    "rheostat_quotas_seen", "gauge", Unit.TRUTH, ("cluster",),
    "1 while the mutation quotas can be read, else 0; absent where none are asked for.",
)  # fmt: skip
CONTROLLER_PRESSURE = MetricDef(
    "rheostat_controller_pressure_ratio", "gauge", Unit.RATIO, ("cluster",),
    "How hard the controller is pressed, of its worst objective: 1 is as hard as it may be.",
)  # fmt: skip
CONTROLLER_QUEUE_SECONDS = MetricDef(
    "rheostat_controller_event_queue_seconds", "gauge", Unit.SECONDS, ("cluster",),
    "How long an event waits for the active controller, mean of the last half minute.",
)  # fmt: skip
CONTROLLER_QUEUE_OBJECTIVE = MetricDef(
    "rheostat_controller_event_queue_objective_seconds", "gauge", Unit.SECONDS, ("cluster",),
    "How long it may; absent where not asked for.",
)  # fmt: skip
CONTROLLER_IDLE = MetricDef(
    "rheostat_controller_idle_ratio",
    "gauge",
    Unit.RATIO,
    ("cluster",),
    "Share of its time that the active controller is idle.",
)
CONTROLLER_IDLE_OBJECTIVE = MetricDef(
    "rheostat_controller_idle_objective_ratio", "gauge", Unit.RATIO, ("cluster",),
    "The least that it should be; absent where not asked for.",
)  # fmt: skip
CONTROLLER_OPERATIONS = MetricDef(
    "rheostat_controller_operations_per_second",
    "gauge",
    Unit.PER_SECOND,
    ("cluster",),
    "Operations that the active controller begins.",
)
MUTATIONS_REJECTED = MetricDef(
    "rheostat_mutations_rejected_per_second", "gauge", Unit.PER_SECOND, ("cluster",),
    "Requests answered with THROTTLING_QUOTA_EXCEEDED, of all tenants.",
)  # fmt: skip
MUTATION_TOTAL = MetricDef(
    "rheostat_mutation_total_partitions_per_second", "gauge", Unit.PARTITIONS_PER_SECOND, ("cluster",),
    "Partitions/s that all tenants together may create and delete.",
)  # fmt: skip
TENANTS_HELD = MetricDef(
    "rheostat_tenants_held_back", "gauge", Unit.COUNT, ("cluster",), "Tenants whose mutation quota is exhausted now."
)
TENANT_EXHAUSTED = MetricDef(
    "rheostat_tenant_quota_exhausted", "gauge", Unit.TRUTH, ("cluster", "user", "client_id"),
    "1 while this tenant's mutation quota is exhausted; the busiest fifty of them, absent for the others.",
)  # fmt: skip
TENANT_RATE = MetricDef(
    "rheostat_tenant_mutation_partitions_per_second", "gauge", Unit.PARTITIONS_PER_SECOND, ("cluster", "user", "client_id"),
    "Partitions/s that this tenant creates and deletes; the busiest fifty, absent for the others.",
)  # fmt: skip
TENANT_QUOTA = MetricDef(
    "rheostat_tenant_quota_partitions_per_second", "gauge", Unit.PARTITIONS_PER_SECOND, ("cluster", "user", "client_id"),
    "The quota in force for it; of the same fifty, absent where none is.",
)  # fmt: skip
TENANT_TOKENS = MetricDef(
    "rheostat_tenant_tokens", "gauge", Unit.COUNT, ("cluster", "user", "client_id"),
    "Partitions that are left in its bucket, below 0 while it is held back; of the same fifty.",
)  # fmt: skip
QUOTAS_OWNED = MetricDef(
    "rheostat_quotas_owned",
    "gauge",
    Unit.COUNT,
    ("cluster",),
    "Mutation quotas that rheostat has set and will put back.",
)
QUOTA_DECISIONS = MetricDef(
    "rheostat_quota_decisions_total", "counter", Unit.COUNT, ("cluster", "action", "reason"),
    "Decisions about mutation quotas by action (hold_quota, set_quota, ...) and reason.",
)  # fmt: skip
QUOTA_FAILURES = MetricDef(
    "rheostat_quota_failures_total", "counter", Unit.COUNT, ("cluster",),
    "Writes of mutation quotas that failed or were not seen to stand.",
)  # fmt: skip

ALL = defined_in(globals())
