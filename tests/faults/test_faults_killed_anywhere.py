"""SIGKILL between any two steps of a whole move, on real brokers, at every point.

A *point* is the moment between two steps, named after both (launcher.py). In each move one tuner after another dies at the
first point at which no tuner has died before. Points that only a restart leads to are covered in the same way. The last move
runs without a kill: it lists the points of a move, and a tuner must have died at each of them.

Rescue and closed-loop control have different points, so both are tested completely.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from stage import MakeStage, Stage

Tell = Callable[[str, object], None]

STORIES = 3  # With deaths, each a test of its own; those that come up by chance are left to the last.
STORIES_MAX = 10
MEGABYTES = 20
POINTS_MIN = 25  # Of a move that nobody disturbs; it has some forty.
STILL_S_MAX = 90.0  # Without a death, a beginning or an end.
SETTLED_S = 5.0  # What is done once, when nothing is left to do.

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(600)]


@dataclass
class Points:
    passed: set[str] = field(default_factory=set)
    died: set[str] = field(default_factory=set)


@pytest.fixture(scope="module", params=["rescue", "law"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def points(mode: str) -> Points:
    return Points()


@pytest.mark.parametrize("number", range(1, STORIES + 1))
def test_tuner_killed_between_any_two_steps_cleans_up(
    number: int, mode: str, points: Points, make_stage: MakeStage, record_property: Tell
) -> None:
    before = len(points.died)
    run_move_with_kills(make_stage(f"{mode}-{number}", steers=mode == "law", megabytes=MEGABYTES), points)
    record_property("told", f"killed at {len(points.died) - before} points in one move")


@pytest.mark.timeout(900)
def test_tuner_was_killed_at_every_point(
    mode: str, points: Points, make_stage: MakeStage, record_property: Tell
) -> None:
    for number in range(1, STORIES_MAX + 1):
        before = len(points.died)
        stage = make_stage(f"{mode}-rest-{number}", steers=mode == "law", megabytes=MEGABYTES)
        enumerated = run_move_with_kills(stage, points)
        if len(points.died) == before:
            break
    else:
        pytest.fail(f"there is no end of new points: {sorted(points.died)}")
    assert len(enumerated) >= POINTS_MIN, f"hardly anything was done: {sorted(enumerated)}"
    assert enumerated <= points.died, f"nobody died at {sorted(enumerated - points.died)}"
    assert points.passed <= points.died, f"nobody died at {sorted(points.passed - points.died)}"
    record_property("told", f"{len(points.died)} points, {len(enumerated)} of them of a move without a death")


def run_move_with_kills(stage: Stage, points: Points) -> set[str]:
    """Runs one move to its end; a new tuner starts whenever one has died. Returns the passed points."""
    tuner = stage.start_tuner(spares=points.died)
    stage.preload_next_tuner()
    deadline = time.monotonic() + STILL_S_MAX
    moved = False
    ended_s: float | None = None
    while ended_s is None or time.monotonic() < ended_s + SETTLED_S:
        assert time.monotonic() < deadline, f"{stage.name} came to no end:\n{tuner.log_tail()}"
        if not tuner.alive():
            assert tuner.process.returncode == -signal.SIGKILL, tuner.said()[-3000:]
            points.died.add(tuner.points()[-1])
            stage.free_lease_of_killed_tuner()
            tuner = stage.start_tuner(spares=points.died)
            stage.preload_next_tuner()
            ended_s, deadline = None, time.monotonic() + STILL_S_MAX
        elif not moved and tuner.acts():
            stage.move()
            moved, deadline = True, time.monotonic() + STILL_S_MAX
        elif moved and ended_s is None and tuner.acts() and not stage.moving() and not stage.left():
            ended_s = time.monotonic()
            deadline = ended_s + STILL_S_MAX
        threading.Event().wait(0.1)
    tuner.kill()
    stage.end()
    passed = {point for one in stage.tuners for point in one.points()}
    points.passed |= passed
    return passed
