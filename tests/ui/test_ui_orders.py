"""Orders over HTTP on a real cluster: the record equals that of the commands, and concurrent orders do not overwrite each other."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from rheostat.config.settings import load_settings
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.orders import send as commands
from streaming.shared.contract import Side
from streaming.shared.kafka import KafkaSettings, producer
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.topics import ensure_topics
from tuner.api.load_history import load_history
from tuner.api.orders_api import KafkaOrderService, OrderNotRecorded, pause_change, resume_change
from tuner.core.operator_orders import Orders
from tuner.core.throttle_limits import MB
from tuner.journal.entries import Entry
from tuner.journal.kafka_journal import KafkaJournal


def test_page_order_is_recorded_and_keeps_command_orders(tmp_path: Path) -> None:
    file = tmp_path / "rheostat.yaml"
    with Lab(LabSpec(brokers=1)) as lab, ClusterClient(lab.kafka_settings(), "test") as client:
        file.write_text(lab_config(lab))
        settings = load_settings(file, {})
        topics = settings.topic_names()
        ensure_topics(client, topics)
        # A loop that never reads: all that the desk knows it has read itself.
        order_service = KafkaOrderService(settings.kafka, topics.orders, settings.cluster, Orders, time.time)

        given = order_service.submit(pause_change("kim over HTTP from 10.1.2.3"))
        assert given.pause is not None
        assert given.pause.by.startswith("kim over HTTP from 10.1.2.3, 20")
        assert commands.read_orders(settings).orders == given

        ordered = commands.submit(settings, commands.override({(1, Side.LEADER): 5 * MB}, 600))
        assert ordered.pause == given.pause
        later = order_service.submit(resume_change("kim"))
        assert (later.pause, later.overrides) == (None, ordered.overrides)
        assert later.at_ms > ordered.at_ms
        assert commands.read_orders(settings).orders == later

        journal = KafkaJournal(producer(settings.kafka, "test-journal", linger_ms=0), topics.journal, settings.cluster)
        said = [
            Entry(at_ms=1, kind="intent", action="set", reason="cleared_by_tool", text="first"),
            Entry(2, "decision", "hold", "paused", "then"),
        ]
        journal.write(said)
        journal.close()
        found: list[Entry] = []
        load_history(settings.kafka, topics.journal, settings.cluster, found.extend)
        assert [entry.text for entry in found] == ["first", "then"]
        load_history(settings.kafka, topics.journal, "another", found.extend)
        assert len(found) == 2


def test_order_is_refused_when_no_cluster_answers() -> None:
    nowhere = KafkaSettings(bootstrap_servers="127.0.0.1:1", request_timeout_s=1)
    with pytest.raises(OrderNotRecorded, match="the order is not recorded"):
        KafkaOrderService(nowhere, "rheostat.orders", "lab", Orders, time.time).submit(resume_change("kim"))
    found: list[Entry] = []
    load_history(nowhere, "rheostat.journal", "lab", found.extend)
    assert found == []
