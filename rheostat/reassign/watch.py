"""Watches a plan: reads its progress every few seconds until it has ended, and shows it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rheostat.config.settings import Settings
from rheostat.errors import CommandError
from rheostat.eta_forecasts import eta_forecasts
from rheostat.metrics_cluster import metrics_consumer
from rheostat.orders.send import ACKNOWLEDGED_S_MAX
from rheostat.reassign.plan_input import open_client
from rheostat.reassign.plan_store import open_plan_reader
from rheostat.reassign.progress import CurrentMoves, PlanProgress, measure_progress, partitions_to_measure
from rheostat.reassign.view import PlanView
from streaming.shared.kafka.cluster import ClusterError
from tuner.core.freshness import Freshness, freshness
from tuner.core.reassignment_plan import Plan
from tuner.journal.topic_tail import KAFKA_ERRORS
from tuner.runtime.observe.signals_reader import SignalReader
from tuner.runtime.reassignment.actuator import KafkaReassignmentActuator

SNAPSHOT_EVERY_S = 2.0
_RATE_WINDOW_S = 30.0
_TICK_S = 0.2


def watch_plan(
    settings: Settings,
    plan_id: str,
    view: PlanView,
    *,
    on_tick: Callable[[], None] = lambda: None,
    unacknowledged_text: str = (
        "no tuner has acknowledged the plan yet: none runs, or none executes plans (tuner.reassign.enabled)"
    ),
    stop_when: Callable[[PlanProgress], bool] = lambda _: False,
) -> PlanProgress:
    """Shows the plan until it has ended, and returns its last progress.

    Args:
        on_tick: called several times a second, by this thread.
        unacknowledged_text: shown once if no tuner acknowledges the plan in time.
        stop_when: returns whether to stop although the plan has not ended; not called before a tuner acknowledges the plan.

    Raises:
        CommandError: the journal or the cluster cannot be read any more; the plan continues.
    """
    copied: deque[tuple[float, float]] = deque()
    with (
        open_client(settings) as client,
        open_plan_reader(settings) as reader,
        _open_move_reader(settings) as read_moves,
    ):
        actuator = KafkaReassignmentActuator(client)
        due_s, is_unreadable, is_warned = 0.0, False, False
        started_s = time.monotonic()
        while True:
            on_tick()
            if time.monotonic() < due_s:
                threading.Event().wait(_TICK_S)
                continue
            began_s = time.monotonic()
            progress = _measure(actuator, reader.read().find(plan_id), read_moves)
            # A snapshot of a large plan is slow and loads the cluster, so the pause after it is five times as long as the snapshot.
            due_s = time.monotonic() + max(SNAPSHOT_EVERY_S, 5 * (time.monotonic() - began_s))
            if isinstance(progress, ClusterError):
                if not is_unreadable:
                    view.print_line(f"  the cluster cannot be read now: {progress}; the plan stays on record")
                is_unreadable = True
                continue
            is_unreadable = False
            if not is_warned and time.monotonic() - started_s > ACKNOWLEDGED_S_MAX and not _is_acknowledged(progress):
                view.print_line(f"  {unacknowledged_text}")
                is_warned = True
            view.show(progress, _rate_bytes_per_s(copied, progress))
            if not progress.plan.is_active or (_is_acknowledged(progress) and stop_when(progress)):
                return progress


def _is_acknowledged(progress: PlanProgress) -> bool:
    return progress.plan.state.acknowledged_at_ms >= progress.plan.head.ordered_at_ms


def read_progress(settings: Settings, plan: Plan) -> PlanProgress:
    """Reads the current progress of a plan.

    Raises:
        CommandError, UnreachableError: the cluster cannot be read.
    """
    with open_client(settings) as client, _open_move_reader(settings) as read_moves:
        progress = _measure(KafkaReassignmentActuator(client), plan, read_moves)
    if isinstance(progress, ClusterError):
        raise CommandError(f"The cluster cannot be read: {progress}.")
    return progress


@contextmanager
def _open_move_reader(settings: Settings) -> Iterator[Callable[[int], CurrentMoves]]:
    """Yields a function that returns the current moves at a time (epoch ms)."""
    topic = settings.topic_names().signals
    try:
        reader = metrics_consumer(settings, "rheostat-reassign-signals")
    except KAFKA_ERRORS as error:
        raise CommandError(f"{topic} cannot be read, as the cluster does not answer: {error}.") from error
    try:
        signals = SignalReader(reader, topic, settings.cluster)
        signals.rewind()
        forecasts, age_s_max = eta_forecasts(settings), settings.tuner.signal_age_s_max

        def read_moves(now_ms: int) -> CurrentMoves:
            signals.poll()
            moves = {side: s for side, s in signals.moves.items() if s.moving_partitions}
            fresh = {side: s for side, s in moves.items() if freshness(s, now_ms, age_s_max) is Freshness.FRESH}
            return CurrentMoves(tuple(fresh.values()), forecasts.ratios(fresh, now_ms))

        yield read_moves
    finally:
        reader.close(timeout_ms=2000)


def _measure(
    actuator: KafkaReassignmentActuator, plan: Plan, read_moves: Callable[[int], CurrentMoves]
) -> PlanProgress | ClusterError:
    snapshot = actuator.read_snapshot({topic for topic, _ in plan.partitions}, partitions_to_measure(plan))
    if isinstance(snapshot, ClusterError):
        return snapshot
    now_ms = round(time.time() * 1000)
    return measure_progress(plan, snapshot, now_ms, read_moves(now_ms))


def _rate_bytes_per_s(copied: deque[tuple[float, float]], progress: PlanProgress) -> float | None:
    """Returns the copy rate of the last half minute; None before the second snapshot, or if nothing was copied.

    Args:
        copied: seconds and copied bytes of earlier snapshots; this snapshot is added.
    """
    now_s = time.monotonic()
    copied.append((now_s, progress.copied_bytes))
    while now_s - copied[0][0] > _RATE_WINDOW_S:
        copied.popleft()
    start_s, start_bytes = copied[0]
    if now_s <= start_s or progress.copied_bytes <= start_bytes:
        return None
    return (progress.copied_bytes - start_bytes) / (now_s - start_s)
