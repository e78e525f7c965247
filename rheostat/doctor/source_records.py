"""Checks whether the newest records of another collector's topic are in the format that the settings name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from kafka import TopicPartition
from kafka.errors import KafkaError, TopicAuthorizationFailedError

from rheostat.doctor.findings import Finding, FindingVerdict
from rheostat.doctor.record_formats import RecordKind, recognize
from streaming.settings import FormatName, SourceSettings
from streaming.shared.kafka import KafkaSettings, consumer
from streaming.shared.kafka.read_to_end import read_to_end
from streaming.shared.kafka.unpacking import unreadable_batches
from streaming.shared.short_lists import join_names

_PARTITIONS_MAX = 10
_RECORDS_MAX = 5  # The newest records of a partition.
_KINDS_SHOWN = 3


def format_of(source: SourceSettings, kafka: KafkaSettings) -> Iterator[Finding]:
    """Yields a finding about the newest records of the source's topic; none if the topic is empty, missing or not readable.

    The check of the source reports a missing topic and a missing right.
    """
    check = f"format of {source.topic}"
    try:
        values, unread = _newest_values(source.topic, kafka)
    except TopicAuthorizationFailedError:
        return
    except (KafkaError, OSError, RuntimeError) as error:
        yield Finding(
            check,
            FindingVerdict.ADVICE,
            f"not known, because the newest records cannot be read: {type(error).__name__}: {error}",
            "see the brokers' logs",
        )
        return
    if values:
        yield judge(check, source.format, values)
    elif unread:
        # The stream reads these records, because Spark's client knows all codecs.
        yield Finding(check, FindingVerdict.OK, f"not examined, because the doctor cannot unpack the records: {unread}")


def judge(check: str, expected: FormatName, values: list[bytes | None]) -> Finding:
    """Returns the finding about a topic's newest records.

    One record in the expected format is enough, because the stream itself reports the records that it refuses.
    """
    kinds = list(dict.fromkeys(map(recognize, values)))
    if any(kind.format == expected for kind in kinds):
        return Finding(check, FindingVerdict.OK, f"the newest records are in the format {expected}")
    return Finding(
        check,
        FindingVerdict.FAILED,
        f"the settings say {expected}, but the newest records are "
        + join_names([kind.text for kind in kinds], _KINDS_SHOWN, separator="; "),
        _advice(kinds),
    )


def _advice(kinds: list[RecordKind]) -> str:
    formats = [kind.format for kind in kinds if kind.format is not None]
    if formats:
        return f"set format: {formats[0]} for this topic in stream.sources"
    return next(
        (kind.do for kind in kinds if kind.do),
        "let the writer send one of the formats that docs/how-to/metrics-kafka-topic.md lists",
    )


def _newest_values(topic: str, kafka: KafkaSettings) -> tuple[list[bytes | None], str]:
    """Returns the newest values of some partitions, and why a batch could not be read.

    Raises:
        KafkaError, OSError, RuntimeError: Kafka does not answer.
    """
    with closing(consumer(kafka, "rheostat-doctor")) as reader, unreadable_batches(reader) as unreadable:
        numbers = sorted(reader.partitions_for_topic(topic) or ())[:_PARTITIONS_MAX]
        partitions = [TopicPartition(topic, number) for number in numbers]
        reader.assign(partitions)
        begins, ends = reader.beginning_offsets(partitions), reader.end_offsets(partitions)
        starts = {p: max(begins[p], ends[p] - _RECORDS_MAX) for p in partitions}
        values = [record.value for record in read_to_end(reader, starts, ends)]
    return values, unreadable[0].reason if unreadable else ""
