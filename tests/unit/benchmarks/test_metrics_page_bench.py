"""The benchmark of /metrics covers every metric of every broker, and reports exceeded bounds."""

from __future__ import annotations

import re

import pytest

from benchmarks.metrics_page import BOUND_AT, CLUSTER, PAGE_KB_MAX, missed, registry_at
from streaming.shared.metric_defs import BY_PROCESS
from streaming.shared.metric_page import render_page

# What nobody in this world has, or only where all is stalled; and its plans have copied nothing yet, so that no end is known.
NOT_THERE = {
    "rheostat_throttle_needs_attention", "rheostat_move_bound_elsewhere", "rheostat_fetcher_collisions",
    "rheostat_move_expected_end_timestamp_seconds", "rheostat_deadline_timestamp_seconds",
    # Nothing recovers here.
    "rheostat_recovery_partitions", "rheostat_recovery_remaining_bytes",
    # Nothing is copied between log directories.
    "rheostat_log_dir_copied_bytes_per_second", "rheostat_log_dir_copy_expected_end_timestamp_seconds", "rheostat_log_dir_copy_partitions",
    "rheostat_log_dir_copy_remaining_bytes", "rheostat_log_dir_decisions_total", "rheostat_log_dir_throttle_rate_bytes_per_second",
    "rheostat_log_dir_throttles_owned",
    # The lag has not been judged, which concerns fifty brokers at most.
    "rheostat_replication_lag_growing", "rheostat_replication_lagging_brokers",
    # One value, or a few, of a cluster: its controller's mutation rates.
    "rheostat_controller_event_queue_seconds", "rheostat_controller_idle_ratio", "rheostat_controller_operations_per_second",
    "rheostat_controller_storm", "rheostat_forwarding_busy_ratio", "rheostat_metadata_apply_lag_seconds",
    "rheostat_mutation_partitions_per_second", "rheostat_mutation_request_seconds", "rheostat_mutation_requests_per_second",
    "rheostat_mutations_rejected_per_second", "rheostat_old_client_requests_ratio", "rheostat_storm_quota_partitions_per_second",
    "rheostat_topic_mutations_per_second",
    # No services outside rheostat are asked or told.
    "rheostat_veto_active", "rheostat_veto_unknown", "rheostat_veto_failures_total", "rheostat_webhook_deliveries_total",
    "rheostat_webhook_queue_length", "rheostat_cruise_control_answers", "rheostat_cruise_control_movements_per_broker",
    "rheostat_cruise_control_decisions_total", "rheostat_partitions_without_preferred_leader",
    "rheostat_leadership_decisions_total",
    # Neither node_exporter nor Telegraf reports link speeds.
    "rheostat_link_speed_bytes_per_second",
    # No log directory is cordoned.
    "rheostat_cordoned_log_dirs",
}  # fmt: skip
# Of some brokers: what people have said of them, and the largest partitions.
OF_SOME = {
    # At most fifty threads, and none of the lags that are 0.
    "rheostat_replication_lag_messages", "rheostat_fetcher_lag_messages", "rheostat_fetcher_bytes_per_second",
    "rheostat_capacity_bytes_per_second", "rheostat_partitions_limit", "rheostat_move_partition_remaining_bytes",
    "rheostat_override_until_timestamp_seconds", "rheostat_override_rate_bytes_per_second", "rheostat_external_change_hold_until_timestamp_seconds",
}  # fmt: skip
LETTERS = 20
BYTES_MAX, SPARE = 2_000_000, 0.04


def test_page_has_every_broker_metric_for_every_broker() -> None:
    text = render_page(registry_at(20)).decode()
    told = {match[0] for match in re.findall(r"^(rheostat_\w+)(\{| )", text, re.M)}
    defined = {metric.name for metric in (*BY_PROCESS["every process"], *BY_PROCESS["tuner"])}
    assert defined - told == NOT_THERE
    by_broker = [m.name for m in BY_PROCESS["tuner"] if "broker" in m.labels and m.name in told]
    for name in by_broker:
        brokers = set(re.findall(rf'^{name}{{.*broker="(\d+)"', text, re.M))
        assert brokers == {str(broker) for broker in range(20)} or name in OF_SOME, name


@pytest.mark.parametrize("stalled", [False, True])
def test_metrics_of_thousand_brokers_stay_within_two_megabytes(stalled: bool) -> None:
    """The bound leaves room for metrics that this world lacks and for longer tenant names."""
    assert len(CLUSTER) == LETTERS
    assert PAGE_KB_MAX * 1_000 == BYTES_MAX
    assert len(render_page(registry_at(BOUND_AT, stalled=stalled))) < (1 - SPARE) * BYTES_MAX


def test_other_series_match_the_metrics_page() -> None:
    text = render_page(registry_at(20)).decode()
    for name, count in (
        ("rheostat_tenant_mutation_partitions_per_second", 50), ("rheostat_plan_paused", 20),
        ("rheostat_plan_cordoned_targets", 20),
        ("rheostat_move_partition_remaining_bytes", 100), ("rheostat_override_rate_bytes_per_second", 20),
    ):  # fmt: skip
        assert len(re.findall(rf"^{name}{{", text, re.M)) == count, name


def test_every_stalled_broker_is_reported() -> None:
    text = render_page(registry_at(20, stalled=True)).decode()
    assert len(re.findall(r"^rheostat_move_bound_elsewhere{.* 1$", text, re.M)) == 20
    assert len(re.findall(r"^rheostat_throttle_needs_attention{.* 1$", text, re.M)) == 40


def test_bounds_apply_only_at_their_cluster_size() -> None:
    row = {"brokers": BOUND_AT, "page_ms": 200.0, "first_ms": 200.0, "page_kB": 2_000.0}
    assert missed([row, {"brokers": 5_000, "page_ms": 900.0, "first_ms": 900.0, "page_kB": 9_000.0}]) == []
    assert missed([row | {"page_ms": 201.0, "first_ms": 202.0, "page_kB": 2_001.0}]) == [
        "a page takes 201 ms, allowed are 200",
        "a page for which threads are counted takes 202 ms, allowed are 200",
        "a page has 2001 kB, allowed are 2000",
    ]
