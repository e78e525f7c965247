"""Forecasts, hour by hour, how fast each side of a plan can copy: the throttle q that the limits leave, minus W.

    q(t) = ceiling(t), or what the allowed share of the capacity leaves beside clients and other replication, if that is less
    W(t) = steady-state replication of the plan's partitions, which follows the load of the clients that write to them

The rules are those of the control law: its lowest rate applies even if clients leave nothing, and no rate is above the ceiling.
So a wrong profile can make a forecast as fast as the ceiling allows, and no faster.

Without a capacity only the ceiling limits. Without a profile the load of this moment stays.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from streaming.shared.contract import STEP_S, BrokerProfile, LoadForecast, Side
from tuner.core.cluster import BrokerSide
from tuner.core.forecast import forecast_at, forecast_error
from tuner.core.side_load import PlannedPartition

# Share of a capacity in the settings that clients and replication may use together. The control law begins with it, too.
TOLD_CAPACITY_RATIO = 0.85
# The control law keeps this factor on W, so that a move ends although clients leave nothing.
_MIN_RATE_OVER_STEADY_STATE = 1.2
_STEP_MS = STEP_S * 1000


class BindingLimit(StrEnum):
    """What determines the throttle in a period."""

    CEILING = "ceiling"
    CLIENTS = "clients"  # What clients and other replication leave of the capacity.
    MINIMUM = "minimum"  # Clients leave less than the lowest rate.


class LoadCase(StrEnum):
    """Which load a forecast assumes."""

    EXPECTED = "expected"
    LOW = "low"  # Every hour is lower than expected by the mean error of such forecasts.
    HIGH = "high"
    PRESENT = "present"  # The load of this moment stays.


@dataclass(frozen=True, slots=True)
class LimitPeriod:
    """Limits that hold from a time (epoch) until the next period begins.

    Attributes:
        ceiling_bytes_per_s: the ceiling, or the throttle of the plan if that is lower.
        headroom_ratio: share of what clients leave that moves may use (mode gentle).
        share_max: highest share of the capacity (mode share).
    """

    from_ms: int
    ceiling_bytes_per_s: float
    headroom_ratio: float = 1.0
    share_max: float | None = None


@dataclass(frozen=True, slots=True)
class KnownCapacity:
    """What one direction of a broker carries; ``is_learned``: it was seen there with latency in order, so it may carry more."""

    bytes_per_s: float
    is_learned: bool = False

    @property
    def allowed_bytes_per_s(self) -> float:
        return self.bytes_per_s if self.is_learned else TOLD_CAPACITY_RATIO * self.bytes_per_s


@dataclass(frozen=True, slots=True)
class CopyLimits:
    """The limits of a throttle.

    Attributes:
        periods: at least one, in order; the first also holds before its begin.
        rate_bytes_per_s_min: the lowest rate that the tuner sets.
        capacities: by side; a side that is missing has no known capacity.
        leader_ratio: share of the ceiling that leaders get.
        cut_ms: the last period ends then (epoch), but later ones are left out; None: no period is left out.
    """

    periods: Sequence[LimitPeriod]
    rate_bytes_per_s_min: float = 0.0
    capacities: Mapping[BrokerSide, KnownCapacity] = field(default_factory=dict)
    leader_ratio: float = 1.0
    cut_ms: int | None = None

    def at(self, at_ms: int) -> LimitPeriod:
        """Returns the period of a time (epoch)."""
        begun = [period for period in self.periods if period.from_ms <= at_ms]
        return begun[-1] if begun else self.periods[0]


@dataclass(frozen=True, slots=True)
class CopyPeriod:
    """One side in one period without a change.

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
        """The rate at which the remaining bytes fall; below 0 if the ceiling is below W."""
        return self.rate_bytes_per_s - self.steady_state_bytes_per_s


