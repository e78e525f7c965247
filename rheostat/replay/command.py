"""Runs `rheostat replay`: reads the records, replays them, and prints the comparison."""

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
from rheostat.console.rich_console import console_for
from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL, BadInputError
from rheostat.replay.source import RecordedInputs, from_cluster, from_file
from rheostat.replay.times import moment_text, parse_moment
from rheostat.replay.tuner_settings_file import load_tuner_settings
from streaming.shared.units import count_text
from tuner.replay.compare import Comparison, MatchCount, compare_steps
from tuner.replay.recording import STREAM_BY_KIND, MissedSteps, RecordedStep, recorded_steps
from tuner.replay.replayer import NotReplayable, Replayer

DIFFERENCES_MAX = 20
_DEFAULT_FROM = "-1h"


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """The options of the command.

    Attributes:
        from_text: the start of the range; None means the last hour, or the whole journal file.
        tuner_settings: a file with settings that replace the recorded settings.
    """

    from_text: str | None
    to_text: str
    config: Path | None = None
    journal: Path | None = None
    tuner_settings: Path | None = None
    export: Path | None = None


def run_replay(request: ReplayRequest, *, as_json: bool) -> int:
    """Runs the command and returns the exit code.

    Raises:
        BadInputError: a time or a file is wrong, or the range has no recorded step.
        UnreachableError, CommandError: the cluster does not answer, or a right is missing.
    """
    now_ms = round(time.time() * 1000)
    from_text = request.from_text or ("1970-01-01" if request.journal is not None else _DEFAULT_FROM)
    from_ms = parse_moment(from_text, now_ms, "--from")
    to_ms = parse_moment(request.to_text, now_ms, "--to")
    if from_ms >= to_ms:
        raise BadInputError(f"--from {from_text}: expected a time before --to {request.to_text}")
    inputs = _read_inputs(request, from_ms, to_ms)
    missed = MissedSteps(unreadable=inputs.unreadable, older=inputs.older)
    # ``recorded_steps`` adds the steps that it skips to ``missed``.
    steps = list(recorded_steps(inputs.chunks, missed))
    if not any(from_ms <= step.now_ms <= to_ms for step in steps):
        raise BadInputError(
            f"Nothing can be replayed between {moment_text(from_ms)} and {moment_text(to_ms)}{_missed_text(missed)}: "
            f"{inputs.available}."
        )
    replayer = _make_replayer(request, steps, from_ms)
    try:
        comparison = compare_steps(replayer.replay(steps), from_ms, to_ms, differences_max=DIFFERENCES_MAX)
    except NotReplayable as error:
        raise BadInputError(
            f"The recorded inputs are damaged, or another program wrote some of them: {error}."
        ) from error
    if request.export is not None:
        _export(request.export, inputs.lines)
    body = _result_body(request, comparison, missed)
    if as_json:
        out(json.dumps(body, indent=2))
    else:
        _show(body, console_for(sys.stdout))
    return EXIT_NOT_WELL if comparison.different else EXIT_DONE


def _read_inputs(request: ReplayRequest, from_ms: int, to_ms: int) -> RecordedInputs:
    if request.journal is not None:
        return from_file(request.journal)
    if request.config is None:
        raise BadInputError(
            "Nothing was done: give --config, the settings file of the cluster, or --journal, a file of exported records."
        )
    return from_cluster(load_settings(request.config), from_ms, to_ms)


def _make_replayer(request: ReplayRequest, steps: list[RecordedStep], from_ms: int) -> Replayer:
    """Returns a replayer with the settings of `--tuner-settings`; keys that the file lacks have their first recorded values.

    Without such a file, the replayer uses the recorded settings of each step.
    """
    if request.tuner_settings is None:
        return Replayer()
    steps_in_range = [step for step in steps if step.now_ms >= from_ms]
    recorded = steps_in_range[0].settings
    # Each controller's settings are recorded only with its own steps.
    first = {kind: next((s.settings for s in steps_in_range if s.kind == kind), None) for kind in STREAM_BY_KIND}
    if (quotas := first["quotas"]) is not None:
        recorded = replace(recorded, quotas=quotas.quotas)
    if (elections := first["election"]) is not None:
        recorded = replace(recorded, leadership=elections.leadership)
    if (movements := first["movements"]) is not None:
        recorded = replace(recorded, movements=movements.movements)
    return Replayer(load_tuner_settings(request.tuner_settings, recorded, has_quotas=quotas is not None))


