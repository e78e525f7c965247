"""Compares recorded decisions with the decisions of a replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from streaming.shared.contract import Side
from streaming.shared.units import rate_text
from tuner.core.cluster import side_name
from tuner.journal.column_packing import unpack_column
from tuner.replay.recording import STREAM_BY_KIND, RecordedStep
from tuner.replay.replayer import ReplayedStep

NOTHING = "nothing"
# Fields whose exact value is shown after the text, which may round it.
_EXACT_VALUES = (
    ("setpoint_bytes_per_s", "bytes/s"),
    ("setpoint_per_s", "partitions/s"),
    ("value_per_s", "partitions/s"),
    ("rate_per_s", "partitions/s"),
)
UNWRITTEN = "recorded only as a checksum, as there were too many; the checksum differs"


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between the recorded step (``then``) and the replayed step (``now``), as texts for people."""

    at_ms: int
    run: str
    kind: str  # "memory", or the kind of the step.
    then: str
    now: str


@dataclass(slots=True)
class MatchCount:
    """How many compared items are the same, and how many differ."""

    same: int = 0
    different: int = 0

    def add(self, *, same: bool) -> None:
        self.same += same
        self.different += not same


@dataclass(slots=True)
class Comparison:
    """The result of a replay.

    Attributes:
        cycles: throttle cycles.
        decisions: the decisions of the throttle cycles.
        steering_ticks: steering ticks that were decided again.
        quotas: mutation quota cycles.
        quota_decisions: the decisions of the mutation quota cycles.
        elections: decisions about preferred leaders.
        movements: decisions about the concurrency of Cruise Control.
        memory: frames whose remembered state was compared with the replay's.
        not_steered: steering ticks that were not decided again, as there is no objective now.
        programs: the versions of rheostat that recorded the steps.
        differences: the first differences.
    """

    cycles: MatchCount = field(default_factory=MatchCount)
    decisions: MatchCount = field(default_factory=MatchCount)
    steering_ticks: MatchCount = field(default_factory=MatchCount)
    quotas: MatchCount = field(default_factory=MatchCount)
    quota_decisions: MatchCount = field(default_factory=MatchCount)
    elections: MatchCount = field(default_factory=MatchCount)
    movements: MatchCount = field(default_factory=MatchCount)
    memory: MatchCount = field(default_factory=MatchCount)
    not_steered: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    programs: set[str] = field(default_factory=set)
    runs: set[str] = field(default_factory=set)
    differences: list[Difference] = field(default_factory=list)

    def count_of(self, kind: str) -> MatchCount:
        """Returns the count of the steps of a kind."""
        counts = {
            "cycle": self.cycles,
            "steering": self.steering_ticks,
            "quotas": self.quotas,
            "election": self.elections,
            "movements": self.movements,
        }
        return counts[kind]

    @property
    def steps(self) -> int:
        return sum(c.same + c.different for c in map(self.count_of, STREAM_BY_KIND)) + self.not_steered

    @property
    def different(self) -> int:
        return sum(self.count_of(kind).different for kind in STREAM_BY_KIND) + self.memory.different


def compare_steps(replayed: Iterable[ReplayedStep], from_ms: int, to_ms: int, *, differences_max: int) -> Comparison:
    """Returns the comparison of the steps between two times.

    Args:
        replayed: steps that may begin before ``from_ms``, as a recording begins with a frame.
        differences_max: how many differences to keep. Later differences are only counted.
    """
    comparison = Comparison()
    for replay in replayed:
        step = replay.step
        if not from_ms <= step.now_ms <= to_ms:
            continue
        first_ms, last_ms = comparison.first_ms, comparison.last_ms
        comparison.first_ms = step.now_ms if first_ms is None else min(first_ms, step.now_ms)
        comparison.last_ms = step.now_ms if last_ms is None else max(last_ms, step.now_ms)
        comparison.programs.add(step.program)
        comparison.runs.add(step.run)
        differences = [*_compare_memory(comparison, step, replay), *_compare_decisions(comparison, step, replay)]
        comparison.differences += differences[: max(0, differences_max - len(comparison.differences))]
    return comparison


def _compare_memory(comparison: Comparison, step: RecordedStep, replay: ReplayedStep) -> list[Difference]:
    if step.frame is None or step.pieces is None:
        return []  # No replayed state leads up to this step.
    comparison.memory.add(same=not replay.differing_fields)
    if not replay.differing_fields:
        return []
    now = f"other values of {', '.join(replay.differing_fields)}"
    return [Difference(step.now_ms, step.run, kind="memory", then="the recorded values", now=now)]