def known_capacities(
    sides: Iterable[BrokerSide],
    told: Mapping[BrokerSide, float],
    profiles: Mapping[int, BrokerProfile],
) -> dict[BrokerSide, KnownCapacity]:
    """Returns the capacity of each side: that of the settings, or else the learned one.

    Args:
        told: bytes/s by side, from the settings.
        profiles: usable profiles by broker.
    """
    capacities: dict[BrokerSide, KnownCapacity] = {}
    for side in sides:
        if side in told:
            capacities[side] = KnownCapacity(told[side])
        elif (profile := profiles.get(side[0])) is not None:
            learned = profile.capacity_out if side[1] is Side.LEADER else profile.capacity_in
            if learned is not None and learned.bytes_per_s > 0:
                capacities[side] = KnownCapacity(learned.bytes_per_s, is_learned=True)
    return capacities


def copy_periods(
    partitions: Sequence[PlannedPartition],
    profiles: Mapping[int, BrokerProfile],
    limits: CopyLimits,
    now_ms: int,
    until_ms: int,
    case: LoadCase = LoadCase.EXPECTED,
) -> dict[BrokerSide, tuple[CopyPeriod, ...]]:
    """Returns the periods of each side through which the plan copies, without gaps from ``now_ms`` to ``until_ms``.

    Args:
        profiles: usable profiles by broker; the load of other brokers stays.
    """
    times_ms = _boundaries(limits.periods, now_ms, until_ms)
    policies = [limits.at(at_ms) for at_ms in times_ms[:-1]]
    loads = {broker: _BrokerLoad(profile, now_ms, case) for broker, profile in profiles.items()}
    written = _written_bytes_per_s(partitions)
    # The factor on the write rates of now, by leader and period.
    factors = {
        leader: [loads[leader].write_factor(at_ms, total) for at_ms in times_ms[:-1]]
        for leader, total in written.items()
        if leader in loads
    }
    periods: dict[BrokerSide, tuple[CopyPeriod, ...]] = {}
    for side, by_leader in _steady_state_by_leader(partitions).items():
        load = loads.get(side[0])
        periods[side] = tuple(
            _period(
                side,
                (from_ms, end_ms),
                sum(rate * (factors[leader][i] if leader in factors else 1.0) for leader, rate in by_leader.items()),
                load,
                limits,
                policies[i],
            )
            for i, (from_ms, end_ms) in enumerate(pairwise(times_ms))
        )
    return periods


class _BrokerLoad:
    """The load of one broker over time, in one case."""

    def __init__(self, profile: BrokerProfile, now_ms: int, case: LoadCase) -> None:
        self._profile = profile
        self._now_ms = now_ms
        self._case = case

    def client_bytes_per_s(self, side: Side, at_ms: int) -> float | None:
        """Returns what clients send to the broker, or receive from it as a leader."""
        return self._value(self._profile.client_out if side is Side.LEADER else self._profile.client_in, at_ms)

    def replication_bytes_per_s(self, side: Side, at_ms: int) -> float:
        """Returns the replication of all partitions without reassignments; 0 if it is not known."""
        return self._value(self._profile.steady_out if side is Side.LEADER else self._profile.steady_in, at_ms) or 0.0

    def write_factor(self, at_ms: int, written_bytes_per_s: float) -> float:
        """Returns the factor on the present write rate of the plan's partitions that this broker leads.

        Args:
            written_bytes_per_s: the present write rate of these partitions together. They never get more than all clients of the
                broker write then, unless they get it already.
        """
        writes = self._profile.client_in
        present = forecast_at(writes, self._profile.start_ms, self._now_ms)
        then = self._value(writes, at_ms)
        if present is None or then is None or written_bytes_per_s <= 0.0:
            return 1.0
        factor = then / present if present > 0.0 else math.inf
        return min(factor, max(1.0, then / written_bytes_per_s))

    def _value(self, forecast: LoadForecast, at_ms: int) -> float | None:
        if self._case is LoadCase.PRESENT:
            at_ms = self._now_ms
        value = forecast_at(forecast, self._profile.start_ms, at_ms)
        if value is None or self._case in (LoadCase.EXPECTED, LoadCase.PRESENT):
            return value
        error = forecast_error(forecast, (at_ms - self._now_ms) / 1000) or 0.0
        return value + error if self._case is LoadCase.HIGH else max(0.0, value - error)


