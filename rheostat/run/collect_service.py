"""Runs the collector as a process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import Any

import kafka.errors
import structlog

from rheostat.config.settings import Settings
from rheostat.errors import SetupError
from rheostat.run.clusters_together import CommonSteps, run_together
from rheostat.run.services import serve_metrics, until_topics
from streaming.collector import metrics as collector_metrics
from streaming.collector.counts import Counts
from streaming.collector.jmx import AgentAccessError
from streaming.collector.loop import Collector, CollectorConnections
from streaming.shared.contract import Scrape
from streaming.shared.heartbeat import Heartbeat
from streaming.shared.kafka import producer
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.lease import lease_group
from streaming.shared.part_lease import PartLease, part_lease
from streaming.shared.process_metrics import ConfigState, ProcessMetricsCollector
from streaming.shared.thread_watch import ThreadWatch

_SUMMARY_S = 60.0
_SUMMARY_NODES_MAX = 20  # Nodes with failures in a log line; the metrics have all nodes.
_BLOCK_MS_MAX = 500
# A collector that has missed more rounds counts as hanging, like a tuner that has missed 12 cycles.
_ROUNDS_MISSED_MAX = 12


def run_collect(
    settings: Settings,
    stop: threading.Event,
    heartbeat: Heartbeat,
    config: Callable[[], ConfigState] | None = None,
    threads: ThreadWatch | None = None,
) -> None:
    """Runs the collector of each cluster until ``stop`` is set.

    Raises:
        SetupError: the files for the JMX agents cannot be read, or the HTTP port is taken.
    """
    log = structlog.get_logger("collector")
    clusters = settings.for_each_cluster()
    try:
        for cluster in clusters:
            cluster.collector.access_files().load()
    except AgentAccessError as error:
        raise SetupError(f"The collector cannot start: {error}.") from error
    counts = {cluster.cluster: Counts() for cluster in clusters}
    with ExitStack() as stack:
        process_metrics = ProcessMetricsCollector(settings.cluster, "collect", config, threads=threads)
        registry = collector_metrics.registry_of(counts, process_metrics)
        http_field = serve_metrics(stack, "collector", settings.collector.http, registry, heartbeat)
        topic = settings.topic_names().metrics
        until_topics(settings, stop, [topic], heartbeat)
        if stop.is_set():
            return
        sender = producer(settings.kafka, "rheostat-collector", max_block_ms=_BLOCK_MS_MAX, linger_ms=20)
        stack.callback(sender.close, timeout=5)
        metrics_client = stack.enter_context(ClusterClient(settings.kafka, "rheostat-collector-group"))
        lease = stack.enter_context(_join(settings, metrics_client))
        threading.Thread(target=_summarise, args=(counts, stop), name="summary", daemon=True).start()
        reports = _CollectReports(lease, heartbeat, clusters, counts)
        runs = [
            partial(_collect, cluster, counts[cluster.cluster], sender, lease, stop, reports) for cluster in clusters
        ]
        log.info("collector started", clusters=list(counts), interval_s=settings.collector.interval_s, **http_field)
        run_together(runs, stop, name="collect")


def _collect(
    settings: Settings, counts: Counts, sender: Any, lease: PartLease, stop: threading.Event, reports: _CollectReports
) -> None:
    """Runs the collector of one cluster until ``stop`` is set.

    Args:
        settings: the settings of this cluster.
        sender: a producer for the metrics cluster.
    """
    # A slow broker must not delay a round for longer than a slow JMX agent does.
    round_kafka = settings.kafka.model_copy(update={"request_timeout_s": settings.collector.timeout_s})
    with ExitStack() as stack:
        connections = CollectorConnections(
            stack.enter_context(ClusterClient(round_kafka, "rheostat-collector")),
            stack.enter_context(ClusterClient(settings.kafka, "rheostat-full-scan")),
            stack.enter_context(ClusterClient(settings.kafka, "rheostat-collector-recovery")),
        )
        collector = Collector(
            settings.collector,
            settings.cluster,
            connections,
            _ScrapeSender(sender, settings.topic_names().metrics, settings.collector.interval_s, counts).publish,
            window_s=settings.stream.window_s,
            counts=counts,
            may_act=lease.acts,
        )
        collector.run(stop, lambda: reports.stepped(settings.cluster))


class _CollectReports:
    """Reports the steps of all collectors as steps of one process."""

    def __init__(
        self, lease: PartLease, heartbeat: Heartbeat, clusters: Sequence[Settings], counts: Mapping[str, Counts]
    ) -> None:
        self._lease = lease
        self._heartbeat = heartbeat
        self._counts = counts
        collector = clusters[0].collector  # The interval is the same for all.
        self._step_s_max = _ROUNDS_MISSED_MAX * (
            collector.interval_s + max(cluster.collector.timeout_s for cluster in clusters)
        )
        self._steps = CommonSteps(counts, self._step_s_max)

    def stepped(self, cluster: str) -> None:
        """Reports that the process works. Reports nothing while the collector of a cluster hangs."""
        if self._steps.stepped(cluster):
            measures = any(counts.active for counts in self._counts.values())
            _report_step(self._lease, self._heartbeat, self._step_s_max, measures=measures)


def _join(settings: Settings, client: ClusterClient) -> AbstractContextManager[PartLease]:
    try:
        has_no_member = client.describe_members(lease_group(settings.cluster, "collect")) == []
    except ClusterError:
        has_no_member = False
    topic = settings.topic_names().metrics
    return part_lease(settings.kafka, settings.cluster, "collect", topic, begins_alone=has_no_member)


def _report_step(lease: PartLease, heartbeat: Heartbeat, step_s_max: float, *, measures: bool) -> None:
    """Reports whether the collector acts or stands by. Reports nothing while the lease's thread hangs.

    Args:
        step_s_max: the time within which the next step comes.
    """
    if lease.hangs():
        return
    status = "waits for an answer of the coordinator of its consumer group"
    if measures:
        status = "measures"
    elif lease.stands_by():
        status = "on standby: another collector has the lease"
    heartbeat.beat(step_s_max, status, ready=measures or lease.stands_by())


class _ScrapeSender:
    """Sends records to the topic. Each record that Kafka does not accept is counted; only the first failure is logged."""

    def __init__(self, sender: Any, topic: str, pause_s: float, counts: Counts) -> None:
        self._sender = sender
        self._topic = topic
        self._pause_s = pause_s
        self._counts = counts
        self._retry_s = 0.0  # Before this time (``time.monotonic``) no record is sent.

    def publish(self, scrape: Scrape) -> None:
        """Sends the record, or only counts it as failed for ``pause_s`` seconds after Kafka has refused a record."""
        # While Kafka accepts no records, each send blocks. A thousand blocked sends would delay the round by minutes.
        if time.monotonic() < self._retry_s:
            self._counts.add_failed_record()
            return
        try:
            self._sender.send(self._topic, key=scrape.key(), value=scrape.value()).add_errback(self._failed)
        except kafka.errors.KafkaError as error:
            self._retry_s = time.monotonic() + self._pause_s
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        if self._counts.add_failed_record() == 1:
            structlog.get_logger("collector").warning(
                "Kafka did not accept a record; further failures are only counted", topic=self._topic, error=str(error)
            )


def _summarise(counts: Mapping[str, Counts], stop: threading.Event) -> None:
    log = structlog.get_logger("collector")
    while not stop.wait(_SUMMARY_S):
        for cluster, cluster_counts in counts.items():
            failures = sorted(cluster_counts.scrape_failures.items(), key=lambda item: item[1], reverse=True)
            log.info(
                "summary since the start",
                cluster=cluster,
                rounds=cluster_counts.rounds,
                late_rounds=cluster_counts.late_rounds,
                records=cluster_counts.records,
                records_failed=cluster_counts.records_failed,
                scrape_failures=dict(failures[:_SUMMARY_NODES_MAX]),
                nodes_with_failures=len(failures),
                admin_failures=cluster_counts.admin_failures,
            )
