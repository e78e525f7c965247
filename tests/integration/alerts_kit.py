"""rheostat's processes with Prometheus, Alertmanager and a receiver of the alerts."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from monitoring_kit import Monitoring
from story_kit import Running

from rheostat.config.settings import load_settings
from rheostat.lab.cluster import Lab
from rheostat.lab.node import free_ports


class WatchedProcesses(Running):
    """rheostat's processes, which Prometheus can scrape; the test may change their settings while they run."""

    def __init__(self, lab: Lab, sections: Mapping[str, Any], **tuner: Any) -> None:
        super().__init__(lab, **tuner)
        collector, stream = free_ports(2)
        self.ports = {"rheostat-tuner": self.port, "rheostat-collector": collector, "rheostat-stream": stream}
        self._body: dict[str, Any] = json.loads(self.config.read_text())
        self._body["collector"]["http"] = {"port": collector}
        self._body["stream"]["http"] = {"port": stream}
        self._body |= sections
        self.write()

    def write(self, **tuner: Any) -> None:
        self._body["tuner"] |= tuner
        self.config.write_text(json.dumps(self._body))
        self.settings = load_settings(self.config, {})

    def part(self, name: str) -> subprocess.Popen[bytes]:
        process = next(child for child in self.supervisor.children if child.name == name).process
        assert process is not None
        return process


class Scene:
    """rheostat's processes together with the monitoring that watches them."""

    def __init__(self, parts: WatchedProcesses, monitoring: Monitoring) -> None:
        self.parts, self.monitoring, self.ear = parts, monitoring, monitoring.ear

    def hears(self, receiver: str, alert: str, timeout_s: float, **labels: str) -> str:
        """Waits until the receiver is notified of the alert, and returns the text."""
        told = self.parts.until(f"{alert} is told", lambda: self.ear.heard(alert, **labels), timeout_s)
        assert told.receiver == receiver
        return told.description

    def hears_the_end_of(self, alert: str, timeout_s: float) -> None:
        self.parts.until(f"{alert} is told to be over", lambda: self.ear.heard(alert, "resolved"), timeout_s)

    def is_silenced(self, alert: str, timeout_s: float) -> None:
        self.parts.until(f"{alert} is silenced", lambda: self.monitoring.silenced(alert), timeout_s)


@contextmanager
def watched(lab: Lab, folder: Path, sections: Mapping[str, Any] | None = None, **tuner: Any) -> Iterator[Scene]:
    parts = WatchedProcesses(lab, sections or {}, **tuner)
    try:
        with Monitoring(folder / "monitoring", parts.ports) as monitoring:
            yield Scene(parts, monitoring)
    finally:
        parts.supervisor.stop()
