"""Reads recorded inputs from the cluster's topic, or from a file with one JSON record per line, as --export writes it."""

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
from streaming.shared.kafka.clients import READ_ONCE_WAIT_MS
from tuner.journal.bodies import OlderRecordError
from tuner.journal.delta_stream import FRAME_EVERY_S
from tuner.journal.input_log import inputs_topic_of
from tuner.journal.inputs_topic import read_inputs
from tuner.journal.kafka_journal import JournalError
from tuner.replay.recording import RecordingChunk, decode_chunk

# A replay begins at a frame, a record of the whole state, which may be this long before the range. The last part of the last step
# may be recorded this long after the range.
_BEFORE_MS = round(1.5 * FRAME_EVERY_S * 1000)
_AFTER_MS = 60_000
_NEWEST_OFFSETS = 500  # The newest record of the cluster is searched in this number of the topic's last offsets.


@dataclass(frozen=True, slots=True)
class RecordedInputs:
    """The records of a range.

    Attributes:
        lines: the values of all records, for --export.
        unreadable: the number of records that are damaged or of a later version.
        older: the number of records of an earlier version of rheostat.
        available: the times that the topic or file covers, as text for a message.
    """

    lines: list[bytes]
    chunks: list[RecordingChunk]
    unreadable: int
    older: int
    available: str


def from_cluster(settings: Settings, from_ms: int, to_ms: int) -> RecordedInputs:
    """Returns the records that a replay of the range needs.

    Raises:
        UnreachableError: the cluster does not answer.
        CommandError: a right is missing.
    """
    probe(settings)
    topic = inputs_topic_of(settings.topic_names().journal)
    try:
        reader = consumer(
            settings.kafka, "rheostat-replay", isolation_level="read_committed", fetch_max_wait_ms=READ_ONCE_WAIT_MS
        )
    except KafkaError as error:
        raise CommandError(f"{topic} cannot be read: {type(error).__name__}: {error}") from error
    try:
        lines = []
        for at_ms, value in _read(settings.cluster, reader, topic, from_ms - _BEFORE_MS):
            if at_ms > to_ms + _AFTER_MS:
                break
            lines.append(value)
        return _decode(lines, _available_text(settings.cluster, reader, topic))
    except (JournalError, KafkaError) as error:
        raise CommandError(
            f"{topic} cannot be read ({error}): the command needs the permission Read on Topic {topic}."
        ) from error
    finally:
        reader.close(timeout_ms=2000)


def from_file(path: Path) -> RecordedInputs:
    """Returns all records of a file.

    Raises:
        BadInputError: the file cannot be read, or a line is no record of this version.
    """
    try:
        lines = [line for line in path.read_bytes().splitlines() if line.strip()]
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read: {error.strerror or error}") from error
    times = []
    for number, line in enumerate(lines, start=1):
        try:
            times.append(decode_chunk(line).at_ms)
        except OlderRecordError as error:
            raise BadInputError(f"{path}:{number}: {error}: replay the file with the version that wrote it") from error
        except ValueError as error:
            raise BadInputError(
                f"{path}:{number}: {error}: expected a line as `rheostat replay --export` writes it"
            ) from error
    return _decode(lines, _span_text(min(times), max(times)) if times else f"{path} is empty")


def _decode(lines: list[bytes], available: str) -> RecordedInputs:
    chunks: list[RecordingChunk] = []
    unreadable = older = 0
    for line in lines:
        try:
            chunks.append(decode_chunk(line))
        except OlderRecordError:
            older += 1
        except ValueError:
            unreadable += 1
    return RecordedInputs(lines, chunks, unreadable, older, available)


def _read(
    cluster: str, reader: KafkaConsumer, topic: str, since_ms: int | None, back: int = 0
) -> Iterator[tuple[int, bytes]]:
    """Yields the records of one cluster, each with the broker's timestamp.

    Args:
        since_ms: only records from this time on; None means only the last ``back`` offsets.
    """
    for record in read_inputs(reader, topic, since_ms, back=back):
        if record.key == cluster.encode() and record.value is not None:
            yield record.timestamp, record.value


def _available_text(cluster: str, reader: KafkaConsumer, topic: str) -> str:
    """Returns the times that the records of the cluster cover, as text for a message."""
    oldest = next(_read(cluster, reader, topic, 0), None)
    if oldest is None:
        return (
            f"topic {topic} has no records of cluster {cluster}: an active tuner or a dry run (tuner.dry_run) records decisions "
            "while partitions move"
        )
    oldest_ms, _ = oldest
    newest_records = _read(cluster, reader, topic, None, back=_NEWEST_OFFSETS)
    newest_ms = max([oldest_ms, *(at_ms for at_ms, _ in newest_records)])
    return _span_text(oldest_ms, newest_ms)


def _span_text(oldest_ms: int, newest_ms: int) -> str:
    return f"there are records from {moment_text(oldest_ms)} to {moment_text(newest_ms)}"
