"""`rheostat replay`, from what was asked to the exit code."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console

from rheostat.config.settings import load_settings
from rheostat.console.output import out
from rheostat.console.rich_console import console_of
from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL, BadInputError
from rheostat.replay.policy_file import load_policy
from rheostat.replay.source import Recorded, from_cluster, from_file
from rheostat.replay.times import moment_text, parse_moment
from tuner.replay.compare import Compared, Count, compared
from tuner.replay.recording import Missed, RecordedStep, steps_of
from tuner.replay.replayer import NotPlayable, Player

DIFFERENCES = 20
_SINCE = "-1h"


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    from_text: str | None  # None: the last hour, or all of a file.
    to_text: str
    config: Path | None = None
    journal: Path | None = None
    policy: Path | None = None
    export: Path | None = None


def run_replay(asked: ReplayRequest, *, as_json: bool) -> int:
    """
    Raises:
        BadInputError: a moment, a file, or a range in which nothing is on record.
        UnreachableError, CommandError: the cluster does not answer, or a right is missing.
    """
    now_ms = round(time.time() * 1000)
    since = asked.from_text or ("1970-01-01" if asked.journal is not None else _SINCE)
    from_ms = parse_moment(since, now_ms, "--from")
    to_ms = parse_moment(asked.to_text, now_ms, "--to")
    if from_ms >= to_ms:
        raise BadInputError(f"--from {since} is not before --to {asked.to_text}")
    recorded = _recorded(asked, from_ms, to_ms)
    missed = Missed(unreadable=recorded.unreadable)
    steps = list(steps_of(recorded.records, missed))
    if not any(from_ms <= step.now_ms <= to_ms for step in steps):
        raise BadInputError(
            f"nothing can be replayed between {moment_text(from_ms)} and {moment_text(to_ms)}{_why(missed)}: {recorded.there_is}"
        )
    player = _player(asked, steps, from_ms)
    try:
        found = compared(player.play(steps), from_ms, to_ms, kept=DIFFERENCES)
    except NotPlayable as error:
        raise BadInputError(f"The records hold what no tuner has recorded: {error}") from error
    if asked.export is not None:
        _export(asked.export, recorded.lines)
    body = _body(asked, found, missed)
    if as_json:
        out(json.dumps(body, indent=2))
    else:
        _show(body, console_of(sys.stdout))
    return EXIT_NOT_WELL if found.different else EXIT_DONE


def _recorded(asked: ReplayRequest, from_ms: int, to_ms: int) -> Recorded:
    if asked.journal is not None:
        return from_file(asked.journal)
    if asked.config is None:
        raise BadInputError(
            "expected --config, the settings file of the cluster, or --journal, a file of exported records"
        )
    return from_cluster(load_settings(asked.config), from_ms, to_ms)


def _player(asked: ReplayRequest, steps: list[RecordedStep], from_ms: int) -> Player:
    if asked.policy is None:
        return Player()
    first = next(step for step in steps if step.now_ms >= from_ms)
    quotas = next((step for step in steps if step.kind == "quotas" and step.now_ms >= from_ms), None)
    then = first.in_force if quotas is None else replace(first.in_force, quotas=quotas.in_force.quotas)
    return Player(load_policy(asked.policy, then, has_quotas=quotas is not None))


def _why(missed: Missed) -> str:
    said = [
        text
        for count, text in (
            (missed.before_a_frame, f"{missed.before_a_frame} steps there lack their beginning"),
            (missed.unfinished, f"{missed.unfinished} were not written to their end"),
            (missed.unreadable, f"{missed.unreadable} records are of another version of rheostat"),
        )
        if count
    ]
    return f" ({', '.join(said)})" if said else ""


def _export(path: Path, lines: list[bytes]) -> None:
    try:
        path.write_bytes(b"".join(line + b"\n" for line in lines))
    except OSError as error:
        raise BadInputError(f"--export {path}: cannot be written: {error.strerror or error}") from error


def _body(asked: ReplayRequest, found: Compared, missed: Missed) -> dict[str, Any]:
    return {
        "program": version("rheostat"),
        "recorded_by": sorted(found.programs),
        "policy": None if asked.policy is None else str(asked.policy),
        "runs": len(found.runs),
        "from_ms": found.first_ms,
        "to_ms": found.last_ms,
        "cycles": asdict(found.cycles),
        "decisions": asdict(found.decisions),
        "seconds": asdict(found.seconds),
        "quotas": asdict(found.quotas),
        "quota_decisions": asdict(found.quota_decisions),
        "memory": asdict(found.memory),
        "seconds_not_asked": found.not_asked,
        "missed": asdict(missed),
        "same": found.different == 0,
        "differences": [asdict(difference) for difference in found.differences],
    }


def _show(body: dict[str, Any], console: Console) -> None:
    by = ", ".join(body["recorded_by"])
    console.print(
        f"{moment_text(body['from_ms'])} to {moment_text(body['to_ms'])}, {body['runs']} run(s) of rheostat {by}",
    )
    console.print(f"decided again by {body['policy'] or 'rheostat ' + body['program']}:")
    for key, name in (
        ("cycles", "cycles"),
        ("decisions", "their decisions"),
        ("seconds", "seconds of the law"),
        ("quotas", "cycles of the mutation quotas"),
        ("quota_decisions", "their decisions"),
        ("memory", "frames of what is remembered"),
    ):
        count = Count(**body[key])
        if count.same or count.different:
            console.print(f"  {name}: {count.same} the same, {count.different} different")
    if body["seconds_not_asked"]:
        console.print(f"  {body['seconds_not_asked']} seconds of the law are not asked, as no objective is set now")
    if why := _why(Missed(**body["missed"])):
        console.print(f"  not replayed:{why}")
    then, now = ("then", "now ") if body["policy"] is None else ("then", "with")
    for difference in body["differences"]:
        console.print(f"{moment_text(difference['at_ms'])}, {difference['kind']}")
        console.print(f"  {then}  {difference['then']}", soft_wrap=True)
        console.print(f"  {now}  {difference['now']}", soft_wrap=True)
    told = len(body["differences"])
    different = sum(body[key]["different"] for key in ("cycles", "seconds", "quotas", "memory"))
    if told == DIFFERENCES and different:
        console.print("and more; --json gives their counts")
