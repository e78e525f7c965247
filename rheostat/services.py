"""The three long-running parts, each as a process of its own: collect, stream, tune."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

import kafka.errors
import structlog

from rheostat.errors import CommandError, SetupError, UnreachableError
from rheostat.settings import Settings
from streaming.collector.loop import Collector
from streaming.contract import Scrape
from streaming.kafka import producer
from streaming.kafka.cluster import ClusterClient, ClusterError
from streaming.topics import ensure_topics

PROBE_S_MAX = 5.0  # With the interpreter's start this stays under the 10 s after which a person gives up.
_RETRY_S_MAX = 30.0
_SUMMARY_S = 60.0


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
        UnreachableError: no broker answers.
    """
    timeout_s = min(PROBE_S_MAX, settings.kafka.request_timeout_s)
    with ClusterClient(settings.kafka.model_copy(update={"request_timeout_s": timeout_s}), "rheostat-probe") as client:
        try:
            client.brokers()
        except ClusterError as error:
            raise UnreachableError(
                f"No broker answers at {settings.kafka.bootstrap_servers} ({error}). Check kafka.bootstrap_servers and "
                "kafka.security_protocol; `rheostat doctor` looks closer."
            ) from error


def run_tune(settings: Settings, stop: threading.Event) -> None:
    from tuner.app import JournalError, PortError, run_tuner

    try:
        run_tuner(settings.cluster, settings.kafka, settings.topic_names(), settings.tuner, stop)
    except JournalError as error:
        raise CommandError(f"The tuner cannot start: {error}") from error
    except PortError as error:
        raise SetupError(f"The tuner cannot listen on {error}: set tuner.http.port.") from error


def run_stream(settings: Settings, stop: threading.Event) -> None:
    from rheostat.jvm.artifacts import resolve_artifacts
    from rheostat.jvm.java import find_java
    from streaming.errors import StreamError
    from streaming.runner import Progress, run

    log = structlog.get_logger("stream")
    find_java()
    artifacts = resolve_artifacts(log.info)
    _until_topics(settings, stop)
    if stop.is_set():
        return
    first = True

    def progressed(progress: Progress) -> None:
        nonlocal first
        if first:
            log.info("first batch", **progress)
            first = False

    try:
        run(settings.kafka, settings.topic_names(), settings.stream, artifacts.spark_jars, stop, progressed)
    except StreamError as error:
        raise CommandError(str(error)) from error


def run_collect(settings: Settings, stop: threading.Event) -> None:
    log = structlog.get_logger("collector")
    _until_topics(settings, stop)
    if stop.is_set():
        return
    topic = settings.topic_names().metrics
    unsent = 0

    def failed(error: BaseException) -> None:
        nonlocal unsent
        unsent += 1
        if unsent == 1:
            log.warning("a record was not taken; further ones are only counted", topic=topic, error=str(error))

    sender = producer(settings.kafka, "rheostat-collector", max_block_ms=1000, linger_ms=20)

    def publish(scrape: Scrape) -> None:
        try:
            sender.send(topic, key=scrape.key(), value=scrape.value()).add_errback(failed)
        except kafka.errors.KafkaError as error:
            failed(error)

    own = settings.kafka.model_copy(update={"request_timeout_s": settings.collector.timeout_s})
    with ClusterClient(own, "rheostat-collector") as client:
        collector = Collector(settings.collector, settings.cluster, client, publish)
        summary = threading.Thread(target=_summarise, args=(collector, lambda: unsent, stop), daemon=True)
        summary.start()
        log.info("collector started", cluster=settings.cluster, interval_s=settings.collector.interval_s)
        try:
            collector.run(stop)
        finally:
            sender.close(timeout=5)


def _summarise(collector: Collector, unsent: Callable[[], int], stop: threading.Event) -> None:
    log = structlog.get_logger("collector")
    while not stop.wait(_SUMMARY_S):
        c = collector.counts
        log.info(
            "so far", rounds=c.rounds, late_rounds=c.late_rounds, records=c.records, records_not_taken=unsent(),
            scrape_failures=c.scrape_failures, admin_failures=c.admin_failures,
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
