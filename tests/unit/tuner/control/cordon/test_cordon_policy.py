"""Cordons that plans order: set before the first step, kept when the plan is done, lifted when it is cancelled, never another tool's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streaming.shared.cordons import BrokerCordon, CordonSource
from tuner.control.cordon.decision import CordonReason, HoldCordon, LiftCordon, RelinquishCordon, SetCordon
from tuner.control.cordon.model import CordonMemory, CordonStep, CordonView, OwnedCordon
from tuner.control.cordon.policy import decide_cordons, note_cordon_intent, note_cordon_outcome
from tuner.core.cluster import ClusterUnreadable
from tuner.core.operator_orders import Orders, Pause
from tuner.core.reassignment_plan import DesiredPlanState, Plan, PlanEnding, PlanHead, PlanState

DIRS = ("/a", "/b")
OPEN = BrokerCordon(DIRS)
ALL = BrokerCordon(DIRS, DIRS, CordonSource.BROKER)
NO_ORDERS = Orders()
OURS = OwnedCordon("p", DIRS, is_written=True)


def plan(**head: object) -> Plan:
    values: dict[str, object] = {"cordon": (3,), "desired": DesiredPlanState.RUNNING, **head}
    return Plan(PlanHead("p", "me", 1, 1, 1, **values), {})  # type: ignore[arg-type]  # by name, whatever a test sets


def ended(how: PlanEnding) -> Plan:
    return replace(plan(), state=PlanState(ending=how))


def decided(
    found: BrokerCordon | ClusterUnreadable | None,
    owned: OwnedCordon | None = None,
    *plans: Plan,
    orders: Orders = NO_ORDERS,
) -> CordonStep:
    brokers = {1: OPEN} if found is None else {1: OPEN, 3: found}
    memory = CordonMemory({} if owned is None else {3: owned})
    return decide_cordons(CordonView(10, brokers, plans, orders), memory)


def only(step: CordonStep) -> HoldCordon | SetCordon | LiftCordon | RelinquishCordon:
    (decision,) = step.decisions
    return decision


def test_starting_plan_adds_directories_that_are_not_cordoned() -> None:
    decision = only(decided(replace(OPEN, entries=("/b",), source=CordonSource.BROKER), None, plan()))
    assert isinstance(decision, SetCordon)
    assert (decision.directories, decision.entries, decision.found) == (("/a",), ("/b", "/a"), ("/b",))
    assert decision.was_set


def test_unknown_directories_are_cordoned_by_star() -> None:
    decision = only(decided(BrokerCordon(), None, plan()))
    assert isinstance(decision, SetCordon)
    assert decision.entries == ("*",)


@pytest.mark.parametrize(
    "waiting",
    [
        plan(not_before_ms=11),
        plan(desired=DesiredPlanState.PAUSED),
        plan(cordon=()),
        plan(desired=DesiredPlanState.CANCELLING),
    ],
)
def test_plan_that_does_not_start_cordons_nothing(waiting: Plan) -> None:
    assert decided(OPEN, None, waiting).decisions == ()


def test_broker_cordoned_by_another_tool_is_not_owned() -> None:
    step = decided(ALL, None, plan())
    decision = only(step)
    assert (type(decision), decision.reason) == (HoldCordon, CordonReason.CORDONED_ALREADY)
    assert step.memory.owned == {}
    assert step.state.settled == {"p"}


@pytest.mark.parametrize("on_record", [(ended(PlanEnding.DONE),), ()])
def test_cordon_stays_after_the_plan_is_done(on_record: tuple[Plan, ...]) -> None:
    step = decided(ALL, OURS, *on_record)
    decision = only(step)
    assert (type(decision), decision.reason) == (HoldCordon, CordonReason.IN_PLACE)
    assert step.memory.owned == {3: OURS}
    assert step.state.cordoned == {3}


@pytest.mark.parametrize("cancelled", [plan(desired=DesiredPlanState.CANCELLING), ended(PlanEnding.CANCELLED)])
def test_cancelled_plan_lifts_its_cordon(cancelled: Plan) -> None:
    decision = only(decided(ALL, OURS, cancelled))
    assert isinstance(decision, LiftCordon)
    assert (decision.entries, decision.reason) == (None, CordonReason.PLAN_CANCELLED)


@pytest.mark.parametrize(
    ("owned", "entries", "expected"),
    [
        # Another tool cordoned /b before: it stays, as a setting of the broker or of its file.
        (replace(OURS, directories=("/a",), found=("/b",), was_set=True), ("/b", "/a"), ("/b",)),
        (replace(OURS, directories=("/a",), found=("/b",)), ("/b", "/a"), None),
        # Another tool lifted its own /b meanwhile: nothing brings it back.
        (replace(OURS, directories=("/a",), found=("/b",), was_set=True), ("/a",), ()),
        # Another tool added /c meanwhile.
        (OURS, ("/a", "/b", "/c"), ("/c",)),
        # Without a setting, the /b of the file would come back.
        (replace(OURS, directories=("/a",), found=("/b",)), ("/a",), ()),
        (replace(OURS, directories=("*",), found=("/b",), was_set=True), ("*",), ("/b",)),
        (replace(OURS, directories=("*",), found=("/b",), was_set=True), ("*", "/c"), ("/b", "/c")),
    ],
)
def test_lift_keeps_entries_of_other_tools(
    owned: OwnedCordon, entries: tuple[str, ...], expected: tuple[str, ...] | None
) -> None:
    found = BrokerCordon((*DIRS, "/c"), entries, CordonSource.BROKER)
    decision = only(decided(found, owned, ended(PlanEnding.CANCELLED)))
    assert isinstance(decision, LiftCordon)
    assert decision.entries == expected


def test_cordon_lifted_by_another_tool_is_not_set_again() -> None:
    step = decided(OPEN, OURS, plan())
    assert isinstance(only(step), RelinquishCordon)
    assert step.memory.brokers == []
    assert step.state.settled == {"p"}
    again = decide_cordons(CordonView(11, {3: OPEN}, (plan(),), Orders()), step.memory)
    assert [d.reason for d in again.decisions] == [CordonReason.LIFTED_EXTERNALLY]
    assert again.state.settled == {"p"}
    after = decide_cordons(CordonView(12, {3: OPEN}, (ended(PlanEnding.DONE),), Orders()), again.memory)
    assert (after.decisions, after.memory.owned) == ((), {})


def test_lift_that_is_not_on_record_is_taken_as_its_own() -> None:
    step = decided(OPEN, OURS, ended(PlanEnding.CANCELLED))
    assert (step.decisions, step.memory.owned) == ((), {})
    released = decided(OPEN, OURS, plan(), orders=Orders(pause=Pause(1, "me", released=True)))
    assert (released.decisions, released.memory.owned) == ((), {})


def test_cordon_replaced_by_another_tool_is_left_to_it() -> None:
    step = decided(replace(ALL, entries=("*",)), OURS, plan())
    decision = only(step)
    assert (type(decision), decision.reason) == (RelinquishCordon, CordonReason.CORDONED_ALREADY)
    assert step.memory.owned == {}
    cancelled = decide_cordons(
        CordonView(11, {3: replace(ALL, entries=("*",))}, (ended(PlanEnding.CANCELLED),), Orders()), step.memory
    )
    assert cancelled.decisions == ()


def test_failed_write_is_tried_again_and_stays_on_record() -> None:
    unwritten = replace(OURS, is_written=False)
    step = decided(OPEN, unwritten, plan())
    assert isinstance(only(step), SetCordon)
    assert step.memory.owned == {3: unwritten}
    late = decided(ALL, unwritten, plan())
    assert late.memory.owned == {3: OURS}


def test_write_without_an_answer_does_not_claim_an_entry_of_another_tool() -> None:
    step = decided(replace(ALL, entries=("/a",)), replace(OURS, is_written=False), plan())
    decision = only(step)
    assert isinstance(decision, SetCordon)
    assert (decision.directories, decision.found) == (("/b",), ("/a",))
    assert step.state.settled == set()


def test_entry_that_another_tool_has_removed_is_no_longer_rheostats() -> None:
    step = decided(replace(ALL, entries=("/b",)), OURS, plan())
    assert (
        only(step).text == "broker 3: cordoned for plan p; another tool has lifted the cordon of some log directories"
    )
    assert step.memory.owned == {3: replace(OURS, directories=("/b",))}
    again = decide_cordons(CordonView(11, {3: ALL}, (ended(PlanEnding.CANCELLED),), Orders()), step.memory)
    lift = only(again)
    assert isinstance(lift, LiftCordon)
    assert lift.entries == ("/a",)


@pytest.mark.parametrize("source", [CordonSource.FILE, CordonSource.CLUSTER_DEFAULT])
def test_equal_entries_of_the_file_or_a_default_are_not_rheostats(source: CordonSource) -> None:
    """Another tool has removed the broker's own setting. A release could not lift these entries, and would never end."""
    step = decided(replace(ALL, source=source), OURS, plan())
    assert isinstance(only(step), RelinquishCordon)
    assert step.memory.owned == {}


