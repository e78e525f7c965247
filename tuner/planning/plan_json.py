"""Validates the JSON of a kafka-reassign-partitions assignment, and reports each fault with its line."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, KeysView, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from streaming.shared.short_lists import more_text
from tuner.planning.json_positions import DuplicateKeyError, KeyPath, find_duplicate_keys, find_lines, refuse_duplicates

VERSION = 1
FAULTS_SHOWN_MAX = 20
TOPIC_NAME_RULE = "1 to 249 letters, digits, dots, underscores and hyphens, and neither . nor .."  # Kafka's.
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_PLAIN_KEYS = {"topic", "partition", "replicas"}


class PlanFileError(ValueError):
    """The file cannot be used. The text has a line for each fault, with the file, its line, the key and the expected value."""


@dataclass(frozen=True, slots=True)
class _Fault:
    path: KeyPath
    text: str
    # An earlier item that this item contradicts. Its line number is appended to ``text``.
    earlier: KeyPath | None = None


class Faults:
    """Collects faults and raises them together, in the order of the file. It looks up only the lines of shown faults."""

    def __init__(self, text: str, name: str) -> None:
        self._text = text
        self._name = name
        self._faults: list[_Fault] = []

    def add(self, path: KeyPath, text: str, earlier: KeyPath | None = None) -> None:
        """Adds a fault.

        Args:
            earlier: an earlier item that this item contradicts. Its line number is appended to ``text``.
        """
        self._faults.append(_Fault(path, text, earlier))

    def add_duplicate_keys(self) -> None:
        for path, _ in find_duplicate_keys(self._text):
            self.add(path, "occurs twice in one object; keep one")

    def fatal_error(self, line: int, text: str) -> PlanFileError:
        return PlanFileError(f"{self._name}:{line}: {text}")

    def raise_any(self) -> None:
        """Raises if there are faults.

        Raises:
            PlanFileError: with the first faults of the file.
        """
        if not self._faults:
            return
        shown = _faults_to_show(self._faults)
        paths = {fault.path for fault in shown} | {fault.earlier for fault in shown if fault.earlier is not None}
        lines = find_lines(self._text, paths)
        texts = []
        for fault in sorted(shown, key=lambda fault: lines[fault.path]):
            earlier_line = "" if fault.earlier is None else lines[fault.earlier]
            texts.append(f"{self._name}:{lines[fault.path]}: {_path_text(fault.path)}: {fault.text}{earlier_line}")
        hidden = len(self._faults) - min(len(texts), FAULTS_SHOWN_MAX)
        more = [f"... {more_text(hidden)}"] if hidden else []
        raise PlanFileError("\n".join(texts[:FAULTS_SHOWN_MAX] + more))


def _faults_to_show(faults: Sequence[_Fault]) -> list[_Fault]:
    """Returns the faults that may be shown: faults of the first partitions that have any, and faults outside of partitions."""
    numbers = [_entry_number(fault.path) for fault in faults]
    first = set(sorted({number for number in numbers if number is not None})[:FAULTS_SHOWN_MAX])
    return [fault for fault, number in zip(faults, numbers, strict=True) if number is None or number in first]


def _entry_number(path: KeyPath) -> int | None:
    """Returns the index of the partition entry that contains the path; None: no entry contains it."""
    return path[1] if len(path) > 1 and path[0] == "partitions" and isinstance(path[1], int) else None


def read_body(text: str, faults: Faults, keys: tuple[str, ...]) -> dict[str, Any]:
    """Returns the outermost object, and adds a fault for each key that is not in ``keys``.

    Raises:
        PlanFileError: the text is no JSON object, or has a duplicate key.
    """
    try:
        try:
            body = json.loads(text, object_pairs_hook=refuse_duplicates)
        except DuplicateKeyError:
            json.loads(text)  # Raises if the text after the duplicate key is no JSON.
            faults.add_duplicate_keys()
            faults.raise_any()
            raise
    except json.JSONDecodeError as error:
        hint = "; of what --generate prints, keep only the one JSON line" if "replica assignment" in text else ""
        raise faults.fatal_error(error.lineno, f"not JSON: {error.msg} (column {error.colno}){hint}") from error
    except RecursionError as error:
        raise faults.fatal_error(1, "not a plan: the JSON is nested too deep") from error
    if not isinstance(body, dict):
        raise faults.fatal_error(1, f'expected {{"version": 1, "partitions": [...]}}, found {_json_text(body)}')
    _check_keys(body, (), dict.fromkeys(keys).keys(), faults)
    if "version" in body and (body["version"] != VERSION or isinstance(body["version"], bool)):
        faults.add(("version",), f"expected {VERSION}, the only version, found {_json_text(body['version'])}")
    return body


def read_entries(body: Mapping[str, Any], keys: tuple[str, ...], faults: Faults) -> list[dict[str, Any]]:
    """Returns the entries of ``partitions``, and adds their faults. Without faults every entry is valid."""
    entries = body.get("partitions")
    if not isinstance(entries, list) or not entries:
        entries_text = "nothing" if entries is None else _json_text(entries)
        faults.add(
            ("partitions",), f"expected a list of at least one {{topic, partition, replicas}}, found {entries_text}"
        )
        return []
    first_index: dict[Any, int] = {}
    known = dict.fromkeys(keys).keys()  # A set that keeps the order, for the messages.
    for i, entry in enumerate(entries):
        at: KeyPath = ("partitions", i)
        if not isinstance(entry, dict):
            faults.add(at, f"expected {{topic, partition, replicas}}, found {_json_text(entry)}")
            continue
        if not _is_plain(entry):
            _check_keys(entry, at, known, faults)
            _check_entry(entry, at, faults)
        topic, partition = entry.get("topic"), entry.get("partition")
        if not isinstance(topic, str) or not isinstance(partition, int):
            continue
        first = first_index.setdefault((topic, partition), i)
        if first != i:
            text = f"partition {topic}-{partition} is listed twice, first in line "
            faults.add(at, text, earlier=("partitions", first))
    return entries


def _is_plain(entry: Mapping[str, Any]) -> bool:
    """Returns whether an entry has only the three common keys and no fault. This check is fast, and enough for most entries."""
    if entry.keys() != _PLAIN_KEYS:
        return False
    replicas = entry["replicas"]
    return (
        _is_topic(entry["topic"])
        and _is_id(entry["partition"])
        and isinstance(replicas, list)
        and replicas != []
        and all(map(_is_id, replicas))
        and len(set(replicas)) == len(replicas)
    )


def _check_entry(entry: Mapping[str, Any], at: KeyPath, faults: Faults) -> None:
    topic, replicas, log_dirs = entry.get("topic"), entry.get("replicas"), entry.get("log_dirs")
    if not _is_topic(topic):
        faults.add((*at, "topic"), f"expected a topic's name ({TOPIC_NAME_RULE}), found {_json_text(topic)}")
    if not _is_id(entry.get("partition")):
        faults.add(
            (*at, "partition"), f"expected a partition's number, 0 or more, found {_json_text(entry.get('partition'))}"
        )
    check_brokers(replicas, (*at, "replicas"), faults)
    if "log_dirs" in entry:
        if not isinstance(log_dirs, list) or not all(isinstance(d, str) and d for d in log_dirs):
            faults.add((*at, "log_dirs"), f'expected a list of paths or "any", found {_json_text(log_dirs)}')
        elif isinstance(replicas, list) and len(log_dirs) != len(replicas):
            faults.add((*at, "log_dirs"), f"expected one for each of {len(replicas)} replicas, found {len(log_dirs)}")
    if "leader" in entry and not _is_id(entry["leader"]):
        faults.add((*at, "leader"), f"expected a broker's id, found {_json_text(entry['leader'])}")
    if "isr" in entry:
        check_brokers(entry["isr"], (*at, "isr"), faults)
    for key in ("size_bytes", "write_bytes_per_s"):
        if key in entry and not _is_amount(entry[key]):
            faults.add((*at, key), f"expected a number, 0 or more, found {_json_text(entry[key])}")


def check_brokers(ids: Any, at: KeyPath, faults: Faults) -> None:
    if not isinstance(ids, list) or not ids:
        faults.add(at, f"expected a list of at least one broker's id, found {_json_text(ids)}")
        return
    seen: set[int] = set()
    for n, broker in enumerate(ids):
        if not _is_id(broker):
            faults.add((*at, n), f"expected a broker's id, 0 or more, found {_json_text(broker)}")
        elif broker in seen:
            faults.add((*at, n), f"broker {broker} is listed twice")
        else:
            seen.add(broker)


def _check_keys(body: Mapping[str, Any], at: KeyPath, known: KeysView[str], faults: Faults) -> None:
    if body.keys() <= known:
        return
    for key in (key for key in body if key not in known):
        close = difflib.get_close_matches(key, known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"known here: {', '.join(known)}"
        faults.add((*at, key), f"unknown key: {hint}")


def _is_id(value: Any) -> bool:
    # JSON's true is no id, so ``isinstance`` is not enough. This runs a million times for a large plan.
    return type(value) is int and 0 <= value < 2**31


@lru_cache(maxsize=10_000)  # A large plan repeats the same names.
def is_topic_name(text: str) -> bool:
    return _TOPIC_NAME.fullmatch(text) is not None and text not in (".", "..")


def _is_topic(value: Any) -> bool:
    return isinstance(value, str) and is_topic_name(value)


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")


def _json_text(value: Any) -> str:
    return "nothing" if value is None else f"{json.dumps(value):.60}"


def broker_list(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(brokers)))


def _path_text(path: KeyPath) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
