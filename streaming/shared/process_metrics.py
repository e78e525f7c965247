"""Metrics that every process serves about itself: version, CPU time, memory, and the state of its settings file."""

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
    """State of the settings file at the last check."""

    is_valid: bool  # Whether the next start would accept the file.
    valid_at_s: float  # When the file was last valid, epoch seconds.
    is_applied: bool  # Whether this process runs with the present content of the file.
    reloads_taken: int = 0  # Reloads requested with SIGHUP.
    reloads_refused: int = 0


class ProcessMetricsCollector(Collector):
    """Collects the metrics of this process at each scrape."""

    def __init__(
        self,
        cluster: str,
        part: str,
        config: Callable[[], ConfigState] | None = None,
        wall_clock: Callable[[], float] = time.time,
        threads: ThreadWatch | None = None,
    ) -> None:
        """
        Args:
            part: collect, stream, tune or learn.
            config: returns the state of the settings file; None if the settings come from no file.
            threads: the watch of this process's threads; None if they are not watched.
        """
        self._labels = (cluster, part)
        self._config = config
        self._threads = threads
        self._started_at_s = wall_clock()

    def collect(self) -> Iterator[Metric]:
        labels = self._labels
        _, part = labels
        yield metric_family(ProcessMetric.BUILD_INFO, {(installed_version(), part): 1.0})
        yield metric_family(ProcessMetric.STARTED_AT, {labels: round(self._started_at_s, 3)})
        yield metric_family(ProcessMetric.CPU_SECONDS, {labels: time.process_time()})
        resident = _resident_bytes()
        if resident is not None:
            yield metric_family(ProcessMetric.RESIDENT_BYTES, {labels: resident})
        if self._threads is not None:
            yield metric_family(ProcessMetric.THREADS_ENDED, {labels: float(self._threads.count)})
        if self._config is None:
            return
        state = self._config()
        yield metric_family(ProcessMetric.CONFIG_VALID, {labels: float(state.is_valid)})
        yield metric_family(ProcessMetric.CONFIG_VALID_AT, {labels: round(state.valid_at_s, 3)})
        yield metric_family(ProcessMetric.CONFIG_APPLIED, {labels: float(state.is_applied)})
        reloads = {"taken": state.reloads_taken, "refused": state.reloads_refused}
        yield metric_family(
            ProcessMetric.CONFIG_RELOADS, {(*labels, result): float(count) for result, count in reloads.items()}
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