def _missed_text(missed: MissedSteps) -> str:
    """Returns the steps and records that cannot be replayed, in parentheses after a space; empty if there are none."""
    texts = []
    if missed.before_a_frame:
        texts.append(f"{missed.before_a_frame} steps have no frame (record of the whole state) before them")
    if missed.unfinished:
        texts.append(f"{missed.unfinished} steps were not written completely")
    if missed.older:
        texts.append(f"an earlier version of rheostat wrote {missed.older} records: replay them with that version")
    if missed.unreadable:
        texts.append(f"{missed.unreadable} records are damaged or of a later version of rheostat")
    return f" ({', '.join(texts)})" if texts else ""


def _export(path: Path, lines: list[bytes]) -> None:
    try:
        path.write_bytes(b"".join(line + b"\n" for line in lines))
    except OSError as error:
        raise BadInputError(f"--export {path}: cannot be written: {error.strerror or error}") from error


def _result_body(request: ReplayRequest, comparison: Comparison, missed: MissedSteps) -> dict[str, Any]:
    return {
        "program": version("rheostat"),
        "recorded_by": sorted(comparison.programs),
        "tuner_settings": None if request.tuner_settings is None else str(request.tuner_settings),
        "runs": len(comparison.runs),
        "from_ms": comparison.first_ms,
        "to_ms": comparison.last_ms,
        "cycles": asdict(comparison.cycles),
        "decisions": asdict(comparison.decisions),
        "steering_ticks": asdict(comparison.steering_ticks),
        "quotas": asdict(comparison.quotas),
        "quota_decisions": asdict(comparison.quota_decisions),
        "elections": asdict(comparison.elections),
        "movements": asdict(comparison.movements),
        "memory": asdict(comparison.memory),
        "steering_ticks_without_objective": comparison.not_steered,
        "missed": asdict(missed),
        "same": comparison.different == 0,
        "differences": [asdict(difference) for difference in comparison.differences],
    }


_COUNT_NAMES = (
    ("cycles", "cycles"),
    ("decisions", "decisions of these cycles"),
    ("steering_ticks", "steering ticks"),
    ("quotas", "cycles of the mutation quotas"),
    ("quota_decisions", "decisions of these quota cycles"),
    ("elections", "decisions about preferred leaders"),
    ("movements", "decisions about Cruise Control"),
    ("memory", "frames of the recorded state"),
)


def _show(body: dict[str, Any], console: Console) -> None:
    recorded_by, runs = ", ".join(body["recorded_by"]), count_text(body["runs"], "run")
    console.print(
        f"{moment_text(body['from_ms'])} to {moment_text(body['to_ms'])}, {runs} of rheostat {recorded_by}",
    )
    console.print(f"decided again with {body['tuner_settings'] or 'rheostat ' + body['program']}:")
    for key, name in _COUNT_NAMES:
        count = MatchCount(**body[key])
        if count.same or count.different:
            console.print(f"  {name}: {count.same} the same, {count.different} different")
    if body["steering_ticks_without_objective"]:
        console.print(
            f"  {body['steering_ticks_without_objective']} steering ticks were not replayed, because no objective is set now"
        )
    if missed_text := _missed_text(MissedSteps(**body["missed"])):
        console.print(f"  not replayed:{missed_text}", soft_wrap=True)
    for difference in body["differences"]:
        console.print(f"{moment_text(difference['at_ms'])}, {difference['kind']}")
        console.print(f"  recorded: {difference['then']}", soft_wrap=True)
        console.print(f"  replayed: {difference['now']}", soft_wrap=True)
    steps = ("cycles", "steering_ticks", "quotas", "elections", "movements", "memory")
    different = sum(body[key]["different"] for key in steps)
    if different > len(body["differences"]):
        console.print("Further differences are not shown; --json has the counts.")
