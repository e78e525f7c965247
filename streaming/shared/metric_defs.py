"""Every metric of every process: name, kind, unit, labels, meaning. docs/metrics.md is made of it.

What was measured, what is allowed and what is wanted are metrics of their own, so that a panel shows one against the other. A
number that could not be measured has no series: it is not 0.
"""

from __future__ import annotations

from streaming.shared.metric_def import MetricDef, Unit, metric_defs_in

_PART = ("cluster", "part")


class ProcessMetric:
    """What each process tells of itself."""

    BUILD_INFO = MetricDef(
        "rheostat_build_info", "gauge", Unit.TRUTH, ("version", "part"),
        "1, labelled with the running version and what runs: collect, stream or tune.",
    )  # fmt: skip
    CONFIG_VALID = MetricDef(
        "rheostat_config_last_reload_successful", "gauge", Unit.TRUTH, _PART,
        "1 while the settings file is in order as it stands on disk now, 0 when the next start would refuse it. "
        "What runs goes on with what it has.",
    )  # fmt: skip
    CONFIG_VALID_AT = MetricDef(
        "rheostat_config_last_reload_success_timestamp_seconds", "gauge", Unit.SINCE_1970, _PART,
        "When the settings file was last read and found in order.",
    )  # fmt: skip
    CONFIG_APPLIED = MetricDef(
        "rheostat_config_in_force", "gauge", Unit.TRUTH, _PART,
        "1 while this process runs with what the settings file says now, 0 when a reload or a restart would change that.",
    )  # fmt: skip
    CONFIG_RELOADS = MetricDef(
        "rheostat_config_reloads_total", "counter", Unit.COUNT, (*_PART, "result"),
        "Times this process was asked (SIGHUP) to take up its settings file anew: taken, or refused as it has a fault or changes "
        "what needs a restart. Only the tuner can be asked.",
    )  # fmt: skip
    THREADS_ENDED = MetricDef(
        "rheostat_threads_ended_total", "counter", Unit.COUNT, _PART,
        "Threads of this process that have ended by an error of rheostat's own; its log names them. It goes on without them.",
    )  # fmt: skip
    CPU_SECONDS = MetricDef(
        "rheostat_process_cpu_seconds_total", "counter", Unit.SECONDS, _PART,
        "CPU time of this process since its start, Spark's JVM left out.",
    )  # fmt: skip
    RESIDENT_BYTES = MetricDef(
        "rheostat_process_resident_memory_bytes", "gauge", Unit.BYTES, _PART,
        "Memory of this process, Spark's JVM left out; absent where the system has no /proc.",
    )  # fmt: skip
    STARTED_AT = MetricDef(
        "rheostat_process_start_timestamp_seconds",
        "gauge",
        Unit.SINCE_1970,
        _PART,
        "When this process began to tell of itself.",
    )


class CollectorMetric:
    """What `rheostat collect` tells."""

    SCRAPE_SECONDS = MetricDef(
        "rheostat_collector_scrape_seconds",
        "histogram",
        Unit.SECONDS,
        ("cluster",),
        "How long scrapes took, failed ones too.",
    )
    SCRAPE_FAILURES = MetricDef(
        "rheostat_collector_scrape_failures_total", "counter", Unit.COUNT, ("cluster", "node", "cause"),
        "Scrapes that gave nothing, and why.",
    )  # fmt: skip
    SCRAPED_AT = MetricDef(
        "rheostat_collector_last_scrape_timestamp_seconds", "gauge", Unit.SINCE_1970, ("cluster", "node"),
        "When a node's last good scrape began; absent before the first.",
    )  # fmt: skip
    ROUNDS = MetricDef("rheostat_collector_rounds_total", "counter", Unit.COUNT, ("cluster",), "Rounds begun.")
    LATE_ROUNDS = MetricDef(
        "rheostat_collector_late_rounds_total", "counter", Unit.COUNT, ("cluster",),
        "Rounds that took longer than the interval, or in which not every node had its turn.",
    )  # fmt: skip
    ROUND_SECONDS = MetricDef(
        "rheostat_collector_round_seconds", "gauge", Unit.SECONDS, ("cluster",), "How long the last round took."
    )
    RECORDS = MetricDef(
        "rheostat_collector_records_total", "counter", Unit.COUNT, ("cluster",), "Records made for the metrics topic."
    )
    RECORDS_FAILED = MetricDef(
        "rheostat_collector_records_failed_total",
        "counter",
        Unit.COUNT,
        ("cluster",),
        "Records of them that the topic did not take.",
    )
    ADMIN_FAILURES = MetricDef(
        "rheostat_collector_admin_failures_total", "counter", Unit.COUNT, ("cluster",),
        "Rounds and sweeps in which the cluster did not answer in time.",
    )  # fmt: skip
    FULL_SCANS = MetricDef(
        "rheostat_collector_full_scans_total",
        "counter",
        Unit.COUNT,
        ("cluster",),
        "Looks at every topic that have ended.",
    )
    FULL_SCAN_SECONDS = MetricDef(
        "rheostat_collector_full_scan_seconds", "gauge", Unit.SECONDS, ("cluster",), "How long the last of them took."
    )
    ACCESS_RELOAD_SUCCESSFUL = MetricDef(
        "rheostat_collector_access_reload_successful", "gauge", Unit.TRUTH, ("cluster",),
        "1 while certificates and password of the agents are in use as they stand on disk, 0 when they could not be read again.",
    )  # fmt: skip


