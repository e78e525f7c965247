"""Canary for kafka-python: fails when an upgrade removes or changes a private name that client_internals.py uses."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.consumer.fetcher import Fetcher
from kafka.errors import KafkaTimeoutError
from kafka.future import Future
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.memory_records import MemoryRecordsBuilder
from kafka.structs import OffsetAndTimestamp

from streaming.shared.kafka import client_internals

# With a given version the clients do not connect when they are made. Nothing listens on the discard port.
OFFLINE: dict[str, Any] = {"bootstrap_servers": "127.0.0.1:9", "api_version": (3, 9)}


@pytest.fixture
def consumer() -> Iterator[KafkaConsumer]:
    made = KafkaConsumer(group_id="canary", **OFFLINE)
    yield made
    made.close(timeout_ms=0)


@pytest.fixture
def producer() -> Iterator[KafkaProducer]:
    made = KafkaProducer(**OFFLINE)
    yield made
    made.close(timeout=0)


def test_admin_client_keeps_its_connection_manager() -> None:
    assert "self._manager = self._client._manager" in inspect.getsource(KafkaAdminClient.__init__)
    manager: Any = object()
    assert client_internals.connection_manager(SimpleNamespace(_manager=manager)) is manager
    for method in ("send", "wait_for", "run", "call_soon", "connection_delay", "least_loaded_node"):
        assert callable(getattr(KafkaConnectionManager, method))
    assert {"request", "node_id"} <= inspect.signature(KafkaConnectionManager.send).parameters.keys()


def test_network_thread_starts_and_stops() -> None:
    client = KafkaNetClient(**OFFLINE)
    client_internals.start_network_thread(client)
    client_internals.stop_network_thread(client)
    client.close()


def test_sender_has_a_network_client_and_stops(producer: KafkaProducer) -> None:
    assert callable(client_internals.sender_client(producer).await_ready)
    client_internals.stop_sender(producer, 5.0)
    assert not producer._sender.is_alive()


def test_group_member_has_heartbeat_times(consumer: KafkaConsumer) -> None:
    state = client_internals.heartbeat(consumer)
    assert state.last_send == state.last_receive == float("-inf")
    state.sent_heartbeat()
    assert state.last_send > 0


def test_fetch_partitions_repeats_request_until_they_are_known(
    consumer: KafkaConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    known: list[set[int] | None] = [None, None, {0}]
    updates: list[Future] = []

    def request_update() -> Future:
        updates.append(Future().success(None))
        return updates[-1]

    monkeypatch.setattr(consumer._cluster, "partitions_for_topic", lambda _: known[len(updates)])
    monkeypatch.setattr(consumer._cluster, "request_update", request_update)
    client_internals.fetch_partitions(consumer, "t", 60.0)
    assert len(updates) == 2


def test_fetch_partitions_without_broker_fails_at_timeout(consumer: KafkaConsumer) -> None:
    with pytest.raises(KafkaTimeoutError):
        client_internals.fetch_partitions(consumer, "t", 0.05)


def test_poll_until_ends_once_the_group_has_answered(consumer: KafkaConsumer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(inspect.signature(KafkaConsumer._poll_once).parameters)[:3] == ["self", "timer", "max_records"]
    polls: list[int] = []
    monkeypatch.setattr(consumer, "_poll_once", lambda timer, _: polls.append(timer.timeout_ms))
    client_internals.poll_until(consumer, 60.0, lambda: len(polls) == 3)
    assert len(polls) == 3
    assert all(59_000 < left_ms <= 60_000 for left_ms in polls)
    client_internals.poll_until(consumer, 0.0, lambda: False)
    assert polls[3:] == [0]


def test_newest_timestamps_leave_out_empty_partitions(consumer: KafkaConsumer, monkeypatch: pytest.MonkeyPatch) -> None:
    used, empty = TopicPartition("t", 0), TopicPartition("t", 1)
    asked: list[dict[TopicPartition, int]] = []

    def offsets_by_times(timestamps: dict[TopicPartition, int], _: int) -> dict[TopicPartition, Any]:
        asked.append(timestamps)
        return {used: OffsetAndTimestamp(5, 1_700_000_000_000, 0), empty: None}

    assert list(inspect.signature(consumer._fetcher.offsets_by_times).parameters) == ["timestamps", "timeout_ms"]
    monkeypatch.setattr(consumer._fetcher, "offsets_by_times", offsets_by_times)
    assert client_internals.newest_timestamps_ms(consumer, [used, empty]) == {used: 1_700_000_000_000}
    assert asked == [{used: -3, empty: -3}]


def test_network_sleep_lets_the_loop_run_meanwhile() -> None:
    client, order = KafkaNetClient(**OFFLINE), list[str]()

    async def sleep(delay_s: float) -> None:
        await client_internals.network_sleep(client._manager, delay_s)
        order.append(f"{delay_s:g}")

    async def sleep_twice() -> None:
        longer, shorter = (client._manager.call_soon(sleep, delay_s) for delay_s in (0.05, 0.01))
        await longer
        await shorter

    client._manager.run(sleep_twice)
    client.close()
    assert order == ["0.01", "0.05"]


def test_fetcher_reads_batches_with_partition_records(consumer: KafkaConsumer) -> None:
    assert client_internals.fetcher(consumer).PartitionRecords is Fetcher.PartitionRecords


def test_record_batch_has_buffer_and_position() -> None:
    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1 << 20)
    builder.append(1_700_000_000_000, b"key", b"value")
    builder.close()
    content, pos = client_internals.batch_content(DefaultRecordBatch(builder.buffer()))
    assert pos == DefaultRecordBatch.HEADER_STRUCT.size
    assert b"value" in bytes(content[pos:])
