"""Runs all controllers in one thread during one leadership term, until this tuner must not act any more."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import structlog

from streaming.shared.contract.bounds import error_text
from streaming.shared.lease import Lease
from tuner.api.status_store import (
    CORDONS,
    CRUISE_CONTROL,
    LEADERSHIP,
    LOG_DIRS,
    MUTATION_QUOTAS,
    PLANS,
    REPLICATION_LAG,
    THROTTLES,
    StatusStore,
)
from tuner.journal.kafka_journal import KafkaJournal
from tuner.runtime.clock import Clock
from tuner.runtime.cordon.loop import CordonController
from tuner.runtime.cruise_control.loop import CruiseControlController
from tuner.runtime.leadership.loop import LeadershipController
from tuner.runtime.log_dir.loop import LogDirController
from tuner.runtime.mutation_quota.loop import MutationQuotaController
from tuner.runtime.reassignment.executor import ReassignmentExecutor
from tuner.runtime.reload import Reloads
from tuner.runtime.replication_lag.monitor import LagMonitor
from tuner.runtime.throttle.cycle_scheduler import CHECK_EVERY_S
from tuner.runtime.throttle.loop import ThrottleController

log = structlog.get_logger("tuner")

_TICK_S_MIN = 0.02
_CYCLE_FAILED = "a cycle of the throttle controller failed, so no throttle is changed until a cycle succeeds"
_STEP_FAILED = "a change of a throttle failed, so all rates stay at their current value until a cycle succeeds"
REST_S = 60.0  # Pause of the quota controller or the executor after an exception.


@dataclass(frozen=True, slots=True)
class Controllers:
    """The controllers of one leadership term, and the monitor of lag. An optional one is None while the settings disable it."""

    throttles: ThrottleController
    quotas: MutationQuotaController | None = None
    plans: ReassignmentExecutor | None = None
    log_dirs: LogDirController | None = None
    lag: LagMonitor | None = None
    cordons: CordonController | None = None
    cruise_control: CruiseControlController | None = None
    leadership: LeadershipController | None = None


def serve(
    controllers: Controllers,
    status: StatusStore,
    *,
    journal: KafkaJournal,
    lease: Lease | None,
    reloads: Reloads,
    cluster_error: Callable[[], str | None],
    orders_error: Callable[[], str | None] = lambda: None,
    follow_schedule: Callable[[], None] = lambda: None,
    cycle_s: float,
    stop: threading.Event,
    clock: Clock,
) -> None:
    """Runs until the lease or the journal is lost, orders become unreadable, new settings wait, or ``stop`` is set.

    Args:
        cluster_error: returns why the cluster does not answer; None if it answers.
        orders_error: returns why an order could not be read; None if all orders were read. An unread order may be a pause, so the
            tuner must not act.
        follow_schedule: puts in force the settings that the schedule has for the present time. It is called before each throttle
            cycle.
    """

    def may_act() -> bool:
        is_leader = lease is None or is_lease_held(lease, journal, stop, clock)
        return is_leader and not journal.lost and not reloads.waiting() and orders_error() is None

    status.become_active()
    run(
        controllers,
        status,
        cycle_s=cycle_s,
        stop=stop,
        clock=clock,
        may_act=may_act,
        follow_schedule=follow_schedule,
    )
    controllers.throttles.end("interrupted: this tuner's term has ended")
    status.become_standby("new settings are being applied" if reloads.waiting() else None)
    if not stop.is_set() and (why := orders_error()) is not None:
        status.become_standby(why)
        log.error("orders cannot be read: all writes stopped", holder=journal.holder, error=why)
    elif not stop.is_set() and not reloads.waiting():
        status.become_standby(cluster_error())
        log.warning("leadership lost or unknown: all writes stopped", holder=journal.holder)


def is_lease_held(lease: Lease, journal: KafkaJournal, stop: threading.Event, clock: Clock) -> bool:
    """Returns whether this tuner still holds the lease. After another tuner has caused a rebalance, first waits for its result.

    Kafka assigns the partition again within a heartbeat. If a tuner has died, Kafka assigns it when the session of that tuner ends.
    """
    began_s = clock.monotonic_s()
    is_held, has_waited = lease.renew(), False
    while not is_held and lease.awaits_renewal and not stop.is_set():
        is_held, has_waited = lease.renew(), True
    if is_held and lease.was_rebalanced():
        # If the group dropped this tuner during the rebalance, another tuner may have held the lease meanwhile.
        journal.discard_proof()
    if is_held and has_waited:
        paused_s = round(clock.monotonic_s() - began_s, 1)
        log.info("a tuner joined or left the group: this tuner keeps the lease and continues", paused_s=paused_s)
    return is_held


def run(
    controllers: Controllers,
    status: StatusStore,
    *,
    cycle_s: float,
    stop: threading.Event,
    clock: Clock,
    may_act: Callable[[], bool],
    follow_schedule: Callable[[], None] = lambda: None,
) -> None:
    """Runs each controller whenever it is due. If one raises an exception, the other controllers and the process continue.

    A throttle cycle that fails changes nothing, and the next cycle runs at its regular time. The quota controller and the executor
    pause for ``REST_S`` after an exception, so that an operator can intervene, and are then tried again.
    """
    throttles, optional_controllers = controllers.throttles, list[_OptionalController]()
    if (quotas := controllers.quotas) is not None:
        optional_controllers.append(
            _OptionalController(MUTATION_QUOTAS, quotas, "no mutation quota is changed", status)
        )
    if (plans := controllers.plans) is not None:
        optional_controllers.append(_OptionalController(PLANS, plans, "no plan proceeds", status))
    if (log_dirs := controllers.log_dirs) is not None:
        optional_controllers.append(
            _OptionalController(LOG_DIRS, log_dirs, "no log directory throttle is changed", status)
        )
    if (cordons := controllers.cordons) is not None:
        optional_controllers.append(_OptionalController(CORDONS, cordons, "no cordon is changed", status))
    if (lag := controllers.lag) is not None:
        optional_controllers.append(
            _OptionalController(REPLICATION_LAG, lag, "the causes of replication lag are not examined", status)
        )
    if (cruise_control := controllers.cruise_control) is not None:
        optional_controllers.append(
            _OptionalController(
                CRUISE_CONTROL, cruise_control, "the concurrency of Cruise Control is not changed", status
            )
        )
    if (leadership := controllers.leadership) is not None:
        optional_controllers.append(
            _OptionalController(LEADERSHIP, leadership, "no preferred leader is elected", status)
        )
    due_s = clock.monotonic_s()
    was_ready: bool | None = None
    has_failed = False  # Whether anything has failed since the last successful cycle.
    while not stop.is_set() and may_act():
        now_s = clock.monotonic_s()
        is_early = False
        try:
            is_early = throttles.cycle_is_due()
            if has_run := is_early or now_s >= due_s:
                follow_schedule()
                throttles.cycle()
                # A ramp step that fails after every successful cycle has to count as several failures in a row. So a cycle resets
                # the failures only if nothing has failed since the successful cycle before it.
                if not has_failed:
                    status.reset_failures()
                has_failed = False
        except Exception as error:  # any exception: the rates in Kafka stay as they are, and the next cycle may succeed
            has_run = has_failed = True
            if status.cycle_failed(THROTTLES, _failure_text(_CYCLE_FAILED, error), now_s):
                log.exception(_CYCLE_FAILED)
            _stop_ramps(throttles.hold)
        if has_run:
            status.cycle_s = clock.monotonic_s() - now_s
            was_ready = _log_readiness(status, was_ready)
            # A regular cycle keeps the fixed interval. After any other cycle, the next cycle is due a whole interval later.
            is_regular = not is_early and now_s >= due_s
            due_s = max((due_s if is_regular else now_s) + cycle_s, clock.monotonic_s())
        try:
            throttles.tick()
        except Exception as error:
            # Without this handler, a ramp that cannot continue would be tried again fifty times a second.
            has_failed = True
            if status.cycle_failed(THROTTLES, _failure_text(_STEP_FAILED, error), now_s):
                log.exception(_STEP_FAILED)
            _stop_ramps(partial(throttles.end, "interrupted: a change of a throttle failed"))
        next_s = min(due_s, throttles.next_due_s() or due_s, now_s + CHECK_EVERY_S)
        for controller in optional_controllers:
            next_s = min(next_s, controller.tick(now_s))
        stop.wait(max(_TICK_S_MIN, next_s - clock.monotonic_s()))


def _log_readiness(status: StatusStore, was_ready: bool | None) -> bool:
    """Returns whether the tuner is ready. Logs each change of the readiness."""
    is_ready, why = status.ready()
    if is_ready != was_ready:
        log.info(
            "the tuner is ready: the cluster is readable, and signals are fresh"
            if is_ready
            else "the tuner is not ready",
            why=why,
        )
    return is_ready


def _failure_text(effect: str, error: Exception) -> str:
    return f"{effect}: {type(error).__name__}: {error_text(error)}"


def _stop_ramps(stop: Callable[[], None]) -> None:
    try:
        stop()
    except Exception:  # the cause of the first exception may cause another exception here
        log.exception("the changes of rates in progress could not be stopped")


class _OptionalController:
    """An optional controller. After an exception it pauses, and is then tried again. The throttle controller continues
    meanwhile."""

    def __init__(
        self,
        name: str,
        controller: MutationQuotaController
        | ReassignmentExecutor
        | LogDirController
        | CordonController
        | LagMonitor
        | CruiseControlController
        | LeadershipController,
        effect: str,
        status: StatusStore,
    ) -> None:
        """
        Args:
            effect: the consequence of a pause, for the log and the status.
        """
        self._name = name
        self._controller = controller
        self._effect = f"{effect} for {REST_S:g} s after an internal error; then the tuner tries again"
        self._status = status
        self._due_s = float("-inf")

    def tick(self, now_s: float) -> float:
        """Runs the controller unless it pauses. Returns when it is due next, in seconds of the monotonic clock."""
        if now_s < self._due_s:
            return self._due_s
        if now_s >= self._due_s + REST_S:
            self._status.suspended_controllers.pop(self._name, None)  # It has run for ``REST_S`` without an exception.
        try:
            self._controller.tick()
            return self._controller.next_due_s()
        except Exception as error:  # any exception: the throttle controller must continue
            why = _failure_text(self._effect, error)
            self._due_s = now_s + REST_S
            if self._status.cycle_failed(self._name, why, now_s):
                log.exception(self._effect)
            self._status.suspended_controllers[self._name] = why
            return self._due_s
