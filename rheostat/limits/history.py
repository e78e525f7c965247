"""How many partitions brokers had, from the signals topic: looked into at some moments, not read from end to end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from rheostat.config.settings import Settings
from streaming.shared.contract import BrokerSignal, ContractError, decode_signal
from streaming.shared.kafka import consumer
from streaming.shared.kafka.cluster import ClusterClient, ClusterError

LOOKS = 25  # An hour apart, of a topic that keeps a day.
# At one look, what was appended in this time: each broker has a signal every five seconds.
_LOOK_MS = 8_000
_FETCH_BYTES_MAX = 1024 * 1024
_POLL_MS = 1_000
_CLIENT_ID = "rheostat-limits"


@dataclass(frozen=True, slots=True)
class Histories:
    """By broker: seconds and count, in order. ``why_none`` where there is nothing to read."""

    by_broker: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    why_none: str | None = None


def read_histories(client: ClusterClient, settings: Settings) -> Histories:
    """Never fails: without signals there is no projection, and everything else is still there."""
    topic = settings.topic_names().signals
    try:
        if not client.partitions([topic]):
            return Histories(why_none=f"there is no topic {topic} yet: `rheostat run` makes it")
        if "Read" in client.missing_operations([topic]).get(topic, []):
            return Histories(why_none=f"missing right: Read on Topic {topic}")
        with _reader(settings) as reader:
            return _looked(reader, topic, settings.cluster)
    except (ClusterError, KafkaError, RuntimeError, OSError) as error:
        return Histories(why_none=f"{topic} cannot be read: {error}")


@contextmanager
def _reader(settings: Settings) -> Iterator[KafkaConsumer]:
    reader = consumer(settings.kafka, _CLIENT_ID, fetch_max_bytes=_FETCH_BYTES_MAX)
    try:
        yield reader
    finally:
        reader.close(timeout_ms=2000)


def _looked(reader: KafkaConsumer, topic: str, cluster: str) -> Histories:
    partitions = [TopicPartition(topic, n) for n in sorted(reader.partitions_for_topic(topic) or ())]
    reader.assign(partitions)
    ends = reader.end_offsets(partitions)
    oldest = [found.timestamp for found in reader.offsets_for_times(dict.fromkeys(partitions, 0)).values() if found]
    newest = [at_ms for p, end in ends.items() if (at_ms := _timestamp(reader, p, end)) is not None]
    if not oldest or not newest:
        return Histories(why_none=f"there are no signals in {topic}: `rheostat run` makes them")
    begin_ms, end_ms = min(oldest), max(min(oldest), max(newest) - _LOOK_MS)
    found: dict[int, list[tuple[float, float]]] = {}
    for n in range(LOOKS):
        at_ms = begin_ms + n * (end_ms - begin_ms) // (LOOKS - 1)
        for broker, count in sorted(_told_at(reader, partitions, at_ms, cluster).items()):
            found.setdefault(broker, []).append((at_ms / 1000, count))
        if begin_ms == end_ms:
            break
    return Histories(found)


def _timestamp(reader: KafkaConsumer, partition: TopicPartition, end: int) -> int | None:
    """Of the last record."""
    if end <= 0:
        return None
    reader.seek(partition, end - 1)
    batches = reader.poll(timeout_ms=_POLL_MS, max_records=1)
    records = batches.get(partition, [])
    return int(records[-1].timestamp) if records else None


def _told_at(reader: KafkaConsumer, partitions: list[TopicPartition], at_ms: int, cluster: str) -> dict[int, float]:
    """The counts that were appended in the seconds after that moment, by broker."""
    offsets = reader.offsets_for_times(dict.fromkeys(partitions, at_ms))
    waiting = {p for p, found in offsets.items() if found is not None}
    reader.pause(*(p for p in partitions if p not in waiting))
    for p in waiting:
        reader.resume(p)
        reader.seek(p, offsets[p].offset)
    told: dict[int, float] = {}
    while waiting:
        batches = reader.poll(timeout_ms=_POLL_MS)
        if not batches:
            break
        for p, records in batches.items():
            for record in records:
                if record.timestamp > at_ms + _LOOK_MS:
                    waiting.discard(p)
                    break
                signal = _signal(record.value)
                if signal is not None and signal.cluster == cluster and signal.partitions is not None:
                    told[signal.broker] = signal.partitions
    return told


def _signal(value: bytes | None) -> BrokerSignal | None:
    try:
        signal = decode_signal(value or b"")
    except ContractError:
        return None
    return signal if isinstance(signal, BrokerSignal) else None
