"""Labs whose controllers have the CreateTopicPolicy, Kafka's own kafka-topics, and the limits file."""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from lab_parts import rheostat, until

from rheostat.jvm.artifacts import resolve_artifacts
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.tools import TOOL_S_MAX, tool_command
from rheostat.limits.policy.export import controller_settings, policy_jar

CONTROLLER = 100
READ_S_MAX = 15.0  # The policy reads the file each second; machines may be busy.
COUNTS = {1: 8, 2: 6, 3: 9}  # The brokers of the KIP's example, whose limit is 10.
_SERIES = re.compile(r"^rheostat_create_topic_policy_(\w+) ([\d.eE+-]+)$", re.MULTILINE)


@contextmanager
def policy_lab(limits_file: Path, kafka: str | None = None, settings: Mapping[str, str] | None = None) -> Iterator[Lab]:
    """Runs three brokers and a controller with the policy."""
    spec = LabSpec(
        brokers=3,
        kafka=kafka,
        plugins=(policy_jar(resolve_artifacts()),),
        settings=settings or {},
        settings_by_node={CONTROLLER: controller_settings(str(limits_file))},
    )
    with Lab(spec) as lab:
        yield lab


def kafka_topics(lab: Lab, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = tool_command(
        lab.artifacts, "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", lab.bootstrap_servers, *arguments
    )
    return subprocess.run(command, capture_output=True, text=True, timeout=TOOL_S_MAX, check=False)


def create(lab: Lab, topic: str, partitions: int, replication: int) -> str | None:
    """Creates a topic as a tenant would; returns Kafka's refusal, or None."""
    options = ("--partitions", str(partitions), "--replication-factor", str(replication))
    done = kafka_topics(lab, "--create", "--topic", topic, *options)
    return None if done.returncode == 0 else done.stdout + done.stderr


def fill(lab: Lab) -> None:
    """Creates topics until the brokers host ``COUNTS``, with internal topics besides, which do not count."""
    for broker, count in COUNTS.items():
        assert create_placed(lab, f"old-{broker}", [str(broker)] * count) is None
    assert create_placed(lab, "__consumer_offsets", ["1:2:3"] * 4) is None


def create_placed(lab: Lab, topic: str, replicas: list[str]) -> str | None:
    done = kafka_topics(lab, "--create", "--topic", topic, "--replica-assignment", ",".join(replicas))
    return None if done.returncode == 0 else done.stdout + done.stderr


def config_with_limits(lab: Lab, folder: Path, **limits: object) -> Path:
    file = folder / "limits.yaml"
    file.write_text(json.dumps({**json.loads(lab_config(lab)), "limits": limits}))
    return file


def count(lab: Lab, config: Path, limits_file: Path) -> None:
    """Writes the limits file with the present counts, and waits until the policy has read it."""
    done = rheostat("limits", "policy", "keep", limits_file, "--config", config, "--once")
    assert done.returncode == 0, done.stderr
    written_ms = re.search(r"counted.at.ms=(\d+)", limits_file.read_text())
    assert written_ms is not None
    counted_s = int(written_ms[1]) / 1000

    def has_read() -> bool:
        """Whether the policy's age of the counts fits the file; the answer may take long on a busy machine."""
        earliest_s = time.time() - counted_s
        return earliest_s - 0.5 < figures(lab)["countsageseconds"] < time.time() - counted_s + 0.5

    until(has_read, READ_S_MAX, "the policy reads the new counts")


def figures(lab: Lab) -> dict[str, float]:
    """Returns the policy's figures from the JMX agent of the controller."""
    with urllib.request.urlopen(lab.nodes[CONTROLLER].jmx_url, timeout=10) as answer:
        return {name: float(value) for name, value in _SERIES.findall(answer.read().decode())}
