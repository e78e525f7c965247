"""The rescue: starts the tuner, prints its decisions until the move ends, and evaluates them from the journal."""

from __future__ import annotations

import threading
import time
from typing import Any

from rheostat.config.settings import Settings
from rheostat.demo.move import MoveWatch
from rheostat.demo.processes import DemoProcesses
from rheostat.demo.summary import DemoSummary
from rheostat.demo.view import DemoView
from rheostat.status.report import last_entries
from streaming.shared.units import rate_text
from tuner.core.drain_time import SideLoad, fluid_optimum_s

RESCUE_S_MAX = 150.0
POLL_S = 0.5
_ROUTINE_REASONS = ("watching", "rate_is_changing")  # The tuner holds for these reasons again and again.


def rescue(processes: DemoProcesses, view: DemoView, watch: MoveWatch) -> float | None:
    """Runs the tuner until the move has ended and its throttle is removed.

    Returns:
        When the move ended (``time.monotonic``); None if it did not end within ``RESCUE_S_MAX``.
    """
    view.print_line(f"rheostat's tuner starts; its status page while it runs: {processes.page}")
    processes.start_tuner()
    until_s = time.monotonic() + RESCUE_S_MAX
    printed: set[tuple[int, str]] = set()
    ended_s: float | None = None
    has_answered = False
    while time.monotonic() < until_s:
        processes.check()
        status = processes.status()
        has_answered = has_answered or status is not None
        if status is None:
            activity = (
                "rheostat's tuner does not answer at the moment" if has_answered else "rheostat's tuner is starting"
            )
        else:
            activity = _print_decisions(status, view, watch, printed)
        moving = watch.show(view, activity)
        if not moving and ended_s is None:
            ended_s = time.monotonic()
            view.print_line("the last replica has joined the ISR; next the tuner removes the throttle", style="green")
        if ended_s is not None and not watch.throttle_settings():
            break
        threading.Event().wait(POLL_S)
    if (status := processes.status()) is not None:
        _print_decisions(status, view, watch, printed)
    return ended_s


def _print_decisions(status: dict[str, Any], view: DemoView, watch: MoveWatch, printed: set[tuple[int, str]]) -> str:
    """Prints the tuner's decisions that are not in ``printed`` yet. Returns a phrase about the state of the move."""
    for decision in status["last_decisions"]:
        key = (decision["at_ms"], decision["text"])
        if key in printed:
            continue
        printed.add(key)
        if decision["action"] != "hold":
            view.print_line(decision["text"], style="bold cyan")
        elif decision["reason"] not in _ROUTINE_REASONS:
            view.print_line(decision["text"], style="dim")
    if not status["ready"]:
        return f"rheostat changes nothing: {status['ready_text']}"
    throttles = status["throttles"]
    rates = {(row["broker"], row["side"]): row["current_rate_bytes_per_s"] for row in throttles}
    leader, follower = rates.get((watch.leader, "leader")), rates.get((watch.destination, "follower"))
    if leader is None or follower is None:
        return "rheostat observes the move"
    return f"throttles: broker {watch.leader} leader {rate_text(leader)}, broker {watch.destination} follower {rate_text(follower)}"


def add_optimum(summary: DemoSummary, remaining_bytes: float, write_bytes_per_s: float) -> None:
    """Adds the shortest possible time of the rescue: the fluid model with the maximum rate from the tuner's start on."""
    # The leader side also carries the in-sync follower, so its steady-state replication is twice the write rate.
    loads = [SideLoad(remaining_bytes, 2 * write_bytes_per_s), SideLoad(remaining_bytes, write_bytes_per_s)]
    optimum_s = fluid_optimum_s(loads, summary.rate_bytes_per_s_max)
    if optimum_s:
        summary.optimum_s = round(optimum_s, 1)
        summary.ratio_to_optimum = round(summary.rescue_s / optimum_s, 2) if summary.rescue_s is not None else None


def add_decisions(summary: DemoSummary, settings: Settings, tuner_s: float) -> None:
    """Adds the tuner's decisions from the journal.

    Args:
        tuner_s: the start of the tuner (``time.monotonic``).
    """
    started_ms = (time.time() - (time.monotonic() - tuner_s)) * 1000
    for entry in last_entries(settings, count=1000):
        at_s = round((entry.at_ms - started_ms) / 1000, 1)
        summary.decisions.append(
            {"at_s": at_s, "kind": entry.kind, "action": entry.action, "reason": entry.reason, "text": entry.text}
        )
        if summary.cause is None and entry.action == "set" and entry.reason.startswith("stalled"):
            summary.cause, summary.stall_detection_s = entry.reason, at_s
