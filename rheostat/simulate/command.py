"""`rheostat simulate`: what would happen. A scenario, a policy and a seed → how long, how close to the optimum, at whose cost.

Nothing here reaches a cluster. The same scenario, policy and seed give the same numbers on every machine.
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
from rheostat.simulate.policies import parse_policy
from rheostat.simulate.report import judge_run, report_lines, to_record
from rheostat.simulate.scenario_file import load_scenario, shipped_scenarios
from streaming.shared import units
from tuner.simulation.policy import LoopPolicy, SimulatedCluster
from tuner.simulation.ports import MemoryJournal
from tuner.simulation.run import run
from tuner.simulation.world import World

_LINE_EVERY_S = 5.0
_TICKS_PER_LOOK = 40


def run_simulate(named: str, *, policy: str, seed: int | None, plot: Path | None, as_json: bool) -> int:
    """Simulates, tells, and returns the exit code."""
    if plot is not None and not plot.parent.is_dir():
        raise BadInputError(f"--plot {plot}: there is no folder {plot.parent}; make it, or name another")
    scenario, hand = parse_policy(policy, load_scenario(named, seed))
    world = scenario.world
    journal = MemoryJournal()
    if isinstance(hand, LoopPolicy):
        hand = replace(hand, journal=journal)
    _say(f"{scenario.name}: {scenario.about or 'no description'}")
    _say("\n".join(_drawn(world)))
    with _progress(world) as watch:
        trace = run(world, hand, watch=watch)
    found = judge_run(scenario, trace, journal.entries)
    if as_json:
        out(json.dumps(to_record(found), indent=2))
    else:
        out(f"policy {trace.policy}", *report_lines(found))
    if plot is not None:
        from rheostat.simulate.chart import draw_run

        try:
            plot.write_text(draw_run(scenario, trace), encoding="utf-8")
        except OSError as error:
            raise BadInputError(f"--plot {plot}: cannot be written: {error.strerror or error}") from error
        _say(f"drawn: {plot}")
    return found.exit_code


def list_scenarios(*, as_json: bool) -> int:
    about = {name: _about(path) for name, path in shipped_scenarios().items()}
    if as_json:
        out(json.dumps(about, indent=2))
    else:
        width = max(map(len, about))
        out(*(f"{name:{width}}  {text}" for name, text in about.items()))
    return EXIT_DONE


def missing() -> BadInputError:
    return BadInputError(f"which scenario? A file, or one of {', '.join(shipped_scenarios())}")


def _about(path: Path) -> str:
    said = YamlFile(path.read_text(encoding="utf-8"), str(path)).body.get("about", "")
    return " ".join(str(said).split())


def _drawn(world: World) -> list[str]:
    """The seed and the world, but for the line that only machines read."""
    return world.describe().splitlines()[:-1]


@contextmanager
def _progress(world: World) -> Iterator[Callable[[SimulatedCluster], None]]:
    """A bar on a terminal, elsewhere a line every few seconds; both on stderr."""
    total = sum(p.size_bytes * len(p.adding) for p in world.moving)
    if sys.stderr.isatty():
        from rich.progress import Progress

        from rheostat.console.rich_console import console_of

        with Progress(console=console_of(sys.stderr), transient=True) as bar:
            task = bar.add_task("simulating", total=total)
            yield _every(
                _TICKS_PER_LOOK, lambda simulated: bar.update(task, completed=max(0.0, total - _left_bytes(simulated)))
            )
        return
    said_at = [time.monotonic()]

    def tell(simulated: SimulatedCluster) -> None:
        if time.monotonic() - said_at[0] >= _LINE_EVERY_S:
            said_at[0] = time.monotonic()
            _say(
                f"simulated {units.span_text(simulated.cluster.now_s)}, {units.size_text(_left_bytes(simulated))} left"
            )

    yield _every(_TICKS_PER_LOOK, tell)


def _every(ticks: int, look: Callable[[SimulatedCluster], None]) -> Callable[[SimulatedCluster], None]:
    def watch(simulated: SimulatedCluster) -> None:
        if simulated.cluster.ticks % ticks == 0:
            look(simulated)

    return watch


def _left_bytes(simulated: SimulatedCluster) -> float:
    replicas = simulated.cluster.replicas
    return float(replicas.lag_bytes[replicas.adding].sum())


def _say(text: str) -> None:
    tell(text)
