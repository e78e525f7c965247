"""Groups journal entries of one event and writes one line for the group.

The journal has an entry per throttle. When a move ends, a reader needs one line with a list, not twelve entries.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from streaming.shared.short_lists import join_names
from streaming.shared.units import rate_text
from tuner.control.throttle.decision import ExecutedDecision
from tuner.journal.entries import Entry, entry_of

NAMED_MAX = 12
SAME_CYCLE_MS_MAX = 1_000  # Longest time between two entries of one cycle.
CLEANUP_MS_MAX = 15_000  # The cleanup after a large move takes several cycles.
_TEXTS_MAX = 3
_CLEANUP_REASONS = {"move_ended": "the move has ended", "released": "released by order"}


def event_key(entry: Entry) -> Hashable | None:
    """Returns a key that all entries of one event share; None if the entry is an event of its own."""
    if subject_of(entry) is None:
        return None
    if is_cleanup(entry):
        return entry.kind, "ending", entry.reason, entry.dry_run
    # The text is "throttle or topic: explanation", and all entries of an event have the same explanation.
    _, colon, explanation = entry.text.partition(": ")
    return (entry.kind, entry.action, entry.reason, entry.dry_run, explanation) if colon else None


def subject_of(entry: Entry) -> Hashable | None:
    """Returns the throttle or topic that an entry is about; None if the entry is not about exactly one throttle or topic."""
    decision = entry.decision
    if (topic := decision.get("topic")) is not None:
        return str(topic)
    broker, side = decision.get("broker"), decision.get("side")
    return None if broker is None or side is None else (broker, str(side))


def is_cleanup(entry: Entry) -> bool:
    """Returns whether the entry restores or removes one throttle, or clears the lists of one topic."""
    decision = entry.decision
    if entry.action == "restore":
        return decision.get("broker") is not None and decision.get("side") is not None
    return entry.action == "clear_lists" and decision.get("topic") is not None


def group_by_event(entries: Iterable[Entry]) -> list[list[Entry]]:
    """Returns the entries of one cycle grouped by event, in the order in which the events begin."""
    groups: dict[Hashable, list[Entry]] = {}
    for number, entry in enumerate(entries):
        key = event_key(entry)
        groups.setdefault(("alone", number) if key is None else key, []).append(entry)
    return list(groups.values())


def event_text(entries: Sequence[Entry]) -> str:
    """Returns one sentence for the entries of an event, with the list of throttles or topics."""
    first = entries[0]
    if len(entries) == 1:
        return first.text
    if is_cleanup(first):
        return _cleanup_text(entries)
    return f"{join_names([_subject_text(entry) for entry in entries], NAMED_MAX)}: {first.text.partition(': ')[2]}"


def failures_text(failed: Sequence[tuple[Entry, str]], count: int) -> str | None:
    """Returns the failures of an event as text; None if nothing failed.

    Args:
        failed: the entries that failed, each with its failure.
        count: all entries of the event.
    """
    if not failed:
        return None
    if count == 1:
        return failed[0][1]
    texts = [f"{_subject_text(entry)}: {failure}" for entry, failure in failed]
    return f"{len(failed)} of {count}: {join_names(texts, NAMED_MAX)}"


def outcome_text(acts: Sequence[ExecutedDecision]) -> tuple[str, str | None]:
    """Returns one sentence for decisions that were carried out together, and their failures; None if nothing failed."""
    entries = [entry_of("outcome", decision, at_ms=0, failure=failure) for decision, failure in acts]
    texts = [event_text(group) for group in group_by_event(entries)]
    failed = [(entry, entry.failure) for entry in entries if entry.failure is not None]
    return join_names(texts, _TEXTS_MAX, separator="; "), failures_text(failed, len(acts))


def log_fields(entries: Sequence[Entry]) -> dict[str, Any]:
    """Returns the throttles or topics of an event as fields of a log line; empty if the event is about the whole cluster."""
    topics = [entry.decision["topic"] for entry in entries if entry.decision.get("topic") is not None]
    sides = [
        (broker, str(entry.decision["side"]))
        for entry in entries
        if (broker := entry.decision.get("broker")) is not None and entry.decision.get("side") is not None
    ]
    if len(entries) == 1 and topics:
        return {"topic": topics[0]}
    if len(entries) == 1 and sides:
        broker, side = sides[0]
        return {"broker": broker, "side": side}
    lists = {"topics": topics, "throttles": [f"{broker} {side}" for broker, side in sides]}
    return {name: values for name, values in lists.items() if values}


def _subject_text(entry: Entry) -> str:
    return entry.text.partition(": ")[0]


def _cleanup_text(entries: Sequence[Entry]) -> str:
    rates = [entry.decision for entry in entries if entry.action == "restore"]
    removed = [decision for decision in rates if decision.get("value_bytes_per_s") is None]
    restored = [
        f"broker {decision['broker']} {decision['side']} to {rate_text(decision['value_bytes_per_s'])}"
        for decision in rates
        if decision.get("value_bytes_per_s") is not None
    ]
    topics = sorted(str(entry.decision["topic"]) for entry in entries if entry.action == "clear_lists")
    parts = []
    if removed:
        parts.append(f"remove the throttles of {_sides_text(removed)}")
    if restored:
        parts.append(f"restore {join_names(restored, NAMED_MAX)}")
    if topics:
        noun = "topic" if len(topics) == 1 else "topics"
        parts.append(f"clear the throttled-replica lists of {noun} {join_names(topics, NAMED_MAX)}")
    reason = entries[0].reason
    return f"{_CLEANUP_REASONS.get(reason, reason.replace('_', ' '))}: {'; '.join(parts)}"


def _sides_text(decisions: Iterable[Mapping[str, Any]]) -> str:
    sides_by_broker: dict[int, list[str]] = {}
    for decision in decisions:
        sides_by_broker.setdefault(decision["broker"], []).append(str(decision["side"]))
    brokers = [
        f"broker {broker} ({', '.join(sorted(sides, reverse=True))})"  # Leader before follower.
        for broker, sides in sorted(sides_by_broker.items())
    ]
    return join_names(brokers, NAMED_MAX)
