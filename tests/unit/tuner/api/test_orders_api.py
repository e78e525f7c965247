"""Orders while brokers refuse, do not answer or die: the reported result of each order is true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import kafka.errors
import pytest

from rheostat.errors import CommandError
from rheostat.reassign import plan_store
from streaming.shared.contract import Side
from streaming.shared.contract.bounds import TIMESTAMP_MS_MAX
from streaming.shared.kafka.unpacking import OnUnreadableBatch, UnreadableBatch
from tuner.api import orders_api
from tuner.api.orders_api import KafkaOrderService, OrderNotRecorded, pause_change
from tuner.core.batch_limits import BatchLimits
from tuner.core.operator_orders import Orders, Override
from tuner.core.reassignment_plan import DesiredPlanState, Plan, PlanHead, PlanPartition
from tuner.journal import sender as sending
from tuner.journal.order_records import decode_orders, encode_orders, orders_key
from tuner.journal.plan_book import PlanBook
from tuner.journal.plan_records import encode_head, encode_parts, head_key, part_key

SILENT = kafka.errors.KafkaTimeoutError("Timeout after waiting for 10.0 secs.")
NOT_ENOUGH = kafka.errors.NotEnoughReplicasAfterAppendError()
FORBIDDEN = kafka.errors.TopicAuthorizationFailedError()
SETTINGS: Any = SimpleNamespace(
    cluster="c", kafka=None, topic_names=lambda: SimpleNamespace(journal="rheostat.journal", orders="rheostat.orders")
)


@dataclass
class Broker:
    """A topic, and a producer's way to it."""

    records: list[tuple[bytes, bytes]] = field(default_factory=list)
    begins: Exception | None = None
    takes: list[Exception | None] = field(default_factory=list)  # How each record is answered; the rest is taken.
    refuses: Exception | None = None  # Before anything is on its way.
    unread: Exception | None = None
    unread_after: int = 0  # Reads that are answered before.
    stuck: bool = False  # Closing finds records that wait.
    forced: bool = False
    recompresses: bool = False  # What it takes cannot be read back.

    def producer(self, *_: object, **__: object) -> Broker:
        if self.begins is not None:
            raise self.begins
        return self

    def send(self, topic: str, *, key: bytes, value: bytes) -> SimpleNamespace:
        assert topic == "rheostat.orders", "nothing but orders, and nowhere else"
        if self.refuses is not None:
            raise self.refuses
        error = self.takes.pop(0) if self.takes else None
        if not isinstance(error, kafka.errors.AuthorizationError):
            self.records.append((key, value))

        def get(timeout: float) -> None:
            if error is not None:
                raise error

        return SimpleNamespace(get=get)

    def close(self, timeout: float) -> None:  # noqa: ARG002 - the client's shape
        if self.stuck:
            raise kafka.errors.KafkaTimeoutError("flush")

    @property
    def _sender(self) -> SimpleNamespace:
        return SimpleNamespace(force_close=lambda: setattr(self, "forced", True), join=lambda _: None)

    def consumer(self, *_: object, on_unreadable_batch: OnUnreadableBatch) -> SimpleNamespace:
        self.on_unreadable_batch = on_unreadable_batch
        return SimpleNamespace(close=lambda **_: None)

    def read_recent(self, *_: object) -> list[SimpleNamespace]:
        if self.recompresses and self.records:
            self.on_unreadable_batch(UnreadableBatch("rheostat.orders", 0, 3, 3, 0, 9, "compressed with zstd"))
            return []
        self.unread_after -= 1
        if self.unread is not None and self.unread_after < 0:
            raise self.unread
        return [SimpleNamespace(key=key, value=value) for key, value in self.records]


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    made = Broker()
    monkeypatch.setattr(sending, "producer", made.producer)
    monkeypatch.setattr(orders_api, "consumer", made.consumer)
    monkeypatch.setattr(orders_api, "TopicTail", lambda *_: made)
    monkeypatch.setattr(plan_store, "ensure_orders_topic", lambda _: None)
    return made


def give(broker: Broker) -> str:
    """What is said."""
    order_service = KafkaOrderService(None, "rheostat.orders", "c", Orders, lambda: 9.0)  # type: ignore[arg-type]  # only handed on
    try:
        order_service.submit(pause_change("kim"))
    except OrderNotRecorded as error:
        return str(error)
    return "taken"


def put(broker: Broker) -> str:
    try:
        plan_store.submit_plan(SETTINGS, {("t", 0): PlanPartition((3, 4), (1, 2))}, BatchLimits())
    except CommandError as error:
        return str(error)
    return "taken"


