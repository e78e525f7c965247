"""Every metric of every process: name, kind, unit, labels and meaning. docs/reference/metrics.md is generated from this module.

Measured values, limits and setpoints are separate metrics, so that a panel can compare them. A value that could not be measured has
no series; it is never 0. "The first hundred" in a meaning: to limit the page's size, the metric has at most a hundred series.
Series with the value 1, or with the largest values, come first.
"""

from __future__ import annotations

from functools import partial

from streaming.shared.metric_def import MetricDef, Unit, metric_defs_in

_gauge = partial(MetricDef, kind="gauge")
_counter = partial(MetricDef, kind="counter")

_PART = ("cluster", "part")
_CLUSTER = ("cluster",)
_BROKER = ("cluster", "broker")
_SIDE = ("cluster", "broker", "side")
_DIRECTION = ("cluster", "broker", "direction")
_TREND = ("cluster", "broker", "span")
_THREAD = ("cluster", "broker", "source", "fetcher")
_TENANT = ("cluster", "user", "client_id")
_FORECAST = ("cluster", "broker", "direction", "horizon")
_MEASURE = ("cluster", "measure", "broker", "user", "client_id")
_DECISION = ("cluster", "action", "reason")

# A table: two lines for each metric.
# fmt: off


class ProcessMetric:
    """Metrics that every process has."""

    BUILD_INFO = _gauge("rheostat_build_info", unit=Unit.TRUTH, labels=("version", "part"),
        meaning="1 for each process; the labels name the running version and the process: collect, stream, tune or learn.")
    CONFIG_VALID = _gauge("rheostat_config_last_reload_successful", unit=Unit.TRUTH, labels=_PART,
        meaning="1 while the settings file on disk is valid; 0 while a restart would fail because of this file. Until a restart"
        " the process keeps its old settings.")
    CONFIG_VALID_AT = _gauge("rheostat_config_last_reload_success_timestamp_seconds", unit=Unit.SINCE_1970, labels=_PART,
        meaning="Time at which the settings file was last read and found valid.")
    CONFIG_APPLIED = _gauge("rheostat_config_in_force", unit=Unit.TRUTH, labels=_PART,
        meaning="1 while this process uses the settings of the file on disk; 0 while the file has other settings, which need a "
        "reload or a restart.")
    CONFIG_RELOADS = _counter("rheostat_config_reloads_total", unit=Unit.COUNT, labels=(*_PART, "result"),
        meaning="Reloads by SIGHUP, by result: taken, or refused (the file is invalid, or a change needs a restart). Tuner only.")
    THREADS_ENDED = _counter("rheostat_threads_ended_total", unit=Unit.COUNT, labels=_PART,
        meaning="Threads of this process that ended with an internal error; the process continues without these threads, and "
        "its log names them.")
    CPU_SECONDS = _counter("rheostat_process_cpu_seconds_total", unit=Unit.SECONDS, labels=_PART,
        meaning="CPU time of this process in seconds, without Spark's JVM.")
    RESIDENT_BYTES = _gauge("rheostat_process_resident_memory_bytes", unit=Unit.BYTES, labels=_PART,
        meaning="Resident memory of this process in bytes, without Spark's JVM; absent on systems without /proc.")
    STARTED_AT = _gauge("rheostat_process_start_timestamp_seconds", unit=Unit.SINCE_1970, labels=_PART,
        meaning="Time at which this process started.")


