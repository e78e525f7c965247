"""Gives access to private attributes of kafka-python 3.0. No other module names these attributes.

rheostat needs requests that kafka-python's public API does not offer, and clients that close reliably.
tests/unit/streaming/shared/kafka/test_client_internals.py fails when an upgrade of kafka-python removes or changes one of these
names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.net.compat import KafkaNetClient
from kafka.protocol.consumer.offsets import OffsetSpec
from kafka.util import Timer


def connection_manager(admin: KafkaAdminClient) -> Any:
    """Returns the manager that sends requests to named brokers (``send``, ``wait_for``, ``run``, ``call_soon``,
    ``connection_delay``, ``least_loaded_node``, ``cluster``)."""
    return admin._manager


async def network_sleep(manager: Any, delay_s: float) -> None:
    """Waits in the event loop of the manager."""
    await manager._net.sleep(delay_s)


def start_network_thread(client: KafkaNetClient) -> None:
    """Starts the client's network thread and waits until its loop runs."""
    client._net.start()
    client._net.run(_return_at_once)


def stop_network_thread(client: KafkaNetClient) -> None:
    client._net.stop()


def sender_client(producer: KafkaProducer) -> Any:
    """Returns the network client that the producer's sender thread uses (``await_ready``)."""
    return producer._sender._client


def stop_sender(producer: KafkaProducer, timeout_s: float) -> None:
    """Stops the producer's sender thread without sending its remaining records."""
    producer._sender.force_close()
    producer._sender.join(timeout_s)


def heartbeat(consumer: KafkaConsumer) -> Any:
    """Returns the heartbeat state of a group member (``last_send``, ``last_receive``: monotonic seconds)."""
    return consumer._coordinator.heartbeat


def fetch_partitions(consumer: KafkaConsumer, topic: str, timeout_s: float) -> None:
    """Waits until a consumer knows the partitions of a topic to which it subscribes, or until the timeout.

    Raises:
        kafka.errors.KafkaTimeoutError: no broker answered within the timeout.
    """
    timer = Timer(timeout_s * 1000)
    while consumer._cluster.partitions_for_topic(topic) is None and not timer.expired:
        consumer._net.run(consumer._manager.wait_for, consumer._cluster.request_update(), timer.timeout_ms)


def poll_until(consumer: KafkaConsumer, timeout_s: float, is_done: Callable[[], bool]) -> None:
    """Polls a group member that reads no records, until ``is_done()`` or the timeout.

    ``KafkaConsumer.poll`` would wait for the whole timeout, although the group has long answered.
    """
    timer = Timer(timeout_s * 1000)
    while True:
        consumer._poll_once(timer, 1)
        if is_done() or timer.expired:
            return


def fetcher(consumer: KafkaConsumer) -> Any:
    """Returns the consumer's fetcher, whose class attribute ``PartitionRecords`` reads record batches."""
    return consumer._fetcher


def batch_content(batch: Any) -> tuple[bytearray, int]:
    """Returns the bytes of a record batch and the position of its records in them."""
    return batch._buffer, batch._pos


def newest_timestamps_ms(consumer: KafkaConsumer, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Returns the largest timestamp of the records of each partition; an empty partition is left out.

    Raises:
        kafka.errors.KafkaTimeoutError: a broker did not answer within ``request_timeout_s``.
    """
    largest = dict.fromkeys(partitions, OffsetSpec.MAX_TIMESTAMP)
    answers = consumer._fetcher.offsets_by_times(largest, consumer.config["request_timeout_ms"])
    return {partition: answer.timestamp for partition, answer in answers.items() if answer is not None}


async def _return_at_once() -> None:
    pass
