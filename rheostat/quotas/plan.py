"""Runs `rheostat quotas plan`: estimates how long a creation takes under a quota, and how long other requests wait.

The controller time per topic and partition differs between clusters. Two pairs of times are built in: the times that KIP-599 gives
for a controller with ZooKeeper, and times that were measured with KRaft on a small machine. Options override both.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from rheostat.console.output import out
from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL, BadInputError
from rheostat.quotas.numbers import amount_text
from streaming.shared.units import share_text, span_text
from tuner.core.controller_cost import KRAFT, ZOOKEEPER, ControllerCost
from tuner.core.token_bucket import MutationQuota
from tuner.planning.quota_time import (
    Creation,
    QuotaTimeline,
    rate_per_s_max,
    simulate_creation,
    steady_busy_ratio,
)

TOPICS_MAX = 200_000  # Bounds the time of the simulation; for more topics the estimates grow in proportion.
CONTROLLERS = {"kraft": KRAFT, "zookeeper": ZOOKEEPER}
_SOURCE = {
    "kraft": "as measured on Kafka 4.2 on a small machine",
    "zookeeper": "as in KIP-599 for 9 brokers and three replicas",
}


@dataclass(frozen=True, slots=True)
class QuotaPlanOptions:
    """The options of the command. An option that is absent is None.

    Attributes:
        wait_s_max: longest acceptable wait of other requests.
    """

    creation: Creation
    quota: MutationQuota
    controller: str = "kraft"
    per_topic_ms: float | None = None
    per_partition_ms: float | None = None
    wait_s_max: float | None = None

    def check(self) -> None:
        """Checks the options.

        Raises:
            BadInputError: an option has a bad value; the message names it.
        """
        if self.controller not in CONTROLLERS:
            raise BadInputError(f"--controller: expected one of {', '.join(CONTROLLERS)}, found {self.controller!r}")
        if self.creation.topics > TOPICS_MAX:
            raise BadInputError(
                f"--topics: expected at most {TOPICS_MAX}, found {self.creation.topics}. The time grows in proportion to the "
                "topics."
            )

    @property
    def cost(self) -> ControllerCost:
        built_in = CONTROLLERS[self.controller]
        topic = built_in.per_topic_ms if self.per_topic_ms is None else self.per_topic_ms
        partition = built_in.per_partition_ms if self.per_partition_ms is None else self.per_partition_ms
        return ControllerCost(per_topic_ms=topic, per_partition_ms=partition)

    @property
    def cost_is_given(self) -> bool:
        return self.per_topic_ms is not None or self.per_partition_ms is not None


@dataclass(frozen=True, slots=True)
class QuotaEstimate:
    """The estimate for one creation of topics.

    Attributes:
        without_quota: the same creation without a quota.
        steady_busy_ratio: share of the time for which the controller is busy with the creation after the burst.
        rate_per_s_max: highest quota at which no request waits longer than the option ``wait_s_max``; None if no quota achieves
            that, or if the option is absent.
    """

    options: QuotaPlanOptions
    under_quota: QuotaTimeline
    without_quota: QuotaTimeline
    steady_busy_ratio: float
    rate_per_s_max: float | None

    @property
    def exit_code(self) -> int:
        """Returns exit code 1 if other requests wait longer than ``wait_s_max``."""
        wait_s_max = self.options.wait_s_max
        return EXIT_NOT_WELL if wait_s_max is not None and self.under_quota.wait_s_max > wait_s_max else EXIT_DONE


def estimate_creation(options: QuotaPlanOptions) -> QuotaEstimate:
    """Returns the times of the creation with and without the quota.

    Raises:
        BadInputError: an option has a bad value; the message names it.
    """
    options.check()
    creation, quota, cost = options.creation, options.quota, options.cost
    max_rate = None
    if options.wait_s_max is not None:
        max_rate = rate_per_s_max(creation, cost, options.wait_s_max, quota.samples, quota.window_s)
    return QuotaEstimate(
        options,
        under_quota=simulate_creation(creation, quota, cost),
        without_quota=simulate_creation(creation, None, cost),
        steady_busy_ratio=min(1.0, steady_busy_ratio(creation, quota, cost)),
        rate_per_s_max=max_rate,
    )


def run_plan(options: QuotaPlanOptions, *, as_json: bool) -> int:
    """Prints the estimate and returns the exit code."""
    estimate = estimate_creation(options)
    if as_json:
        out(json.dumps(as_record(estimate), indent=2))
    else:
        out(*lines(estimate))
    return estimate.exit_code


def as_record(estimate: QuotaEstimate) -> dict[str, Any]:
    """Returns the estimate as one JSON object; keys end with their unit."""
    options = estimate.options
    return {
        "creation": {**asdict(options.creation), "partitions": options.creation.partitions},
        "quota": {**asdict(options.quota), "burst_partitions": options.quota.burst},
        "controller": options.controller,
        "cost": asdict(options.cost),
        "under_quota": {**asdict(estimate.under_quota), "steady_busy_ratio": estimate.steady_busy_ratio},
        "without_quota": asdict(estimate.without_quota),
        "wait_s_max_asked": options.wait_s_max,
        "rate_per_s_max": estimate.rate_per_s_max,
    }


def lines(estimate: QuotaEstimate) -> list[str]:
    """Returns the estimate as sentences."""
    options, under, without = estimate.options, estimate.under_quota, estimate.without_quota
    creation, quota = options.creation, options.quota
    topics = f"{creation.topics} topics × {creation.partitions_per_topic} partitions"
    sentences = [
        f"Under {amount_text(quota.rate_per_s)}/s, {topics} take {span_text(under.done_s)}: the first "
        f"{_topics_text(under.at_once)} at once (a burst of {amount_text(quota.burst)} partitions), the rest as the bucket fills; "
        f"the client is throttled for {span_text(under.throttled_s)} of this time.",
        f"Meanwhile other requests wait for the controller for at most {_wait_text(under.wait_s_max)}, and the controller is "
        f"{share_text(estimate.steady_busy_ratio)} busy with the creation.",
        f"Without a quota: {span_text(without.done_s)}, and other requests wait for at most {_wait_text(without.wait_s_max)}.",
    ]
    if options.wait_s_max is not None:
        sentences.append(_max_rate_text(estimate, options.wait_s_max))
    source = "as set by the options" if options.cost_is_given else _SOURCE[options.controller]
    cost = options.cost
    sentences.append(
        f"Assumed controller time: {amount_text(cost.per_topic_ms)} ms per topic and {amount_text(cost.per_partition_ms)} ms per "
        f"partition, {source}. The brokers create the log directories afterwards, which takes additional time. Nothing was changed."
    )
    return sentences


def _max_rate_text(estimate: QuotaEstimate, wait_s_max: float) -> str:
    if estimate.rate_per_s_max is None:
        return f"No quota limits the wait of other requests to {_wait_text(wait_s_max)}: one topic alone takes longer."
    if estimate.rate_per_s_max >= estimate.options.creation.partitions:
        return f"No quota is needed: other requests wait for at most {_wait_text(wait_s_max)} in any case."
    # Rounded down, because a quota that is rounded up would let other requests wait longer.
    rate = int(estimate.rate_per_s_max * 1000) / 1000
    return (
        f"The highest quota at which other requests wait for at most {_wait_text(wait_s_max)} is {amount_text(rate)}/s."
    )


def _topics_text(count: int) -> str:
    return f"{count} topic{'' if count == 1 else 's'}"


def _wait_text(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else span_text(seconds)
