"""One term: the loops of a tuner that may act, one beside the other in one thread, until it may not act any more."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import structlog

from streaming.shared.contract.bounds import error_text
from tuner.api.status_store import MUTATION_QUOTAS, PLANS, THROTTLES, StatusStore
from tuner.journal.kafka_journal import KafkaJournal
from tuner.runtime.lease import Lease
from tuner.runtime.mutation_quota.loop import MutationQuotaController
from tuner.runtime.reassignment.executor import ReassignmentExecutor
from tuner.runtime.reload import Reloads
from tuner.runtime.throttle.cycle_scheduler import LOOK_EVERY_S
from tuner.runtime.throttle.loop import ThrottleController

log = structlog.get_logger("tuner")

_TICK_S_MIN = 0.02
_CYCLE_FAILED = "a cycle failed, so nothing is changed until one goes well"
_STEP_FAILED = "a step failed, so changes of rates stop where they are until a cycle goes well"
REST_S = 60.0  # Of a controller beside the throttles, after an error.


def serve(
    loop: ThrottleController,
    mutations: MutationQuotaController | None,
    plans: ReassignmentExecutor | None,
    board: StatusStore,
    *,
    journal: KafkaJournal,
    lease: Lease | None,
    reloads: Reloads,
    away: Callable[[], str | None],
    unheard: Callable[[], str | None] = lambda: None,
    cycle_s: float,
    stop: threading.Event,
    monotonic: Callable[[], float],
) -> None:
    """Until the lease or the journal is lost, orders cannot be read, other settings are waiting, or ``stop`` is set.

    Args:
        away: why nothing can be done, where the cluster does not answer at all.
        unheard: why orders that were given are not known; None: they are. One of them may be a pause.
    """

    def may_act() -> bool:
        held = lease is None or still_held(lease, journal, stop, monotonic)
        return held and not journal.lost and not reloads.waiting() and unheard() is None

    board.acts()
    run(loop, mutations, plans, board, cycle_s=cycle_s, stop=stop, monotonic=monotonic, may_act=may_act)
    loop.end("stopped on the way: this tuner's term has ended")
    board.stands_by("other settings are being taken up" if reloads.waiting() else None)
    if not stop.is_set() and (why := unheard()) is not None:
        board.stands_by(why)
        log.error("orders cannot be read: acting no more", holder=journal.holder, error=why)
    elif not stop.is_set() and not reloads.waiting():
        board.stands_by(away())
        log.warning("another tuner has the lease, or it is not known who has: acting no more", holder=journal.holder)


def still_held(lease: Lease, journal: KafkaJournal, stop: threading.Event, monotonic: Callable[[], float]) -> bool:
    """Whether this tuner still has the lease; waits for the end of a rebalance that other tuners caused.

    The group gives the partition back within a heartbeat, or when the session of a tuner that has died is over.
    """
    began_s = monotonic()
    held, waited = lease.held(), False
    while not held and lease.awaits_renewal and not stop.is_set():
        held, waited = lease.held(), True
    if held and lease.was_rebalanced():
        # Another member may have had the lease in between, where the group dropped this one during the rebalance.
        journal.distrust()
    if held and waited:
        paused_s = round(monotonic() - began_s, 1)
        log.info("a tuner joined or left the group: this one keeps the lease and goes on", paused_s=paused_s)
    return held


def run(
    loop: ThrottleController,
    mutations: MutationQuotaController | None,
    plans: ReassignmentExecutor | None,
    board: StatusStore,
    *,
    cycle_s: float,
    stop: threading.Event,
    monotonic: Callable[[], float],
    may_act: Callable[[], bool],
) -> None:
    """Runs each controller as often as it is due. An error of one does not end the others, nor the process.

    A throttle cycle that fails changes nothing, and the next one comes in its time (``Loop.hold``). Quotas and plans rest for
    ``REST_S`` after an error, so that an operator's order may come through, and are then tried again.
    """
    beside: list[_SideController] = []
    if mutations is not None:
        beside.append(_SideController(MUTATION_QUOTAS, mutations, "no mutation quota is changed", board))
    if plans is not None:
        beside.append(_SideController(PLANS, plans, "no plan goes on", board))
    due_s = monotonic()
    was_ready: bool | None = None
    failed = False  # Since the last cycle that went well.
    while not stop.is_set() and may_act():
        now_s = monotonic()
        come = False
        try:
            come = loop.cycle_is_due()
            if ran := come or now_s >= due_s:
                loop.cycle()
                if not failed:
                    board.cycles_go_well()
                failed = False
        except Exception as error:  # whatever it is, what stands stays, and the next cycle may go well
            ran = failed = True
            if board.cycle_failed(THROTTLES, _told(_CYCLE_FAILED, error), now_s):
                log.exception(_CYCLE_FAILED)
            _in_order(loop.hold)
        if ran:
            board.cycle_s = monotonic() - now_s
            ready, why = board.ready()
            if ready != was_ready:
                log.info("ready: cluster and fresh signals are seen" if ready else "not ready", why=why)
                was_ready = ready
            due_s = max((now_s if come or now_s < due_s else due_s) + cycle_s, monotonic())
        try:
            loop.tick()
        except Exception as error:  # the same; a change that cannot go on must not be tried fifty times a second
            failed = True
            if board.cycle_failed(THROTTLES, _told(_STEP_FAILED, error), now_s):
                log.exception(_STEP_FAILED)
            _in_order(partial(loop.end, "stopped on the way: a step failed"))
        next_s = min(due_s, loop.next_due_s() or due_s, now_s + LOOK_EVERY_S)
        for part in beside:
            next_s = min(next_s, part.tick(now_s))
        stop.wait(max(_TICK_S_MIN, next_s - monotonic()))


def _told(effect: str, error: Exception) -> str:
    return f"{effect}: {type(error).__name__}: {error_text(error)}"


def _in_order(stop: Callable[[], None]) -> None:
    try:
        stop()
    except Exception:  # what caused the first error may well cause another one
        log.exception("changes of rates that were under way could not be ended in order")


class _SideController:
    """A controller that runs beside the throttles. After an error it rests, then it is tried again."""

    def __init__(
        self, name: str, part: MutationQuotaController | ReassignmentExecutor, effect: str, board: StatusStore
    ) -> None:
        self._name = name
        self._part = part
        self._effect = f"{effect} for {REST_S:g} s after an error of our own, then it is tried again"
        self._board = board
        self._due_s = float("-inf")

    def tick(self, now_s: float) -> float:
        """Runs it if it may run. Returns when it is due next, in seconds of the monotonic clock."""
        if now_s < self._due_s:
            return self._due_s
        if now_s >= self._due_s + REST_S:
            self._board.resting.pop(self._name, None)  # It went well for as long.
        try:
            self._part.tick()
            return self._part.next_due_s()
        except Exception as error:  # whatever it is, the throttles have their seconds
            why = _told(self._effect, error)
            self._due_s = now_s + REST_S
            if self._board.cycle_failed(self._name, why, now_s):
                log.exception(self._effect)
            self._board.resting[self._name] = why
            return self._due_s
