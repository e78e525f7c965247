"""One cluster for each version of Kafka. ``make compat`` runs all versions, ``make test`` the oldest and the newest.

RHEOSTAT_COMPAT_VERSIONS: the versions, separated by spaces, or "all". RHEOSTAT_COMPAT_RESULTS: the file that gets a row a version.
RHEOSTAT_COMPAT_CONTAINERS: "1" runs each node in a container; its image is built here.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

# Waiting with a deadline and the like are the same for all tests with real parts.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

from compat_kit import STRANGER, chosen_versions
from container_lab import ContainerLab

from rheostat.jvm.java import find_java
from rheostat.jvm.kafka_versions import kafka_versions
from rheostat.lab.cluster import Lab, LabSpec

_outcomes: dict[str, dict[str, str]] = {}  # By version and test.


@pytest.fixture(scope="session", params=chosen_versions())
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def cluster(version: str) -> Iterator[Lab]:
    """Three brokers and a controller of this version, for all tests."""
    lab_class = ContainerLab if os.environ.get("RHEOSTAT_COMPAT_CONTAINERS") else Lab
    with lab_class(LabSpec(brokers=3, log_dir_count=2, kafka=version, users={STRANGER: "pw"})) as lab:
        yield lab


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Notes the outcome of each test by version; a failed fixture counts as a failed test."""
    test, _, version = report.nodeid.rpartition("::")[2].rstrip("]").partition("[")
    if version and (report.when == "call" or report.failed):
        _outcomes.setdefault(version, {})[test] = report.outcome


def pytest_sessionfinish() -> None:
    """Replaces the rows of the versions that ran. A row is the result of one run, so it shows which tests the run left out."""
    file = os.environ.get("RHEOSTAT_COMPAT_RESULTS")
    if file is None or not _outcomes:
        return
    path = Path(file)
    rows = {row["kafka"]: row for row in json.loads(path.read_text())} if path.exists() else {}
    date = time.strftime("%Y-%m-%d", time.gmtime())
    for version, outcomes in _outcomes.items():
        rows[version] = {
            "kafka": version,
            "date": date,
            "java": find_java().major,
            "tests": dict(sorted(outcomes.items())),
        }
    lines = [json.dumps(rows[version]) for version in kafka_versions() if version in rows]
    path.write_text("[\n  " + ",\n  ".join(lines) + "\n]\n")
