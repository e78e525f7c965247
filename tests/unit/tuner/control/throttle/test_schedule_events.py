"""A rule of the schedule that begins or ends is a decision; an operator's order precedes every rule."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tuner_cases import LIMITS, NOW_MS, OWN_LISTS, SOURCE, STALL, TARGET, live, move_signal, observation

from tuner.control.throttle.decision import FollowSchedule, Reason, SetRate
from tuner.control.throttle.operator_overrides import limit_override
from tuner.control.throttle.policy import decide
from tuner.control.throttle.schedule_events import report_schedule
from tuner.control.throttle.state import Memory
from tuner.control.throttle.superseded import find_superseded_changes
from tuner.core.cluster import ClusterUnreadable
from tuner.core.operator_orders import Orders, Override, Pause
from tuner.core.throttle_limits import MB
from tuner.journal.entries import decode_memory, encode_memory, entry_of

NIGHT = replace(
    LIMITS,
    rate_bytes_per_s_max=400 * MB,
    schedule_rules="nights",
    schedule_text="ceiling 400 MB/s, mode fast, tolerance 0.5",
    order_rate_bytes_per_s_max=400 * MB,
)


def reported(before: str, now: str, text: str = "ceiling 60 MB/s") -> list[tuple[Reason, str]]:
    limits = replace(LIMITS, schedule_rules=now, schedule_text=text)
    memory, decisions = report_schedule(Memory(schedule_rules=before), limits)
    assert memory.schedule_rules == now
    return [(decision.reason, decision.text) for decision in decisions]


def test_rule_that_begins_or_ends_is_reported_once() -> None:
    began = (Reason.SCHEDULE_BEGAN, "rule nights of the schedule applies: ceiling 60 MB/s")
    ended = (Reason.SCHEDULE_ENDED, "rule nights of the schedule has ended: ceiling 60 MB/s")
    assert reported("", "nights") == [began]
    assert reported("nights", "nights") == []
    assert reported("nights", "") == [ended]
    assert [reason for reason, _ in reported("nights, winter", "winter, office hours")] == [
        Reason.SCHEDULE_ENDED,
        Reason.SCHEDULE_BEGAN,
    ]


def test_removed_schedule_names_the_ceiling_in_force() -> None:
    ((reason, text),) = reported("nights", "", text="")
    assert (reason, text) == (Reason.SCHEDULE_ENDED, "rule nights of the schedule has ended: ceiling 50.0 MB/s")


def test_cycle_reports_rule_before_all_else_and_remembers_it() -> None:
    memory, decisions = decide(observation(live()), Memory(), NIGHT, STALL)
    assert isinstance(decisions[0], FollowSchedule)
    assert entry_of("decision", decisions[0], NOW_MS).action == "follow_schedule"
    assert decode_memory(encode_memory(memory)).schedule_rules == "nights", "a later tuner does not report it again"
    _, decisions = decide(observation(live()), memory, NIGHT, STALL)
    assert not any(isinstance(decision, FollowSchedule) for decision in decisions)


def test_rule_is_reported_once_the_cluster_is_readable() -> None:
    unseen = replace(observation(live()), live=ClusterUnreadable("no answer"))
    memory, decisions = decide(unseen, Memory(), NIGHT, STALL)
    assert [decision.reason for decision in decisions] == [Reason.CLUSTER_NOT_SEEN]
    _, decisions = decide(observation(live()), memory, NIGHT, STALL)
    assert decisions[0].reason is Reason.SCHEDULE_BEGAN


def test_pause_does_not_hide_a_rule() -> None:
    paused = replace(observation(live()), orders=Orders(NOW_MS, pause=Pause(NOW_MS, "me")))
    _, decisions = decide(paused, Memory(), NIGHT, STALL)
    assert [decision.reason for decision in decisions] == [Reason.SCHEDULE_BEGAN, Reason.PAUSED]


@pytest.mark.parametrize(("ordered", "expected"), [(80 * MB, 80 * MB), (500 * MB, 400 * MB)])
def test_override_precedes_the_ceiling_of_a_rule(ordered: int, expected: int) -> None:
    office = replace(NIGHT, rate_bytes_per_s_max=20 * MB, schedule_rules="office")
    order = limit_override(Override(ordered, NOW_MS + 60_000, "me"), office)
    assert order is not None
    assert order.bytes_per_s == expected
    seen = observation(live({SOURCE: expected, TARGET: expected}, lists=OWN_LISTS))
    seen = replace(seen, orders=Orders(NOW_MS, overrides={SOURCE: Override(ordered, NOW_MS + 60_000, "me")}))
    _, decisions = decide(seen, Memory(schedule_rules="nights"), office, STALL)
    (decision,) = (d for d in decisions if (d.broker, d.side) == SOURCE)
    assert decision.reason is Reason.OVERRIDDEN
    assert not isinstance(decision, SetRate), "the ordered rate stays"


@pytest.mark.parametrize(
    ("reason", "setpoint", "stops"),
    [
        (Reason.STALLED_THROTTLE_BOUND, 60 * MB, True),
        (Reason.ISR_RECOVERY, 60 * MB, True),
        (Reason.STALLED_THROTTLE_BOUND, 50 * MB, False),
        (Reason.RESTORED, 60 * MB, False),  # A way down, from 90.
    ],
)
def test_raise_above_a_lowered_ceiling_stops(reason: Reason, setpoint: int, stops: bool) -> None:
    current = 90 * MB if reason is Reason.RESTORED else 10 * MB
    changes = {SOURCE: SetRate(*SOURCE, current, setpoint, reason, "text")}
    found = find_superseded_changes(changes, set(), replace(observation(live()), live=ClusterUnreadable("x")), LIMITS)
    assert found == ({SOURCE: "the ceiling was lowered"} if stops else {})


def test_ordered_raise_above_a_rules_ceiling_continues() -> None:
    office = replace(NIGHT, rate_bytes_per_s_max=20 * MB)
    change = SetRate(*SOURCE, 10 * MB, 80 * MB, Reason.OVERRIDDEN, "text")
    seen = replace(observation(live()), orders=Orders(overrides={SOURCE: Override(80 * MB, NOW_MS + 1, "me")}))
    assert find_superseded_changes({SOURCE: change}, set(), seen, office) == {}


def test_infeasible_move_names_the_rules_that_apply() -> None:
    office = replace(NIGHT, rate_bytes_per_s_max=20 * MB, schedule_rules="office")
    moves = [move_signal(*SOURCE, steady_state=30 * MB), move_signal(*TARGET, steady_state=30 * MB)]
    seen = observation(live(), moves)
    _, decisions = decide(seen, Memory(schedule_rules="office"), office, STALL)
    texts = [d.text for d in decisions if d.reason is Reason.INFEASIBLE]
    assert len(texts) == 2
    assert all("or the ceiling in the rules of tuner.schedule that apply (office)" in text for text in texts)
