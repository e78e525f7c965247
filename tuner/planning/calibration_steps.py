"""Plans the steps of a calibration: at which rates topics are created, extended and deleted to find what the controller sustains.

Terms:
    kind    create topics, add partitions to existing topics, or delete topics.
    size    partitions of each topic, and partitions that are added to each topic.
    round   creates topics, adds partitions to them, and deletes them.
    phase   the part of a round with one kind, at one rate.
    step    a phase that is measured.
    failed  the objective was exceeded or not measured in the step, or the requests did not keep up with the rate.
    kept    the step did not fail.

KIP-599 ("How to define the quota?") advises to measure creations, additions of partitions and deletions in isolation, at several
rates and sizes. From step to step the rate of a kind doubles until a step fails. Each further step runs at the geometric mean of
the highest rate that was kept and the lowest rate that failed.

Other load of the machine may disturb a step. So the last two steps repeat these two rates, and only the last step at each rate
counts. If the rate that failed is kept in its repetition, the search continues above it.

A round may need a phase of a kind whose rate is known already: topics must be created before they can be deleted. This phase runs
at a rate that was kept, and is not measured.

Invariant: a round never has more partitions in existence than ``partitions_max``. A phase that is not measured runs at a rate that
was kept, or at most at the rate of the first step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

# A step that achieves less than this share of its rate shows what the brokers forward, not what the controller sustains.
ACHIEVED_RATIO_MIN = 0.85
_CLOSE_RATIO = 1.25  # No step runs between two rates whose ratio is at most this.
_STEPS_MAX = 14  # Limit for one kind and size; noise could otherwise prolong the search.
_RATE_PER_S_MIN = 1.0
_GROWTH = 2.0


class MutationKind(StrEnum):
    """The three requests that a mutation quota counts."""

    CREATE = "create"
    ADD = "add"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class CalibrationBounds:
    """The bounds of a calibration.

    Attributes:
        partitions_max: the highest number of partitions that the calibration has at one time.
        sizes: the sizes to measure, one after the other.
        step_s: the planned duration of a measured step.
        start_per_s: the rate of the first step, in partitions/s, for topics of one partition.
    """

    partitions_max: int
    sizes: tuple[int, ...] = (1, 10)
    step_s: float = 5.0
    start_per_s: float = 5.0

    def first_rate_per_s(self, size: int) -> float:
        """Returns the rate of the first step. It grows with the size, since a topic costs more than a partition."""
        return min(max(self.start_per_s, size * self.start_per_s / 2), self.rate_per_s_max)

    @property
    def rate_per_s_max(self) -> float:
        """The highest rate that fits ``partitions_max``: in a round the topics grow to twice their first number of partitions."""
        return self.partitions_max / (2 * self.step_s)


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of one measured step.

    Attributes:
        rate_per_s: the intended rate, in partitions/s.
        achieved_per_s: the partitions that Kafka created, added or deleted, per second.
        pressure: the worst measure relative to its objective; None: not measured.
        text: the worst measure, as text.
        was_stopped: the step ended early because the objective was exceeded.
    """

    kind: MutationKind
    size: int
    rate_per_s: float
    achieved_per_s: float
    duration_s: float
    pressure: float | None
    text: str = ""
    was_stopped: bool = False

    @property
    def exceeds_objective(self) -> bool:
        return self.was_stopped or (self.pressure is not None and self.pressure > 1)

    @property
    def is_unmeasured(self) -> bool:
        """Whether the pressure was not measured, so the step counts as failed."""
        return self.pressure is None and not self.was_stopped

    @property
    def failed(self) -> bool:
        return (
            self.exceeds_objective or self.is_unmeasured or self.achieved_per_s < ACHIEVED_RATIO_MIN * self.rate_per_s
        )


@dataclass(frozen=True, slots=True)
class CalibrationRound:
    """The next round.

    Attributes:
        rates_per_s: the rate of each phase, in partitions/s; the round does not run the other kinds.
        measured: the kinds that this round measures.
    """

    size: int
    topics: int
    rates_per_s: Mapping[MutationKind, float]
    measured: frozenset[MutationKind] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class RateBracket:
    """The two rates between which the sustained rate of one kind and size lies, with the steps at these rates.

    Attributes:
        kept: the steps at the highest rate that was kept; empty: no rate was kept.
        failed: the steps at the lowest rate that failed; empty: no rate failed.
    """

    kept: tuple[StepResult, ...]
    failed: tuple[StepResult, ...]

    @property
    def low_per_s(self) -> float | None:
        return self.kept[0].rate_per_s if self.kept else None

    @property
    def high_per_s(self) -> float | None:
        return self.failed[0].rate_per_s if self.failed else None


