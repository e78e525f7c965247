"""Tests the log directory controller: records before writes, restores, crashes, dry runs, and how few brokers it asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
from log_dir_cases import BROKER, POLICY, copying_signal, log_dir_copy
from tuner_cases import LIMITS, NOW_MS

from streaming.shared import kafka_names
from streaming.shared.contract import BrokerSignal
from streaming.shared.kafka.cluster import ClusterError, ConfigValue
from streaming.shared.kafka_names import LOG_DIR_RATE
from streaming.shared.log_dirs import LogDirCopy
from tuner.api.log_dir_status_store import LogDirStatusStore
from tuner.api.status_store import StatusStore
from tuner.control.log_dir.model import LogDirMemory
from tuner.core.operator_orders import Orders
from tuner.core.throttle_limits import MB
from tuner.journal.entries import STEERING, Entry
from tuner.journal.kafka_journal import JournalError
from tuner.journal.log_dir_records import RecoveredLogDirs
from tuner.runtime.clock import Clock
from tuner.runtime.log_dir.actuator import SCAN_AGAIN_S, SCANNED_MAX, DryRunLogDirs, KafkaLogDirs, LogDirActuator
from tuner.runtime.log_dir.loop import LogDirController, LogDirPorts
from tuner.runtime.log_dir.recorder import LogDirRecorder

T = TypeVar("T")
CYCLE_S = 5.0


@dataclass
class Journal:
    entries: list[Entry] = field(default_factory=list)
    recovered: RecoveredLogDirs = field(default_factory=lambda: RecoveredLogDirs("c"))
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
    """A cluster in memory: copies and limits by broker."""

    alive: set[int] = field(default_factory=lambda: {1, 2, BROKER})
    copies: dict[int, tuple[LogDirCopy, ...]] = field(default_factory=dict)
    limits: dict[int, int] = field(default_factory=dict)
    asked: list[int] = field(default_factory=list)
    writes: list[tuple[int, int | None]] = field(default_factory=list)
    before_write: Callable[[], None] = lambda: None
    refuses: bool = False

    def brokers(self) -> list[Any]:
        return [SimpleNamespace(node=broker) for broker in sorted(self.alive)]

    def log_dir_copies(self, brokers: Iterable[int]) -> dict[int, tuple[LogDirCopy, ...] | ClusterError]:
        asked = sorted(set(brokers))
        self.asked += asked
        return {broker: self.copies.get(broker, ()) for broker in asked}

    def broker_configs(self, brokers: Iterable[int], keys: Iterable[str]) -> dict[int, dict[str, ConfigValue]]:
        assert list(keys) == [LOG_DIR_RATE]
        source = kafka_names.SOURCE_DYNAMIC_BROKER
        return {
            b: {LOG_DIR_RATE: ConfigValue(str(self.limits[b]), source)} if b in self.limits else {} for b in brokers
        }

    def alter_broker_configs(self, changes: Mapping[int, Mapping[str, Any]]) -> dict[int, ClusterError | None]:
        self.before_write()
        if self.refuses:
            return {broker: ClusterError("refused") for broker in changes}
        for broker, configs in changes.items():
            text = configs[LOG_DIR_RATE]
            self.writes.append((broker, None if text is None else int(text)))
            if text is None:
                self.limits.pop(broker, None)
            else:
                self.limits[broker] = int(text)
        return dict.fromkeys(changes)


class Caller:
    def start(self, call: Callable[[], T], /) -> Future[T]:
        answer: Future[T] = Future()
        answer.set_result(call())
        return answer


class Rig:
    """A controller whose clock stands still between ``cycle`` calls."""

    def __init__(
        self, *, dry_run: bool = False, memory: LogDirMemory | None = None, journal: Journal | None = None
    ) -> None:
        self.client, self.journal = Client(), journal or Journal()
        self.throttles = StatusStore("c", LIMITS, dry_run=dry_run, wall_clock=lambda: self.now_s)
        self.status = LogDirStatusStore("c", self.throttles)
        self.now_s = NOW_MS / 1000
        self.signals: dict[int, BrokerSignal] = {}
        self.orders = Orders()
        self.proved = True
        self.refusal: str | None = None
        self.clock = Clock(wall_s=lambda: self.now_s, monotonic_s=lambda: self.now_s)
        real = KafkaLogDirs(
            self.client,  # type: ignore[arg-type]
            is_leadership_proved=lambda: self.proved,
            monotonic=lambda: self.now_s,
        )
        actuator: LogDirActuator = DryRunLogDirs(real) if dry_run else real
        rig = self
        ports = LogDirPorts(
            actuator=actuator,
            caller=Caller(),
            signals=SimpleNamespace(brokers=self.signals, baselines={}),
            orders=type("Orders", (), {"latest": property(lambda _: rig.orders)})(),
            write_refusal=lambda: self.refusal,
            observer=self.status,
        )
        recorder = LogDirRecorder(self.journal, "c", memory or LogDirMemory(), self.clock, dry_run=dry_run)
        self.controller = LogDirController(ports, POLICY, self.clock, recorder, cycle_s=CYCLE_S, dry_run=dry_run)

    def copies(self, *copies: LogDirCopy, copied: float = 20.0 * MB, p99: float = 20.0) -> None:
        self.client.copies[BROKER] = copies
        signal = copying_signal(copied if copies else 0.0, p99=p99)
        self.signals[BROKER] = replace(signal, sampled_at_ms=round(self.now_s * 1000) - 1_000)

    def cycle(self) -> None:
        """Runs a whole cycle: read, decide, write, confirm."""
        self.now_s = max(self.now_s, self.controller.next_due_s())
        for _ in range(3):
            self.controller.tick()

    @property
    def limit(self) -> int | None:
        return self.client.limits.get(BROKER)

    @property
    def kinds(self) -> list[str]:
        return [entry.kind for entry in self.journal.entries]


def test_copy_gets_a_limit_that_is_journaled_before_it_is_written() -> None:
    rig = Rig()
    rig.copies(log_dir_copy())
    seen: list[Any] = []
    rig.client.before_write = lambda: seen.append(rig.journal.recovered.memory.owned[BROKER].possible_rates)
    rig.cycle()
    assert rig.limit == 10 * MB
    assert seen == [(None, 10 * MB)]
    assert rig.kinds == ["intent", "outcome"]
    assert rig.journal.recovered.memory.owned[BROKER].possible_rates == (10 * MB,)
    (row,) = rig.status.as_json()
    assert (row["broker"], row["remaining_bytes"], row["managed"], row["reason"]) == (
        BROKER,
        1000 * MB,
        True,
        "copy_found",
    )


def test_limit_follows_clients_and_is_restored_when_the_copies_end() -> None:
    rig = Rig()
    rig.client.limits[BROKER] = 8 * MB
    for number in range(4):
        rig.copies(log_dir_copy((900 - 100 * number) * MB), copied=float(rig.limit or 0))
        rig.cycle()
    assert (rig.limit or 0) > 10 * MB
    assert set(rig.kinds) == {STEERING}, "each further change is a tick, without an outcome"
    raised = rig.limit or 0
    rig.copies(log_dir_copy(400 * MB), copied=float(raised), p99=80.0)
    rig.cycle()
    assert rig.limit == round(0.7 * raised)
    rig.copies()
    rig.cycle()
    rig.cycle()
    assert rig.limit == 8 * MB
    assert rig.journal.recovered.memory == LogDirMemory()
    assert rig.status.as_json() == []


@pytest.mark.parametrize("written", [False, True])
def test_successor_of_a_killed_tuner_restores_the_limit(written: bool) -> None:
    rig = Rig()
    rig.copies(log_dir_copy())

    def die() -> None:
        if written:
            rig.client.limits[BROKER] = 10 * MB
        raise SystemExit

    rig.client.before_write = die
    with pytest.raises(SystemExit):
        rig.cycle()
    successor = Rig(memory=rig.journal.recovered.memory, journal=rig.journal)
    successor.client.limits = rig.client.limits
    successor.cycle()
    successor.cycle()
    assert successor.client.limits == {}
    assert successor.journal.recovered.memory.owned == {}


def test_dry_run_journals_its_decision_once_and_writes_nothing() -> None:
    rig = Rig(dry_run=True)
    for _ in range(3):
        rig.copies(log_dir_copy())
        rig.cycle()
    assert rig.client.writes == []
    assert [(entry.kind, entry.dry_run) for entry in rig.journal.entries] == [("intent", True)]
    assert rig.journal.recovered.memory == LogDirMemory()


def test_nothing_is_written_without_the_journal_or_without_leadership() -> None:
    rig = Rig()
    rig.copies(log_dir_copy())
    rig.journal.away = True
    rig.cycle()
    rig.journal.away, rig.refusal = False, "not the leader"
    rig.cycle()
    rig.refusal, rig.proved = None, False
    rig.now_s += 60.0
    rig.copies(log_dir_copy())
    rig.cycle()
    assert rig.client.writes == []
    assert rig.throttles.failures == 2
    failures = [entry.failure for entry in rig.journal.entries if entry.kind == "outcome"]
    assert len(failures) == 2
    assert failures[0] == "not the leader"


def test_refused_write_is_tried_again_after_a_pause() -> None:
    rig = Rig()
    rig.client.refuses = True
    rig.copies(log_dir_copy())
    rig.cycle()
    rig.client.refuses = False
    rig.cycle()
    assert rig.limit is not None


def test_limit_changed_between_decision_and_write_is_left_alone() -> None:
    rig = Rig()
    rig.copies(log_dir_copy())
    read = rig.client.broker_configs
    calls = []

    def change_after_the_first_read(brokers: Iterable[int], keys: Iterable[str]) -> dict[int, dict[str, ConfigValue]]:
        calls.append(brokers)
        if len(calls) == 2:
            rig.client.limits[BROKER] = 33 * MB
        return read(brokers, keys)

    rig.client.broker_configs = change_after_the_first_read  # type: ignore[method-assign]
    rig.cycle()
    assert rig.client.writes == []
    rig.copies(log_dir_copy())
    rig.cycle()
    assert rig.limit == 33 * MB
    assert rig.journal.recovered.memory.externally_owned_until_ms.keys() == {BROKER}
    assert rig.throttles.failures == 0


def test_idle_cluster_is_scanned_a_few_brokers_at_a_time() -> None:
    rig = Rig()
    rig.client.alive = set(range(100))
    cycles = 30
    for _ in range(cycles):
        rig.cycle()
    assert sorted(rig.client.asked[:100]) == list(range(100)), "each broker once, before any broker a second time"
    assert len(rig.client.asked) == cycles * SCANNED_MAX
    few = Rig()
    for _ in range(round(SCAN_AGAIN_S / CYCLE_S)):
        few.cycle()
    assert few.client.asked == [1, 2, BROKER], "a small cluster is not asked in every cycle"


def test_broker_that_reports_copied_bytes_is_read_in_the_next_cycle() -> None:
    rig = Rig()
    rig.client.alive = set(range(1000))
    rig.copies(log_dir_copy())
    rig.cycle()
    assert BROKER in rig.client.asked
