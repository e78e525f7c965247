"""The metrics of a running stream: its process, a real broker's records, and Prometheus' own parser."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import yaml
from lab_parts import RHEOSTAT, running, until

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.node import free_ports
from streaming.shared.contract import Metric, NodeRole, Sample, Scrape, Topics
from streaming.shared.kafka import producer
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.metric_defs import BY_PROCESS
from streaming.shared.topics import ensure_topics

LAB = LabSpec(brokers=1)
STARTED_S_MAX = 120.0
# Several in each of many batches: as two batches end in a second, more often than anybody asks for their reports.
GARBAGE, GARBAGE_EVERY_S = 24, 0.25
# Of an outage, which this stream has not had, and of a period of the history, which is not over.
NOT_THERE = re.compile(r"backlog|restart|history_(period_timestamp|job)")


def test_stream_metrics_count_batches_and_rejects(lab: Lab, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    settings = yaml.safe_load(lab_config(lab))
    settings["stream"] |= {
        "checkpoint_dir": str(tmp_path / "checkpoint"), "driver_memory_mb": 512, "http": {"port": port},
    }  # fmt: skip
    config = tmp_path / "rheostat.yaml"
    config.write_text(yaml.safe_dump(settings))
    topics = Topics.with_prefix("rheostat")
    with ClusterClient(lab.kafka_settings(), "test") as client:
        ensure_topics(client, topics)
    sender = producer(lab.kafka_settings(), "test", linger_ms=0)

    def page() -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                return str(answer.read().decode())
        except (OSError, urllib.error.URLError):
            return ""

    def send() -> None:
        one = Scrape("lab", 1, NodeRole.BROKER, int(time.time() * 1000), (Sample(Metric.LEADER_COUNT, "", 1.0),))
        sender.send(topics.metrics, key=one.key(), value=one.value()).get(timeout=10)

    def value(name: str) -> float | None:
        found = re.findall(rf'^{name}{{[^}}]*cluster="lab"[^}}]*}} (\S+)$', page(), re.M)
        return sum(map(float, found)) if found else None

    with running(*RHEOSTAT, "stream", "--config", config, log=tmp_path / "stream.log") as run:
        until(lambda: page() or not run.alive(), STARTED_S_MAX, "the stream's page is there")
        assert run.alive()

        def reads() -> bool:
            send()
            return (value("rheostat_stream_input_rows_total") or 0.0) > 0.0

        # A new query begins with what comes after it has begun (stream.start: latest), and its page is there before.
        until(reads, STARTED_S_MAX, "the stream reads", every_s=1.0)
        for _ in range(GARBAGE):
            sender.send(topics.metrics, key=b"x", value=b"not a scrape").get(timeout=10)
            threading.Event().wait(GARBAGE_EVERY_S)

        defined = {
            m.name for m in (*BY_PROCESS["every process"], *BY_PROCESS["stream"]) if not NOT_THERE.search(m.name)
        }

        def not_told() -> set[str]:
            return defined - set(re.findall(r"^(rheostat_\w+?)(?:\{| )", page(), re.M))

        def all_is_told() -> bool:
            send()
            return not not_told() and (value("rheostat_stream_rejects_total") or 0.0) >= GARBAGE

        # A watermark there is from the second batch on.
        until(
            all_is_told, STARTED_S_MAX,
            lambda: f"all is told; {not_told()} is not, rejects {value('rheostat_stream_rejects_total')} of {GARBAGE}",
            every_s=1.0,
        )  # fmt: skip
        rejects = until(lambda: value("rheostat_stream_rejects_total"), 30, "the page answers")
        assert rejects == GARBAGE
        text = until(page, 30, "the page answers")
        assert 'part="stream"' in text
        if (promtool := shutil.which("promtool")) is not None:
            done = subprocess.run(
                [promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False
            )
            assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    sender.close()
