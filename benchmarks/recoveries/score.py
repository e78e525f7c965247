"""The policies of benchmarks.recovery, and the figures of a run: its time relative to T*, and latencies relative to the objective.

Invariant: these functions only compute; they use no clock and no cluster.

Vocabulary:
    free      bytes/s that clients leave of the inbound link of the returning broker.
    optimum   T*: the bytes that the broker lacks at its start, divided by the free bandwidth.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tuner.simulation.client_phases import SAMPLES_MIN, nearest_rank

Row = dict[str, Any]

NONE, ACT = "none", "act"
RATIO_MAX = 1.3
OBJECTIVE_MS = 80.0  # The default; the p99 without a recovery has to be well below it.


@dataclass(frozen=True, slots=True)
class RecoveryPolicy:
    """A policy.

    Attributes:
        throttle_share: the static throttle as a share of the free bandwidth; None: no static throttle.
        acts: rheostat runs with ``tuner.recovery: act``; otherwise its tuner runs dry.
    """

    name: str
    throttle_share: float | None = None
    acts: bool = False


POLICIES = (
    RecoveryPolicy(NONE),
    RecoveryPolicy("static-50", 0.5),
    RecoveryPolicy("static-90", 0.9),
    RecoveryPolicy(ACT, acts=True),
)


@dataclass(frozen=True, slots=True)
class PhaseLatency:
    """Acknowledgement latencies of one phase, in milliseconds."""

    samples: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    over_share: float  # The share of requests above the objective, 0 to 1.


def phase_latency(samples_ms: Sequence[float], objective_ms: float) -> PhaseLatency | None:
    """Returns the latencies of a phase; None for too few samples."""
    if len(samples_ms) < SAMPLES_MIN:
        return None
    ordered = sorted(samples_ms)
    over = sum(latency_ms > objective_ms for latency_ms in ordered)
    return PhaseLatency(
        len(ordered),
        p50_ms=round(statistics.median(ordered), 1),
        p99_ms=round(nearest_rank(ordered, 0.99), 1),
        max_ms=round(ordered[-1], 1),
        over_share=round(over / len(ordered), 4),
    )


def worst_by_second(samples: Sequence[tuple[float, float]], seconds: int) -> list[float]:
    """Returns the slowest request of each second; NaN where none was acknowledged.

    Args:
        samples: the send time of each request, in seconds from the beginning, and its latency in milliseconds.
        seconds: the number of seconds.
    """
    worst = [math.nan] * seconds
    for at_s, latency_ms in samples:
        second = math.floor(at_s)
        if 0 <= second < seconds and not latency_ms <= worst[second]:
            worst[second] = latency_ms
    return worst


def totals(rows: Sequence[Row]) -> list[Row]:
    """Returns the figures of each policy over its runs: medians, and the largest number of remaining settings."""
    found = []
    for policy in dict.fromkeys(str(row["policy"]) for row in rows):
        own = [row for row in rows if row["policy"] == policy]
        found.append(
            {
                "policy": policy,
                "runs": len(own),
                **{
                    key: statistics.median(row[key] for row in own)
                    for key in ("in_sync_s", "optimum_s", "ratio_to_optimum", "ratio_of_first_3_s")
                },
                **{
                    f"{phase}_{key}": statistics.median(row["latency"][phase][key] for row in own)
                    for phase in ("before", "away", "recovering")
                    for key in ("p50_ms", "p99_ms", "max_ms", "over_share")
                },
                "cpu_share": max(row["cpu_share"] for row in own),
                "keys_left": max(row["keys_left"] for row in own),
            }
        )
    return found


def missed(found: Sequence[Row], objective_ms: float) -> list[str]:
    """Returns a sentence for each missed bound."""
    failures = []
    by_policy = {total["policy"]: total for total in found}
    ours, none = by_policy.get(ACT), by_policy.get(NONE)
    if ours is not None:
        if ours["ratio_to_optimum"] > RATIO_MAX:
            failures.append(f"{ACT} took {ours['ratio_to_optimum']:.2f} × T*, the bound is {RATIO_MAX}")
        if ours["recovering_p99_ms"] > objective_ms:
            failures.append(
                f"{ACT} has a p99 of {ours['recovering_p99_ms']:.0f} ms, the objective is {objective_ms:.0f} ms"
            )
        if ours["keys_left"]:
            failures.append(f"{ACT} left {ours['keys_left']} throttle settings behind")
    if none is not None and none["recovering_p99_ms"] <= objective_ms:
        failures.append(
            f"without a throttle the p99 is {none['recovering_p99_ms']:.0f} ms, within the objective: the load is too low to "
            "compare policies"
        )
    return failures
