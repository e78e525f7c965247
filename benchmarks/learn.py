"""Measures `rheostat learn`: how well it finds changes, and what it costs at 1,000 brokers.

Changes: the load of the stored traces gives a latency by the hour, with noise. In half of the series one lasting change (a factor)
or one peak of an hour is injected. Cost: a history of five weeks is learned, then a month more, in a process of its own.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import psutil

from benchmarks.forecasts.horizons import series_of_traces
from benchmarks.forecasts.traces import stored
from learning.models.change_points import ChangeWatch, FoundChange
from learning.models.learner import Learner
from learning.models.periods import HOUR_MS, PERIOD_MS, PERIODS_PER_HOUR, PeriodBook
from streaming.shared.contract.history import BrokerHistory, HistoryPeriod
from streaming.shared.contract.learned_encoding import decode_history, encode_history, encode_profile

SEED = 20_261
FACTORS = (1.6, 2.0, 3.0, 0.5)
PEAK = 5.0
FOUND_WITHIN_H = 48
SERIES = 160
HOURS = 35 * 24
_CHANGE_FROM_H, _CHANGE_TO_H = 7 * 24, 30 * 24
PRECISION_MIN, RECALL_MIN, FALSE_PER_WEEK_MAX = 0.8, 0.9, 0.02
RSS_GROWTH_MAX = 1.1
_NOISE, _NOISE_MEMORY_H = 0.12, 3.0
PROFILES_EVERY_H = 6
_FIRST_HOUR = 1_699_833_600_000 // HOUR_MS


@dataclass(frozen=True, slots=True)
class Injected:
    """The change injected into one series: a lasting factor, or a peak; ``hour`` is None without a change."""

    hour: int | None
    factor: float
    is_peak: bool


def latencies(load: list[float], injected: Injected, draw: random.Random) -> Iterator[float]:
    """Yields the p99 (ms) of each hour: it grows with the load, and its noise has a memory of some hours."""
    keep = math.exp(-1 / _NOISE_MEMORY_H)
    wander = 0.0
    for hour, mb_per_s in enumerate(load):
        wander = keep * wander + math.sqrt(1 - keep * keep) * draw.gauss(0, _NOISE)
        p99_ms = (5.0 + 0.4 * mb_per_s) * math.exp(wander + draw.gauss(0, _NOISE / 2))
        is_changed = injected.hour is not None and (
            hour == injected.hour if injected.is_peak else hour >= injected.hour
        )
        yield p99_ms * injected.factor if is_changed else p99_ms


def measure_changes(series: int = SERIES) -> dict[str, Any]:
    """Returns precision, recall, delay and false alarms of lasting changes and of unusual values."""
    draw = random.Random(SEED)
    loads = [list(one.values) for one in series_of_traces(stored())]
    scores = {is_peak: Score() for is_peak in (False, True)}
    for i in range(series):
        is_peak = i % 4 >= 2
        injected = Injected(
            hour=draw.randrange(_CHANGE_FROM_H, _CHANGE_TO_H) if i % 2 else None,
            factor=PEAK if is_peak else FACTORS[i // 4 % len(FACTORS)],
            is_peak=is_peak,
        )
        watch = ChangeWatch(negligible=1.0)
        found = []
        for hour, p99_ms in enumerate(latencies(loads[i // 16 % len(loads)], injected, draw)):
            finding = watch.learn(_FIRST_HOUR + hour, p99_ms)
            if finding is not None:
                found.append((hour, finding))
        scores[False].add(injected if not is_peak else Injected(None, 1.0, False), found)
        scores[True].add(injected if is_peak else Injected(None, 1.0, True), found, ignored=injected)
    weeks = series * HOURS / 168
    return {"lasting": scores[False].result(weeks), "unusual": scores[True].result(weeks)}


class Score:
    """Counts what was found of one kind."""

    def __init__(self) -> None:
        self._injected = self._true = self._false = 0
        self._delays: list[int] = []

    def add(self, injected: Injected, found: list[tuple[int, FoundChange]], ignored: Injected | None = None) -> None:
        """Counts the findings of one series.

        Args:
            ignored: a lasting change; unusual values in its first day follow from it.
        """
        self._injected += injected.hour is not None
        mine = [hour for hour, finding in found if finding.is_unusual == injected.is_peak]
        hits = [hour for hour in mine if injected.hour is not None and 0 <= hour - injected.hour < FOUND_WITHIN_H]
        if ignored is not None and ignored.hour is not None and not ignored.is_peak:
            mine = [hour for hour in mine if not 0 <= hour - (ignored.hour or 0) < FOUND_WITHIN_H]
        if hits:
            self._true += 1
            self._delays.append(hits[0] - (injected.hour or 0))
        self._false += len(mine) - (1 if hits else 0)

    def result(self, weeks: float) -> dict[str, Any]:
        return {
            "injected": self._injected,
            "recall": round(self._true / self._injected, 3),
            "precision": round(self._true / max(1, self._true + self._false), 3),
            "delay_h_median": float(np.median(self._delays)) if self._delays else None,
            "false_per_week": round(self._false / weeks, 4),
        }


def history_records(brokers: int, periods: range, draw: np.random.Generator) -> Iterator[bytes]:
    """Yields the records of a cluster, one for each period."""
    scales = np.linspace(0.3, 3.0, brokers)
    for period in periods:
        hour = period / PERIODS_PER_HOUR % 24
        loads = (18e6 - 10e6 * math.cos(2 * math.pi * (hour - 3) / 24)) * scales * draw.normal(1, 0.05, brokers)
        p99s = 5 + draw.gamma(4, 1, brokers)
        yield encode_history(
            HistoryPeriod(
                cluster="c",
                start_ms=_FIRST_HOUR * HOUR_MS + period * PERIOD_MS,
                brokers=tuple(
                    BrokerHistory(
                        broker=broker,
                        signals=20,
                        client_in_bytes_per_s=load,
                        client_out_bytes_per_s=2 * load,
                        replication_in_bytes_per_s=load,
                        replication_out_bytes_per_s=load,
                        reassignment_in_bytes_per_s=0.0,
                        reassignment_out_bytes_per_s=0.0,
                        in_bytes_per_s_max=2.4 * load,
                        in_max_p99_ms=p99,
                        out_bytes_per_s_max=3.4 * load,
                        out_max_p99_ms=p99,
                        produce_p99_ms=p99,
                        moving_partitions_max=0.0,
                        lag_sum_messages=1_000 * p99,
                    )
                    for broker, (load, p99) in enumerate(
                        zip(np.round(loads).tolist(), p99s.round(2).tolist(), strict=True)
                    )
                ),
            )
        )


def measure_cost(brokers: int, days_more: int) -> dict[str, Any]:
    """Returns seconds and memory of a rebuild of five weeks, and of each later hour."""
    draw = np.random.default_rng(SEED)
    process = psutil.Process()
    book = PeriodBook()
    decode_s = 0.0
    first = HOURS * PERIODS_PER_HOUR
    record_bytes = 0
    for value in history_records(brokers, range(first), draw):
        began_s = time.process_time()
        book.add(decode_history(value))
        decode_s += time.process_time() - began_s
        record_bytes = len(value)
    began_s = time.process_time()
    learner = Learner("c", _FIRST_HOUR)
    while learner.next_hour < _FIRST_HOUR + HOURS:
        learner.learn(book.periods(learner.next_hour), book.brokers)
    learn_s = time.process_time() - began_s
    rss = [_rss_mb(process)]
    hours_s: list[float] = []
    profiles_s: list[float] = []
    profile_bytes = 0
    for day in range(days_more):
        for hour in range(24):
            period = first + (day * 24 + hour) * PERIODS_PER_HOUR
            values = list(history_records(brokers, range(period, period + PERIODS_PER_HOUR), draw))
            began_s = time.process_time()
            for value in values:
                book.add(decode_history(value))
            learner.learn(book.periods(learner.next_hour), book.brokers)
            hours_s.append(time.process_time() - began_s)
            if hour % PROFILES_EVERY_H == 0:  # In fact each hour; less often here, to shorten the run.
                began_s = time.process_time()
                profile_bytes = sum(len(encode_profile(profile)) for profile in learner.profiles(book.brokers))
                profiles_s.append(time.process_time() - began_s)
        rss.append(_rss_mb(process))
    return {
        "brokers": brokers,
        "read_s": round(decode_s, 2),
        "learn_s": round(learn_s, 2),
        "rebuild_total_s": round(decode_s + learn_s, 2),
        "hour_s": round(float(np.median(hours_s) + np.median(profiles_s)), 3) if hours_s else None,
        "rss_mb": rss[0],
        "rss_mb_by_day": rss,
        "rss_growth": round(max(rss[len(rss) // 2 :]) / rss[0], 3),
        "history_record_bytes": record_bytes,
        "profile_bytes": profile_bytes,
    }


def _rss_mb(process: psutil.Process) -> float:
    gc.collect()
    return round(process.memory_info().rss / 1e6, 1)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--brokers", type=int, default=1_000)
    parser.add_argument("--days", type=int, default=30, help="days after the five weeks")
    parser.add_argument("--parts", default="changes,cost", help="of changes, cost")
    options = parser.parse_args(arguments)
    parts = options.parts.split(",")
    figures: dict[str, Any] = {}
    is_met = True
    if "changes" in parts:
        figures["changes"] = measure_changes()
        lasting = figures["changes"]["lasting"]
        is_met = (
            lasting["precision"] >= PRECISION_MIN
            and lasting["recall"] >= RECALL_MIN
            and lasting["false_per_week"] <= FALSE_PER_WEEK_MAX
        )
    if "cost" in parts:
        figures["cost"] = measure_cost(options.brokers, options.days)
        is_met = is_met and figures["cost"]["rss_growth"] <= RSS_GROWTH_MAX
    if options.json:
        print(json.dumps(figures))
        return 0 if is_met else 1
    for kind, result in figures.get("changes", {}).items():
        print(f"{kind}: " + ", ".join(f"{name} {value}" for name, value in result.items()))
    if "cost" in parts:
        print(
            "cost: "
            + ", ".join(f"{name} {value}" for name, value in figures["cost"].items() if name != "rss_mb_by_day")
        )
    print("bounds kept" if is_met else "bounds missed")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