NOT_KNOWN = "it is unknown whether the order is recorded, because "
LOOK = ": check `rheostat status` before you give it again"


# -- orders ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [SILENT, NOT_ENOUGH, kafka.errors.UnknownError()])
def test_order_without_broker_response_is_reported_as_unknown(broker: Broker, answer: Exception) -> None:
    broker.takes = [answer]
    assert give(broker) == f"{NOT_KNOWN}rheostat.orders cannot be written: {answer}{LOOK}"
    assert len(broker.records) == 1, "as it may be"


def test_order_without_permission_names_the_missing_acl(broker: Broker) -> None:
    broker.takes = [FORBIDDEN]
    assert give(broker) == "the order is not recorded, because the permission Write on Topic rheostat.orders is missing"


@pytest.mark.parametrize("where", ["begins", "refuses"])
def test_unsent_order_is_reported_as_not_recorded(broker: Broker, where: str) -> None:
    setattr(broker, where, kafka.errors.KafkaTimeoutError("no metadata"))
    assert give(broker).startswith("the order is not recorded, because ")
    assert "right" not in give(broker)


def test_queued_order_is_dropped_when_producer_closes(broker: Broker) -> None:
    broker.takes, broker.stuck = [SILENT], True
    assert give(broker).startswith(NOT_KNOWN)
    assert broker.forced


def test_order_unreadable_after_write_is_reported_as_unknown(broker: Broker) -> None:
    broker.recompresses = True
    said = give(broker)
    assert said.startswith(
        f"{NOT_KNOWN}records 3 to 3 of rheostat.orders, partition 0, are not read: compressed with zstd"
    )
    assert "Set compression.type=producer on rheostat.orders" in said


def test_unreadable_recorded_order_does_not_block_new_order(broker: Broker) -> None:
    standing = Orders(5, overrides={(1, Side.LEADER): Override(7, 10**9, "kim")})
    broker.records += [(orders_key("c"), encode_orders(standing)), (orders_key("c"), b'{"v": 3, "at_ms": Infinity}')]
    assert give(broker) == "taken"
    newest = decode_orders(broker.records[-1][1])
    assert (newest.pause is not None, newest.overrides) == (True, standing.overrides)


def test_order_after_maximum_timestamp_is_readable(broker: Broker) -> None:
    broker.records.append((orders_key("c"), encode_orders(Orders(TIMESTAMP_MS_MAX))))
    assert give(broker) == "taken"
    assert decode_orders(broker.records[-1][1]).pause is not None


def test_order_is_unknown_if_read_fails_after_write(broker: Broker) -> None:
    broker.unread, broker.unread_after = kafka.errors.KafkaConnectionError("gone"), 1
    assert give(broker).startswith(NOT_KNOWN)
    assert len(broker.records) == 1
    broker.unread_after = 0
    assert give(broker).startswith("the order is not recorded, because ")
    assert len(broker.records) == 1


