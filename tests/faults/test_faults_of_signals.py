"""The tuner's behaviour without reliable signals: metrics stop, come late, or its own clock is wrong."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from stage import SOURCE, MakeStage, Stage
from tuner_process import Tuner

Tell = Callable[[str, object], None]

pytestmark = [pytest.mark.campaign]


def wait_until_rate_falls(stage: Stage) -> str:
    """Waits until raised rates fall to the minimum; every observation is checked for rises later."""
    stood = stage.rate(SOURCE)
    began_s = time.monotonic()
    stage.until("the raised rate falls", lambda: stage.rate(SOURCE) < 0.9 * stood, 75)
    return f"held, then sank after {time.monotonic() - began_s:.0f} s"


def finish_once_rate_rises(stage: Stage, tuner: Tuner) -> None:
    """Waits until the tuner raises the rate again, and cancels the rest of the move."""
    stood = stage.rate(SOURCE)
    stage.until("the rate rises again", lambda: stage.rate(SOURCE) > stood, 40)
    assert not tuner.decided("external_change")
    stage.cancel()
    stage.end()


def test_missing_metrics_hold_then_lower_rates(make_stage: MakeStage, record_property: Tell) -> None:
    stage = make_stage("silent", megabytes=60)
    tuner = stage.start_tuner()
    stage.move()
    stage.wait_until_raised()
    stage.meter.stop_signals()
    stage.until("the tuner reports stale signals", lambda: tuner.decided("signals_stale"), 30)
    told = wait_until_rate_falls(stage)
    stage.meter.resume_signals()
    finish_once_rate_rises(stage, tuner)
    record_property("told", f"{told}; went on when they came back")


def test_metrics_two_minutes_late_count_as_stale(make_stage: MakeStage, record_property: Tell) -> None:
    stage = make_stage("late", megabytes=60)
    tuner = stage.start_tuner()
    stage.move()
    stage.wait_until_raised()
    stage.meter.delay_signals(120.0)
    stage.until("the tuner reports stale signals", lambda: tuner.decided("signals_stale"), 30)
    told = wait_until_rate_falls(stage)
    stage.meter.resume_signals()
    finish_once_rate_rises(stage, tuner)
    record_property("told", f"{told}; old news were taken for old")


@pytest.mark.parametrize("shift_s", [3600.0, -3600.0], ids=["an_hour_on", "an_hour_back"])
def test_tuner_clock_off_by_an_hour_counts_as_stale(
    shift_s: float, make_stage: MakeStage, record_property: Tell
) -> None:
    stage = make_stage(f"clock{shift_s:+.0f}".replace("+", "-on").replace("--", "-back"), megabytes=60)
    tuner = stage.start_tuner()
    stage.move()
    stage.wait_until_raised()
    tuner.set_clock(shift_s)
    since_s = time.monotonic()
    stage.until("the tuner reports stale signals", lambda: tuner.decided("signals_stale", "signals_missing"), 30)
    told = wait_until_rate_falls(stage)
    tuner.set_clock(0.0)
    stage.meter.stale.append((since_s, time.monotonic()))
    finish_once_rate_rises(stage, tuner)
    record_property("told", f"no signal could be trusted: {told}")
