"""`rheostat release --purge` on a real cluster: nothing of rheostat stays, and nothing else is touched."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafka.admin import NewTopic
from lab_parts import RHEOSTAT, rheostat, running, until, wait_for_metadata

from rheostat.config.settings import load_settings
from rheostat.errors import EXIT_BAD_INPUT, EXIT_DONE, EXIT_NOT_CONFIRMED, EXIT_NOT_WELL
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.orders.purge import PurgeScope, delete_all
from streaming.shared.contract import Side, Topics
from streaming.shared.kafka import producer
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.lease import lease_group
from streaming.shared.part_lease import part_lease
from streaming.shared.topics import ensure_topics
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.core.throttle_limits import MB
from tuner.journal.kafka_journal import KafkaJournal
from tuner.runtime.throttle.actuator import KafkaThrottles

STRANGER = "stranger"
LAB = LabSpec(brokers=2, users={STRANGER: "pw"})
TOPICS = Topics.with_prefix("rheostat")
OWN = {getattr(TOPICS, name) for name in Topics.__slots__}
FOREIGN = "rheostat.of-another-team"
SIDE = (1, Side.LEADER)


def as_stranger(lab: Lab) -> dict[str, str]:
    """Returns the environment variables of a user without any right."""
    return {
        "RHEOSTAT_KAFKA__BOOTSTRAP_SERVERS": lab.sasl_bootstrap_servers, "RHEOSTAT_KAFKA__SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "RHEOSTAT_KAFKA__SASL_MECHANISM": "PLAIN", "RHEOSTAT_KAFKA__SASL_USERNAME": STRANGER, "RHEOSTAT_KAFKA__SASL_PASSWORD": "pw",
    }  # fmt: skip


def topics_of(lab: Lab) -> set[str]:
    wait_for_metadata(lab)
    with ClusterClient(lab.kafka_settings(), "test") as client:
        return {state.topic for state in client.partitions()}


def groups_of(lab: Lab) -> set[str]:
    with lab.admin() as admin:
        return {one["group_id"] for one in admin.list_groups()}


def leave_managed_rate(lab: Lab) -> None:
    """Leaves a rate of 20 MB/s that was 5 MB/s before."""
    with ClusterClient(lab.kafka_settings(), "test") as client:
        ensure_topics(client, TOPICS)
        port = KafkaThrottles(client)
        assert port.write_rates({SIDE: 20 * MB}) == {SIDE: None}
        assert port.confirm_rates({SIDE: 20 * MB}) == {SIDE: None}
    made = producer(lab.kafka_settings(), "test-journal", linger_ms=0)
    journal = KafkaJournal(made, TOPICS.journal, "lab")
    journal.write(memory=Memory(owned={SIDE: OwnedRate(5 * MB, 20 * MB, (20 * MB,))}))
    journal.close()


def rate(lab: Lab) -> int | None:
    with ClusterClient(lab.kafka_settings(), "test") as client:
        found = KafkaThrottles(client).read_rates([SIDE])[SIDE]
    assert found is None or isinstance(found, int)
    return found


@contextmanager
def writing(lab: Lab, topic: str) -> Iterator[None]:
    """Writes a record each half second."""
    stop, sender = threading.Event(), producer(lab.kafka_settings(), "test-writer", linger_ms=0)

    def write() -> None:
        while not stop.wait(0.5):
            sender.send(topic, value=b"{}")

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(timeout=10)
        sender.close(timeout=5)


def test_purge_restores_settings_then_leaves_nothing(lab: Lab, tmp_path: Path) -> None:
    config = tmp_path / "rheostat.yaml"
    config.write_text(lab_config(lab))
    with ClusterClient(lab.kafka_settings(), "test") as client:
        ensure_topics(client, TOPICS)
    with lab.admin() as admin:
        admin.create_topics([NewTopic(FOREIGN, num_partitions=1, replication_factor=1)])

    with running(*RHEOSTAT, "tune", "--config", config, log=tmp_path / "tune.log") as run:
        until(lambda: any(line["event"] == "active" for line in run.lines()), 60, "the tuner acts")
        refused = rheostat("release", "--purge", "--yes", "--config", config)
        assert refused.returncode == EXIT_BAD_INPUT
        assert "Nothing was deleted: the tuner " in refused.stderr
        assert run.end(signal.SIGTERM) == 0
    assert topics_of(lab) >= OWN

    with running(*RHEOSTAT, "collect", "--config", config, log=tmp_path / "collect.log") as run:
        until(lambda: any(line["event"] == "the collector acts" for line in run.lines()), 60, "the collector runs")
        refused = rheostat("release", "--purge", "--yes", "--config", config)
        assert refused.returncode == EXIT_BAD_INPUT
        assert f"the consumer group {lease_group('lab', 'collect')} has members, so a collector runs" in refused.stderr
        assert run.end(signal.SIGTERM) == 0

    # A stream whose sources are silent writes nothing. It is seen all the same.
    with part_lease(lab.kafka_settings(), "lab", "stream", TOPICS.signals) as lease:
        until(lease.acts, 30, "the stream has its lease")
        refused = rheostat("release", "--purge", "--yes", "--config", config)
        assert refused.returncode == EXIT_BAD_INPUT
        assert f"the consumer group {lease_group('lab', 'stream')} has members, so a stream runs" in refused.stderr

    with writing(lab, TOPICS.metrics):  # As a collector does that has no right to its group.
        refused = rheostat("release", "--purge", "--yes", "--config", config)
        assert refused.returncode == EXIT_BAD_INPUT
        assert f"records still arrive in {TOPICS.metrics}" in refused.stderr

    assert rheostat("release", "--purge", "--config", config).returncode == EXIT_NOT_CONFIRMED
    blind = rheostat("release", "--purge", "--yes", "--config", config, env=as_stranger(lab))
    assert blind.returncode == EXIT_NOT_WELL
    assert "missing right: Describe on Topic rheostat." in blind.stderr

    leave_managed_rate(lab)
    purged = rheostat("release", "--purge", "--yes", "--config", config, timeout_s=150)
    assert purged.returncode == EXIT_DONE, purged.stdout + purged.stderr
    assert "broker 1 leader throttle: 20.0 MB/s → 5.00 MB/s" in purged.stderr
    assert all(topic in purged.stderr for topic in OWN), "the confirmation names each topic"
    assert "`rheostat learn` must be stopped" in purged.stderr
    assert f"stay: {FOREIGN}" in purged.stderr
    assert f"Kafka forgets the transactional id {lease_group('lab')} by itself" in purged.stdout
    assert rate(lab) == 5 * MB
    assert topics_of(lab) & OWN == set()
    assert FOREIGN in topics_of(lab)
    assert not any(group.startswith("rheostat-") for group in groups_of(lab)), groups_of(lab)

    again = rheostat("release", "--purge", "--yes", "--config", config)
    assert (again.returncode, again.stdout.startswith("Nothing to delete: ")) == (EXIT_DONE, True), again.stderr
    assert topics_of(lab) & OWN == set(), "a second run does not create them"


def test_purge_without_right_to_delete_names_it(lab: Lab, tmp_path: Path) -> None:
    config = tmp_path / "rheostat.yaml"
    config.write_text(lab_config(lab))
    with ClusterClient(lab.kafka_settings(), "test") as client:
        ensure_topics(client, TOPICS)
    left = delete_all(load_settings(config, as_stranger(lab)), PurgeScope((TOPICS.journal,), (), ()))
    assert len(left) == 1
    assert f"missing right: Delete on Topic {TOPICS.journal}" in left[0]
    assert f"--operation Delete --topic '{TOPICS.journal}'" in left[0]
    assert TOPICS.journal in topics_of(lab)
