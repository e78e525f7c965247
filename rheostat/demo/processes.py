"""Runs rheostat in the demo in two steps: collector and stream from the beginning, the tuner only for the rescue.

So rheostat changes no throttle while the move stalls, and the rescue does not wait for the start of Spark. On a real cluster, too,
rheostat already runs when a move begins.
"""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from rheostat.config.settings import Settings, load_settings
from rheostat.errors import CommandError
from rheostat.lab.cluster import Lab
from rheostat.lab.keeper import lab_config
from rheostat.lab.node import free_ports
from rheostat.run.supervisor import Supervisor, children_for

_TUNER = "tune"


class DemoProcesses:
    """The processes of rheostat on the demo's cluster, with their settings file and log."""

    def __init__(self, lab: Lab, **tuner_settings: Any) -> None:
        self.log = lab.home / "logs" / "rheostat.log"
        config = lab.home / "rheostat.yaml"
        self._port = free_ports(1)[0]
        config.write_text(lab_config(lab, **tuner_settings, http={"port": self._port}))
        self.page = f"http://127.0.0.1:{self._port}/"
        self.settings: Settings = load_settings(config)
        children = children_for(config, dry_run=False)
        self._measuring = Supervisor([child for child in children if child.name != _TUNER], log_to=self.log)
        self._tuner = Supervisor([child for child in children if child.name == _TUNER], log_to=self.log)
        self._started: list[Supervisor] = []

    def start_measuring(self) -> None:
        """Starts the collector and the stream."""
        self._start(self._measuring)

    def start_tuner(self) -> None:
        self._start(self._tuner)

    def check(self) -> None:
        """Checks that every started process still runs.

        Raises:
            CommandError: a process has ended by itself.
        """
        for supervisor in self._started:
            supervisor.check()
            if restarts := [child.name for child in supervisor.children if child.restarts]:
                raise CommandError(
                    f"A process of the demo ended by itself ({', '.join(restarts)}): {self._last_log_lines()}"
                )

    def restart_ended(self) -> None:
        """Starts processes again that have ended, as `rheostat run` does."""
        for supervisor in self._started:
            supervisor.check()

    def stop(self) -> None:
        """Stops all processes, the tuner first, as `rheostat run` does."""
        for supervisor in reversed(self._started):
            supervisor.stop()
        self._started.clear()  # Without this, the next check would start the processes again.

    def status(self) -> dict[str, Any] | None:
        """Returns the tuner's status from its HTTP API; None if it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/status", timeout=2) as response:
                status: dict[str, Any] = json.loads(response.read())
                return status
        except (OSError, ValueError):
            return None

    def _start(self, supervisor: Supervisor) -> None:
        self._started.append(supervisor)
        supervisor.check()

    def _last_log_lines(self) -> str:
        return " | ".join(self.log.read_text(errors="replace").strip().splitlines()[-3:])
