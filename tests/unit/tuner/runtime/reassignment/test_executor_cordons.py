"""Cordons and plans: steps wait for an ordered cordon, no step adds a replica on a cordoned broker, and a drained broker is verified."""

from __future__ import annotations

from tests.unit.reassign_rig import Rig, still
from tuner.core.cordon_state import CordonState
from tuner.core.reassignment_plan import DesiredPlanState, PlanEnding
from tuner.core.reassignment_steps import StepOutcomeReason

A, B = ("a", 0), ("b", 0)
CORDONED_3 = CordonState(cordoned=frozenset({3}))


def test_steps_wait_until_the_ordered_cordon_is_in_place() -> None:
    rig = Rig({A: still(1, 2)}, online={1, 2, 3})
    rig.give({A: (1, 3)}, cordon=(2,))
    rig.cordons = CordonState(waits={2: "Kafka refused it"})
    rig.cycle()
    assert rig.cluster.asked == []
    assert rig.plan().state.blockers == ("no step starts before broker 2 is cordoned: Kafka refused it",)
    rig.cordons = CordonState(cordoned=frozenset({2}), settled=frozenset({"p"}))
    rig.until_ended()
    assert rig.replicas() == {A: (1, 3)}
    assert rig.plan().state.ending is PlanEnding.DONE
    assert rig.plan().state.blockers == ()


def test_step_to_a_cordoned_broker_waits_and_is_named() -> None:
    rig = Rig({A: still(1, 2), B: still(1, 2)}, online={1, 2, 3, 4})
    rig.give({A: (1, 3), B: (1, 4)})
    rig.cordons = CORDONED_3
    rig.cycle()
    assert rig.cluster.asked == [(B, (1, 4))]
    assert not any("a-0" in entry.text for entry in rig.journal.entries)
    (decision,) = rig.status.snapshot().plans
    assert decision.cordoned_targets == {3}
    (text,) = rig.plan().state.blockers
    assert (
        text
        == "a-0: broker 3 is cordoned, so no step adds a replica there: lift the cordon, or run `rheostat reassign cancel p`"
    )
    rig.cordons = CordonState()
    rig.until_ended()
    assert rig.replicas() == {A: (1, 3), B: (1, 4)}


def test_running_step_is_stopped_once_its_target_is_cordoned() -> None:
    rig = Rig({A: still(1, 2)}, online={1, 2, 3})
    rig.give({A: (1, 3)})
    rig.cycle(finish=False)
    assert rig.cluster.partitions[A].adding == (3,)
    rig.cordons = CORDONED_3
    rig.cycle(finish=False)
    assert rig.cluster.asked[-1] == (A, None)
    (decision,) = rig.status.snapshot().plans
    assert decision.cordoned_targets == {3}
    assert rig.journal.entries[-1].reason == StepOutcomeReason.CORDONED
    rig.cycle(finish=False)
    assert rig.replicas() == {A: (1, 2)}
    assert rig.plan().state.stopped_externally == {}
    assert rig.plan().requested == {}
    rig.cordons = CordonState()
    rig.until_ended()
    assert rig.replicas() == {A: (1, 3)}


def test_rollback_waits_for_a_cordon_of_another_tool() -> None:
    rig = Rig({A: still(1, 2), B: still(1, 2)}, online={1, 2, 3})
    rig.give({A: (1, 3), B: (1, 3)})
    rig.cycle(finish=False)
    rig.cluster.finish([A])
    rig.say(DesiredPlanState.CANCELLING)
    rig.cordons = CordonState(cordoned=frozenset({2}))
    rig.until_ended()
    assert rig.replicas()[B] == (1, 2)  # Its step was stopped, which adds no replica.


def test_plan_names_replicas_that_a_drained_broker_still_has() -> None:
    rig = Rig({A: still(1, 2), B: still(2, 1)}, online={1, 2, 3})
    rig.give({A: (1, 3)}, cordon=(2,))
    rig.cordons = CordonState(cordoned=frozenset({2}), settled=frozenset({"p"}))
    rig.until_ended()
    (text,) = rig.plan().state.blockers
    assert text.startswith("broker 2 still has replicas that the plan did not move: b-0.")


def test_target_cordoned_while_the_step_waits_for_its_throttle_is_not_requested() -> None:
    rig = Rig({A: still(1, 2)}, online={1, 2, 3})
    rig.give({A: (1, 3)})
    reads = 0

    def cordoned_at_the_second_reading() -> CordonState:
        nonlocal reads
        reads += 1
        return CORDONED_3 if reads > 1 else CordonState()

    rig.loop._cordons = cordoned_at_the_second_reading
    rig.cycle()
    assert rig.cluster.asked == []
    assert rig.plan().requested == {}
