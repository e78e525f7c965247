"""The cordon controller: records before writes, keeps entries of other tools, continues after a crash, and writes nothing in a dry run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest

from streaming.shared import kafka_names
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, ConfigValue
from streaming.shared.kafka.versions import BrokerVersion
from tuner.api.cordon_status_store import CordonStatusStore
from tuner.control.cordon.decision import CordonReason, SetCordon
from tuner.control.cordon.model import CordonMemory
from tuner.control.cordon.policy import LATE_WRITE_S_MAX
from tuner.core.operator_orders import Orders, Pause
from tuner.core.outcome import CHANGED_EXTERNALLY
from tuner.core.reassignment_plan import DesiredPlanState, Plan, PlanEnding, PlanHead, PlanState
from tuner.journal.cordon_records import RecoveredCordons
from tuner.journal.entries import Entry
from tuner.journal.kafka_journal import JournalError
from tuner.journal.outbox import Outbox
from tuner.runtime.clock import Clock
from tuner.runtime.cordon.actuator import DryRunCordons, KafkaCordons
from tuner.runtime.cordon.loop import CordonController, CordonPorts

T = TypeVar("T")
NEW, OLD = BrokerVersion(31, 31, True), BrokerVersion(29, 29, True)
KEY = kafka_names.CORDONED_LOG_DIRS


@dataclass
class Journal:
    entries: list[Entry] = field(default_factory=list)
    recovered: RecoveredCordons = field(default_factory=lambda: RecoveredCordons("c"))
    away: bool = False

    def write(
        self, entries: Sequence[Entry] = (), *, other_records: Mapping[bytes, bytes | None] | None = None
    ) -> None:
        if self.away:
            raise JournalError("the journal is away")
        self.entries += entries
        for key, value in (other_records or {}).items():
            assert self.recovered.apply(key, value)


@dataclass
class Client:
    """A cluster in memory: the setting of each broker, and what its file says."""

    settings: dict[int, str] = field(default_factory=dict)
    file: dict[int, str] = field(default_factory=dict)
    version: BrokerVersion = NEW
    writes: list[tuple[int, str | None]] = field(default_factory=list)
    before_write: Callable[[], None] = lambda: None
    after_decision: Callable[[], object] = lambda: None
    refuses: bool = False
    silent: set[int] = field(default_factory=set)
    reads: int = 0

    def brokers(self) -> list[Any]:
        self.reads += 1
        return [SimpleNamespace(node=broker) for broker in (1, 3)]

    def broker_versions(self, brokers: Iterable[int]) -> dict[int, BrokerVersion | ClusterError]:
        asked = list(brokers)
        if asked == [3]:  # The check before a write. A reading asks all brokers.
            self.after_decision()
        return {b: ClusterError("it does not answer") if b in self.silent else self.version for b in asked}

    def broker_configs(self, brokers: Iterable[int], keys: Iterable[str]) -> dict[int, dict[str, ConfigValue]]:
        assert KEY in list(keys)
        answers = {}
        for broker in brokers:
            answers[broker] = {kafka_names.LOG_DIRS: ConfigValue("/a,/b", 4)}
            if broker in self.settings:
                answers[broker][KEY] = ConfigValue(self.settings[broker], kafka_names.SOURCE_DYNAMIC_BROKER)
            elif broker in self.file:
                answers[broker][KEY] = ConfigValue(self.file[broker], 4)
        return answers

    def alter_broker_configs(self, changes: Mapping[int, Mapping[str, Any]]) -> dict[int, ClusterError | None]:
        self.before_write()
        if self.refuses:
            return {broker: ClusterError("Kafka refused it") for broker in changes}
        for broker, configs in changes.items():
            self.writes.append((broker, configs[KEY]))
            if configs[KEY] is None:
                self.settings.pop(broker, None)
            else:
                self.settings[broker] = configs[KEY]
        return dict.fromkeys(changes)


class Caller:
    def start(self, call: Callable[[], T], /) -> Future[T]:
        answer: Future[T] = Future()
        answer.set_result(call())
        return answer


class Rig:
    def __init__(self, *, dry_run: bool = False) -> None:
        self.client, self.journal, self.status = Client(), Journal(), CordonStatusStore()
        self.orders = SimpleNamespace(latest=Orders())
        self.plan = Plan(PlanHead("p", "me", 1, 1, 1, cordon=(3,)), {})
        self.now_s, self.dry_run = 1000.0, dry_run
        self.refused: str | None = None
        self.start_again()

    def start_again(self) -> None:
        """Starts a tuner with the state of the journal, as after a crash."""
        clock = Clock(lambda: self.now_s, lambda: self.now_s)
        real = KafkaCordons(cast("ClusterClient", self.client), monotonic=lambda: self.now_s)
        ports = CordonPorts(
            actuator=DryRunCordons(real) if self.dry_run else real,
            caller=Caller(),
            plans=lambda: (self.plan,),
            orders=self.orders,
            journal=self.journal,
            outbox=Outbox(),
            write_refusal=lambda: self.refused,
            observer=self.status,
        )
        memory = CordonMemory() if self.dry_run else self.journal.recovered.memory
        self.loop = CordonController(ports, memory, "c", clock, dry_run=self.dry_run)

    def cycle(self, after_s: float = 10.0) -> None:
        self.now_s += after_s
        for _ in range(6):  # Read and decide, write, and read again.
            self.loop.tick()

    def order(self, desired: DesiredPlanState) -> None:
        self.plan = replace(self.plan, head=replace(self.plan.head, desired=desired))


def test_plan_is_settled_once_its_cordon_is_recorded_and_written() -> None:
    rig = Rig()
    recorded: list[CordonMemory] = []
    rig.client.before_write = lambda: recorded.append(rig.journal.recovered.memory)
    rig.cycle()
    assert rig.client.writes == [(3, "/a,/b")]
    assert recorded[0].brokers == [3]
    assert rig.loop.state.settled == {"p"}
    assert rig.loop.state.cordoned == {3}
    assert [(e.kind, e.action) for e in rig.journal.entries[:2]] == [
        ("intent", "set_cordon"),
        ("outcome", "set_cordon"),
    ]
    (row,) = rig.status.as_json()
    assert row["text"] == "Broker 3 is cordoned: /a, /b by rheostat for plan p."


def test_cancelled_plan_restores_what_the_file_says() -> None:
    rig = Rig()
    rig.client.file[3] = "/b"
    rig.cycle()
    assert rig.client.settings == {3: "/b,/a"}
    rig.order(DesiredPlanState.CANCELLING)
    rig.cycle()
    assert rig.client.settings == {}
    assert rig.journal.recovered.memory == CordonMemory()


def test_crash_between_write_and_outcome_loses_no_ownership() -> None:
    rig = Rig()
    rig.client.before_write = lambda: setattr(rig.journal, "away", True)
    rig.cycle()
    assert rig.client.settings == {3: "/a,/b"}
    rig.journal.away = False
    rig.start_again()
    rig.plan = replace(rig.plan, state=PlanState(ending=PlanEnding.CANCELLED))
    rig.cycle()
    assert rig.client.settings == {}


def test_entry_of_another_tool_between_read_and_write_is_kept() -> None:
    rig = Rig()
    rig.cycle()
    rig.orders.latest = Orders(pause=Pause(1, "me", released=True))
    rig.client.settings[3] = "/a,/b,/other"
    rig.cycle()
    assert rig.client.settings == {3: "/other"}
    assert rig.journal.recovered.memory.brokers == []


def test_cordon_of_another_tool_between_decision_and_write_is_never_lifted() -> None:
    rig = Rig()
    rig.client.after_decision = lambda: rig.client.settings.setdefault(3, "/a,/b")
    rig.cycle()
    rig.cycle()
    assert rig.client.writes == []
    assert rig.loop.state.settled == {"p"}
    assert rig.journal.recovered.memory == CordonMemory()
    rig.orders.latest = Orders(pause=Pause(1, "me", released=True))
    rig.cycle()
    assert rig.client.settings == {3: "/a,/b"}


def test_write_that_takes_effect_late_stays_rheostats() -> None:
    rig = Rig()
    rig.client.refuses = True
    rig.cycle()
    rig.client.after_decision = lambda: rig.client.settings.setdefault(3, "/a,/b")
    rig.cycle()
    rig.cycle()
    assert rig.client.writes == []
    rig.order(DesiredPlanState.CANCELLING)
    rig.client.refuses, rig.client.after_decision = False, lambda: None
    rig.cycle()
    assert rig.client.settings == {}


def late_write(rig: Rig) -> None:
    """Lets the request that got no answer take effect now, as after the resumption of a frozen broker."""
    rig.client.settings[3] = "/a,/b"


def released(rig: Rig) -> None:
    rig.orders.latest = Orders(pause=Pause(1, "me", released=True))


def cancelled(rig: Rig) -> None:
    rig.order(DesiredPlanState.CANCELLING)


def ended_by_cancel(rig: Rig) -> None:
    rig.plan = replace(rig.plan, state=PlanState(ending=PlanEnding.CANCELLED))


@pytest.mark.parametrize("order", [cancelled, ended_by_cancel, released])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_write_that_takes_effect_after_the_order_to_lift_is_lifted(
    order: Callable[[Rig], None], is_restarted: bool
) -> None:
    rig = Rig()
    rig.client.refuses = True
    rig.cycle()
    order(rig)
    rig.client.silent = {3}  # Its broker is frozen for longer than the writes are awaited.
    rig.cycle(after_s=10 * LATE_WRITE_S_MAX)
    rig.client.silent, rig.client.refuses = set(), False
    rig.cycle()
    assert rig.journal.recovered.memory.brokers == [3], "still on record"
    assert rig.journal.entries[-1].reason == CordonReason.WRITE_UNCONFIRMED
    if is_restarted:
        rig.start_again()
    late_write(rig)
    rig.cycle(after_s=LATE_WRITE_S_MAX - 20)
    assert rig.client.settings == {}
    assert rig.journal.recovered.memory == CordonMemory()


def test_write_that_never_takes_effect_leaves_the_record_after_two_minutes() -> None:
    rig = Rig()
    rig.client.refuses = True
    rig.cycle()
    ended_by_cancel(rig)
    rig.cycle()
    rig.cycle(after_s=LATE_WRITE_S_MAX + 1)
    assert rig.journal.recovered.memory == CordonMemory()
    late_write(rig)  # Now the cordon is another tool's.
    rig.cycle(after_s=30)
    assert rig.client.settings == {3: "/a,/b"}


def test_paused_plan_keeps_a_write_that_takes_effect_late() -> None:
    rig = Rig()
    rig.client.refuses = True
    rig.cycle()
    rig.order(DesiredPlanState.PAUSED)
    rig.cycle()
    late_write(rig)
    rig.client.refuses = False
    rig.cycle()
    rig.order(DesiredPlanState.RUNNING)
    rig.cycle()
    assert rig.loop.state.settled == {"p"}
    cancelled(rig)
    rig.cycle()
    assert rig.client.settings == {}


def test_journal_that_accepts_nothing_prevents_the_write() -> None:
    rig = Rig()
    rig.journal.away = True
    rig.cycle()
    assert rig.client.writes == []
    rig.journal.away = False
    rig.cycle()
    assert rig.client.writes == [(3, "/a,/b")]


def test_refused_write_is_told_to_the_plan_and_tried_again() -> None:
    rig = Rig()
    rig.client.refuses = True
    rig.cycle()
    assert rig.loop.state.wait_text(rig.plan.head) == "no step starts before broker 3 is cordoned: Kafka refused it"
    rig.client.refuses = False
    rig.cycle()
    assert rig.loop.state.wait_text(rig.plan.head) is None


def test_lost_leadership_prevents_the_write() -> None:
    rig = Rig()
    rig.refused = "not written: another tuner holds the lease"
    rig.cycle()
    assert rig.client.writes == []


def test_version_without_cordons_is_named() -> None:
    rig = Rig()
    rig.client.version = OLD
    rig.cycle()
    assert rig.client.writes == []
    assert "cordoned log directories need Kafka 4.3 or newer, and it runs Kafka 4.2" in (
        rig.loop.state.wait_text(rig.plan.head) or ""
    )


def test_dry_run_writes_nothing_and_lets_the_plan_be_shown() -> None:
    rig = Rig(dry_run=True)
    rig.cycle()
    assert rig.client.writes == []
    assert rig.journal.recovered.memory == CordonMemory()
    assert rig.loop.state.wait_text(rig.plan.head) is None


def test_cordoned_broker_that_does_not_answer_stays_cordoned() -> None:
    rig = Rig()
    rig.client.settings[1] = "*"
    rig.cycle()
    assert rig.loop.state.cordoned == {1, 3}
    rig.client.silent = {1}
    rig.cycle()
    assert rig.loop.state.cordoned == {1, 3}
    rig.client.silent = set()
    del rig.client.settings[1]
    rig.cycle()
    assert rig.loop.state.cordoned == {3}


def test_tuner_without_a_plan_reads_seldom_and_soon_after_a_plan_comes() -> None:
    rig = Rig()
    started = rig.plan
    rig.plan = replace(rig.plan, state=PlanState(ending=PlanEnding.DONE))
    rig.cycle()
    rig.cycle(after_s=3.0)
    assert rig.client.reads == 1
    rig.plan = started
    rig.cycle(after_s=3.0)
    assert rig.client.writes == [(3, "/a,/b")]


def test_cordon_that_stays_after_its_plan_is_read_seldom_and_a_release_lifts_it_at_once() -> None:
    rig = Rig()
    rig.cycle()
    rig.plan = replace(rig.plan, state=PlanState(ending=PlanEnding.DONE))
    rig.cycle(after_s=20.0)
    reads = rig.client.reads
    rig.cycle(after_s=3.0)
    rig.cycle(after_s=3.0)
    assert rig.client.reads == reads
    rig.orders.latest = Orders(pause=Pause(1, "me", released=True))
    rig.cycle(after_s=3.0)
    assert rig.client.settings == {}
    rig.orders.latest = Orders()
    rig.plan = replace(rig.plan, state=PlanState())
    rig.cycle(after_s=3.0)
    rig.plan = replace(rig.plan, state=PlanState(ending=PlanEnding.CANCELLED))
    rig.cycle(after_s=3.0)
    assert rig.client.settings == {}


def test_change_that_is_not_sent_keeps_its_cause_when_the_cluster_fails() -> None:
    client = Client(settings={3: "/b"})

    def fail() -> None:
        raise ClusterError("it does not answer")

    client.before_write = fail
    open_brokers = [
        SetCordon(b, "p", (), False, ("/a", "/b"), ("/a", "/b"), CordonReason.PLAN_STARTS, "") for b in (1, 3)
    ]
    outcomes = KafkaCordons(cast("ClusterClient", client)).write(open_brokers)
    assert outcomes == {1: "it does not answer", 3: CHANGED_EXTERNALLY}