def test_order_is_unknown_if_merge_with_another_is_refused(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = (orders_key("c"), encode_orders(Orders(3, by="lee")))

    def with_another(send: Callable[..., Any]) -> Callable[..., Any]:
        def with_theirs(*args: Any, **kwargs: Any) -> Any:
            broker.records.append(theirs)
            return send(*args, **kwargs)

        return with_theirs

    monkeypatch.setattr(broker, "send", with_another(broker.send))
    broker.takes = [None, FORBIDDEN]
    assert give(broker).startswith(NOT_KNOWN)


def test_order_that_cannot_be_found_after_the_write_is_unknown(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other clients have written more records since than the service reads back."""
    monkeypatch.setattr(broker, "read_recent", lambda *_: [])
    assert give(broker) == (
        "it is unknown whether the order is in effect, because rheostat.orders does not show it: check `rheostat status` before you "
        "give it again"
    )


# -- plans ----------------------------------------------------------------------------------------------------------------


def test_plan_without_response_to_head_is_unknown(broker: Broker) -> None:
    broker.takes = [None, SILENT]
    assert put(broker) == (
        f"It is not known whether the order was recorded, because rheostat.orders cannot be written: {SILENT}: see "
        "`rheostat reassign status` before you repeat it."
    )


def test_plan_without_response_to_parts_is_not_recorded(broker: Broker) -> None:
    broker.takes, broker.stuck = [SILENT], True
    assert put(broker) == f"The order was not recorded, because rheostat.orders cannot be written: {SILENT}."
    assert broker.forced
    book = PlanBook("c")
    for key, value in broker.records:
        book.apply(key, value)
    assert book.plans == ()


def test_plan_update_without_permission_names_the_missing_acl(broker: Broker) -> None:
    broker.takes = [FORBIDDEN]
    with pytest.raises(CommandError, match="not recorded, because the permission Write on Topic"):
        plan_store.update_plan(SETTINGS, PLAN, paused_plan)


def test_plan_is_not_recorded_when_cluster_is_unreachable(broker: Broker) -> None:
    broker.begins = SILENT
    assert put(broker).startswith("The order was not recorded, because the cluster does not answer: ")


# -- words about a plan said at the same time -----------------------------------------------------------------------------

PLAN = Plan(PlanHead("p", "kim", 5, 5, 1), {("t", 0): PlanPartition((3, 4), (1, 2))})
FEW = BatchLimits(partition_movements_max=2)
LATER_MS = 4_000_000_000_000


def begun(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.records += [
        (part_key("c", "p", 0), encode_parts(PLAN.partitions)),
        (head_key("c", "p"), encode_head(PLAN.head)),
    ]
    monkeypatch.setattr(plan_store, "read_plans", lambda _: plan_store.StoredPlans(on_record(broker).plans))


def on_record(broker: Broker) -> PlanBook:
    book = PlanBook("c")
    for key, value in broker.records:
        book.apply(key, value)
    return book


def paused_plan(head: PlanHead) -> PlanHead:
    return replace(head, desired=DesiredPlanState.PAUSED)


def limited(head: PlanHead) -> PlanHead:
    return replace(head, limits=FEW)


def beside(broker: Broker, monkeypatch: pytest.MonkeyPatch, theirs: PlanHead, *, first: bool) -> None:
    """Somebody says something from the same look, before our word is there or after it."""
    send, said = broker.send, (head_key("c", "p"), encode_head(theirs))

    def with_theirs(*args: Any, **kwargs: Any) -> Any:
        new = said not in broker.records
        if new and first:
            broker.records.append(said)
        answer = send(*args, **kwargs)
        if new and not first:
            broker.records.append(said)
        return answer

    monkeypatch.setattr(broker, "send", with_theirs)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("ours", ["pause", "limits"])
def test_concurrent_pause_and_limits_both_apply_and_are_merged(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, ours: str, first: bool
) -> None:
    begun(broker, monkeypatch)
    at_ms = 6 if first else LATER_MS
    course_at_ms = 0 if ours == "pause" else at_ms
    change, other = (paused_plan, limited) if ours == "pause" else (limited, paused_plan)
    theirs = replace(other(PLAN.head), ordered_at_ms=at_ms, state_ordered_at_ms=course_at_ms, ordered_by="lee")
    beside(broker, monkeypatch, theirs, first=first)
    plan_store.update_plan(SETTINGS, PLAN, change, changes_state=ours == "pause")
    (plan,) = on_record(broker).plans
    assert (plan.head.desired, plan.head.limits) == (DesiredPlanState.PAUSED, FEW)
    last = PlanBook("c")
    last.apply(part_key("c", "p", 0), encode_parts(PLAN.partitions))
    last.apply(*broker.records[-1])
    assert (last.plans[0].head.desired, last.plans[0].head.limits) == (DesiredPlanState.PAUSED, FEW), (
        "also of a topic compacted"
    )


def test_plan_update_beside_a_conflicting_order_fails(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(broker, monkeypatch)
    theirs = replace(
        PLAN.head,
        desired=DesiredPlanState.CANCELLING,
        ordered_at_ms=LATER_MS,
        state_ordered_at_ms=LATER_MS,
        ordered_by="lee",
    )
    beside(broker, monkeypatch, theirs, first=False)
    with pytest.raises(CommandError, match="Other operators gave orders for plan p at the same time"):
        plan_store.update_plan(SETTINGS, PLAN, paused_plan)
    assert len(broker.records) == len(("parts", "given", "ours", "theirs")), "nor is it said against theirs again"


def test_plan_update_is_unknown_if_read_fails_after_write(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(_: object) -> None:
        raise CommandError("the journal is away")

    begun(broker, monkeypatch)
    monkeypatch.setattr(plan_store, "read_plans", away)
    with pytest.raises(CommandError, match=r"It is not known whether the order applies \(the journal is away\): see"):
        plan_store.update_plan(SETTINGS, PLAN, paused_plan)
