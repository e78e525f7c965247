"""The composition root: the one place that builds the tuner's clients, and takes them down again, last in first out.

One straight line on purpose: the order of construction is the order in which things depend on each other, and a reader
sees it whole. Each teardown is registered on the line after its construction, so a failure halfway takes down what stands.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

import structlog
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    sleep_using_event,
    stop_when_event_set,
    wait_exponential_jitter,
)

from streaming.contract import Topics
from streaming.kafka import KafkaSettings, consumer, producer
from streaming.kafka.cluster import ClusterClient, ClusterError
from streaming.topics import ensure_topics
from tuner.actuate.slewing import Slewing
from tuner.actuate.throttles import DryRunThrottles, KafkaThrottles, Throttles
from tuner.api.board import Board
from tuner.api.metrics import registry_of
from tuner.api.server import HttpServer, make_app
from tuner.journal.kafka_journal import JournalError, KafkaJournal
from tuner.loop import Loop
from tuner.model.limits import StallLimits
from tuner.model.memory import Memory
from tuner.observe.live import LiveReader
from tuner.observe.signals import SignalReader
from tuner.settings import TunerSettings
from tuner.steering import Steering

log = structlog.get_logger("tuner")

_TICK_S_MIN = 0.02
_RETRY_S_MAX = 30.0


class PortError(Exception):
    """The HTTP port cannot be had."""


def run_tuner(
    cluster: str,
    kafka: KafkaSettings,
    topics: Topics,
    settings: TunerSettings,
    stop: threading.Event,
    *,
    on_started: Callable[[HttpServer], None] | None = None,
    wall_clock: Callable[[], float] = time.time,
    monotonic: Callable[[], float] = time.monotonic,
) -> None:
    """Runs until ``stop`` is set. A cluster that is away is waited for, with back-off.

    Raises:
        PortError: the HTTP port cannot be had.
        JournalError: the journal cannot be read to its end, or holds a memory this version cannot read.
    """
    limits = settings.limits()
    with ExitStack() as stack:
        board = Board(cluster, limits, dry_run=settings.dry_run, wall_clock=wall_clock)
        app = make_app(board, registry_of(board), settings.cycle_s, wall_clock)
        try:
            server = HttpServer(app, settings.http.host, settings.http.port)
        except OSError as error:
            raise PortError(f"{settings.http.host}:{settings.http.port}: {error}") from error
        server.start()
        stack.callback(_named("http server", server.stop))
        if on_started is not None:
            on_started(server)

        client = ClusterClient(kafka, "rheostat-tuner")
        stack.callback(_named("admin client", client.close))
        if not _until_reachable(lambda: _prepare(client, topics), stop):
            return
        journal_producer = producer(kafka, "rheostat-tuner-journal", linger_ms=0)
        stack.callback(_named("journal producer", lambda: journal_producer.close(timeout=5)))
        signal_consumer = consumer(kafka, "rheostat-tuner-signals")
        stack.callback(_named("signals consumer", lambda: signal_consumer.close(timeout_ms=5000)))

        journal = KafkaJournal(journal_producer, topics.journal, cluster)
        memory = _recover(journal, kafka)
        throttles: Throttles = KafkaThrottles(client)
        if settings.dry_run:
            throttles = DryRunThrottles(throttles)
        loop = Loop(
            live=LiveReader(client),
            signals=SignalReader(signal_consumer, topics.signals, cluster),
            throttles=throttles,
            slewing=Slewing(throttles),
            steering=_steering(settings, throttles),
            journal=journal,
            watcher=board,
            memory=memory,
            limits=limits,
            stall_limits=StallLimits(),
            wall_clock=wall_clock,
            monotonic=monotonic,
            writes_per_s_max=settings.config_writes_per_s_max,
            dry_run=settings.dry_run,
        )
        log.info(
            "tuner started", cluster=cluster, dry_run=settings.dry_run, http_port=server.port,
            rate_bytes_per_s_max=settings.rate_bytes_per_s_max, steers=limits.steers, owned=len(memory.owned),
        )  # fmt: skip
        _run(loop, board, settings.cycle_s, stop, monotonic)
        log.info("tuner stopped", owned=len(loop.memory.owned))


def _run(loop: Loop, board: Board, cycle_s: float, stop: threading.Event, monotonic: Callable[[], float]) -> None:
    due_s = monotonic()
    was_ready = False
    while not stop.is_set():
        now_s = monotonic()
        if now_s >= due_s:
            loop.cycle()
            board.cycle_s = monotonic() - now_s
            ready, why = board.ready()
            if ready != was_ready:
                log.info("ready: cluster and fresh signals are seen" if ready else "not ready", why=why)
                was_ready = ready
            due_s = max(due_s + cycle_s, monotonic())
        loop.tick()
        next_s = min(due_s, loop.next_due_s() or due_s)
        stop.wait(max(_TICK_S_MIN, next_s - monotonic()))


def _steering(settings: TunerSettings, throttles: Throttles) -> Steering | None:
    if settings.objective is None or settings.capacity is None:
        return None
    return Steering(
        throttles,
        settings.objective.objective(),
        settings.capacity.of,
        settings.law_limits(),
        writes_per_s_max=settings.config_writes_per_s_max,
    )


def _prepare(client: ClusterClient, topics: Topics) -> None:
    for complaint in ensure_topics(client, topics):
        log.warning(complaint)


def _recover(journal: KafkaJournal, kafka: KafkaSettings) -> Memory:
    reader = consumer(kafka, "rheostat-tuner-recovery")
    try:
        memory = journal.recover(reader)
    finally:
        reader.close(timeout_ms=5000)
    for (broker, side), owned in memory.owned.items():
        log.info(
            "ours from before", broker=broker, side=side.value,
            wanted_bytes_per_s=owned.wanted_bytes_per_s, before_bytes_per_s=owned.before_bytes_per_s,
        )  # fmt: skip
    return memory


def _until_reachable(attempt: Callable[[], None], stop: threading.Event) -> bool:
    """Tries until it works (True) or ``stop`` is set (False)."""

    def say(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        wait_s = state.next_action.sleep if state.next_action is not None else 0.0
        log.error("the cluster does not answer; trying again", error=str(error), in_s=round(wait_s, 1))

    retrying = Retrying(
        retry=retry_if_exception_type(ClusterError),
        wait=wait_exponential_jitter(initial=1, max=_RETRY_S_MAX),
        stop=stop_when_event_set(stop),
        sleep=sleep_using_event(stop),
        before_sleep=say,
        reraise=True,
    )
    try:
        retrying(attempt)
    except ClusterError:
        return False
    return True


def _named(name: str, teardown: Callable[[], object]) -> Callable[[], None]:
    """A teardown that says its name when it fails, and lets the others go on."""

    def run() -> None:
        try:
            teardown()
        except Exception as error:  # noqa: BLE001 - whatever it is, the remaining teardowns must still run
            log.warning("could not be taken down", what=name, error=str(error))

    return run


__all__ = ["JournalError", "PortError", "run_tuner"]
