"""What every process tells of itself: its version, what it costs, and whether its settings file is still what it runs with."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from streaming.shared.metric_defs import ProcessMetric
from streaming.shared.metric_page import family
from streaming.shared.thread_watch import ThreadWatch

_STATM = Path("/proc/self/statm")
_PAGE_BYTES = resource.getpagesize()


@dataclass(frozen=True, slots=True)
class ConfigState:
    """Of the settings file, at the last look."""

    good: bool  # The next start would take it.
    good_at_s: float  # When it last was.
    in_force: bool  # It says what this process runs with.
    reloads_taken: int = 0  # Of those asked for with SIGHUP.
    reloads_refused: int = 0


class OwnCollector(Collector):
    """``config`` is asked at each scrape; None where the settings are of no file. ``threads``: None where none are watched."""

    def __init__(
        self,
        cluster: str,
        part: str,
        config: Callable[[], ConfigState] | None = None,
        wall_clock: Callable[[], float] = time.time,
        threads: ThreadWatch | None = None,
    ) -> None:
        self._of = (cluster, part)
        self._config = config
        self._threads = threads
        self._started_at_s = wall_clock()

    def collect(self) -> Iterator[Metric]:
        of = self._of
        yield family(ProcessMetric.BUILD_INFO, {(installed_version(), of[1]): 1.0})
        yield family(ProcessMetric.STARTED_AT, {of: round(self._started_at_s, 3)})
        yield family(ProcessMetric.CPU_SECONDS, {of: time.process_time()})
        resident = _resident_bytes()
        if resident is not None:
            yield family(ProcessMetric.RESIDENT_BYTES, {of: resident})
        if self._threads is not None:
            yield family(ProcessMetric.THREADS_ENDED, {of: float(self._threads.count)})
        if self._config is None:
            return
        state = self._config()
        yield family(ProcessMetric.CONFIG_GOOD, {of: float(state.good)})
        yield family(ProcessMetric.CONFIG_GOOD_AT, {of: round(state.good_at_s, 3)})
        yield family(ProcessMetric.CONFIG_IN_FORCE, {of: float(state.in_force)})
        reloads = {"taken": state.reloads_taken, "refused": state.reloads_refused}
        yield family(ProcessMetric.CONFIG_RELOADS, {(*of, result): float(count) for result, count in reloads.items()})


def installed_version() -> str:
    try:
        return version("rheostat")
    except PackageNotFoundError:
        return "unknown"


def _resident_bytes() -> float | None:
    try:
        return float(_STATM.read_text().split()[1]) * _PAGE_BYTES
    except OSError:
        return None
