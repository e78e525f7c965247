"""Prints `rheostat status` as text: the active tuner and problems first, then the details."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from rheostat.status.active_tuner import tuner_lines
from rheostat.status.lease_holders import lease_lines
from streaming.shared.short_lists import join_names, shorten_lines
from streaming.shared.units import rate_text
from tuner.api.cordon_views import cordon_line
from tuner.api.decision_rows import OUTCOMES
from tuner.api.log_dir_views import log_dir_line
from tuner.api.sentences import moment, override_lines, schedule_lines
from tuner.journal.unreadable import OLDER_VERSION

_NAMED_MAX = 6
_LINES_MAX = 20


def print_status(status: dict[str, Any], console: Console) -> None:
    """Prints the status of ``report.status_json``."""

    def print_lines(*lines: str) -> None:
        for line in lines:
            console.print(line, soft_wrap=True)

    print_lines(
        *tuner_lines(status["tuner"]),
        *lease_lines(status),
        *schedule_lines(status["schedule"]),
        f"Now: {status['headline']}",
        *stall_and_end_lines(status),
    )
    print_lines(*order_lines(status))
    print_lines(*(log_dir_line(row) for row in status["log_dirs"]))
    print_lines(*(cordon_line(row) for row in status["cordons"]))
    print_lines(*(f"Next: {step[:1].upper()}{step[1:]}" for step in status["next"]))
    if status["throttle_decisions"]:
        lines = _decision_lines(_distinct(status["throttle_decisions"]))
        print_lines("Last decision of each throttle:", *shorten_lines(lines, _LINES_MAX, "(--json has all)"))
    console.print(_brokers_table(status))
    for plan in status.get("plans", ()):
        print_lines(
            f"Plan {plan['plan']}: {plan['desired']}, {plan['partitions']} partitions, {plan['moving']} moving; more with "
            "`rheostat reassign status`.",
            *(f"  {line}" for line in plan["blockers"]),
        )
    # Records of an older version stop the tuner, so these records are shown instead of all others.
    if older := [text for text in status.get("unreadable_records", ()) if text.startswith(OLDER_VERSION)]:
        print_lines(f"The journal has {older[0]}.")
    elif unreadable := status.get("unreadable_records"):
        print_lines(
            f"Unreadable journal records: {len(unreadable)}; `rheostat journal check` explains the consequences of each."
        )
    if status["last_decisions"]:
        print_lines("Last decisions:", *_decision_lines(status["last_decisions"]))
    if status["last_steering_ticks"]:
        print_lines(
            "Last steering ticks:", *(f"  {_at(tick)} {tick['text']}" for tick in status["last_steering_ticks"])
        )


def stall_and_end_lines(status: Mapping[str, Any]) -> list[str]:
    """Returns sentences about stalled moves and the expected end; empty while nothing moves."""
    if not status["moves"]:
        return []
    stalled = []
    for row in status["destinations"]:
        if row["stalled"]:
            since_ms = row["stalled_since_ms"]
            stalled.append(f"broker {row['broker']}" + ("" if since_ms is None else f" since {moment(since_ms)}"))
    lines = [f"Stalled: the move onto {', '.join(stalled)}." if stalled else "No move has stalled."]
    if status["ends_at_ms"] is not None:
        lines.append(f"Ends at about {moment(status['ends_at_ms'])}.")
    return lines + infeasible_lines(status)


def _brokers_table(status: Mapping[str, Any]) -> Table:
    table = Table(title=f"Brokers of {status['cluster']}", title_justify="left")
    for column in ("broker", "leader throttle", "used", "follower throttle", "used", "produce p99"):
        table.add_column(column, justify="right")
    for broker in status["brokers"]:
        table.add_row(
            str(broker["broker"]),
            _rate(broker["leader_current_rate_bytes_per_s"]),
            _rate(broker["leader_throttled_bytes_per_s"]),
            _rate(broker["follower_current_rate_bytes_per_s"]),
            _rate(broker["follower_throttled_bytes_per_s"]),
            "–" if broker["produce_p99_ms"] is None else f"{broker['produce_p99_ms']:.0f} ms",
        )
    return table


def infeasible_lines(status: Mapping[str, Any]) -> list[str]:
    """Returns why a move can never end at the current limits, and what to do; empty if all moves can end."""
    sides = [f"broker {side['broker']} ({side['side']})" for side in status["infeasible"]]
    if not sides:
        return []
    return [
        f"The move never ends at the current limits: the ceiling of {rate_text(status['rate_bytes_per_s_max'])} is not above "
        f"the steady-state replication on {join_names(sides, _NAMED_MAX)}. Raise tuner.rate_bytes_per_s_max, or reduce the "
        "producers' write rate."
    ]


def _decision_lines(decisions: Iterable[Mapping[str, Any]]) -> list[str]:
    return [f"  {_at(decision)} {outcome_text(decision)}" for decision in decisions]


def _distinct(decisions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns each decision once, as one decision may concern several throttles."""
    return [*{(decision["at_ms"], decision["text"]): decision for decision in decisions}.values()]


def outcome_text(decision: Mapping[str, Any]) -> str:
    """Returns the sentence of a decision with its outcome."""
    failure = f": {decision['failure']}" if decision["failure"] else ""
    return f"{decision['text']} ({OUTCOMES[decision['outcome']]}{failure})"


def order_lines(status: Mapping[str, Any]) -> list[str]:
    """Returns one sentence per active operator order."""
    pause = status.get("paused")
    lines = [_pause_line(pause)] if pause else []
    return lines + [line for _, line in override_lines(status.get("overrides", ()))]


def _pause_line(pause: Mapping[str, Any]) -> str:
    # The records store a release as a pause that also restores the managed settings.
    if pause["released"]:
        return (
            f"Released by {pause['by']}: the tuner restores the settings that it manages, and then changes nothing until "
            "`rheostat resume`."
        )
    return f"Paused by {pause['by']}, until `rheostat resume`."


def _at(entry: Mapping[str, Any]) -> str:
    return moment(entry["at_ms"]).removesuffix(" UTC")


def _rate(bytes_per_s: float | None) -> str:
    return "–" if bytes_per_s is None else rate_text(bytes_per_s)
