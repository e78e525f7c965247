"""What makes a JSON an assignment of kafka-reassign-partitions, and every way in which it may not be one, with its line."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from tuner.plan.json_lines import JsonLines, Path, json_lines

VERSION = 1
FAULTS_SHOWN_MAX = 20


class PlanFileError(ValueError):
    """What stands in the file can't be used; the text has a line for every fault: file, line, key, what was expected."""


class Faults:
    def __init__(self, text: str, name: str) -> None:
        self._text = text
        self._name = name
        self._found: list[tuple[int, str]] = []
        self._lines: JsonLines | None = None

    def add(self, path: Path, what: str) -> None:
        line = self.lines.line(path)
        self._found.append((line, f"{self._name}:{line}: {_dotted(path)}: {what}"))

    @property
    def lines(self) -> JsonLines:
        if self._lines is None:
            self._lines = json_lines(self._text)
        return self._lines

    def stop(self, line: int, what: str) -> PlanFileError:
        return PlanFileError(f"{self._name}:{line}: {what}")

    def raise_any(self) -> None:
        if self._found:
            said = [text for _, text in sorted(self._found, key=lambda fault: fault[0])]
            more = [f"... and {len(said) - FAULTS_SHOWN_MAX} more"] if len(said) > FAULTS_SHOWN_MAX else []
            raise PlanFileError("\n".join(said[:FAULTS_SHOWN_MAX] + more))


class _Twice(ValueError):
    """A key stands twice in one object: the parser would silently take the last."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _Twice
    return made


def read_body(text: str, faults: Faults, keys: tuple[str, ...]) -> dict[str, Any]:
    try:
        body = json.loads(text, object_pairs_hook=_once)
    except _Twice:
        for path, _ in faults.lines.twice:
            faults.add(path, "stands twice in one object; keep one")
        faults.raise_any()
        raise
    except json.JSONDecodeError as error:
        hint = "; of what --generate prints, keep only the one JSON line" if "replica assignment" in text else ""
        raise faults.stop(error.lineno, f"not JSON: {error.msg} (column {error.colno}){hint}") from error
    except RecursionError as error:
        raise faults.stop(1, "not JSON that anybody plans with: nested too deep") from error
    if not isinstance(body, dict):
        raise faults.stop(1, f'expected {{"version": 1, "partitions": [...]}}, found {_shown(body)}')
    _check_keys(body, (), keys, faults)
    if "version" in body and (body["version"] != VERSION or isinstance(body["version"], bool)):
        faults.add(("version",), f"expected {VERSION}, the one there is, found {_shown(body['version'])}")
    return body


def read_entries(body: Mapping[str, Any], keys: tuple[str, ...], faults: Faults) -> list[dict[str, Any]]:
    entries = body.get("partitions")
    if not isinstance(entries, list) or not entries:
        found = "nothing" if entries is None else _shown(entries)
        faults.add(("partitions",), f"expected a list of at least one {{topic, partition, replicas}}, found {found}")
        return []
    first: dict[Any, int] = {}
    for i, entry in enumerate(entries):
        at: Path = ("partitions", i)
        if not isinstance(entry, dict):
            faults.add(at, f"expected {{topic, partition, replicas}}, found {_shown(entry)}")
            continue
        _check_keys(entry, at, keys, faults)
        _check_entry(entry, at, faults)
        name = (entry.get("topic"), entry.get("partition"))
        if all(isinstance(part, str | int) for part in name) and first.setdefault(name, i) != i:
            first_line = faults.lines.line(("partitions", first[name]))
            faults.add(at, f"partition {name[0]}-{name[1]} is listed twice, first in line {first_line}")
    return entries


def _check_entry(entry: Mapping[str, Any], at: Path, faults: Faults) -> None:
    topic, replicas, log_dirs = entry.get("topic"), entry.get("replicas"), entry.get("log_dirs")
    if not isinstance(topic, str) or not topic:
        faults.add((*at, "topic"), f"expected a topic's name, found {_shown(topic)}")
    if not _is_id(entry.get("partition")):
        faults.add(
            (*at, "partition"), f"expected a partition's number, 0 or more, found {_shown(entry.get('partition'))}"
        )
    check_brokers(replicas, (*at, "replicas"), faults)
    if "log_dirs" in entry:
        if not isinstance(log_dirs, list) or not all(isinstance(d, str) and d for d in log_dirs):
            faults.add((*at, "log_dirs"), f'expected a list of paths or "any", found {_shown(log_dirs)}')
        elif isinstance(replicas, list) and len(log_dirs) != len(replicas):
            faults.add((*at, "log_dirs"), f"expected one for each of {len(replicas)} replicas, found {len(log_dirs)}")
    if "leader" in entry and not _is_id(entry["leader"]):
        faults.add((*at, "leader"), f"expected a broker's id, found {_shown(entry['leader'])}")
    if "isr" in entry:
        check_brokers(entry["isr"], (*at, "isr"), faults)
    for key in ("size_bytes", "write_bytes_per_s"):
        if key in entry and not _is_amount(entry[key]):
            faults.add((*at, key), f"expected a number, 0 or more, found {_shown(entry[key])}")


def check_brokers(ids: Any, at: Path, faults: Faults) -> None:
    if not isinstance(ids, list) or not ids:
        faults.add(at, f"expected a list of at least one broker's id, found {_shown(ids)}")
        return
    for n, broker in enumerate(ids):
        if not _is_id(broker):
            faults.add((*at, n), f"expected a broker's id, 0 or more, found {_shown(broker)}")
        elif broker in ids[:n]:
            faults.add((*at, n), f"broker {broker} is listed twice")


def _check_keys(body: Mapping[str, Any], at: Path, known: tuple[str, ...], faults: Faults) -> None:
    for key in body.keys() - set(known):
        close = difflib.get_close_matches(key, known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"known here: {', '.join(known)}"
        faults.add((*at, key), f"unknown key: {hint}")


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")


def _shown(value: Any) -> str:
    return "nothing" if value is None else f"{json.dumps(value):.60}"


def listed(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(brokers)))


def _dotted(path: Path) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
