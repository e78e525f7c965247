"""A plan that exceeds the disk of its destination is refused by name; one that just fits is accepted with a note."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka.admin import NewTopic
from lab_parts import MakeLab, rheostat, until

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.load import ProducerLoad
from streaming.shared.kafka.reassignments import ReassignmentClient

# One disk, which all brokers say is theirs: over half of it is in use, so a copy of all does not fit, and of the large one does.
DISK_MIB, LARGE_BYTES, SMALL_BYTES = 512, 215_000_000, 80_000_000
TOPICS = {"large": LARGE_BYTES, "small": SMALL_BYTES}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(folder)],
        capture_output=True, text=True, timeout=10, check=False,
    )  # fmt: skip
    if mounted.returncode != 0:
        pytest.skip(f"needs the right to mount a small disk: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], timeout=10, check=True)


def filled(lab: Lab, topic: str, total_bytes: int) -> None:
    with ProducerLoad(
        lab.artifacts, lab.bootstrap_servers, topic, rate_bytes_per_s=None, record_bytes=100_000, total_bytes=total_bytes
    ) as load:  # fmt: skip
        load.wait(60)


def test_plan_exceeding_disk_space_is_refused_by_name(small_disk: Path, make_lab: MakeLab, tmp_path: Path) -> None:
    lab = make_lab(LabSpec(brokers=2, folder=small_disk))
    with lab.admin() as admin:
        admin.create_topics([NewTopic(topic, replica_assignments={0: [1]}) for topic in TOPICS])
    config = tmp_path / "rheostat.yaml"
    config.write_text(lab_config(lab))
    with ReassignmentClient(lab.kafka_settings(), "test") as client:
        until(lambda: len(client.partitions(TOPICS)) == len(TOPICS), 20, "the topics are there")
        for topic, total_bytes in TOPICS.items():
            filled(lab, topic, total_bytes)

        def dry(*topics: str) -> subprocess.CompletedProcess[str]:
            plan = tmp_path / "plan.json"
            entries = [{"topic": topic, "partition": 0, "replicas": [2]} for topic in topics]
            plan.write_text(json.dumps({"version": 1, "partitions": entries}))
            return rheostat("reassign", "start", plan, "-c", config, "--measure-for", "0", "--dry-run")

        refused = dry(*TOPICS)
        assert refused.returncode == 1, refused.stderr
        assert "broker 2: the plan copies 295 MB to it, and its disks have 2" in refused.stderr
        assert "add disk space, or move less" in refused.stderr
        fits = dry("large")
        assert fits.returncode == 0, fits.stderr
        assert "broker 2: its disks will be 9" in fits.stderr
        assert fits.stdout == "large-0: (1) → (2)\n"
        assert not client.reassignments()
