"""Reads how many partitions each broker had in the past, from samples of the signals topic instead of all its records."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from rheostat.config.settings import Settings
from rheostat.errors import UnreachableError
from rheostat.metrics_cluster import metrics_client, metrics_consumer
from streaming.shared.contract import BrokerSignal, ContractError, decode_signal
from streaming.shared.kafka.cluster import ClusterClient, ClusterError

SAMPLES = 25  # The topic keeps the signals of one day, so the samples are an hour apart.
# Every broker has a signal every five seconds, so a sample of this length has at least one signal of each broker.
_SAMPLE_MS = 8_000
_FETCH_BYTES_MAX = 1024 * 1024
_POLL_MS = 1_000
_CLIENT_ID = "rheostat-limits"


@dataclass(frozen=True, slots=True)
class Histories:
    """For each broker, pairs of time (s) and partition count in order of time; ``missing_reason`` says why there are none."""

    by_broker: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    missing_reason: str | None = None


def read_histories(client: ClusterClient, settings: Settings) -> Histories:
    """Reads the histories of all brokers. Never fails, because the rest of the report does not need them."""
    topic = settings.topic_names().signals
    try:
        with metrics_client(client, settings) as metrics:
            if not metrics.partitions([topic]):
                return Histories(missing_reason=f"there is no topic {topic} yet: `rheostat run` creates it")
            if "Read" in metrics.missing_operations([topic]).get(topic, []):
                return Histories(missing_reason=f"missing right: Read on Topic {topic}")
        with _open_consumer(settings) as reader:
            return _read_samples(reader, topic, settings.cluster)
    except (ClusterError, UnreachableError, KafkaError, RuntimeError, OSError) as error:
        return Histories(missing_reason=f"{topic} cannot be read: {error}")


@contextmanager
def _open_consumer(settings: Settings) -> Iterator[KafkaConsumer]:
    reader = metrics_consumer(settings, _CLIENT_ID, fetch_max_bytes=_FETCH_BYTES_MAX)
    try:
        yield reader
    finally:
        reader.close(timeout_ms=2000)


def _read_samples(reader: KafkaConsumer, topic: str, cluster: str) -> Histories:
    partitions = [TopicPartition(topic, n) for n in sorted(reader.partitions_for_topic(topic) or ())]
    reader.assign(partitions)
    ends = reader.end_offsets(partitions)
    first_records = reader.offsets_for_times(dict.fromkeys(partitions, 0)).values()
    oldest = [record.timestamp for record in first_records if record]
    last_timestamps = [_last_timestamp_ms(reader, partition, end_offset) for partition, end_offset in ends.items()]
    newest = [at_ms for at_ms in last_timestamps if at_ms is not None]
    if not oldest or not newest:
        return Histories(missing_reason=f"there are no signals in {topic}: `rheostat run` writes them")
    begin_ms = min(oldest)
    # The last sample covers the time up to the newest record.
    end_ms = max(begin_ms, max(newest) - _SAMPLE_MS)
    by_broker: dict[int, list[tuple[float, float]]] = {}
    for n in range(SAMPLES):
        at_ms = begin_ms + n * (end_ms - begin_ms) // (SAMPLES - 1)
        for broker, count in sorted(_read_sample(reader, partitions, at_ms, cluster).items()):
            by_broker.setdefault(broker, []).append((at_ms / 1000, count))
        if begin_ms == end_ms:  # All signals fit into one sample.
            break
    return Histories(by_broker)


def _last_timestamp_ms(reader: KafkaConsumer, partition: TopicPartition, end_offset: int) -> int | None:
    """Returns the timestamp of the last record; None if the partition has none, or did not answer in time."""
    if end_offset <= 0:
        return None
    # Without the pause the poll might return a record of another partition.
    reader.pause(*(reader.assignment() - {partition}))
    reader.resume(partition)
    reader.seek(partition, end_offset - 1)
    batches = reader.poll(timeout_ms=_POLL_MS, max_records=1)
    records = batches.get(partition, [])
    return int(records[-1].timestamp) if records else None


def _read_sample(reader: KafkaConsumer, partitions: list[TopicPartition], at_ms: int, cluster: str) -> dict[int, float]:
    """Returns the partition count of each broker from the signals appended within ``_SAMPLE_MS`` after ``at_ms``."""
    offsets = reader.offsets_for_times(dict.fromkeys(partitions, at_ms))
    unread = {p for p, offset in offsets.items() if offset is not None}
    reader.pause(*(p for p in partitions if p not in unread))
    for p in unread:
        reader.resume(p)
        reader.seek(p, offsets[p].offset)
    counts: dict[int, float] = {}
    while unread:
        batches = reader.poll(timeout_ms=_POLL_MS)
        if not batches:  # The remaining partitions end within the sample.
            break
        for p, records in batches.items():
            for record in records:
                if record.timestamp > at_ms + _SAMPLE_MS:
                    unread.discard(p)
                    break
                signal = _decode_broker_signal(record.value)
                if signal is not None and signal.cluster == cluster and signal.partitions is not None:
                    counts[signal.broker] = signal.partitions
    return counts


def _decode_broker_signal(value: bytes | None) -> BrokerSignal | None:
    try:
        signal = decode_signal(value or b"")
    except ContractError:
        return None
    return signal if isinstance(signal, BrokerSignal) else None
