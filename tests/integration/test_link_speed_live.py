"""The speed of a link, as Prometheus forwards it from node_exporter, limits a move, and metrics, page and doctor name it.

The links of a lab are faster than the speed of this test, and a speed that a link exceeds limits less. So the test reads which limit
the decisions name, and not how fast the move is.

It is a campaign test, because it starts brokers and all processes of rheostat, and a move has to reach the speed of the link.
"""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from kafka.admin import NewTopic
from lab_parts import rheostat as program
from story_kit import Running, make_topic, moving, running

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.load import ProducerLoad
from rheostat.lab.tools import reassign_partitions
from streaming.shared.contract import Metric, Topics
from streaming.shared.kafka import consumer, producer
from streaming.shared.kafka.cluster import ClusterClient
from tuner.core.cluster import LiveCluster
from tuner.journal.topic_reader import read_records
from tuner.runtime.observe.cluster_reader import ClusterReader

TOPIC = "samples"
# The stream forgets a speed after 1.5 times the interval in the settings. A busy machine may delay some samples.
WRITE_EVERY_S, INTERVAL_S = 1.0, 15.0
SIGNAL_AGE_S_MAX = 60.0  # On a busy machine the stream may need half a minute for a batch.
LINK = 12_500_000
CEILING, THROTTLE = 60_000_000, 4_000_000
SPEEDS = {"lo": 1.25e9, "eth0": LINK, "veth1": 1.25e9, "eth1": -125_000.0}
SERIES = f'rheostat_link_speed_bytes_per_second{{cluster="lab",broker="1"}} {LINK}'
SOURCE = "the speed of the link, from the metrics of the machine"
OBJECTIVE = {"latency_ms": 5_000}  # On shared cores latency says more about the machine than about replication.


@contextmanager
def node_exporters(lab: Lab) -> Iterator[None]:
    """Writes what prometheus-kafka-adapter would: the speeds of broker 1's machine, and those of a machine without a broker."""
    sender, done = producer(lab.kafka_settings(), "test-samples"), threading.Event()

    def write() -> None:
        while not done.wait(WRITE_EVERY_S):
            when = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            for host in ("kafka-1.example.com:9100", "db-1.example.com:9100"):
                for device, speed in SPEEDS.items():
                    labels = {"__name__": Metric.LINK_SPEED, "instance": host, "device": device}
                    sample = {"timestamp": when, "value": f"{speed:g}", "name": Metric.LINK_SPEED, "labels": labels}
                    sender.send(TOPIC, value=json.dumps(sample).encode())
            sender.flush(timeout=10)

    thread = threading.Thread(target=write, name="node-exporters", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(timeout=15)
        sender.close(timeout=5)


def link_speeds(rheostat: Running) -> list[str]:
    """Returns the lines of the metric."""
    lines = answer(rheostat, "/metrics").splitlines()
    return [line for line in lines if line.startswith("rheostat_link_speed_bytes_per_second{")]


def answer(rheostat: Running, path: str) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{rheostat.port}{path}", timeout=5) as response:
            text: str = response.read().decode()
            return text
    except OSError:
        return ""


def doctors_capacity(rheostat: Running) -> str:
    shown = program("doctor", "--config", rheostat.config, "--json")
    (finding,) = [finding for finding in json.loads(shown.stdout) if finding["check"] == "capacity"]
    text: str = finding["found"]
    return text


def is_limited_by_link(rheostat: Running) -> bool:
    limit = "the broker's link carries 12.5 MB/s, according to the metrics of its machine"
    status = rheostat.status()
    return status is not None and any(limit in decision["text"] for decision in status["last_decisions"])


def has_rates(client: ClusterClient) -> bool:
    live = ClusterReader(client).snapshot(full=False)
    assert isinstance(live, LiveCluster), live
    return bool(live.rates)


@pytest.mark.campaign
def test_link_speed_of_node_exporter_limits_a_move_and_is_shown() -> None:
    with Lab(LabSpec(brokers=2)) as lab, ClusterClient(lab.kafka_settings(), "test") as client:
        make_topic(lab, "orders", {p: [1] for p in range(4)}, 600)
        with lab.admin() as admin:
            by_broker = {"message.timestamp.type": "LogAppendTime"}
            admin.create_topics([NewTopic(TOPIC, num_partitions=1, replication_factor=1, topic_configs=by_broker)])
        source = {"topic": TOPIC, "format": "prometheus_json", "interval_s": INTERVAL_S}
        with (
            ProducerLoad(lab.artifacts, lab.bootstrap_servers, "orders", rate_bytes_per_s=500_000, record_bytes=10_000),
            node_exporters(lab),
            running(
                lab, objective=OBJECTIVE, rate_bytes_per_s_max=CEILING, signal_age_s_max=SIGNAL_AGE_S_MAX
            ) as rheostat,
        ):
            settings = json.loads(rheostat.config.read_text())
            settings["stream"]["sources"] = [{**source, "hosts": {"kafka-1.example.com": 1}}]
            rheostat.config.write_text(json.dumps(settings))
            rheostat.until("rheostat is ready", lambda: (s := rheostat.status()) and s["ready"], 400)
            rheostat.until(
                "the metrics have the speed of broker 1 alone", lambda: link_speeds(rheostat) == [SERIES], 300
            )
            rheostat.until(
                "the page names the source", lambda: answer(rheostat, "/page/idle").count("speed of the link") == 1, 300
            )
            unknown = "unknown until the tuner has learned it during a move, from the latency of clients"
            rheostat.until(
                "the doctor names the source",
                lambda: doctors_capacity(rheostat) == f"broker 1: in and out 12.5 MB/s ({SOURCE}); broker 2: {unknown}",
                300,
            )

            target = {("orders", p): [1, 2] for p in range(4)}
            reassign_partitions(lab.artifacts, lab.bootstrap_servers, target, "--execute", "--throttle", str(THROTTLE))
            rheostat.until("a decision names the speed", lambda: is_limited_by_link(rheostat), 300)
            rheostat.until("the move ends", lambda: not moving(client), 600)
            rheostat.until("nothing is left", lambda: not has_rates(client), 300)

        rejects = consumer(lab.kafka_settings(), "test-rejects")
        refused = [record.value for record in read_records(rejects, Topics.with_prefix("rheostat").rejects)]
        rejects.close(timeout_ms=2000)
        assert refused == [], "no record of another machine is refused"
