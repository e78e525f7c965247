"""Copies between log directories on a real broker: the tuner steers their limit, survives a kill, and leaves nothing behind.

The copies and their traffic are measured. The client latency is invented, so that a test can change it at an exact moment.
"""

from __future__ import annotations

import json
import signal
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from lab_parts import RHEOSTAT, rheostat, running, until
from story_kit import make_topic

from rheostat.config.settings import load_settings
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.node import free_ports
from rheostat.orders.send import read_orders
from rheostat.status.journal import read_journal_state
from streaming.collector import jmx
from streaming.shared.contract import BrokerSignal, Metric, Topics, encode_signal, signal_key
from streaming.shared.kafka import producer
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka_names import LOG_DIR_RATE
from streaming.shared.topics import ensure_topics
from tuner.core.throttle_limits import MB

T = TypeVar("T")
LAB = LabSpec(brokers=1, log_dir_count=2)
TOPICS = Topics.with_prefix("rheostat")
PARTITIONS, MEGABYTES = 4, 200
START, CEILING = 500_000, 1_200_000
TUNER: dict[str, Any] = {
    "objective": {"latency_ms": 50},
    "capacity": {"in_bytes_per_s": 60 * MB, "out_bytes_per_s": 60 * MB},
    "rate_bytes_per_s_max": CEILING,
    "rate_bytes_per_s_min": 200_000,
    "cycle_s": 1,
}
WELL_MS, SLOW_MS = 5.0, 80.0  # Produce latencies below and above the objective.


program = partial(rheostat, timeout_s=150.0)


class Signals:
    """Writes a signal of broker 1 per second: the copied bytes are those of its agent, the latency is ``p99_ms``."""

    def __init__(self, lab: Lab) -> None:
        self.p99_ms = WELL_MS
        self._lab = lab
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="signals", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=30)

    def _run(self) -> None:
        sender = producer(self._lab.kafka_settings(), "test-signals", linger_ms=0)
        while not self._stop.wait(1.0):
            at_ms = round(time.time() * 1000)
            try:
                samples = jmx.read_samples(self._lab.nodes[1].jmx_url, 5.0, jmx.Access())
            except jmx.ScrapeError:
                continue  # Like a collector on a slow machine: the next scrape may be answered.
            copied = next((s.value for s in samples if s.name == Metric.LOG_DIR_COPIED), None)
            sent = BrokerSignal(
                "lab", 1, at_ms, at_ms, 6, 1.0, produce_p99_ms=self.p99_ms, produce_mean_ms=self.p99_ms / 4,
                client_in_bytes_per_s=10.0 * MB, request_handler_idle_ratio=0.9, log_dir_copied_bytes_per_s=copied,
            )  # fmt: skip
            sender.send(TOPICS.signals, key=signal_key(sent), value=encode_signal(sent))
        sender.close(timeout=5)


