"""`rheostat status` for people: the answer to "does a tuner act, and is all well?" first, then the details."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from rheostat.status.active_tuner import tuner_lines
from streaming.shared.short_lists import join_names, shorten_lines
from streaming.shared.units import rate_text
from tuner.api.decision_rows import OUTCOMES
from tuner.api.sentences import moment, override_lines
from tuner.journal.unreadable import OLDER_VERSION

_NAMED_MAX = 6
_LINES_MAX = 20


def print_status(status: dict[str, Any], console: Console) -> None:
    def tell(*lines: str) -> None:
        for line in lines:
            console.print(line, soft_wrap=True)

    tell(*tuner_lines(status["tuner"]), f"Now: {status['headline']}", *stall_and_end_lines(status))
    tell(*order_lines(status))
    tell(*(f"Next: {step[:1].upper()}{step[1:]}" for step in status["next"]))
    if status["throttle_decisions"]:
        lines = _decision_lines(_once(status["throttle_decisions"]))
        tell("Last decision of each throttle:", *shorten_lines(lines, _LINES_MAX, "(--json has all)"))
    console.print(_brokers(status))
    for plan in status.get("plans", ()):
        tell(
            f"Plan {plan['plan']}: {plan['desired']}, {plan['partitions']} partitions, {plan['moving']} moving; more with "
            "`rheostat reassign status`.",
            *(f"  {line}" for line in plan["blockers"]),
        )
    if older := [text for text in status.get("unreadable_records", ()) if text.startswith(OLDER_VERSION)]:
        tell(f"The journal has {older[0]}.")
    elif unreadable := status.get("unreadable_records"):
        tell(
            f"Records of the journal that cannot be read: {len(unreadable)}; `rheostat journal check` says what follows from each."
        )
    if status["last_decisions"]:
        tell("Last decisions:", *_decision_lines(status["last_decisions"]))
    if status["last_steering_ticks"]:
        tell("Last seconds of the law:", *(f"  {_at(turn)} {turn['text']}" for turn in status["last_steering_ticks"]))


def stall_and_end_lines(status: Mapping[str, Any]) -> list[str]:
    """Returns what has stalled, and when everything ends."""
    if not status["moves"]:
        return []
    stalled = [
        f"broker {row['broker']}"
        + ("" if (since_ms := row["stalled_since_ms"]) is None else f" since {moment(since_ms)}")
        for row in status["destinations"]
        if row["stalled"]
    ]
    lines = [f"Stalled: the move onto {', '.join(stalled)}." if stalled else "Stalled: nothing."]
    if status["ends_at_ms"] is not None:
        lines.append(f"Ends at about {moment(status['ends_at_ms'])}.")
    return lines + infeasible_lines(status)


def _brokers(status: Mapping[str, Any]) -> Table:
    brokers = Table(title=f"Brokers of {status['cluster']}", title_justify="left")
    for column in ("broker", "leader throttle", "used", "follower throttle", "used", "produce p99"):
        brokers.add_column(column, justify="right")
    for b in status["brokers"]:
        brokers.add_row(
            str(b["broker"]),
            _rate(b["leader_current_rate_bytes_per_s"]),
            _rate(b["leader_throttled_bytes_per_s"]),
            _rate(b["follower_current_rate_bytes_per_s"]),
            _rate(b["follower_throttled_bytes_per_s"]),
            "–" if b["produce_p99_ms"] is None else f"{b['produce_p99_ms']:.0f} ms",
        )
    return brokers


def infeasible_lines(status: Mapping[str, Any]) -> list[str]:
    """Returns why the move can never end as things are, and what to do; empty where it can."""
    sides = [f"broker {side['broker']} ({side['side']})" for side in status["infeasible"]]
    if not sides:
        return []
    return [
        f"It never ends as things are: the ceiling of {rate_text(status['rate_bytes_per_s_max'])} is not above what keeping up "
        f"takes on {join_names(sides, _NAMED_MAX)}. Raise tuner.rate_bytes_per_s_max, or let producers write less."
    ]


def _decision_lines(decisions: Iterable[Mapping[str, Any]]) -> list[str]:
    return [f"  {_at(each)} {outcome_text(each)}" for each in decisions]


def _once(decisions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One decision may be about several throttles."""
    return [*{(each["at_ms"], each["text"]): each for each in decisions}.values()]


def outcome_text(decision: Mapping[str, Any]) -> str:
    """Returns the sentence of a decision and what came of it."""
    failure = f": {decision['failure']}" if decision["failure"] else ""
    return f"{decision['text']} ({OUTCOMES[decision['outcome']]}{failure})"


def order_lines(status: Mapping[str, Any]) -> list[str]:
    """What people have ordered, a line each."""
    pause = status.get("paused")
    lines = (
        [f"{'Released' if pause['released'] else 'Paused'} by {pause['by']}, until `rheostat resume`."] if pause else []
    )
    return lines + [line for _, line in override_lines(status.get("overrides", ()))]


def _at(entry: Mapping[str, Any]) -> str:
    return moment(entry["at_ms"]).removesuffix(" UTC")


def _rate(bytes_per_s: float | None) -> str:
    return "–" if bytes_per_s is None else rate_text(bytes_per_s)
