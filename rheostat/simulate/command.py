"""Runs `rheostat simulate`: simulates a scenario under a policy, and prints duration, distance to the optimum, and client latency.

The command contacts no cluster. The same scenario, policy and seed give the same numbers on every machine.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rheostat.config.yaml_file import YamlFile
from rheostat.console.output import out, tell
from rheostat.errors import EXIT_DONE, BadInputError
from rheostat.line_chart import check_plot_path, write_plot
from rheostat.simulate.policies import parse_policy
from rheostat.simulate.report import judge_run, report_lines, to_record
from rheostat.simulate.scenario_file import load_scenario, shipped_scenarios
from streaming.shared import units
from tuner.simulation.policy import LoopPolicy, SimulatedEnvironment
from tuner.simulation.ports import MemoryJournal
from tuner.simulation.run import run
from tuner.simulation.world import World

_LINE_EVERY_S = 5.0
_TICKS_PER_UPDATE = 40  # Ticks of the simulation between two updates of the progress.


def run_simulate(scenario_name: str, *, policy: str, seed: int | None, plot: Path | None, as_json: bool) -> int:
    """Simulates a scenario, prints the result, and returns the exit code."""
    if plot is not None:
        check_plot_path(plot)
    scenario, simulated_policy = parse_policy(policy, load_scenario(scenario_name, seed))
    world = scenario.world
    journal = MemoryJournal()
    if isinstance(simulated_policy, LoopPolicy):
        simulated_policy = replace(simulated_policy, journal=journal)
    _print_progress(f"{scenario.name}: {scenario.about or 'no description'}")
    _print_progress("\n".join(_describe_world(world)))
    with _progress(world) as watch:
        trace = run(world, simulated_policy, watch=watch)
    verdict = judge_run(scenario, trace, journal.entries)
    if as_json:
        out(json.dumps(to_record(verdict), indent=2))
    else:
        out(f"policy {trace.policy}", *report_lines(verdict))
    if plot is not None:
        from rheostat.simulate.chart import draw_run

        write_plot(plot, draw_run(scenario, trace))
        _print_progress(f"The plot is written to {plot}.")
    return verdict.exit_code


def list_scenarios(*, as_json: bool) -> int:
    """Prints the scenarios that come with rheostat."""
    about = {name: _about(path) for name, path in shipped_scenarios().items()}
    if as_json:
        out(json.dumps(about, indent=2))
    else:
        width = max(map(len, about))
        out(*(f"{name:{width}}  {text}" for name, text in about.items()))
    return EXIT_DONE


def missing_scenario() -> BadInputError:
    """Returns the error for a call without a scenario."""
    return BadInputError(f"No scenario was given: name a file, or one of {', '.join(shipped_scenarios())}.")


def _about(path: Path) -> str:
    about = YamlFile(path.read_text(encoding="utf-8"), str(path)).body.get("about", "")
    return " ".join(str(about).split())


def _describe_world(world: World) -> list[str]:
    """Returns the description of the world without its last line, which is JSON."""
    return world.describe().splitlines()[:-1]


@contextmanager
def _progress(world: World) -> Iterator[Callable[[SimulatedEnvironment], None]]:
    """Yields a function that shows the progress on stderr: a bar on a terminal, else a line every few seconds."""
    total = sum(p.size_bytes * len(p.adding) for p in world.moving)
    if sys.stderr.isatty():
        from rich.progress import Progress

        from rheostat.console.rich_console import console_for

        with Progress(console=console_for(sys.stderr), transient=True) as bar:
            task = bar.add_task("simulating", total=total)
            yield _call_every(
                _TICKS_PER_UPDATE,
                lambda simulated: bar.update(task, completed=max(0.0, total - _remaining_bytes(simulated))),
            )
        return
    printed_s = time.monotonic()

    def show(simulated: SimulatedEnvironment) -> None:
        nonlocal printed_s
        if time.monotonic() - printed_s >= _LINE_EVERY_S:
            printed_s = time.monotonic()
            _print_progress(
                f"{units.span_text(simulated.cluster.now_s)} simulated, {units.size_text(_remaining_bytes(simulated))} left to copy"
            )

    yield _call_every(_TICKS_PER_UPDATE, show)


def _call_every(ticks: int, show: Callable[[SimulatedEnvironment], None]) -> Callable[[SimulatedEnvironment], None]:
    """Returns a function that calls ``show`` once in ``ticks`` ticks of the simulation."""

    def watch(simulated: SimulatedEnvironment) -> None:
        if simulated.cluster.ticks % ticks == 0:
            show(simulated)

    return watch


def _remaining_bytes(simulated: SimulatedEnvironment) -> float:
    replicas = simulated.cluster.replicas
    return float(replicas.lag_bytes[replicas.adding].sum())


def _print_progress(text: str) -> None:
    tell(text)
