"""The group of the collectors has no coordinator. A collector waits for it, and then measures; without any group it does not wait."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from pathlib import Path

from hosts_kit import Host, hosts, report, wait_for
from kafka.admin import NewTopic
from lab_parts import MakeLab, until

from rheostat.lab.cluster import LabSpec
from streaming.shared import kafka_names
from streaming.shared.part_lease import UNANSWERED_S_MAX

PARTITIONS = 4


def ready_code(host: Host) -> int | None:
    """Returns the HTTP status of /readyz; None if nothing listens yet."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{host.ports['collector']}/readyz", timeout=2) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


def records(host: Host) -> float:
    return host.metric("collector", "rheostat_collector_records_total") or 0


def test_collector_of_a_cluster_without_groups_measures_at_once(make_lab: MakeLab, tmp_path: Path) -> None:
    # Kafka cannot create __consumer_offsets, as three brokers are needed for it.
    lab = make_lab(LabSpec(brokers=1, broker_settings={"offsets.topic.replication.factor": "3"}))
    host = Host(lab, tmp_path, "a", "collect", interval_s=1)
    with hosts(host):
        host.start()
        wait_for(lambda: records(host) > 3, 20, "records", host)
        wait_for(lambda: host.is_active("collector"), 20, "the collector is active", host)
        assert "acts without the lease" not in host.said()


def test_collector_without_a_coordinator_waits_and_then_measures(make_lab: MakeLab, tmp_path: Path) -> None:
    lab = make_lab(LabSpec(brokers=2, settings={"offsets.topic.num.partitions": str(PARTITIONS)}))
    on_second = {partition: [2] for partition in range(PARTITIONS)}
    with lab.admin() as admin:
        admin.create_topics(
            [
                NewTopic(
                    kafka_names.GROUPS_TOPIC, num_partitions=-1, replication_factor=-1, replica_assignments=on_second
                )
            ]
        )
    lab.nodes[2].kill()
    host = Host(lab, tmp_path, "a", "collect", interval_s=1)
    with hosts(host):
        host.start()
        began = time.monotonic()
        assert until(lambda: ready_code(host), 30, lambda: f"the collector listens\n{host.said()}") == 503
        wait_for(lambda: ready_code(host) == 200, 2 * UNANSWERED_S_MAX, "the collector is ready", host)
        report(f"ready after {time.monotonic() - began:.1f} s")
        assert time.monotonic() - began > UNANSWERED_S_MAX
        wait_for(lambda: records(host) > 3, 20, "records", host)
        wait_for(lambda: host.is_active("collector"), 20, "the collector is active", host)
        assert "acts without the lease: its consumer group has not answered for 30 s" in host.said()
        assert "on standby" not in host.said()
