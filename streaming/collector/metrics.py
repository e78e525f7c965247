"""The collector about itself, for Prometheus. Made anew from the counts at each scrape: a node that has vanished vanishes here."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from streaming.collector.counts import SCRAPE_S_BUCKETS, Counts
from streaming.metric_defs import MetricDef, Unit, defined_in
from streaming.metric_page import family

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
RECORDS_NOT_TAKEN = MetricDef(
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
SWEEPS = MetricDef(
    "rheostat_collector_sweeps_total", "counter", Unit.COUNT, ("cluster",), "Looks at every topic that have ended."
)
SWEEP_SECONDS = MetricDef(
    "rheostat_collector_sweep_seconds", "gauge", Unit.SECONDS, ("cluster",), "How long the last of them took."
)
ACCESS_GOOD = MetricDef(
    "rheostat_collector_access_reload_successful", "gauge", Unit.TRUTH, ("cluster",),
    "1 while certificates and password of the agents are in use as they stand on disk, 0 when they could not be read again.",
)  # fmt: skip

ALL = defined_in(globals())


class CountsCollector(Collector):
    def __init__(self, cluster: str, counts: Counts) -> None:
        self._cluster = cluster
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        counts, c = self._counts, (self._cluster,)
        yield self._scrape_seconds()
        yield family(
            SCRAPE_FAILURES,
            {(*c, str(node), cause.value): n for (node, cause), n in counts.failures.copy().items()},
        )
        yield family(SCRAPED_AT, {(*c, str(node)): at_s for node, at_s in counts.scraped_at_s.copy().items()})
        for definition, value in (
            (ROUNDS, counts.rounds),
            (LATE_ROUNDS, counts.late_rounds),
            (ROUND_SECONDS, counts.round_s),
            (RECORDS, counts.records),
            (RECORDS_NOT_TAKEN, counts.records_not_taken),
            (ADMIN_FAILURES, counts.admin_failures),
            (SWEEPS, counts.sweeps),
            (SWEEP_SECONDS, counts.sweep_s),
            (ACCESS_GOOD, float(counts.access_good)),
        ):
            yield family(definition, {c: value})

    def _scrape_seconds(self) -> Metric:
        family = HistogramMetricFamily(SCRAPE_SECONDS.name, SCRAPE_SECONDS.meaning, labels=SCRAPE_SECONDS.labels)
        bounds = [*(str(bound) for bound in SCRAPE_S_BUCKETS), "+Inf"]
        cumulative = accumulate(self._counts.scrape_s_counts)
        buckets = list(zip(bounds, map(float, cumulative), strict=True))
        family.add_metric((self._cluster,), buckets, self._counts.scrape_s_sum)
        return family


def registry_of(cluster: str, counts: Counts, own: Collector | None = None) -> CollectorRegistry:
    """
    Args:
        own: what every process tells of itself.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(CountsCollector(cluster, counts))
    if own is not None:
        registry.register(own)
    return registry
