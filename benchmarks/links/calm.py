"""Computes the measures of calm of one run from its saved row.

The throttle is the source's, as a leader. Against it counts what reaches the new broker, which has no other traffic, and what the
in-sync follower of the moving topic fetches. Both are bytes on the link, with about 4 % of headers. Heartbeats and empty responses
pass all the time, so a second in which less than ``SILENT_SHARE`` of the mean reaches the new broker is silent.

Rows of earlier versions have no bytes of the new broker and no writes, and of the clients only the p99 before and during the move.
The other figures are None.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from benchmarks.calm_table import Row
from tuner.simulation.calm import (
    Calm,
    Silence,
    ThrottleSeries,
    burst_ratio_max,
    rate_variation_per_min,
    undershoot_ratio,
    writes_per_broker_min,
)
from tuner.simulation.numbers import Floats

SILENT_SHARE = 0.02


def calm_of(row: Row) -> dict[str, Any]:
    """Returns the measures of calm of a saved run, and its clients before, during and after the move."""
    p99s = {"clients_before_p99_ms": row["idle"]["p99_ms"], "clients_during_p99_ms": row["during"]["p99_ms"]}
    return {**asdict(_calm(row)), **row.get("clients", p99s)}


def _calm(row: Row) -> Calm:
    seconds: Sequence[Mapping[str, Any]] = row.get("seconds", [])
    writes, brokers = row.get("config_writes"), row.get("brokers")
    per_min = None if writes is None or brokers is None else writes_per_broker_min(writes, brokers, row["move_s"])
    if not seconds:
        return Calm(config_writes_per_broker_min=per_min)
    step_s = np.diff([second["t_s"] for second in seconds], prepend=0.0)
    rates = [math.inf if second["rate_MB_per_s"] is None else 1e6 * second["rate_MB_per_s"] for second in seconds]
    if any("copied_MB_per_s" not in second for second in seconds):
        series = _series(step_s, rates, np.zeros(len(seconds)))
        return Calm(rate_variation_per_min=rate_variation_per_min(series), config_writes_per_broker_min=per_min)
    copied = 1e6 * np.array([second["copied_MB_per_s"] for second in seconds])
    series = _series(step_s, rates, copied + row.get("in_sync_bytes_per_s", 0.0))
    return Calm(
        rate_variation_per_min=rate_variation_per_min(series),
        burst_ratio_max=burst_ratio_max(series),
        undershoot_ratio=undershoot_ratio(series),
        silence_s_max=silence_s(copied, step_s),
        config_writes_per_broker_min=per_min,
    )


def _series(step_s: Floats, rates: Sequence[float], passed: Floats) -> ThrottleSeries:
    return ThrottleSeries(
        step_s=step_s,
        rate_bytes_per_s=np.array(rates)[:, np.newaxis],
        passed_bytes_per_s=passed[:, np.newaxis],
        has_work=np.ones((len(step_s), 1), dtype=np.bool_),
    )


def silence_s(copied_bytes_per_s: Floats, step_s: Floats) -> float:
    """Returns the longest time in seconds in which almost nothing of the copy passes.

    Args:
        copied_bytes_per_s: by interval.
        step_s: length of each interval.
    """
    silence = Silence(1)
    mean = float(copied_bytes_per_s @ step_s / step_s.sum())
    for copied, lasts_s in zip(copied_bytes_per_s, step_s, strict=True):
        silence.add(np.array([copied <= SILENT_SHARE * mean]), float(lasts_s))
    return silence.longest_s
