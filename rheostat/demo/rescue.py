"""The rescue: the tuner starts, and what it decides is told as it comes; afterwards the journal says how it went."""

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
LOOK_S = 0.5


def rescue(parts: DemoProcesses, view: DemoView, watch: MoveWatch) -> float | None:
    """Lets the tuner act until the move is over and its throttle gone; when the move ended, or None."""
    view.say(f"rheostat's tuner starts; its page, for as long as it runs: {parts.page}")
    parts.act()
    until = time.monotonic() + RESCUE_S_MAX
    told: set[tuple[int, str]] = set()
    ended_s: float | None = None
    answered = False
    while time.monotonic() < until:
        parts.look()
        status = parts.status()
        answered = answered or status is not None
        if status is None:
            what = "rheostat's tuner does not answer for the moment" if answered else "rheostat's tuner is starting"
        else:
            what = _decisions(status, view, watch, told)
        moving = watch.show(view, what)
        if not moving and ended_s is None:
            ended_s = time.monotonic()
            view.say("the last replica has joined; now the throttle has to go", style="green")
        if ended_s is not None and not watch.throttle_keys():
            break
        threading.Event().wait(LOOK_S)
    if (status := parts.status()) is not None:
        _decisions(status, view, watch, told)
    return ended_s


def _decisions(status: dict[str, Any], view: DemoView, watch: MoveWatch, told: set[tuple[int, str]]) -> str:
    """Prints the tuner's new decisions; one phrase on where it stands."""
    for decision in status["last_decisions"]:
        key = (decision["at_ms"], decision["text"])
        if key in told:
            continue
        told.add(key)
        if decision["action"] != "hold":
            view.say(decision["text"], style="bold cyan")
        elif decision["reason"] in ("watching", "rate_is_changing"):
            continue
        else:
            view.say(decision["text"], style="dim")
    if not status["ready"]:
        return f"rheostat changes nothing: {status['ready_text']}"
    rates = {(t["broker"], t["side"]): t["current_rate_bytes_per_s"] for t in status["throttles"]}
    leader, follower = rates.get((watch.leader, "leader")), rates.get((watch.destination, "follower"))
    if leader is None or follower is None:
        return "rheostat watches"
    return f"throttles: broker {watch.leader} leader {rate_text(leader)}, broker {watch.destination} follower {rate_text(follower)}"


def judge_optimum(summary: DemoSummary, remaining_bytes: float, write_bytes_per_s: float) -> None:
    """Against the move at the ceiling from the tuner's start on, in the fluid model; one in-sync follower."""
    loads = [SideLoad(remaining_bytes, 2 * write_bytes_per_s), SideLoad(remaining_bytes, write_bytes_per_s)]
    best = fluid_optimum_s(loads, summary.rate_bytes_per_s_max)
    if best:
        summary.optimum_s = round(best, 1)
        summary.ratio_to_optimum = round(summary.rescue_s / best, 2) if summary.rescue_s is not None else None


def judge_decisions(summary: DemoSummary, settings: Settings, tuner_s: float) -> None:
    """From the journal, which is what an operator would look at afterwards. Args: tuner_s: its start, monotonic."""
    started_ms = (time.time() - (time.monotonic() - tuner_s)) * 1000
    for entry in last_entries(settings, count=1000):
        at_s = round((entry.at_ms - started_ms) / 1000, 1)
        summary.decisions.append(
            {"at_s": at_s, "kind": entry.kind, "action": entry.action, "reason": entry.reason, "text": entry.text}
        )
        if summary.cause is None and entry.action == "set" and entry.reason.startswith("stalled"):
            summary.cause, summary.stall_detection_s = entry.reason, at_s