def bracket_of(steps: Iterable[StepResult], kind: MutationKind, size: int) -> RateBracket:
    """Returns the bracket of the steps of this kind and size."""
    own = [step for step in steps if (step.kind, step.size) == (kind, size)]
    last = {step.rate_per_s: step for step in own}
    high = min((rate for rate, step in last.items() if step.failed), default=math.inf)
    low = max((rate for rate, step in last.items() if not step.failed and rate < high), default=None)
    return RateBracket(
        kept=tuple(step for step in own if step.rate_per_s == low and not step.failed),
        failed=tuple(step for step in own if step.rate_per_s == high and step.failed),
    )


def next_rate_per_s(
    steps: Sequence[StepResult], kind: MutationKind, size: int, bounds: CalibrationBounds
) -> float | None:
    """Returns the rate of the kind's next step; None if its rate is known well enough."""
    bracket = bracket_of(steps, kind, size)
    low, high = bracket.low_per_s, bracket.high_per_s
    if sum((step.kind, step.size) == (kind, size) for step in steps) >= _STEPS_MAX:
        return None
    if low is None and high is None:
        return bounds.first_rate_per_s(size)
    if low is None:
        assert high is not None
        lower = high / _GROWTH
        return lower if lower >= _RATE_PER_S_MIN else _rate_to_repeat(bracket.failed)
    if high is None:
        return min(_GROWTH * low, bounds.rate_per_s_max) if low < bounds.rate_per_s_max else None
    if high / low > _CLOSE_RATIO:
        return math.sqrt(low * high)
    return _rate_to_repeat(bracket.kept) or _rate_to_repeat(bracket.failed)


def _rate_to_repeat(steps: Sequence[StepResult]) -> float | None:
    """Returns the rate of ``steps``, which all have the same rate, if one more step should run at it; None: two steps did."""
    return steps[0].rate_per_s if len(steps) < 2 else None


def plan_round(steps: Sequence[StepResult], bounds: CalibrationBounds) -> CalibrationRound | None:
    """Returns the next round; None if all rates are known well enough."""
    for size in bounds.sizes:
        next_rates = {kind: next_rate_per_s(steps, kind, size, bounds) for kind in MutationKind}
        measured = {kind: rate for kind, rate in next_rates.items() if rate is not None}
        if measured:
            return _round(steps, measured, size, bounds)
    return None


def _round(
    steps: Sequence[StepResult], measured: Mapping[MutationKind, float], size: int, bounds: CalibrationBounds
) -> CalibrationRound:
    adds = MutationKind.ADD in measured
    # A topic that got additional partitions is twice as large when it is deleted.
    deleted = 2 * size if adds else size
    by_topic = {MutationKind.CREATE: size, MutationKind.ADD: size, MutationKind.DELETE: deleted}
    needed = max(math.ceil(rate * bounds.step_s / by_topic[kind]) for kind, rate in measured.items())
    topics = max(1, min(needed, bounds.partitions_max // deleted))
    rates = {
        kind: measured[kind] if kind in measured else safe_rate_per_s(steps, kind, size, bounds)
        for kind in MutationKind
        if kind is not MutationKind.ADD or adds
    }
    return CalibrationRound(size, topics, rates, frozenset(measured))


def safe_rate_per_s(steps: Iterable[StepResult], kind: MutationKind, size: int, bounds: CalibrationBounds) -> float:
    """Returns a rate for a phase that is not measured: the highest rate that was kept, else at most the first step's rate."""
    bracket = bracket_of(steps, kind, size)
    if bracket.low_per_s is not None:
        return bracket.low_per_s
    first = bounds.first_rate_per_s(size)
    return first if bracket.high_per_s is None else max(_RATE_PER_S_MIN, min(first, bracket.high_per_s) / _GROWTH)
