"""Back-test of `rheostat plan estimate --start`: does a long move end when the forecast said, and is the best start better?

The broker of each stored trace copies through a link that its clients nearly fill at their busiest. A move is as large as what the
clients of the trace really leave in ten hours. Its end is estimated at its start: from the forecast of `rheostat learn`, and from
the load of the last hour as if it stayed. Starts are spread over the second half of each trace, and over all hours of the day.

The benchmark also starts moves at the forecast best time, and compares their time with that of a move that starts at once.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from benchmarks.forecasts.traces import HISTORY_PERIOD_S, LoadTrace, stored
from learning.models.forecaster import Forecasts, LoadForecaster
from streaming.shared.contract import STEP_S, STEPS_MAX, BrokerProfile, LearnedCapacity, LoadForecast
from tuner.core.side_load import PlannedPartition, side_loads
from tuner.planning.copy_forecast import CopyLimits, LimitPeriod, known_capacities
from tuner.planning.start_time import MoveForecast, StartEstimate

MOVE_S = 10 * 3600
ERROR_MAX = 0.2  # Of the time of the move, in the median.
# The link carries this multiple of the busiest ten minutes of the clients, so they always leave something.
LINK_RATIO = 1.2
_STARTS_EVERY_H = 7  # Not a divisor of 24, so starts are spread over the day.
_LEAVE_H = 48  # At the end of a trace: the best start may be a day later, and a wrong estimate longer.
_PER_HOUR = STEP_S // HISTORY_PERIOD_S
_EPOCH_MS = 1_699_833_600_000  # A Monday, 0:00 UTC.
_BROKER, _TARGET = 1, 2


@dataclass(frozen=True, slots=True)
class Moved:
    """One estimated move; errors are shares of its true time.

    Attributes:
        error: of the end that the forecast gives.
        error_as_now: of the end if the load of the last hour stayed.
        is_in_interval: the true end is within the interval of the forecast.
        best_ratio: time of a move that starts at the forecast best time ÷ time of one that starts now; both true.
        shortest_ratio: the same for the start that was really best.
    """

    error: float
    error_as_now: float
    is_in_interval: bool
    best_ratio: float
    shortest_ratio: float


def measure(traces: Sequence[LoadTrace]) -> dict[str, Any]:
    """Returns the figures of each trace, and of all moves together."""
    moves = {trace.name: list(_moves(trace)) for trace in traces if trace.period_s == HISTORY_PERIOD_S}
    return {
        "traces": [{"trace": name, **_figures(some)} for name, some in moves.items()],
        "all": _figures([move for some in moves.values() for move in some]),
    }


def _figures(moves: Sequence[Moved]) -> dict[str, Any]:
    errors, as_now = [m.error for m in moves], [m.error_as_now for m in moves]
    return {
        "moves": len(moves),
        "error_median": round(statistics.median(errors), 4),
        "error_p90": round(float(np.quantile(errors, 0.9)), 4),
        "error_as_now_median": round(statistics.median(as_now), 4),
        "error_as_now_p90": round(float(np.quantile(as_now, 0.9)), 4),
        "in_interval": round(statistics.mean(m.is_in_interval for m in moves), 3),
        "best_start_ratio": round(statistics.mean(m.best_ratio for m in moves), 3),
        "shortest_ratio": round(statistics.mean(m.shortest_ratio for m in moves), 3),
    }


def _moves(trace: LoadTrace) -> Iterator[Moved]:
    values = trace.bytes_per_s
    hourly = [statistics.mean(values[i : i + _PER_HOUR]) for i in range(0, len(values), _PER_HOUR)]
    link = LINK_RATIO * max(values)
    left = _Left(values, link)
    forecaster = LoadForecaster()
    forecaster.widen(1)
    last = len(hourly) - _LEAVE_H
    for hour in range(last):
        forecaster.learn(np.array([hourly[hour]], dtype=np.float32))
        now = hour + 1
        if now >= len(hourly) // 2 and now % _STARTS_EVERY_H == 0:
            yield _move(now, left, _profile(forecaster.forecasts(STEPS_MAX), now, link), hourly[hour])


class _Left:
    """The part of the link that the clients of a trace really leave."""

    def __init__(self, values: Sequence[float], link_bytes_per_s: float) -> None:
        self.link_bytes_per_s = link_bytes_per_s
        passes = (max(0.0, link_bytes_per_s - value) * HISTORY_PERIOD_S for value in values)
        self._passed = [0.0, *accumulate(passes)]

    def bytes_between(self, from_s: float, until_s: float) -> float:
        return self._passed_at(until_s) - self._passed_at(from_s)

    def time_s(self, from_s: float, to_copy_bytes: float) -> float:
        """Returns the true time of a move; infinite if it ends after the trace."""
        end_bytes = self._passed_at(from_s) + to_copy_bytes
        index = int(np.searchsorted(self._passed, end_bytes))
        if index >= len(self._passed):
            return math.inf
        before, after = self._passed[index - 1], self._passed[index]
        return (index - 1 + (end_bytes - before) / (after - before)) * HISTORY_PERIOD_S - from_s

    def _passed_at(self, at_s: float) -> float:
        period, rest = divmod(at_s, HISTORY_PERIOD_S)
        index = int(period)
        after = self._passed[min(index + 1, len(self._passed) - 1)]
        return self._passed[index] + (after - self._passed[index]) * rest / HISTORY_PERIOD_S


def _move(now_h: int, left: _Left, profile: BrokerProfile, last_hour_bytes_per_s: float) -> Moved:
    now_s = now_h * STEP_S
    to_copy = left.bytes_between(now_s, now_s + MOVE_S)
    forecast = _forecast(to_copy, profile, left.link_bytes_per_s, _EPOCH_MS + 1000 * now_s)
    estimate = forecast.estimate(forecast.now_ms)
    as_now_s = to_copy / max(left.link_bytes_per_s - last_hour_bytes_per_s, 1.0)
    times_s = {at_ms: left.time_s((at_ms - _EPOCH_MS) / 1000, to_copy) for at_ms in forecast.candidates_ms()}
    return Moved(
        error=abs((estimate.duration_s or math.inf) - MOVE_S) / MOVE_S,
        error_as_now=abs(as_now_s - MOVE_S) / MOVE_S,
        is_in_interval=_is_in_interval(estimate),
        best_ratio=times_s[forecast.best_start_ms()] / MOVE_S,
        shortest_ratio=min(times_s.values()) / MOVE_S,
    )


def _is_in_interval(estimate: StartEstimate) -> bool:
    true_end_ms = estimate.start_ms + 1000 * MOVE_S
    low, high = estimate.end_low_ms, estimate.end_high_ms
    return low is not None and low <= true_end_ms and (high is None or true_end_ms <= high)


def _forecast(to_copy_bytes: float, profile: BrokerProfile, link: float, now_ms: int) -> MoveForecast:
    """Returns the forecast of a plan whose leader side limits: its target has neither load nor capacity in the way."""
    partitions = [PlannedPartition("t", 0, _BROKER, frozenset({_BROKER}), 0.0, {_TARGET: to_copy_bytes})]
    profiles = {_BROKER: profile}
    capacities = known_capacities(side_loads(partitions), {}, profiles, lambda _: None)
    return MoveForecast(partitions, profiles, CopyLimits([LimitPeriod(0, link)], capacities=capacities), now_ms)


def _profile(forecasts: Forecasts, now_h: int, link: float) -> BrokerProfile:
    load = LoadForecast(
        bytes_per_s=tuple(None if math.isnan(v) else float(v) for v in forecasts.values[:, 0]),
        error_bytes_per_s=tuple(None if math.isnan(v) else float(v) for v in forecasts.errors[:, 0]),
    )
    now_ms = _EPOCH_MS + 1000 * now_h * STEP_S
    return BrokerProfile(
        cluster="eta",
        broker=_BROKER,
        made_at_ms=now_ms,
        start_ms=now_ms,
        history_s=float(now_h * STEP_S),
        client_in=load,
        client_out=load,
        capacity_out=LearnedCapacity(bytes_per_s=link, seen_at_ms=now_ms),
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args(arguments).json
    found = measure(stored())
    is_met = found["all"]["error_median"] <= ERROR_MAX
    if as_json:
        print(json.dumps(found))
        return 0 if is_met else 1
    print(f"moves of {MOVE_S // 3600} h; error of the estimated time, as a share of it")
    head = ("", "moves", "median", "p90", "as now: median", "p90", "in interval", "best start ÷ now", "shortest ÷ now")
    print(("{:10}" + "{:>18}" * (len(head) - 1)).format(*head))
    for row in (*found["traces"], {"trace": "all", **found["all"]}):
        print(("{:10}" + "{:18}" * (len(head) - 1)).format(*row.values()))
    print(f"median {found['all']['error_median']:.1%}, bound {ERROR_MAX:.0%}: {'kept' if is_met else 'MISSED'}")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
