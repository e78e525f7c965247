"""The checkpoint of a query: records what the query was made with, and keeps its progress. The caller has locked the folder.

    <checkpoint_dir>/rheostat.json   the record; replaced atomically, so a crash leaves the old or the new record
    <checkpoint_dir>/live-<n>/       Spark's files of the running query; the record names <n>

Spark does not record the settings that its state was made with. With another window length or row layout Spark fails late and
obscurely, or continues with wrong results. So the record holds these values, and every start compares them.

Invariant: nothing is reset silently. A query starts from an empty folder, or from an intact checkpoint made with the same values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from streaming.checkpoint_files import CheckpointPath, remove_tree, write_atomically
from streaming.errors import StreamError
from streaming.sources import Offsets

RECORD = "rheostat.json"
_RECORD_VERSION = 2
_LIVE = "live-"
SPARK_LOG_VERSION = "v1"  # The only version of Spark's files that rheostat reads.
_SHOWN_CHARS_MAX = 120
_LISTS = ("sources", "kafka_ids")  # Fields of ``MadeWith`` with one entry per source.
_LOSS_TEXT = "this loses the signals of the last half minute and, with stream.start latest, the records not read yet"


class UnknownFormatError(StreamError):
    """Spark wrote a file in a format that rheostat does not read. The file may be intact."""


@dataclass(frozen=True, slots=True)
class MadeWith:
    """The values with which a checkpoint was made. A query with other values cannot use it. Fields are named like the settings."""

    spark: str
    state: str
    window_s: int
    slide_s: int
    watermark_delay_s: int
    shuffle_partitions: int
    sources: tuple[str, ...]  # Topics, format and bootstrap address of each source.
    kafka_ids: tuple[str, ...] = ()  # Kafka cluster id of each source; empty in records of earlier versions.

    def has_same_sources(self, other: MadeWith) -> bool:
        """Returns whether both values have the same sources. Clusters are compared by id, or by address if an id is unknown."""
        if not (self.kafka_ids and other.kafka_ids):
            return self.sources == other.sources
        return self.kafka_ids == other.kafka_ids and _without_address(self) == _without_address(other)


_BEFORE_ADDRESS = " from "  # The text before the address in an entry of ``MadeWith.sources``.


def _without_address(made: MadeWith) -> list[str]:
    """Returns topics and format of each source."""
    return [source.rpartition(_BEFORE_ADDRESS)[0] for source in made.sources]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A stretch of time whose windows (ending after ``from_ms`` and not after ``to_ms``) are not computed yet."""

    from_ms: int
    to_ms: int
    records: int  # Number of records in the stretch.


