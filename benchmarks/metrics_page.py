"""Measures the tuner's /metrics page of large clusters: the time to render it, and its length.

The cluster is the worst case: every broker takes part in a move and has a throttle and a setpoint on both sides; objective,
capacities and limits are set, and all values are measured. There are 200 partitions per broker, a quarter of them moving, and
tenants, quotas, plans, overrides and named partitions in proportion (metrics_extras.py). A second case has all moves stalled. The
cluster name, which is in every line, has twenty letters. Figures are CPU time of the process, the median of some pages, garbage
collection included. The first page is shown separately, because it counts fetcher threads (for a large move once a minute). So is
the same page as rendered by prometheus_client. Bounds, at 1,000 brokers: time and length of the page.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from prometheus_client import CollectorRegistry, generate_latest

from benchmarks import metrics_extras
from benchmarks.sizes.world import RATE_BYTES_PER_S, LargeCluster, now_ms, records, sized
from streaming.shared.contract import BrokerSignal, decode_signal
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.metric_page import render_page
from streaming.shared.process_metrics import ConfigState, ProcessMetricsCollector
from streaming.shared.thread_watch import ThreadWatch
from tuner.api.metrics import make_registry
from tuner.api.status_store import StatusStore
from tuner.control.throttle.decision import Hold, Reason
from tuner.control.throttle.objective import Capacity, Objective
from tuner.control.throttle.policy import decide
from tuner.control.throttle.state import Memory, StallState
from tuner.core.cluster import LiveCluster, Observation, Setpoint
from tuner.core.partition_limits import PartitionLimits
from tuner.core.throttle_limits import MB, StallLimits, ThrottleLimits
from tuner.runtime.gc_tuning import tune_gc
from tuner.runtime.observe.cluster_reader import ClusterReader
from tuner.runtime.observe.signals_reader import SignalCache

PAGE_MS_MAX = 200.0
PAGE_KB_MAX = 2_000.0
BOUND_AT = 1_000
SIZES = (100, 1_000, 5_000)
PAGES = 7
FETCHERS = 4
_SEED = 1
CLUSTER = "prod-eu-central-1-01"

Row = dict[str, Any]


class _Signals(SignalCache):
    """A signal reader whose signals the benchmark sets."""


def registry_at(brokers: int, *, stalled: bool = False, fetchers: int = 1) -> CollectorRegistry:
    """Returns the registry of a tuner after a cycle on a cluster of that size, with a value for every metric.

    Args:
        stalled: all moves have stalled, and not because of a throttle.
        fetchers: num.replica.fetchers of every broker; with Kafka's default 1 no threads have to be counted.
    """
    cluster, signals, cycle = LargeCluster(sized(brokers), _SEED, throttled=True), _Signals(), 1
    for value in records(cluster.size, cycle, drained=0.9):
        signal = decode_signal(value)
        signals.add(replace(signal, produce_mean_ms=2.5) if isinstance(signal, BrokerSignal) else signal)
    live = ClusterReader(cast(ClusterClient, cluster)).snapshot(full=True)
    assert isinstance(live, LiveCluster)
    live = replace(live, fetchers=dict.fromkeys(live.brokers, fetchers))
    courses = {side: Setpoint(0.8 * RATE_BYTES_PER_S + side[0]) for side in live.rates}
    orders = metrics_extras.orders(now_ms(cycle))
    observation = Observation(now_ms(cycle), live, signals.brokers, signals.moves, setpoints=courses, orders=orders)
    observation = replace(
        observation, replication_signals=metrics_extras.replication_signals(CLUSTER, brokers, now_ms(cycle))
    )
    limits = ThrottleLimits(rate_bytes_per_s_max=100 * MB, closed_loop=True, throttles_all_moves=True)
    link = Capacity(125.0 * MB, 125.0 * MB)
    board = StatusStore(
        CLUSTER,
        limits,
        dry_run=False,
        wall_clock=lambda: now_ms(cycle) / 1000,
        objective=Objective(latency_ms=50.0),
        capacity=link,
        partition_limits=PartitionLimits(4_000, 4_000 * brokers, dict.fromkeys(range(brokers // 20), 2_000)),
        partitions_named_max=metrics_extras.PARTITIONS_NAMED,
    )
    memory, decisions = decide(observation, Memory(), limits, StallLimits())
    memory = replace(memory, externally_owned_until_ms=metrics_extras.externally_owned_until_ms(now_ms(cycle)))
    if stalled:
        memory = replace(memory, stalls=dict.fromkeys(range(brokers), StallState(lost_s=20.0, stalled=True)))
        decisions = tuple(Hold(*side, Reason.STALLED_NOT_THROTTLE_BOUND, "not by the throttle") for side in live.rates)
    board.become_active()
    board.record_cycle(observation, memory, decisions)
    config = ConfigState(is_valid=True, valid_at_s=0.0, is_applied=True)
    own = ProcessMetricsCollector(CLUSTER, "tune", lambda: config, threads=ThreadWatch())
    quotas, plans = metrics_extras.quotas(CLUSTER, now_ms(cycle)), metrics_extras.plans(CLUSTER)
    return make_registry(board, quotas, own, plans)


def measure(sizes: tuple[int, ...] = SIZES) -> dict[str, Any]:
    rows = [_row(size) for size in sizes]
    if BOUND_AT in sizes:
        rows.append(_row(BOUND_AT, stalled=True))
    found = {"sizes": rows, "bounds": {"page_ms": PAGE_MS_MAX, "page_kB": PAGE_KB_MAX, "at_brokers": BOUND_AT}}
    return found | {"missed": missed(rows)}


def missed(rows: list[Row]) -> list[str]:
    """Returns a sentence for each missed bound."""
    at = [row for row in rows if row["brokers"] == BOUND_AT]
    slow = [
        f"{name} takes {row[key]:.0f} ms, allowed are {PAGE_MS_MAX:.0f}"
        for row in at
        for name, key in (("a page", "page_ms"), ("a page for which threads are counted", "first_ms"))
        if row[key] > PAGE_MS_MAX
    ]
    long = [
        f"a page has {row['page_kB']:.0f} kB, allowed are {PAGE_KB_MAX:.0f}"
        for row in at
        if row["page_kB"] > PAGE_KB_MAX
    ]
    return slow + long


def _row(brokers: int, *, stalled: bool = False) -> Row:
    registry = registry_at(brokers, stalled=stalled, fetchers=FETCHERS)
    began_s = time.process_time()
    text = render_page(registry)
    first_ms = 1000 * (time.process_time() - began_s)
    return {
        "brokers": brokers,
        "all_stalled": stalled,
        "series": sum(not line.startswith(b"#") for line in text.splitlines()),
        "first_ms": round(first_ms, 1),
        "page_ms": round(_median_ms(lambda: render_page(registry)), 1),
        "plain_ms": round(_median_ms(lambda: generate_latest(registry)), 1),
        "page_kB": round(len(text) / 1000, 1),
        "gzip_kB": round(len(gzip.compress(text)) / 1000, 1),
    }


def _median_ms(work: Callable[[], object]) -> float:
    took_ms = []
    for _ in range(PAGES):
        began_s = time.process_time()
        work()
        took_ms.append(1000 * (time.process_time() - began_s))
    return statistics.median(took_ms)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.metrics_page", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object for machines")
    as_json = parser.parse_args(arguments).json
    tune_gc()
    found = measure()
    if as_json:
        print(json.dumps(found))
    else:
        for row in found["sizes"]:
            print(
                f"{row['brokers']:>6} brokers: {row['series']:>7} series, {row['page_kB']:>8.0f} kB "
                f"({row['gzip_kB']:.0f} gzipped), "
                f"{row['page_ms']:>6.0f} ms CPU (first: {row['first_ms']:.0f}, prometheus_client alone: {row['plain_ms']:.0f})"
                + (", all stalled" if row["all_stalled"] else "")
            )
        for one in found["missed"]:
            print(f"MISSED: {one}")
    return int(bool(found["missed"]))


if __name__ == "__main__":
    sys.exit(main())
