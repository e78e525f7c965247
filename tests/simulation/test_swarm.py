"""The swarm of random worlds: invariants hold, equal seeds give equal runs, and each check detects its violation."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from streaming.shared.contract import Side
from streaming.shared.throttle_settings import ThrottledReplicas, TopicThrottle
from tuner.control.throttle import ownership
from tuner.control.throttle.state import Memory
from tuner.core.freshness import Freshness
from tuner.runtime.throttle import steering_controller
from tuner.runtime.throttle.cleanup import Cleanup
from tuner.runtime.throttle.list_writer import ReplicaListWriter
from tuner.runtime.throttle.steering_controller import SteeringController
from tuner.simulation.scenario import sum_side_loads
from tuner.simulation.swarm import findings_of
from tuner.simulation.swarm_draw import draw_run
from tuner.simulation.swarm_watch import SwarmJournal, WatchedThrottles

pytestmark = pytest.mark.slow

SEEDS = range(120)


def test_invariants_hold_in_every_world() -> None:
    found = {seed: said for seed in SEEDS if (said := findings_of(seed))}
    assert found == {}


def test_drawn_worlds_cover_every_kind_of_disturbance() -> None:
    drawn = [draw_run(seed) for seed in SEEDS]
    assert {type(d).__name__ for one in drawn for d in one.world.disturbances} == {
        "OperatorWrite", "BrokerLoss", "SignalOutage", "ControllerStorm", "LeaderMove", "LoadStep",
    }  # fmt: skip
    assert {one.objective is None for one in drawn} == {True, False}
    assert any(one.mishaps.killed_at_s for one in drawn)
    assert any(one.mishaps.journal_down_s[1] for one in drawn)
    assert any(one.mishaps.released and one.mishaps.pause_s[1] for one in drawn)
    assert any(not one.world.lists and not one.world.rates for one in drawn), "nobody throttled it"
    assert any(one.mishaps.cleared_at_s < 60.0 and not one.world.lists for one in drawn)
    steady_state = [sum_side_loads(one.world)[(1, Side.LEADER)].steady_state_bytes_per_s for one in drawn]
    assert sum(w > 5e6 for w in steady_state) >= 5, "keeping up takes more than the least rate"


def without_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SteeringController, "find_refused", lambda *_: [])
    monkeypatch.setattr(SteeringController, "filter_unchanged", lambda _, changes: list(changes))


def without_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SwarmJournal, "recovered", lambda _: Memory())


def without_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.runtime.throttle.steering_tick.record_change_intents", lambda memory, *_: memory)
    monkeypatch.setattr(
        "tuner.runtime.throttle.recorder.ThrottleRecorder.record_owned",
        lambda self, entries, memory, _: self.record(entries, memory),
    )


def without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cleanup, "carry_out", lambda *_: None)


def without_age(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every signal look fresh."""
    next_changes = SteeringController.next_changes

    def young(signals: Mapping[Any, Any], now_ms: int) -> dict[Any, Any]:
        return {key: replace(signal, sampled_at_ms=now_ms) for key, signal in signals.items()}

    def freshness(signal: Any, *_: float) -> Freshness:
        return Freshness.MISSING if signal is None else Freshness.FRESH

    monkeypatch.setattr("tuner.control.throttle.view.freshness", freshness)
    monkeypatch.setattr(
        SteeringController,
        "next_changes",
        lambda self, now_s, ms, brokers, moves, **more: next_changes(
            self, now_s, ms, young(brokers, ms), young(moves, ms), **more
        ),
    )


def above_the_ceiling(monkeypatch: pytest.MonkeyPatch) -> None:
    change = steering_controller._change
    monkeypatch.setattr(steering_controller, "_change", lambda side, rate, *more: change(side, 2 * rate, *more))


def below_what_keeps_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assumes that 5 MB/s always suffice."""
    change = steering_controller._change
    monkeypatch.setattr(
        steering_controller, "_change", lambda side, rate, *more: change(side, min(rate, 5_100_000), *more)
    )


def without_a_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReplicaListWriter, "_start_rates", lambda *_: set())


def without_a_record_of_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.runtime.throttle.list_writer.record_pairs_to_add", lambda memory, _: memory)


def without_taking_off(monkeypatch: pytest.MonkeyPatch) -> None:
    edit = ReplicaListWriter._edit
    monkeypatch.setattr(ReplicaListWriter, "_edit", lambda self, _, adds: edit(self, (), adds))


def with_the_wrong_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists the adding replicas on the leader side."""
    watched = WatchedThrottles.add_pairs

    def swapped(self: WatchedThrottles, pairs: Mapping[str, TopicThrottle]) -> Any:
        return watched(self, {t: TopicThrottle(each.follower, each.leader) for t, each in pairs.items()})

    monkeypatch.setattr(WatchedThrottles, "add_pairs", swapped)


def with_others_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treats every listed pair as managed."""
    watched = WatchedThrottles.remove_pairs

    def all_of_it(self: WatchedThrottles, pairs: Mapping[str, TopicThrottle]) -> Any:
        more = TopicThrottle(ThrottledReplicas(pairs=frozenset({(0, 9)})))
        return watched(self, {topic: each.plus(more) for topic, each in pairs.items()})

    monkeypatch.setattr(WatchedThrottles, "remove_pairs", all_of_it)


def without_an_eye_for_what_comes_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ownership, "_is_late_predecessor_write", lambda *_: False)


@pytest.mark.parametrize(
    ("broken", "said", "first_seed"),
    [
        # A person who writes in the very second in which the law does is met in one world of two hundred.
        (without_looking, "an operator had written", 800),
        (without_memory, "is left behind", 500),
        (without_record, "not recorded as managed", 500),
        (without_an_end, "its lists are left behind", 500),
        (without_age, "without fresh signals", 500),
        (above_the_ceiling, "not within", 500),
        (below_what_keeps_up, "not within", 500),
        (without_a_rate, "listed without a rate", 500),
        (without_a_record_of_pairs, "listed, and not recorded as managed", 500),
        (without_taking_off, "its lists are left behind", 500),
        (with_the_wrong_replicas, "listed, and no part of a move", 500),
        (with_others_pairs, "removed from a list, and not managed", 500),
        (without_an_eye_for_what_comes_late, "is left behind", 500),
    ],
)
def test_broken_tuner_is_reported_by_an_invariant(
    broken: Callable[[pytest.MonkeyPatch], None], said: str, first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    seeds = range(first_seed, first_seed + 400)
    assert any(said in line for seed in seeds for line in findings_of(seed)), f"nothing was said of {said!r}"


def test_same_seed_gives_the_same_run(monkeypatch: pytest.MonkeyPatch) -> None:
    without_an_end(monkeypatch)
    seed = next(seed for seed in SEEDS if findings_of(seed))
    assert findings_of(seed) == findings_of(seed)
    assert draw_run(seed).describe() == draw_run(seed).describe()
    assert draw_run(seed) == draw_run(seed)


def test_swarm_command_exits_with_0() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tuner.simulation", "--swarm", "4"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("4 of 4 worlds violated no invariant")
    one = subprocess.run(
        [sys.executable, "-m", "tuner.simulation", "--seed", "3"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert one.returncode == 0, one.stderr
    assert one.stdout.startswith("seed 3: 3 brokers")
