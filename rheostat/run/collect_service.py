"""Runs the collector as a process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import kafka.errors
import structlog

from rheostat.config.settings import Settings
from rheostat.errors import SetupError
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
_ROUNDS_MISSED_MAX = 12  # As for the cycles of the tuner: then the collector hangs.


def run_collect(
    settings: Settings,
    stop: threading.Event,
    heartbeat: Heartbeat,
    config: Callable[[], ConfigState] | None = None,
    threads: ThreadWatch | None = None,
) -> None:
    """Runs the collector until ``stop`` is set.

    Raises:
        SetupError: the files for the JMX agents cannot be read, or the HTTP port is taken.
    """
    log = structlog.get_logger("collector")
    # A slow broker must not delay a round for longer than a slow JMX agent does.
    round_kafka = settings.kafka.model_copy(update={"request_timeout_s": settings.collector.timeout_s})
    try:
        settings.collector.access_files().load()
    except AgentAccessError as error:
        raise SetupError(f"The collector cannot start: {error}.") from error
    counts = Counts()
    with ExitStack() as stack:
        process_metrics = ProcessMetricsCollector(settings.cluster, "collect", config, threads=threads)
        registry = collector_metrics.registry_of(settings.cluster, counts, process_metrics)
        http_field = serve_metrics(stack, "collector", settings.collector.http, registry, heartbeat)
        until_topics(settings, stop, [settings.topic_names().metrics], heartbeat)
        if stop.is_set():
            return
        connections = CollectorConnections(
            stack.enter_context(ClusterClient(round_kafka, "rheostat-collector")),
            stack.enter_context(ClusterClient(settings.kafka, "rheostat-full-scan")),
            stack.enter_context(ClusterClient(settings.kafka, "rheostat-collector-recovery")),
        )
        sender = producer(settings.kafka, "rheostat-collector", max_block_ms=_BLOCK_MS_MAX, linger_ms=20)
        stack.callback(sender.close, timeout=5)
        lease = stack.enter_context(_join(settings, connections.rounds))
        publish = _ScrapeSender(sender, settings.topic_names().metrics, settings.collector.interval_s, counts).publish
        collector = Collector(
            settings.collector,
            settings.cluster,
            connections,
            publish,
            window_s=settings.stream.window_s,
            counts=counts,
            may_act=lease.acts,
        )
        threading.Thread(target=_summarise, args=(counts, stop), name="summary", daemon=True).start()
        log.info("collector started", cluster=settings.cluster, interval_s=settings.collector.interval_s, **http_field)
        round_s_max = settings.collector.interval_s + settings.collector.timeout_s
        step_s_max = _ROUNDS_MISSED_MAX * round_s_max
        collector.run(stop, lambda: _report_step(lease, heartbeat, step_s_max, measures=counts.active))


def _join(settings: Settings, client: ClusterClient) -> AbstractContextManager[PartLease]:
    try:
        has_no_member = client.describe_members(lease_group(settings.cluster, "collect")) == []
    except ClusterError:
        has_no_member = False
    topic = settings.topic_names().metrics
    return part_lease(settings.kafka, settings.cluster, "collect", topic, begins_alone=has_no_member)


def _report_step(lease: PartLease, heartbeat: Heartbeat, step_s_max: float, *, measures: bool) -> None:
    """Reports what the collector does; reports nothing while the lease's thread hangs.

    Args:
        step_s_max: the next step comes within this time.
    """
    if lease.hangs():
        return
    status = "waits for an answer of its group"
    if measures:
        status = "measures"
    elif lease.stands_by():
        status = "on standby: another collector has the lease"
    heartbeat.beat(step_s_max, status, ready=measures or lease.stands_by())


class _ScrapeSender:
    """Sends records to the topic. Each record that Kafka does not accept is counted; only the first one is logged."""

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


def _summarise(counts: Counts, stop: threading.Event) -> None:
    log = structlog.get_logger("collector")
    while not stop.wait(_SUMMARY_S):
        failures = sorted(counts.scrape_failures.items(), key=lambda item: item[1], reverse=True)
        log.info(
            "summary since the start",
            rounds=counts.rounds,
            late_rounds=counts.late_rounds,
            records=counts.records,
            records_failed=counts.records_failed,
            scrape_failures=dict(failures[:_SUMMARY_NODES_MAX]),
            nodes_with_failures=len(failures),
            admin_failures=counts.admin_failures,
        )
