"""Every metric of the tuner: name, kind, labels, meaning. Units are the last word of a name, as Prometheus asks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class MetricDef:
    name: str
    kind: Literal["gauge", "counter"]
    labels: tuple[str, ...]
    meaning: str


BUILD_INFO = MetricDef("rheostat_build_info", "gauge", ("version",), "1, labelled with the running version.")
READY = MetricDef(
    "rheostat_tuner_ready", "gauge", ("cluster",), "1 while the tuner sees the cluster and fresh signals."
)
ACTING = MetricDef(
    "rheostat_tuner_acting",
    "gauge",
    ("cluster",),
    "1 while this tuner has the lease or looks on in a dry run, 0 on stand-by.",
)
DRY_RUN = MetricDef("rheostat_tuner_dry_run", "gauge", ("cluster",), "1 while the tuner decides but writes nothing.")
CYCLE_SECONDS = MetricDef("rheostat_tuner_cycle_seconds", "gauge", ("cluster",), "How long the last cycle took.")
SIGNAL_AGE_SECONDS = MetricDef(
    "rheostat_signal_age_seconds", "gauge", ("cluster", "broker"), "Age of the newest sample behind a broker's signal."
)
DECISIONS = MetricDef(
    "rheostat_decisions_total",
    "counter",
    ("cluster", "action", "reason"),
    "Decisions by action (hold, set, ...) and reason.",
)
ACTUATION_FAILURES = MetricDef(
    "rheostat_actuation_failures_total",
    "counter",
    ("cluster",),
    "Writes to the cluster that failed or did not read back.",
)
REASSIGNING_PARTITIONS = MetricDef(
    "rheostat_reassigning_partitions",
    "gauge",
    ("cluster",),
    "Partitions being reassigned, as the controller lists them.",
)
REMAINING_BYTES = MetricDef(
    "rheostat_move_remaining_bytes",
    "gauge",
    ("cluster", "broker"),
    "Bytes that adding replicas on this broker still lack.",
)
REMAINING_SLOPE = MetricDef(
    "rheostat_move_remaining_slope_bytes_per_second",
    "gauge",
    ("cluster", "broker"),
    "Trend of it; negative is progress.",
)
STALLED = MetricDef(
    "rheostat_move_stalled",
    "gauge",
    ("cluster", "broker"),
    "1 while the move onto this broker is judged stalled, else 0.",
)
STALL_SCORE_SECONDS = MetricDef(
    "rheostat_move_stall_score_seconds",
    "gauge",
    ("cluster", "broker"),
    "Seconds of expected progress lost; stalled above 15.",
)
RATE_LIVE = MetricDef(
    "rheostat_throttle_rate_bytes_per_second", "gauge", ("cluster", "broker", "side"),
    "The throttle as set on the broker now; absent while none is set.",
)  # fmt: skip
RATE_WANTED = MetricDef(
    "rheostat_throttle_rate_wanted_bytes_per_second", "gauge", ("cluster", "broker", "side"),
    "Where the tuner is taking it, or what it means it to be in the mean; absent while it holds.",
)  # fmt: skip
RATE_MAX = MetricDef("rheostat_throttle_rate_max_bytes_per_second", "gauge", ("cluster",), "The operator's ceiling.")
THROTTLED_BYTES = MetricDef(
    "rheostat_throttled_bytes_per_second", "gauge", ("cluster", "broker", "side"),
    "Bytes that count against the throttle: Kafka's own 11 s mean, or where that is not collected an estimate.",
)  # fmt: skip
KEEP_UP_BYTES = MetricDef(
    "rheostat_keep_up_bytes_per_second", "gauge", ("cluster", "broker", "side"),
    "What the throttle must carry before anything catches up: W. A throttle at or below it never ends the move.",
)  # fmt: skip
INFEASIBLE = MetricDef(
    "rheostat_throttle_infeasible", "gauge", ("cluster", "broker", "side"),
    "1 while neither the ceiling nor the throttle that stands is above the keep-up rate, so that the move never ends, else 0.",
)  # fmt: skip
NO_HEADROOM = MetricDef(
    "rheostat_throttle_no_headroom", "gauge", ("cluster", "broker", "side"),
    "1 while the clients of this broker leave less than the keep-up rate, so that the throttle runs at its floor, else 0; "
    "absent without an objective.",
)  # fmt: skip
RECOVERING_PARTITIONS = MetricDef(
    "rheostat_recovering_partitions", "gauge", ("cluster",),
    "Moving partitions of which a replica on a living broker was in sync and is coming back.",
)  # fmt: skip
THROTTLE_KEYS_IDLE = MetricDef(
    "rheostat_throttle_keys_idle", "gauge", ("cluster",),
    "Throttle settings (rates and replica lists) standing while nothing is being reassigned.",
)  # fmt: skip
PRODUCE_P99_SECONDS = MetricDef(
    "rheostat_produce_p99_seconds",
    "gauge",
    ("cluster", "broker"),
    "Produce latency, 99th percentile, as the broker reports it.",
)
QUOTAS_SEEN = MetricDef(
    "rheostat_quotas_seen", "gauge", ("cluster",),
    "1 while the mutation quotas can be read, else 0; absent where none are asked for.",
)  # fmt: skip
CONTROLLER_PRESSURE = MetricDef(
    "rheostat_controller_pressure_ratio", "gauge", ("cluster",),
    "How hard the controller is pressed, of its worst objective: 1 is as hard as it may be.",
)  # fmt: skip
MUTATION_TOTAL = MetricDef(
    "rheostat_mutation_total_partitions_per_second", "gauge", ("cluster",),
    "Partitions/s that all tenants together may create and delete.",
)  # fmt: skip
TENANTS_HELD = MetricDef(
    "rheostat_tenants_held_back", "gauge", ("cluster",), "Tenants whose mutation quota is exhausted now."
)
TENANT_EXHAUSTED = MetricDef(
    "rheostat_tenant_quota_exhausted", "gauge", ("cluster", "user", "client_id"),
    "1 while this tenant's mutation quota is exhausted; the busiest fifty of them, absent for the others.",
)  # fmt: skip
QUOTAS_OWNED = MetricDef(
    "rheostat_quotas_owned", "gauge", ("cluster",), "Mutation quotas that rheostat has set and will put back."
)
QUOTA_DECISIONS = MetricDef(
    "rheostat_quota_decisions_total", "counter", ("cluster", "action", "reason"),
    "Decisions about mutation quotas by action (hold_quota, set_quota, ...) and reason.",
)  # fmt: skip
QUOTA_FAILURES = MetricDef(
    "rheostat_quota_failures_total", "counter", ("cluster",),
    "Writes of mutation quotas that failed or were not seen to stand.",
)  # fmt: skip

ALL: tuple[MetricDef, ...] = tuple(value for value in list(globals().values()) if isinstance(value, MetricDef))