def test_pause_keeps_the_record_of_a_write_without_an_answer() -> None:
    unwritten = replace(OURS, is_written=False)
    step = decided(OPEN, unwritten, plan(), orders=Orders(pause=Pause(1, "me")))
    assert only(step).reason is CordonReason.PAUSED
    assert step.memory.owned == {3: unwritten}


@pytest.mark.parametrize("found", [None, ClusterUnreadable("it does not answer")])
def test_plan_goes_on_to_drain_a_cordoned_broker_that_fails(found: ClusterUnreadable | None) -> None:
    step = decided(found, OURS, plan())
    assert only(step).reason is CordonReason.CORDON_UNREADABLE
    assert step.state.wait_text(plan().head) is None
    assert decided(found, replace(OURS, is_written=False), plan()).state.wait_text(plan().head) is not None


def test_paused_tuner_changes_nothing_and_released_tuner_lifts() -> None:
    paused = decided(OPEN, None, plan(), orders=Orders(pause=Pause(1, "me")))
    assert only(paused).reason is CordonReason.PAUSED
    assert paused.state.settled == set()
    released = only(decided(ALL, OURS, plan(), orders=Orders(pause=Pause(1, "me", released=True))))
    assert (type(released), released.reason) == (LiftCordon, CordonReason.RELEASED)
    assert decided(OPEN, None, plan(), orders=Orders(pause=Pause(1, "me", released=True))).decisions == ()


