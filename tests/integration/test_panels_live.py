"""Every query of every panel, asked of a real Prometheus that scrapes the real pages: each has an answer.

What is told is made up (one cluster does not stall, hold a tenant back and lose records at once); who tells it, and how, is not:
the tuner's board behind its own HTTP server, the collector's and the stream's counts behind theirs. What a running lab shows is
in the second test, which is long.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab_parts import RHEOSTAT, running, until
from story_kit import make_topic

from rheostat.lab import Lab, LabSpec, Load
from rheostat.lab.keeper import lab_config
from rheostat.lab.node import free_ports
from rheostat.lab.tools import reassign_partitions
from streaming.kafka.cluster import ClusterClient
from streaming.metrics_server import serve
from tuner.api.server import HttpServer, make_app

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "unit"))

from metrics_rig import CLUSTER, Everything  # noqa: E402 - found by the path above

SCRAPE_S = 0.5
RANGE = "15s"
BOARDS = {path.stem: json.loads(path.read_text()) for path in sorted((ROOT / "dashboards").glob("*.json"))}


def queries() -> Iterator[tuple[str, str]]:
    """Where it stands, and what is asked; all brokers, as the variable's "All" says."""
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
    """
    Args:
        ports: by job, of what is scraped on this machine.
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


@pytest.fixture
def told() -> Iterator[tuple[Everything, dict[str, int]]]:
    """All three processes' pages, and where they are served."""
    everything = Everything(time.time)
    registries = everything.registries()
    with ExitStack() as stack:
        ports = {}
        for part in ("collect", "stream"):
            server = serve(registries[part], "127.0.0.1", 0)
            stack.callback(server.close)
            ports[part] = server.port
        app = make_app(everything.board, everything.quotas, registries["tune"], 5.0, time.time)
        tuner = HttpServer(app, "127.0.0.1", 0)
        tuner.start()
        stack.callback(tuner.stop)
        yield everything, ports | {"tune": tuner.port}


def test_every_query_of_every_panel_has_an_answer(told: tuple[Everything, dict[str, int]], tmp_path: Path) -> None:
    everything, ports = told
    everything.beat()
    with prometheus(tmp_path, ports) as asked:
        until(lambda: len(asked.ask("up == 1")) == 3, 20, "all three are scraped")
        pause = threading.Event()
        for _ in range(8):
            everything.beat()
            pause.wait(2 * SCRAPE_S)
        empty = [where for where, expr in queries() if not asked.ask(filled_in(expr, CLUSTER))]
        assert empty == []
        # An answer is this cluster's: of another there is none, but for counts, whose nothing is 0, and the list of clusters.
        elsewhere = [
            where
            for where, expr in queries()
            if "or vector(0)" not in expr and "$cluster" in expr and asked.ask(filled_in(expr, "another"))
        ]
        assert elsewhere == []


# What a lab that is well, but for one stalled move, has nothing of.
NOT_IN_THIS_LAB = {
    "objective": "no tuner.objective is set: the tuner rescues, and does not steer",
    "Clients leave no room": "the same",
    "override": "nobody overrides",
    "Largest moving partitions": "none is named unless tuner.metrics asks for it",
    "Held back": "no tenant is",
    "capacity": "no tuner.capacity is set",
}


@pytest.mark.campaign
@pytest.mark.timeout(420)
def test_a_stalled_move_in_a_lab_shows_in_every_panel_that_it_is_about(tmp_path: Path) -> None:
    """From the stall to the end of the move: what has had an answer once has shown data."""
    ports = dict(zip(("collect", "stream", "tune"), free_ports(3), strict=True))
    with Lab(LabSpec(brokers=3)) as lab, ClusterClient(lab.kafka_settings(), "test") as client:
        make_topic(lab, "orders", {p: [1, 2] for p in range(4)}, 120)
        settings = yaml.safe_load(lab_config(lab, http={"port": ports["tune"]}, mutation_quota={}))
        settings["collector"]["http"] = {"port": ports["collect"]}
        settings["stream"]["http"] = {"port": ports["stream"]}
        settings["limits"] = {"max_broker_partitions": 1_000, "max_partitions": 2_000}
        config = tmp_path / "rheostat.yaml"
        config.write_text(yaml.safe_dump(settings))
        with (
            prometheus(tmp_path, ports) as asked,
            Load(lab.artifacts, lab.bootstrap_servers, "orders", rate_bytes_per_s=3_000_000, record_bytes=10_000),
            running(*RHEOSTAT, "run", "--config", config, log=tmp_path / "run.log") as run,
        ):
            until(lambda: len(asked.ask("up == 1")) == 3 or not run.alive(), 90, "all three are scraped")
            assert run.alive()
            target = {("orders", p): [1, 3] for p in range(4)}
            reassign_partitions(lab.artifacts, lab.bootstrap_servers, target, "--execute", "--throttle", "4500000")
            shown: set[str] = set()

            def look() -> bool:
                shown.update(where for where, expr in queries() if asked.ask(filled_in(expr, "lab")))
                return not client.reassignments()

            until(look, 240, "the move ends", every_s=2.0)
            for _ in range(3):
                look()
                threading.Event().wait(2)
        silent = sorted({where for where, _ in queries()} - shown)
        unexplained = [where for where in silent if not any(word in where for word in NOT_IN_THIS_LAB)]
        assert unexplained == []