class StreamMetric:
    """What `rheostat stream` tells."""

    BATCH_AT = MetricDef(
        "rheostat_stream_last_batch_timestamp_seconds", "gauge", Unit.SINCE_1970, ("cluster",),
        "When the last batch that had input ended; absent before the first.",
    )  # fmt: skip
    BATCH_SECONDS = MetricDef(
        "rheostat_stream_batch_seconds", "gauge", Unit.SECONDS, ("cluster",), "How long that batch took."
    )
    BATCH_INTERVAL = MetricDef(
        "rheostat_stream_batch_interval_seconds", "gauge", Unit.SECONDS, ("cluster",),
        "How often windows end (stream.slide_s): batches that take longer fall behind.",
    )  # fmt: skip
    NEWEST_INPUT_AT = MetricDef(
        "rheostat_stream_newest_input_timestamp_seconds", "gauge", Unit.SINCE_1970, ("cluster",),
        "When Kafka took the newest record of that batch; its distance from the batch's end is the age of a signal.",
    )  # fmt: skip
    WATERMARK_AT = MetricDef(
        "rheostat_stream_watermark_timestamp_seconds", "gauge", Unit.SINCE_1970, ("cluster",),
        "Windows that ended before this are closed; what comes for them is left out.",
    )  # fmt: skip
    INPUT_BEHIND = MetricDef(
        "rheostat_stream_input_behind_records", "gauge", Unit.COUNT, ("cluster",),
        "Records in the input topics that were not read when that batch began, of all sources.",
    )  # fmt: skip
    STATE_ROWS = MetricDef(
        "rheostat_stream_state_rows", "gauge", Unit.COUNT, ("cluster",), "Rows that Spark keeps between two batches."
    )
    BATCHES = MetricDef("rheostat_stream_batches_total", "counter", Unit.COUNT, ("cluster",), "Batches that had input.")
    INPUT_ROWS = MetricDef(
        "rheostat_stream_input_rows_total",
        "counter",
        Unit.COUNT,
        ("cluster",),
        "Records read; those of an outage's backlog are not among them.",
    )
    LATE_ROWS = MetricDef(
        "rheostat_stream_late_rows_total",
        "counter",
        Unit.COUNT,
        ("cluster",),
        "Rows that came too late for their windows and are left out.",
    )
    REJECTS = MetricDef(
        "rheostat_stream_rejects_total",
        "counter",
        Unit.COUNT,
        ("cluster",),
        "Records that could not be read; those of an outage's backlog, worked off apart, are in the rejects topic alone.",
    )
    REJECTS_NOT_WRITTEN = MetricDef(
        "rheostat_stream_rejects_not_written_total", "counter", Unit.COUNT, ("cluster",),
        "Those of them that are not in the rejects topic either: too many at once, or too late.",
    )  # fmt: skip
    QUARANTINED = MetricDef(
        "rheostat_stream_quarantined_records_total", "counter", Unit.COUNT, ("cluster",),
        "Records that this process left out because they end the stream whenever they are read; the rejects topic names them.",
    )  # fmt: skip
    RESTARTS = MetricDef(
        "rheostat_stream_restarts_total",
        "counter",
        Unit.COUNT,
        ("cluster",),
        "Times the query was started again, in this process.",
    )
    BACKLOG = MetricDef(
        "rheostat_stream_backlog_records", "gauge", Unit.COUNT, ("cluster",),
        "Records of an outage that are still to be worked off, beside the live query.",
    )  # fmt: skip
    BACKLOG_LOST_RECORDS = MetricDef(
        "rheostat_stream_backlog_lost_records",
        "gauge",
        Unit.COUNT,
        ("cluster",),
        "Records of it that Kafka had deleted before they were read.",
    )


