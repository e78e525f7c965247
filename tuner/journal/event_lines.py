"""One line for one event: records of one cycle that say the same of several throttles are told together.

The journal keeps a record for each throttle. A person who reads twelve records that a move has ended needs one line with its list.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from streaming.shared.short_lists import join_names
from streaming.shared.units import rate_text
from tuner.control.throttle.decision import Acted
from tuner.journal.entries import Entry, entry_of

NAMED_MAX = 12
TOGETHER_MS_MAX = 1_000  # Between two records of one cycle.
ENDING_MS_MAX = 15_000  # The end of a large move takes several cycles.
_TEXTS_MAX = 3
_ENDING_WHY = {"move_ended": "the move has ended", "released": "released by order"}


def event_of(entry: Entry) -> Hashable | None:
    """Returns what the records of one event have in common; None: this record is an event by itself."""
    if subject_of(entry) is None:
        return None
    if is_ending(entry):
        return entry.kind, "ending", entry.reason, entry.dry_run
    _, colon, why = entry.text.partition(": ")
    return (entry.kind, entry.action, entry.reason, entry.dry_run, why) if colon else None


def subject_of(entry: Entry) -> Hashable | None:
    """Returns the one throttle or the one topic that a record is about; None: it is about several, or about none."""
    said = entry.decision
    if (topic := said.get("topic")) is not None:
        return str(topic)
    broker, side = said.get("broker"), said.get("side")
    return None if broker is None or side is None else (broker, str(side))


def is_ending(entry: Entry) -> bool:
    """Whether it puts a throttle back or clears a topic's lists, and says which."""
    said = entry.decision
    if entry.action == "put_back":
        return said.get("broker") is not None and said.get("side") is not None
    return entry.action == "clear_lists" and said.get("topic") is not None


def events(entries: Iterable[Entry]) -> list[list[Entry]]:
    """Returns the records of one cycle by event, in the order in which the events begin."""
    found: dict[Hashable, list[Entry]] = {}
    for number, entry in enumerate(entries):
        event = event_of(entry)
        found.setdefault(("alone", number) if event is None else event, []).append(entry)
    return list(found.values())


def event_text(entries: Sequence[Entry]) -> str:
    """Returns the sentence for records that share ``event_of``, with the list of what they are about."""
    first = entries[0]
    if len(entries) == 1:
        return first.text
    if is_ending(first):
        return _ending_text(entries)
    return f"{join_names([_head(entry) for entry in entries], NAMED_MAX)}: {first.text.partition(': ')[2]}"


def failures_text(failed: Sequence[tuple[Entry, str]], count: int) -> str | None:
    """Returns what failed of an event; None: nothing did.

    Args:
        count: of its records, with those that went well.
    """
    if not failed:
        return None
    if count == 1:
        return failed[0][1]
    return f"{len(failed)} of {count}: {join_names([f'{_head(entry)}: {failure}' for entry, failure in failed], NAMED_MAX)}"


def acts_told(acts: Sequence[Acted]) -> tuple[str, str | None]:
    """Returns one sentence for what was carried out at once, and what of it failed; None: nothing did."""
    entries = [entry_of("outcome", decision, 0, failure=failure) for decision, failure in acts]
    texts = [event_text(some) for some in events(entries)]
    failed = [(entry, entry.failure) for entry in entries if entry.failure is not None]
    return join_names(texts, _TEXTS_MAX, between="; "), failures_text(failed, len(acts))


def about(entries: Sequence[Entry]) -> dict[str, Any]:
    """Returns the throttles or topics of an event as keys of a log line for machines; nothing where it is the cluster's."""
    topics = [entry.decision["topic"] for entry in entries if entry.decision.get("topic") is not None]
    sides = [
        (broker, str(entry.decision["side"]))
        for entry in entries
        if (broker := entry.decision.get("broker")) is not None and entry.decision.get("side") is not None
    ]
    if len(entries) == 1:
        return {"topic": topics[0]} if topics else dict(zip(("broker", "side"), sides[0], strict=True)) if sides else {}
    lists = {"topics": topics, "throttles": [f"{broker} {side}" for broker, side in sides]}
    return {name: values for name, values in lists.items() if values}


def _head(entry: Entry) -> str:
    return entry.text.partition(": ")[0]


def _ending_text(entries: Sequence[Entry]) -> str:
    rates = [entry.decision for entry in entries if entry.action == "put_back"]
    removed = [said for said in rates if said.get("value_bytes_per_s") is None]
    restored = [
        f"broker {said['broker']} {said['side']} to {rate_text(said['value_bytes_per_s'])}"
        for said in rates
        if said.get("value_bytes_per_s") is not None
    ]
    topics = sorted(str(entry.decision["topic"]) for entry in entries if entry.action == "clear_lists")
    parts = [
        f"remove the throttles of {_sides(removed)}" if removed else "",
        f"restore {join_names(restored, NAMED_MAX)}" if restored else "",
        f"clear the throttled-replica lists of {'topic' if len(topics) == 1 else 'topics'} {join_names(topics, NAMED_MAX)}"
        if topics
        else "",
    ]
    reason = entries[0].reason
    return f"{_ENDING_WHY.get(reason, reason.replace('_', ' '))}: {'; '.join(part for part in parts if part)}"


def _sides(said: Iterable[Any]) -> str:
    by_broker: dict[int, list[str]] = {}
    for row in said:
        by_broker.setdefault(row["broker"], []).append(str(row["side"]))
    brokers = [
        f"broker {broker} ({', '.join(sorted(sides, reverse=True))})" for broker, sides in sorted(by_broker.items())
    ]
    return join_names(brokers, NAMED_MAX)