class CollectorMetric:
    """Metrics of `rheostat collect`."""

    ACTIVE = _gauge("rheostat_collector_active", unit=Unit.TRUTH, labels=_CLUSTER,
        meaning="1 while this collector holds the lease and reads metrics; 0 on standby.")
    SCRAPE_SECONDS = MetricDef("rheostat_collector_scrape_seconds", kind="histogram", unit=Unit.SECONDS, labels=_CLUSTER,
        meaning="Duration of scrapes in seconds, including failed scrapes.")
    SCRAPE_FAILURES = _counter("rheostat_collector_scrape_failures_total", unit=Unit.COUNT, labels=("cluster", "node", "cause"),
        meaning="Failed scrapes, by node and cause.")
    SCRAPED_AT = _gauge("rheostat_collector_last_scrape_timestamp_seconds", unit=Unit.SINCE_1970, labels=("cluster", "node"),
        meaning="Start time of a node's last successful scrape; absent before the first successful scrape.")
    ROUNDS = _counter("rheostat_collector_rounds_total", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Rounds started; in a round the collector reads the metrics of each node once.")
    LATE_ROUNDS = _counter("rheostat_collector_late_rounds_total", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Rounds that took longer than the interval, or ended before every node was scraped.")
    ROUND_SECONDS = _gauge("rheostat_collector_round_seconds", unit=Unit.SECONDS, labels=_CLUSTER,
        meaning="Duration of the last round in seconds.")
    RECORDS = _counter("rheostat_collector_records_total", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Records written to the metrics topic.")
    RECORDS_FAILED = _counter("rheostat_collector_records_failed_total", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Records that could not be written to the metrics topic.")
    ADMIN_FAILURES = _counter("rheostat_collector_admin_failures_total", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Rounds and full scans in which the cluster did not answer a request of the Admin API in time.")
    FULL_SCANS = _counter("rheostat_collector_full_scans_total", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Full scans of all topics and brokers that have finished.")
    FULL_SCAN_SECONDS = _gauge("rheostat_collector_full_scan_seconds", unit=Unit.SECONDS, labels=_CLUSTER,
        meaning="Duration of the last full scan in seconds.")
    ACCESS_RELOAD_SUCCESSFUL = _gauge("rheostat_collector_access_reload_successful", unit=Unit.TRUTH, labels=_CLUSTER,
        meaning="1 while the collector uses the current certificates and password files for the agents; 0 after it could not "
        "read the changed files.")


class StreamMetric:
    """Metrics of `rheostat stream`."""

    ACTIVE = _gauge("rheostat_stream_active", unit=Unit.TRUTH, labels=_CLUSTER,
        meaning="1 while this stream holds the lease and writes signals; 0 on standby.")
    BATCH_AT = _gauge("rheostat_stream_last_batch_timestamp_seconds", unit=Unit.SINCE_1970, labels=_CLUSTER,
        meaning="Time at which the last batch with input ended; absent before the first such batch.")
    BATCH_SECONDS = _gauge("rheostat_stream_batch_seconds", unit=Unit.SECONDS, labels=_CLUSTER,
        meaning="Duration of the last batch with input, in seconds.")
    BATCH_INTERVAL = _gauge("rheostat_stream_batch_interval_seconds", unit=Unit.SECONDS, labels=_CLUSTER,
        meaning="Seconds between the ends of two windows (stream.slide_s); if batches take longer, the stream falls behind.")
    NEWEST_INPUT_AT = _gauge("rheostat_stream_newest_input_timestamp_seconds", unit=Unit.SINCE_1970, labels=_CLUSTER,
        meaning="Kafka's timestamp of the newest record in the last batch; the age of the batch's signals is the end of the "
        "batch minus this time.")
    WATERMARK_AT = _gauge("rheostat_stream_watermark_timestamp_seconds", unit=Unit.SINCE_1970, labels=_CLUSTER,
        meaning="Watermark: windows that end before this time are closed, and the stream drops records of closed windows.")
    INPUT_BEHIND = _gauge("rheostat_stream_input_behind_records", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Unread records in the input topics when the last batch started, over all sources.")
    STATE_ROWS = _gauge("rheostat_stream_state_rows", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Rows of state that Spark keeps from one batch to the next.")
    BATCHES = _counter("rheostat_stream_batches_total", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Batches with input.")
    INPUT_ROWS = _counter("rheostat_stream_input_rows_total", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Records that the Spark query has read, without the records that the stream skipped after an outage and "
        "processes in the background.")
    LATE_ROWS = _counter("rheostat_stream_late_rows_total", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Rows dropped because their windows were already closed.")
    REJECTS = _counter("rheostat_stream_rejects_total", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Records that the stream could not parse, without the records that it skipped after an outage and processes "
        "in the background. The rejects topic also has the unparsable ones among the skipped records.")
    REJECTS_NOT_WRITTEN = _counter("rheostat_stream_rejects_not_written_total", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Unparsable records that the stream did not write to the rejects topic, because there were too many of them or "
        "they were late.")
    QUARANTINED = _counter("rheostat_stream_quarantined_records_total", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Records that the stream skipped because reading them would crash the stream; the rejects topic names these "
        "records.")
    RESTARTS = _counter("rheostat_stream_restarts_total", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Restarts of the Spark query in this process.")
    BACKLOG = _gauge("rheostat_stream_backlog_records", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Records that the stream skipped after an outage and still has to process in the background.")
    BACKLOG_LOST_RECORDS = _gauge("rheostat_stream_backlog_lost_records", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Records that the stream skipped after an outage, and that retention deleted before it could process them.")
    HISTORY_AT = _gauge("rheostat_stream_history_period_timestamp_seconds", unit=Unit.SINCE_1970, labels=_CLUSTER,
        meaning="End of the newest ten-minute period that this process has written to the history; absent before the first "
        "period.")
    HISTORY_SECONDS = _gauge("rheostat_stream_history_job_seconds", unit=Unit.SECONDS, labels=_CLUSTER,
        meaning="Duration of the last run that computed ten-minute periods of the history, in seconds.")
    HISTORY_PERIODS = _counter("rheostat_stream_history_periods_total", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Ten-minute periods of the history that were computed, including repeated computations of the same period.")
    HISTORY_REFUSED = _counter("rheostat_stream_history_refused_signals_total", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Signals that the history left out because they do not have the documented form. A signal counts again each "
        "time its period is computed.")
    HISTORY_FAILURES = _counter("rheostat_stream_history_failures_total", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Failed runs of the job that computes the history every ten minutes; the stream repeats a failed run.")


class LearnMetric:
    """Metrics of `rheostat learn`."""

    LEARNED_TO = _gauge("rheostat_learn_learned_to_timestamp_seconds", unit=Unit.SINCE_1970, labels=_CLUSTER,
        meaning="End of the history that the profiles contain; absent before the first profile.")
    LEARN_SECONDS = _gauge("rheostat_learn_seconds", unit=Unit.SECONDS, labels=_CLUSTER,
        meaning="Duration of the newest update of all profiles in seconds; the first update after a start includes the whole "
        "history.")
    BROKERS = _gauge("rheostat_learn_profiles", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Brokers that have a profile.")
    LEFT_OUT = _gauge("rheostat_learn_left_out", unit=Unit.COUNT, labels=("cluster", "kind"),
        meaning="Brokers or tenants (label kind) in the newest ten-minute period of the history that learn leaves out, because "
        "there are more than 5,000 brokers or 1,000 tenants.")
    PERIODS = _counter("rheostat_learn_periods_total", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Ten-minute periods of this cluster that were read from the history topic.")
    REFUSED = _counter("rheostat_learn_refused_records_total", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Records of the history topic that learn refused: they are not a valid period, or no period begins at their "
        "time, or their time is in the future.")
    WRITTEN = _counter("rheostat_learn_records_written_total", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Records that were written to the profiles topic.")
    FAILED = _counter("rheostat_learn_records_failed_total", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Records for the profiles topic that Kafka did not accept; learn writes them again.")
    FORECAST = _gauge("rheostat_forecast_bytes_per_second", unit=Unit.BYTES_PER_SECOND, labels=_FORECAST,
        meaning="Forecast of the clients' bytes/s on a broker, 1, 12, 24 and 168 hours ahead.")
    FORECAST_ERROR = _gauge("rheostat_forecast_error_bytes_per_second", unit=Unit.BYTES_PER_SECOND, labels=_FORECAST,
        meaning="Mean absolute error of rheostat_forecast_bytes_per_second so far; absent until a forecast can be compared "
        "with a measurement.")
    BASELINE = _gauge("rheostat_baseline_p99_seconds", unit=Unit.SECONDS, labels=_BROKER,
        meaning="Usual produce p99 of a broker at this hour while no broker copies replicas.")
    CAPACITY = _gauge("rheostat_learned_capacity_bytes_per_second", unit=Unit.BYTES_PER_SECOND, labels=_DIRECTION,
        meaning="Highest half-minute mean of a broker's traffic, clients and replication together, while its produce latency "
        "was near its usual value.")
    CAPACITY_AGE = _gauge("rheostat_learned_capacity_age_seconds", unit=Unit.SECONDS, labels=_DIRECTION,
        meaning="Time since the measurement that rheostat_learned_capacity_bytes_per_second shows.")
    CHANGE_POINT = _gauge("rheostat_change_point", unit=Unit.TRUTH, labels=_MEASURE,
        meaning="1 for a day after rheostat learn found a lasting change of the measure; absent otherwise.")
    UNUSUAL = _gauge("rheostat_unusual_value", unit=Unit.TRUTH, labels=_MEASURE,
        meaning="1 for two hours after an hour in which the measure had an unusual value for this hour of the day; absent "
        "otherwise.")


class TunerMetric:
    """Metrics of `rheostat tune`."""

    # -- the tuner itself -----------------------------------------------------------------------------------------------------

    READY = _gauge("rheostat_tuner_ready", unit=Unit.TRUTH, labels=_CLUSTER,
        meaning="1 while the tuner has current data of the cluster and current signals; 0 once the data or the signals are "
        "older than 2 × tuner.signal_age_s_max.")
    ACTIVE = _gauge("rheostat_tuner_active", unit=Unit.TRUTH, labels=_CLUSTER,
        meaning="1 while this tuner holds the lease, or is in a dry run (see rheostat_tuner_dry_run); 0 on standby.")
    DRY_RUN = _gauge("rheostat_tuner_dry_run", unit=Unit.TRUTH, labels=_CLUSTER,
        meaning="1 while the tuner runs as a dry run: it makes decisions but changes nothing.")
    CYCLE_SECONDS = _gauge("rheostat_tuner_cycle_seconds", unit=Unit.SECONDS, labels=_CLUSTER,
        meaning="Duration of the tuner's last cycle (one regular run of its decisions) in seconds.")
    CYCLED_AT = _gauge("rheostat_tuner_last_cycle_timestamp_seconds", unit=Unit.SINCE_1970, labels=_CLUSTER,
        meaning="Time at which the tuner's last cycle ended; absent before the end of the first cycle.")
    CYCLE_FAILURES = _counter("rheostat_cycle_failures_total", unit=Unit.COUNT, labels=("cluster", "controller"),
        meaning="Cycles that ended with an internal error, and changed nothing, by control loop of the tuner (label controller): "
        "throttles, mutation_quotas, plans, log_dirs or replication_lag.")
    RECORDS_REFUSED = _counter("rheostat_tuner_refused_records_total", unit=Unit.COUNT, labels=("cluster", "topic"),
        meaning="Records that the tuner could not read and skipped, by topic (signals, orders).")
    SIGNAL_AGE_SECONDS = _gauge("rheostat_signal_age_seconds", unit=Unit.SECONDS, labels=_BROKER,
        meaning="Age in seconds of the newest sample in a broker's signal.")
    SIGNAL_AGE_MAX = _gauge("rheostat_signal_age_max_seconds", unit=Unit.SECONDS, labels=_CLUSTER,
        meaning="Signal age in seconds above which the tuner raises no throttle (tuner.signal_age_s_max).")
    INPUT_AGE_SECONDS = _gauge("rheostat_input_age_seconds", unit=Unit.SECONDS, labels=("cluster", "input"),
        meaning="Age in seconds of the tuner's inputs: the cluster snapshot, and the newest sample of each kind of signal.")
    DECISIONS = _counter("rheostat_decisions_total", unit=Unit.COUNT, labels=_DECISION,
        meaning="Throttle decisions by action (hold, set, ...) and reason.")
    SIDES = _gauge("rheostat_sides", unit=Unit.COUNT, labels=_DECISION,
        meaning="Number of leader and follower throttles of brokers, by action and reason of the decision in the last cycle.")
    NEEDS_ATTENTION = _gauge("rheostat_throttle_needs_attention", unit=Unit.TRUTH, labels=(*_SIDE, "reason"),
        meaning="1 for a throttle that needs an operator: the tuner lacks inputs for its decision, or no change of the "
        "throttle can help. Absent for other throttles. At most a hundred throttles.")
    ACTUATIONS = _counter("rheostat_actuations_total", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Attempted writes to the cluster, including failed writes.")
    ACTUATION_FAILURES = _counter("rheostat_actuation_failures_total", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Writes to the cluster that failed, or whose new value was missing when the tuner read it back.")

    # -- orders of an operator ------------------------------------------------------------------------------------------------

    PAUSED = _gauge("rheostat_paused", unit=Unit.TRUTH, labels=_CLUSTER,
        meaning="1 while an operator has paused the tuner or ordered it to release its throttles, else 0.")
    RELEASED = _gauge("rheostat_released", unit=Unit.TRUTH, labels=_CLUSTER,
        meaning="1 while the tuner is paused and has removed all its settings from the cluster, else 0.")
    OVERRIDE_UNTIL = _gauge("rheostat_override_until_timestamp_seconds", unit=Unit.SINCE_1970, labels=_SIDE,
        meaning="Time at which an operator's override of this throttle ends; absent without an override.")
    OVERRIDE_RATE = _gauge("rheostat_override_rate_bytes_per_second", unit=Unit.BYTES_PER_SECOND, labels=_SIDE,
        meaning="Rate in bytes/s that an operator's override sets; absent without an override.")
    EXTERNAL_CHANGE_HOLD_UNTIL = _gauge("rheostat_external_change_hold_until_timestamp_seconds", unit=Unit.SINCE_1970, labels=_SIDE,
        meaning="Time until which the tuner leaves a throttle alone, because an operator or another tool changed it; absent for"
        " other throttles.")

    # -- moves and their throttles -------------------------------------------------------------------------------------------

    REASSIGNING_PARTITIONS = _gauge("rheostat_reassigning_partitions", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Partitions being reassigned, as the controller lists them.")
    EXPECTED_END = _gauge("rheostat_move_expected_end_timestamp_seconds", unit=Unit.SINCE_1970, labels=_CLUSTER,
        meaning="Expected end of all running and planned moves; absent while unknown or while a move is stalled.")
    RECOVERY_PARTITIONS = _gauge("rheostat_recovery_partitions", unit=Unit.COUNT, labels=_BROKER,
        meaning="Partitions whose replica on this broker has left the ISR and is catching up; absent while tuner.recovery is off.")
    RECOVERY_REMAINING_BYTES = _gauge("rheostat_recovery_remaining_bytes", unit=Unit.BYTES, labels=_BROKER,
        meaning="Bytes that the replicas of rheostat_recovery_partitions still have to copy on this broker.")
    REMAINING_BYTES = _gauge("rheostat_move_remaining_bytes", unit=Unit.BYTES, labels=_BROKER,
        meaning="Bytes that adding replicas on this broker still have to copy.")
    REMAINING_SLOPE = _gauge("rheostat_move_remaining_slope_bytes_per_second", unit=Unit.BYTES_PER_SECOND, labels=_BROKER,
        meaning="Trend of rheostat_move_remaining_bytes in bytes/s; negative while the move makes progress.")
    LAG_MESSAGES = _gauge("rheostat_move_lag_messages", unit=Unit.MESSAGES, labels=_BROKER,
        meaning="Lag in messages of adding replicas on this broker, as their fetchers report it; the value does not change "
        "while a throttle delays these replicas. At most the hundred brokers with the largest lag.")
    PARTITION_REMAINING_BYTES = _gauge("rheostat_move_partition_remaining_bytes", unit=Unit.BYTES,
        labels=("cluster", "broker", "topic", "partition"),
        meaning="Bytes that an adding replica still has to copy; only for the partitions with the most bytes left. "
        "tuner.metrics.partitions_named_max sets the number of partitions.")
    STALLED = _gauge("rheostat_move_stalled", unit=Unit.TRUTH, labels=_BROKER,
        meaning="1 while the move onto this broker counts as stalled, else 0.")
    STALL_SCORE_SECONDS = _gauge("rheostat_move_stall_score_seconds", unit=Unit.SECONDS, labels=_BROKER,
        meaning="Seconds of expected progress that the move onto this broker has lost. The highest value is 14.5; with this "
        "value the move counts as stalled. At most a hundred brokers, the largest values first.")
    BOUND_ELSEWHERE = _gauge("rheostat_move_bound_elsewhere", unit=Unit.TRUTH, labels=_BROKER,
        meaning="1 while something other than a throttle (source, disk, network, fetchers) limits the stalled move onto this "
        "broker; 0 while a throttle limits it; absent without a stall. At most a hundred brokers.")
    RATE_CURRENT = _gauge("rheostat_throttle_rate_bytes_per_second", unit=Unit.BYTES_PER_SECOND, labels=_SIDE,
        meaning="Throttle rate that is set on the broker now, in bytes/s; absent while no rate is set.")
    RATE_SETPOINT = _gauge("rheostat_setpoint_bytes_per_second", unit=Unit.BYTES_PER_SECOND, labels=_SIDE,
        meaning="Throttle rate in bytes/s to which the tuner changes the throttle, or around which it keeps the throttle; "
        "absent while the tuner does not change this throttle.")
    RATE_MAX = _gauge("rheostat_throttle_rate_max_bytes_per_second", unit=Unit.BYTES_PER_SECOND, labels=_CLUSTER,
        meaning="Highest throttle rate that the settings allow, in bytes/s.")
    RATE_MIN = _gauge("rheostat_throttle_rate_min_bytes_per_second", unit=Unit.BYTES_PER_SECOND, labels=_CLUSTER,
        meaning="Lowest throttle rate that the settings allow, in bytes/s.")
    THROTTLES_OWNED = _gauge("rheostat_throttles_owned", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Throttle rates that rheostat has set and will restore.")
    THROTTLED_BYTES = _gauge("rheostat_throttled_bytes_per_second", unit=Unit.BYTES_PER_SECOND, labels=_SIDE,
        meaning="Bytes/s that count against the throttle: Kafka's own 11 s mean, or an estimate if the collector does not "
        "report this mean.")
    STEADY_STATE_BYTES = _gauge("rheostat_steady_state_bytes_per_second", unit=Unit.BYTES_PER_SECOND, labels=_SIDE,
        meaning="Steady-state replication: the part of the throttle, in bytes/s, that the replication of new writes uses. With "
        "a throttle at or below this rate a move never ends.")
    INFEASIBLE = _gauge("rheostat_throttle_infeasible", unit=Unit.TRUTH, labels=_SIDE,
        meaning="1 while both the ceiling and the current rate are at or below steady-state replication, so that the move "
        "cannot end, else 0. At most a hundred throttles.")
    NO_HEADROOM = _gauge("rheostat_throttle_no_headroom", unit=Unit.TRUTH, labels=_SIDE,
        meaning="1 while clients leave less bandwidth than steady-state replication needs, so that the throttle is at the "
        "minimum rate, else 0. Absent without an objective. At most a hundred throttles.")
    RECOVERING_PARTITIONS = _gauge("rheostat_recovering_partitions", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Moving partitions with a replica that left the ISR and is catching up, on a broker that is alive.")
    ORPHANED_THROTTLE_SETTINGS = _gauge("rheostat_orphaned_throttle_settings", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Throttle rates and throttled-replica lists that no reassignment needs; a cluster-wide default rate "
        "(<default>) counts only once, although many brokers inherit it.")

    # -- copies between the log directories of a broker ------------------------------------------------------------------------

    LOG_DIR_PARTITIONS = _gauge("rheostat_log_dir_copy_partitions", unit=Unit.COUNT, labels=_BROKER,
        meaning="Partitions that this broker copies between its log directories, including those that wait; absent without "
        "copies. Only the hundred brokers with the most bytes left.")
    LOG_DIR_REMAINING_BYTES = _gauge("rheostat_log_dir_copy_remaining_bytes", unit=Unit.BYTES, labels=_BROKER,
        meaning="Bytes that this broker still has to copy between its log directories; absent without copies.")
    LOG_DIR_COPIED_BYTES = _gauge("rheostat_log_dir_copied_bytes_per_second", unit=Unit.BYTES_PER_SECOND, labels=_BROKER,
        meaning="Bytes/s that this broker copies between its log directories: Kafka's own 11 s mean, or the growth of the "
        "copies' sizes if the collector does not report this mean.")
    LOG_DIR_RATE = _gauge("rheostat_log_dir_throttle_rate_bytes_per_second", unit=Unit.BYTES_PER_SECOND, labels=_BROKER,
        meaning="Limit of copies between log directories (replica.alter.log.dirs.io.max.bytes.per.second) in force on a broker "
        "that copies; absent without a limit.")
    LOG_DIR_EXPECTED_END = _gauge("rheostat_log_dir_copy_expected_end_timestamp_seconds", unit=Unit.SINCE_1970, labels=_BROKER,
        meaning="Expected end of this broker's copies between log directories; absent while unknown.")
    LOG_DIR_THROTTLES_OWNED = _gauge("rheostat_log_dir_throttles_owned", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Limits of copies between log directories that rheostat has set and will restore.")
    LOG_DIR_DECISIONS = _counter("rheostat_log_dir_decisions_total", unit=Unit.COUNT, labels=_DECISION,
        meaning="Decisions about copies between log directories by action (hold_log_dir, set_log_dir, ...) and reason.")

    # -- services outside rheostat: tuner.vetoes and tuner.webhooks ----------------------------------------------------------

    VETO_ACTIVE = _gauge("rheostat_veto_active", unit=Unit.TRUTH, labels=("cluster", "veto", "effect"),
        meaning="1 while this check of tuner.vetoes holds or lowers throttles, else 0. Only the active tuner asks the checks.")
    VETO_UNKNOWN = _gauge("rheostat_veto_unknown", unit=Unit.TRUTH, labels=("cluster", "veto"),
        meaning="1 while this check has no valid answer, else 0. After unknown_hold_s without a valid answer the check does not"
        " veto.")
    VETO_FAILURES = _counter("rheostat_veto_failures_total", unit=Unit.COUNT, labels=("cluster", "veto", "kind"),
        meaning="Requests of this check without a valid answer, by kind: timeout, unreachable, status, redirect, too_large, "
        "not_json, no_value, not_a_number or secret.")
    WEBHOOK_DELIVERIES = _counter("rheostat_webhook_deliveries_total", unit=Unit.COUNT, labels=("cluster", "webhook", "result"),
        meaning="Deliveries to this receiver by result: delivered, failed (this attempt; the tuner tries again) or dropped.")
    WEBHOOK_QUEUE = _gauge("rheostat_webhook_queue_length", unit=Unit.COUNT, labels=("cluster", "webhook"),
        meaning="Events that wait for this receiver.")

    CRUISE_CONTROL_ANSWERS = _gauge("rheostat_cruise_control_answers", unit=Unit.TRUTH, labels=_CLUSTER,
        meaning="1 while Cruise Control gives valid answers, else 0; absent without tuner.cruise_control.")
    CRUISE_CONTROL_MOVEMENTS = _gauge("rheostat_cruise_control_movements_per_broker", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Partitions that Cruise Control moves per broker at a time; absent while Cruise Control moves no partitions "
        "between brokers.")
    CRUISE_CONTROL_DECISIONS = _counter("rheostat_cruise_control_decisions_total", unit=Unit.COUNT, labels=_DECISION,
        meaning="Decisions about the concurrency of Cruise Control by action (hold_movements, set_movements) and reason.")

    LEADERS_DISPLACED = _gauge("rheostat_partitions_without_preferred_leader", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Partitions whose preferred replica is in sync but is not the leader; absent with tuner.leadership: off.")
    LEADERSHIP_DECISIONS = _counter("rheostat_leadership_decisions_total", unit=Unit.COUNT, labels=_DECISION,
        meaning="Decisions about preferred leaders by action (hold_election, elect_leaders) and reason.")

    CORDONED_LOG_DIRS = _gauge("rheostat_cordoned_log_dirs", unit=Unit.COUNT, labels=("cluster", "broker", "owner"),
        meaning="Cordoned log directories of this broker (KIP-1066) by owner: rheostat (a plan ordered the cordon) or external; "
        "absent for a broker without cordoned directories. If all directories are cordoned and their names cannot be "
        "read, the value is 1.")

    # -- plans of rheostat reassign ------------------------------------------------------------------------------------------

    PLAN_EXECUTOR_FAILED = _gauge("rheostat_plan_executor_failed", unit=Unit.TRUTH, labels=_CLUSTER,
        meaning="1 while the plan executor fails with an internal error, and until it has run for a minute without an error; "
        "else 0.")
    PLANS_STATE_UNKNOWN = _gauge("rheostat_plans_state_unknown", unit=Unit.TRUTH, labels=_CLUSTER,
        meaning="1 while the tuner does not know the state of plans, because it could not read the cluster for two minutes; no "
        "plan makes progress meanwhile. Else 0.")
    PLAN_PARTITIONS = _gauge("rheostat_plan_partitions", unit=Unit.COUNT, labels=("cluster", "plan", "state"),
        meaning="Partitions of a plan by state: arrived, moving, waiting, electing (a leader), unconfirmed (Kafka has not "
        "confirmed the step yet), externally_owned, dropped, scheduled (the plan starts later); the oldest twenty "
        "unfinished plans.")
    PLAN_PAUSED = _gauge("rheostat_plan_paused", unit=Unit.TRUTH, labels=("cluster", "plan"),
        meaning="1 while an operator has paused this plan, else 0.")
    PLAN_CORDONED_TARGETS = _gauge("rheostat_plan_cordoned_targets", unit=Unit.COUNT, labels=("cluster", "plan"),
        meaning="Cordoned brokers on which steps of this plan would add replicas; these steps wait.")
    PLAN_CANCELLING = _gauge("rheostat_plan_cancelling", unit=Unit.TRUTH, labels=("cluster", "plan"),
        meaning="1 while this plan is being cancelled, else 0.")
    PLAN_MOVEMENTS_MAX = _gauge("rheostat_plan_movements_max", unit=Unit.COUNT, labels=("cluster", "of"),
        meaning="Limits of all plans together (KIP-435). The label `of` names the limit: partition (partitions that move at a "
        "time), replica (new replicas per step) or leader (leader changes at a time). Absent without a plan.")

    # -- replication lag in normal operation: without the replicas that a reassignment adds ------------------------------------

    REPLICATION_LAG = _gauge("rheostat_replication_lag_messages", unit=Unit.MESSAGES, labels=_BROKER,
        meaning="Sum of the lags of all follower replicas on this broker, in messages, without the replicas that a "
        "reassignment adds (KIP-73: SumReplicaLag). With more than a hundred brokers, only brokers with a lag.")
    REPLICATION_LAG_MAX = _gauge("rheostat_replication_lag_max_messages", unit=Unit.MESSAGES, labels=_BROKER,
        meaning="Largest lag of a replica on this broker, in messages. Only the fifty brokers with the largest values.")
    REPLICATION_LAG_SECONDS = _gauge("rheostat_replication_lag_seconds", unit=Unit.SECONDS, labels=_BROKER,
        meaning="Largest lag on this broker in seconds. A lag in seconds is the lag in messages divided by the messages that "
        "producers write per second; only the ten replicas with the largest lags in messages count. Only the fifty brokers "
        "with the largest values.")
    REPLICATION_LAG_BYTES = _gauge("rheostat_replication_lag_bytes", unit=Unit.BYTES, labels=_BROKER,
        meaning="Lag on this broker in bytes: the sum over the ten replicas that lag most. Only the fifty brokers with the "
        "largest values.")
    REPLICATION_LAG_SLOPE = _gauge("rheostat_replication_lag_slope_messages_per_second", unit=Unit.MESSAGES_PER_SECOND,
        labels=_TREND,
        meaning="Trend of rheostat_replication_lag_messages; positive while followers fall behind. The label `span` is window "
        "(stream.window_s) or 5min. Only the fifty brokers with the largest values of each span.")
    REPLICATION_LAG_FIT = _gauge("rheostat_replication_lag_slope_fit_ratio", unit=Unit.RATIO, labels=_TREND,
        meaning="How well a straight line fits the lag of the last 5 minutes (r², 0 to 1); near 1 if the lag changes evenly. "
        "Only brokers that have rheostat_replication_lag_slope_messages_per_second with span=5min.")
    REPLICATION_LAG_ADDING = _gauge("rheostat_replication_lag_adding_messages", unit=Unit.MESSAGES, labels=_BROKER,
        meaning="Lag in messages of the replicas that a reassignment adds on this broker; no other metric of replication lag "
        "includes them. Only the fifty brokers with the largest values.")
    LAGGING_BROKERS = _gauge("rheostat_replication_lagging_brokers", unit=Unit.COUNT, labels=("cluster", "reason"),
        meaning="Brokers whose lag grows, or stays above its usual level, by the likely cause of the lag. Absent until the "
        "tuner has judged the lag.")
    LAG_GROWING = _gauge("rheostat_replication_lag_growing", unit=Unit.TRUTH, labels=(*_BROKER, "reason"),
        meaning="1 while the lag of this broker grows, 0 while it stays above its usual level; absent while the broker does "
        "not lag. Only the fifty brokers with the largest lags.")
    FETCHER_LAG = _gauge("rheostat_fetcher_lag_messages", unit=Unit.MESSAGES, labels=_THREAD,
        meaning="Sum of the lags of the replicas that one fetcher thread of this broker copies from one source. Only the "
        "fifty threads with the largest values.")
    FETCHER_BYTES = _gauge("rheostat_fetcher_bytes_per_second", unit=Unit.BYTES_PER_SECOND, labels=_THREAD,
        meaning="Bytes/s that a fetcher thread copies, including moves; for the same threads as rheostat_fetcher_lag_messages.")

    # -- brokers and their clients -------------------------------------------------------------------------------------------

    PRODUCE_P99_SECONDS = _gauge("rheostat_produce_p99_seconds", unit=Unit.SECONDS, labels=_BROKER,
        meaning="99th percentile of produce latency in seconds, as the broker reports it.")
    PRODUCE_MEAN_SECONDS = _gauge("rheostat_produce_mean_seconds", unit=Unit.SECONDS, labels=_BROKER,
        meaning="Mean produce latency of the last half minute, in seconds. The percentile rheostat_produce_p99_seconds covers "
        "minutes.")
    DEADLINE = _gauge("rheostat_deadline_timestamp_seconds", unit=Unit.SINCE_1970, labels=_CLUSTER,
        meaning="Deadline of reassignments (tuner.objective.finish_at); absent without a deadline.")
    LATENCY_OBJECTIVE_SECONDS = _gauge("rheostat_latency_objective_seconds", unit=Unit.SECONDS, labels=_BROKER,
        meaning="Highest produce latency that the clients of the broker may have (tuner.objective), in seconds; absent without "
        "an objective, and while the broker's latency without copies is not known.")
    CLIENT_BYTES = _gauge("rheostat_client_bytes_per_second", unit=Unit.BYTES_PER_SECOND, labels=_DIRECTION,
        meaning="Bytes/s of producers (in) and consumers (out).")
    CAPACITY_BYTES = _gauge("rheostat_capacity_bytes_per_second", unit=Unit.BYTES_PER_SECOND, labels=_DIRECTION,
        meaning="A broker's network capacity in bytes/s (tuner.capacity); the series with an empty broker is for brokers that "
        "the settings do not name.")
    LINK_SPEED_BYTES = _gauge("rheostat_link_speed_bytes_per_second", unit=Unit.BYTES_PER_SECOND, labels=_BROKER,
        meaning="Speed of the broker's fastest network interface in bytes/s, as node_exporter or Telegraf reports it; absent for a "
        "broker without these metrics.")
    UNDER_MIN_ISR = _gauge("rheostat_under_min_isr_partitions", unit=Unit.COUNT, labels=_BROKER,
        meaning="Partitions led by this broker with fewer in-sync replicas than min.insync.replicas; with more than a hundred "
        "brokers, only brokers with such partitions.")
    ISR_SHRINKS = _gauge("rheostat_isr_shrinks_per_second", unit=Unit.PER_SECOND, labels=_CLUSTER,
        meaning="ISR shrinks per second, over all brokers.")
    PARTITIONS = _gauge("rheostat_partitions", unit=Unit.COUNT, labels=_BROKER,
        meaning="Replicas on the broker, without replicas of internal topics, because no limit counts them.")
    PARTITIONS_LIMIT = _gauge("rheostat_partitions_limit", unit=Unit.COUNT, labels=_BROKER,
        meaning="Highest number of replicas that the settings (section limits) allow on a broker; the series with an empty "
        "broker is for brokers that the settings do not name.")
    CLUSTER_PARTITIONS = _gauge("rheostat_cluster_partitions", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Replicas on all brokers that report their number, without replicas of internal topics.")
    CLUSTER_PARTITIONS_LIMIT = _gauge("rheostat_cluster_partitions_limit", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Highest number of replicas that the settings (section limits) allow in the cluster; absent without a limit.")
    FETCHER_COLLISIONS = _gauge("rheostat_fetcher_collisions", unit=Unit.COUNT, labels=_BROKER,
        meaning="Fetcher threads of this destination broker that copy no moving partition, while another thread for the same "
        "source copies two or more; absent without such threads. At most a hundred brokers.")

    # -- the controller and its tenants --------------------------------------------------------------------------------------

    MUTATIONS = _gauge("rheostat_mutation_partitions_per_second", unit=Unit.PARTITIONS_PER_SECOND,
        labels=("cluster", "change", "source"),
        meaning="Partitions/s that all clients together create (created), delete (deleted), or both (all), over the last half "
        "minute. Source: partition_count (changes from scrape to scrape; a lower bound while clients create and delete at the "
        "same time) or quota_accounts (Kafka's measurements for quotas, exact).")
    TOPIC_MUTATIONS = _gauge("rheostat_topic_mutations_per_second", unit=Unit.PER_SECOND, labels=("cluster", "change"),
        meaning="Topics per second that all clients together create or delete, over the last half minute; a lower bound "
        "while clients create and delete at the same time.")
    MUTATION_REQUESTS = _gauge("rheostat_mutation_requests_per_second", unit=Unit.PER_SECOND, labels=("cluster", "request"),
        meaning="Answered requests per second that create topics, delete topics or add partitions, including refused requests.")
    MUTATION_REQUEST_SECONDS = _gauge("rheostat_mutation_request_seconds", unit=Unit.SECONDS, labels=("cluster", "request"),
        meaning="Mean time on the active controller of requests that create topics, delete topics or add partitions, in "
        "seconds; absent without requests.")
    OLD_CLIENT_REQUESTS = _gauge("rheostat_old_client_requests_ratio", unit=Unit.RATIO, labels=("cluster", "request"),
        meaning="Share of the requests to create topics, delete topics or add partitions that come from old clients: in a "
        "version below CreateTopics 6, DeleteTopics 5 or CreatePartitions 3. Kafka does not refuse these requests "
        "because of a mutation quota, but delays the client. Absent without requests.")
    METADATA_APPLY_LAG = _gauge("rheostat_metadata_apply_lag_seconds", unit=Unit.SECONDS, labels=_CLUSTER,
        meaning="Age in seconds of the newest metadata record that the slowest node has applied; up to 0.5 on an idle cluster.")
    CONTROLLER_STORM = _gauge("rheostat_controller_storm", unit=Unit.TRUTH, labels=_TENANT,
        meaning="1 while creations and deletions of topics overload the controller, else 0; one series for each tenant that "
        "causes the overload, if Kafka measures each tenant.")
    STORM_QUOTA = _gauge("rheostat_storm_quota_partitions_per_second", unit=Unit.PARTITIONS_PER_SECOND, labels=_CLUSTER,
        meaning="Mutation quota in partitions/s that would end the storm; absent without a storm.")
    QUOTAS_READABLE = _gauge("rheostat_quotas_readable", unit=Unit.TRUTH, labels=_CLUSTER,
        meaning="1 while the tuner can read mutation quotas; 0 while it cannot read them, or while it waits after an internal "
        "error. Absent without tuner.mutation_quota.")
    CONTROLLER_PRESSURE = _gauge("rheostat_controller_pressure_ratio", unit=Unit.RATIO, labels=_CLUSTER,
        meaning="Pressure of the controller: the highest ratio of a measured value to its limit, over all limits of the "
        "controller's objective. 1 means that a limit is reached.")
    CONTROLLER_QUEUE_SECONDS = _gauge("rheostat_controller_event_queue_seconds", unit=Unit.SECONDS, labels=_CLUSTER,
        meaning="Mean time in seconds that an event waits in the active controller's queue, over the last half minute.")
    CONTROLLER_QUEUE_OBJECTIVE = _gauge("rheostat_controller_event_queue_objective_seconds", unit=Unit.SECONDS, labels=_CLUSTER,
        meaning="Objective for the controller's event queue time in seconds; absent without an objective.")
    CREATE_PROBE_P90_SECONDS = _gauge("rheostat_create_probe_p90_seconds", unit=Unit.SECONDS, labels=_CLUSTER,
        meaning="Topic-create probe latency (p90) of the last half minute, in seconds; absent without an objective for this "
        "latency.")
    CREATE_PROBE_P90_OBJECTIVE = _gauge("rheostat_create_probe_p90_objective_seconds", unit=Unit.SECONDS, labels=_CLUSTER,
        meaning="Objective for the topic-create probe latency (p90) in seconds; absent without an objective.")
    FORWARDING_BUSY = _gauge("rheostat_forwarding_busy_ratio", unit=Unit.RATIO, labels=_CLUSTER,
        meaning="Share of the time for which a broker forwards topic creations and deletions to the controller: the mean over all "
        "brokers and the last half minute.")
    FORWARDING_BUSY_OBJECTIVE = _gauge("rheostat_forwarding_busy_objective_ratio", unit=Unit.RATIO, labels=_CLUSTER,
        meaning="Objective: the highest permitted rheostat_forwarding_busy_ratio; absent without an objective.")
    CONTROLLER_IDLE = _gauge("rheostat_controller_idle_ratio", unit=Unit.RATIO, labels=_CLUSTER,
        meaning="Share of the time for which the active controller is idle.")
    CONTROLLER_IDLE_OBJECTIVE = _gauge("rheostat_controller_idle_objective_ratio", unit=Unit.RATIO, labels=_CLUSTER,
        meaning="Objective: the lowest permitted rheostat_controller_idle_ratio; absent without an objective.")
    CONTROLLER_OPERATIONS = _gauge("rheostat_controller_operations_per_second", unit=Unit.PER_SECOND, labels=_CLUSTER,
        meaning="Operations per second that the active controller starts.")
    MUTATIONS_REJECTED = _gauge("rheostat_mutations_rejected_per_second", unit=Unit.PER_SECOND, labels=_CLUSTER,
        meaning="Topics per second that a mutation quota refused to create or delete (THROTTLING_QUOTA_EXCEEDED), over all "
        "tenants. Kafka counts each topic of a refused request.")
    MUTATION_TOTAL = _gauge("rheostat_mutation_total_partitions_per_second", unit=Unit.PARTITIONS_PER_SECOND, labels=_CLUSTER,
        meaning="Total rate: partitions/s that all tenants together may create and delete.")
    TENANTS_THROTTLED = _gauge("rheostat_tenants_throttled", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Tenants whose mutation quota is exhausted now.")
    TENANT_EXHAUSTED = _gauge("rheostat_tenant_quota_exhausted", unit=Unit.TRUTH, labels=_TENANT,
        meaning="1 while this tenant's mutation quota is exhausted, else 0; the fifty busiest tenants.")
    TENANT_RATE = _gauge("rheostat_tenant_mutation_partitions_per_second", unit=Unit.PARTITIONS_PER_SECOND, labels=_TENANT,
        meaning="Partitions/s that this tenant creates and deletes; the fifty busiest tenants.")
    TENANT_QUOTA = _gauge("rheostat_tenant_quota_partitions_per_second", unit=Unit.PARTITIONS_PER_SECOND, labels=_TENANT,
        meaning="Mutation quota in force for this tenant, in partitions/s; the fifty busiest tenants, absent without a quota.")
    TENANT_TOKENS = _gauge("rheostat_tenant_tokens", unit=Unit.COUNT, labels=_TENANT,
        meaning="Partitions left in this tenant's token bucket, negative while Kafka throttles it; the fifty busiest tenants.")
    QUOTAS_OWNED = _gauge("rheostat_quotas_owned", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Mutation quotas that rheostat has set and will restore.")
    QUOTA_DECISIONS = _counter("rheostat_quota_decisions_total", unit=Unit.COUNT, labels=_DECISION,
        meaning="Decisions about mutation quotas by action (hold_quota, set_quota, ...) and reason.")
    QUOTA_FAILURES = _counter("rheostat_quota_failures_total", unit=Unit.COUNT, labels=_CLUSTER,
        meaning="Writes of mutation quotas that failed, or whose new value was missing when the tuner read it back.")


# fmt: on

BY_PROCESS: dict[str, tuple[MetricDef, ...]] = {
    "every process": metric_defs_in(vars(ProcessMetric)),
    "collector": metric_defs_in(vars(CollectorMetric)),
    "stream": metric_defs_in(vars(StreamMetric)),
    "tuner": metric_defs_in(vars(TunerMetric)),
    "learn": metric_defs_in(vars(LearnMetric)),
}
ALL: tuple[MetricDef, ...] = tuple(metric for metrics in BY_PROCESS.values() for metric in metrics)
