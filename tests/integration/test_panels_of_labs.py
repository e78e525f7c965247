"""Every panel shows data at least once, during a rescued stall or during a plan under closed-loop control."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab_parts import RHEOSTAT, rheostat, running, until
from panels_kit import Prometheus, filled_in, prometheus, queries
from story_kit import make_topic, moving, storm

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.load import ProducerLoad
from rheostat.lab.node import free_ports
from rheostat.lab.tools import reassign_partitions
from streaming.shared.kafka.cluster import ClusterClient
from tuner.core.throttle_limits import MB

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(900)]

CEILING_BYTES_PER_S = 2 * MB
# Clients of two brokers leave no room on what they are said to carry: 1.5 MB/s of writes, and as much for their follower.
STEERED = {
    "rate_bytes_per_s_max": CEILING_BYTES_PER_S,
    "rate_bytes_per_s_min": 300_000,
    "capacity": {"in_bytes_per_s": 1.5 * MB, "out_bytes_per_s": 1.5 * MB},
    "metrics": {"partitions_named_max": 5},
    "mutation_quota": {
        "default_entity": "client-id", "objective": {"create_ms_max": 1.0, "create_probe_p90_ms_max": 1_000.0, "forwarding_busy_ratio_max": 0.5},
        "tenants": [{"client_id": "etl", "rate_per_s_min": 20}],
    },
}  # fmt: skip

# A lab lives for minutes, and these metrics need a history of hours. test_panels_live.py shows them.
NEEDS_HISTORY = re.compile(r"rheostat_(learn_|learned_|stream_history_|forecast_|baseline_|change_point|unusual_value)")


class ShownPanels:
    """The queries that have returned data at least once."""

    def __init__(self, asked: Prometheus) -> None:
        self._asked = asked
        self.shown: set[str] = set()

    def look(self) -> bool:
        self.shown |= {
            where for where, expr in queries() if where not in self.shown and self._asked.ask(filled_in(expr, "lab"))
        }
        return True

    def show(self, *words: str) -> bool:
        """Returns whether every query about these words has returned data."""
        self.look()
        return all(where in self.shown for where, _ in queries() if any(word in where for word in words))


@contextmanager
def monitored_rheostat(lab: Lab, folder: Path, **tuner: Any) -> Iterator[tuple[ShownPanels, Path]]:
    """Runs rheostat beside a lab, scraped by Prometheus; yields its settings file."""
    ports = dict(zip(("collect", "stream", "tune"), free_ports(3), strict=True))
    settings = yaml.safe_load(lab_config(lab, http={"port": ports["tune"]}, **{"mutation_quota": {}, **tuner}))
    settings["collector"]["http"] = {"port": ports["collect"]}
    settings["stream"]["http"] = {"port": ports["stream"]}
    settings["limits"] = {"max_broker_partitions": 1_000, "max_partitions": 2_000}
    config = folder / "rheostat.yaml"
    config.write_text(yaml.safe_dump(settings))
    with (
        prometheus(folder, ports) as asked,
        running(*RHEOSTAT, "run", "--config", config, log=folder / "run.log") as run,
    ):
        until(lambda: len(asked.ask("up == 1")) == 3 or not run.alive(), 90, "all three are scraped")
        assert run.alive()
        yield ShownPanels(asked), config


def rescued(folder: Path) -> set[str]:
    """A move from its stall to its end."""
    with Lab(LabSpec(brokers=3)) as lab, ClusterClient(lab.kafka_settings(), "test") as client:
        make_topic(lab, "orders", {p: [1, 2] for p in range(4)}, 120)
        load = ProducerLoad(
            lab.artifacts, lab.bootstrap_servers, "orders", rate_bytes_per_s=3 * MB, record_bytes=10_000
        )
        # The rest takes about a minute at this ceiling, so its expected end is seen.
        with load, monitored_rheostat(lab, folder, rate_bytes_per_s_max=9 * MB) as (boards, _):
            target = {("orders", p): [1, 3] for p in range(4)}
            reassign_partitions(lab.artifacts, lab.bootstrap_servers, target, "--execute", "--throttle", "4500000")
            until(lambda: boards.look() and not moving(client), 240, "the move ends", every_s=2.0)
            for _ in range(3):
                boards.look()
                threading.Event().wait(2)
            return boards.shown


def steered(folder: Path) -> set[str]:
    """A plan with an objective, a storm of topic creations, a silent broker, and operators who pause and override."""
    entries = [{"topic": "orders", "partition": p, "replicas": [1, 3]} for p in (0, 4)]
    plan = folder / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": entries}))
    # Four threads, and both partitions that move are the same one's.
    spec = LabSpec(brokers=3, broker_settings={"num.replica.fetchers": "4"})
    finish_at = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    settings = STEERED | {"objective": {"latency_ms": 2_000, "mode": "deadline", "finish_at": finish_at}}
    with Lab(spec) as lab, ClusterClient(lab.kafka_settings(), "test") as client:
        make_topic(lab, "orders", {p: [1, 2] for p in range(8)}, 320)
        load = ProducerLoad(
            lab.artifacts, lab.bootstrap_servers, "orders", rate_bytes_per_s=1.5 * MB, record_bytes=10_000
        )
        with load, monitored_rheostat(lab, folder, **settings) as (boards, config), storm(lab):

            def said(*words: str) -> subprocess.CompletedProcess[str]:
                done = rheostat(*words, "--config", config)
                assert done.returncode == 0, done.stderr
                return done

            def seen(what: str, *words: str, within_s: float = 90) -> None:
                until(lambda: boards.show(*words), within_s, f"{what}: {words}", every_s=1.0)

            seen(
                "the storm",
                "Creations and deletions",
                "Tokens left",
                "Quotas, by tenant",
                "refused topics",
                within_s=180,
            )
            said("override", "--yes", "--broker", "3", "--throttle", "300KB/s", "--for", "5m")
            said("reassign", "start", str(plan), "--measure-for", "0", "--yes", "--detach")
            seen(
                "the plan",
                "Concurrent movements",
                "Partitions of plans",
                "Plans that do not proceed",
                "override of an operator",
                "Unused fetcher threads",
            )
            seen("its partitions", "Largest moving partitions")
            seen("its deadline", "Time to the deadline")
            said("pause")
            seen("the pause", "annotation Paused by an operator")
            said("resume")
            seen("the law", "objective", "capacity", "No headroom", "Produce latency against its objective")
            node = lab.nodes[2].process
            assert node is not None
            node.send_signal(signal.SIGSTOP)
            try:
                seen("a broker that does not answer", "Failed scrapes")
            finally:
                node.send_signal(signal.SIGCONT)
            assert moving(client), "the plan was over before all of it was seen: make it longer"
            return boards.shown


def test_every_panel_shows_data_once(tmp_path: Path) -> None:
    shown: set[str] = set()
    for story in (rescued, steered):
        folder = tmp_path / story.__name__
        folder.mkdir()
        shown |= story(folder)
    assert sorted({where for where, expr in queries() if not NEEDS_HISTORY.search(expr)} - shown) == []