def _compare_decisions(comparison: Comparison, step: RecordedStep, replay: ReplayedStep) -> list[Difference]:
    if replay.decisions is None:
        comparison.not_steered += 1
        return []
    if step.kind == "steering":
        pairs = [] if replay.decisions == step.decisions else _diff_rates(step.decisions, replay.decisions)
    else:
        different, pairs = _diff_digests(step.decisions, replay.decisions, replay.texts)
        decisions = {"cycle": comparison.decisions, "quotas": comparison.quota_decisions}.get(step.kind)
        if decisions is not None:  # A step of any other kind has exactly one decision.
            decisions.different += different
            decisions.same += max(0, len(replay.texts) - different)
    comparison.count_of(step.kind).add(same=not pairs)
    return [Difference(step.now_ms, step.run, kind=step.kind, then=then, now=now) for then, now in pairs]


def _diff_digests(
    then: Mapping[str, Any], now: Mapping[str, Any], texts: Sequence[str]
) -> tuple[int, list[tuple[str, str]]]:
    """Returns how many decisions differ, and both texts of each differing decision that has a recorded row."""
    sums_now = unpack_column(now["sums"])
    count_then, count_now = Counter(unpack_column(then["sums"])), Counter(sums_now)
    new_sums = count_now - count_then
    different = max((count_then - count_now).total(), new_sums.total())
    rows_then, rows_now = (_rows_by_subject(digest["rows"]) for digest in (then, now))
    subjects = [*rows_then, *(subject for subject in rows_now if subject not in rows_then)]
    pairs = [
        (_row_text(rows_then.get(subject)), _row_text(rows_now.get(subject)))
        for subject in subjects
        if rows_then.get(subject) != rows_now.get(subject)
    ]
    texts_with_row = {row["text"] for row in rows_now.values()}
    pairs += [
        (UNWRITTEN, text)
        for text, checksum in zip(texts, sums_now, strict=True)
        if checksum in new_sums and text not in texts_with_row
    ]
    if different and not pairs:
        pairs = [(UNWRITTEN, NOTHING)]
    # Rows can differ although the checksums are equal, as the checksum of a hold covers only its reason and text.
    return max(different, min(len(pairs), len(sums_now))), pairs


def _rows_by_subject(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[Any, ...], Mapping[str, Any]]:
    """Returns the rows by subject. Rows with the same subject are numbered, so that rows with equal numbers are compared."""
    by_subject: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    counts = Counter[tuple[Any, ...]]()
    for row in rows:
        subject = _subject(row)
        by_subject[(*subject, counts[subject])] = row
        counts[subject] += 1
    return by_subject


def _subject(row: Mapping[str, Any]) -> tuple[Any, ...]:
    about = row.get("broker"), row.get("side"), row.get("topic"), row.get("entity")
    if any(part is not None for part in about):
        return about
    # A cycle may have several decisions without a subject, so their reason is a part of the key. It has at most one decision about
    # the total.
    return (*about, row["action"] if row["action"] == "total" else row.get("reason"))


def _row_text(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return NOTHING
    # Two equal texts may still differ in the exact value.
    value = next(((row[key], unit) for key, unit in _EXACT_VALUES if row.get(key) is not None), None)
    exact = f" ({value[0]} {value[1]})" if value is not None else ""
    return f"{row['action']}, {row['reason']}: {row['text']}{exact}"


def _diff_rates(then: Sequence[Sequence[Any]], now: Sequence[Sequence[Any]]) -> list[tuple[str, str]]:
    rows_then, rows_now = ({(row[0], row[1]): row for row in rows} for rows in (then, now))
    sides = [*rows_then, *(side for side in rows_now if side not in rows_then)]
    pairs = [
        (
            f"{side_name((side[0], Side(side[1])))} {_rates_text(rows_then.get(side))}",
            _rates_text(rows_now.get(side)),
        )
        for side in sides
        if rows_then.get(side) != rows_now.get(side)
    ]
    return pairs or [("the same rates", "the same in another order")]


def _rates_text(row: Sequence[Any] | None) -> str:
    if row is None:
        return "stays"
    return f"{rate_text(row[2])} → {rate_text(row[3])} ({row[3]} bytes/s)"
