"""The rights that the doctor tries in a dry run, and those that it tries only if Kafka may create a topic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple
from typing import Any

import pytest

from rheostat.config.settings import Settings, parse_settings
from rheostat.doctor import cluster as doctor_cluster
from rheostat.doctor.cluster import rights
from rheostat.doctor.findings import Finding, FindingVerdict
from streaming.shared import kafka_names
from streaming.shared.kafka.cluster import MissingPermission, PartitionState

INTERNAL = {kafka_names.GROUPS_TOPIC, kafka_names.TRANSACTIONS_TOPIC}
COORDINATED = {
    "right: Read on Group rheostat-tuner-c", "right: Write on TransactionalId rheostat-tuner-c",
    "right: Describe on Group rheostat-tuner-c",
}  # fmt: skip
STANDBY = {"right: Read on Group rheostat-collect-c", "right: Read on Group rheostat-stream-c"}
WRITES = COORDINATED | {"right: AlterConfigs on Cluster", "right: AlterConfigs on Topic", "right: Alter on Cluster"}


class Cluster:
    """One broker that allows all reads, and no write."""

    def __init__(self, topics: Iterable[str]) -> None:
        self.topics = set(topics)
        self.coordinators_found = 0

    def partitions(self, topics: Iterable[str] | None = None) -> list[PartitionState]:
        found = self.topics if topics is None else self.topics & set(topics)
        return [PartitionState(topic, 0, 1, (1,), (1,)) for topic in found]

    def reassignments(self) -> list[PartitionState]:
        return []

    def log_sizes(self, *_: object) -> dict[int, object]:
        return {}

    def broker_configs(self, *_: object) -> dict[int, object]:
        return {}

    def topic_configs(self, *_: object) -> dict[str, object]:
        return {}

    def alter_broker_configs(self, *_: object, validate_only: bool) -> dict[int, MissingPermission]:
        assert validate_only
        return {1: MissingPermission("AlterConfigs on Cluster", "a call")}

    def alter_topic_configs(self, *_: object, validate_only: bool) -> dict[str, MissingPermission]:
        assert validate_only
        return {"orders": MissingPermission("AlterConfigs on Topic", "a call")}

    def may_alter(self) -> None:
        raise MissingPermission("Alter on Cluster", "a call")

    def may_join(self, group: str) -> None:
        self._coordinator(f"Read on Group {group}")

    def may_describe(self, group: str) -> None:
        self._coordinator(f"Describe on Group {group}")

    def may_transact(self, transactional_id: str) -> None:
        self._coordinator(f"Write on TransactionalId {transactional_id}")

    def _coordinator(self, right: str) -> None:
        self.coordinators_found += 1
        raise MissingPermission(right, "a call")


def settings_of(dry_run: str = "") -> Settings:
    return parse_settings(
        "cluster: c\nkafka: {bootstrap_servers: 'a:1'}\nstream: {checkpoint_dir: /x}\n"
        f"tuner: {{rate_bytes_per_s_max: 50MB/s{dry_run}}}\n",
        "f.yaml", {},
    )  # fmt: skip


def tried(cluster: Cluster, dry_run: str, *, create: bool) -> dict[str, Finding]:
    client: Any = cluster
    return {finding.check: finding for finding in rights(client, [1], settings_of(dry_run), create=create)}


@pytest.mark.parametrize(
    ("dry_run", "verdict"),
    [
        ("", FindingVerdict.ADVICE),
        (", dry_run: true", FindingVerdict.ADVICE),
        (", dry_run: false", FindingVerdict.FAILED),
    ],
)
def test_missing_right_to_write_is_advice_in_a_dry_run(dry_run: str, verdict: FindingVerdict) -> None:
    found = tried(Cluster({"orders", *INTERNAL}), dry_run, create=False)
    assert {check for check, finding in found.items() if finding.verdict is not FindingVerdict.OK} == WRITES | STANDBY
    for check in WRITES:
        assert found[check].verdict is verdict
        assert "missing right: " in found[check].found
        assert found[check].found.endswith("with dry_run: false it is needed") is (verdict is FindingVerdict.ADVICE)
    for check in STANDBY:
        assert found[check].verdict is FindingVerdict.ADVICE
        assert "Without this right rheostat works on one host" in found[check].found


def test_rights_for_which_kafka_creates_a_topic_wait_for_create() -> None:
    cluster = Cluster({"orders"})
    found = tried(cluster, ", dry_run: false", create=False)
    assert cluster.coordinators_found == 0
    for check in COORDINATED | STANDBY:
        assert found[check].verdict is FindingVerdict.ADVICE
        assert found[check].found.startswith("not tested, because the test would make Kafka create the topic __")
        assert "rheostat doctor --create" in found[check].do

    found = tried(cluster, ", dry_run: false", create=True)
    assert {found[check].verdict for check in COORDINATED} == {FindingVerdict.FAILED}


def test_reads_that_only_commands_need_are_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    class Topics(Cluster):
        def missing_operations(self, topics: Iterable[str]) -> dict[str, list[str]]:
            return {topic: ["Read", "Write"] for topic in topics}

    for name, answer in {"missing_topics": [], "create_topics": None, "topic_complaints": []}.items():
        monkeypatch.setattr(doctor_cluster, name, lambda *_, answer=answer, **__: answer)
    client: Any = Topics(())
    settings = settings_of()
    used = astuple(settings.topic_names())
    findings = doctor_cluster.topics(client, settings, settings.kafka, used, create=False)
    found = {finding.check: finding for finding in findings}
    for topic in ("inputs", "rejects"):
        read = found[f"right: Read on Topic rheostat.{topic}"]
        assert read.verdict is FindingVerdict.ADVICE
        assert read.found.startswith(f"missing right: Read on Topic rheostat.{topic}. ")
        assert f"--operation Read --topic 'rheostat.{topic}'" in read.do
        assert found[f"right: Write on Topic rheostat.{topic}"].verdict is FindingVerdict.FAILED
    assert found["right: Read on Topic rheostat.signals"].verdict is FindingVerdict.FAILED
