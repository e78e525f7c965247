"""A real Prometheus and a real Alertmanager with the shipped files, and a webhook that receives the alerts.

The waiting times are shortened so that a test takes minutes: ``for`` and ``keep_firing_for`` become 5 to 15 s, the windows of two
and six minutes become 15 and 30 s, the hour of a stall becomes 15 s, and Alertmanager sends at once. Expressions, texts,
routes and inhibitions are as shipped.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
import yaml

from rheostat.lab.node import free_ports
from rheostat.run.process import spawn, stop

ROOT = Path(__file__).parents[2]
HURRY = 12


def with_short_times(rules: str, wait_s_max: int) -> str:
    """Returns the rules with shortened times: a twelfth, but at least a third of the longest."""

    def shorter(found: re.Match[str]) -> str:
        return f"{found[1]}: {min(wait_s_max, max(wait_s_max // 3, 60 * int(found[2]) // HURRY))}s"

    rules = re.sub(r"\b(for|keep_firing_for): (\d+)m$", shorter, rules, flags=re.M)
    assert not re.search(r"\bfor: \d+[mh]", rules), "a time that nobody has cut short"
    rules = rules.replace("[60m]", "[15s]").replace("offset 60m", "offset 15s")
    return rules.replace("[6m]", "[30s]").replace("offset 6m", "offset 30s").replace("[2m]", "[15s]")


def program(*names: str) -> str:
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        missing = f"{names[0]} is not on PATH: apt-get install prometheus prometheus-alertmanager"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return found


@dataclass(frozen=True, slots=True)
class Notification:
    """One alert in one notification."""

    receiver: str
    status: str  # firing or resolved
    labels: Mapping[str, str]
    description: str


class AlertReceiver:
    """The webhook of all receivers; the last part of the address is the receiver's name."""

    def __init__(self) -> None:
        told: list[Notification] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                told.extend(
                    Notification(
                        self.path.strip("/"), alert["status"], alert["labels"], alert["annotations"]["description"]
                    )
                    for alert in body["alerts"]
                )
                self.send_response(200)
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        self.told = told
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, name="ear", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join(timeout=5)
        self._server.server_close()

    def heard(self, alert: str, status: str = "firing", **labels: str) -> Notification | None:
        wanted = {"alertname": alert, **labels}
        return next((t for t in self.told if t.status == status and wanted.items() <= t.labels.items()), None)

    def times(self, alert: str) -> int:
        """Returns how often a receiver was notified that the alert fires."""
        return sum(t.status == "firing" and t.labels["alertname"] == alert for t in self.told)


class Monitoring:
    """Prometheus scrapes ``ports`` (job → port; other jobs are left out), Alertmanager notifies ``ear``."""

    def __init__(self, folder: Path, ports: Mapping[str, int], *, wait_s_max: int = 15, every_s: int = 2) -> None:
        self._folder, self._ports = folder, ports
        self._wait_s_max, self._every = wait_s_max, f"{every_s}s"
        self._teardown = ExitStack()

    def __enter__(self) -> Monitoring:
        prometheus, alertmanager = program("prometheus"), program("prometheus-alertmanager", "alertmanager")
        with ExitStack() as teardown:
            self.ear = AlertReceiver()
            teardown.callback(self.ear.close)
            self._prometheus, self._alertmanager = free_ports(2)
            self._folder.mkdir(exist_ok=True)
            self._start(
                teardown, alertmanager, f"--config.file={self._write_alertmanager()}",
                f"--storage.path={self._folder}/alertmanager", f"--web.listen-address=127.0.0.1:{self._alertmanager}",
                "--cluster.listen-address=",
            )  # fmt: skip
            self._start(
                teardown, prometheus, f"--config.file={self._write_prometheus()}",
                f"--storage.tsdb.path={self._folder}/prometheus", f"--web.listen-address=127.0.0.1:{self._prometheus}",
            )  # fmt: skip
            self._teardown = teardown.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._teardown.close()

    def _start(self, teardown: ExitStack, *command: str) -> None:
        process = spawn(command, log=self._folder / f"{Path(command[0]).name}.log")
        teardown.callback(stop, process, grace_s=10)

    def _write_prometheus(self) -> Path:
        shipped = ROOT / "conf" / "prometheus" / "prometheus.yaml"
        body = yaml.safe_load(shipped.read_text(encoding="utf-8"))
        rules = self._folder / "rules"
        rules.mkdir()
        for path in shipped.parent.glob(body["rule_files"][0]):
            (rules / path.name).write_text(
                with_short_times(path.read_text(encoding="utf-8"), self._wait_s_max), encoding="utf-8"
            )
        body["rule_files"] = [f"{rules}/*.yaml"]
        body["global"] = {"scrape_interval": self._every, "evaluation_interval": self._every}
        body["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{self._alertmanager}"]
        body["scrape_configs"] = [job for job in body["scrape_configs"] if job["job_name"] in self._ports]
        assert len(body["scrape_configs"]) == len(self._ports), self._ports
        for job in body["scrape_configs"]:
            job["static_configs"][0]["targets"] = [f"127.0.0.1:{self._ports[job['job_name']]}"]
        file = self._folder / "prometheus.yaml"
        file.write_text(yaml.safe_dump(body), encoding="utf-8")
        return file

    def _write_alertmanager(self) -> Path:
        body = yaml.safe_load((ROOT / "conf" / "alertmanager" / "alertmanager.yaml").read_text(encoding="utf-8"))
        for route in (body["route"], *body["route"]["routes"]):
            route |= {"group_wait": "1s", "group_interval": "1s"}
        for receiver in body["receivers"]:
            (hook,) = receiver["webhook_configs"]
            hook["url"] = hook["url"].replace("localhost:9095", f"127.0.0.1:{self.ear.port}")
        file = self._folder / "alertmanager.yaml"
        file.write_text(yaml.safe_dump(body), encoding="utf-8")
        return file

    def firing(self, alert: str, **labels: str) -> bool:
        """Returns whether the alert fires in Prometheus, notified or not."""
        found = _get(f"http://127.0.0.1:{self._prometheus}/api/v1/alerts")
        wanted = {"alertname": alert, **labels}.items()
        alerts = found["data"]["alerts"] if found else ()
        return any(a["state"] == "firing" and wanted <= a["labels"].items() for a in alerts)

    def silenced(self, alert: str, **labels: str) -> bool:
        """Returns whether Alertmanager inhibits the alert because of another."""
        found = _get(f"http://127.0.0.1:{self._alertmanager}/api/v2/alerts") or ()
        wanted = {"alertname": alert, **labels}.items()
        states = [a["status"] for a in found if wanted <= a["labels"].items()]
        return bool(states) and all(s["state"] == "suppressed" and s["inhibitedBy"] for s in states)


def _get(url: str) -> Any:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return json.loads(answer.read())
    except (urllib.error.URLError, OSError):
        return None
