"""Operator orders: the changes by pause, resume, release and override, and the service that writes them to Kafka.

An order over HTTP becomes a record in the orders topic, as `rheostat pause` writes it. The controllers read the record within a
cycle; no route changes a throttle itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import structlog

from streaming.shared.contract import Side
from streaming.shared.contract.bounds import TIMESTAMP_MS_MAX
from streaming.shared.kafka import KafkaSettings, consumer
from streaming.shared.kafka.unpacking import UnreadableBatch
from streaming.shared.short_lists import join_names, shorten_lines
from streaming.shared.units import rate_text
from tuner.api.sentences import moment
from tuner.core.cluster import BrokerSide
from tuner.core.operator_orders import ClearedThrottles, Orders, Override, Pause, QuotaTrial, QuotaTrialKind
from tuner.journal.order_records import decode_orders, encode_orders, orders_key
from tuner.journal.sender import RecordNotAcknowledged, Sender
from tuner.journal.topic_reader import UnreadableBatchError
from tuner.journal.topic_tail import KAFKA_ERRORS, TopicTail

log = structlog.get_logger("tuner")

OVERRIDE_S_MAX = 30 * 86_400.0
_NEWEST_RECORDS = 500  # Read back from the end of the topic; an order that the loop has not read yet is among them.
_CLIENT_ID = "rheostat-tuner-orders"
_WAIT_S_MAX = 15.0
_QUOTED_MAX = 10**15  # Larger numbers are not quoted in messages.
_TRIES = 5
_CLEARED_RECORDED_MAX = 200  # Each tuner's memory record has a copy of the orders, so the record must stay small.

OrderChange = Callable[[Orders, int], Orders]  # From the current orders and the time (epoch ms) to the new orders.


class OrderNotRecorded(Exception):
    """The order is not recorded, or it is unknown whether the order is recorded. The text says which, why, and what to do."""


class OrderService(Protocol):
    """Records operator orders."""

    def submit(self, change: OrderChange) -> Orders:
        """Applies the change to the current orders, records the result, and returns it.

        Raises:
            OrderNotRecorded: the order is not recorded, or it is unknown whether the order is recorded.
        """


def pause_change(by: str) -> OrderChange:
    return lambda orders, now_ms: replace(orders, pause=Pause(now_ms, _author(by, now_ms)), by=_author(by, now_ms))


def resume_change(by: str) -> OrderChange:
    return lambda orders, now_ms: replace(orders, pause=None, resumed_at_ms=now_ms, by=_author(by, now_ms))


def release_change(by: str) -> OrderChange:
    def change(orders: Orders, now_ms: int) -> Orders:
        author = _author(by, now_ms)
        return replace(orders, pause=Pause(now_ms, author, released=True), overrides={}, by=author)

    return change


def override_change(sides: Mapping[BrokerSide, int], for_s: float, by: str) -> OrderChange:
    def change(orders: Orders, now_ms: int) -> Orders:
        until_ms = now_ms + round(for_s * 1000)
        author = f"{_author(by, now_ms)}, until {moment(until_ms)}"
        new = {side: Override(rate, until_ms, author) for side, rate in sides.items()}
        return replace(orders, overrides=_unexpired_overrides(orders, now_ms) | new, by=_author(by, now_ms))

    return change


def end_override_change(broker: int, by: str, side: Side | None = None) -> OrderChange:
    """Ends the overrides of a broker; with ``side``, only that side's."""
    ended = {(broker, each) for each in Side if side in (None, each)}

    def change(orders: Orders, now_ms: int) -> Orders:
        remaining = {side: order for side, order in _unexpired_overrides(orders, now_ms).items() if side not in ended}
        return replace(orders, overrides=remaining, by=_author(by, now_ms))

    return change


def cleared_change(settings: Sequence[str], by: str) -> OrderChange:
    """Records that an operator removes throttles that serve nothing. The tuner only notes it in its journal."""

    def change(orders: Orders, now_ms: int) -> Orders:
        author = _author(by, now_ms)
        names = tuple(shorten_lines(settings, _CLEARED_RECORDED_MAX, "settings"))
        return replace(orders, cleared=ClearedThrottles(now_ms, author, names), by=author)

    return change


def begin_trial_change(kind: QuotaTrialKind, for_s: float, by: str) -> OrderChange:
    """Records that a command begins to change mutation quotas or topics. The tuner only notes it in its journal.

    Args:
        for_s: the longest time that the command can take.
    """

    def change(orders: Orders, now_ms: int) -> Orders:
        author = _author(by, now_ms)
        trial = QuotaTrial(kind, now_ms, now_ms + round(for_s * 1000), author)
        return replace(orders, trials={**orders.trials, kind: trial}, by=author)

    return change


def end_trial_change(kind: QuotaTrialKind, by: str, total_per_s: float | None = None) -> OrderChange:
    """Records that the command has ended and cleaned up. A calibration also records the total rate that it has measured."""

    def change(orders: Orders, now_ms: int) -> Orders:
        trial = orders.trials.get(kind)
        if trial is None:  # The record of the command's begin was lost with the topic.
            trial = QuotaTrial(kind, now_ms, now_ms, _author(by, now_ms))
        ended = replace(trial, until_ms=now_ms, total_per_s=total_per_s)
        return replace(orders, trials={**orders.trials, kind: ended}, by=_author(by, now_ms))

    return change


