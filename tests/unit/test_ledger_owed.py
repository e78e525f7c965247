"""What has happened is on record once, whatever the journal takes in between, and whoever writes to it next."""

from __future__ import annotations

import pytest
from loop_rig import FakeJournal
from tuner_cases import LIMITS, NOW_MS, SOURCE, owned

from tuner.journal.entries import Entry
from tuner.journal.kafka_journal import JournalError
from tuner.ledger import Ledger
from tuner.model.decision import Reason
from tuner.model.memory import Memory

HAPPENED = Entry(NOW_MS, "outcome", "set", Reason.FOLLOWS_CLIENTS.value, "broker 1 leader throttle", failure="busy")
SAID = Entry(NOW_MS, "decision", "hold", Reason.WATCHING.value, "watching")


def ledger_of(journal: FakeJournal, owed: list[Entry] | None = None) -> Ledger:
    return Ledger(
        journal, Memory(), LIMITS, wall_clock=lambda: NOW_MS / 1000, monotonic=lambda: 0.0, dry_run=False, owed=owed
    )


def test_it_goes_with_the_next_record_that_is_taken_before_what_that_is_about() -> None:
    journal = FakeJournal([], refusing=True)
    ledger = ledger_of(journal)
    ledger.happened(HAPPENED)
    for _ in range(2):
        with pytest.raises(JournalError):
            ledger.record([SAID])
    journal.refusing = False
    ledger.record([SAID])
    ledger.record([SAID])
    assert journal.entries == [HAPPENED, SAID, SAID]


def test_it_goes_with_what_the_law_writes_too() -> None:
    journal = FakeJournal([])
    ledger = ledger_of(journal)
    ledger.record(memory=Memory())
    ledger.happened(HAPPENED)
    ledger.record_owned([SAID], Memory(owned={SOURCE: owned(None, 5)}), [SOURCE])
    assert journal.entries == [HAPPENED, SAID]


def test_what_a_term_could_not_record_the_next_one_does() -> None:
    journal, owed = FakeJournal([], refusing=True), list[Entry]()
    before = ledger_of(journal, owed)
    before.happened(HAPPENED)
    with pytest.raises(JournalError):
        before.record()
    journal.refusing = False
    ledger_of(journal, owed).record()
    ledger_of(journal, owed).record()
    assert journal.entries == [HAPPENED]
