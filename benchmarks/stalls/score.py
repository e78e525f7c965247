"""Scores a stall detector on labelled traces.

An alarm should come if something is wrong, come soon, and otherwise be silent. A stall that is detected after two minutes counts as
missed. Every alarm outside a stall counts as false, also before its start and after its end.

Vocabulary:
    alarm      the moment at which the state becomes "stalled"; while it lasts, it is the same alarm.
    delay      from the first second of the stall to its alarm, without the delay of the pipeline.
    pooled     over all stalls, with the same number of traces of each kind; the median of each kind is shown too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from benchmarks.stalls.traces import Sampled

SEEN_S_MAX = 120.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """The score of one trace."""

    kind: str
    stall: bool
    delay_s: float | None  # None: not seen in time, or nothing to see.
    false_alarms: int
    well_h: float
    clear_s: float | None = None  # From the end of the stall until the alarm was taken back.


@dataclass(frozen=True, slots=True)
class Score:
    recall: float
    precision: float
    delay_s_median: float
    delay_s_p95: float
    false_alarms_per_h: float
    false_alarms: int
    well_h: float
    delay_s_by_kind: dict[str, float] = field(default_factory=dict)
    clear_s_median: float | None = None

    def as_json(self) -> dict[str, Any]:
        found = {name: getattr(self, name) for name in self.__slots__}
        found["delay_s_by_kind"] = {kind: _told(value) for kind, value in self.delay_s_by_kind.items()}
        return {name: _told(value) if isinstance(value, float) else value for name, value in found.items()}


def verdict(sampled: Sampled, alarms: Sequence[bool]) -> Verdict:
    """Scores one trace. ``alarms`` has the detector's state after every step."""
    stall = sampled.trace.stall_s
    was, delay_s, clear_s = False, None, None
    false_alarms, well_s = 0, 0.0
    for step, alarm in zip(sampled.steps, alarms, strict=True):
        at_s = step.at_ms / 1000
        stalled = stall is not None and stall[0] <= at_s <= stall[1]
        if not stalled:
            well_s += step.dt_s
        if alarm and not was:
            if not stalled:
                false_alarms += 1
            elif stall is not None and delay_s is None and at_s - stall[0] <= SEEN_S_MAX:
                delay_s = at_s - stall[0]
        if was and not alarm and stall is not None and at_s > stall[1] and clear_s is None:
            clear_s = at_s - stall[1]
        was = alarm
    return Verdict(sampled.trace.kind, stall is not None, delay_s, false_alarms, well_s / 3600, clear_s)


def score(verdicts: Iterable[Verdict]) -> Score:
    """Returns the score of all traces. A missed stall has an infinite delay, so that missing hard ones does not improve medians."""
    found = list(verdicts)
    stalls = [v for v in found if v.stall]
    delays = sorted(math.inf if v.delay_s is None else v.delay_s for v in stalls)
    seen = sum(math.isfinite(d) for d in delays)
    false_alarms, well_h = sum(v.false_alarms for v in found), sum(v.well_h for v in found)
    clears = [v.clear_s for v in stalls if v.clear_s is not None]
    by_kind: dict[str, list[float]] = {}
    for v in stalls:
        by_kind.setdefault(v.kind, []).append(math.inf if v.delay_s is None else v.delay_s)
    return Score(
        recall=seen / len(stalls),
        precision=seen / (seen + false_alarms) if seen else 0.0,
        delay_s_median=median(delays),
        delay_s_p95=delays[math.ceil(0.95 * len(delays)) - 1],
        false_alarms_per_h=false_alarms / well_h,
        false_alarms=false_alarms,
        well_h=well_h,
        delay_s_by_kind={kind: median(values) for kind, values in by_kind.items()},
        clear_s_median=median(clears) if clears else None,
    )


def worth(found: Score) -> float:
    """Returns the target of the tuning: recall + precision, minus 0.01 for every 3 s of delay."""
    return found.recall + found.precision - min(found.delay_s_median, SEEN_S_MAX) / 300


def _told(value: float) -> float | None:
    """Returns None for infinity, which JSON does not have."""
    return round(value, 3) if math.isfinite(value) else None
