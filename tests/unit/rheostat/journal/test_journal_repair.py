"""`rheostat journal check` and `repair`: unreadable records, their replacements, and what repair leaves while a tuner acts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console
from tuner_cases import NOW_MS, SOURCE, TARGET, throttle

from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL, CommandError, NotConfirmedError
from rheostat.journal import command
from rheostat.journal.repair import plan_repair
from rheostat.journal.scan import JournalScan, scan_records
from streaming.shared.contract.quotas import QuotaEntity
from tuner.control.mutation_quota.state import OwnedQuota
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.core.operator_orders import Orders, Pause
from tuner.core.presence import TunerMode, TunerPresence
from tuner.core.reassignment_plan import DesiredPlanState, PlanHead
from tuner.journal import quota_records
from tuner.journal.entries import (
    Entry,
    decode_memory,
    encode_entry,
    encode_memory,
    encode_owned,
    entry_key,
    memory_key,
    owned_key,
)
from tuner.journal.list_records import encode_listed, listed_key
from tuner.journal.order_records import encode_orders, orders_key
from tuner.journal.orders_topic import is_order
from tuner.journal.plan_records import decode_head, encode_head, head_key
from tuner.journal.topic_reader import JournalRecord

BAD = b"[" * 100_000
KIM = QuotaEntity(user="kim")
PAUSED = encode_orders(Orders(5, pause=Pause(5, "kim")))
MEMORY = Memory(owned={SOURCE: OwnedRate(None, 5, (5,))})
NEWER = OwnedRate(None, 9, (5, 9))
ENTRY = encode_entry(Entry(NOW_MS, "decision", "hold", "watching", "text"))
HEAD = PlanHead("p", "kim", 5, 9, 1)


def scan_of(*records: tuple[bytes, bytes | None], topic: str = "r.journal") -> JournalScan:
    return scan_records(JournalRecord(key, value, offset, topic, 0) for offset, (key, value) in enumerate(records))


def repaired(*records: tuple[bytes, bytes | None]) -> dict[bytes, bytes | None]:
    """Returns the records that repair writes; none is unreadable afterwards."""
    repairs = plan_repair(scan_of(*records))
    found = {each.key: each.value for each in repairs}
    assert scan_of(*records, *found.items()).in_force == {}
    return found


def test_scan_lists_unreadable_records_and_newest_per_key() -> None:
    scan = scan_of(
        (orders_key("c"), BAD), (orders_key("c"), PAUSED), (entry_key("entry", "c", 7), BAD), (memory_key("d"), BAD),
        (b"of|others", BAD), (b"", BAD), (entry_key("entry", "c", 8), ENTRY),
    )  # fmt: skip
    assert [(each.offset, each.key) for each in scan.unreadable] == [
        (0, orders_key("c")), (2, entry_key("entry", "c", 7)), (3, memory_key("d")),
    ]  # fmt: skip
    assert list(scan.in_force) == [entry_key("entry", "c", 7), memory_key("d")]


def test_scan_later_memory_replaces_rates_and_lists() -> None:
    before = [(owned_key("c", SOURCE), BAD), (listed_key("c", "t"), BAD), (memory_key("c"), encode_memory(MEMORY))]
    assert scan_of(*before).in_force == {}
    assert list(scan_of(*before, (owned_key("c", SOURCE), BAD)).in_force) == [owned_key("c", SOURCE)]


def test_repair_merges_readable_managed_records_into_one_memory() -> None:
    pairs = throttle([(0, 1)])
    found = repaired(
        (memory_key("c"), encode_memory(MEMORY, "host:1")),
        (owned_key("c", SOURCE), encode_owned(SOURCE, NEWER)),
        (listed_key("c", "t"), encode_listed("t", pairs)),
        (memory_key("c"), BAD),
        (owned_key("c", TARGET), BAD),
    )
    assert list(found) == [memory_key("c"), owned_key("c", TARGET)]
    memory = decode_memory(found[memory_key("c")] or b"")
    assert (memory.owned, memory.listed) == ({SOURCE: NEWER}, {"t": pairs})
    assert found[owned_key("c", TARGET)] is None
    assert b'"holder": "host:1"' in (found[memory_key("c")] or b"")


def test_repair_replaces_unreadable_memory_with_an_empty_one() -> None:
    assert decode_memory(repaired((memory_key("c"), BAD))[memory_key("c")] or b"") == Memory()


@pytest.mark.parametrize(
    ("key", "good"),
    [
        (orders_key("c"), PAUSED),
        (quota_records.owned_key("c", KIM), quota_records.encode_owned(KIM, OwnedQuota(None, 5.0, (5.0,)))),
        (entry_key("entry", "c", 7), ENTRY),
    ],
    ids=["orders", "quota", "entry"],
)
def test_repair_restores_newest_readable_record_or_deletes_the_key(key: bytes, good: bytes) -> None:
    assert repaired((key, good), (key, BAD), (key, BAD)) == {key: good}
    assert repaired((key, BAD)) == {key: None}
    assert repaired((key, good), (key, None), (key, BAD)) == {key: None}


def test_repair_restores_a_plan_as_paused() -> None:
    key = head_key("c", "p")
    head = decode_head(repaired((key, encode_head(HEAD)), (key, BAD))[key] or b"")
    assert head.desired is DesiredPlanState.PAUSED


def test_repair_replaces_plan_head_under_another_plans_key() -> None:
    """The tuner does not execute such a plan, and points to `rheostat journal check`."""
    key, other = head_key("c", "p"), encode_head(replace(HEAD, id="other"))
    scan = scan_of((key, other))
    assert list(scan.in_force) == [key]
    assert "has the key of another plan" in scan.in_force[key].why
    assert list(scan.states["c"].plans.unreadable_plans) == ["p"]
    assert repaired((key, other)) == {key: None}
    head = decode_head(repaired((key, encode_head(HEAD)), (key, other))[key] or b"")
    assert (head.id, head.desired) == ("p", DesiredPlanState.PAUSED)


# -- the commands -----------------------------------------------------------------------------------------------------------


class Topic:
    """The journal's topic as the commands see it."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *records: tuple[bytes, bytes | None], active: bool = False
    ) -> None:
        self.records = list(records)
        self.looks = 0
        topics = {"journal": "r.journal", "orders": "r.orders"}
        settings: Any = type("S", (), {"cluster": "c", "kafka": None, "topic_names": lambda _: type("T", (), topics)})()
        monkeypatch.setattr(command, "load_settings", lambda _: settings)
        monkeypatch.setattr(command, "_scan", self._scan)
        tuners = (TunerPresence("host:1", TunerMode.ACTIVE, 0, "1", 5e6, 1e6),) if active else ()
        monkeypatch.setattr(command, "read_tuners", lambda *_: tuners)
        monkeypatch.setattr(command, "Sender", self._sender)
        self.topic = ""
        self.comes: list[tuple[bytes, bytes | None]] = []  # Between the first look and the write.

    def _scan(self, _: object) -> JournalScan:
        self.looks += 1
        if self.looks == 2:
            self.records += self.comes
        return scan_of(*self.records)

    def _sender(self, _: object, topic: str, __: str) -> Topic:
        self.topic = topic
        return self

    def send(self, key: bytes, value: bytes | None) -> None:
        assert self.topic == ("r.orders" if is_order(key) else "r.journal")
        self.records.append((key, value))

    def wait_for_acks(self) -> None: ...

    def close(self) -> None: ...


