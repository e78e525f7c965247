"""Records of earlier releases are read, or refused by name; records with fields of a later version are read without them.

tests/unit/records has a folder for each release, and ``unreleased`` with the records of this checkout. ``make records`` writes it;
at a release the folder gets the release's name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from stored_records import written_files

from streaming import checkpoint
from streaming.errors import StreamError
from streaming.shared.contract import ContractError, decode_history, decode_signal, encode_history, encode_signal
from streaming.shared.contract.learned_encoding import decode_profile, encode_profile
from tuner.journal import (
    cordon_records,
    entries,
    list_records,
    log_dir_records,
    order_records,
    plan_records,
    quota_records,
)
from tuner.journal.bodies import OlderRecordError
from tuner.journal.presence_records import decode_presence, encode_presence
from tuner.journal.read_ahead import empty_knowledge
from tuner.replay.recording import MissedSteps, decode_chunk, recorded_steps
from tuner.replay.replayer import Replayer

FOLDER = Path(__file__).parent / "records"
UNRELEASED = FOLDER / "unreleased"
CLUSTER = "main"
RELEASES = sorted(folder for folder in FOLDER.iterdir() if folder.is_dir())
READ_AND_WRITE: dict[str, Callable[[bytes], bytes | None]] = {
    **dict.fromkeys(entries.RINGS, lambda value: entries.encode_entry(entries.decode_entry(value))),
    "tuner": lambda value: encode_presence(decode_presence(value, 0)),
    "memory": lambda value: entries.encode_memory(entries.decode_memory(value), json.loads(value)["holder"]),
    "owned": lambda value: entries.encode_owned(*entries.decode_owned(value)),
    "seen": lambda value: _moving_again(value),
    "listed": lambda value: list_records.encode_listed(*list_records.decode_listed(value)),
    "quota": lambda value: quota_records.encode_owned(*quota_records.decode_owned(value)),
    "quotas": lambda value: quota_records.encode_state(quota_records.decode_state(value)),
    "cordon": lambda value: cordon_records.encode_cordon(*cordon_records.decode_cordon(value)),
    "log-dir": lambda value: log_dir_records.encode_log_dir(1, log_dir_records.decode_log_dir(value)),
    "orders": lambda value: order_records.encode_orders(order_records.decode_orders(value)),
    "plan": lambda value: plan_records.encode_head(plan_records.decode_head(value)),
    "plan-part": lambda value: plan_records.encode_parts(plan_records.decode_parts(value)),
    "plan-requested": lambda value: plan_records.encode_requested(plan_records.decode_requested(value)),
    "plan-state": lambda value: plan_records.encode_state(plan_records.decode_state(value)),
    "signals": lambda value: encode_signal(decode_signal(value)),
    "history": lambda value: encode_history(decode_history(value)),
    "profiles": lambda value: encode_profile(decode_profile(value)),
}
# Kinds that no code reads back.
WITHOUT_READER = {"holder"}
# Whether this checkout replays the inputs of a release. Their format changes with the control law, so earlier ones are refused.
REPLAYS_INPUTS = {"0.2.0": False, "unreleased": True}
JOURNAL = ("journal", "orders")
# Fields that a later release has renamed without another version. Only commands show them, and they show the default.
RENAMED = {"tuner": {"plan_leaders_ratio"}}


def _moving_again(value: bytes) -> bytes:
    moving = entries.decode_moving(value)
    return entries.encode_moving("t", {partition: brokers for (_, partition), brokers in moving.items()})


def rows(folder: Path, topic: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the key and the value of each stored record; none if the release did not have the topic."""
    file = folder / f"{topic}.jsonl"
    if file.exists():
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            yield row["key"], row["value"]


