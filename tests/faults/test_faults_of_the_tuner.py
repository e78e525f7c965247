"""What becomes of the tuner itself: killed anywhere, stopped and woken up."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable

import pytest
from stage import TAKE_OVER_S_MAX, MakeStage, Stage

Tell = Callable[[str, object], None]

pytestmark = pytest.mark.campaign

STORIES_MAX = 12
STILL_S_MAX = 90.0  # Without a death, a beginning or an end.
SETTLED_S = 5.0  # What is done once, when nothing is left to do.


@pytest.mark.timeout(240)
def test_the_one_that_acts_is_stopped_and_woken_up(make_stage: MakeStage, record_property: Tell) -> None:
    stage = make_stage("stopped", megabytes=40)
    leader, other = stage.start_two()
    stage.move()
    stage.until_turned()
    leader.process.send_signal(signal.SIGSTOP)
    stage.until("the stand-by takes over", other.acts, TAKE_OVER_S_MAX)
    stage.until("it turns the throttle", lambda: other.decided("follows_clients"), 20)
    leader.process.send_signal(signal.SIGCONT)
    stage.until("the old one stands by", leader.stands_by, 30)
    stage.end()
    record_property("told", "the other took over; woken up, the first wrote nothing more")


@pytest.fixture(scope="module")
def died() -> set[str]:
    """The points at which some tuner has died; how a move ends, for one, is the same with an objective and without."""
    return set()


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", ["rescue", "law"])
def test_killed_between_every_two_steps(
    name: str, died: set[str], make_stage: MakeStage, record_property: Tell
) -> None:
    """A story without a kill says which points there are. Then story after story every tuner dies at the first point at
    which none has died before, until a story passes alive. A point that only a crash leads to is met on the way, and gets
    its turn like the others."""
    steers = name == "law"
    began = len(died)
    known = story(make_stage(f"{name}-whole", steers=steers), None)
    assert len(known) > 12, f"hardly anything was done: {sorted(known)}"
    for number in range(1, STORIES_MAX + 1):
        before = len(died)
        known |= story(make_stage(f"{name}-{number}", steers=steers), died)
        if len(died) == before:
            break
    else:
        pytest.fail(f"there is no end of new points: {sorted(died)}")
    assert not known - died, f"nobody died at {sorted(known - died)}"
    record_property("told", f"killed at {len(died) - began} points in {number} moves")


def story(stage: Stage, died: set[str] | None) -> set[str]:
    """One move from its first second to its last trace, with a new tuner whenever one has died. The points that were passed.

    Args:
        died: where a tuner need not die any more; grows. None: nobody dies.
    """
    tuner = stage.start_tuner(spares=died)
    deadline = time.monotonic() + STILL_S_MAX
    moved = False
    ended_s: float | None = None
    while ended_s is None or time.monotonic() < ended_s + SETTLED_S:
        assert time.monotonic() < deadline, f"{stage.name} came to no end:\n{tuner.said()[-3000:]}"
        if not tuner.alive():
            assert died is not None, tuner.said()[-3000:]
            assert tuner.process.returncode == -signal.SIGKILL, tuner.said()[-3000:]
            died.add(tuner.points()[-1])
            stage.forget_the_dead()
            tuner = stage.start_tuner(spares=died)
            ended_s, deadline = None, time.monotonic() + STILL_S_MAX
        elif not moved and tuner.acts():
            stage.move()
            moved, deadline = True, time.monotonic() + STILL_S_MAX
        elif moved and ended_s is None and not stage.moving() and not stage.left():
            ended_s = time.monotonic()
            deadline = ended_s + STILL_S_MAX
        threading.Event().wait(0.1)
    tuner.kill()
    stage.end()
    return {point for one in stage.tuners for point in one.points()}
