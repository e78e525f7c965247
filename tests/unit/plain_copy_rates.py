"""The forecast of a move written hour by hour and side by side, without arrays: slow, and plain enough to compare with."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from streaming.shared.contract import STEP_S, BrokerProfile, LoadForecast, Side
from tuner.core.cluster import BrokerSide
from tuner.core.forecast import forecast_error
from tuner.core.side_load import PlannedPartition
from tuner.planning.copy_forecast import BindingLimit, CopyLimits, CopyPeriod, LimitPeriod, LoadCase
from tuner.planning.start_time import MOVE_S_MAX

_MIN_RATE_OVER_STEADY_STATE = 1.2
_STEP_MS = STEP_S * 1000


def plain_copy_periods(
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
    loads = {broker: PlainBrokerLoad(profile, now_ms, case) for broker, profile in profiles.items()}
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


class PlainBrokerLoad:
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
        present = plain_forecast_at(writes, self._profile.start_ms, self._now_ms)
        then = self._value(writes, at_ms)
        if present is None or then is None or written_bytes_per_s <= 0.0:
            return 1.0
        factor = then / present if present > 0.0 else math.inf
        return min(factor, max(1.0, then / written_bytes_per_s))

    def _value(self, forecast: LoadForecast, at_ms: int) -> float | None:
        if self._case is LoadCase.PRESENT:
            at_ms = self._now_ms
        value = plain_forecast_at(forecast, self._profile.start_ms, at_ms)
        if value is None or self._case in (LoadCase.EXPECTED, LoadCase.PRESENT):
            return value
        error = forecast_error(forecast, (at_ms - self._now_ms) / 1000) or 0.0
        return value + error if self._case is LoadCase.HIGH else max(0.0, value - error)


def _period(
    side: BrokerSide,
    span_ms: tuple[int, int],
    steady_state: float,
    load: PlainBrokerLoad | None,
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


def drained_at_ms(remaining_bytes: float, periods: Sequence[CopyPeriod], start_ms: int) -> int | None:
    """Returns when nothing remains (epoch ms) if copying begins at ``start_ms``; None: not within ``MOVE_S_MAX``."""
    if remaining_bytes <= 0:
        return start_ms
    for period in periods:
        from_ms = max(period.from_ms, start_ms)
        until_ms = min(period.until_ms, start_ms + MOVE_S_MAX * 1000)
        if until_ms <= from_ms:
            continue
        passes_bytes = period.surplus_bytes_per_s * (until_ms - from_ms) / 1000
        if remaining_bytes <= passes_bytes:
            return from_ms + round(1000 * remaining_bytes / period.surplus_bytes_per_s)
        remaining_bytes -= passes_bytes
    return None


def plain_forecast_at(forecast: LoadForecast, start_ms: int, at_ms: int) -> float | None:
    """Returns the forecast (bytes/s) for a time; None if the forecast has no value at all.

    An unknown hour gets the value of the hour before it, or else of the next known one. After the last step, the hours of the last
    day repeat.

    Args:
        start_ms: start of the first step (epoch).
    """
    values = forecast.bytes_per_s
    if not values:
        return None
    step = max(0, (at_ms - start_ms) // (STEP_S * 1000))
    if step >= len(values):
        days = -(-(step - len(values) + 1) // 24)
        step = max(step - days * 24, 0) if len(values) >= 24 else len(values) - 1
    before = (value for value in reversed(values[: step + 1]) if value is not None)
    after = (value for value in values[step + 1 :] if value is not None)
    return next(before, next(after, None))
