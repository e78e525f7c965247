"""The recorded inputs, from the cluster's topic or from a file of JSON lines, one record a line, as --export writes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kafka import KafkaConsumer
from kafka.errors import KafkaError

from rheostat.config.settings import Settings
from rheostat.errors import BadInputError, CommandError
from rheostat.replay.times import moment_text
from rheostat.run.services import probe
from streaming.shared.kafka import consumer
from tuner.journal.delta_stream import FRAME_EVERY_S
from tuner.journal.input_log import topic_of
from tuner.journal.inputs_topic import read_since
from tuner.journal.kafka_journal import JournalError
from tuner.replay.recording import RecordingChunk, record_of

# What a range begins with may stand a frame before it, and the last of its pieces may be written that long after it.
_BEFORE_MS = round(1.5 * FRAME_EVERY_S * 1000)
_AFTER_MS = 60_000
_NEWEST = 500  # So many offsets from the end the newest is looked for.


@dataclass(frozen=True, slots=True)
class Recorded:
    lines: list[bytes]
    records: list[RecordingChunk]
    unreadable: int
    there_is: str  # Also outside of the range, for a message.


def from_cluster(settings: Settings, from_ms: int, to_ms: int) -> Recorded:
    """
    Raises:
        UnreachableError: the cluster does not answer.
        CommandError: it answers, but a right is missing.
    """
    probe(settings)
    topic = topic_of(settings.topic_names().journal)
    try:
        reader = consumer(settings.kafka, "rheostat-replay", isolation_level="read_committed")
    except KafkaError as error:
        raise CommandError(f"{topic} has no reader: {type(error).__name__}: {error}") from error
    try:
        lines = []
        for at_ms, value in _of(settings.cluster, reader, topic, from_ms - _BEFORE_MS):
            if at_ms > to_ms + _AFTER_MS:
                break
            lines.append(value)
        return _recorded(lines, _span(settings.cluster, reader, topic))
    except (JournalError, KafkaError) as error:
        raise CommandError(f"{topic} cannot be read ({error}): it takes the right Read on Topic {topic}.") from error
    finally:
        reader.close(timeout_ms=2000)


def from_file(path: Path) -> Recorded:
    """
    Raises:
        BadInputError: not a file, or a line of it is no record.
    """
    try:
        lines = [line for line in path.read_bytes().splitlines() if line.strip()]
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read: {error.strerror or error}") from error
    times = []
    for number, line in enumerate(lines, start=1):
        try:
            times.append(record_of(line).at_ms)
        except ValueError as error:
            raise BadInputError(
                f"{path}:{number}: {error}: expected a line as `rheostat replay --export` writes it"
            ) from error
    return _recorded(lines, _said(min(times), max(times)) if times else f"{path} is empty")


def _recorded(lines: list[bytes], there_is: str) -> Recorded:
    records: list[RecordingChunk] = []
    unreadable = 0
    for line in lines:
        try:
            records.append(record_of(line))
        except ValueError:
            unreadable += 1
    return Recorded(lines, records, unreadable, there_is)


def _of(
    cluster: str, reader: KafkaConsumer, topic: str, since_ms: int | None, back: int = 0
) -> Iterator[tuple[int, bytes]]:
    """Of one cluster, with the time by the broker's clock."""
    for record in read_since(reader, topic, since_ms, back=back):
        if record.key == cluster.encode() and record.value is not None:
            yield record.timestamp, record.value


def _span(cluster: str, reader: KafkaConsumer, topic: str) -> str:
    oldest = next(_of(cluster, reader, topic, 0), None)
    if oldest is None:
        return (
            f"topic {topic} holds nothing of cluster {cluster}: what is decided is recorded while something moves, by a tuner that "
            "acts or looks on (tuner.dry_run)"
        )
    newest = oldest
    for found in _of(cluster, reader, topic, None, _NEWEST):
        newest = max(newest, found, key=lambda one: one[0])
    return _said(oldest[0], newest[0])


def _said(oldest_ms: int, newest_ms: int) -> str:
    return f"on record is what lies between {moment_text(oldest_ms)} and {moment_text(newest_ms)}"
