"""Tests that each event is recorded exactly once, in whatever order journal outages and terms come."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from loop_rig import FakeJournal
from tuner_cases import LIMITS, NOW_MS, SOURCE, TARGET
from tuner_cases import owned as owned_rate

from tuner.control.throttle.decision import Reason
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.core.throttle_limits import MB
from tuner.journal import kafka_journal
from tuner.journal.entries import Entry, encode_entry, entry_key, entry_or_none, ring_of
from tuner.journal.kafka_journal import JournalError, KafkaJournal
from tuner.journal.outbox import Outbox
from tuner.journal.topic_reader import JournalRecord
from tuner.runtime.clock import Clock
from tuner.runtime.throttle.recorder import ThrottleRecorder

HAPPENED = Entry(NOW_MS, "outcome", "set", Reason.FOLLOWS_CLIENTS.value, "broker 1 leader throttle", failure="busy")
SAID = Entry(NOW_MS, "decision", "hold", Reason.WATCHING.value, "watching")
RAMP = Memory(owned={SOURCE: owned_rate(None, 5 * MB, 2 * MB, 5 * MB)})
OTHER = owned_rate(None, 7 * MB)
HOLD_MS = round(LIMITS.external_change_hold_s * 1000)


def recorder_of(journal: FakeJournal, owed: Outbox | None = None, memory: Memory | None = None) -> ThrottleRecorder:
    return ThrottleRecorder(
        journal,
        memory or Memory(),
        LIMITS,
        Clock(lambda: NOW_MS / 1000, lambda: 0.0),
        dry_run=False,
        outbox=owed,
    )


def test_outbox_entries_precede_next_accepted_record() -> None:
    journal = FakeJournal([], refusing=True)
    recorder = recorder_of(journal)
    recorder.add_outcome(HAPPENED)
    for _ in range(2):
        with pytest.raises(JournalError):
            recorder.record([SAID])
    journal.refusing = False
    recorder.record([SAID])
    recorder.record([SAID])
    assert journal.entries == [HAPPENED, SAID, SAID]


def test_outbox_entries_go_with_steering_record() -> None:
    journal = FakeJournal([])
    recorder = recorder_of(journal)
    recorder.record(memory=Memory())
    recorder.add_outcome(HAPPENED)
    recorder.record_owned([SAID], Memory(owned={SOURCE: owned_rate(None, 5)}), [SOURCE])
    assert journal.entries == [HAPPENED, SAID]


def test_next_term_records_outbox_entries() -> None:
    journal, owed = FakeJournal([], refusing=True), Outbox()
    before = recorder_of(journal, owed)
    before.add_outcome(HAPPENED)
    with pytest.raises(JournalError):
        before.record()
    journal.refusing = False
    recorder_of(journal, owed).record()
    recorder_of(journal, owed).record()
    assert journal.entries == [HAPPENED]


def test_outbox_note_changes_memory_at_once() -> None:
    journal = FakeJournal([])
    recorder = recorder_of(journal, memory=RAMP)
    recorder.record(memory=RAMP)
    journal.refusing = True
    settled = Memory(owned={SOURCE: owned_rate(None, 5 * MB)})
    recorder.add_outcome(HAPPENED, settled)
    with pytest.raises(JournalError):
        recorder.record(memory=recorder.memory)
    assert recorder.memory == settled
    assert journal.memories == [RAMP]
    journal.refusing = False
    recorder.record(memory=recorder.memory)
    assert journal.memories == [RAMP, settled]


def given_up(journal: FakeJournal, owed: Outbox) -> ThrottleRecorder:
    """During the journal outage an operator set 3 MB/s where the tuner had begun to set 5."""
    recorder = recorder_of(journal, owed, RAMP)
    recorder.record(memory=RAMP)
    journal.refusing = True
    recorder.relinquish(SOURCE, 3 * MB)
    with pytest.raises(JournalError):
        recorder.record(memory=recorder.memory)
    journal.refusing = False
    return recorder


def test_unrecorded_external_change_holds_in_next_term() -> None:
    journal, owed = FakeJournal([]), Outbox()
    given_up(journal, owed)
    after = recorder_of(journal, owed, RAMP)
    assert after.memory == Memory(externally_owned_until_ms={SOURCE: NOW_MS + HOLD_MS})
    after.record(memory=after.memory)
    assert [entry.action for entry in journal.entries] == ["relinquish"]
    assert journal.memories[-1] == after.memory
    assert recorder_of(journal, owed, RAMP).memory == RAMP, "a third term has it from the journal, and not from here"


@pytest.mark.parametrize("now", [OwnedRate(None, 5 * MB, (2 * MB,)), None])
def test_unrecorded_stop_and_restore_hold_in_next_term(now: OwnedRate | None) -> None:
    journal, owed = FakeJournal([]), Outbox()
    recorder = recorder_of(journal, owed, RAMP)
    recorder.add_outcome(HAPPENED, Memory(owned={} if now is None else {SOURCE: now}), SOURCE)
    after = recorder_of(journal, owed, replace(RAMP, owned={**RAMP.owned, TARGET: OTHER}))
    assert after.memory == Memory(owned={TARGET: OTHER} if now is None else {SOURCE: now, TARGET: OTHER})
    after.record(memory=after.memory)
    assert recorder_of(journal, owed, RAMP).memory == RAMP


def test_steering_record_supersedes_older_stop() -> None:
    journal, owed = FakeJournal([]), Outbox()
    recorder = recorder_of(journal, owed, RAMP)
    recorder.record(memory=RAMP)
    recorder.add_outcome(HAPPENED, Memory(owned={SOURCE: OwnedRate(None, 5 * MB, (2 * MB,))}), SOURCE)
    newer = Memory(owned={SOURCE: OwnedRate(None, 5 * MB, (2 * MB, 5 * MB))})
    recorder.record_owned([SAID], newer, [SOURCE])
    assert recorder_of(journal, owed, newer).memory == newer


def test_rate_set_again_is_not_relinquished() -> None:
    journal, owed = FakeJournal([]), Outbox()
    given_up(journal, owed)
    others = Memory(owned={SOURCE: owned_rate(None, 9 * MB)})
    assert recorder_of(journal, owed, others).memory == others


def test_rate_of_later_tuner_is_managed() -> None:
    """It has seen the person's word, or it has ended; who took its rate for what was given up would leave it there."""
    journal, owed = FakeJournal([]), Outbox()
    given_up(journal, owed)
    owed.reset_for_other_tuner()
    after = recorder_of(journal, owed, RAMP)
    assert after.memory == RAMP
    after.record([SAID])
    assert [entry.action for entry in journal.entries] == ["relinquish", "hold"], "and yet it has happened"


