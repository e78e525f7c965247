"""Runs Kafka's own command-line tools."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from rheostat.config.resources import conf_file
from rheostat.errors import CommandError
from rheostat.jvm.artifacts import Artifacts
from rheostat.jvm.java import find_java

TOOL_S_MAX = 60


def tool_command(artifacts: Artifacts, main_class: str, *arguments: str) -> list[str]:
    """Returns the command that runs a tool in its own JVM."""
    return [
        str(find_java().executable),
        "-Xmx256m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        f"-Dlog4j2.configurationFile={conf_file('jvm', 'log4j2-tools.xml')}",
        "-cp",
        artifacts.kafka_class_path,
        main_class,
        *arguments,
    ]


def reassign_partitions(
    artifacts: Artifacts, bootstrap_servers: str, target: Mapping[tuple[str, int], Sequence[int]], *options: str
) -> str:
    """Runs ``kafka-reassign-partitions`` with a plan for ``target``, and returns its output.

    Args:
        target: the brokers of each (topic, partition).

    Raises:
        CommandError: the tool failed.
    """
    plan = {
        "version": 1,
        "partitions": [{"topic": t, "partition": p, "replicas": list(replicas)} for (t, p), replicas in target.items()],
    }
    with tempfile.TemporaryDirectory(prefix="rheostat-plan-") as folder:
        file = Path(folder) / "plan.json"
        file.write_text(json.dumps(plan))
        command = tool_command(
            artifacts,
            "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
            "--bootstrap-server",
            bootstrap_servers,
            "--reassignment-json-file",
            str(file),
            *options,
        )
        done = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_S_MAX, check=False)
    if done.returncode != 0:
        raise CommandError(
            f"kafka-reassign-partitions {' '.join(options)} failed: {(done.stderr or done.stdout).strip()[-400:]}"
        )
    return done.stdout
