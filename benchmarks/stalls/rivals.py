"""Rival stall detectors, each with the parameters that may be tuned.

A rival has the same inputs as rheostat's detector: bytes instead of messages, drain instead of lag (so that a joining batch is no
jump), the drain that the throttle allows, and the rule that nothing is lost near the end. Only the algorithm differs.

Those of river detect changes. They know no required rate, and they count samples instead of seconds. Therefore their samples are
intervals of a given length, and a detected change counts as a stall only while the rate is below half of the expected one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Protocol

import numpy as np
from river import drift

from benchmarks.stalls.traces import Sampled
from tuner.core.throttle_limits import StallLimits

EVERY_S = 5.0  # The rivals that fit a line look so often; ours at every step.
PACE = 0.5
PACE_OVER_S = 20.0
LIMITS = StallLimits()


@dataclass(frozen=True, slots=True)
class Rival:
    name: str
    alarms: Callable[..., list[bool]]
    grid: Mapping[str, Sequence[Any]]

    def settings(self) -> list[dict[str, Any]]:
        return [dict(zip(self.grid, values, strict=True)) for values in product(*self.grid.values())]


class Detector(Protocol):
    @property
    def drift_detected(self) -> bool: ...

    def update(self, x: float) -> Any: ...


@dataclass(frozen=True, slots=True)
class _Seen:
    """A trace as input of the rivals."""

    at_s: np.ndarray[Any, np.dtype[np.float64]]
    dt_s: np.ndarray[Any, np.dtype[np.float64]]  # 0 where the step is a gap.
    closed: np.ndarray[Any, np.dtype[np.float64]]  # Seconds of expected drain that were made, summed.
    near_end: np.ndarray[Any, np.dtype[np.bool_]]


def _seen(sampled: Sampled) -> _Seen:
    steps = sampled.steps
    dt_s = np.array([s.dt_s if s.dt_s <= LIMITS.step_s_max else 0.0 for s in steps])
    drain = np.array([s.gained_bytes - s.written_bytes for s in steps])
    written = np.array([s.written_bytes / s.dt_s for s in steps])
    remaining = np.array([s.remaining_bytes for s in steps])
    near_end = remaining <= np.maximum(LIMITS.near_end_bytes, LIMITS.near_end_write_s * written)
    share = np.where(near_end, dt_s, drain / np.array(sampled.expected_bytes_per_s))
    return _Seen(np.array([s.at_ms / 1000 for s in steps]), dt_s, np.cumsum(np.where(dt_s > 0, share, 0.0)), near_end)


def _windows(seen: _Seen, window_s: float) -> list[tuple[int, slice | None]]:
    """Returns for every step its window of ``window_s``; None while the trace is shorter, or if no test is due."""
    found: list[tuple[int, slice | None]] = []
    first, looked_s = 0, -math.inf
    for i, at_s in enumerate(seen.at_s):
        while seen.at_s[first] < at_s - window_s:
            first += 1
        due = at_s - looked_s >= EVERY_S - 0.5 and at_s - seen.at_s[0] >= window_s and i - first >= 2
        found.append((i, slice(first, i + 1) if due else None))
        looked_s = at_s if due else looked_s
    return found


def _held(seen: _Seen, looks: Mapping[int, bool]) -> list[bool]:
    """Holds the result of the last test until the next one."""
    alarm, alarms = False, []
    for i in range(len(seen.at_s)):
        alarm = looks.get(i, alarm) and not seen.near_end[i]
        alarms.append(bool(alarm))
    return alarms


def theil_sen(sampled: Sampled, window_s: float, pace: float) -> list[bool]:
    """Alarms if the median slope between all pairs of points is below a share of the expected drain."""
    seen, looks = _seen(sampled), {}
    for i, window in _windows(seen, window_s):
        if window is not None:
            x, y = seen.at_s[window], seen.closed[window]
            left, right = np.triu_indices(len(x), k=1)
            looks[i] = bool(np.median((y[right] - y[left]) / (x[right] - x[left])) < pace)
    return _held(seen, looks)


def mann_kendall(sampled: Sampled, window_s: float, z: float) -> list[bool]:
    """Alarms if the remaining bytes do not fall significantly (Mann–Kendall trend test)."""
    seen, looks = _seen(sampled), {}
    for i, window in _windows(seen, window_s):
        if window is not None:
            y = seen.closed[window]
            n = len(y)
            left, right = np.triu_indices(n, k=1)
            rising = float(np.sign(y[right] - y[left]).sum())
            looks[i] = rising / math.sqrt(n * (n - 1) * (2 * n + 5) / 18) < z
    return _held(seen, looks)


def ewma(sampled: Sampled, tau_s: float, pace: float) -> list[bool]:
    """Alarms if the exponentially weighted mean of the drain is below a share of the expected drain."""
    seen, alarms = _seen(sampled), []
    mean, before = 1.0, 0.0
    for i, dt_s in enumerate(seen.dt_s):
        if dt_s > 0:
            keep = math.exp(-dt_s / tau_s)
            mean = keep * mean + (1 - keep) * (seen.closed[i] - before) / dt_s
        before = seen.closed[i]
        alarms.append(bool(mean < pace and not seen.near_end[i]))
    return alarms


def burrow(sampled: Sampled, samples: int) -> list[bool]:
    """Burrow's rules on a window of samples: alarms if nothing was gained, or the remaining bytes never fell."""
    seen, alarms = _seen(sampled), []
    gained = np.cumsum([s.gained_bytes for s in sampled.steps])
    for i in range(len(gained)):
        window = slice(i - samples + 1, i + 1)
        full = i + 1 >= samples and not seen.near_end[max(0, i - samples + 1) : i + 1].any()
        alarms.append(bool(full and (np.ptp(gained[window]) == 0 or (np.diff(seen.closed[window]) <= 0).all())))
    return alarms


