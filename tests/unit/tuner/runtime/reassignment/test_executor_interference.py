"""Tests the executor of plans with operators, tools and brokers that act at the same time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future
from typing import TypeVar

from reassign_rig import Rig, still

from rheostat.reassign.plan_store import _new_plan_id
from streaming.shared.kafka.reassignments import _partition_error
from streaming.shared.kafka.values import Endpoint, MissingPermission, PartitionState, Unreachable
from tuner.control.reassignment.partition_progress import CONFIRM_S_MAX
from tuner.core.batch_limits import BatchLimits
from tuner.core.operator_orders import Orders, Pause
from tuner.core.reassignment_plan import DesiredPlanState, PlanEnding, ReassignmentSnapshot, RequestedStep
from tuner.journal.plan_records import encode_requested, requested_key
from tuner.runtime.reassignment.actuator import KafkaReassignmentActuator, _refusal

T = TypeVar("T")
T0, T1, T2 = ("t", 0), ("t", 1), ("t", 2)
U0 = ("u", 0)
ONE_BY_ONE = BatchLimits(replica_movements_max=1)
RELEASED = Orders(at_ms=1, pause=Pause(1, "kim@desk", released=True))


def test_two_plans_with_same_partition_do_not_conflict() -> None:
    rig = Rig({key: still(1, 2) for key in (T0, T1, T2)}, online={1, 2, 3, 4, 5})
    rig.give({T0: (3, 4), T1: (3, 6)})  # 6 is dead: the plan stays.
    rig.now_s += 1
    rig.give({T0: (1, 5), T2: (3, 6)}, plan="q")
    for _ in range(20):
        rig.cycle()
    assert [wanted for key, wanted in rig.cluster.asked if key == T0] == [(3, 4)]
    assert rig.replicas()[T0] == (3, 4)


def test_cancel_cannot_be_revoked() -> None:
    rig = Rig({key: still(1, 2) for key in (T0, T1)}, online={1, 2, 3, 4})
    rig.give({T0: (3, 4), T1: (3, 4)}, BatchLimits(partition_movements_max=1, replica_movements_max=1))
    rig.cycle(finish=False)
    for word in (DesiredPlanState.CANCELLING, DesiredPlanState.PAUSED, DesiredPlanState.RUNNING):
        rig.say(word)
        rig.cycle()
    rig.until_ended()
    assert rig.plan().state.ending is PlanEnding.CANCELLED
    assert rig.replicas() == {T0: (1, 2), T1: (1, 2)}


def test_late_order_changes_nothing() -> None:
    rig = Rig({T0: still(1, 2)}, online={1, 2, 3, 4})
    rig.give({T0: (3, 4)})
    early = list(rig.journal.records)
    rig.now_s += 1
    rig.say(DesiredPlanState.PAUSED)
    for key, value in early:
        rig.loop.recorder.book.apply_operator_record(key, value)
    assert rig.plan().head.desired is DesiredPlanState.PAUSED


def test_cancel_preserves_external_move() -> None:
    rig = Rig({T0: still(1, 2)}, online={1, 2, 3, 4, 5, 6})
    rig.give({T0: (3, 4)})
    rig.cluster.partitions[T0] = still(5, 6)  # Before the plan began anything.
    rig.say(DesiredPlanState.CANCELLING)
    rig.until_ended()
    assert rig.cluster.asked == []
    assert rig.replicas() == {T0: (5, 6)}


def test_recreated_topic_with_more_replicas_loses_none() -> None:
    rig = Rig({T0: still(1, 2), T1: still(1, 2)}, online={1, 2, 3, 4, 5, 6})
    rig.give({T0: (3, 4), T1: (3, 4)})
    rig.cluster.partitions[T0] = still(4, 5, 6)
    rig.until_ended()
    assert rig.replicas() == {T0: (4, 5, 6), T1: (3, 4)}
    assert "it has 3 replicas now" in rig.plan().state.dropped[T0]


def test_recreated_topic_is_detected_by_id() -> None:
    rig = Rig({key: still(1, 2) for key in (T0, T1, U0)}, online={1, 2, 3, 4})
    rig.cluster.topic_ids = {"t": "old", "u": "u"}
    rig.give({T0: (3, 4), T1: (3, 4), U0: (3, 4)}, BatchLimits(partition_movements_max=2, replica_movements_max=1))
    rig.cycle(finish=False)
    assert any(rig.cluster.partitions[key].is_reassigning for key in (T0, T1)), "or nothing is shown"
    rig.cluster.partitions |= {T0: still(1, 2), T1: still(2, 1)}
    rig.cluster.topic_ids["t"] = "new"
    asked = list(rig.cluster.asked)
    rig.until_ended()
    assert [key for key, _ in rig.cluster.asked[len(asked) :] if key in (T0, T1)] == []
    assert rig.replicas() == {T0: (1, 2), T1: (2, 1), U0: (3, 4)}
    state = rig.plan().state
    assert dict(state.dropped) == dict.fromkeys((T0, T1), "its topic was deleted and created again under the same name")
    assert state.ending is PlanEnding.DONE


def test_single_stale_answer_drops_no_topic() -> None:
    rig = Rig({T0: still(1, 2)}, online={1, 2, 3, 4})
    rig.cluster.topic_ids = {"t": "new"}
    rig.give({T0: (3, 4)})
    rig.cluster.topic_ids = {"t": "old"}
    rig.cycle()
    assert not rig.cluster.asked
    rig.cluster.topic_ids = {"t": "new"}
    rig.until_ended()
    assert rig.replicas() == {T0: (3, 4)}
    assert not rig.plan().state.dropped


def test_topic_without_id_is_matched_by_name() -> None:
    for then, now in (("", "new"), ("old", "")):
        rig = Rig({T0: still(1, 2)}, online={1, 2, 3, 4})
        rig.cluster.topic_ids = {"t": then}
        rig.give({T0: (3, 4)})
        rig.cluster.topic_ids = {"t": now} if now else {}
        rig.until_ended()
        assert rig.replicas() == {T0: (3, 4)}


def test_cancel_rolls_nothing_back_on_recreated_topic() -> None:
    rig = Rig({T0: still(1, 2)}, online={1, 2, 3, 4})
    rig.cluster.topic_ids = {"t": "old"}
    rig.give({T0: (3, 4)}, ONE_BY_ONE)
    rig.cycle()
    rig.cluster.partitions[T0] = still(3, 2)
    rig.cluster.topic_ids = {"t": "new"}
    rig.say(DesiredPlanState.CANCELLING)
    rig.until_ended()
    assert rig.replicas() == {T0: (3, 2)}


def test_limits_order_does_not_resume_externally_cancelled_step() -> None:
    rig = Rig({key: still(1, 2) for key in (T0, T1)}, online={1, 2, 3, 4})
    rig.give({T0: (3, 4), T1: (8, 9)})  # The second waits for its brokers, so that the plan stays.
    rig.cycle(finish=False)
    rig.cluster.reassign(T0, None)
    rig.now_s += 2 * CONFIRM_S_MAX
    for _ in range(30):
        rig.cycle()
    assert T0 in rig.plan().state.stopped_externally, "or nothing is shown"
    asked = len(rig.cluster.asked)
    rig.say(None, BatchLimits(partition_movements_max=7))
    for _ in range(3):
        rig.cycle()
    assert rig.plan().state.acknowledged_at_ms == rig.plan().head.ordered_at_ms
    assert T0 in rig.plan().state.stopped_externally
    assert len(rig.cluster.asked) == asked
    rig.say(DesiredPlanState.RUNNING)
    for _ in range(3):
        rig.cycle()
    assert rig.replicas()[T0] == (3, 4)


def test_record_with_unknown_partitions_is_harmless() -> None:
    rig = Rig({T0: still(1, 2), T1: still(1, 2)}, online={1, 2, 3, 4})
    rig.give({T0: (3, 4)})
    stray = encode_requested({T1: RequestedStep((3, 4), (1, 2))})
    rig.journal.records.append((requested_key("c", "p", 0), stray))
    rig.begin_anew()
    rig.until_ended()
    assert rig.replicas() == {T0: (3, 4), T1: (1, 2)}


def test_plans_of_same_second_get_different_ids() -> None:
    assert len({_new_plan_id() for _ in range(20)}) == 20


class SaidMeanwhile:
    """A background call whose response arrives only after another order was given."""

    def __init__(self, say: Callable[[], None]) -> None:
        self._say = say

    def start(self, call: Callable[[], T], /) -> Future[T]:
        answer: Future[T] = Future()
        answer.set_result(call())
        self._say()
        return answer


def test_release_during_cycle_prevents_requests() -> None:
    rig = Rig({T0: still(1, 2)}, online={1, 2, 3, 4})
    rig.give({T0: (3, 4)})

    def release() -> None:
        rig.orders.latest = RELEASED

    rig.loop._caller = SaidMeanwhile(release)
    for _ in range(3):
        rig.cycle()
    assert rig.cluster.asked == []


def test_release_prevents_elections() -> None:
    rig = Rig({T0: still(1, 2)}, online={1, 2, 3, 4})
    rig.give({T0: (3, 4)}, ONE_BY_ONE)
    rig.cycle(finish=False)
    rig.orders.latest = RELEASED
    rig.cluster.finish()
    for _ in range(3):
        rig.cycle()
    assert rig.cluster.partitions[T0].leader == 1


def test_timeout_of_broker_is_no_certain_refusal() -> None:
    for code in (7, 41):  # REQUEST_TIMED_OUT, NOT_CONTROLLER
        failure = _partition_error(code, None, "to alter reassignments")
        assert isinstance(failure, Unreachable)
        assert not _refusal(failure).is_certain


def test_each_request_needs_proof_of_leadership() -> None:
    class Taking:
        requests = 0

        def alter_reassignments(
            self, replicas: dict[tuple[str, int], tuple[int, ...]], *, allow_replication_factor_change: bool
        ) -> dict[tuple[str, int], None]:
            assert allow_replication_factor_change  # A step on the way may have more replicas.
            self.requests += 1
            return dict.fromkeys(replicas)

    taking = Taking()
    port = KafkaReassignmentActuator(taking, is_leadership_proved=lambda: taking.requests < 1)  # type: ignore[arg-type]  # a client's one verb
    outcome = port.request({("t", n): (1, 2) for n in range(1_500)})
    assert taking.requests == 1
    assert sum(refusal is not None for refusal in outcome.values()) == 500


class _Watching:
    """A client that is shown no topic but one, and may not see another that is named."""

    def __init__(self) -> None:
        self.named: list[set[str] | None] = []

    def brokers(self) -> list[Endpoint]:
        return [Endpoint(1, "h", 1)]

    def reassignments(self) -> list[PartitionState]:
        return []

    def min_in_sync(self, topics: Collection[str], _online: Collection[int]) -> dict[str, int]:
        return dict.fromkeys(topics, 1)

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        return dict.fromkeys(topics, "id")

    def partitions(self, topics: Iterable[str] | None) -> list[PartitionState]:
        self.named.append(None if topics is None else set(topics))
        if topics is not None and "hidden" in (self.named[-1] or ()):
            raise MissingPermission("Describe on Topic hidden", "to list partitions")
        return [PartitionState("seen", 0, 1, (1,), (1,))]


def test_snapshot_with_hidden_topic_is_error() -> None:
    """Kafka leaves it out of all topics; who is named is told of. Else an ACL that was taken away would end a plan's parts."""
    client = _Watching()
    port = KafkaReassignmentActuator(client)  # type: ignore[arg-type]  # what a look asks
    found = port.read_snapshot({"seen"}, all_topics=True)
    assert isinstance(found, ReassignmentSnapshot)
    assert (list(found.partitions), client.named) == ([("seen", 0)], [None, set()])
    refused = port.read_snapshot({"seen", "hidden"}, all_topics=True)
    assert isinstance(refused, MissingPermission)
    assert client.named[-1] == {"hidden"}
