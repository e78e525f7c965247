"""The collector about itself, for Prometheus. Made anew from the counts at each scrape: a node that has vanished vanishes here."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from socketserver import ThreadingMixIn
from typing import Any, Literal
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from streaming.collector.counts import SCRAPE_S_BUCKETS, Counts

STOP_S_MAX = 5.0
_READ_S_MAX = 10.0


@dataclass(frozen=True, slots=True)
class MetricDef:
    name: str
    kind: Literal["gauge", "counter", "histogram"]
    labels: tuple[str, ...]
    meaning: str


SCRAPE_SECONDS = MetricDef(
    "rheostat_collector_scrape_seconds", "histogram", ("cluster",), "How long scrapes took, failed ones too."
)
SCRAPE_FAILURES = MetricDef(
    "rheostat_collector_scrape_failures_total", "counter", ("cluster", "node", "cause"), "Scrapes that gave nothing, and why."
)  # fmt: skip
SCRAPED_AT = MetricDef(
    "rheostat_collector_last_scrape_timestamp_seconds", "gauge", ("cluster", "node"),
    "When a node's last good scrape began; absent before the first.",
)  # fmt: skip
ROUNDS = MetricDef("rheostat_collector_rounds_total", "counter", ("cluster",), "Rounds begun.")
LATE_ROUNDS = MetricDef(
    "rheostat_collector_late_rounds_total", "counter", ("cluster",),
    "Rounds that took longer than the interval, or in which not every node had its turn.",
)  # fmt: skip
ROUND_SECONDS = MetricDef("rheostat_collector_round_seconds", "gauge", ("cluster",), "How long the last round took.")
RECORDS = MetricDef("rheostat_collector_records_total", "counter", ("cluster",), "Records made for the metrics topic.")
RECORDS_NOT_TAKEN = MetricDef(
    "rheostat_collector_records_failed_total", "counter", ("cluster",), "Records of them that the topic did not take."
)
ADMIN_FAILURES = MetricDef(
    "rheostat_collector_admin_failures_total", "counter", ("cluster",),
    "Rounds and sweeps in which the cluster did not answer in time.",
)  # fmt: skip
SWEEPS = MetricDef("rheostat_collector_sweeps_total", "counter", ("cluster",), "Looks at every topic that have ended.")
SWEEP_SECONDS = MetricDef("rheostat_collector_sweep_seconds", "gauge", ("cluster",), "How long the last of them took.")

ALL: tuple[MetricDef, ...] = tuple(value for value in list(globals().values()) if isinstance(value, MetricDef))


class CountsCollector(Collector):
    def __init__(self, cluster: str, counts: Counts) -> None:
        self._cluster = cluster
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        counts, c = self._counts, (self._cluster,)
        yield self._scrape_seconds()
        yield _family(
            SCRAPE_FAILURES,
            {(*c, str(node), cause.value): n for (node, cause), n in counts.failures.copy().items()},
        )
        yield _family(SCRAPED_AT, {(*c, str(node)): at_s for node, at_s in counts.scraped_at_s.copy().items()})
        for definition, value in (
            (ROUNDS, counts.rounds),
            (LATE_ROUNDS, counts.late_rounds),
            (ROUND_SECONDS, counts.round_s),
            (RECORDS, counts.records),
            (RECORDS_NOT_TAKEN, counts.records_not_taken),
            (ADMIN_FAILURES, counts.admin_failures),
            (SWEEPS, counts.sweeps),
            (SWEEP_SECONDS, counts.sweep_s),
        ):
            yield _family(definition, {c: value})

    def _scrape_seconds(self) -> Metric:
        family = HistogramMetricFamily(SCRAPE_SECONDS.name, SCRAPE_SECONDS.meaning, labels=SCRAPE_SECONDS.labels)
        bounds = [*(str(bound) for bound in SCRAPE_S_BUCKETS), "+Inf"]
        cumulative = accumulate(self._counts.scrape_s_counts)
        buckets = list(zip(bounds, map(float, cumulative), strict=True))
        family.add_metric((self._cluster,), buckets, self._counts.scrape_s_sum)
        return family


def _family(definition: MetricDef, values: dict[tuple[str, ...], float]) -> Metric:
    make = CounterMetricFamily if definition.kind == "counter" else GaugeMetricFamily
    family = make(definition.name, definition.meaning, labels=definition.labels)
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family


def registry_of(cluster: str, counts: Counts) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(CountsCollector(cluster, counts))
    return registry


class MetricsServer:
    """Answers every path with the metrics, each request in a thread of its own."""

    def __init__(self, server: WSGIServer) -> None:
        self.port: int = server.server_port
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, name="http", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join(timeout=STOP_S_MAX)
        self._server.server_close()


def serve(registry: CollectorRegistry, host: str, port: int) -> MetricsServer:
    """
    Raises:
        OSError: the address cannot be listened on.
    """
    kind = _ThreadedV6 if ":" in host else _Threaded
    return MetricsServer(make_server(host, port, make_wsgi_app(registry), kind, _Quiet))


class _Threaded(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _ThreadedV6(_Threaded):
    address_family = socket.AF_INET6


class _Quiet(WSGIRequestHandler):
    timeout = _READ_S_MAX  # A client that opens a connection and says nothing keeps no thread.

    def log_message(self, *args: Any) -> None:
        """A scrape every few seconds is no news."""
