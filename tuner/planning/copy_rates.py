"""Forecasts, hour by hour, how fast each side of a plan can copy: the throttle q that the limits leave, minus W.

    q(t) = the ceiling, or the allowed share of the capacity minus clients and other replication, whichever is less
    W(t) = steady-state replication of the plan's partitions, which follows the load of the clients that write to them

The same rules as in the control law apply: its lowest rate applies even if clients leave nothing, and no rate is above the ceiling.
So a wrong profile can make a forecast as fast as the ceiling allows, and no faster.

Without a capacity only the ceiling limits. Without a profile the present load stays.

A large cluster has hundreds of sides and periods, so all values are arrays: a row for each side, a column for each period.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streaming.shared.contract import HORIZONS_H, STEP_S, BrokerProfile, LoadForecast, Side
from tuner.core.cluster import BrokerSide
from tuner.core.forecast import filled_values, forecast_at, forecast_error, step_of
from tuner.core.side_load import PlannedPartition, side_loads
from tuner.planning.copy_forecast import BindingLimit, CopyLimits, CopyPeriod, LimitPeriod, LoadCase

Values = NDArray[np.float64]

# The control law gives a side at least this multiple of W, so that a move ends although clients leave nothing.
_MIN_RATE_OVER_STEADY_STATE = 1.2
_STEP_MS = STEP_S * 1000
_LIMITS = (BindingLimit.CEILING, BindingLimit.CLIENTS, BindingLimit.MINIMUM)
_CEILING, _CLIENTS, _MINIMUM = range(3)


@dataclass(frozen=True, slots=True)
class CopyRates:
    """The forecast of all sides in one case.

    Attributes:
        sides: the sides of the rows.
        times_ms: the start of each column (epoch), and the end of the last one.
        rates: the throttles q, bytes/s.
        steady_state: W, bytes/s.
        clients: traffic of clients in the direction of the side, bytes/s; NaN: not known.
        limits: the limit that determines the throttle, as an index of ``_LIMITS``.
    """

    sides: tuple[BrokerSide, ...]
    times_ms: NDArray[np.int64]
    rates: Values
    steady_state: Values
    clients: Values
    limits: NDArray[np.int8]

    def periods(self, side: BrokerSide) -> tuple[CopyPeriod, ...]:
        """Returns the periods of one side, without gaps."""
        row = self.sides.index(side)
        return tuple(self._period(row, column) for column in range(len(self.times_ms) - 1))

    def slowest_period(self, side: BrokerSide, start_ms: int, end_ms: int) -> CopyPeriod:
        """Returns the period between two times (epoch) in which the side copies slowest; a tie goes to the first."""
        row = self.sides.index(side)
        first, after = self._columns(start_ms, max(end_ms, start_ms + 1))
        surplus = self.rates[row, first:after] - self.steady_state[row, first:after]
        return self._period(row, first + int(np.argmin(surplus)))

    def ends_ms(self, remaining_bytes: Values, start_ms: int, until_ms: int) -> list[int | None]:
        """Returns for each side the time (epoch) at which nothing remains; None: something remains at ``until_ms``.

        Args:
            remaining_bytes: by row; copying begins at ``start_ms``.
        """
        first, after = self._columns(start_ms, until_ms)
        from_ms = np.maximum(self.times_ms[first:after], start_ms)
        spans_ms = np.minimum(self.times_ms[first + 1 : after + 1], until_ms) - from_ms
        surplus = self.rates[:, first:after] - self.steady_state[:, first:after]
        copied = np.cumsum(surplus * spans_ms / 1000, axis=1)
        is_drained = copied >= remaining_bytes[:, np.newaxis]
        columns = np.argmax(is_drained, axis=1)
        ends: list[int | None] = []
        for row, column in enumerate(columns):
            remaining = float(remaining_bytes[row])
            if remaining <= 0:
                ends.append(start_ms)
            elif not is_drained[row, column]:
                ends.append(None)
            else:
                remaining -= float(copied[row, column - 1]) if column else 0.0
                ends.append(int(from_ms[column]) + round(1000 * remaining / float(surplus[row, column])))
        return ends

    def _columns(self, start_ms: int, until_ms: int) -> tuple[int, int]:
        """Returns the first column that ends after ``start_ms``, and the first that begins at ``until_ms`` or later."""
        first = int(np.searchsorted(self.times_ms[1:], start_ms, side="right"))
        return first, int(np.searchsorted(self.times_ms[:-1], until_ms))

    def _period(self, row: int, column: int) -> CopyPeriod:
        clients = float(self.clients[row, column])
        return CopyPeriod(
            from_ms=int(self.times_ms[column]),
            until_ms=int(self.times_ms[column + 1]),
            rate_bytes_per_s=float(self.rates[row, column]),
            steady_state_bytes_per_s=float(self.steady_state[row, column]),
            client_bytes_per_s=None if math.isnan(clients) else clients,
            limit=_LIMITS[self.limits[row, column]],
        )


def forecast_rates(
    partitions: Sequence[PlannedPartition],
    profiles: Mapping[int, BrokerProfile],
    limits: CopyLimits,
    now_ms: int,
    until_ms: int,
    case: LoadCase = LoadCase.EXPECTED,
) -> CopyRates:
    """Returns the rates of each side through which the plan copies, from ``now_ms`` to ``until_ms``.

    Args:
        profiles: usable profiles by broker; the load of other brokers is assumed to stay constant.
    """
    times_ms = _boundaries(limits.periods, now_ms, until_ms)
    sides = tuple(side_loads(partitions))
    hours = _Hours(times_ms[:-1], now_ms, case)
    steady_state = _steady_state(partitions, sides, profiles, hours)
    policies = _Policies(limits, times_ms[:-1])
    rates, clients = np.empty_like(steady_state), np.full_like(steady_state, math.nan)
    binding = np.full(steady_state.shape, _CEILING, dtype=np.int8)
    for row, (broker, side) in enumerate(sides):
        capacity = limits.capacities.get((broker, side))
        ceiling = policies.ceilings * limits.leader_ratio if side is Side.LEADER else policies.ceilings
        if capacity is not None:
            ceiling = np.minimum(ceiling, policies.shares_max * capacity.bytes_per_s)
        rates[row] = ceiling
        load = None if broker not in profiles else hours.client_load(profiles[broker], side)
        if load is None:
            continue
        clients[row] = load
        if capacity is None:
            continue
        # The total replication includes the steady-state replication of the plan's partitions.
        used = load + np.maximum(hours.replication(profiles[broker], side), steady_state[row])
        free = np.maximum(0.0, capacity.allowed_bytes_per_s - used)
        left = steady_state[row] + policies.headroom_ratios * free
        lowest = np.maximum(limits.rate_bytes_per_s_min, _MIN_RATE_OVER_STEADY_STATE * steady_state[row])
        lowest = np.minimum(ceiling, lowest)
        is_bound = left < ceiling
        rates[row] = np.where(is_bound, np.maximum(left, lowest), ceiling)
        binding[row] = np.where(is_bound, np.where(left >= lowest, _CLIENTS, _MINIMUM), _CEILING)
    return CopyRates(
        sides=sides,
        times_ms=np.array(times_ms, dtype=np.int64),
        rates=rates,
        steady_state=steady_state,
        clients=clients,
        limits=binding,
    )


class _Policies:
    """The limits of each period, as arrays."""

    def __init__(self, limits: CopyLimits, times_ms: Sequence[int]) -> None:
        policies = [limits.at(at_ms) for at_ms in times_ms]
        self.ceilings = np.array([policy.ceiling_bytes_per_s for policy in policies])
        self.headroom_ratios = np.array([policy.headroom_ratio for policy in policies])
        self.shares_max = np.array([math.inf if policy.share_max is None else policy.share_max for policy in policies])


class _Hours:
    """Reads the profiles of brokers at the start of each period, in one case."""

    def __init__(self, times_ms: Sequence[int], now_ms: int, case: LoadCase) -> None:
        self._now_ms, self._case = now_ms, case
        self._times_ms, self.count = times_ms, len(times_ms)
        # Profiles of one cluster begin at the same hour, so their steps are found once.
        self._steps: dict[tuple[int, int], NDArray[np.int64]] = {}
        self._horizons = np.array([bisect_left(HORIZONS_H, (at_ms - now_ms) / _STEP_MS) for at_ms in times_ms])

    def client_load(self, profile: BrokerProfile, side: Side) -> Values | None:
        """Returns the rate at which clients send to the broker, or receive from it as a leader; None: not known."""
        return self._values(profile, profile.client_out if side is Side.LEADER else profile.client_in)

    def replication(self, profile: BrokerProfile, side: Side) -> Values | float:
        """Returns the replication of all partitions without reassignments; 0 if it is not known."""
        values = self._values(profile, profile.steady_out if side is Side.LEADER else profile.steady_in)
        return 0.0 if values is None else values

    def write_factors(self, profile: BrokerProfile, written_bytes_per_s: float) -> Values:
        """Returns by period the factor on the current write rate of the plan's partitions that this broker leads.

        Args:
            written_bytes_per_s: the current write rate of these partitions together. Its forecast never exceeds the forecast of all
                clients of the broker, unless the current rate exceeds it already.
        """
        present = forecast_at(profile.client_in, profile.start_ms, self._now_ms)
        then = self._values(profile, profile.client_in)
        if present is None or then is None or written_bytes_per_s <= 0.0:
            return np.ones(self.count)
        with np.errstate(over="ignore"):
            factors = then / present if present > 0.0 else np.full(self.count, math.inf)
            return np.minimum(factors, np.maximum(1.0, then / written_bytes_per_s))

    def _values(self, profile: BrokerProfile, forecast: LoadForecast) -> Values | None:
        filled = filled_values(forecast)
        if not filled:
            return None
        values: Values = np.array(filled, dtype=np.float64)[self._steps_of(len(filled), profile.start_ms)]
        if self._case in (LoadCase.EXPECTED, LoadCase.PRESENT):
            return values
        by_horizon = [forecast_error(forecast, 3600.0 * hours) or 0.0 for hours in (*HORIZONS_H, math.inf)]
        errors: Values = np.array(by_horizon)[self._horizons]
        return values + errors if self._case is LoadCase.HIGH else np.maximum(0.0, values - errors)

    def _steps_of(self, steps: int, start_ms: int) -> NDArray[np.int64]:
        key = (steps, start_ms)
        if key not in self._steps:
            is_present = self._case is LoadCase.PRESENT
            times_ms = [self._now_ms] * self.count if is_present else self._times_ms
            self._steps[key] = np.array([step_of(steps, start_ms, at_ms) for at_ms in times_ms], dtype=np.int64)
        return self._steps[key]


def _boundaries(policies: Sequence[LimitPeriod], now_ms: int, until_ms: int) -> list[int]:
    """Returns the times at which a forecast or the limits may change, with ``now_ms`` first and ``until_ms`` last."""
    hours = range(now_ms - now_ms % _STEP_MS + _STEP_MS, until_ms, _STEP_MS)
    changes = (period.from_ms for period in policies if now_ms < period.from_ms < until_ms)
    return sorted({now_ms, *hours, *changes, until_ms})


def _steady_state(
    partitions: Sequence[PlannedPartition],
    sides: Sequence[BrokerSide],
    profiles: Mapping[int, BrokerProfile],
    hours: _Hours,
) -> Values:
    """Returns W of each side: the sums of ``side_loads``, each write rate with the factor of its leader."""
    written: dict[int, float] = {}
    for partition in partitions:
        written[partition.leader] = written.get(partition.leader, 0.0) + partition.write_bytes_per_s
    row_of = {side: row for row, side in enumerate(sides)}
    # The current rates, by leader and row.
    parts: dict[int, dict[int, float]] = {leader: {} for leader in written}
    for side, leader, rate in _steady_state_parts(partitions):
        if (row := row_of.get(side)) is not None:
            parts[leader][row] = parts[leader].get(row, 0.0) + rate
    steady_state = np.zeros((len(sides), hours.count))
    for leader, rates in parts.items():
        profile = profiles.get(leader)
        factors = np.ones(hours.count) if profile is None else hours.write_factors(profile, written[leader])
        steady_state[[*rates]] += np.outer([*rates.values()], factors)
    return steady_state


def _steady_state_parts(partitions: Iterable[PlannedPartition]) -> Iterator[tuple[BrokerSide, int, float]]:
    for partition in partitions:
        yield (partition.leader, Side.LEADER), partition.leader, partition.write_bytes_per_s * partition.followers
        for broker in partition.lacking_bytes:
            yield (broker, Side.FOLLOWER), partition.leader, partition.write_bytes_per_s
