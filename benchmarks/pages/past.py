"""The past of a benchmarked tuner: five weeks of measurements, a journal with many changes of one broker, and a large plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from streaming.shared.contract import BrokerHistory, HistoryPeriod, Side
from tuner.api.journal_history import JournalHistory
from tuner.api.week_store import PERIOD_MS, WeekStore
from tuner.control.throttle.decision import Reason, SetRate
from tuner.core.reassignment_plan import PlanHead, PlanPartition
from tuner.core.throttle_limits import MB, ThrottleLimits
from tuner.journal.entries import STEP_OUTCOMES, STEPS, Entry, entry_of, steering_entry
from tuner.journal.plan_records import encode_head, encode_parts, head_key, part_key, split_into_parts
from tuner.journal.term_entries import begin_term_entry, settings_in_force

BROKER = 7  # The one that the load asks for.
_DAYS = 35
_CHANGES_PER_BROKER = 5
_CHANGES_PER_TERM = 100
PLAN = "benchmark"
_PARTITIONS_PER_BROKER = 200


def fill_past(weeks: WeekStore, journal: JournalHistory, brokers: int, now_ms: int) -> None:
    """Fills both stores as their followers do after the first request.

    Args:
        brokers: number of brokers; the journal and the plan grow with the cluster.
    """
    changes_total = _CHANGES_PER_BROKER * brokers
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
    step_ms = _DAYS * 86_400_000 // changes_total
    for number in range(changes_total):
        at_ms = now_ms - (changes_total - number) * step_ms
        rate = 10 * MB + number
        changes = [
            SetRate(BROKER, side, rate, rate + 1, Reason.FOLLOWS_CLIENTS, f"broker {BROKER}: up") for side in Side
        ]
        journal.add(steering_entry(changes, at_ms), 3 * number)
        journal.add(entry_of("intent", changes[0], at_ms), 3 * number + 1)
        if number % _CHANGES_PER_TERM == 0:
            settings = settings_in_force(ThrottleLimits(rate_bytes_per_s_max=100 * MB + number), None)
            journal.add(begin_term_entry(f"host:{number}", "0", settings, at_ms, dry_run=False), 3 * number + 2)
    _add_plan(journal, _PARTITIONS_PER_BROKER * brokers, now_ms)
    journal.mark_read()


def _add_plan(journal: JournalHistory, partitions: int, now_ms: int) -> None:
    """Adds a running plan of many partitions, a tenth of which has arrived."""
    keys = [_partition(number) for number in range(partitions)]
    parts = list(split_into_parts({key: PlanPartition((2, 3), (1, 2), 1e9) for key in keys}))
    head = PlanHead(PLAN, "benchmark", now_ms, now_ms, part_records=len(parts), expected_s=3600.0)
    journal.apply_plan_record(head_key(journal.cluster, PLAN), encode_head(head))
    for number, part in enumerate(parts):
        journal.apply_plan_record(part_key(journal.cluster, PLAN, number), encode_parts(part))
    for number in range(partitions // 1000):
        advance_plan(journal, 100 * number, now_ms)


def advance_plan(journal: JournalHistory, number: int, now_ms: int) -> None:
    """Adds the step of one partition of the plan, and its end.

    Args:
        number: the partition, in the order of the plan.
    """
    key = _partition(number)
    begun = {"plan": PLAN, "steps": [[*key, [1, 2], [2, 3], "advance"]]}
    done = {"plan": PLAN, "reached": [key], "arrived": number + 1}
    journal.add(Entry(now_ms, STEPS, "reassign", "advance", f"plan {PLAN}: a step", begun), number)
    journal.add(Entry(now_ms, STEP_OUTCOMES, "reassign", "ended", f"plan {PLAN}: arrived", done), number)


def _partition(number: int) -> tuple[str, int]:
    return f"topic-{number % 500}", number // 500


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
