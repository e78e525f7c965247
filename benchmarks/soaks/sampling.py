"""Samples what a long run must not let grow: memory, threads, handles, the stream's state, and topics."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

# Share of a run after which a process has loaded what it needs; growth is measured from here on.
WARM_RATIO = 0.4
# Growth is judged by the level that a measure stays below for this share of the time. A heap and a pool of threads shrink and grow
# again all the time, so a mean or a median differs between two halves. A leak raises the upper level.
_LEVEL_RATIO = 0.9
_SAMPLES_MIN = 8
_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Bound:
    """How much a measure may grow from the first half of the warm part of the run to the second half."""

    ratio: float
    amount: float  # In the measure's unit; the larger of both counts, as a small number may double by chance.

    def limit(self, before: float) -> float:
        return max(self.ratio * before, self.amount)


# By the end of a measure's name.
BOUNDS = {
    "rss_mb": Bound(0.05, 12.0),
    "threads": Bound(0.0, 2.0),
    "handles": Bound(0.0, 8.0),
    "checkpoint_mb": Bound(0.2, 2.0),
    "checkpoint_files": Bound(0.2, 60.0),
    "topics": Bound(0.0, 0.0),
    "groups": Bound(0.0, 0.0),
}


@dataclass(frozen=True, slots=True)
class Growth:
    """The growth of one measure in the warm part of a run.

    Attributes:
        before, after: upper levels of the first and of the second half of the warm part.
        slope_per_h: least squares over the warm part.
    """

    name: str
    before: float
    after: float
    slope_per_h: float

    @property
    def is_flat(self) -> bool:
        return self.after - self.before <= BOUNDS[self.name.rpartition(".")[2]].limit(self.before)


def growth_of(name: str, times_s: Sequence[float], values: Sequence[float]) -> Growth | None:
    """Returns the growth; None for too few samples. A NaN is a moment in which the process did not run."""
    known = [(at_s, value) for at_s, value in zip(times_s, values, strict=True) if math.isfinite(value)]
    warm = known[int(WARM_RATIO * len(known)) :]
    if len(warm) < _SAMPLES_MIN:
        return None
    half = len(warm) // 2
    first, second = ([value for _, value in part] for part in (warm[:half], warm[half:]))
    slope, _ = statistics.linear_regression([at_s for at_s, _ in warm], [value for _, value in warm])
    return Growth(name, _upper_level(first), _upper_level(second), slope * _HOUR_S)


def _upper_level(values: Sequence[float]) -> float:
    return sorted(values)[int(_LEVEL_RATIO * (len(values) - 1))]


def process_measures(name: str, pid: int | None) -> dict[str, float]:
    """Returns memory, threads and handles of a process, and those of its JVM as ``<name>-jvm``; NaN if it does not run."""
    try:
        process = psutil.Process(pid) if pid is not None else None
        jvms = [one for one in process.children(recursive=True) if one.name() == "java"] if process is not None else []
        parts = {name: process, **({f"{name}-jvm": jvms[0]} if jvms else {})}
        found: dict[str, float] = {}
        for part, one in parts.items():
            found[f"{part}.rss_mb"] = one.memory_info().rss / 1e6 if one is not None else math.nan
            found[f"{part}.threads"] = float(one.num_threads()) if one is not None else math.nan
            found[f"{part}.handles"] = float(one.num_fds()) if one is not None else math.nan
    except psutil.NoSuchProcess:
        return {f"{name}.{measure}": math.nan for measure in ("rss_mb", "threads", "handles")}
    return found


def folder_measures(folder: Path) -> dict[str, float]:
    """Returns the size and the number of files of the stream's checkpoint."""
    sizes = []
    for file in folder.rglob("*"):
        try:
            sizes.append(file.stat().st_size)
        except FileNotFoundError:
            continue  # Spark has just removed it.
    return {"state.checkpoint_mb": sum(sizes) / 1e6, "state.checkpoint_files": float(len(sizes))}
