"""Describes the changes that an order will make; the operator sees them before the order is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streaming.shared.contract import Side
from streaming.shared.short_lists import shorten_lines
from streaming.shared.units import rate_text
from tuner.control.mutation_quota.state import MutationMemory
from tuner.control.throttle.state import Memory
from tuner.core.cluster import BrokerSide, side_name

_LINES_MAX = 20


def raised_rates(current: Mapping[BrokerSide, int | None], ordered: Mapping[BrokerSide, int]) -> list[str]:
    """Returns a line for each throttle that an override raises; empty if it raises none.

    Args:
        current: the current throttle of each side (bytes/s); None if the side has no throttle. Any rate is then a reduction.
        ordered: the rates of the override (bytes/s).
    """
    return [
        f"{side_name(side)}: {rate_text(before)} → {rate_text(rate)}"
        for side, rate in sorted(ordered.items())
        if (before := current[side]) is not None and rate > before
    ]


def release_summary(
    cluster: str, memory: Memory, quotas: MutationMemory, blocked: str | None, cordoned: Sequence[int] = ()
) -> list[str]:
    """Returns a line for each change that a release of this cluster makes, between an introduction and a closing line.

    Args:
        memory: the tuner's state: the throttles and the lists of throttled replicas that the tuner manages.
        quotas: the tuner's state for mutation quotas.
        blocked: why the journal's state is incomplete; None if it is complete.
        cordoned: the brokers that rheostat has cordoned.
    """
    changes = [*_restored_settings(memory, quotas), *(f"broker {broker}: its cordon is lifted" for broker in cordoned)]
    head = f"This restores every setting that rheostat has changed on cluster {cluster}, even while partitions move:"
    if blocked is not None:
        head = (
            f"This restores every setting that rheostat has changed on cluster {cluster}. Not all are known: {blocked}."
        )
        if changes:
            changes = ["Known changes:", *changes]
    elif not changes:
        head = f"According to the journal, rheostat has changed no settings on cluster {cluster}."
    return [head, *changes, "Until `rheostat resume`, no setting is changed and no plan starts a step."]


def _restored_settings(memory: Memory, quotas: MutationMemory) -> list[str]:
    """Returns a line for each managed rate, list of throttled replicas and quota, with the value after the release."""
    rate_lines = [
        f"{side_name(side)}: {rate_text(owned.setpoint_bytes_per_s)} → {_rate_before(owned.before_bytes_per_s)}"
        for side, owned in sorted(memory.owned.items())
    ]
    list_lines = [
        f"topic {topic}: {sum(len(throttle.for_side(side).pairs) for side in Side)} entries leave its throttled-replicas lists"
        for topic, throttle in sorted(memory.listed.items())
    ]
    quota_lines = [
        f"{entity}: {owned.setpoint_per_s:g}/s → {_quota_before(owned.before_per_s)}"
        for entity, owned in quotas.owned.items()
    ]
    return [
        *shorten_lines(rate_lines, _LINES_MAX, "throttles"),
        *shorten_lines(list_lines, _LINES_MAX, "topics"),
        *shorten_lines(quota_lines, _LINES_MAX, "quotas"),
    ]


def _rate_before(bytes_per_s: int | None) -> str:
    return "no throttle" if bytes_per_s is None else rate_text(bytes_per_s)


def _quota_before(per_s: float | None) -> str:
    return "no quota" if per_s is None else f"{per_s:g}/s"
