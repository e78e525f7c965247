"""Defines the inputs of a forecast of a move (limits and capacities), and the periods that the forecast has (copy_rates.py).

Symbols: q is the throttle of a side. W is its steady-state replication, the part of q that the replication of new writes uses.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from streaming.shared.contract import BrokerProfile, Side
from tuner.core.cluster import BrokerSide
from tuner.core.link_limit import LinkSource

# Share of a capacity from the settings or the link speed that clients and replication may use together. The control law starts with
# the same share.
TOLD_CAPACITY_RATIO = 0.85


# Returns the speed of a broker's link (bytes/s) in each direction, from the metrics of its machine; None: it is not known.
LinkSpeed = Callable[[int], float | None]


class BindingLimit(StrEnum):
    """The limit that determines the throttle in a period."""

    CEILING = "ceiling"
    CLIENTS = "clients"  # The part of the capacity that clients and other replication leave.
    MINIMUM = "minimum"  # Clients leave less than the lowest rate.


class LoadCase(StrEnum):
    """The load that a forecast assumes."""

    EXPECTED = "expected"
    LOW = "low"  # In each hour the load is lower than the forecast by the forecast's mean error.
    HIGH = "high"  # In each hour the load is higher than the forecast by the forecast's mean error.
    PRESENT = "present"  # The current load stays constant.


@dataclass(frozen=True, slots=True)
class LimitPeriod:
    """Limits that hold from a time (epoch) until the next period begins.

    Attributes:
        ceiling_bytes_per_s: the ceiling (``tuner.rate_bytes_per_s_max`` or a rule's value), or the lower throttle of the plan.
        headroom_ratio: share of the headroom, which clients leave, that moves may use (mode gentle of a schedule).
        share_max: highest share of the capacity that moves may use (mode share of a schedule).
    """

    from_ms: int
    ceiling_bytes_per_s: float
    headroom_ratio: float = 1.0
    share_max: float | None = None


@dataclass(frozen=True, slots=True)
class KnownCapacity:
    """The highest traffic of one direction of a broker. A learned capacity was observed, so the true capacity may be higher."""

    bytes_per_s: float
    source: LinkSource = LinkSource.SETTINGS

    @property
    def allowed_bytes_per_s(self) -> float:
        return self.bytes_per_s if self.source is LinkSource.LEARNED else TOLD_CAPACITY_RATIO * self.bytes_per_s


@dataclass(frozen=True, slots=True)
class CopyLimits:
    """The limits of a throttle.

    Attributes:
        periods: at least one, in order; the first also applies before its start.
        rate_bytes_per_s_min: the lowest rate that the tuner sets.
        capacities: by side; a side that is missing has no known capacity.
        leader_ratio: share of the ceiling that leaders get.
        cut_ms: end of the last period (epoch), if later periods are left out; None: no period is left out.
    """

    periods: Sequence[LimitPeriod]
    rate_bytes_per_s_min: float = 0.0
    capacities: Mapping[BrokerSide, KnownCapacity] = field(default_factory=dict)
    leader_ratio: float = 1.0
    cut_ms: int | None = None

    def at(self, at_ms: int) -> LimitPeriod:
        """Returns the period of a time (epoch)."""
        begun = bisect_right(self.periods, at_ms, key=lambda period: period.from_ms)
        return self.periods[max(0, begun - 1)]


@dataclass(frozen=True, slots=True)
class CopyPeriod:
    """One side in one period, in which nothing changes.

    Attributes:
        rate_bytes_per_s: the throttle, q.
        steady_state_bytes_per_s: W.
        client_bytes_per_s: clients in this direction; None: not known.
    """

    from_ms: int
    until_ms: int
    rate_bytes_per_s: float
    steady_state_bytes_per_s: float
    client_bytes_per_s: float | None
    limit: BindingLimit

    @property
    def surplus_bytes_per_s(self) -> float:
        """The rate at which the bytes that remain to be copied fall: q − W; below 0 if the ceiling is below W."""
        return self.rate_bytes_per_s - self.steady_state_bytes_per_s


def known_capacities(
    sides: Iterable[BrokerSide],
    configured: Mapping[BrokerSide, float],
    profiles: Mapping[int, BrokerProfile],
    link_speed: LinkSpeed,
) -> dict[BrokerSide, KnownCapacity]:
    """Returns the capacity of each side: from the settings, else from the profile, else the link speed.

    Args:
        configured: bytes/s by side, from the settings.
        profiles: usable profiles by broker.
    """
    capacities: dict[BrokerSide, KnownCapacity] = {}
    for side in sides:
        if side in configured:
            capacities[side] = KnownCapacity(configured[side])
        elif (capacity := _measured_capacity(side, profiles.get(side[0]), link_speed(side[0]))) is not None:
            capacities[side] = capacity
    return capacities


def _measured_capacity(
    side: BrokerSide, profile: BrokerProfile | None, link_bytes_per_s: float | None
) -> KnownCapacity | None:
    learned = None
    if profile is not None:
        learned = profile.capacity_out if side[1] is Side.LEADER else profile.capacity_in
    if learned is not None and learned.bytes_per_s > 0:
        return KnownCapacity(learned.bytes_per_s, LinkSource.LEARNED)
    return None if link_bytes_per_s is None else KnownCapacity(link_bytes_per_s, LinkSource.LINK)
