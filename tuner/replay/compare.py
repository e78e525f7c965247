"""What was decided beside what is decided now: the same, or both texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from streaming.shared.contract import Side
from streaming.shared.units import rate_text
from tuner.core.cluster import side_name
from tuner.journal.column_packing import unpacked
from tuner.replay.replayer import Played

NOTHING = "nothing"
_EXACT = (
    ("setpoint_bytes_per_s", "bytes/s"),
    ("setpoint_per_s", "partitions/s"),
    ("value_per_s", "partitions/s"),
    ("rate_per_s", "partitions/s"),
)
UNWRITTEN = "not written out then, as there were too many; something else by its checksum"


@dataclass(frozen=True, slots=True)
class Difference:
    """``then`` and ``now`` are for people."""

    at_ms: int
    run: str
    kind: str  # "cycle", "second", "quotas", "memory".
    then: str
    now: str


@dataclass(slots=True)
class Count:
    same: int = 0
    different: int = 0


@dataclass(slots=True)
class Compared:
    cycles: Count = field(default_factory=Count)
    decisions: Count = field(default_factory=Count)  # Of the cycles.
    seconds: Count = field(default_factory=Count)
    quotas: Count = field(default_factory=Count)  # Cycles of theirs.
    quota_decisions: Count = field(default_factory=Count)
    memory: Count = field(default_factory=Count)  # At each frame that something led up to.
    not_asked: int = 0  # Seconds of the law, where there is none now.
    first_ms: int | None = None
    last_ms: int | None = None
    programs: set[str] = field(default_factory=set)
    runs: set[str] = field(default_factory=set)
    differences: list[Difference] = field(default_factory=list)

    @property
    def steps(self) -> int:
        return sum(c.same + c.different for c in (self.cycles, self.seconds, self.quotas)) + self.not_asked

    @property
    def different(self) -> int:
        return self.cycles.different + self.seconds.different + self.quotas.different + self.memory.different


def compared(played: Iterable[Played], from_ms: int, to_ms: int, *, kept: int) -> Compared:
    """
    Args:
        played: from before ``from_ms`` on, as a film begins with a frame; only what is in the range counts.
        kept: so many differences are told at most, the first ones.
    """
    found = Compared()
    for one in played:
        step = one.step
        if not from_ms <= step.now_ms <= to_ms:
            continue
        found.first_ms = step.now_ms if found.first_ms is None else min(found.first_ms, step.now_ms)
        found.last_ms = step.now_ms if found.last_ms is None else max(found.last_ms, step.now_ms)
        found.programs.add(step.program)
        found.runs.add(step.run)
        new: list[Difference] = []
        if step.frame is not None and step.pieces is not None:
            _count(found.memory, same=not one.other_memory)
            if one.other_memory:
                came_to = f"something else in {', '.join(one.other_memory)}"
                new.append(Difference(step.now_ms, step.run, "memory", "what is on record was remembered", came_to))
        if one.now is None:
            found.not_asked += 1
        elif step.kind in ("cycle", "quotas"):
            different, pairs = _cycle(step.said, one.now, one.texts)
            cycles, decisions = (
                (found.cycles, found.decisions) if step.kind == "cycle" else (found.quotas, found.quota_decisions)
            )
            decisions.different += different
            decisions.same += max(0, len(one.texts) - different)
            _count(cycles, same=not pairs)
            new += [Difference(step.now_ms, step.run, step.kind, then, now) for then, now in pairs]
        else:
            pairs = [] if one.now == step.said else _second(step.said, one.now)
            _count(found.seconds, same=not pairs)
            new += [Difference(step.now_ms, step.run, step.kind, then, now) for then, now in pairs]
        found.differences += new[: max(0, kept - len(found.differences))]
    return found


def _count(count: Count, *, same: bool) -> None:
    count.same += same
    count.different += not same


def _cycle(then: Mapping[str, Any], now: Mapping[str, Any], texts: Sequence[str]) -> tuple[int, list[tuple[str, str]]]:
    """How many decisions are not the same, and both texts of each, as far as they are on record."""
    sums = unpacked(now["sums"])
    was, came = Counter(unpacked(then["sums"])), Counter(sums)
    new = came - was
    different = max((was - came).total(), new.total())
    before, after = (_by_subject(said["rows"]) for said in (then, now))
    subjects = [*before, *(subject for subject in after if subject not in before)]
    pairs = [
        (_text(before.get(subject)), _text(after.get(subject)))
        for subject in subjects
        if before.get(subject) != after.get(subject)
    ]
    told = {row["text"] for row in after.values()}
    pairs += [(UNWRITTEN, text) for text, one in zip(texts, sums, strict=True) if one in new and text not in told]
    if different and not pairs:
        pairs = [(UNWRITTEN, NOTHING)]
    return max(different, min(len(pairs), len(sums))), pairs


def _by_subject(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[Any, ...], Mapping[str, Any]]:
    """Of several about one thing the first is held against the first, the second against the second."""
    found: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    met = Counter[tuple[Any, ...]]()
    for row in rows:
        subject = _subject(row)
        found[(*subject, met[subject])] = row
        met[subject] += 1
    return found


def _subject(row: Mapping[str, Any]) -> tuple[Any, ...]:
    # Of what is about no throttle and nobody's quota there may be several, each of its own kind; the total is one.
    about = row.get("broker"), row.get("side"), row.get("topic"), row.get("entity")
    if any(part is not None for part in about):
        return about
    return (*about, row["action"] if row["action"] == "total" else row.get("reason"))


def _text(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return NOTHING
    # Where the words are the same it is a number behind them that is not.
    number = next(((row[key], unit) for key, unit in _EXACT if row.get(key) is not None), None)
    exact = f" ({number[0]} {number[1]})" if number is not None else ""
    return f"{row['action']}, {row['reason']}: {row['text']}{exact}"


def _second(then: Sequence[Sequence[Any]], now: Sequence[Sequence[Any]]) -> list[tuple[str, str]]:
    before, after = ({(row[0], row[1]): row for row in rows} for rows in (then, now))
    sides = [*before, *(side for side in after if side not in before)]
    pairs = [
        (f"{side_name((side[0], Side(side[1])))} {_rates(before.get(side))}", _rates(after.get(side)))
        for side in sides
        if before.get(side) != after.get(side)
    ]
    return pairs or [("the same rates", "the same in another order")]


def _rates(row: Sequence[Any] | None) -> str:
    if row is None:
        return "stays"
    return f"{rate_text(row[2])} → {rate_text(row[3])} ({row[3]} bytes/s)"
