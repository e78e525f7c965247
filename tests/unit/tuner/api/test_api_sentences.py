"""Sentences for operators: the headline, times, and the next steps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tuner_cases import LIMITS, NOW_MS, SOURCE, STALL, TARGET, F, L, live, move, move_signal, observation, owned

from tuner.api import sentences
from tuner.api.sentences import headline, next_steps
from tuner.control.throttle.decision import AllowSteering, Decision, Hold, Reason, SetRate
from tuner.control.throttle.state import Memory, StallState
from tuner.core.cluster import ClusterUnreadable, Observation
from tuner.core.operator_orders import Orders, Override, Pause
from tuner.core.throttle_limits import MB

SET = SetRate(*SOURCE, 10 * MB, 50 * MB, Reason.STALLED_THROTTLE_BOUND, "raise it")
STEER = AllowSteering(*TARGET, 10 * MB, Reason.FOLLOWS_CLIENTS, "follows")


def steps(seen: Observation, *decisions: Decision, memory: Memory | None = None, dry_run: bool = False) -> list[str]:
    return next_steps(seen, memory or Memory(), decisions, LIMITS, STALL, dry_run=dry_run)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((0, [], None, None, []), "Nothing is moving."),
        ((1, [3], 600 * MB, 75.0, []), "1 partition is moving onto broker 3; 600 MB remain, done in about 75 s."),
        (
            (4, [3, 4], 4e11, None, []),
            "4 partitions are moving onto brokers 3, 4; 400 GB remain, and the expected end is not known yet.",
        ),
        (
            (4, [3], 600 * MB, 75.0, [3]),
            "4 partitions are moving onto broker 3; 600 MB remain. The move onto broker 3 has stalled.",
        ),
        ((4, [], None, None, []), "4 partitions are moving."),
        ((9, range(1, 10), None, None, []), "9 partitions are moving onto brokers 1, 2, 3, 4, 5, 6 and 3 more."),
    ],
)
def test_headline_names_partitions_brokers_bytes_and_end(arguments: tuple, said: str) -> None:  # type: ignore[type-arg]  # of many kinds
    assert headline(*arguments) == said


def test_headline_with_plans_has_their_remaining_bytes() -> None:
    assert headline(4, [3], 600 * MB, 89.0, [], plans_remaining_bytes=2e9) == (
        "4 partitions are moving onto broker 3; 2.00 GB of the plans remain, done in about 89 s."
    )
    assert headline(0, [], None, None, [], plans_remaining_bytes=2e9) == (
        "Nothing is moving now; 2.00 GB of the plans remain, and the expected end is not known yet."
    )


def test_recovery_sentence_names_brokers_partitions_and_bytes() -> None:
    follower = replace(move_signal(3, F), recovering_partitions=2, recovering_bytes=700 * MB)
    leader = replace(move_signal(1, L), recovering_partitions=2, recovering_bytes=700 * MB)
    moves = {(s.broker, s.side): s for s in (leader, follower, move_signal(4, F))}
    assert sentences.recovery_sentence(moves) == "Broker 3 recovers: 2 partitions, 700 MB to copy."
    assert sentences.recovery_sentence({(4, F): move_signal(4, F)}) is None


def test_override_of_both_sides_is_one_line_with_one_end() -> None:
    by = "kim, 2023-11-14 22:13:20 UTC, until 2023-11-14 22:43:20 UTC"
    order = {"broker": 4, "rate_bytes_per_s": 20 * MB, "until_ms": NOW_MS, "by": by}
    both = [order | {"side": "leader"}, order | {"side": "follower"}, order | {"broker": 5, "side": "leader"}]
    assert sentences.override_lines(both) == [
        (4, f"Broker 4 leader and follower throttles: 20.0 MB/s by order of {by}."),
        (5, f"Broker 5 leader throttle: 20.0 MB/s by order of {by}."),
    ]


def test_next_steps_of_unreadable_cluster_are_to_wait() -> None:
    assert steps(Observation(NOW_MS, ClusterUnreadable("away"))) == [
        "The tuner waits until the cluster can be read, and changes nothing until then."
    ]


def test_next_steps_name_running_changes_and_near_stalls() -> None:
    memory = Memory(stalls={3: StallState(lost_s=9.0)})
    assert steps(observation(live()), SET, STEER, Hold(*TARGET, Reason.PROGRESSING, "well"), memory=memory) == [
        "In progress: raise it",
        "The closed-loop control adjusts 1 throttle every second.",
        "The move onto broker 3 has lost 9.0 s of progress; it counts as stalled when it has lost 14.5 s.",
    ]
    assert steps(observation(live()), SET, dry_run=True) == [
        "Without the dry run the tuner would now do this: raise it"
    ]


def test_many_next_steps_are_shortened() -> None:
    found = steps(observation(live()), *[SET] * 9)
    assert found[-1] == "In progress: and 3 more of this kind"
    assert len(found) == 7


def test_next_steps_without_changes_are_to_wait() -> None:
    assert steps(observation(live({}, moves=()))) == ["The tuner waits for a reassignment, started by any tool."]
    assert steps(observation(live())) == ["The tuner continues to monitor: no change of a throttle would help."]


def test_next_steps_report_orphaned_but_not_owned_throttles() -> None:
    still = observation(live(moves=()))
    (said,) = steps(still)
    assert said.startswith("2 throttles are set although nothing moves. The tuner does not manage them")
    (said,) = steps(observation(live({SOURCE: 10 * MB}, moves=())))
    assert said.startswith("1 throttle is set")
    (said,) = steps(observation(live({SOURCE: 10 * MB, (4, L): 5 * MB}, brokers=(1, 2, 3, 4))))
    assert said.startswith("1 throttle is set on brokers without a move.")
    for memory in (Memory(owned={SOURCE: owned(None, 10 * MB)}), Memory(throttled=True)):
        assert steps(still, memory=memory) == ["The tuner waits for a reassignment, started by any tool."]
    assert steps(still, SET) == ["In progress: raise it"], "they may be the ones that go"


def test_next_steps_name_end_of_active_overrides_only() -> None:
    seen = observation(live())
    orders = Orders(
        5, overrides={SOURCE: Override(5 * MB, NOW_MS + 60_000, "kim"), TARGET: Override(5 * MB, NOW_MS, "kim")}
    )
    found = steps(Observation(seen.now_ms, seen.live, seen.broker_signals, seen.move_signals, orders=orders))
    assert found == [
        "The override of broker 1 leader throttle ends at 2023-11-14 22:14:20 UTC; then the tuner controls this throttle again."
    ]


def test_next_steps_of_large_move_have_no_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentences, "FORECAST_PARTITIONS_MAX", 2)
    cluster = live(moves=tuple(move(partition=p) for p in range(3)))
    assert steps(observation(cluster), memory=Memory(throttled=True)) == [
        "When the moves have ended: every throttle is restored to its rate before the moves."
    ]
    seen = observation(cluster)
    paused = Observation(
        seen.now_ms, cluster, seen.broker_signals, seen.move_signals, orders=Orders(5, Pause(NOW_MS, "kim"))
    )
    assert steps(paused)[1].startswith("After that: not known until the first cycle has ended,")


def test_next_steps_report_unthrottled_moves_with_reason() -> None:
    bare = observation(live(lists={}))
    (said,) = [step for step in steps(bare) if "without a throttle" in step]
    assert said == (
        "1 partition moves without a throttle, so the ceiling of 50.0 MB/s does not apply: tuner.objective is off, and the tuner "
        "throttles its own plans only. Set a throttle with the tool that started the move."
    )
    assert [step for step in steps(observation(live({}))) if "without a throttle" in step], (
        "a list without a rate throttles nothing"
    )
    assert not [step for step in steps(observation(live())) if "without a throttle" in step]
    steered = replace(LIMITS, closed_loop=True, throttles_all_moves=True)
    assert not [s for s in next_steps(bare, Memory(), (), steered, STALL, dry_run=False) if "ceiling" in s]
    left = replace(LIMITS, closed_loop=True)
    assert "unthrottled_moves is leave" in next_steps(bare, Memory(), (), left, STALL, dry_run=False)[0]
