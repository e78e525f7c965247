"""The page of one decision: its rule, the rules that the controller checks first, its inputs, and the command that replays it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tuner.api import page_texts
from tuner.api.decision_rows import OUTCOMES, decision_json
from tuner.api.decisions import EventRow, time_of_number
from tuner.api.sentences import utc_datetime
from tuner.control.throttle.decision import Reason
from tuner.control.throttle.reason_texts import CYCLE_REASONS, SIDE_REASONS
from tuner.control.throttle.reason_thresholds import Threshold, thresholds

# The range that the replay command covers, before and after the decision. The replay needs whole cycles.
_REPLAY_MARGIN_MS = 60_000
_INPUTS_MAX = 200
_ACTS_MAX = 10  # The page shows the thresholds of at most this many throttles of one event.
_INPUT_CHARACTERS_MAX = 2_000


class InputRow(NamedTuple):
    """One input of a decision.

    Attributes:
        name: the path of the value in the recorded inputs.
        value: the value as JSON text.
    """

    name: str
    value: str


def decision_values(
    row: EventRow | None, number: int, cluster: str | None, missing: str | None = None
) -> dict[str, Any]:
    """Returns the values of the decision's template.

    Args:
        row: None if the decision cannot be shown, and ``missing`` says why.
        cluster: for the commands, if the settings file has several clusters.
    """
    at_ms = row.entry.at_ms if row is not None else time_of_number(number)
    values: dict[str, Any] = {"d": None, "missing": missing, "at_ms": at_ms, "replay": replay_command(at_ms, cluster)}
    if row is None:
        return values
    shown = decision_json(row)
    text = page_texts.reason_text(shown["kind"], shown["action"], shown["reason"])
    inputs = list(_input_rows(shown["inputs"] or {}))
    return {
        **values,
        "d": shown,
        "outcomes": OUTCOMES,
        "reason": text,
        "earlier": earlier_rules(shown["reason"]) if page_texts.is_throttle_reason(text) else [],
        "thresholds": _thresholds(row),
        "inputs": inputs[:_INPUTS_MAX],
        "inputs_total": len(inputs),
    }


def _thresholds(row: EventRow) -> list[Threshold]:
    """Returns the thresholds of the first acts. Acts of one event share the stall of their move, which is listed once."""
    entries = [act.entry for act in row.acts[:_ACTS_MAX]]
    found = (each for e in entries for each in thresholds(e.reason, e.decision, e.inputs, e.at_ms))
    return list(dict.fromkeys(found))


def replay_command(at_ms: int, cluster: str | None) -> str:
    """Returns the command that computes the decisions around this time again."""
    start, end = (
        utc_datetime(max(0, at_ms + margin_ms)).strftime("%Y-%m-%dT%H:%M:%S")
        for margin_ms in (-_REPLAY_MARGIN_MS, _REPLAY_MARGIN_MS)
    )
    chosen = "" if cluster is None else f" --cluster {shlex.quote(cluster)}"
    return f"rheostat replay --from {start} --to {end}{chosen}"


def earlier_rules(reason: str) -> list[tuple[str, str]]:
    """Returns the code and the condition of each rule that the throttle controller checks before the rule of this reason.

    The first rule that applies decides, so each of these conditions would have led to another decision.
    """
    for rules in (CYCLE_REASONS, SIDE_REASONS):
        codes = list(rules)
        if reason in codes:
            return [(code.value, rules[code].cause) for code in codes[: codes.index(Reason(reason))]]
    return []


def _input_rows(inputs: Mapping[str, Any], prefix: str = "") -> Iterator[InputRow]:
    """Yields the inputs with the path of each value; a list is one value."""
    for name, value in inputs.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping) and value:
            yield from _input_rows(value, f"{path}.")
            continue
        text = json.dumps(value, ensure_ascii=False, default=str)
        if len(text) > _INPUT_CHARACTERS_MAX:
            text = f"{text[:_INPUT_CHARACTERS_MAX]}… ({len(text):,} characters)"
        yield InputRow(path, text)
