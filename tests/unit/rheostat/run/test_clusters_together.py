"""The work for several clusters in one process: one that hangs delays no other, and a fault ends all."""

from __future__ import annotations

import threading

import pytest

from rheostat.run.clusters_together import CommonSteps, run_together

WAIT_S_MAX = 10.0


def test_work_that_hangs_does_not_delay_another() -> None:
    released, done = threading.Event(), threading.Event()
    runner = threading.Thread(
        target=run_together,
        args=([lambda: bool(released.wait(WAIT_S_MAX)), done.set], threading.Event()),
        kwargs={"name": "test"},
        daemon=True,
    )
    runner.start()
    assert done.wait(WAIT_S_MAX)
    assert runner.is_alive(), "it waits for both"
    released.set()
    runner.join(WAIT_S_MAX)
    assert not runner.is_alive()


def test_error_of_one_work_stops_the_others_and_is_raised() -> None:
    stop = threading.Event()

    def fail() -> None:
        raise ValueError("broken")

    def wait() -> None:
        stop.wait(WAIT_S_MAX)

    with pytest.raises(ValueError, match="broken"):
        run_together([wait, fail], stop, name="test")
    assert stop.is_set()


def test_single_work_runs_in_the_calling_thread() -> None:
    names: list[str] = []

    def note() -> None:
        names.append(threading.current_thread().name)

    run_together([note], threading.Event(), name="test")
    assert names == [threading.current_thread().name]


def test_common_steps_tell_of_a_cluster_that_hangs() -> None:
    now_s = 0.0
    steps = CommonSteps(["east", "west"], 10.0, lambda: now_s)
    now_s = 9.0
    assert steps.stepped("east")
    now_s = 11.0
    assert not steps.stepped("east"), "west has not stepped for 11 s"
    assert steps.stepped("west")
