"""The figures of a run: its time relative to T*, its latency relative to the idle cluster, and the Pareto front.

A policy should be fast and gentle at once. No policy can be faster than T* without taking bandwidth from clients, so its time is
given as a multiple of T*. The front are the policies that no other one beats in both figures.

Invariant: these functions only compute; they use no clock and no cluster.

Vocabulary:
    free      bytes/s that clients leave of the link of the moving side.
    optimum   T*: the least T with ∫₀ᵀ (free − written to the moving replicas) dt ≥ the bytes to be moved.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.calm_table import medians
from benchmarks.links.calm import calm_of
from tuner.simulation.client_phases import measured_phase

OURS, OURS_AUTO, OURS_CALM, UNTHROTTLED, TOO_LOW = "ours", "ours-auto", "ours-window-3", "none", "static-too-low"
OURS_ALL = (OURS, OURS_AUTO, OURS_CALM)
RATIO_MAX, RATIO_AUTO_MAX = 1.25, 1.45

Row = dict[str, Any]
_TOLD = re.compile(
    r"(\d+) records sent, [\d.]+ records/sec \(([\d.]+) MB/sec\), ([\d.]+) ms avg latency, ([\d.]+) ms max latency\.\n"
)


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy. ``throttle_share`` is of the free bandwidth; with ``acts`` rheostat may change the throttle.

    With ``is_auto`` rheostat has neither objective nor capacity in its settings.
    """

    name: str
    throttle_share: float | None
    acts: bool = False
    is_auto: bool = False
    quota_samples: int = 11  # replication.quota.window.num of the brokers.


# A careful operator's choice, and the initial rate for rheostat.
START_SHARE = 0.5
POLICIES = (
    # First the policies that use the brokers' p99, which still contains the previous policy.
    Policy(OURS, START_SHARE, acts=True),
    Policy(OURS_AUTO, START_SHARE, acts=True, is_auto=True),
    Policy(OURS_CALM, START_SHARE, acts=True, quota_samples=3),
    Policy(UNTHROTTLED, None),
    *(Policy(f"static-{percent}", percent / 100) for percent in (25, 50, 75, 100)),
    Policy(TOO_LOW, 0.0),
)


@dataclass(frozen=True, slots=True)
class Latency:
    """Acknowledgement latencies in milliseconds."""

    samples: int
    average_ms: float
    p50_ms: float
    p99_ms: float
    max_ms: float


def latency(samples_ms: Sequence[float]) -> Latency | None:
    """Returns the latency; None for too few samples."""
    found = measured_phase(samples_ms, 0.0)
    if found is None:
        return None
    return Latency(
        samples=len(samples_ms),
        average_ms=statistics.fmean(samples_ms),
        p50_ms=found.p50_ms,
        p99_ms=found.p99_ms,
        max_ms=max(samples_ms),
    )


def optimum_s(size_bytes: float, free: Sequence[tuple[float, float]]) -> float | None:
    """Returns T* in seconds; None: the free bandwidth does not suffice.

    Args:
        size_bytes: bytes to move at the beginning.
        free: start times in seconds, and bytes/s from then on (free minus written to the moving replicas); the first is at 0, and
            the last has no end.
    """
    left = size_bytes
    ends = [begin for begin, _ in free[1:]] + [math.inf]
    for (begin_s, rate), end_s in zip(free, ends, strict=True):
        if rate > 0 and left <= rate * (end_s - begin_s):
            return begin_s + left / rate
        left -= rate * (end_s - begin_s) if math.isfinite(end_s) else 0.0
    return None


def throttle_bytes_per_s(share: float, free_bytes_per_s: float, in_sync_bytes_per_s: float) -> int:
    """Returns the quota that admits a share of the free bandwidth; in-sync followers of listed partitions use the quota too."""
    return round(share * free_bytes_per_s + in_sync_bytes_per_s)


def ratios(idle: Latency, during: Latency) -> dict[str, float]:
    return {
        "average": round(during.average_ms / idle.average_ms, 2),
        "p99": round(during.p99_ms / idle.p99_ms, 2),
    }


def load_told(said: str) -> dict[str, float] | None:
    """Returns the figures that the burst's producer prints every five seconds; None if there are none.

    Its latency is from send to acknowledgement, with the wait in the producer. The first line is left out, as the JVM starts.
    """
    told = [tuple(map(float, found)) for found in _TOLD.findall(said)][1:]
    records = sum(sent for sent, *_ in told)
    if not records:
        return None
    return {
        "MB_per_s": round(statistics.fmean(rate for _, rate, *_ in told), 2),
        "average_ms": round(sum(sent * average for sent, _, average, _ in told) / records, 1),
        "max_ms": max(longest for *_, longest in told),
    }


# -- over the runs ----------------------------------------------------------------------------------------------------