def _change(sampled: Sampled, detector: Detector, stretch_s: float) -> list[bool]:
    """Runs a detector of river on intervals of at least ``stretch_s``."""
    seen, alarms = _seen(sampled), []
    alarm, stretch, closed = False, 0.0, 0.0
    recent: list[tuple[float, float]] = []
    for i, dt_s in enumerate(seen.dt_s):
        stretch += dt_s
        if stretch >= stretch_s:
            share = min(5.0, max(-1.0, (seen.closed[i] - closed) / stretch))
            recent = [*recent[-max(1, round(PACE_OVER_S / stretch)) + 1 :], (share, stretch)]
            pace = sum(s * d for s, d in recent) / sum(d for _, d in recent)
            detector.update(share)
            alarm = pace < PACE and (alarm or detector.drift_detected)
            stretch, closed = 0.0, seen.closed[i]
        alarms.append(bool(alarm and not seen.near_end[i]))
    return alarms


def page_hinkley(sampled: Sampled, threshold: float, delta: float, stretch_s: float) -> list[bool]:
    detector = drift.PageHinkley(min_instances=6, delta=delta, threshold=threshold, mode="down")
    return _change(sampled, detector, stretch_s)


def adwin(sampled: Sampled, delta: float, stretch_s: float) -> list[bool]:
    # river ships this class without types.
    detector = drift.ADWIN(  # type: ignore[no-untyped-call]
        delta=delta, clock=1, min_window_length=2, grace_period=4
    )
    return _change(sampled, detector, stretch_s)


def kswin(sampled: Sampled, alpha: float, window: int, stretch_s: float) -> list[bool]:
    detector = drift.KSWIN(alpha=alpha, window_size=window, stat_size=max(3, window // 4), seed=0)
    return _change(sampled, detector, stretch_s)


RIVALS = (
    Rival("Theil–Sen slope", theil_sen, {"window_s": (45.0, 60.0, 75.0), "pace": (0.1, 0.25, 0.4)}),
    Rival("EWMA slope", ewma, {"tau_s": (20.0, 40.0, 60.0), "pace": (0.1, 0.25, 0.4)}),
    Rival("Mann–Kendall", mann_kendall, {"window_s": (30.0, 60.0), "z": (-2.0, -1.0, 0.0, 1.0)}),
    Rival("Burrow's rules", burrow, {"samples": (4, 6, 10, 20, 30)}),
    Rival(
        "river PageHinkley",
        page_hinkley,
        {"threshold": (2.0, 3.0, 4.0, 6.0), "delta": (0.005, 0.1, 0.3), "stretch_s": (9.0,)},
    ),
    Rival("river ADWIN", adwin, {"delta": (0.002, 0.05, 0.3), "stretch_s": (1.0, 5.0, 9.0)}),
    Rival("river KSWIN", kswin, {"alpha": (0.005, 0.05), "window": (12, 24), "stretch_s": (9.0,)}),
)
