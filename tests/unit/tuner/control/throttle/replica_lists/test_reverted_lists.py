"""Lists that Strimzi's Topic Operator removes during a move are recognised, and written again."""

from __future__ import annotations

from dataclasses import replace

from loop_rig import Rig
from test_steering_tick import OBJECTIVE
from tuner_cases import OWN_LISTS, SEEN, SOURCE, TARGET, WELL, live, owned

from streaming.shared.throttle_settings import TopicThrottle
from tuner.control.throttle.decision import Reason
from tuner.control.throttle.replica_lists.reverted_lists import report_reverted_lists
from tuner.control.throttle.state import Memory
from tuner.core.throttle_limits import MB

LISTED = Memory(
    stalls={3: WELL},
    moving_replicas=SEEN,
    listed=OWN_LISTS,
    listed_topics=frozenset({"orders"}),
    owned={SOURCE: owned(None, 10 * MB), TARGET: owned(None, 10 * MB)},
)


def test_removed_lists_name_the_operator_and_the_annotation() -> None:
    memory, (hold,) = report_reverted_lists(live(lists={}), LISTED, cleared=())
    assert hold.reason is Reason.CLEARED_BY_TOOL
    assert hold.text.startswith("topic orders: another tool removed the throttled-replica lists and left the rates")
    assert 'strimzi.io/managed: "false"' in hold.text
    assert memory.listed_topics == frozenset()
    assert report_reverted_lists(live(lists={}), memory, cleared=())[1] == [], "it is reported once"


def test_lists_that_stay_or_end_with_the_move_are_not_reported() -> None:
    for cluster, memory in (
        (live(), LISTED),
        (live(lists={}, moves=()), LISTED),
        (live(lists={}), replace(LISTED, listed={})),
        (live(lists={}), replace(LISTED, listed_topics=frozenset())),
        (live({}, lists={}), LISTED),
    ):
        assert report_reverted_lists(cluster, memory, cleared=())[1] == []
    assert report_reverted_lists(live(lists={}), LISTED, cleared=(SOURCE,))[1] == [], "--verify removes the rates too"


def test_tuner_writes_reverted_lists_again_in_the_same_cycle() -> None:
    rig = Rig(LISTED, objective=OBJECTIVE, throttles_moves=True)
    rig.loop.cycle()
    rig.throttles.lists["orders"] = TopicThrottle()
    reasons = rig.cycle()
    assert Reason.CLEARED_BY_TOOL in reasons
    assert rig.throttles.lists["orders"].follower.pairs == {(0, 3)}
    assert Reason.CLEARED_BY_TOOL not in rig.cycle()