@dataclass(frozen=True, slots=True)
class Failing:
    """A failed batch of the live query, and the search for the record that may have caused the failure."""

    live: str
    batch: int
    times: int  # Consecutive failures, including failures of earlier batches halved in the search.
    # The record lies before one of these offsets. Each entry is a source, a topic, a partition and an offset.
    ends: tuple[tuple[int, str, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class FailingChunk:
    """A chunk of the backlog that has ended Spark's JVM, identified by its end."""

    to_ms: int
    times: int  # Consecutive failures.
    suspect_from_ms: int  # The record that caused the failures is not older than this time.


@dataclass(frozen=True, slots=True)
class CheckpointRecord:
    """The content of rheostat.json."""

    made_with: MadeWith
    live: str  # Name of the folder with Spark's files.
    # Time at which the live query began; None if it began at the position that stream.start says.
    live_from_ms: int | None = None
    # The live query owns windows that end after this time; the backlog owns older windows.
    whole_from_ms: int | None = None
    skipped: tuple[Skipped, ...] = ()
    skipped_records: int = 0  # Records of all stretches since ``skipped`` was last empty.
    # The part of ``skipped_records`` that retention deleted, or that was in a chunk that was given up.
    lost_records: int = 0
    failing: Failing | None = None
    failing_chunk: FailingChunk | None = None

    def next_live(self) -> str:
        return f"{_LIVE}{int(self.live.removeprefix(_LIVE)) + 1}"


def open_record(checkpoint_dir: CheckpointPath, now: MadeWith) -> CheckpointRecord:
    """Returns the checkpoint's record. Writes a new record if the folder is empty.

    Raises:
        StreamError: the checkpoint was made with other values, or is damaged.
    """
    file = checkpoint_dir / RECORD
    if not file.exists():
        others = sorted(path.name for path in checkpoint_dir.iterdir() if not path.name.endswith(".tmp"))
        if others:
            raise StreamError(
                f"The checkpoint {checkpoint_dir} has files ({', '.join(others[:5])}) and no {RECORD}, so it is unknown with which"
                f" settings it was created. {_remedy(checkpoint_dir)}"
            )
        record = CheckpointRecord(now, f"{_LIVE}1")
        write(checkpoint_dir, record)
        return record
    record = _read(file)
    differences = _differences(record.made_with, now)
    if differences:
        raise StreamError(
            f"The checkpoint {checkpoint_dir} was made with other settings or another version: {'; '.join(differences)}. "
            f"{_hint(record.made_with, now)}{_remedy(checkpoint_dir)}"
        )
    _check_intact(checkpoint_dir / record.live, len(now.sources))
    entries: Iterable[CheckpointPath] = checkpoint_dir.iterdir()
    # A crash interrupted a switch to another live folder.
    for left in [path for path in entries if path.name.startswith(_LIVE) and path.name != record.live]:
        remove_tree(left)
    if record.made_with != now:  # The cluster has another address, or the record has no cluster ids.
        record = replace(record, made_with=now)
        write(checkpoint_dir, record)
    return record


def read(checkpoint_dir: CheckpointPath) -> CheckpointRecord:
    """Returns the record.

    Raises:
        StreamError: the record is damaged.
    """
    return _read(checkpoint_dir / RECORD)


def write(checkpoint_dir: CheckpointPath, record: CheckpointRecord) -> None:
    """Replaces the record atomically and returns once it is on disk."""
    write_atomically(checkpoint_dir / RECORD, json.dumps({"v": _RECORD_VERSION, **asdict(record)}, indent=1))


def switch_live_folder(checkpoint_dir: CheckpointPath, before: CheckpointRecord, after: CheckpointRecord) -> None:
    """Makes the live folder of ``after`` the current folder: writes the new record, then removes the old folder."""
    write(checkpoint_dir, after)
    remove_tree(checkpoint_dir / before.live)


def positions(checkpoint_dir: CheckpointPath, record: CheckpointRecord) -> list[Offsets] | None:
    """Returns for each source the first offsets after the last finished batch; None if no batch was finished."""
    folder = checkpoint_dir / record.live
    commits = batch_numbers(folder / "commits")
    if not commits:
        return None
    return read_offsets(folder / "offsets" / str(commits[-1]))


def _read(file: CheckpointPath) -> CheckpointRecord:
    try:
        body = json.loads(file.read_text(encoding="utf-8"))
        if type(version := body.pop("v")) is not int:
            raise ValueError("it has no record version")
        if version != _RECORD_VERSION:
            raise StreamError(
                f"Another version of rheostat wrote the checkpoint {file.parent} (record version {version}, this version reads "
                f"{_RECORD_VERSION}); it is not damaged. Run that version, or begin again. {_remedy(file.parent)}"
            )
        made_with: dict[str, Any] = {k: tuple(v) if k in _LISTS else v for k, v in body["made_with"].items()}
        record = CheckpointRecord(**body)  # Its nested values are still JSON.
        return replace(
            record,
            made_with=MadeWith(**made_with),
            skipped=tuple(Skipped(**stretch) for stretch in body["skipped"]),
            failing=_failing(body.get("failing")),
            failing_chunk=None if body.get("failing_chunk") is None else FailingChunk(**body["failing_chunk"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise damage_error(file, f"it is not what rheostat writes: {error}") from error


def _failing(body: dict[str, Any] | None) -> Failing | None:
    return None if body is None else Failing(**{**body, "ends": tuple(tuple(end) for end in body["ends"])})


def _differences(then: MadeWith, now: MadeWith) -> list[str]:
    """Returns a text for each value that differs now from its value when the checkpoint was made."""
    names = {"spark": "Spark", "state": "what the state keeps"}
    values = [
        (names.get(field.name, f"stream.{field.name}"), getattr(then, field.name), getattr(now, field.name))
        for field in fields(MadeWith)
        if field.name not in _LISTS
    ]
    changed = [(name, before, after) for name, before, after in values if before != after]
    if not then.has_same_sources(now):
        changed.append(("stream.sources", _sources(then), _sources(now)))
    return [
        f"{name}: {_diff_text(before, after)} then, {_diff_text(after, before)} now" for name, before, after in changed
    ]


def _sources(made: MadeWith) -> tuple[str, ...]:
    """Returns the sources for a message, with their cluster ids if these are known."""
    if not made.kafka_ids:
        return made.sources
    return tuple(f"{source} (Kafka cluster {id_})" for source, id_ in zip(made.sources, made.kafka_ids, strict=False))


def _hint(then: MadeWith, now: MadeWith) -> str:
    """Returns advice for a checkpoint without cluster ids whose sources now have other addresses; "" for other checkpoints."""
    if then.kafka_ids or then.sources == now.sources or _without_address(then) != _without_address(now):
        return ""
    return (
        "The checkpoint was made by a version that identified Kafka clusters by their addresses. If the cluster is the same,"
        " start once with the earlier addresses, so that the checkpoint records the cluster's id; then change the addresses. "
    )


def _diff_text(value: Any, other: Any) -> str:
    """Returns the value as text. A long text is cut to the part around its first difference from ``other``."""
    text, other_text = (", ".join(v) if isinstance(v, tuple) else str(v) for v in (value, other))
    if max(len(text), len(other_text)) <= _SHOWN_CHARS_MAX:
        return text
    pairs = enumerate(zip(text, other_text, strict=False))
    same = next((i for i, (a, b) in pairs if a != b), min(len(text), len(other_text)))
    begin = max(0, same - _SHOWN_CHARS_MAX // 4)
    return (
        ("…" if begin else "")
        + text[begin : begin + _SHOWN_CHARS_MAX]
        + ("…" if begin + _SHOWN_CHARS_MAX < len(text) else "")
    )


def _check_intact(folder: CheckpointPath, sources: int) -> None:
    """Checks the files that Spark reads first. A truncated file would end Spark with a message that names no file.

    Raises:
        StreamError: a file is damaged.
    """
    if not folder.exists():
        return  # No query has started in this folder yet.
    offsets, commits = batch_numbers(folder / "offsets"), batch_numbers(folder / "commits")
    metadata = folder / "metadata"
    if metadata.exists() or offsets:
        try:
            json.loads(metadata.read_text(encoding="utf-8"))["id"]
        except (FileNotFoundError, ValueError, KeyError, TypeError) as error:
            raise damage_error(metadata, "empty or cut") from error
    with suppress(UnknownFormatError):  # Spark itself checks files of its newer formats.
        for batch in offsets[-2:]:
            if len(read_offsets(folder / "offsets" / str(batch))) != sources:
                raise damage_error(folder / "offsets" / str(batch), f"not the offsets of {sources} sources")
    with suppress(UnknownFormatError):
        for batch in commits[-2:]:
            _log_lines(folder / "commits" / str(batch))
    if commits and (not offsets or commits[-1] > offsets[-1]):
        raise damage_error(folder / "offsets", f"batch {commits[-1]} is committed and has no offsets")


def batch_numbers(log: CheckpointPath) -> list[int]:
    return sorted(int(path.name) for path in log.iterdir() if path.name.isdigit()) if log.is_dir() else []


def _log_lines(file: CheckpointPath) -> list[Any]:
    """Returns the JSON values of one entry of Spark's logs; None for a source without an offset.

    Raises:
        UnknownFormatError: a later Spark wrote the file.
        StreamError: the file is empty or cut.
    """
    try:
        version, *lines = file.read_text(encoding="utf-8").splitlines()
        check_format(file, version)
        if not lines:
            raise ValueError("nothing after the version")
        return [None if line == "-" else json.loads(line) for line in lines]
    except (FileNotFoundError, ValueError) as error:
        raise damage_error(file, "empty or cut") from error


def check_format(file: CheckpointPath, version: str) -> None:
    """Checks the version that a file of Spark begins with.

    Raises:
        UnknownFormatError: the file has a version that rheostat does not read.
        ValueError: the text is no version.
    """
    if not re.fullmatch(r"v\d{1,9}", version):
        raise ValueError("no version")
    if version != SPARK_LOG_VERSION:
        raise UnknownFormatError(
            f"Spark wrote {file} in its format {version}, and this version of rheostat reads {SPARK_LOG_VERSION} only: run "
            "the version of rheostat that goes with that Spark."
        )


def read_offsets(file: CheckpointPath) -> list[Offsets]:
    """Returns the offsets of each source in one entry of Spark's offset log."""
    _, *sources = _log_lines(file)  # The first value holds the batch's time and settings.
    try:
        return [
            {
                topic: {int(partition): int(offset) for partition, offset in by_partition.items()}
                for topic, by_partition in (source or {}).items()
            }
            for source in sources
        ]
    except (AttributeError, ValueError, TypeError) as error:
        raise damage_error(file, "not offsets of Kafka") from error


def damage_error(path: CheckpointPath, what: str) -> StreamError:
    folder = path.parent
    while folder.parent != folder and not (folder / RECORD).exists():
        folder = folder.parent
    return StreamError(f"The checkpoint is damaged: {path}: {what}. {_remedy(folder)}")


def _remedy(checkpoint_dir: CheckpointPath) -> str:
    return f"Remove the folder {checkpoint_dir}, or set another stream.checkpoint_dir; {_LOSS_TEXT}."
