"""A plan watched, look after look, until it has ended or is as far as somebody waits for."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rheostat.config.settings import Settings
from rheostat.errors import CommandError
from rheostat.orders.send import ACKNOWLEDGED_S_MAX
from rheostat.reassign.plan_input import client_of
from rheostat.reassign.plan_store import following
from rheostat.reassign.progress import PlanProgress, picture, to_measure
from rheostat.reassign.view import PlanView
from streaming.shared.contract import MoveSignal, Side
from streaming.shared.kafka import consumer
from streaming.shared.kafka.cluster import ClusterError
from tuner.core.freshness import Freshness, freshness
from tuner.core.reassignment_plan import Plan
from tuner.journal.topic_tail import KAFKA_ERRORS
from tuner.runtime.observe.signals_reader import SignalReader
from tuner.runtime.reassignment.actuator import KafkaReassignmentActuator

LOOK_EVERY_S = 2.0
_PACE_S = 30.0  # The rate shown is of as long.
_TICK_S = 0.2
_SIGNAL_BACKLOG = 400


def watch(
    settings: Settings,
    plan: str,
    view: PlanView,
    *,
    each_tick: Callable[[], None] = lambda: None,
    unacknowledged: str = "no tuner has acknowledged it yet: none runs, or none that executes plans (tuner.reassign.enabled)",
    enough: Callable[[PlanProgress], bool] = lambda _: False,
) -> PlanProgress:
    """Until the plan has ended.

    Args:
        each_tick: called several times a second, by this thread.
        unacknowledged: what is said once where no tuner knows of the plan for longer than it should take.
        enough: whether it need not be watched any longer, though it has not ended.

    Raises:
        CommandError: the journal or the cluster can't be read any more; the plan goes on.
    """
    seen: deque[tuple[float, float]] = deque()
    with client_of(settings) as client, following(settings) as follower, _following_moves(settings) as moves:
        port = KafkaReassignmentActuator(client)
        due_s, blind, told = 0.0, False, False
        since_s = time.monotonic()
        while True:
            each_tick()
            if time.monotonic() < due_s:
                threading.Event().wait(_TICK_S)
                continue
            began_s = time.monotonic()
            found = _picture(port, follower.now().of(plan), moves)
            # A look at a large plan takes its time, which the cluster has other uses for.
            due_s = time.monotonic() + max(LOOK_EVERY_S, 5 * (time.monotonic() - began_s))
            if isinstance(found, ClusterError):
                if not blind:
                    view.say(f"  the cluster is not seen: {found}; the plan is not lost")
                blind = True
                continue
            blind = False
            if not told and time.monotonic() - since_s > ACKNOWLEDGED_S_MAX and not _is_acknowledged(found):
                view.say(f"  {unacknowledged}")
                told = True
            view.show(found, _rate(seen, found))
            if not found.plan.is_active or (_is_acknowledged(found) and enough(found)):
                return found


def _is_acknowledged(shown: PlanProgress) -> bool:
    return shown.plan.state.acknowledged_at_ms >= shown.plan.head.ordered_at_ms


def look(settings: Settings, plan: Plan) -> PlanProgress:
    """One look.

    Raises:
        CommandError, UnreachableError: the cluster can't be read.
    """
    with client_of(settings) as client, _following_moves(settings) as moves:
        found = _picture(KafkaReassignmentActuator(client), plan, moves)
    if isinstance(found, ClusterError):
        raise CommandError(f"The cluster cannot be read: {found}.")
    return found


class _Moves:
    """What is measured of the moves onto each broker."""

    def __init__(self, signals: SignalReader, age_s_max: float) -> None:
        self._signals = signals
        self._age_s_max = age_s_max

    def now(self, now_ms: int) -> list[MoveSignal]:
        self._signals.poll()
        onto = [s for (_, side), s in self._signals.moves.items() if side is Side.FOLLOWER and s.moving_partitions]
        return [signal for signal in onto if freshness(signal, now_ms, self._age_s_max) is Freshness.FRESH]


@contextmanager
def _following_moves(settings: Settings) -> Iterator[_Moves]:
    """
    Raises:
        CommandError: the cluster does not answer.
    """
    topic = settings.topic_names().signals
    try:
        reader = consumer(settings.kafka, "rheostat-reassign-signals")
    except KAFKA_ERRORS as error:
        raise CommandError(f"{topic} cannot be read, as the cluster does not answer: {error}.") from error
    try:
        signals = SignalReader(reader, topic, settings.cluster)
        signals.rewind(_SIGNAL_BACKLOG)
        yield _Moves(signals, settings.tuner.signal_age_s_max)
    finally:
        reader.close(timeout_ms=2000)


def _picture(port: KafkaReassignmentActuator, plan: Plan, moves: _Moves) -> PlanProgress | ClusterError:
    found = port.read_snapshot({topic for topic, _ in plan.partitions}, to_measure(plan))
    now_ms = round(time.time() * 1000)
    return found if isinstance(found, ClusterError) else picture(plan, found, now_ms, moves.now(now_ms))


def _rate(seen: deque[tuple[float, float]], shown: PlanProgress) -> float | None:
    """Bytes/s over the last half minute; None before there are two looks, or where nothing was copied."""
    now_s = time.monotonic()
    seen.append((now_s, shown.copied_bytes))
    while now_s - seen[0][0] > _PACE_S:
        seen.popleft()
    since_s, had = seen[0]
    return (shown.copied_bytes - had) / (now_s - since_s) if now_s > since_s and shown.copied_bytes > had else None