def test_check_shows_each_record_and_its_consequence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Topic(monkeypatch, (b"orders|c\x1b[31m", b"{}"), (orders_key("c"), BAD), (memory_key("c"), b'{"v": 9}'))
    assert command.check(None) == EXIT_NOT_WELL  # type: ignore[arg-type]  # only handed on
    told = capsys.readouterr().out
    assert "\x1b[31m" not in told
    for part in (
        "b'orders|c'",
        "got `array`",
        "skipped: the previous orders stay in effect",
        "version 9",
        "no tuner acts",
    ):
        assert part in told
    Topic(monkeypatch, (orders_key("c"), PAUSED))
    assert command.check(None) == EXIT_DONE  # type: ignore[arg-type]


@pytest.mark.parametrize("topic", ["r.journal", "r.orders"])
def test_check_names_the_topic_of_each_record(topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An earlier build wrote orders into the journal's topic, and such records still exist."""
    console = Console(width=200)
    command.show(scan_of((orders_key("c"), BAD), topic=topic), "r.journal", "r.orders", console)
    row = next(line for line in capsys.readouterr().out.splitlines() if "b'orders|c'" in line)
    assert topic in row.split()


def test_repair_writes_only_after_confirmation(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic(monkeypatch, (orders_key("c"), BAD), (memory_key("c"), BAD))
    with pytest.raises(NotConfirmedError):
        command.repair(None, yes=False)  # type: ignore[arg-type]
    assert len(topic.records) == 2
    assert command.repair(None, yes=True) == EXIT_DONE  # type: ignore[arg-type]
    assert scan_of(*topic.records).in_force == {}


def test_repair_leaves_a_tuners_own_records_alone_while_one_acts(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic(monkeypatch, (orders_key("c"), BAD), (memory_key("c"), BAD), active=True)
    assert command.repair(None, yes=True) == EXIT_NOT_WELL  # type: ignore[arg-type]
    assert list(scan_of(*topic.records).in_force) == [memory_key("c")]


def test_repair_writes_nothing_if_the_journal_changed_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic(monkeypatch, (orders_key("c"), BAD))
    topic.comes = [(orders_key("c"), PAUSED)]
    with pytest.raises(CommandError, match="Nothing was written: repeat the command"):
        command.repair(None, yes=True)  # type: ignore[arg-type]
    assert topic.records[-1] == (orders_key("c"), PAUSED)


def test_repair_refuses_a_journal_of_an_earlier_version(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic(monkeypatch, (memory_key("c"), b'{"v": 1}'), (orders_key("c"), b'{"v": 1}'))
    with pytest.raises(CommandError) as refused:
        command.repair(None, yes=True)  # type: ignore[arg-type]
    assert str(refused.value) == (
        "Nothing was changed, because the journal r.journal has records of an earlier version of rheostat: an earlier version of rheostat "
        "wrote this record: record version 1, this version of rheostat reads 3. Let that version end its moves, or run `rheostat "
        "release` with that version. Then stop that version, and delete the topics: docs/how-to/upgrade.md."
    )
    assert len(topic.records) == 2


def test_check_names_an_earlier_version_and_the_upgrade_steps(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Topic(monkeypatch, (memory_key("c"), b'{"v": 1}'))
    assert command.check(None) == EXIT_NOT_WELL  # type: ignore[arg-type]
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("The journal r.journal has records of an earlier version of rheostat: ")
    assert last.endswith("delete the topics: docs/how-to/upgrade.md.")


def test_old_order_without_an_old_memory_is_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic(monkeypatch, (orders_key("c"), b'{"v": 1}'))
    assert command.repair(None, yes=True) == EXIT_DONE  # type: ignore[arg-type]
    assert topic.records[-1] == (orders_key("c"), None)
