"""Several labs that one `rheostat run` serves: a metrics cluster and the watched clusters."""

from __future__ import annotations

import json
import signal
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from lab_parts import RHEOSTAT, Running, running, until

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.node import free_ports
from tuner.core.throttle_limits import MB

STARTED_S_MAX = 240.0  # Also on a machine that is busy with other tests.
# On two shared cores latency says more about the machine than about replication.
TUNER = {
    "dry_run": False,
    "rate_bytes_per_s_max": 8 * MB,
    "rate_bytes_per_s_min": MB,
    "objective": {"latency_ms": 5_000},
    "capacity": {"in_bytes_per_s": 60 * MB, "out_bytes_per_s": 60 * MB},
}


def small_lab(brokers: int = 1) -> Lab:
    return Lab(LabSpec(brokers=brokers, heap_mb=300))


@dataclass(frozen=True, slots=True)
class Installation:
    """A settings file for several clusters.

    Attributes:
        config: the settings file.
        body: its content.
        ports: the port of the page by cluster; "collector" and "stream" of the metrics.
    """

    config: Path
    body: dict[str, Any]
    ports: dict[str, int]

    def status(self, cluster: str) -> dict[str, Any] | None:
        """Returns the status of the tuner of a cluster; None if it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[cluster]}/api/v1/status", timeout=2) as answer:
                return dict(json.loads(answer.read()))
        except OSError:
            return None

    def is_ready(self, cluster: str) -> bool:
        status = self.status(cluster)
        return status is not None and status["active"] and status["ready"]

    @contextmanager
    def running(self, log: Path) -> Iterator[Running]:
        with running(*RHEOSTAT, "run", "--config", self.config, log=log) as run:
            yield run
            run.end(signal.SIGTERM)

    def until_ready(self, run: Running, clusters: Sequence[str]) -> None:
        for cluster in clusters:
            until(partial(self.is_ready, cluster), STARTED_S_MAX, partial(self._state, cluster, run))

    def _state(self, cluster: str, run: Running) -> str:
        return f"{cluster} is ready: {self.status(cluster)}\n{run.said()[-2000:]}"


def installation(folder: Path, metrics: Lab, clusters: dict[str, Lab], **tuner: Any) -> Installation:
    """Writes a settings file for these clusters; ``metrics`` is the cluster "obs"."""
    ports = dict(zip((*clusters, "collector", "stream"), free_ports(len(clusters) + 2), strict=True))
    body: dict[str, Any] = {
        "cluster": "obs",
        "kafka": {"bootstrap_servers": metrics.bootstrap_servers},
        "collector": {"http": {"port": ports["collector"]}},
        "stream": {
            "checkpoint_dir": str(folder / "checkpoint"),
            "compiler": "quick",
            "start": "earliest",
            "http": {"port": ports["stream"]},
        },
        "learn": {"enabled": False},
        "tuner": {**TUNER, **tuner},
        "clusters": {
            name: {
                "kafka": {"bootstrap_servers": lab.bootstrap_servers},
                "collector": {"endpoints": lab.jmx_urls()},
                "tuner": {"http": {"port": ports[name]}},
            }
            for name, lab in clusters.items()
        },
    }
    config = folder / "rheostat.yaml"
    config.write_text(yaml.safe_dump(body))
    return Installation(config, body, ports)


@contextmanager
def labs(*brokers: int) -> Iterator[list[Lab]]:
    """Starts labs with these numbers of brokers."""
    with ExitStack() as stack:
        yield [stack.enter_context(small_lab(count)) for count in brokers]


@contextmanager
def frozen(lab: Lab) -> Iterator[None]:
    """Suspends all nodes of a cluster."""
    processes = [node.process for node in lab.nodes.values() if node.process is not None]
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            process.send_signal(signal.SIGCONT)
