"""The result of the demo, as text and as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from rheostat.demo.recording import Recording
from rheostat.demo.view import DemoView
from streaming.shared.units import rate_text, span_text

PHASES = ("before", "during", "after")


@dataclass(slots=True)
class DemoSummary:
    """Figures of the run; None if not measured."""

    stalled_before_s: float | None = None  # From the start of the reassignment to the tuner's start.
    # Change of the remaining bytes in that time; positive: the move falls behind.
    trend_before_bytes_per_s: float | None = None
    write_bytes_per_s: float | None = None  # The producers' rate in that time.
    stall_detection_s: float | None = None  # From the tuner's start until it finds the stall.
    cause: str | None = None  # The reason of the decision that found the stall.
    rescue_s: float | None = None  # From the tuner's start to the end of the move.
    # Shortest possible time of the rescue, with the maximum rate from the tuner's start on.
    optimum_s: float | None = None
    ratio_to_optimum: float | None = None
    rate_bytes_per_s_max: float = 0.0
    decisions: list[dict[str, Any]] = field(default_factory=list)
    produce_p99_ms: dict[str, float | None] = field(default_factory=dict)
    throttle_keys_left: int | None = None
    left: list[str] = field(default_factory=list)  # The throttle settings that were left behind.
    completed: bool = False
    all_s: float = 0.0
    recording: Recording | None = None

    def faults(self) -> list[str]:
        """Returns why the demo did not show a rescue; empty if it did."""
        faults = []
        if self.trend_before_bytes_per_s is None or self.trend_before_bytes_per_s <= 0:
            wrote = "" if self.write_bytes_per_s is None else f", with producers at {rate_text(self.write_bytes_per_s)}"
            faults.append(
                f"the move was not falling behind before the tuner started{wrote}, so there was nothing to rescue: is this machine "
                "busy with other programs?"
            )
        if self.stall_detection_s is None or self.cause is None:
            faults.append("the tuner did not find the stall")
        if not any(d["action"] == "set" and d["kind"] == "outcome" for d in self.decisions):
            faults.append("no throttle was raised")
        if not self.completed:
            faults.append("the move did not complete in time")
        elif self.ratio_to_optimum is None:
            faults.append("the optimum is unknown, as the log sizes before the rescue could not be read")
        if missing := [phase for phase in PHASES if self.produce_p99_ms.get(phase) is None]:
            faults.append(f"produce latency was not measured {', '.join(missing)} the move")
        if self.throttle_keys_left is None:
            faults.append("it is unknown whether throttle settings were left behind")
        elif self.throttle_keys_left:
            faults.append(f"throttle settings were left behind: {', '.join(self.left)}")
        return faults

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def print_to(self, view: DemoView) -> None:
        view.print_heading("Summary")
        if self.stalled_before_s is not None and self.trend_before_bytes_per_s is not None:
            trend = self.trend_before_bytes_per_s
            view.print_line(
                f"for {span_text(self.stalled_before_s)} before the tuner started, the remaining bytes "
                f"{'grew' if trend > 0 else 'shrank'} by {rate_text(abs(trend))}, though the throttle was above the producers' rate"
            )
        if self.stall_detection_s is not None:
            view.print_line(
                f"the tuner found the stall {span_text(self.stall_detection_s)} after its start, reason: {self.cause}"
            )
        if self.rescue_s is not None and self.optimum_s is not None:
            view.print_line(
                f"the move ended {span_text(self.rescue_s)} after the tuner's start; the optimum, with a throttle of "
                f"{rate_text(self.rate_bytes_per_s_max)} from the beginning, is {span_text(self.optimum_s)} "
                f"(ratio {self.ratio_to_optimum}, which includes the tuner's start, the stall detection and the ramp)"
            )
        p99 = {phase: "–" if value is None else f"{value:.0f} ms" for phase, value in self.produce_p99_ms.items()}
        view.print_line(
            "produce latency, 99th percentile: " + ", ".join(f"{phase} {value}" for phase, value in p99.items())
        )
        view.print_line(
            f"throttle settings left behind: {'unknown' if self.throttle_keys_left is None else self.throttle_keys_left}"
        )
        view.print_line(f"the demo took {span_text(self.all_s)}")
        for fault in self.faults():
            view.print_line(f"FAULT: {fault}", style="bold red")
