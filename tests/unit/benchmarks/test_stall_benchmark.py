"""The stall benchmark: its traces, their labels, and the score of a detector."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import pytest
from tuner_cases import traced

from benchmarks.stall import ours, within_bounds
from benchmarks.stalls.recordings import read, recordings, write
from benchmarks.stalls.score import Score, Verdict, score, verdict, worth
from benchmarks.stalls.traces import PERIODS_S, STALLS, Sampled, Trace, made, sampled
from benchmarks.stalls.world import MB, Hold, Start, Tick, World, run
from streaming.shared.contract import MoveStep
from tuner.core.throttle_limits import StallLimits


def world(
    *,
    quota: float = 20 * MB,
    write: float = 3 * MB,
    counted: int = 2,
    start: Start = Start.EVEN,
    holds: tuple[Hold, ...] = (),
) -> World:
    return World(
        lasts_s=120.0,
        quota_bytes_per_s=lambda _: quota,
        write_bytes_per_s=lambda _: write,
        counted=counted,
        remaining_bytes=1e12,
        line_bytes_per_s=300 * MB,
        fetch_bytes=4_194_304,
        start=start,
        holds=holds,
    )


def gained_per_s(ticks: list[Tick], from_s: int, until_s: int) -> list[float]:
    at = {tick.at_s: tick.gained_bytes for tick in ticks}
    return [(at[s + 1.0] - at[float(s)]) / MB for s in range(from_s, until_s)]


# -- the world ---------------------------------------------------------------------------------------------------------


def test_throttled_copy_gets_quota_minus_in_sync_follower() -> None:
    ticks = run(world())
    mean = sum(gained_per_s(ticks, 30, 118)) / 88
    assert mean == pytest.approx(17.0, rel=0.05)  # 20 less 3 for the follower that is in sync.
    assert ticks[-1].surplus_bytes_per_s == pytest.approx(14 * MB)


def test_start_with_idle_windows_bursts_every_eleven_seconds() -> None:
    seconds = gained_per_s(run(world(start=Start.IDLE)), 33, 66)
    clumps = [s for s, mb in enumerate(seconds) if mb > 100]
    assert [later - sooner for sooner, later in itertools.pairwise(clumps)] == [11, 11]
    assert sum(mb for mb in seconds if mb <= 100) < 0.3 * sum(seconds)


def test_throttle_below_steady_state_lags_but_moves_bursts() -> None:
    ticks = run(world(quota=4.5 * MB, start=Start.BURST))
    first, last = ticks[60], ticks[-1]
    behind = (last.remaining_bytes - first.remaining_bytes) / (last.at_s - first.at_s)
    assert behind == pytest.approx(1.5 * MB, rel=0.1)
    assert last.gained_bytes > first.gained_bytes


def test_hold_passes_at_most_its_rate() -> None:
    ticks = run(world(holds=(Hold(40.0, 80.0, 1.0, 0.25),)))
    assert max(gained_per_s(ticks, 41, 79)) <= 3 + 0.25 * 14 + 1e-9


# -- the traces --------------------------------------------------------------------------------------------------------


def test_traces_are_determined_by_their_seed() -> None:
    assert made(3, 1) == made(3, 1)
    assert made(3, 1) != made(4, 1)


def test_traces_balance_stalls_and_cover_every_kind() -> None:
    traces = made(5, 2)
    assert [t.kind for t in traces if t.stall_s] == [kind for kind in STALLS for _ in range(2)]
    assert sum(t.stall_s is None for t in traces) == 10


@pytest.mark.parametrize("period_s", PERIODS_S)
def test_steps_add_up_to_trace_total(period_s: float) -> None:
    for trace in made(6, 1):
        steps = sampled(trace, period_s, 1).steps
        ends_s = steps[-1].at_ms / 1000
        assert sum(s.dt_s for s in steps) == pytest.approx(ends_s)
        written = next(t.written_bytes for t in trace.ticks if t.at_s == ends_s)
        assert sum(s.written_bytes for s in steps) == pytest.approx(written)


# -- the score ---------------------------------------------------------------------------------------------------------


def judged(alarm_at_s: set[int], stall_s: tuple[float, float] | None) -> Verdict:
    """Steps of 10 s from 10 to 300 s; the alarm is on after the named steps."""
    steps = tuple(MoveStep(s * 1000, 10.0, 0.0, 0.0, 1e9) for s in range(10, 301, 10))
    trace = Trace("dead", "made", stall_s, ())
    return verdict(Sampled(trace, steps, (1.0,) * 30), [s.at_ms // 1000 in alarm_at_s for s in steps])


def test_delay_runs_from_stall_start_to_alarm() -> None:
    found = judged({140, 150, 160}, (105.0, 200.0))
    assert (found.delay_s, found.false_alarms, found.clear_s) == (35.0, 0, None)
    assert found.well_h == pytest.approx(200 / 3600)


def test_alarm_before_stall_is_false_and_no_detection() -> None:
    found = judged({90, 100, 110, 120}, (105.0, 200.0))
    assert (found.delay_s, found.false_alarms) == (None, 1)


def test_each_alarm_outside_a_stall_is_one_false_alarm() -> None:
    assert judged({20, 30, 40, 100, 290, 300}, None).false_alarms == 3


def test_stall_detected_after_two_minutes_is_missed() -> None:
    found = judged({240}, (105.0, 250.0))
    assert (found.delay_s, found.false_alarms) == (None, 0)


def test_alarm_duration_after_stall_end() -> None:
    assert judged({150, 160, 170, 180}, (105.0, 165.0)).clear_s == 25.0


def test_score_counts_recall_precision_and_delays() -> None:
    found = score(
        [
            Verdict("dead", True, 20.0, 0, 0.5),
            Verdict("dead", True, 30.0, 1, 0.5),
            Verdict("slow", True, None, 0, 0.5),
            Verdict("steady", False, None, 0, 0.5),
        ]
    )
    assert (found.recall, found.precision) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    assert (found.delay_s_median, found.delay_s_p95) == (30.0, math.inf)
    assert found.false_alarms_per_h == pytest.approx(0.5)
    assert found.delay_s_by_kind == {"dead": 25.0, "slow": math.inf}
    assert json.loads(json.dumps(found.as_json()))["delay_s_p95"] is None


@pytest.mark.parametrize(
    ("recall", "precision", "delay_s", "per_h", "well"),
    [
        (0.99, 0.98, 24.0, 0.1, True),
        (0.989, 0.98, 24.0, 0.1, False),
        (0.99, 0.979, 24.0, 0.1, False),
        (0.99, 0.98, 24.1, 0.1, False),
        (0.99, 0.98, 24.0, 0.101, False),
    ],
)
def test_score_below_any_bound_is_not_within_bounds(
    recall: float, precision: float, delay_s: float, per_h: float, well: bool
) -> None:
    found = Score(recall, precision, delay_s, 60.0, per_h, 3, 30.0)
    assert within_bounds(found) is well
    assert worth(found) == pytest.approx(recall + precision - delay_s / 300)


def test_scored_detector_is_the_tuners_stall_detector() -> None:
    steps = tuple(traced([0.0] * 6, start_ms=0))
    one = Sampled(Trace("dead", "made", (0.0, 30.0), ()), steps, (14.0 * MB,) * 6)
    assert ours(one, StallLimits()) == [False] * 3 + [True] * 3
    assert ours(one, StallLimits(stalled_lost_s=20.0)) == [False] * 4 + [True] * 2


def test_detector_meets_bounds_on_unseen_traces() -> None:
    """Twelve minutes of each kind of trace; the benchmark uses more."""
    limits = StallLimits()
    found = score(
        verdict(one, ours(one, limits)) for one in (sampled(trace, 5.0, i) for i, trace in enumerate(made(77, 4)))
    )
    assert found.recall == 1.0
    assert found.delay_s_median <= 24.0
    assert found.false_alarms <= 1


# -- recordings --------------------------------------------------------------------------------------------------------

TICKS = [Tick(0.0, 0, 0, 300 * MB, 2 * MB), Tick(1.0, 2 * MB, 1 * MB, 299 * MB, 2 * MB)]


def test_recording_round_trips_through_a_file(tmp_path: Path) -> None:
    write(tmp_path / "one.jsonl", {"kind": "dead", "stall": True, "onset_s": 30, "ends_s": 90}, TICKS)
    found = recordings(tmp_path)
    assert [(t.kind, t.source, t.stall_s, list(t.ticks)) for t in found] == [("dead", "one", (30.0, 90.0), TICKS)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "0 looks; expected at least 2"),
        ('{"kind": "dead"}\n', "line 1: 'stall'"),
        ('{"kind": "dead", "stall": false}\n[1, 2, 3]\n', "line 2: "),
        ('{"kind": "dead", "stall": false}\n[0, 0, 0, 0, 0]\nno\n', "line 3: "),
        ('{"kind": "dead", "stall": true, "onset_s": null, "ends_s": 4}\n', "line 1: "),
    ],
)
def test_invalid_recording_file_is_refused_with_its_line(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"^bad\.jsonl") as error:
        read(file)
    assert said in str(error.value)


@pytest.mark.parametrize("trace", recordings(), ids=lambda trace: trace.source)
@pytest.mark.parametrize("period_s", PERIODS_S)
def test_detector_is_right_on_recordings_of_real_brokers(trace: Trace, period_s: float) -> None:
    one = sampled(trace, period_s, 1)
    found = verdict(one, ours(one, StallLimits()))
    assert found.false_alarms == 0
    assert (found.delay_s is not None) == found.stall
