"""Runs collector, stream and tuner inside `rheostat reassign start --standalone` while it watches a plan."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TextIO

from rheostat.config.resources import state_dir
from rheostat.console.logs import set_up_logs
from rheostat.console.output import tell
from rheostat.reassign.view import print_line
from rheostat.run.supervisor import Supervisor, children_for

CLEANUP_S_MAX = 60.0  # Time for two idle snapshots of the tuner and its cleanup, on a busy machine.
_POLL_S = 1.0
_TICK_S = 0.2


class EmbeddedService:
    """Runs the service's processes while a plan is watched. Without ``--standalone`` it does nothing."""

    def __init__(self, config: Path | None, *, other_tuners: int | None) -> None:
        """
        Args:
            config: the settings file of the processes; None if no process is started.
            other_tuners: the number of tuners that already run; None if not known. If there are any, no process is started.
        """
        self._supervisor: Supervisor | None = None
        self._log_file: TextIO | None = None
        self.log = state_dir() / "reassign.log"
        if config is None:
            return
        if other_tuners:
            print_line("A tuner already runs for this cluster and executes the plan: this command starts none.")
            return
        self.log.parent.mkdir(parents=True, exist_ok=True)
        print_line(f"Collector, stream and tuner run in this command until the plan has ended; their log: {self.log}")
        self._supervisor = Supervisor(children_for(config, dry_run=False), log_to=self.log)

    @property
    def is_running(self) -> bool:
        return self._supervisor is not None

    def __enter__(self) -> EmbeddedService:
        if self._supervisor is not None:
            # The supervisor logs into the same file as its children, since the terminal shows the progress of the plan.
            self._log_file = self.log.open("a", buffering=1)
            set_up_logs(self._log_file)
        self.check()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._supervisor is None or self._log_file is None:
            return
        tell("Stopping tuner, stream and collector.")
        try:
            self._supervisor.stop()
        finally:
            set_up_logs()
            self._log_file.close()

    def check(self) -> tuple[str, ...]:
        """Starts and restarts processes as needed, and returns a message for each restart. Call it several times a second."""
        if self._supervisor is None:
            return ()
        restarts = {child.name: child.restarts for child in self._supervisor.children}
        self._supervisor.check()
        return tuple(
            f"{child.name} stopped unexpectedly and is started again; see {self.log}"
            for child in self._supervisor.children
            if child.restarts > restarts[child.name]
        )

    def wait_for_cleanup(self, has_throttles: Callable[[], bool], tick: Callable[[], None]) -> bool:
        """Waits until the tuner has removed its throttles, some seconds after the last step.

        Args:
            has_throttles: returns whether any throttle is still set.
            tick: called several times a second while waiting.

        Returns:
            Whether all throttles are removed; also True if this service does not run, because then another tuner removes them.
        """
        deadline_s = time.monotonic() + CLEANUP_S_MAX
        while self.is_running and has_throttles():
            if time.monotonic() > deadline_s:
                return False
            for _ in range(round(_POLL_S / _TICK_S)):
                tick()
                threading.Event().wait(_TICK_S)
        return True