def rate_fault(rate_bytes_per_s: int, rate_bytes_per_s_max: float) -> str | None:
    """Returns the fault of an override's rate as text; None if the rate is allowed."""
    if 1 <= rate_bytes_per_s <= rate_bytes_per_s_max:
        return None
    value = rate_bytes_per_s if abs(rate_bytes_per_s) < _QUOTED_MAX else f"of {len(str(abs(rate_bytes_per_s)))} digits"
    return (
        f"rate_bytes_per_s {value} is outside the bounds: 1 to {rate_bytes_per_s_max:.0f} "
        f"({rate_text(rate_bytes_per_s_max)}, tuner.rate_bytes_per_s_max, which is never exceeded)"
    )


def broker_fault(broker: int, alive: Iterable[int]) -> str | None:
    """Returns why orders for this broker are refused; None if the broker is alive."""
    brokers = sorted(alive)
    if broker in brokers:
        return None
    return f"broker {broker} is not alive; alive are {join_names(brokers, 20) or 'none'}"


class KafkaOrderService:
    """Records orders in the orders topic: reads the current orders, changes them, writes them; one order at a time."""

    def __init__(
        self,
        kafka_settings: KafkaSettings,
        topic: str,
        cluster: str,
        latest: Callable[[], Orders],
        wall_clock: Callable[[], float],
    ) -> None:
        """
        Args:
            latest: returns the orders that the loop has read last, at most a cycle ago. They are the base if the topic has no
                orders.
        """
        self._kafka = kafka_settings
        self._topic = topic
        self._cluster = cluster
        self._latest = latest
        self._wall_clock = wall_clock
        self._lock = threading.Lock()

    def submit(self, change: OrderChange) -> Orders:
        if not self._lock.acquire(timeout=_WAIT_S_MAX):
            raise OrderNotRecorded("another order is still being written: try again in a moment")
        has_written = False
        try:
            base = (self._read_recorded() or [self._latest()])[-1]  # The change is applied to these orders.
            expected_predecessor = base  # The record that must directly precede the new record.
            for _ in range(_TRIES):
                now_ms = round(self._wall_clock() * 1000)
                orders = replace(change(base, now_ms), at_ms=min(max(now_ms, base.at_ms + 1), TIMESTAMP_MS_MAX))
                self._write(orders)
                has_written = True
                recorded = self._read_recorded()
                if orders not in recorded:
                    raise OrderNotRecorded(
                        f"it is unknown whether the order is in effect, because {self._topic} does not show it: check `rheostat "
                        "status` before you give it again"
                    )
                position = recorded.index(orders)
                # At position 0 no record precedes the new record, so no other order was overlooked.
                if position == 0 or recorded[position - 1] == expected_predecessor:
                    return orders
                # Another order was written between the read and the write: apply this change on top of that order.
                base, expected_predecessor = recorded[position - 1], orders
            raise OrderNotRecorded(
                "other orders are given at the same time, so it is unknown which order is in effect: check `rheostat status`, "
                "and try again"
            )
        except RecordNotAcknowledged as error:
            if has_written or error.may_be_recorded:
                raise OrderNotRecorded(
                    f"it is unknown whether the order is recorded, because {error}: check `rheostat "
                    f"status` before you give it again"
                ) from error
            raise OrderNotRecorded(f"the order is not recorded, because {error}") from error
        finally:
            self._lock.release()

    def _read_recorded(self) -> list[Orders]:
        """Returns the newest orders in topic order, as the loop reads them. The last record is in force, even if its timestamp
        is older.

        Raises:
            RecordNotAcknowledged: the topic cannot be read.
        """
        recorded: list[Orders] = []
        unreadable: list[UnreadableBatch] = []
        try:
            reader = consumer(self._kafka, _CLIENT_ID, on_unreadable_batch=unreadable.append)
        except KAFKA_ERRORS as error:
            raise RecordNotAcknowledged(f"the cluster does not answer: {error}", may_be_recorded=False) from error
        try:
            for record in TopicTail(reader, self._topic).read_recent(_NEWEST_RECORDS):
                if record.key == orders_key(self._cluster) and record.value is not None:
                    recorded += _decode_readable(record.value)
        except KAFKA_ERRORS as error:
            raise RecordNotAcknowledged(f"{self._topic} cannot be read: {error}", may_be_recorded=False) from error
        finally:
            reader.close(timeout_ms=2000)
        if unreadable:  # An unreadable batch may contain a newer order, or the order that was just written.
            raise RecordNotAcknowledged(str(UnreadableBatchError(unreadable[0])), may_be_recorded=False)
        return recorded

    def _write(self, orders: Orders) -> None:
        """
        Raises:
            RecordNotAcknowledged: the write failed, or its result is unknown.
        """
        sender = Sender(self._kafka, self._topic, _CLIENT_ID)
        try:
            sender.send(orders_key(self._cluster), encode_orders(orders))
            sender.wait_for_acks()
        finally:
            sender.close()


def _decode_readable(value: bytes) -> list[Orders]:
    """Returns the decoded orders; none if this version cannot read them.

    The tuner skips such a record as well, and the new order replaces it.
    """
    try:
        return [decode_orders(value)]
    except ValueError as error:
        log.warning(
            "this version cannot read a record in the orders topic, so the previous orders stay in effect until a new order",
            error=str(error),
        )
        return []


def _unexpired_overrides(orders: Orders, now_ms: int) -> dict[BrokerSide, Override]:
    return {side: order for side, order in orders.overrides.items() if order.until_ms > now_ms}


def _author(by: str, now_ms: int) -> str:
    return f"{by}, {moment(now_ms)}"


def override_rates(broker: int, side: Side | None, rate_bytes_per_s: int) -> dict[BrokerSide, int]:
    """Returns the rate for each side of the broker that the order concerns; ``side`` None means both."""
    return {(broker, each): rate_bytes_per_s for each in Side if side is None or each is side}
