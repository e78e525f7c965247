"""The benchmark of /metrics measures what it says: all there is to tell of every broker, and its bounds bite."""

from __future__ import annotations

import re

from benchmarks.metrics_page import BOUND_AT, missed, registry_at
from dashboards.catalogue import BY_PROCESS
from streaming.metric_page import page

# Of single partitions only where that is asked for, of quotas and plans where there are any; and what nobody in this world has.
NOT_THERE = {
    "rheostat_move_partition_remaining_bytes", "rheostat_override_until_timestamp_seconds",
    "rheostat_override_rate_bytes_per_second", "rheostat_yield_until_timestamp_seconds", "rheostat_side_not_well",
    "rheostat_move_bound_elsewhere", "rheostat_fetcher_collisions",
}  # fmt: skip
ELSEWHERE = re.compile(r"quota|tenant|mutation|controller|_plans?_(?!executor)")


def test_every_broker_tells_everything_that_brokers_can() -> None:
    text = page(registry_at(20)).decode()
    told = {match[0] for match in re.findall(r"^(rheostat_\w+)(\{| )", text, re.M)}
    defined = {metric.name for metric in (*BY_PROCESS["every process"], *BY_PROCESS["tuner"])}
    assert defined - told == {name for name in defined if ELSEWHERE.search(name)} | NOT_THERE
    by_broker = [m.name for m in BY_PROCESS["tuner"] if "broker" in m.labels and m.name in told]
    for name in by_broker:
        brokers = set(re.findall(rf'^{name}{{.*broker="(\d+)"', text, re.M))
        assert brokers == {str(broker) for broker in range(20)} or name == "rheostat_capacity_bytes_per_second", name


def test_with_all_of_it_stalled_every_broker_says_so() -> None:
    text = page(registry_at(20, stalled=True)).decode()
    assert len(re.findall(r"^rheostat_move_bound_elsewhere{.* 1$", text, re.M)) == 20
    assert len(re.findall(r"^rheostat_side_not_well{.* 1$", text, re.M)) == 40


def test_bounds_bite_at_their_size_and_at_no_other() -> None:
    row = {"brokers": BOUND_AT, "page_ms": 200.0, "page_kB": 2_000.0}
    assert missed([row, {"brokers": 5_000, "page_ms": 900.0, "page_kB": 9_000.0}]) == []
    assert missed([row | {"page_ms": 201.0, "page_kB": 2_001.0}]) == [
        "a page takes 201 ms, allowed are 200",
        "a page has 2001 kB, allowed are 2000",
    ]