class TunerMetric:
    """What `rheostat tune` tells."""

    # -- the tuner itself -----------------------------------------------------------------------------------------------------

    READY = MetricDef(
        "rheostat_tuner_ready",
        "gauge",
        Unit.TRUTH,
        ("cluster",),
        "1 while the tuner sees the cluster and signals; 0 from twice tuner.signal_age_s_max on, 1 again within it.",
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
    CYCLE_FAILURES = MetricDef(
        "rheostat_cycle_failures_total", "counter", Unit.COUNT, ("cluster", "controller"),
        "Errors of rheostat's own that ended a cycle of a controller (throttles, mutation_quotas, plans); nothing was changed.",
    )  # fmt: skip
    RECORDS_REFUSED = MetricDef(
        "rheostat_tuner_refused_records_total", "counter", Unit.COUNT, ("cluster", "topic"),
        "Records that the tuner could not read and passed over, by topic (signals, orders).",
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
    NEEDS_ATTENTION = MetricDef(
        "rheostat_throttle_needs_attention", "gauge", Unit.TRUTH, ("cluster", "broker", "side", "reason"),
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
    EXTERNAL_CHANGE_HOLD_UNTIL = MetricDef(
        "rheostat_external_change_hold_until_timestamp_seconds", "gauge", Unit.SINCE_1970, ("cluster", "broker", "side"),
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
        "When all that moves or is planned has ended; absent while that is not known, or while a move has stalled.",
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
        "Messages that adding replicas on this broker are behind, as their fetchers say; it stands still where they are throttled. "
        "The hundred brokers with most.",
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
        "1 while the stalled move onto this broker is held by no throttle on its way (but by source, disk, network, fetchers), 0 "
        "while a throttle holds it; absent where none is stalled. A hundred of them, those that are 1 first.",
    )  # fmt: skip
    RATE_CURRENT = MetricDef(
        "rheostat_throttle_rate_bytes_per_second", "gauge", Unit.BYTES_PER_SECOND, ("cluster", "broker", "side"),
        "The throttle as set on the broker now; absent while none is set.",
    )  # fmt: skip
    RATE_SETPOINT = MetricDef(
        "rheostat_setpoint_bytes_per_second", "gauge", Unit.BYTES_PER_SECOND, ("cluster", "broker", "side"),
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
        "rheostat_throttle_rate_min_bytes_per_second",
        "gauge",
        Unit.BYTES_PER_SECOND,
        ("cluster",),
        "The operator's floor.",
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
    STEADY_STATE_BYTES = MetricDef(
        "rheostat_steady_state_bytes_per_second", "gauge", Unit.BYTES_PER_SECOND, ("cluster", "broker", "side"),
        "What the throttle must carry before anything catches up: W. A throttle at or below it never ends the move.",
    )  # fmt: skip
    INFEASIBLE = MetricDef(
        "rheostat_throttle_infeasible", "gauge", Unit.TRUTH, ("cluster", "broker", "side"),
        "1 while neither the ceiling nor the throttle that stands is above the keep-up rate, so that the move never ends, else 0; "
        "a hundred of them, those that are 1 first.",
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
    ORPHANED_THROTTLE_SETTINGS = MetricDef(
        "rheostat_orphaned_throttle_settings", "gauge", Unit.COUNT, ("cluster",),
        "Throttle settings that serve no move: rates and replica lists on brokers that no reassignment touches, all while there "
        "is none; a rate for all brokers (<default>) is one a side.",
    )  # fmt: skip
    # -- plans of rheostat reassign ------------------------------------------------------------------------------------------

    PLAN_EXECUTOR_FAILED = MetricDef(
        "rheostat_plan_executor_failed", "gauge", Unit.TRUTH, ("cluster",),
        "1 once the executor of plans had an error of rheostat's own, until it has gone well for a minute; else 0.",
    )  # fmt: skip
    PLANS_STATE_UNKNOWN = MetricDef(
        "rheostat_plans_state_unknown", "gauge", Unit.TRUTH, ("cluster",),
        "1 while it is not known how the plans are, as the cluster cannot be seen or no look has ended for two minutes: none goes "
        "on, and none is told of; else 0.",
    )  # fmt: skip
    PLAN_PARTITIONS = MetricDef(
        "rheostat_plan_partitions", "gauge", Unit.COUNT, ("cluster", "plan", "state"),
        "Partitions of a plan by where they are: arrived, moving, waiting, electing (a leader), unclear (not seen yet to have been "
        "taken), externally_owned, dropped; the oldest twenty plans that have not ended.",
    )  # fmt: skip
    PLAN_PAUSED = MetricDef(
        "rheostat_plan_paused",
        "gauge",
        Unit.TRUTH,
        ("cluster", "plan"),
        "1 while a person has paused this plan, else 0.",
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
    DEADLINE = MetricDef(
        "rheostat_deadline_timestamp_seconds", "gauge", Unit.SINCE_1970, ("cluster",),
        "The moment by which reassignments are to be done, tuner.objective.finish_at; absent without one.",
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
        "What a broker can carry each way, as tuner.capacity says; without a broker's name, of all that are not named. Absent "
        "where nothing is said.",
    )  # fmt: skip
    UNDER_MIN_ISR = MetricDef(
        "rheostat_under_min_isr_partitions", "gauge", Unit.COUNT, ("cluster", "broker"),
        "Partitions led by this broker that have fewer replicas in sync than producers with acks=all need; beyond a hundred "
        "brokers only where there are any.",
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
        "How many it may host, as the settings' section limits says; without a broker's name, of all that are not named. Absent "
        "where nothing is said.",
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

    QUOTAS_READABLE = MetricDef(
        "rheostat_quotas_readable", "gauge", Unit.TRUTH, ("cluster",),
        "1 while the mutation quotas can be read, else 0, also while what turns them rests after an error of its own; absent where "
        "none are asked for.",
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
    CREATE_PROBE_P90_SECONDS = MetricDef(
        "rheostat_create_probe_p90_seconds", "gauge", Unit.SECONDS, ("cluster",),
        "How long 9 of 10 creations take for whoever asks, of the last half minute; absent where that is not asked for.",
    )  # fmt: skip
    CREATE_PROBE_P90_OBJECTIVE = MetricDef(
        "rheostat_create_probe_p90_objective_seconds", "gauge", Unit.SECONDS, ("cluster",),
        "How long they may; absent where not asked for.",
    )  # fmt: skip
    FORWARDING_BUSY = MetricDef(
        "rheostat_forwarding_busy_ratio", "gauge", Unit.RATIO, ("cluster",),
        "Share of the time in which a broker's line to the controller is taken by a creation or deletion of topics, on average of "
        "the brokers, of the last half minute.",
    )  # fmt: skip
    FORWARDING_BUSY_OBJECTIVE = MetricDef(
        "rheostat_forwarding_busy_objective_ratio", "gauge", Unit.RATIO, ("cluster",),
        "The most that it should be; absent where not asked for.",
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
    TENANTS_THROTTLED = MetricDef(
        "rheostat_tenants_throttled",
        "gauge",
        Unit.COUNT,
        ("cluster",),
        "Tenants whose mutation quota is exhausted now.",
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


BY_PROCESS: dict[str, tuple[MetricDef, ...]] = {
    "every process": metric_defs_in(vars(ProcessMetric)),
    "collector": metric_defs_in(vars(CollectorMetric)),
    "stream": metric_defs_in(vars(StreamMetric)),
    "tuner": metric_defs_in(vars(TunerMetric)),
}
ALL: tuple[MetricDef, ...] = tuple(metric for metrics in BY_PROCESS.values() for metric in metrics)
