"""The changes that an order will make, in words: shown to the operator before the order is given."""

from __future__ import annotations

from collections.abc import Mapping

from streaming.shared.contract import Side
from streaming.shared.short_lists import shorten_lines
from streaming.shared.units import rate_text
from tuner.control.mutation_quota.state import MutationMemory
from tuner.control.throttle.state import Memory
from tuner.core.cluster import BrokerSide, side_name

_LINES_MAX = 20


def raised_rates(current: Mapping[BrokerSide, int | None], wanted: Mapping[BrokerSide, int]) -> list[str]:
    """The throttles that an override raises; empty where it raises none.

    Args:
        current: bytes/s that hold on the broker now; None: no throttle, so any rate lowers it.
        wanted: bytes/s of the override.
    """
    return [
        f"{side_name(side)}: {rate_text(now)} → {rate_text(rate)}"
        for side, rate in sorted(wanted.items())
        if (now := current[side]) is not None and rate > now
    ]


def release_summary(cluster: str, memory: Memory, quotas: MutationMemory, blocked: str | None) -> list[str]:
    """Returns what a release of this cluster does, one line for each change.

    Args:
        blocked: why the journal does not tell all that rheostat has set; None: it does.
    """
    changes = _taken_back(memory, quotas)
    head = f"This takes back what rheostat has set on cluster {cluster}, also while partitions move:"
    if blocked is not None:
        head = f"This takes back what rheostat has set on cluster {cluster}. Not all of it is known: {blocked}."
        if changes:
            changes = ["Known are:", *changes]
    elif not changes:
        head = f"The journal has nothing that rheostat has set on cluster {cluster}."
    return [head, *changes, "Then nothing is changed, and no plan begins a step, until `rheostat resume`."]


def _taken_back(memory: Memory, quotas: MutationMemory) -> list[str]:
    """Rates, entries of throttled-replica lists, and quotas that rheostat has set; empty where there is none of them."""
    rates = [
        f"{side_name(side)}: {rate_text(owned.setpoint_bytes_per_s)} → {_rate_before(owned.before_bytes_per_s)}"
        for side, owned in sorted(memory.owned.items())
    ]
    lists = [
        f"topic {topic}: {sum(len(throttle.for_side(side).pairs) for side in Side)} entries leave its throttled-replica lists"
        for topic, throttle in sorted(memory.listed.items())
    ]
    limits = [
        f"{entity}: {owned.setpoint_per_s:g}/s → {'no quota' if owned.before_per_s is None else f'{owned.before_per_s:g}/s'}"
        for entity, owned in quotas.owned.items()
    ]
    return [
        *shorten_lines(rates, _LINES_MAX, "throttles"),
        *shorten_lines(lists, _LINES_MAX, "topics"),
        *shorten_lines(limits, _LINES_MAX, "quotas"),
    ]


def _rate_before(bytes_per_s: int | None) -> str:
    return "no throttle" if bytes_per_s is None else rate_text(bytes_per_s)
