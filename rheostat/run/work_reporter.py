"""Reports to the service manager when this process is ready, what it does, and that its work makes progress.

The reports come from a thread of their own, because a step of the work may take longer than the watchdog of the service manager
allows. The thread stops its pings when the work has stopped; then the service manager ends the process and starts it again.
"""

from __future__ import annotations

import threading
from typing import Protocol

import structlog

from rheostat.run.service_manager import ServiceManager

log = structlog.get_logger("run")

_EVERY_S_MAX = 5.0
_EVERY_S_STARTING = 0.2
_PINGS_PER_INTERVAL = 4  # systemd advises two pings; there are more, because the machine may be busy.
_START_EXTENSION_S = 60.0
_CLOSE_S_MAX = 5.0


class Work(Protocol):
    """The work of a process. Heartbeat and TunerHealth have this form."""

    def fault(self) -> str | None: ...

    @property
    def is_ready(self) -> bool: ...

    @property
    def status(self) -> str: ...


class WorkReporter:
    """Reports the work of this process until ``stop`` is set."""

    def __init__(self, manager: ServiceManager, work: Work, stop: threading.Event) -> None:
        self._manager = manager
        self._work = work
        self._stop = stop
        self._is_ready = False
        self._status: str | None = None  # The status that was reported last.
        self._fault_is_logged = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts the thread. Does nothing if no service manager has started this process."""
        if self._manager.is_there:
            self._thread = threading.Thread(target=self._run, name="service-manager", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Waits until the service manager knows that this process stops. ``stop`` must be set."""
        if self._thread is not None:
            self._thread.join(timeout=_CLOSE_S_MAX)

    def report(self) -> None:
        """Sends the messages that are due: readiness, a new status, and a ping."""
        fault = self._work.fault()
        if fault is not None:
            if not self._fault_is_logged:
                log.error(
                    "the work of this process has stopped: the process sends no more pings, so that the service manager "
                    "restarts it",
                    why=fault,
                )
            self._fault_is_logged = True
            return
        self._fault_is_logged = False
        status = self._work.status
        if not self._is_ready and self._work.is_ready:
            self._is_ready = True
            self._manager.ready(status)
        elif status != self._status:
            self._manager.status(status)
        self._status = status
        if not self._is_ready:
            self._manager.extend_start(_START_EXTENSION_S)
        if self._manager.watchdog_s is not None:
            self._manager.ping()

    def _run(self) -> None:
        self.report()
        while not self._stop.wait(self._pause_s()):
            self.report()
        self._manager.stopping()

    def _pause_s(self) -> float:
        if not self._is_ready:
            return _EVERY_S_STARTING
        watchdog_s = self._manager.watchdog_s
        return _EVERY_S_MAX if watchdog_s is None else min(_EVERY_S_MAX, watchdog_s / _PINGS_PER_INTERVAL)