def test_drained_broker_that_is_gone_is_given_up_on_release() -> None:
    order = Orders(pause=Pause(1, "me", released=True))
    step = decided(None, OURS, ended(PlanEnding.DONE), orders=order)
    assert isinstance(only(step), RelinquishCordon)
    assert step.memory.owned == {}
    active = decided(None, OURS, plan(), orders=order)
    assert only(active).reason is CordonReason.CORDON_UNREADABLE
    assert active.memory.owned == {3: OURS}


def test_unreadable_broker_keeps_its_record_and_the_plan_waits() -> None:
    step = decided(ClusterUnreadable("it does not answer"), None, plan())
    assert only(step).reason is CordonReason.CORDON_UNREADABLE
    assert step.state.wait_text(plan().head) == (
        "no step starts before broker 3 is cordoned: broker 3: it does not answer"
    )


def test_intent_and_outcome_change_the_record() -> None:
    change = only(decided(OPEN, None, plan()))
    assert isinstance(change, SetCordon)
    intended = note_cordon_intent(CordonMemory(), change)
    assert intended.owned == {3: replace(OURS, is_written=False)}
    assert note_cordon_outcome(intended, change).owned == {3: OURS}
    lift = only(decided(ALL, OURS, ended(PlanEnding.CANCELLED)))
    assert isinstance(lift, LiftCordon)
    assert note_cordon_intent(CordonMemory({3: OURS}), lift).owned == {3: OURS}
    assert note_cordon_outcome(CordonMemory({3: OURS}), lift).owned == {}
