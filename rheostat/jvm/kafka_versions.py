"""The versions of Kafka that a lab can run besides the default one, each with its own jars.

conf/jvm has an Ivy file and a list of digests for each version. Kafka's tools, Spark and the JMX agent stay the same.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from rheostat.config.resources import conf_file
from rheostat.errors import BadInputError
from rheostat.jvm.artifacts import Artifacts, Progress, resolve_jars, silent

_FILE = re.compile(r"kafka-(\d+)\.(\d+)\.(\d+)\.xml")


def kafka_versions() -> tuple[str, ...]:
    """Returns the versions with jars of their own, the oldest first."""
    matches = [_FILE.fullmatch(file.name) for file in conf_file("jvm", "ivy.xml").parent.glob("kafka-*.xml")]
    found = sorted(tuple(int(part) for part in match.groups()) for match in matches if match is not None)
    return tuple(".".join(map(str, version)) for version in found)


def check_kafka_version(version: str) -> str:
    """Returns the full version for ``version``, which may lack the last number: 4.1 → 4.1.2.

    Raises:
        BadInputError: no lab can run this version.
    """
    known = kafka_versions()
    for candidate in known:
        if version in (candidate, candidate.rpartition(".")[0]):
            return candidate
    raise BadInputError(f"--kafka: expected one of {', '.join(known)}, found {version!r}.")


def node_artifacts(artifacts: Artifacts, version: str, progress: Progress = silent) -> Artifacts:
    """Returns the artifacts of nodes that run this version of Kafka; downloads its jars if they are missing.

    Args:
        version: as ``check_kafka_version`` returns it.

    Raises:
        SetupError: as ``resolve_jars``.
    """
    return replace(artifacts, kafka_jars=resolve_jars(_ivy_file(version), progress)["kafka"])


def _ivy_file(version: str) -> Path:
    return conf_file("jvm", f"kafka-{version}.xml")
