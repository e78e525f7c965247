"""The three long-running parts, each as a process of its own: collect, stream, tune."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType
from typing import Any

import kafka.errors
import structlog

from rheostat.config_watch import ConfigWatch
from rheostat.errors import BadInputError, CommandError, SetupError, UnreachableError
from rheostat.reach import reach
from rheostat.reach.words import is_open, remedies, why
from rheostat.reloading import ReloadsOf
from rheostat.settings import Settings
from rheostat.whereabouts import leave_address
from streaming.collector import metrics as collector_metrics
from streaming.collector.counts import Counts
from streaming.collector.jmx import AccessError
from streaming.collector.loop import Collector
from streaming.contract import Scrape
from streaming.kafka import producer
from streaming.kafka.cluster import ClusterClient, ClusterError
from streaming.metrics_server import serve
from streaming.own_metrics import ConfigState, OwnCollector
from streaming.topics import ensure_topics

PROBE_S_MAX = 5.0  # With the interpreter's start this stays under the 10 s after which a person gives up.
_RETRY_S_MAX = 30.0
_SUMMARY_S = 60.0
_SUMMARY_NODES_MAX = 20  # In a line of the log; the metrics have them all.
_BLOCK_MS_MAX = 500

Config = Callable[[], ConfigState]


def stop_on_signals() -> threading.Event:
    """Set by SIGTERM and SIGINT."""
    stop = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the shape of a handler
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask)
    return stop


def probe(settings: Settings) -> None:
    """One quick look, so that a wrong address is an error at the start and not a line in a log.

    Raises:
        UnreachableError: no broker answers, or they do not let us in.
    """
    kafka = settings.kafka
    timeout_s = min(PROBE_S_MAX, kafka.request_timeout_s)
    # First by ourselves: kafka-python says only that it could not, and waits for ever for a TLS handshake.
    reached = reach(kafka, connect_s_max=timeout_s, answer_s_max=timeout_s)
    if not is_open(reached):
        raise UnreachableError(
            f"No broker answers at {kafka.bootstrap_servers} as it should ({why(reached)}). To do: {remedies(reached, 'kafka')}. "
            "`rheostat doctor` looks closer."
        )
    with ClusterClient(kafka.model_copy(update={"request_timeout_s": timeout_s}), "rheostat-probe") as client:
        try:
            client.brokers()
        except ClusterError as error:
            raise UnreachableError(
                f"A bootstrap server answers, but: {error}. Compare the brokers' advertised.listeners with what can be reached "
                "from here; `rheostat doctor` looks closer."
            ) from error


def run_tune(settings: Settings, stop: threading.Event, watch: ConfigWatch | None = None) -> None:
    """
    Args:
        watch: of the settings file, which may be taken up anew; None: there is none.
    """
    from tuner.app import JournalError, PortError, TokensError, run_tuner

    state = watch.state if watch is not None else None
    try:
        run_tuner(
            settings.cluster, settings.kafka, settings.topic_names(), settings.tuner, stop,
            partition_limits=settings.limits.limits(), own=OwnCollector(settings.cluster, "tune", state),
            reloads=ReloadsOf(watch, dry_run=settings.tuner.dry_run) if watch is not None else None,
            on_started=(lambda server: leave_address(settings.tuner.http, server.port)) if watch is not None else None,
        )  # fmt: skip
    except JournalError as error:
        raise CommandError(f"The tuner cannot start: {error}") from error
    except TokensError as error:
        raise BadInputError(f"The tuner does not start: {error}; see tuner.http.") from error
    except PortError as error:
        raise SetupError(f"The tuner cannot listen on {error}: set tuner.http.port.") from error


def run_stream(settings: Settings, stop: threading.Event, config: Config | None = None) -> None:
    from rheostat.jvm.artifacts import resolve_artifacts
    from rheostat.jvm.java import find_java
    from streaming.backlog import State
    from streaming.class_archive import ClassArchive
    from streaming.errors import StreamError
    from streaming.runner import Listener, Progress, run
    from streaming.sources import feeds
    from streaming.stream_counts import StreamCounts
    from streaming.stream_metrics import registry_of

    log = structlog.get_logger("stream")
    java = find_java()
    artifacts = resolve_artifacts(log.info)
    archive = ClassArchive(artifacts.class_archive(java))
    _until_topics(settings, stop)
    if stop.is_set():
        return
    first = True
    counts = StreamCounts()

    def progressed(progress: Progress) -> None:
        nonlocal first
        counts.progressed(progress, time.time())
        if first:
            log.info("first batch", **progress)
            first = False
        if progress["late_rows_dropped"]:
            log.warning(
                "records came too late for their windows and are left out: raise stream.lateness_s if that goes on",
                **progress,
            )
        if progress["refused_not_written"]:
            log.warning(
                f"{progress['refused_not_written']} of {progress['refused']} refused records are not in the rejects topic: too many"
                " at once, or too late; what is there names the reason and the topic: mend the sender, or take that topic out"
                " of stream.sources",
                **progress,
            )

    def again(cause: str, in_s: float) -> None:
        counts.restarted()
        log.error("the query ended; starting it again", cause=cause, in_s=in_s)

    said_percent = -1

    def of_backlog(state: State) -> None:
        nonlocal said_percent
        counts.of_backlog(state)
        if state.done_percent == said_percent:
            return
        said_percent = state.done_percent
        log.info(
            f"backlog: {state.done_percent} % of {state.records:,} records",
            remaining_records=state.remaining_records,
            lost_records=state.lost_records,
        )

    def backlog_failed(cause: str, in_s: float) -> None:
        log.warning("a piece of the backlog failed; trying it again", cause=cause, in_s=in_s)

    topics = settings.topic_names()
    found = feeds(
        settings.kafka, topics, settings.stream,
        cluster=settings.cluster, own_interval_s=settings.collector.interval_s,
    )  # fmt: skip
    listener = Listener(progressed, again, of_backlog, backlog_failed)
    with ExitStack() as stack:
        if settings.stream.http.port is not None:
            own = OwnCollector(settings.cluster, "stream", config)
            registry = registry_of(settings.cluster, counts, settings.stream.hop_s, own)
            host, port = settings.stream.http.host, settings.stream.http.port
            try:
                server = serve(registry, host, port)
            except OSError as error:
                raise SetupError(f"The stream cannot listen on {host}:{port}: {error}; set stream.http.") from error
            stack.callback(server.close)
            log.info("the stream tells of itself", http=f"http://{host}:{server.port}/metrics")
        try:
            run(settings.kafka, topics, found, settings.stream, artifacts.spark_jars, stop, listener, archive)
        except StreamError as error:
            raise CommandError(str(error)) from error


def run_collect(settings: Settings, stop: threading.Event, config: Config | None = None) -> None:
    log = structlog.get_logger("collector")
    own = settings.kafka.model_copy(update={"request_timeout_s": settings.collector.timeout_s})
    try:
        settings.collector.access_files().load()
    except AccessError as error:
        raise SetupError(f"The collector cannot start: {error}.") from error
    _until_topics(settings, stop)
    if stop.is_set():
        return
    with ExitStack() as stack:
        client = stack.enter_context(ClusterClient(own, "rheostat-collector"))
        sweep_client = stack.enter_context(ClusterClient(settings.kafka, "rheostat-sweep"))
        sender = producer(settings.kafka, "rheostat-collector", max_block_ms=_BLOCK_MS_MAX, linger_ms=20)
        stack.callback(sender.close, timeout=5)
        counts = Counts()
        publish = _Outlet(sender, settings.topic_names().metrics, settings.collector.interval_s, counts).publish
        collector = Collector(settings.collector, settings.cluster, client, sweep_client, publish, counts=counts)
        where = {}
        if settings.collector.http.port is not None:
            host, port = settings.collector.http.host, settings.collector.http.port
            try:
                about_itself = OwnCollector(settings.cluster, "collect", config)
                registry = collector_metrics.registry_of(settings.cluster, counts, about_itself)
                server = serve(registry, host, port)
            except OSError as error:
                raise SetupError(
                    f"The collector cannot listen on {host}:{port}: {error}; set collector.http."
                ) from error
            stack.callback(server.close)
            where = {"http": f"http://{host}:{server.port}/metrics"}
        threading.Thread(target=_summarise, args=(counts, stop), daemon=True).start()
        log.info("collector started", cluster=settings.cluster, interval_s=settings.collector.interval_s, **where)
        collector.run(stop)


class _Outlet:
    """Records → topic. A record that is not taken is counted, and the first one told."""

    def __init__(self, sender: Any, topic: str, pause_s: float, counts: Counts) -> None:
        self._sender = sender
        self._topic = topic
        self._pause_s = pause_s
        self._counts = counts
        self._again_s = 0.0

    def publish(self, scrape: Scrape) -> None:
        # While the topic takes nothing every send blocks; a thousand of them would hold the round up for minutes.
        if time.monotonic() < self._again_s:
            self._counts.not_taken()
            return
        try:
            self._sender.send(self._topic, key=scrape.key(), value=scrape.value()).add_errback(self._failed)
        except kafka.errors.KafkaError as error:
            self._again_s = time.monotonic() + self._pause_s
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        if self._counts.not_taken() == 1:
            structlog.get_logger("collector").warning(
                "a record was not taken; further ones are only counted", topic=self._topic, error=str(error)
            )


def _summarise(counts: Counts, stop: threading.Event) -> None:
    log = structlog.get_logger("collector")
    while not stop.wait(_SUMMARY_S):
        failures = sorted(counts.scrape_failures.items(), key=lambda item: -item[1])
        log.info(
            "so far", rounds=counts.rounds, late_rounds=counts.late_rounds, records=counts.records,
            records_not_taken=counts.records_not_taken, scrape_failures=dict(failures[:_SUMMARY_NODES_MAX]),
            nodes_with_failures=len(failures), admin_failures=counts.admin_failures,
        )  # fmt: skip


def _until_topics(settings: Settings, stop: threading.Event) -> None:
    """Waits, with back-off, for a cluster that takes our topics."""
    log = structlog.get_logger("start")
    wait_s = 1.0
    with ClusterClient(settings.kafka, "rheostat-start") as client:
        while not stop.is_set():
            try:
                for complaint in ensure_topics(client, settings.topic_names()):
                    log.warning(complaint)
                return
            except ClusterError as error:
                log.error("the cluster does not answer; trying again", error=str(error), in_s=wait_s)
                stop.wait(wait_s)
                wait_s = min(_RETRY_S_MAX, wait_s * 2)
