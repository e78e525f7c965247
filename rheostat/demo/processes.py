"""rheostat in the demo, started as a user would, in two steps: what measures from the first, what acts only for the rescue.

So nothing is turned while the move is left to itself, and yet Spark's start is not what the rescue waits for; on a real
cluster rheostat is there before the move, too.
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

_ACTS = "tune"


class DemoProcesses:
    def __init__(self, lab: Lab, **tuner: Any) -> None:
        self.log = lab.home / "logs" / "rheostat.log"
        config = lab.home / "rheostat.yaml"
        self._port = free_ports(1)[0]
        config.write_text(lab_config(lab, **tuner, http={"port": self._port}))
        self.page = f"http://127.0.0.1:{self._port}/"
        self.settings: Settings = load_settings(config)
        children = children_for(config, dry_run=False)
        self._measures = Supervisor([child for child in children if child.name != _ACTS], log_to=self.log)
        self._acts = Supervisor([child for child in children if child.name == _ACTS], log_to=self.log)
        self._started: list[Supervisor] = []

    def measure(self) -> None:
        self._start(self._measures)

    def act(self) -> None:
        self._start(self._acts)

    def look(self) -> None:
        """
        Raises:
            CommandError: a part ended by itself.
        """
        for supervisor in self._started:
            supervisor.check()
            if restarts := [child.name for child in supervisor.children if child.restarts]:
                raise CommandError(f"{', '.join(restarts)} ended by itself: {self._last_words()}")

    def steady_state(self) -> None:
        """A part that ends is started again, as in `rheostat run`."""
        for supervisor in self._started:
            supervisor.check()

    def stop(self) -> None:
        """What acts goes first, as in `rheostat run`."""
        for supervisor in reversed(self._started):
            supervisor.stop()
        self._started.clear()  # Or the next look would start them again.

    def status(self) -> dict[str, Any] | None:
        """What the tuner says of itself; None while it does not."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/status", timeout=2) as answer:
                found: dict[str, Any] = json.loads(answer.read())
                return found
        except (OSError, ValueError):
            return None

    def _start(self, supervisor: Supervisor) -> None:
        self._started.append(supervisor)
        supervisor.check()

    def _last_words(self) -> str:
        return " | ".join(self.log.read_text(errors="replace").strip().splitlines()[-3:])
