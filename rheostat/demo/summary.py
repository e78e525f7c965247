"""The demo's verdict, for people and for machines."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from rheostat.demo.view import DemoView
from streaming.shared.units import rate_text

PHASES = ("before", "during", "after")


@dataclass(slots=True)
class DemoSummary:
    stalled_before_s: float | None = None  # Throttled reassignment → tuner start, without progress all the while.
    trend_before_bytes_per_s: float | None = None  # Of what remained, meanwhile; positive is falling behind.
    write_bytes_per_s: float | None = None  # By the producers, while it was stalled.
    stall_detection_s: float | None = None  # Tuner start → stall found.
    cause: str | None = None
    rescue_s: float | None = None  # Tuner start → move complete.
    optimum_s: float | None = None  # At the ceiling from the first moment, in the fluid model.
    ratio_to_optimum: float | None = None
    rate_bytes_per_s_max: float = 0.0
    decisions: list[dict[str, Any]] = field(default_factory=list)
    produce_p99_ms: dict[str, float | None] = field(default_factory=dict)
    throttle_keys_left: int | None = None
    left: list[str] = field(default_factory=list)
    completed: bool = False
    all_s: float = 0.0

    def faults(self) -> list[str]:
        """What keeps the demo from having shown what it promises; empty when it has."""
        faults = []
        if self.trend_before_bytes_per_s is None or self.trend_before_bytes_per_s <= 0:
            wrote = "" if self.write_bytes_per_s is None else f", with producers at {rate_text(self.write_bytes_per_s)}"
            faults.append(
                f"the move was not falling behind before the tuner started{wrote}, so there was nothing to rescue: is this machine "
                "busy with something else?"
            )
        if self.stall_detection_s is None or self.cause is None:
            faults.append("the tuner did not find the stall")
        if not any(d["action"] == "set" and d["kind"] == "outcome" for d in self.decisions):
            faults.append("no throttle was raised")
        if not self.completed:
            faults.append("the move did not complete in time")
        elif self.ratio_to_optimum is None:
            faults.append("the fluid optimum could not be worked out, as the sizes before the rescue are not known")
        if missing := [phase for phase in PHASES if self.produce_p99_ms.get(phase) is None]:
            faults.append(f"produce latency was not measured {', '.join(missing)} the move")
        if self.throttle_keys_left is None:
            faults.append("it is not known whether throttle settings were left behind")
        elif self.throttle_keys_left:
            faults.append(f"throttle settings were left behind: {', '.join(self.left)}")
        return faults

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def tell(self, view: DemoView) -> None:
        view.head("Summary")
        if self.stalled_before_s is not None and self.trend_before_bytes_per_s is not None:
            trend = self.trend_before_bytes_per_s
            view.say(
                f"left alone for {self.stalled_before_s:.0f} s before the tuner came: what remained "
                f"{'grew' if trend > 0 else 'shrank'} by {rate_text(abs(trend))}, under a throttle above what producers write"
            )
        if self.stall_detection_s is not None:
            view.say(
                f"the stall was found {self.stall_detection_s:.0f} s after the tuner's start, reason: {self.cause}"
            )
        if self.rescue_s is not None and self.optimum_s is not None:
            view.say(
                f"complete {self.rescue_s:.0f} s after the tuner's start; with a throttle of "
                f"{rate_text(self.rate_bytes_per_s_max)} from the first moment it could have been {self.optimum_s:.0f} s "
                f"(ratio {self.ratio_to_optimum}; the tuner's start, judging the stall and the ramp are in it)"
            )
        p99 = {phase: "–" if value is None else f"{value:.0f} ms" for phase, value in self.produce_p99_ms.items()}
        view.say("produce latency, 99th percentile: " + ", ".join(f"{phase} {value}" for phase, value in p99.items()))
        view.say(
            f"throttle settings left behind: {'unknown' if self.throttle_keys_left is None else self.throttle_keys_left}"
        )
        view.say(f"all of it took {self.all_s:.0f} s")
        for fault in self.faults():
            view.say(f"NOT WELL: {fault}", style="bold red")
