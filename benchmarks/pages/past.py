"""The past of a benchmarked tuner: five weeks of measurements, and a journal that is full of changes of one broker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from streaming.shared.contract import BrokerHistory, HistoryPeriod, Side
from tuner.api.journal_history import JournalHistory
from tuner.api.week_store import PERIOD_MS, WeekStore
from tuner.control.throttle.decision import Reason, SetRate
from tuner.core.throttle_limits import MB, ThrottleLimits
from tuner.journal.entries import Entry, entry_of, steering_entry
from tuner.journal.term_entries import begin_term_entry, settings_in_force

BROKER = 7  # The one that the load asks for.
_DAYS = 35
_CHANGES = 5_000
_TERMS = 50


def fill_past(weeks: WeekStore, journal: JournalHistory, now_ms: int) -> None:
    """Fills both stores as their followers do after the first request."""
    periods = _DAYS * 86_400_000 // PERIOD_MS
    for number in range(1, periods):
        history = BrokerHistory(
            broker=BROKER,
            signals=20,
            client_in_bytes_per_s=30e6 + number,
            client_out_bytes_per_s=60e6 + number,
            replication_in_bytes_per_s=20e6 + number,
            replication_out_bytes_per_s=20e6 + number,
            produce_p99_ms=8.0 + number % 7,
            lag_sum_messages=float(number % 1000),
        )
        start_ms = now_ms // PERIOD_MS * PERIOD_MS - (periods - number) * PERIOD_MS
        weeks.add(HistoryPeriod(weeks.cluster, start_ms, brokers=(history,)), now_ms)
    weeks.mark_read()
    weeks.mark_older_read()
    step_ms = _DAYS * 86_400_000 // _CHANGES
    for number in range(_CHANGES):
        at_ms = now_ms - (_CHANGES - number) * step_ms
        rate = 10 * MB + number
        changes = [
            SetRate(BROKER, side, rate, rate + 1, Reason.FOLLOWS_CLIENTS, f"broker {BROKER}: up") for side in Side
        ]
        journal.add(steering_entry(changes, at_ms), 3 * number)
        journal.add(entry_of("intent", changes[0], at_ms), 3 * number + 1)
        if number % (_CHANGES // _TERMS) == 0:
            settings = settings_in_force(ThrottleLimits(rate_bytes_per_s_max=100 * MB + number), None)
            journal.add(begin_term_entry(f"host:{number}", "0", settings, at_ms, dry_run=False), 3 * number + 2)
    journal.mark_read()


def recording(write: Callable[..., None], journal: JournalHistory, entries: list[Entry]) -> Callable[..., None]:
    """Returns a function that writes to a journal, and passes the entries to the history as the follower does.

    Args:
        entries: receives the entries, by offset.
    """

    def write_and_record(written: Sequence[Entry] = (), **more: Any) -> None:
        write(written, **more)
        for entry in written:
            journal.add(entry, len(entries))
            entries.append(entry)

    return write_and_record
