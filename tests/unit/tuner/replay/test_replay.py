"""The journal replays to the same decisions, bit for bit; differences are found."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from replay_rig import FakeRecoveries, FilmedRig, differing
from tuner_cases import LIMITS, NOW_MS, SOURCE, STALL, TARGET, move

from streaming.shared.contract import Side
from streaming.shared.throttle_settings import TopicThrottle
from tuner.control.throttle import objective as objectives
from tuner.control.throttle.decision import Hold, Reason
from tuner.control.throttle.objective import ControlLimits, Mode, Objective
from tuner.control.throttle.state import Memory
from tuner.control.throttle.steering import law, side_control
from tuner.control.throttle.steering.state import ControlState
from tuner.core.cluster import PartitionMove
from tuner.core.deadline_forecast import DeadlineForecast
from tuner.core.operator_orders import Orders, Pause
from tuner.core.prepare_handshake import PrepareHandshake
from tuner.core.reassignment_plan import Plan, PlanHead, PlanPartition, PlanThrottle, RequestedStep
from tuner.core.throttle_limits import MB, ThrottleLimits
from tuner.journal.decision_digest import digest_decisions
from tuner.journal.delta_stream import FRAME_EVERY_S
from tuner.journal.settings_snapshot import SettingsSnapshot
from tuner.replay.compare import compare_steps
from tuner.replay.recording import MissedSteps, RecordedStep, decode_chunk, recorded_steps
from tuner.replay.replayer import ReplayedStep

ALWAYS = (0, 2**53)
OBJECTIVE = Objective(latency_ms=50.0)


def rescued() -> FilmedRig:
    """A stalled move is found, answered, goes on, and ends; at the end nothing is left."""
    rig = FilmedRig(Memory())
    rig.goes_on(60)
    rig.goes_on(40, gained_bytes_per_s=40 * MB)
    rig.live.moves = ()
    rig.goes_on(30)
    assert rig.throttles.rates == {}
    return rig


def steered() -> FilmedRig:
    """Two minutes of steering with an external change of one side, a pause, and one more moving partition."""
    rig = FilmedRig(Memory(), objective=OBJECTIVE)
    rig.goes_on(42, gained_bytes_per_s=4 * MB)
    rig.throttles.rates[TARGET] = 7 * MB
    rig.goes_on(20, gained_bytes_per_s=4 * MB)
    rig.orders.latest = Orders(at_ms=rig.now_ms, pause=Pause(rig.now_ms, "me"))
    rig.goes_on(10)
    rig.orders.latest = Orders(at_ms=rig.now_ms, resumed_at_ms=rig.now_ms)
    rig.live.moves = (*rig.live.moves, move("orders", 1))
    rig.goes_on(48, gained_bytes_per_s=4 * MB)
    return rig


def actions(played: list[ReplayedStep]) -> set[str]:
    return {row["action"] for one in played if one.step.kind == "cycle" for row in one.decisions["rows"]}


def test_replay_rescue_has_same_decisions() -> None:
    played = rescued().replayed()
    assert actions(played) >= {"hold", "set", "clear_lists", "restore"}
    assert differing(played) == []


def test_replay_steering_has_same_rates() -> None:
    rig = steered()
    played = rig.replayed()
    seconds = [one for one in played if one.step.kind == "steering"]
    assert len(seconds) > 90
    written = [row for one in seconds for row in one.step.decisions]
    assert {(row[0], row[1]) for row in written} == {(1, "leader"), (3, "follower")}
    assert {"allow_steering", "relinquish", "hold"} <= actions(played)
    assert differing(played) == []
    # What was written is what the journal says was written, to the byte.
    turns = [row for e in rig.journal.entries if e.kind == "steering" for row in e.decision["rates"]]
    assert [row for row in turns if row not in written] == []


def test_replay_deadline_with_forecast_has_same_rates() -> None:
    rig = FilmedRig(Memory(), objective=Objective(50.0, Mode.DEADLINE, NOW_MS + 3_600_000))
    rig.goes_on(40, gained_bytes_per_s=MB)
    before = rig.throttles.rates[SOURCE]
    rig.deadline_forecasts = {SOURCE: DeadlineForecast(0.02), TARGET: DeadlineForecast(0.02, has_profile=False)}
    rig.goes_on(40, gained_bytes_per_s=MB)
    assert rig.throttles.rates[SOURCE] > 1.5 * before
    played = rig.replayed()
    assert any("copies 50 times as fast" in text for one in played for text in one.texts)
    assert differing(played) == []


def test_replay_decay_has_same_decisions() -> None:
    """The signals stop: what is steered is held, and sinks after half a minute; then they are back."""
    rig = FilmedRig(Memory(), objective=OBJECTIVE)
    rig.goes_on(40, gained_bytes_per_s=4 * MB)
    rig.silent = True
    rig.goes_on(60)
    rig.silent = False
    rig.goes_on(20, gained_bytes_per_s=4 * MB)
    played = rig.replayed()
    quiet = [one for one in played if one.step.kind == "steering" and 70 < (one.step.now_ms - NOW_MS) / 1000 < 100]
    assert any(row[3] < row[2] for one in quiet for row in one.step.decisions)
    assert differing(played) == []


def test_replay_unthrottled_move_has_same_lists() -> None:
    rig = FilmedRig(Memory(), objective=OBJECTIVE, throttles_moves=True)
    rig.throttles.lists["orders"] = TopicThrottle()
    rig.throttles.rates.clear()
    rig.signals.moves = {side: replace(signal, listed_partitions=0) for side, signal in rig.signals.moves.items()}
    rig.goes_on(40, gained_bytes_per_s=4 * MB)
    rig.live.moves = ()
    rig.goes_on(30)
    played = rig.replayed()
    assert {"start", "add_pairs", "remove_pairs", "restore"} <= actions(played)
    assert differing(played) == []


def test_replay_recovery_has_same_lists_and_rates() -> None:
    rig = FilmedRig(Memory(), objective=OBJECTIVE)
    rig.recoveries = FakeRecoveries((PartitionMove("orders", 0, 1, (1, 2, 3), (3,), (), (1, 2), recovering=(3,)),))
    rig.live.moves = ()
    rig.throttles.lists["orders"] = TopicThrottle()
    rig.throttles.rates.clear()
    rig.signals.moves = {side: replace(s, listed_partitions=0) for side, s in rig.signals.moves.items()}
    rig.loop = rig.filmed_loop(Memory())
    rig.goes_on(40, gained_bytes_per_s=4 * MB)
    assert rig.throttles.lists["orders"].follower.includes(0, 3)
    assert {SOURCE, TARGET} <= rig.throttles.rates.keys()
    assert rig.loop.memory.moving_replicas == {}
    rig.recoveries.recoveries = ()
    rig.goes_on(30)
    assert not rig.throttles.lists["orders"]
    assert rig.throttles.rates == {}
    played = rig.replayed()
    assert {"start", "add_pairs", "allow_steering", "remove_pairs", "restore"} <= actions(played)
    assert differing(played) == []


def test_replay_window_warmup_has_same_decisions() -> None:
    rig, announcing = FilmedRig(Memory(), objective=OBJECTIVE), PrepareHandshake()
    signals, rig.signals.moves = rig.signals.moves, {}
    rig.limits = replace(rig.limits, rate_bytes_per_s_min=MB)
    rig.throttles.lists.clear()
    rig.live.moves = ()
    rig.loop = rig._make_loop(Memory())
    rig.loop.connect_plans(dict, announcing)
    rig.goes_on(20)
    announcing.submit([move()])
    rig.goes_on(5)
    rig.live.moves, rig.signals.moves = (move(),), signals
    announcing.clear()
    rig.goes_on(30, gained_bytes_per_s=4 * MB)
    played = rig.replayed()
    assert "window_warmup" in {
        row["reason"] for one in played if one.step.kind == "cycle" for row in one.decisions["rows"]
    }
    assert differing(played) == []


@pytest.mark.parametrize("objective", [None, OBJECTIVE], ids=["no objective", "objective"])
def test_replay_plan_with_own_throttle_has_same_decisions(objective: Objective | None) -> None:
    rig, announcing = FilmedRig(Memory(), objective=objective), PrepareHandshake()
    signals, rig.signals.moves = rig.signals.moves, {}
    rig.throttles.rates.clear()
    rig.throttles.lists = {"orders": TopicThrottle()}
    rig.live.moves = ()
    head = PlanHead("p", "kim@desk", NOW_MS, NOW_MS, 1, throttle=PlanThrottle(8 * MB))
    asked = {("orders", 0): RequestedStep((3, 2), (1, 2))}
    plans = [Plan(head, {("orders", 0): PlanPartition((3, 2), (1, 2))}, asked)]
    rig.loop.connect_plans(dict, announcing, lambda: plans)
    rig.goes_on(10)
    announcing.submit([move()])
    rig.goes_on(5)
    assert announcing.deferred == {}
    rig.live.moves, rig.signals.moves = (move(),), signals
    announcing.clear()
    rig.goes_on(60, gained_bytes_per_s=4 * MB)
    assert max(rig.throttles.rates.values()) <= 8 * MB
    rig.live.moves, plans[0] = (), replace(plans[0], requested={})
    rig.goes_on(30)
    assert not rig.throttles.rates
    played = rig.replayed()
    assert {"start", "add_pairs", "remove_pairs", "restore"} <= actions(played)
    assert differing(played) == []


def test_dry_run_is_recorded_and_replayed() -> None:
    rig = FilmedRig(Memory(), dry_run=True)
    rig.goes_on(60)
    played = rig.replayed()
    assert "set" in actions(played)
    assert played[0].step.settings.dry_run
    assert differing(played) == []
    assert rig.throttles.rates == {SOURCE: 10 * MB, TARGET: 10 * MB}


def test_recording_without_moves_is_empty() -> None:
    rig = FilmedRig(Memory())
    rig.live.moves = ()
    rig.throttles.lists.clear()
    rig.throttles.rates.clear()
    rig.goes_on(120)
    assert rig.journal.records == []


def long_steered() -> FilmedRig:
    rig = FilmedRig(Memory(), objective=OBJECTIVE)
    rig.goes_on(round(FRAME_EVERY_S) + 40, gained_bytes_per_s=4 * MB)
    return rig


def test_replay_begins_at_any_frame() -> None:
    rig = long_steered()
    whole = rig.replayed()
    frames = [i for i, one in enumerate(whole) if one.step.frame is not None]
    assert len(frames) == 2
    assert differing(whole) == []  # What is remembered at the second frame is what the replay had come to.
    missed = MissedSteps()
    later = list(recorded_steps([decode_chunk(r) for r in rig.journal.records[50:]], missed))
    assert missed.before_a_frame > 100
    assert [step.number for step in later] == [one.step.number for one in whole[frames[1] :]]
    assert differing(rig.replayed(rig.journal.records[50:])) == []


def test_replay_after_kill_has_two_runs() -> None:
    rig = FilmedRig(Memory(), objective=OBJECTIVE)
    rig.goes_on(33, gained_bytes_per_s=4 * MB)
    rig.die_and_start_again()
    rig.goes_on(33, gained_bytes_per_s=4 * MB)
    played = rig.replayed()
    assert {one.step.run for one in played} == {"run 1", "run 2"}
    assert sum(one.step.frame is not None for one in played) == 2
    assert differing(played) == []


def test_replay_missing_record_skips_to_next_frame() -> None:
    records = rescued().journal.records
    missed = MissedSteps()
    steps = list(recorded_steps([decode_chunk(r) for i, r in enumerate(records) if i != 4], missed))
    assert 0 < len(steps) < len(list(recorded_steps(map(decode_chunk, records), MissedSteps())))
    assert missed.before_a_frame > 0


def test_recording_failed_write_is_followed_by_a_frame() -> None:
    rig = FilmedRig(Memory())
    rig.goes_on(20)
    rig.journal.refusing = True
    rig.goes_on(10)
    rig.journal.refusing = False
    rig.goes_on(40)
    played = rig.replayed()
    assert sum(one.step.frame is not None for one in played) == 2
    assert differing(played) == []


def test_replay_interleaved_records_of_two_tuners() -> None:
    one, other = rescued().journal.records, steered().journal.records
    other = [json.dumps(json.loads(r) | {"run": "other"}).encode() for r in other]
    mixed = [r for pair in zip(one, other, strict=False) for r in pair]
    rig = FilmedRig(Memory())
    played = rig.replayed(mixed)
    assert {p.step.run for p in played} == {"run 1", "other"}
    assert differing(played) == []


# -- what is not the same ---------------------------------------------------------------------------------------------


def test_compare_changed_constant_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = steered()
    [pace] = [f for f in objectives.ControlLimits.__dataclass_fields__.values() if f.name == "utilisation_max"]
    original = ControlLimits.__init__

    def slower(self: ControlLimits, **given: Any) -> None:
        original(self, **({"utilisation_max": pace.default - 0.3} | given))

    monkeypatch.setattr(ControlLimits, "__init__", slower)
    found = compare_steps(rig.replayed(), *ALWAYS, differences_max=5)
    assert found.steering_ticks.different > 0
    assert found.different > 0
    assert found.differences[0].kind == "steering"
    assert found.differences[0].then.startswith("broker 3 follower throttle ")


def test_compare_changed_law_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = steered()
    monkeypatch.setattr(side_control, "limit_takeover", lambda target, *_: target)
    assert compare_steps(rig.replayed(), *ALWAYS, differences_max=5).steering_ticks.different > 0


def test_compare_difference_has_both_texts() -> None:
    rig = rescued()
    policy = SettingsSnapshot(replace(LIMITS, rate_bytes_per_s_max=20 * MB), STALL)
    found = compare_steps(rig.replayed(policy=policy), *ALWAYS, differences_max=3)
    assert (found.cycles.different > 0, found.cycles.same > 0) == (True, True)
    first = found.differences[0]
    assert first.then.startswith("set, stalled_throttle_bound: broker 1 leader throttle 10.0 MB/s → 50.0 MB/s")
    assert first.now.startswith("set, stalled_throttle_bound: broker 1 leader throttle 10.0 MB/s → 20.0 MB/s")
    assert first.now.endswith("(20000000 bytes/s)")
    # From then on what stood there is above its ceiling.
    assert found.differences[2].now.startswith("set, at_ceiling: broker 1 leader throttle 50.0 MB/s → 20.0 MB/s")
    assert (
        found.cycles.different
        == compare_steps(rig.replayed(policy=policy), *ALWAYS, differences_max=1).cycles.different
    )


def test_compare_many_decisions_finds_each_difference() -> None:
    holds = [Hold(b, Side.LEADER, Reason.WATCHING, f"broker {b} is watched") for b in range(200)]
    other = [*holds[:70], Hold(70, Side.LEADER, Reason.PROGRESSING, "broker 70 goes on"), *holds[71:]]
    step = RecordedStep(
        "r",
        1,
        "cycle",
        NOW_MS,
        json.loads(json.dumps(digest_decisions(holds))),
        SettingsSnapshot(LIMITS, STALL),
        "p",
        [],
        None,
    )
    found = compare_steps(
        [ReplayedStep(step, digest_decisions(other), tuple(d.text for d in other))], *ALWAYS, differences_max=5
    )
    assert (found.decisions.same, found.decisions.different) == (199, 1)
    assert [d.now for d in found.differences] == ["broker 70 goes on"]
    assert found.differences[0].then.startswith("recorded only as a checksum")
    # Their order says nothing.
    again = compare_steps(
        [ReplayedStep(step, digest_decisions(holds[::-1]), tuple(d.text for d in holds[::-1]))],
        *ALWAYS,
        differences_max=5,
    )
    assert (again.different, again.decisions.same) == (0, 200)


def test_compare_counts_only_the_time_range() -> None:
    played = rescued().replayed()
    from_ms = played[5].step.now_ms
    found = compare_steps(played, from_ms, from_ms + 10_000, differences_max=3)
    assert (found.cycles.same, found.cycles.different, found.first_ms) == (3, 0, from_ms)


def test_replay_without_objective_skips_steering_ticks() -> None:
    rig = steered()
    found = compare_steps(
        rig.replayed(policy=SettingsSnapshot(ThrottleLimits(rate_bytes_per_s_max=50 * MB), STALL)),
        *ALWAYS,
        differences_max=3,
    )
    assert found.not_steered > 90
    assert (found.steering_ticks.same, found.steering_ticks.different) == (0, 0)


def test_compare_different_memory_is_reported_at_next_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = long_steered()
    real = law.control_step

    def drifting(view: Any, memory: ControlState, *rest: Any) -> Any:
        after, rates = real(view, memory, *rest)
        sights = {
            b: replace(s, signal_interval_s=s.signal_interval_s + 1e-9) for b, s in after.broker_estimates.items()
        }
        return replace(after, broker_estimates=sights), rates

    monkeypatch.setattr("tuner.replay.replayer.control_step", drifting)
    found = compare_steps(rig.replayed(), *ALWAYS, differences_max=1000)
    assert found.memory.different == 1
    [told] = [d for d in found.differences if d.kind == "memory"]
    assert "control.broker_estimates" in told.now


def test_recording_has_settings_that_differ_from_defaults() -> None:
    assert rescued().replayed()[0].step.settings == SettingsSnapshot(LIMITS, STALL)
    body = SettingsSnapshot(LIMITS, STALL, OBJECTIVE, ControlLimits(rate_bytes_per_s_max=7.0)).body()
    assert body["limits"] == {"rate_bytes_per_s_max": 50 * MB, "idle_snapshots_before_cleanup": 2}
    assert (body["stall"], body["law"]) == ({}, {"rate_bytes_per_s_max": 7.0})
    assert SettingsSnapshot.from_body(json.loads(json.dumps(body))).objective == OBJECTIVE
    older = {**body, "limits": {**body["limits"], "moons_max": 3}}
    assert SettingsSnapshot.from_body(older) == SettingsSnapshot.from_body(body)