def test_external_change_is_recorded_together_with_memory() -> None:
    journal, owed = FakeJournal([]), Outbox()
    recorder = given_up(journal, owed)
    recorder.record([SAID])
    recorder.record_owned([SAID], replace(recorder.memory, owned={TARGET: owned_rate(None, 7)}), [TARGET])
    assert journal.entries == [SAID, SAID]
    recorder.record(memory=recorder.memory)
    assert [entry.action for entry in journal.entries] == ["hold", "hold", "relinquish"]
    assert SOURCE in journal.memories[-1].externally_owned_until_ms


# -- what the next term reads in the journal --------------------------------------------------------------------------------


def test_recorded_outbox_entry_is_not_repeated() -> None:
    """Nobody heard how the write ended, so the journal was lost, and read again by the next term."""
    owed = Outbox()
    recorder = given_up(FakeJournal([]), owed)
    recorder.add_outcome(HAPPENED)
    recorder.add_outcome(replace(HAPPENED, failure="another time"))
    read_back = [entry_or_none(encode_entry(replace(entry, seq=7))) for entry in [*owed.relinquished, HAPPENED, SAID]]
    assert owed.times_ms == {NOW_MS}
    owed.remove_recorded([entry for entry in read_back if entry is not None])
    assert (owed.relinquished, owed.entries) == ([], [replace(HAPPENED, failure="another time")])


def written(monkeypatch: pytest.MonkeyPatch, holder: str, memory: Memory) -> list[tuple[bytes, bytes]]:
    sent: list[tuple[bytes, bytes]] = []
    monkeypatch.setattr(KafkaJournal, "_send", lambda _, records, inputs: sent.extend(records))  # noqa: ARG005
    KafkaJournal(None, "journal", "c", holder=holder).write(memory=memory)
    return sent


class Reader:
    def partitions_for_topic(self, _: str) -> set[int]:
        return {0}

    def assignment(self) -> set[object]:
        return set()


@pytest.mark.parametrize("last_by", ["us", "others"])
def test_term_begins_with_entries_missing_in_journal(monkeypatch: pytest.MonkeyPatch, last_by: str) -> None:
    owed = Outbox()
    given_up(FakeJournal([]), owed)
    owed.entries = [HAPPENED, replace(HAPPENED, at_ms=NOW_MS + 1)]
    there = [HAPPENED, replace(SAID, at_ms=NOW_MS + 2)]
    records = [(entry_key(ring_of(e), "c", seq), encode_entry(replace(e, seq=seq))) for seq, e in enumerate(there)]
    records += [record for by in ("us", last_by) for record in written(monkeypatch, by, RAMP)]
    monkeypatch.setattr(
        kafka_journal,
        "read_journal",
        lambda *_, **__: (JournalRecord(*each, at, "journal", 0) for at, each in enumerate(records)),
    )
    reader: Any = Reader()
    memory = KafkaJournal(None, "journal", "c", holder="us").recover(reader, owed)
    assert memory == RAMP
    assert HAPPENED not in owed.entries
    assert replace(HAPPENED, at_ms=NOW_MS + 1) in owed.entries
    expected = Memory(externally_owned_until_ms={SOURCE: NOW_MS + HOLD_MS}) if last_by == "us" else RAMP
    assert recorder_of(FakeJournal([]), owed, memory).memory == expected
    assert [e.action for e in owed.entries] == (["set"] if last_by == "us" else ["set", "relinquish"])
