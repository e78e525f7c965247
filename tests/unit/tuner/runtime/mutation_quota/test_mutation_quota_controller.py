"""Tests the mutation quota loop: records before writes, restores, crashes, and that it never waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import pytest
import structlog
from fake_quotas import FakeQuotas
from mutation_rig import START_MS, controller, tenant

from streaming.shared.contract import BrokerSignal, ControllerSignal, TenantSignal
from streaming.shared.contract.quotas import Default, QuotaEntity
from streaming.shared.kafka.cluster import ClusterError
from tuner.api.metrics import make_registry
from tuner.api.quota_status_store import QuotaStatusStore
from tuner.api.status_store import StatusStore
from tuner.control.mutation_quota.decision import QuotaReason
from tuner.control.mutation_quota.default_quota import EVERY_PAIR, UNLIMITED_PER_S
from tuner.control.mutation_quota.model import MutationPolicy, QuotaView, TenantRule
from tuner.control.mutation_quota.operator_orders import recall_tenants
from tuner.control.mutation_quota.policy import QuotaStep
from tuner.control.mutation_quota.state import MutationMemory
from tuner.core.operator_orders import Orders, Pause
from tuner.core.partition_limits import NO_INTERNAL, InternalPartitions
from tuner.core.quota_window import QuotaWindow
from tuner.core.throttle_limits import ThrottleLimits
from tuner.journal.entries import QUOTAS, Entry
from tuner.journal.input_log import InputLog
from tuner.journal.kafka_journal import JournalError
from tuner.journal.quota_records import RecoveredQuotas
from tuner.runtime.clock import Clock
from tuner.runtime.leadership_term import Controllers, run
from tuner.runtime.mutation_quota.actuator import (
    ENTITIES_PER_REQUEST,
    DryRunQuotaActuator,
    KafkaQuotaActuator,
    Outcome,
    QuotaActuator,
    Rates,
)
from tuner.runtime.mutation_quota.loop import (
    CONFIRM_S_MAX,
    MutationQuotaConfig,
    MutationQuotaController,
    MutationQuotaPorts,
)
from tuner.runtime.mutation_quota.recorder import MutationQuotaRecorder

T = TypeVar("T")
ALICE, BOB = QuotaEntity(user="alice"), QuotaEntity(user="bob")
EVERYBODY = QuotaEntity(user=Default.DEFAULT)
PAUSED = Orders(at_ms=START_MS, pause=Pause(START_MS, "kim@desk"))
RELEASED = Orders(at_ms=START_MS, pause=Pause(START_MS, "kim@desk", released=True))


@dataclass
class FakeJournal:
    records: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    away: bool = False

    def write(
        self, entries: Sequence[Entry] = (), *, other_records: Mapping[bytes, bytes | None] | None = None
    ) -> None:
        if self.away:
            raise JournalError("the journal is away")
        self.entries += entries
        self.records += (other_records or {}).items()

    def recovered(self) -> MutationMemory:
        found = RecoveredQuotas("c")
        for key, value in self.records:
            found.apply(key, value)
        return found.memory


@dataclass
class Signals:
    brokers: dict[int, BrokerSignal] = field(default_factory=dict)
    controllers: dict[int, ControllerSignal] = field(default_factory=dict)
    tenants: dict[Any, TenantSignal] = field(default_factory=dict)


@dataclass
class Given:
    latest: Orders = field(default_factory=Orders)


@dataclass
class HeldCaller:
    """Calls are carried out when the test says so."""

    holds: bool = False
    waiting: list[Callable[[], None]] = field(default_factory=list)

    def start(self, call: Callable[[], T], /) -> Future[T]:
        answer: Future[T] = Future()
        self.waiting.append(lambda: answer.set_result(call()))
        if not self.holds:
            self.go()
        return answer

    def go(self) -> None:
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            each()


@dataclass
class Watcher:
    seen: list[tuple[QuotaView, QuotaStep, MutationMemory]] = field(default_factory=list)
    failures: int = 0

    def publish(self, view: QuotaView, made: QuotaStep, memory: MutationMemory) -> None:
        self.seen.append((view, made, memory))

    def record_failures(self, count: int) -> None:
        self.failures += count

    def cycle_failed(self) -> None: ...


class Rig:
    def __init__(
        self,
        quotas: FakeQuotas | None = None,
        policy: MutationPolicy | None = None,
        *,
        asked: bool = True,
        dry_run: bool = False,
        journal: FakeJournal | None = None,
        now_s: float = START_MS / 1000,
        port: QuotaActuator | None = None,
        caller: HeldCaller | None = None,
        inputs: InputLog | None = None,
        windows: Callable[[], Set[QuotaWindow]] | None = None,
        internal: InternalPartitions = NO_INTERNAL,
    ) -> None:
        self.quotas = quotas if quotas is not None else FakeQuotas()
        self.journal = journal or FakeJournal()
        self.signals, self.orders, self.observer = Signals(), Given(), Watcher()
        self.caller = caller or HeldCaller()
        self.now_s = now_s
        self.refused: str | None = None
        self.proofs = 0
        memory = recall_tenants(self.journal.recovered(), round(now_s * 1000))
        real: QuotaActuator = port or self.quotas
        ports = MutationQuotaPorts(
            quotas=DryRunQuotaActuator(real) if dry_run else real,
            caller=self.caller,
            signals=self.signals,
            orders=self.orders,
            write_refusal=self._refusal,
            observer=self.observer,
            inputs=inputs,
            read_windows=windows,
            read_internal=lambda: internal,
        )
        config = MutationQuotaConfig(
            policy=(policy or MutationPolicy()) if asked else None, cycle_s=5.0, dry_run=dry_run
        )
        clock = Clock(self._now, self._now)
        recorder = MutationQuotaRecorder(self.journal, "c", memory, clock, dry_run=dry_run)
        self.loop = MutationQuotaController(ports, config, clock, recorder)

    @property
    def memory(self) -> MutationMemory:
        return self.loop.recorder.memory

    def storm(self, *users: str, tokens: float = -5.0) -> None:
        now_ms = round(self.now_s * 1000)
        self.signals.controllers = {1: controller(now_ms)}
        self.signals.tenants = {(1, u, None): tenant(now_ms, 20.0, tokens, user=u) for u in users}

    def cycle(self, *users: str) -> None:
        """Five seconds, with signals of these tenants, each in a storm; and what comes of it."""
        if users:
            self.storm(*users)
        for _ in range(3):  # It reads; it decides and writes; it is answered.
            self.loop.tick()
        self.now_s += 5.0

    def reasons(self) -> list[QuotaReason]:
        return [d.reason for d in self.observer.seen[-1][1].decisions]

    def _now(self) -> float:
        return self.now_s

    def _refusal(self) -> str | None:
        self.proofs += 1
        return self.refused


# -- the way of a quota ---------------------------------------------------------------------------------------------------


def test_write_is_recorded_before_and_settled_once_confirmed() -> None:
    rig = Rig()
    rig.caller.holds = True
    rig.storm("alice")
    rig.loop.tick()
    rig.caller.go()  # The look.
    rig.loop.tick()  # Decided, and the write begun.
    assert rig.quotas.rates == {}
    ours = rig.journal.recovered().owned
    assert set(ours) == {ALICE, EVERYBODY}
    assert ours[ALICE].possible_per_s == (None, ours[ALICE].setpoint_per_s)
    assert [e.kind for e in rig.journal.entries][-1] == QUOTAS
    rig.caller.go()
    rig.loop.tick()
    assert rig.quotas.rates[ALICE] == ours[ALICE].setpoint_per_s
    rig.caller.holds = False
    rig.now_s += 5.0
    rig.cycle("alice")
    assert rig.memory.owned[ALICE].possible_per_s == (rig.quotas.rates[ALICE],)
    assert rig.journal.recovered().owned == rig.memory.owned


def test_tick_never_waits_for_slow_controller() -> None:
    rig = Rig()
    rig.caller.holds = True
    rig.storm("alice")
    rig.loop.tick()
    rig.now_s += 60.0
    rig.loop.tick()
    assert len(rig.caller.waiting) == 1, "one call at a time"
    assert rig.observer.seen == []
    assert rig.loop.next_due_s() - rig.now_s <= 0.1


def test_next_due_is_one_cycle_later() -> None:
    rig = Rig()
    began_s = rig.now_s
    rig.cycle("alice")
    assert rig.loop.next_due_s() == began_s + 5.0
    rig.now_s = began_s + 4.9
    rig.loop.tick()
    assert len(rig.observer.seen) == 1


def test_unavailable_journal_prevents_writes() -> None:
    rig = Rig()
    rig.journal.away = True
    rig.cycle("alice")
    assert rig.quotas.rates == {}
    assert rig.memory == MutationMemory()
    rig.journal.away = False
    rig.cycle("alice")
    assert ALICE in rig.quotas.rates


def test_refusal_prevents_write_and_retries_later() -> None:
    rig = Rig()
    rig.refused = "another has the lease"
    rig.cycle("alice")
    assert rig.quotas.rates == {}
    assert "another has the lease" in str(rig.journal.entries[-1].failure)
    rig.refused = None
    for _ in range(8):  # A tenant is written at most twice a minute.
        rig.cycle("alice")
    assert ALICE in rig.quotas.rates


def test_unconfirmed_write_is_reported_and_stays_managed() -> None:
    rig = Rig(FakeQuotas({ALICE: 500.0}))
    rig.quotas.forgetful = {ALICE}
    rig.cycle("alice")
    wanted = rig.memory.owned[ALICE].setpoint_per_s
    for _ in range(round(CONFIRM_S_MAX / 5) + 1):
        rig.cycle("alice")
    failures = [e.failure for e in rig.journal.entries if e.failure]
    assert f"user 'alice': {wanted:g}/s was written, but Kafka shows 500/s" in failures
    assert set(rig.memory.owned[ALICE].possible_per_s) >= {500.0, wanted}
    assert ALICE not in rig.memory.externally_owned_until_ms


def test_confirmation_during_journal_outage_is_recorded_afterwards() -> None:
    rig = Rig(FakeQuotas({BOB: 500.0}))
    rig.quotas.forgetful = {BOB}
    rig.cycle("alice", "bob")
    wanted = rig.memory.owned[BOB].setpoint_per_s
    rig.journal.away = True
    for _ in range(round(CONFIRM_S_MAX / 5) + 2):
        rig.cycle("alice", "bob")
    assert len(rig.memory.owned[ALICE].possible_per_s) > 1, "nothing is so that is not on record"
    assert rig.observer.failures == 0
    rig.journal.away = False
    rig.cycle("alice", "bob")
    assert len(rig.journal.recovered().owned[ALICE].possible_per_s) == 1
    assert [str(e.failure) for e in rig.journal.entries if e.failure] == [
        f"user 'bob': {wanted:g}/s was written, but Kafka shows 500/s"
    ]
    assert rig.observer.failures == 1


def test_failed_write_during_journal_outage_is_recorded_afterwards() -> None:
    rig = Rig(port=Refusing())
    rig.storm("alice")
    rig.loop.tick()
    rig.loop.tick()  # On record, and asked for.
    rig.journal.away = True
    rig.loop.tick()
    rig.journal.away = False
    rig.now_s += 5.0
    for _ in range(2):  # The next cycle, up to its record.
        rig.loop.tick()
    assert [(e.at_ms, "error 35" in str(e.failure)) for e in rig.journal.entries if e.failure] == [(START_MS, True)]


def test_unreadable_cluster_holds_and_logs_once() -> None:
    rig = Rig()
    rig.quotas.away = True
    for _ in range(3):
        rig.cycle("alice")
    assert rig.reasons() == [QuotaReason.QUOTAS_UNREADABLE]
    assert [e.reason for e in rig.journal.entries] == ["quotas_unreadable"]


class Refusing:
    """Kafka before 3.5 in KRaft mode: it is read, and every change is refused."""

    def __init__(self) -> None:
        self.asked = 0

    def read(self) -> dict[QuotaEntity, float]:
        return {}

    def write(self, rates: Rates) -> Outcome:
        self.asked += 1
        return dict.fromkeys(rates, "Kafka refused to alter client quotas: error 35 UnsupportedVersionError")


def test_refused_write_logs_once_and_backs_off() -> None:
    port = Refusing()
    rig = Rig(port=port)
    with structlog.testing.capture_logs() as told:
        for _ in range(120):  # Ten minutes.
            rig.cycle("alice")
    assert 2 <= port.asked <= 12
    assert QuotaReason.NOT_BINDING in rig.reasons()
    assert rig.observer.failures > 0
    assert len([line for line in told if "not done: the quota of" in line["event"]]) == 1


def test_release_after_refused_write_needs_no_write() -> None:
    port = Refusing()
    rig = Rig(port=port)
    for _ in range(24):
        rig.cycle("alice")
    assert rig.memory.owned.keys() == {ALICE, EVERYBODY}
    rig.orders.latest = RELEASED
    for _ in range(12):  # A minute; who releases waits for a minute and a half.
        rig.cycle("alice")
    assert rig.memory.owned == {}
    assert rig.journal.recovered().owned == {}
    assert [e.action for e in rig.journal.entries if e.kind == QUOTAS][-1] == "restore_quota"
    asked = port.asked
    for _ in range(12):
        rig.cycle("alice")
    assert port.asked == asked


def test_release_restores_write_that_may_still_arrive() -> None:
    """The tuner died during the write, which may reach the controller after the snapshot of the release."""

    class Told(FakeQuotas):
        asked: Rates | None = None

        def write(self, rates: Rates) -> Outcome:
            self.asked = rates
            return super().write(rates)

    rig, quotas = Rig(), Told()
    rig.cycle("alice")
    after = Rig(quotas, journal=rig.journal, now_s=rig.now_s)
    after.orders.latest = RELEASED
    after.cycle("alice")
    assert quotas.asked == {ALICE: None, EVERYBODY: None}


# -- a life after a death -------------------------------------------------------------------------------------------------


def test_crash_at_any_step_leaves_quotas_restorable() -> None:
    """Dies before or after the write of any cycle; the next one is told to release."""
    for moment in range(1, 12):
        rig = Rig(FakeQuotas({ALICE: 500.0}))
        rig.caller.holds = True
        for step in range(moment):
            rig.storm("alice", "bob")
            rig.loop.tick()
            if step < moment - 1:
                rig.caller.go()
            rig.now_s += 2.5
        before = dict(rig.quotas.rates)
        rig.caller.go()
        for lost, rates in ((True, before), (False, rig.quotas.rates)):
            quotas = FakeQuotas(rates)
            journal = FakeJournal(list(rig.journal.records))
            after = Rig(quotas, journal=journal, now_s=rig.now_s + 30)
            after.orders.latest = RELEASED
            for _ in range(3):
                after.cycle("alice", "bob")
            assert quotas.rates == {ALICE: 500.0}, (moment, lost)
            assert journal.recovered().owned == {}
            assert journal.recovered().externally_owned_until_ms == {}


def test_tenant_not_seen_after_crash_is_dropped_after_hour() -> None:
    rig = Rig()
    rig.cycle("alice")
    rig.cycle("alice")
    after = Rig(rig.quotas, journal=rig.journal, now_s=rig.now_s)
    after.cycle("bob")
    assert ALICE in rig.quotas.rates, "not at once"
    after.now_s += 3_700.0
    after.cycle("bob")
    after.cycle("bob")
    assert ALICE not in rig.quotas.rates
    assert ALICE not in after.memory.owned


@pytest.mark.parametrize("presses", [False, True])
def test_first_cycle_of_term_knows_limited_tenants(presses: bool) -> None:
    """The term begins during a storm: without recorded tenant states every tenant would seem idle."""
    rig = Rig()
    for _ in range(20):
        rig.cycle("alice", "bob")
    found, stands = rig.memory.total, dict(rig.quotas.rates)
    assert found is not None
    assert found.rate_per_s > 60.0
    after = Rig(rig.quotas, journal=rig.journal, now_s=rig.now_s)
    after.storm("alice", "bob")
    if presses:
        after.signals.controllers = {1: controller(round(after.now_s * 1000), queue=600.0)}
    after.now_s += 2.0
    after.cycle()
    assert after.memory.total is not None
    assert all(state.backlogged for state in after.memory.tenants.values())
    if presses:  # A fifth too much takes a sixth, and not all but what any controller bears.
        assert after.memory.total.rate_per_s == pytest.approx(found.rate_per_s / 1.2)
    else:
        assert rig.quotas.rates == stands


def test_next_term_starts_with_recorded_total() -> None:
    rig = Rig()
    for _ in range(30):
        rig.cycle("alice")
    found = rig.memory.total
    assert found is not None
    after = Rig(rig.quotas, journal=rig.journal, now_s=rig.now_s)
    assert after.memory.total == found
    assert after.memory.cost is not None


# -- other people ---------------------------------------------------------------------------------------------------------


def test_external_value_is_preserved_and_survives_release() -> None:
    rig = Rig()
    rig.cycle("alice", "bob")
    rig.cycle("alice", "bob")
    rig.quotas.rates[ALICE] = 3.0
    for _ in range(20):
        rig.cycle("alice", "bob")
    assert rig.quotas.rates[ALICE] == 3.0
    assert "relinquish_quota" in [e.action for e in rig.journal.entries]
    assert ALICE in rig.journal.recovered().externally_owned_until_ms
    rig.orders.latest = RELEASED
    for _ in range(3):
        rig.cycle("alice", "bob")
    assert rig.quotas.rates == {ALICE: 3.0}


def test_resume_manages_externally_changed_quota_again() -> None:
    rig = Rig()
    rig.cycle("alice")
    rig.cycle("alice")
    rig.quotas.rates[ALICE] = 3.0
    for _ in range(5):
        rig.cycle("alice")
    assert ALICE in rig.memory.externally_owned_until_ms
    now_ms = round(rig.now_s * 1000)
    rig.orders.latest = Orders(at_ms=now_ms, resumed_at_ms=now_ms)
    for _ in range(8):
        rig.cycle("alice")
    assert rig.quotas.rates[ALICE] != 3.0
    assert rig.memory.owned[ALICE].before_per_s == 3.0


def test_pause_prevents_writes() -> None:
    rig = Rig()
    rig.orders.latest = PAUSED
    for _ in range(3):
        rig.cycle("alice")
    assert rig.quotas.rates == {}
    assert rig.reasons() == [QuotaReason.PAUSED]
    assert rig.journal.recovered().orders_at_ms == PAUSED.at_ms


def test_release_restores_previous_quotas() -> None:
    rig = Rig(FakeQuotas({ALICE: 500.0}))
    for _ in range(3):
        rig.cycle("alice", "bob")
    assert rig.quotas.rates.keys() == {ALICE, BOB, EVERYBODY}
    assert rig.quotas.rates[ALICE] < 500.0
    rig.orders.latest = RELEASED
    for _ in range(3):
        rig.cycle("alice", "bob")
    assert rig.quotas.rates == {ALICE: 500.0}
    assert rig.journal.recovered().owned == {}
    assert "released by kim@desk" in rig.observer.seen[-1][1].decisions[-1].text


def test_quotas_without_policy_are_restored() -> None:
    rig = Rig(FakeQuotas({BOB: 7.0}))
    rig.cycle("alice")
    rig.cycle("alice")
    after = Rig(rig.quotas, asked=False, journal=rig.journal, now_s=rig.now_s)
    for _ in range(3):
        after.cycle("alice")
    assert rig.quotas.rates == {BOB: 7.0}
    assert after.reasons() == [QuotaReason.NOT_CONFIGURED]


def test_dry_run_writes_no_quota_and_no_state() -> None:
    real = Rig()
    real.cycle("alice")
    real.cycle("alice")
    stands, records = dict(real.quotas.rates), list(real.journal.records)
    dry = Rig(real.quotas, dry_run=True, journal=real.journal, now_s=real.now_s)
    for _ in range(20):
        dry.cycle("alice", "bob")
    assert real.quotas.rates == stands
    assert real.journal.records == records
    assert any(e.dry_run and e.kind == QUOTAS for e in real.journal.entries)


def test_dry_run_beside_active_tuner_sees_no_external_change() -> None:
    quotas = FakeQuotas()
    dry, real = Rig(quotas, dry_run=True), Rig(quotas)
    for cycle in range(12):
        dry.cycle("alice")
        if cycle >= 2:
            real.cycle("alice")
    assert ALICE in quotas.rates
    assert {**dry.memory.unconfirmed, **dry.memory.externally_owned_until_ms} == {}


# -- measuring ------------------------------------------------------------------------------------------------------------


def test_metering_quota_is_set_when_none_exists() -> None:
    policy = MutationPolicy(default_entity=None, enable_metering=True)
    rig = Rig(policy=policy)
    rig.signals.controllers = {1: controller(START_MS)}
    rig.cycle()
    assert rig.quotas.rates == {EVERY_PAIR: UNLIMITED_PER_S}
    rig.orders.latest = RELEASED
    rig.cycle()
    rig.cycle()
    assert rig.quotas.rates == {}


def test_removed_metering_quota_is_not_set_again() -> None:
    rig = Rig(policy=MutationPolicy(default_entity=None, enable_metering=True))
    rig.signals.controllers = {1: controller(START_MS)}
    for _ in range(3):
        rig.cycle()
    assert EVERY_PAIR in rig.quotas.rates
    del rig.quotas.rates[EVERY_PAIR]
    for _ in range(60):
        rig.signals.controllers = {1: controller(round(rig.now_s * 1000))}
        rig.cycle()
        assert rig.quotas.rates == {}
    assert EVERY_PAIR in rig.memory.externally_owned_until_ms


@pytest.mark.parametrize(
    ("stands", "measures"), [({BOB: 7.0}, True), ({}, False)], ids=["a quota is set", "not enabled"]
)
def test_metering_quota_only_when_enabled_and_unlimited(stands: dict[QuotaEntity, float], measures: bool) -> None:
    rig = Rig(FakeQuotas(stands), replace(MutationPolicy(), default_entity=None, enable_metering=measures))
    rig.signals.controllers = {1: controller(START_MS)}
    rig.cycle()
    assert rig.quotas.rates == stands


# -- surprises ------------------------------------------------------------------------------------------------------------


class Surprising(FakeQuotas):
    """Fails with an unexpected error."""

    broken = False

    def read(self) -> dict[QuotaEntity, float] | ClusterError:
        if self.broken:
            raise ValueError("an answer that nobody foresaw")
        return super().read()

    def write(self, rates: Rates) -> Outcome:
        if self.broken:
            raise ValueError("an answer that nobody foresaw")
        return super().write(rates)


def test_unexpected_error_in_background_call_ends_nothing() -> None:
    quotas = Surprising()
    rig = Rig(quotas, caller=FailingCaller())
    quotas.broken = True
    rig.cycle("alice")
    assert rig.reasons() == [QuotaReason.QUOTAS_UNREADABLE]
    quotas.broken = False
    rig.storm("alice")
    rig.loop.tick()
    quotas.broken = True
    rig.loop.tick()
    rig.loop.tick()
    assert "ValueError: an answer that nobody foresaw" in str(rig.journal.entries[-1].failure)


def test_quota_controller_error_pauses_it_and_not_throttles() -> None:
    class Throttles:
        cycles = 0

        def cycle_is_due(self) -> bool:
            return True

        def cycle(self) -> None:
            self.cycles += 1

        def tick(self) -> None: ...

        def next_due_s(self) -> float:
            return 0.0

    throttles: Any = Throttles()
    rig, shown = Rig(), QuotaStatusStore("c")
    rig.loop._observer = shown
    board = StatusStore("c", ThrottleLimits(rate_bytes_per_s_max=1e8), dry_run=False, wall_clock=lambda: 0.0)
    registry = make_registry(board, shown)
    for broken in (False, True):
        board.become_active()
        if broken:
            rig.signals.tenants = {1: None}  # type: ignore[dict-item]  # An unexpected value.
        else:
            rig.storm("alice")
        rig.now_s += 5.0
        with structlog.testing.capture_logs() as told:
            run(
                Controllers(throttles, rig.loop), board,
                cycle_s=0.01, stop=threading.Event(), clock=Clock(monotonic_s=rig._now), may_act=partial(next, iter([True] * 4), False),
            )  # fmt: skip
        seen = registry.get_sample_value("rheostat_quotas_readable", {"cluster": "c"})
        assert seen == (0.0 if broken else 1.0)
    assert throttles.cycles == 8
    assert (
        "no mutation quota is changed for 60 s after an internal error; then the tuner tries again: Attrib"
        in board.ready()[1]
    )
    assert any("no mutation quota is changed" in line["event"] for line in told)
    assert registry.get_sample_value("rheostat_controller_pressure_ratio", {"cluster": "c"}) is None
    assert rig.memory.owned
    # A person wants theirs back: for that nothing has to be shared out, and it is tried again, by the same tuner.
    gone_by = iter(range(1, 60))
    board.suspended_controllers.clear()

    def acts() -> bool:
        rig.now_s += 5.0
        rig.signals.controllers = {1: controller(round(rig.now_s * 1000))}
        if (count := next(gone_by, None)) == 4:
            assert "mutation_quotas" in board.suspended_controllers
            rig.orders.latest, rig.signals.tenants = RELEASED, {}
        return count is not None

    run(
        Controllers(throttles, rig.loop),
        board,
        cycle_s=0.01,
        stop=threading.Event(),
        clock=Clock(monotonic_s=rig._now),
        may_act=acts,
    )
    assert rig.memory.owned == {}
    assert rig.quotas.rates == {}
    assert registry.get_sample_value("rheostat_quotas_readable", {"cluster": "c"}) == 1.0
    assert "no mutation quota" not in board.ready()[1]


class FailingCaller(HeldCaller):
    def start(self, call: Callable[[], T], /) -> Future[T]:
        answer: Future[T] = Future()
        try:
            answer.set_result(call())
        except ValueError as error:
            answer.set_exception(error)
        return answer


def test_late_write_without_answer_is_managed() -> None:
    rig = Rig()
    rig.cycle("alice")
    first = rig.quotas.rates[ALICE]
    for _ in range(12):
        rig.cycle("alice")
    assert rig.quotas.rates[ALICE] != first
    rig.quotas.rates[ALICE] = first
    for _ in range(8):
        rig.cycle("alice")
    assert ALICE in rig.memory.owned
    assert ALICE not in rig.memory.externally_owned_until_ms


def test_two_holds_are_logged_once_each() -> None:
    rules = (TenantRule(user="*", rate_per_s_min=900.0),)
    rig = Rig(policy=MutationPolicy(rules=rules, partitions_max=1_010))
    for _ in range(12):
        rig.cycle("alice", "bob")
    said = [e.reason for e in rig.journal.entries if e.action == "hold_quota"]
    assert sorted(said) == ["guarantees_cut", "partitions_near_limit"]


def test_end_stops_write_between_requests() -> None:
    class Client:
        asked = 0

        def alter_mutation_quotas(self, changes: Rates) -> Outcome:
            self.asked += 1
            port.end()
            return dict.fromkeys(changes)

    client = Client()
    port = KafkaQuotaActuator(client)  # type: ignore[arg-type]  # All that it is asked for here.
    many = {QuotaEntity(client_id=f"c{n}"): 1.0 for n in range(2 * ENTITIES_PER_REQUEST)}
    outcome = port.write(many)
    assert client.asked == 1
    assert list(outcome.values()).count("not written: this tuner no longer has the lease") == ENTITIES_PER_REQUEST


def test_each_write_request_needs_recent_proof() -> None:
    """Who is stopped between two requests for longer than the lease lasts makes no further one when it goes on."""
    proofs = iter((True, False))

    class Client:
        asked = 0

        def alter_mutation_quotas(self, changes: Rates) -> dict[QuotaEntity, None]:
            self.asked += 1
            return dict.fromkeys(changes)

    client = Client()
    port = KafkaQuotaActuator(client, is_leadership_proved=lambda: next(proofs))  # type: ignore[arg-type]  # All that it is asked for here.
    outcome = port.write({QuotaEntity(client_id=f"c{n}"): 1.0 for n in range(2 * ENTITIES_PER_REQUEST)})
    assert client.asked == 1
    assert list(outcome.values()).count(None) == ENTITIES_PER_REQUEST
    assert (
        list(outcome.values()).count(
            "not written: it was not certain that this tuner still had the lease; the tuner tries again"
        )
        == ENTITIES_PER_REQUEST
    )


def test_running_write_renews_proof_until_refused() -> None:
    rig = Rig()
    rig.caller.holds = True
    rig.storm("alice")
    rig.loop.tick()
    rig.caller.go()
    rig.loop.tick()
    assert rig.proofs == 1
    rig.loop.tick()
    rig.loop.tick()
    assert rig.proofs == 3
    rig.refused = "another has it"
    rig.loop.tick()
    rig.loop.tick()
    assert rig.proofs == 4
    rig.caller.go()
    rig.loop.tick()
    assert rig.loop._write is None


def test_internal_partitions_do_not_brake_the_quotas() -> None:
    rig = Rig(policy=MutationPolicy(partitions_max=1_010), internal=InternalPartitions(150, {1: 150}))
    rig.cycle("alice")
    assert QuotaReason.PARTITIONS_NEAR_LIMIT not in rig.reasons()
    assert rig.observer.seen[-1][0].controllers[1].partitions == 850
