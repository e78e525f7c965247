"""The doctor's findings about other sources' topics and about protected agents: exact texts with remedies."""

from __future__ import annotations

import base64
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rheostat.config.settings import Settings
from rheostat.doctor.agents import agents
from rheostat.doctor.examine import Finding, FindingVerdict
from rheostat.doctor.sources import source_elsewhere, source_of
from streaming.settings import SourceSettings
from streaming.shared.contract import Metric
from streaming.shared.kafka import KafkaSettings
from streaming.shared.kafka.cluster import (
    ClusterError,
    ConfigValue,
    MissingPermission,
    PartitionState,
    Unreachable,
)

TOPIC = "telegraf"
APPENDED, CREATED = "LogAppendTime", "CreateTime"
KAFKA = KafkaSettings(bootstrap_servers="kafka-1:9092,kafka-2:9092")
SOURCE = SourceSettings(topic=TOPIC, format="telegraf_json")
STATIC = 4  # DescribeConfigs' source of what stands in a broker's file.


class FakeClient:
    """A cluster with one topic of another collector."""

    def __init__(
        self,
        *,
        there: bool = True,
        missing: Iterable[str] = (),
        of_topic: Any = None,
        of_brokers: Iterable[Any] = (None, None),
    ) -> None:
        self.there, self.missing, self.of_topic = there, list(missing), of_topic
        self.of_brokers = list(of_brokers)

    def partitions(self, topics: Iterable[str]) -> list[PartitionState]:
        if isinstance(self.there, Exception):
            raise self.there
        return [PartitionState(t, 0, 1, (1,), (1,)) for t in topics] if self.there else []

    def missing_operations(self, topics: Iterable[str]) -> dict[str, list[str]]:
        return {topic: self.missing for topic in topics if self.missing}

    def topic_configs(self, topics: Iterable[str], keys: Iterable[str]) -> dict[str, dict[str, str]]:
        if isinstance(self.of_topic, Exception):
            raise self.of_topic
        return {t: dict.fromkeys(keys, self.of_topic) for t in topics} if self.of_topic is not None else {}

    def broker_configs(self, brokers: Iterable[int], keys: Iterable[str]) -> dict[int, Any]:
        (key,) = keys
        assert key == "log.message.timestamp.type"
        return {
            broker: value if isinstance(value, ClusterError) else {key: ConfigValue(value, STATIC)} if value else {}
            for broker, value in zip(brokers, self.of_brokers, strict=True)
        }


def examined(kafka: KafkaSettings = KAFKA, **cluster: Any) -> Finding:
    (finding,) = source_of(FakeClient(**cluster), [1, 2], SOURCE, kafka)  # type: ignore[arg-type]  # what it asks is there
    assert finding.check == "source telegraf"
    return finding


@pytest.mark.parametrize(
    "cluster",
    [
        {"of_topic": APPENDED},
        {"of_topic": APPENDED, "of_brokers": (CREATED, CREATED)},
        {"of_brokers": (APPENDED, APPENDED)},  # The brokers' own default is as good.
        {"of_topic": APPENDED, "missing": ["Write"]},  # We do not write there.
    ],
)
def test_topic_with_log_append_time_is_ok(cluster: dict[str, Any]) -> None:
    assert examined(**cluster).verdict is FindingVerdict.OK


@pytest.mark.parametrize(
    "cluster",
    [
        {},
        {"of_topic": CREATED, "of_brokers": (APPENDED, APPENDED)},
        {"of_brokers": (APPENDED, None)},
        {"of_brokers": (CREATED,) * 2},
    ],
)
def test_topic_with_create_time_fails_with_remedy(cluster: dict[str, Any]) -> None:
    finding = examined(**cluster)
    assert finding.verdict is FindingVerdict.FAILED
    assert "message.timestamp.type=CreateTime" in finding.found
    assert "a fast clock closes all windows" in finding.found
    assert finding.do == (
        "kafka-configs --bootstrap-server kafka-1:9092 --alter --entity-type topics --entity-name telegraf "
        "--add-config message.timestamp.type=LogAppendTime"
    )


def test_missing_topic_fails_with_setting() -> None:
    finding = examined(there=False)
    assert (finding.verdict, finding.found) == (
        FindingVerdict.FAILED,
        f"there is no topic {TOPIC} at kafka-1:9092,kafka-2:9092",
    )
    assert "stream.sources" in finding.do


@pytest.mark.parametrize(
    ("cluster", "verdict", "operation"),
    [
        (
            {"there": MissingPermission(f"Describe on Topic {TOPIC}", "to list partitions")},
            FindingVerdict.FAILED,
            "Describe",
        ),
        ({"missing": ["Read", "Write"], "of_topic": APPENDED}, FindingVerdict.FAILED, "Read"),
        # Reading it does not take this right; only the doctor's answer does.
        (
            {"of_topic": MissingPermission("DescribeConfigs on Topic", "to describe configs")},
            FindingVerdict.ADVICE,
            "DescribeConfigs",
        ),
    ],
)
def test_missing_right_remedy_names_the_sources_user(cluster: Any, verdict: FindingVerdict, operation: str) -> None:
    own = KafkaSettings(
        bootstrap_servers="elsewhere:9093", security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_username="reader",
        sasl_password="x",
    )  # fmt: skip
    finding = examined(own, **cluster)
    assert finding.verdict is verdict
    assert finding.do == (
        f"kafka-acls --bootstrap-server elsewhere:9093 --add --allow-principal User:reader --operation {operation} "
        f"--topic '{TOPIC}'"
    )


