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
from streaming.shared.metric_page import metric_family
from streaming.shared.thread_watch import ThreadWatch

_STATM = Path("/proc/self/statm")
_PAGE_BYTES = resource.getpagesize()


@dataclass(frozen=True, slots=True)
class ConfigState:
    """Of the settings file, at the last look."""

    is_valid: bool  # The next start would take it.
    valid_at_s: float  # When it last was.
    is_applied: bool  # It says what this process runs with.
    reloads_taken: int = 0  # Of those asked for with SIGHUP.
    reloads_refused: int = 0


class ProcessMetricsCollector(Collector):
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
        yield metric_family(ProcessMetric.BUILD_INFO, {(installed_version(), of[1]): 1.0})
        yield metric_family(ProcessMetric.STARTED_AT, {of: round(self._started_at_s, 3)})
        yield metric_family(ProcessMetric.CPU_SECONDS, {of: time.process_time()})
        resident = _resident_bytes()
        if resident is not None:
            yield metric_family(ProcessMetric.RESIDENT_BYTES, {of: resident})
        if self._threads is not None:
            yield metric_family(ProcessMetric.THREADS_ENDED, {of: float(self._threads.count)})
        if self._config is None:
            return
        state = self._config()
        yield metric_family(ProcessMetric.CONFIG_VALID, {of: float(state.is_valid)})
        yield metric_family(ProcessMetric.CONFIG_VALID_AT, {of: round(state.valid_at_s, 3)})
        yield metric_family(ProcessMetric.CONFIG_APPLIED, {of: float(state.is_applied)})
        reloads = {"taken": state.reloads_taken, "refused": state.reloads_refused}
        yield metric_family(
            ProcessMetric.CONFIG_RELOADS, {(*of, result): float(count) for result, count in reloads.items()}
        )


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
