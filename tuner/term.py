"""One term: the loops of a tuner that may act, one beside the other in one thread, until it may not act any more."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

from tuner.api.board import Board
from tuner.early import LOOK_EVERY_S
from tuner.journal.kafka_journal import KafkaJournal
from tuner.lease import Lease
from tuner.loop import Loop
from tuner.mutation_loop import MutationLoop
from tuner.reassigning import Reassigning
from tuner.reloads import Reloads

log = structlog.get_logger("tuner")

_TICK_S_MIN = 0.02
QUOTAS_REST_S = 60.0


def serve(
    loop: Loop,
    mutations: MutationLoop | None,
    plans: Reassigning | None,
    board: Board,
    *,
    journal: KafkaJournal,
    lease: Lease | None,
    reloads: Reloads,
    away: Callable[[], str | None],
    cycle_s: float,
    stop: threading.Event,
    monotonic: Callable[[], float],
) -> None:
    """Until the lease or the journal is lost, other settings are waiting, or ``stop`` is set.

    Args:
        away: why nothing can be done, where the cluster does not answer at all.
    """

    def may_act() -> bool:
        held = lease is None or lease.held() or wait_for_renewal(lease, journal, stop, monotonic)
        return held and not journal.lost and not reloads.waiting()

    board.acts()
    run(loop, mutations, plans, board, cycle_s=cycle_s, stop=stop, monotonic=monotonic, may_act=may_act)
    loop.end("stopped on the way: this tuner's term has ended")
    board.stands_by("other settings are being taken up" if reloads.waiting() else None)
    if not stop.is_set() and not reloads.waiting():
        board.stands_by(away())
        log.warning("another tuner has the lease, or it is not known who has: acting no more", holder=journal.holder)


def wait_for_renewal(
    lease: Lease, journal: KafkaJournal, stop: threading.Event, monotonic: Callable[[], float]
) -> bool:
    """Waits for the end of a rebalance that other tuners caused; whether this tuner still has the lease after it.

    The group gives the partition back within a heartbeat, or when the session of a tuner that has died is over.
    """
    began_s = monotonic()
    while lease.awaits_renewal and not stop.is_set():
        if lease.held():
            # Another member may have had the lease in between, where the group dropped this one during the rebalance.
            journal.distrust()
            paused_s = round(monotonic() - began_s, 1)
            log.info("a tuner joined or left the group: this one keeps the lease and goes on", paused_s=paused_s)
            return True
    return False


def run(
    loop: Loop,
    mutations: MutationLoop | None,
    plans: Reassigning | None,
    board: Board,
    *,
    cycle_s: float,
    stop: threading.Event,
    monotonic: Callable[[], float],
    may_act: Callable[[], bool],
) -> None:
    """Each as often as it is due. An error of the plans' own ends the plans, and not the throttles; one of the quotas' own lets
    these rest for a minute, as a person may want theirs back, which takes less than to share them out."""
    quotas_due_s = float("-inf")
    due_s = monotonic()
    was_ready = False
    while not stop.is_set() and may_act():
        now_s = monotonic()
        if (come := loop.cycle_is_due()) or now_s >= due_s:
            loop.cycle()
            board.cycle_s = monotonic() - now_s
            ready, why = board.ready()
            if ready != was_ready:
                log.info("ready: cluster and fresh signals are seen" if ready else "not ready", why=why)
                was_ready = ready
            due_s = max((now_s if come else due_s) + cycle_s, monotonic())
        loop.tick()
        next_s = min(due_s, loop.next_due_s() or due_s, now_s + LOOK_EVERY_S)
        if mutations is not None and now_s >= quotas_due_s:
            if board.no_quotas_why is not None and now_s >= quotas_due_s + QUOTAS_REST_S:
                board.no_quotas_why = None  # It went well for as long.
            try:
                mutations.tick()
                next_s = min(next_s, mutations.next_due_s())
            except Exception as error:  # whatever it is, the throttles have their seconds
                why = f"no mutation quota is changed for {QUOTAS_REST_S:g} s after an error of our own, then it is tried again"
                log.exception(why)
                mutations.broke_off()
                board.no_quotas_why = f"{why}: {type(error).__name__}: {error}"
                quotas_due_s = now_s + QUOTAS_REST_S
        if plans is not None:
            try:
                plans.tick()
                next_s = min(next_s, plans.next_due_s())
            except Exception as error:  # whatever it is, the throttles have their seconds
                why = "no plan goes on until this tuner is started anew"
                log.exception(why)
                board.no_plans_why, plans = f"{why}: {type(error).__name__}: {error}", None
        stop.wait(max(_TICK_S_MIN, next_s - monotonic()))