@pytest.mark.parametrize(
    ("cluster", "verdict"),
    [
        ({"there": Unreachable("cannot list partitions")}, FindingVerdict.FAILED),
        ({"of_topic": Unreachable("broker 1, describe topic configs")}, FindingVerdict.ADVICE),
        ({"of_brokers": (APPENDED, Unreachable("broker 2"))}, FindingVerdict.ADVICE),
    ],
)
def test_unreadable_topic_or_broker_is_not_ok(cluster: Any, verdict: FindingVerdict) -> None:
    finding = examined(**cluster)
    assert finding.verdict is verdict
    assert finding.do


def test_unreachable_source_cluster_is_one_finding() -> None:
    away = KafkaSettings(bootstrap_servers="127.0.0.1:9", request_timeout_s=0.5)
    (finding,) = source_elsewhere(SOURCE, away)
    assert (finding.verdict, finding.check) == (FindingVerdict.FAILED, "source telegraf")
    assert "127.0.0.1:9" in finding.found
    assert "stream.sources" in finding.do


# -- agents --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def agent() -> Iterator[str]:
    """The URL of a JMX agent that requires a password."""
    wanted = "Basic " + base64.b64encode(b"rheostat:open sesame").decode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.headers["Authorization"] == wanted else 401)
            self.end_headers()
            self.wfile.write(f"{Metric.CLIENT_IN} 1.0\n".encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/metrics"
    server.shutdown()
    server.server_close()
    thread.join(timeout=5)


def found_at_agents(folder: Path, **collector: Any) -> list[Finding]:
    settings = Settings.model_validate(
        {
            "cluster": "lab",
            "kafka": {"bootstrap_servers": "127.0.0.1:9"},
            "stream": {"checkpoint_dir": str(folder)},
            "tuner": {"rate_bytes_per_s_max": 50_000_000},
            "collector": collector,
        }
    )
    return list(agents(settings, {1: "127.0.0.1"}))


def test_agent_is_asked_with_the_collectors_password(agent: str, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("open sesame\n")
    (finding,) = found_at_agents(tmp_path, endpoints={1: agent}, username="rheostat", password_file=str(file))
    assert finding == Finding("JMX agent of node 1", FindingVerdict.OK, f"1 metrics at {agent}")


def test_agent_that_refuses_login_points_to_collector_username(agent: str, tmp_path: Path) -> None:
    (finding,) = found_at_agents(tmp_path, endpoints={1: agent})
    assert finding.verdict is FindingVerdict.FAILED
    assert "collector.username" in finding.found
    assert "jmx-exporter" not in finding.do


def test_missing_password_file_is_one_finding_with_its_setting(agent: str, tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    (finding,) = found_at_agents(tmp_path, endpoints={1: agent}, username="rheostat", password_file=gone)
    assert (finding.check, finding.verdict) == ("access to the JMX agents", FindingVerdict.FAILED)
    assert f"collector.password_file {gone}" in finding.found


@pytest.fixture
def cold_agent() -> Iterator[tuple[str, list[float]]]:
    """The URL of a JMX agent with delays for its first answers."""
    delays_s: list[float] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            threading.Event().wait(delays_s.pop(0) if delays_s else 0.0)
            with suppress(ConnectionError):
                self.send_response(200)
                self.end_headers()
                self.wfile.write(f"{Metric.CLIENT_IN} 1.0\n".encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/metrics", delays_s
    server.shutdown()
    server.server_close()
    thread.join(timeout=5)


def test_doctor_asks_a_slow_agent_again_before_it_fails(cold_agent: tuple[str, list[float]], tmp_path: Path) -> None:
    url, delays_s = cold_agent
    delays_s.append(1.0)
    (finding,) = found_at_agents(tmp_path, endpoints={1: url}, timeout_s=0.3)
    late = "but its first answer took longer than 0.3 s: normal for a JVM that has just started"
    assert (finding.verdict, finding.found) == (FindingVerdict.OK, f"1 metrics at {url}, {late}")


def test_doctor_fails_an_agent_slow_twice(
    cold_agent: tuple[str, list[float]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, delays_s = cold_agent
    delays_s += [1.0, 1.0]
    monkeypatch.setattr(sys.modules[agents.__module__], "_SECOND_TIMEOUT_S", 0.4)
    (finding,) = found_at_agents(tmp_path, endpoints={1: url}, timeout_s=0.3)
    assert (finding.verdict, finding.found) == (
        FindingVerdict.FAILED,
        f"{url}: no complete answer within 0.4 s, asked twice",
    )


def test_every_agent_has_a_finding_in_node_order(agent: str, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("open sesame\n")
    dead = "http://127.0.0.1:9/metrics"
    found = found_at_agents(
        tmp_path, endpoints={100: agent, 1: dead, 7: agent}, username="rheostat", password_file=str(file), timeout_s=1
    )
    assert [(f.check, f.verdict) for f in found] == [
        ("JMX agent of node 1", FindingVerdict.FAILED),
        ("JMX agent of node 7", FindingVerdict.OK),
        ("JMX agent of node 100", FindingVerdict.OK),
    ]
