"""`rheostat quotas plan`: how long a creation takes under a quota, and how long everybody else waits for the controller.

What the controller's work costs is a figure that no two clusters share. Two are known: the one that KIP-599 tells of a
controller with ZooKeeper, and one that was measured on a small machine with KRaft; whoever knows better says so.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from rheostat.console.output import out
from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL, BadInputError
from rheostat.quotas.numbers import amount_text
from streaming.shared.units import share_text, span_text
from tuner.core.token_bucket import MutationQuota
from tuner.planning.quota_time import (
    KRAFT,
    ZOOKEEPER,
    ControllerCost,
    Creation,
    QuotaTimeline,
    rate_per_s_max,
    simulate_creation,
    steady_busy_ratio,
)

TOPICS_MAX = 200_000  # Beyond it every answer is one of this size, times so many.
CONTROLLERS = {"kraft": KRAFT, "zookeeper": ZOOKEEPER}
_SOURCE = {
    "kraft": "as measured on Kafka 4.2 on a small machine",
    "zookeeper": "as KIP-599 tells of 9 brokers and three replicas",
}


@dataclass(frozen=True, slots=True)
class QuotaQuestion:
    """The question; None: not asked."""

    creation: Creation
    quota: MutationQuota
    controller: str = "kraft"
    per_topic_ms: float | None = None
    per_partition_ms: float | None = None
    wait_s_max: float | None = None

    def check(self) -> None:
        """
        Raises:
            BadInputError: naming the option.
        """
        if self.controller not in CONTROLLERS:
            raise BadInputError(f"--controller: expected one of {', '.join(CONTROLLERS)}, found {self.controller!r}")
        if self.creation.topics > TOPICS_MAX:
            raise BadInputError(
                f"--topics: expected at most {TOPICS_MAX}, found {self.creation.topics}; time grows evenly from there"
            )

    @property
    def cost(self) -> ControllerCost:
        known = CONTROLLERS[self.controller]
        topic = known.per_topic_ms if self.per_topic_ms is None else self.per_topic_ms
        partition = known.per_partition_ms if self.per_partition_ms is None else self.per_partition_ms
        return ControllerCost(per_topic_ms=topic, per_partition_ms=partition)

    @property
    def cost_is_given(self) -> bool:
        return self.per_topic_ms is not None or self.per_partition_ms is not None


@dataclass(frozen=True, slots=True)
class QuotaEstimate:
    asked: QuotaQuestion
    under_quota: QuotaTimeline
    without: QuotaTimeline
    steady_busy_ratio: float
    rate_per_s_max: float | None  # Under which nobody waits for longer than was asked; None: none, or not asked.

    @property
    def exit_code(self) -> int:
        """Not well when others wait for longer than was asked."""
        wait_s_max = self.asked.wait_s_max
        return EXIT_NOT_WELL if wait_s_max is not None and self.under_quota.wait_s_max > wait_s_max else EXIT_DONE


def answer(asked: QuotaQuestion) -> QuotaEstimate:
    """
    Raises:
        BadInputError: naming the option.
    """
    asked.check()
    creation, quota, cost = asked.creation, asked.quota, asked.cost
    largest = None
    if asked.wait_s_max is not None:
        largest = rate_per_s_max(creation, cost, asked.wait_s_max, quota.samples, quota.window_s)
    busy = min(1.0, steady_busy_ratio(creation, quota, cost))
    return QuotaEstimate(
        asked, simulate_creation(creation, quota, cost), simulate_creation(creation, None, cost), busy, largest
    )


def run_plan(asked: QuotaQuestion, *, as_json: bool) -> int:
    """Answers, and returns the exit code."""
    made = answer(asked)
    if as_json:
        out(json.dumps(as_record(made), indent=2))
    else:
        out(*lines(made))
    return made.exit_code


def as_record(made: QuotaEstimate) -> dict[str, Any]:
    """One JSON object; units are the last words of its keys."""
    asked = made.asked
    return {
        "creation": {**asdict(asked.creation), "partitions": asked.creation.partitions},
        "quota": {**asdict(asked.quota), "burst_partitions": asked.quota.burst},
        "controller": asked.controller,
        "cost": asdict(asked.cost),
        "under_quota": {**asdict(made.under_quota), "steady_busy_ratio": made.steady_busy_ratio},
        "without_quota": asdict(made.without),
        "wait_s_max_asked": asked.wait_s_max,
        "rate_per_s_max": made.rate_per_s_max,
    }


def lines(made: QuotaEstimate) -> list[str]:
    asked, under, without = made.asked, made.under_quota, made.without
    creation, quota = asked.creation, asked.quota
    topics = f"{creation.topics} topics × {creation.partitions_per_topic} partitions"
    said = [
        f"Under {amount_text(quota.rate_per_s)}/s, {topics} take {span_text(under.done_s)}: the first "
        f"{_topics(under.at_once)} at once (a burst of {amount_text(quota.burst)} partitions), the rest as the bucket fills; "
        f"the client is kept waiting for {span_text(under.throttled_s)} of it.",
        f"Meanwhile anything else waits for the controller for {_wait(under.wait_s_max)} at most, and it is "
        f"{share_text(made.steady_busy_ratio)} busy with it.",
        f"Without a quota: {span_text(without.done_s)}, and anything else waits for {_wait(without.wait_s_max)} at most.",
    ]
    if asked.wait_s_max is not None:
        said.append(_largest(made, asked.wait_s_max))
    source = "as given" if asked.cost_is_given else _SOURCE[asked.controller]
    cost = asked.cost
    said.append(
        f"Reckoned with {amount_text(cost.per_topic_ms)} ms of the controller's time a topic and "
        f"{amount_text(cost.per_partition_ms)} ms a partition, {source}. Nothing was changed."
    )
    return said


def _largest(made: QuotaEstimate, wait_s_max: float) -> str:
    if made.rate_per_s_max is None:
        return f"No quota keeps others from waiting for {_wait(wait_s_max)}: one topic alone is more work than that."
    if made.rate_per_s_max >= made.asked.creation.partitions:
        return f"Under no quota does anything else wait for more than {_wait(wait_s_max)}."
    # Down, so that what is read is itself a quota that does it.
    whole = int(made.rate_per_s_max * 1000) / 1000
    return f"So that nothing else waits for more than {_wait(wait_s_max)}, the quota may be {amount_text(whole)}/s at most."


def _topics(count: int) -> str:
    return f"{count} topic{'' if count == 1 else 's'}"


def _wait(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else span_text(seconds)