def totals(rows: Sequence[Row]) -> list[Row]:
    """Returns medians over the runs of each scenario and policy. A policy with an unfinished run has no time.

    Latency is relative to that of the idle cluster: the median of all runs. The p99 of 25 s varies between 8 and 28 ms by chance,
    so the idle latency of a single run would dominate the ratio.
    """
    found = []
    idle = {
        (scenario, key): statistics.median(row["idle"][f"{key}_ms"] for row in rows if row["scenario"] == scenario)
        for scenario in {row["scenario"] for row in rows}
        for key in ("average", "p99")
    }
    for scenario, policy in dict.fromkeys((row["scenario"], row["policy"]) for row in rows):
        own = [row for row in rows if (row["scenario"], row["policy"]) == (scenario, policy)]
        ended = [row["ratio_to_optimum"] for row in own if row["completed"]]
        found.append(
            {
                "scenario": scenario,
                "policy": policy,
                "runs": len(own),
                "completed": len(ended),
                "ratio_to_optimum": statistics.median(ended) if len(ended) == len(own) else None,
                "ratio_worst": max(ended) if len(ended) == len(own) else None,
                "produce_latency_ratio": {
                    key: round(statistics.median(row["during"][f"{key}_ms"] for row in own) / idle[scenario, key], 2)
                    for key in ("average", "p99")
                },
                "average_ms": statistics.median(row["during"]["average_ms"] for row in own),
                "p99_ms": statistics.median(row["during"]["p99_ms"] for row in own),
                "burst_ms": _median([row["burst"]["average_ms"] for row in own if row.get("burst")]),
                **medians([calm_of(row) for row in own]),
                "cpu_share": max(row["cpu_share"] for row in own),
                "machine_share": max(row["machine_share"] for row in own),
                "keys_left": max(row["keys_left"] for row in own),
            }
        )
    return found


def _median(found: Sequence[float]) -> float | None:
    return statistics.median(found) if found else None


def beaten_by(total: Row, others: Sequence[Row], key: str) -> list[str]:
    """Returns the policies that are at least as fast and at least as gentle.

    Args:
        key: the measure of gentleness: average or p99. In scenarios with a burst, its clients count too, with their average.
    """
    return [other["policy"] for other in others if other is not total and _as_good(other, total, key)]


def _as_good(one: Row, other: Row, key: str) -> bool:
    if one["ratio_to_optimum"] is None:
        return False
    as_fast = other["ratio_to_optimum"] is None or one["ratio_to_optimum"] <= other["ratio_to_optimum"]
    ours, theirs = one.get("burst_ms"), other.get("burst_ms")
    gentle_to_burst = ours is None or theirs is None or ours <= theirs
    return (
        as_fast and gentle_to_burst and bool(one["produce_latency_ratio"][key] <= other["produce_latency_ratio"][key])
    )


def front(found: Sequence[Row], key: str) -> list[str]:
    """Returns the policies of one scenario that no other one beats, fastest first."""
    ended = [total for total in found if total["ratio_to_optimum"] is not None]
    best = [total for total in ended if not beaten_by(total, ended, key)]
    return [total["policy"] for total in sorted(best, key=lambda total: float(total["ratio_to_optimum"]))]


def missed(rows: Sequence[Row]) -> list[str]:
    """Returns a sentence for each missed bound."""
    found = totals(rows)
    failures = []
    for total in found:
        if total["policy"] not in OURS_ALL:
            continue
        name = f"{total['policy']} ({total['scenario']})"
        if total["keys_left"]:
            failures.append(f"{name} left {total['keys_left']} throttle keys behind")
        if total["completed"] < total["runs"]:
            failures.append(f"{name} did not end in {total['runs'] - total['completed']} of {total['runs']} runs")
        else:
            bound = RATIO_AUTO_MAX if total["policy"] == OURS_AUTO else RATIO_MAX
            if total["ratio_to_optimum"] > bound:
                failures.append(f"{name} took {total['ratio_to_optimum']:.2f} × T*, the bound is {bound}")
        statics = [t for t in found if t["scenario"] == total["scenario"] and t["policy"].startswith("static")]
        failures += [
            f"{rival} is as fast as {name} and as gentle by the {key}"
            for key in ("average", "p99")
            for rival in beaten_by(total, statics, key)
        ]
    return failures


def in_turn(policies: Sequence[Policy], turn: int) -> dict[int, list[Policy]]:
    """Returns the policies by window setting, for which the brokers restart; the first policy differs from turn to turn."""
    found = {}
    for samples in sorted({policy.quota_samples for policy in policies}, reverse=True):
        group = [policy for policy in policies if policy.quota_samples == samples]
        shift = turn % len(group)
        found[samples] = [*group[shift:], *group[:shift]]
    return found
