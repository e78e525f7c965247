"""Runs rheostat for hours on a real cluster, and checks that nothing grows.

    python -m benchmarks.soak --minutes 120 --plot soak.svg

In turn: a throttled move, a storm of topic creations, the restart of a broker, a reload of changed settings, and a roll of two
tuners. Meanwhile it samples the memory, threads and handles of each process, the stream's checkpoint, and the numbers of topics and
consumer groups. Growth is the difference between two halves of the time after the warm-up (benchmarks/soaks/sampling.py).

Exit code 1: something grew beyond its bound, a move did not end, or a process ended by itself.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from itertools import cycle
from pathlib import Path

from benchmarks.links.watch import say
from benchmarks.soaks.sampling import Growth, folder_measures, growth_of, process_measures
from benchmarks.soaks.stage import TOPIC, WRITES_BYTES_PER_S, Stage
from rheostat.errors import CommandError
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.load import ProducerLoad
from rheostat.line_chart import COLOURS, Line, Mark, Panel, svg

SAMPLE_S = 5.0
PAUSE_S = 10.0  # Between two events.
EVENTS = ("move", "storm", "reload", "move", "restart_broker", "move", "roll")
_PANELS = {
    "rss_mb": "memory, MB", "threads": "threads", "handles": "open files", "checkpoint_mb": "checkpoint, MB",
    "checkpoint_files": "files of the checkpoint", "topics": "topics", "groups": "consumer groups",
}  # fmt: skip


class Samples:
    """All measures over time; a measure that began later is NaN before."""

    def __init__(self) -> None:
        self.times_s: list[float] = []
        self.values: dict[str, list[float]] = {}

    def add(self, at_s: float, measures: dict[str, float]) -> None:
        for name in measures.keys() | self.values.keys():
            series = self.values.setdefault(name, [math.nan] * len(self.times_s))
            series.append(measures.get(name, math.nan))
        self.times_s.append(at_s)

    def growths(self) -> list[Growth]:
        found = (growth_of(name, self.times_s, values) for name, values in sorted(self.values.items()))
        return [one for one in found if one is not None]


def soak(minutes: float, samples: Samples, marks: list[Mark]) -> Stage:
    """Runs the events for this long, and returns the stage with its counts and failures."""
    with Lab(LabSpec(brokers=3)) as lab, tempfile.TemporaryDirectory(prefix="rheostat-soak-") as logs:
        stage, done = Stage(lab, Path(logs)), threading.Event()
        began_s = time.monotonic()

        def sample() -> None:
            while not done.wait(SAMPLE_S):
                measures = {**folder_measures(stage.checkpoint), **stage.cluster_measures()}
                for name, process in list(stage.processes.items()):
                    measures |= process_measures(name, process.pid)
                samples.add(time.monotonic() - began_s, measures)

        sampler = threading.Thread(target=sample, name="sampler", daemon=True)
        try:
            stage.prepare_topic()
            with ProducerLoad(
                lab.artifacts, lab.bootstrap_servers, TOPIC, rate_bytes_per_s=WRITES_BYTES_PER_S, record_bytes=10_000
            ):
                stage.start_all()
                sampler.start()
                for event in cycle(EVENTS):
                    if time.monotonic() - began_s > 60 * minutes:
                        break
                    say(f"{(time.monotonic() - began_s) / 60:.1f} min: {event}")
                    marks.append(Mark(time.monotonic() - began_s, event))
                    try:
                        stage.run_event(event)
                    except CommandError as error:
                        stage.failures.append(f"{event}: {error}")
                    stage.check_alive()
                    done.wait(PAUSE_S)
        finally:
            done.set()
            with suppress(RuntimeError):  # It has not started.
                sampler.join(timeout=30)
            stage.stop_all()
    return stage


def draw(samples: Samples, marks: list[Mark], minutes: float) -> str:
    """Returns the plot as SVG."""
    panels = []
    for suffix, title in _PANELS.items():
        names = [name for name in sorted(samples.values) if name.endswith(f".{suffix}")]
        lines = tuple(
            Line(name.removesuffix(f".{suffix}"), samples.values[name], COLOURS[i % len(COLOURS)])
            for i, name in enumerate(names)
        )
        panels.append(Panel(title, lines, lambda value: f"{value:,.0f}"))
    shown = marks if len(marks) <= 20 else []
    return svg(
        "Soak",
        f"{minutes:g} minutes of moves, storms, restarts and reloads",
        samples.times_s,
        panels,
        time_label="time",
        marks=shown,
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.soak", description="Runs rheostat for long, and finds what grows."
    )
    parser.add_argument("--minutes", type=float, default=120.0, help="length of the run (default: 120)")
    parser.add_argument("--plot", type=Path, help="draw all measures over time, as SVG")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    samples, marks = Samples(), list[Mark]()
    stage = soak(options.minutes, samples, marks)
    growths = samples.growths()
    grown = [one for one in growths if not one.is_flat]
    if options.plot is not None:
        options.plot.write_text(draw(samples, marks, options.minutes), encoding="utf-8")
    if options.json:
        rows = {one.name: {**asdict(one), "is_flat": one.is_flat} for one in growths}
        print(json.dumps({"events": stage.counts, "failures": stage.failures, "growth": rows}, indent=1))
    else:
        print(f"{'measure':28}{'before':>10}{'after':>10}{'per hour':>10}")
        for one in growths:
            print(
                f"{one.name:28}{one.before:10.1f}{one.after:10.1f}{one.slope_per_h:10.1f}{'' if one.is_flat else '  GREW'}"
            )
        print("events:", ", ".join(f"{name} {count}" for name, count in stage.counts.items()))
        print("\n".join(stage.failures))
    return int(bool(grown or stage.failures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