class Stage:
    """A topic on one broker, signals, and a tuner that can be started and killed."""

    def __init__(self, lab: Lab, folder: Path, **tuner: Any) -> None:
        self.port = free_ports(1)[0]
        self.config = folder / "rheostat.yaml"
        self.config.write_text(lab_config(lab, http={"port": self.port}, **tuner))
        self.settings = load_settings(self.config)
        self._lab, self._folder = lab, folder
        self._stack = ExitStack()

    def __enter__(self) -> Stage:
        self.client = self._stack.enter_context(ClusterClient(self._lab.kafka_settings(), "test"))
        ensure_topics(self.client, TOPICS)
        if not self.client.partitions(["logs"]):
            make_topic(self._lab, "logs", {p: [1] for p in range(PARTITIONS)}, MEGABYTES)
        self.signals = Signals(self._lab)
        self._stack.callback(self.signals.stop)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start_tuner(self) -> Any:
        number = len(list(self._folder.glob("tune-*.log")))
        log = self._folder / f"tune-{number}.log"
        return self._stack.enter_context(running(*RHEOSTAT, "tune", "--config", self.config, log=log))

    def begin_copies(self, limit: float | None) -> None:
        """Sets the limit, and moves each partition of the topic to the other log directory of the broker."""
        self.set_limit(limit)
        places = self._lab.nodes[1].log_dirs
        moves = {
            ("logs", p, 1): str(next(folder for folder in places if not (folder / f"logs-{p}").exists()))
            for p in range(PARTITIONS)
        }
        with self._lab.admin() as admin:
            admin.alter_replica_log_dirs(moves)
        until(self.copies, 20, "the copies begin")

    def cancel_copies(self) -> None:
        """Names the present log directory of each partition as its target, which makes Kafka drop the copies."""
        stay = {
            ("logs", p, 1): str(
                next(folder for folder in self._lab.nodes[1].log_dirs if (folder / f"logs-{p}").exists())
            )
            for p in range(PARTITIONS)
        }
        with self._lab.admin() as admin:
            admin.alter_replica_log_dirs(stay)
        self.until("the copies end", lambda: not self.copies())

    def set_limit(self, limit: float | None) -> None:
        text = None if limit is None else str(round(limit))
        assert self.client.alter_broker_configs({1: {LOG_DIR_RATE: text}}) == {1: None}
        until(lambda: self.limit() == (None if limit is None else round(limit)), 10, "the limit is in force")

    def copies(self) -> tuple[Any, ...]:
        found = self.client.log_dir_copies([1])[1]
        assert isinstance(found, tuple), found
        return found

    def limit(self) -> int | None:
        configs = self.client.broker_configs([1], [LOG_DIR_RATE])[1]
        assert isinstance(configs, dict), configs
        return int(configs[LOG_DIR_RATE].value) if LOG_DIR_RATE in configs else None

    def row(self, *reasons: str) -> dict[str, Any] | None:
        """Returns the copies of broker 1 in the status, if their reason is one of these."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/status", timeout=2) as answer:
                rows = json.loads(answer.read())["log_dirs"]
        except OSError:
            return None
        return next((row for row in rows if not reasons or row["reason"] in reasons), None)

    def until(self, what: str, probe: Callable[[], T], timeout_s: float = 90.0) -> T:
        return until(probe, timeout_s, lambda: f"{what}; limit {self.limit()}, row {self.row()}")

    def decided(self) -> list[str]:
        rings = {"entry": 1000, "steering": 1000}
        entries = read_journal_state(self.settings, rings).state.entries
        return [f"{e.action} {e.reason}" for ring in rings for e in entries[ring] if e.action.endswith("_log_dir")]


@pytest.fixture
def stage(lab: Lab, tmp_path: Path) -> Iterator[Stage]:
    with Stage(lab, tmp_path, **TUNER) as made:
        yield made


def test_copies_are_sped_up_survive_a_kill_and_leave_the_earlier_limit(stage: Stage) -> None:
    tuner = stage.start_tuner()
    stage.begin_copies(START)
    stage.until("the copies are in the status", stage.row)
    stage.until("the limit rises", lambda: (stage.limit() or 0) > 1.2 * START)

    audit = program("throttles", "--config", stage.config, "--json")
    (throttle,) = json.loads(audit.stdout)["throttles"]
    assert (throttle["kind"], throttle["owner"], throttle["serves"]) == ("log_dir_rate", "rheostat", "moves")
    shown = program("status", "--config", stage.config)
    assert "Broker 1 copies" in shown.stdout, shown

    tuner.end(signal.SIGKILL)
    left = stage.limit() or 0
    stage.start_tuner()
    found = stage.until("the limit is managed again", lambda: (row := stage.row()) and row["managed"] and row)
    assert found["remaining_bytes"] > 0
    assert left <= (stage.limit() or 0) <= CEILING, "the successor goes on from the limit that it finds"
    assert stage.copies(), "the copies ended too soon: make the topic larger"

    stage.cancel_copies()
    stage.until("the earlier limit is back", lambda: stage.limit() == START)
    stage.until("nothing is managed", lambda: not read_orders(stage.settings).log_dirs.owned)
    needed = {"set_log_dir clients_well", "restore_log_dir copies_ended"}
    told = stage.until("the decisions are on record", lambda: needed <= set(found := stage.decided()) and found)
    assert "relinquish_log_dir external_change" not in told


def test_copies_are_slowed_while_clients_wait_and_a_release_restores(stage: Stage) -> None:
    stage.signals.p99_ms = SLOW_MS
    stage.start_tuner()
    stage.begin_copies(MB)
    stage.until("the limit falls", lambda: (stage.limit() or 0) <= 0.7 * MB)

    stage.set_limit(600_000)  # An operator's own limit is left alone.
    stage.until("the limit is left alone", lambda: stage.row("externally_owned"))
    assert stage.limit() == 600_000
    resumed = program("resume", "--config", stage.config)
    assert resumed.returncode == 0, resumed
    stage.until("the limit falls again", lambda: (stage.limit() or 0) < 600_000)

    released = program("release", "--yes", "--config", stage.config)
    assert released.returncode == 0, released
    stage.until("the limit before rheostat's last takeover is back", lambda: stage.limit() == 600_000)
    assert stage.copies(), "the copies ended too soon: make the topic larger"
    stage.until("the tuner is paused", lambda: stage.row("paused"))
    assert program("resume", "--config", stage.config).returncode == 0


def test_copies_are_only_reported_without_an_objective(lab: Lab, tmp_path: Path) -> None:
    with Stage(lab, tmp_path, rate_bytes_per_s_max=CEILING, rate_bytes_per_s_min=200_000, cycle_s=1) as stage:
        if not stage.copies():
            stage.begin_copies(500_000)
        stage.set_limit(400_000)
        stage.start_tuner()
        found = stage.until("the copies are reported", lambda: stage.row("no_objective"))
        assert found["remaining_bytes"] > 0
        assert not found["managed"]
        assert stage.limit() == 400_000