def kinds(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the kind and the value of each stored record of a release, but inputs."""
    for topic in (*JOURNAL, "signals", "history", "profiles"):
        for key, value in rows(folder, topic):
            yield key.partition("|")[0] if topic in JOURNAL else topic, value


def stored() -> list[Any]:
    """Returns each stored record as the kind of its reader and its value."""
    return [
        pytest.param(kind, value, id=f"{folder.name}-{kind}-{value.get('kind', '')}")
        for folder in RELEASES
        for kind, value in kinds(folder)
        if kind not in WITHOUT_READER
    ]


def bytes_of(value: Any) -> bytes:
    return json.dumps(value).encode()


def contains(whole: Any, part: Any) -> bool:
    """Returns whether ``whole`` has each field of ``part`` with the same value. Rows may be longer."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(key in whole and contains(whole[key], part[key]) for key in part)
    if isinstance(part, list):
        return isinstance(whole, list) and len(whole) >= len(part) and all(map(contains, whole, part))
    return bool(whole == part)


def test_records_of_this_checkout_are_stored() -> None:
    written = dict(written_files())
    if os.environ.get("RHEOSTAT_WRITE_RECORDS"):
        for name, text in written.items():
            (UNRELEASED / name).write_text(text, encoding="utf-8")
    del written["inputs.jsonl"]  # The order of sets in it differs from run to run; a test below replays it instead.
    differing = [name for name, text in written.items() if (UNRELEASED / name).read_text(encoding="utf-8") != text]
    assert differing == [], (
        "The format of these records has changed. If an earlier reader cannot read them, raise their version. Then run "
        "`make records`, and commit the changed files."
    )


def test_each_stored_kind_has_a_reader_or_is_named() -> None:
    assert {kind for folder in RELEASES for kind, _ in kinds(folder)} == READ_AND_WRITE.keys() | WITHOUT_READER


@pytest.mark.parametrize(("kind", "value"), stored())
def test_stored_record_is_read_without_a_loss(kind: str, value: dict[str, Any]) -> None:
    again = READ_AND_WRITE[kind](bytes_of(value))
    assert again is not None
    kept = {field: content for field, content in value.items() if field not in RENAMED.get(kind, ())}
    assert contains(json.loads(again), kept), again


@pytest.mark.parametrize(("kind", "value"), stored())
def test_field_of_a_later_version_is_ignored(kind: str, value: dict[str, Any]) -> None:
    read_and_write = READ_AND_WRITE[kind]
    assert read_and_write(bytes_of({**value, "added_later": {"a": [1]}})) == read_and_write(bytes_of(value))


@pytest.mark.parametrize(("kind", "value"), stored())
def test_record_of_a_later_version_is_refused(kind: str, value: dict[str, Any]) -> None:
    later = bytes_of({**value, "v": value["v"] + 1})
    with pytest.raises((ValueError, ContractError), match="version") as refused:
        READ_AND_WRITE[kind](later)
    assert not isinstance(refused.value, OlderRecordError)
    assert kind == "tuner" or str(value["v"]) in str(refused.value)


@pytest.mark.parametrize(("kind", "value"), stored())
def test_record_of_an_earlier_version_is_refused_by_name(kind: str, value: dict[str, Any]) -> None:
    with pytest.raises((ValueError, ContractError), match="version"):
        READ_AND_WRITE[kind](bytes_of({**value, "v": value["v"] - 1}))


@pytest.mark.parametrize("folder", RELEASES, ids=lambda folder: folder.name)
def test_stored_journal_gives_the_whole_state(folder: Path) -> None:
    known = empty_knowledge(CLUSTER)
    for key, value in rows(folder, "journal"):
        known.apply_from_journal(key.encode(), bytes_of(value))
    for key, value in rows(folder, "orders"):
        known.apply_from_orders_topic(key.encode(), bytes_of(value))
    state = known.state
    assert state.unreadable == {}
    assert state.memory.owned
    assert state.memory.listed
    assert state.quotas.owned
    assert bool(state.log_dirs.owned) == any(key.startswith("log-dir|") for key, _ in rows(folder, "journal"))
    assert bool(state.cordons.owned) == any(key.startswith("cordon|") for key, _ in rows(folder, "journal"))
    assert state.orders.pause is not None
    (plan,) = state.plans.plans
    assert plan.requested
    assert plan.partitions


@pytest.mark.parametrize("folder", RELEASES, ids=lambda folder: folder.name)
def test_stored_inputs_replay_or_are_refused_as_stated(folder: Path) -> None:
    values = [value for _, value in rows(folder, "inputs")]
    assert values
    if not REPLAYS_INPUTS[folder.name]:
        for value in values:
            with pytest.raises(OlderRecordError, match=f"record version {value['v']}"):
                decode_chunk(bytes_of(value))
        return
    chunks = [decode_chunk(bytes_of(value)) for value in values]
    played = list(Replayer(None).replay(recorded_steps(chunks, MissedSteps())))
    assert len(played) > 5
    assert [one for one in played if one.decisions != one.step.decisions] == []


@pytest.mark.parametrize("folder", RELEASES, ids=lambda folder: folder.name)
def test_stored_checkpoint_is_read_or_refused_by_name(folder: Path, tmp_path: Path) -> None:
    body = json.loads((folder / checkpoint.RECORD).read_text(encoding="utf-8"))
    (tmp_path / checkpoint.RECORD).write_text(json.dumps(body), encoding="utf-8")
    made_with = checkpoint.MadeWith(**{k: tuple(v) if isinstance(v, list) else v for k, v in body["made_with"].items()})
    record = checkpoint.open_record(tmp_path, made_with)
    assert record.live == body["live"]
    assert record.skipped
    assert record.failing is not None
    for other in (body["v"] - 1, body["v"] + 1):
        (tmp_path / checkpoint.RECORD).write_text(json.dumps({**body, "v": other}), encoding="utf-8")
        with pytest.raises(StreamError, match=f"record version {other}, this version reads {body['v']}"):
            checkpoint.open_record(tmp_path, made_with)