def _period(
    side: BrokerSide,
    span_ms: tuple[int, int],
    steady_state: float,
    load: _BrokerLoad | None,
    limits: CopyLimits,
    policy: LimitPeriod,
) -> CopyPeriod:
    from_ms, until_ms = span_ms
    ceiling = policy.ceiling_bytes_per_s
    if side[1] is Side.LEADER:
        ceiling *= limits.leader_ratio
    capacity = limits.capacities.get(side)
    if capacity is not None and policy.share_max is not None:
        ceiling = min(ceiling, policy.share_max * capacity.bytes_per_s)
    clients = None if load is None else load.client_bytes_per_s(side[1], from_ms)
    rate, limit = ceiling, BindingLimit.CEILING
    if load is not None and capacity is not None and clients is not None:
        # The steady-state replication of the plan's partitions is a part of all replication.
        used = clients + max(load.replication_bytes_per_s(side[1], from_ms), steady_state)
        left = steady_state + policy.headroom_ratio * max(0.0, capacity.allowed_bytes_per_s - used)
        lowest = min(ceiling, max(limits.rate_bytes_per_s_min, _MIN_RATE_OVER_STEADY_STATE * steady_state))
        if left < ceiling:
            rate, limit = max(left, lowest), BindingLimit.CLIENTS if left >= lowest else BindingLimit.MINIMUM
    return CopyPeriod(
        from_ms=from_ms,
        until_ms=until_ms,
        rate_bytes_per_s=rate,
        steady_state_bytes_per_s=steady_state,
        client_bytes_per_s=clients,
        limit=limit,
    )


def _boundaries(policies: Sequence[LimitPeriod], now_ms: int, until_ms: int) -> list[int]:
    """Returns the times at which a forecast or the limits may change, with ``now_ms`` first and ``until_ms`` last."""
    hours = range(now_ms - now_ms % _STEP_MS + _STEP_MS, until_ms, _STEP_MS)
    changes = (period.from_ms for period in policies if now_ms < period.from_ms < until_ms)
    return sorted({now_ms, *hours, *changes, until_ms})


def _written_bytes_per_s(partitions: Iterable[PlannedPartition]) -> dict[int, float]:
    """Returns the write rate of the plan's partitions together, by leader."""
    written: dict[int, float] = {}
    for partition in partitions:
        written[partition.leader] = written.get(partition.leader, 0.0) + partition.write_bytes_per_s
    return written


def _steady_state_by_leader(partitions: Sequence[PlannedPartition]) -> dict[BrokerSide, dict[int, float]]:
    """Returns W of each side that copies, divided by the leaders of the partitions. The sums are those of ``side_loads``."""
    by_side: dict[BrokerSide, dict[int, float]] = {}
    for side, leader, rate in _steady_state_parts(partitions):
        by_leader = by_side.setdefault(side, {})
        by_leader[leader] = by_leader.get(leader, 0.0) + rate
    copying = {side for partition in partitions for side in _copying_sides(partition)}
    return {side: by_leader for side, by_leader in by_side.items() if side in copying}


def _steady_state_parts(partitions: Iterable[PlannedPartition]) -> Iterator[tuple[BrokerSide, int, float]]:
    for partition in partitions:
        yield (partition.leader, Side.LEADER), partition.leader, partition.write_bytes_per_s * partition.followers
        for broker in partition.lacking_bytes:
            yield (broker, Side.FOLLOWER), partition.leader, partition.write_bytes_per_s


def _copying_sides(partition: PlannedPartition) -> Iterator[BrokerSide]:
    if partition.lacking_bytes:
        yield (partition.leader, Side.LEADER)
        yield from ((broker, Side.FOLLOWER) for broker in partition.lacking_bytes)
