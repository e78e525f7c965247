"""All queries of all panels, and a real Prometheus that answers them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab_parts import until

from rheostat.lab.node import free_ports

ROOT = Path(__file__).parents[2]
SCRAPE_S = 0.5
RANGE = "15s"
BOARDS = {path.stem: json.loads(path.read_text()) for path in sorted((ROOT / "dashboards").glob("*.json"))}


def queries() -> Iterator[tuple[str, str]]:
    """Returns each query with its place on a dashboard; "All" brokers are selected."""
    for uid, board in BOARDS.items():
        for panel in board["panels"]:
            for target in panel.get("targets", ()):
                yield f"{uid}: {panel['title']}: {target['legendFormat']}", target["expr"]
        for annotation in board["annotations"]["list"]:
            yield f"{uid}: annotation {annotation['name']}", annotation["expr"]
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                yield f"{uid}: ${variable['name']}", re.sub(r"label_values\((.*), *\w+\)", r"\1", variable["query"])


def filled_in(expr: str, cluster: str) -> str:
    expr = expr.replace("$cluster", cluster).replace("$broker", ".*")
    return re.sub(r"\$__(rate_interval|range)\b|\b1m\b", RANGE, expr)


class Prometheus:
    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/"

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._url}-/ready", timeout=2) as got:
                return bool(got.status == 200)
        except OSError:
            return False

    def ask(self, expr: str) -> list[dict[str, Any]]:
        url = f"{self._url}api/v1/query?{urllib.parse.urlencode({'query': expr})}"
        with urllib.request.urlopen(url, timeout=10) as got:
            answer = json.loads(got.read())
        assert answer["status"] == "success", (expr, answer)
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found


@contextmanager
def prometheus(folder: Path, ports: dict[str, int]) -> Iterator[Prometheus]:
    """Starts Prometheus.

    Args:
        ports: job → port on this machine.
    """
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not on PATH: apt-get install prometheus")
    config = {
        "global": {"scrape_interval": f"{round(1000 * SCRAPE_S)}ms"},
        "scrape_configs": [
            {"job_name": job, "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]} for job, port in ports.items()
        ],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = free_ports(1)[0]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                program, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log, stderr=log,
        )  # fmt: skip
        try:
            asked = Prometheus(port)
            until(asked.ready, 30, "Prometheus is ready")
            yield asked
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)
