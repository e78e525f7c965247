"""Orders over HTTP: what may be asked for, who asked, and how it comes on record.

An order becomes a record in the orders' topic, the same that `rheostat pause` writes, and no more: the loop finds it there within
a cycle, like everybody else's. No route turns a throttle.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

import structlog

from streaming.shared.contract import Side
from streaming.shared.contract.bounds import TIMESTAMP_MS_MAX
from streaming.shared.kafka import KafkaSettings, consumer
from streaming.shared.kafka.unpacking import RefusedBatch
from streaming.shared.short_lists import join_names
from streaming.shared.units import rate_text
from tuner.api.sentences import moment
from tuner.core.cluster import BrokerSide
from tuner.core.operator_orders import Orders, Override, Pause
from tuner.journal.order_records import decode_orders, encode_orders, orders_key
from tuner.journal.sender import NotSent, Sender
from tuner.journal.topic_reader import UnreadableBatchError
from tuner.journal.topic_tail import KAFKA_ERRORS, TopicTail

log = structlog.get_logger("tuner")

FOR_S_MAX = 30 * 86_400.0
_NEWEST_RECORDS = (
    500  # Of the journal, and all of its last minute: so far back an order may be that the loop has not read yet.
)
_CLIENT_ID = "rheostat-tuner-desk"
_WAIT_S_MAX = 15.0
_SAID_MAX = 10**15  # A longer number helps nobody who reads of it.
_TRIES = 5

OrderChange = Callable[[Orders, int], Orders]


class OrderNotRecorded(Exception):
    """It is not known that the order is on record, or it is not; the text says which, why, and what to do."""


class OrderService(Protocol):
    def submit(self, change: OrderChange) -> Orders:
        """Puts the orders, changed, on record.

        Raises:
            NotTaken: it is not known that they are.
        """


def pause_change(by: str) -> OrderChange:
    return lambda orders, now_ms: replace(orders, pause=Pause(now_ms, _by(by, now_ms)), by=_by(by, now_ms))


def resume_change(by: str) -> OrderChange:
    return lambda orders, now_ms: replace(orders, pause=None, resumed_at_ms=now_ms, by=_by(by, now_ms))


def release_change(by: str) -> OrderChange:
    def change(orders: Orders, now_ms: int) -> Orders:
        said = _by(by, now_ms)
        return replace(orders, pause=Pause(now_ms, said, released=True), overrides={}, by=said)

    return change


def override_change(sides: Mapping[BrokerSide, int], for_s: float, by: str) -> OrderChange:
    def change(orders: Orders, now_ms: int) -> Orders:
        until_ms = now_ms + round(for_s * 1000)
        said = f"{_by(by, now_ms)}, until {moment(until_ms)}"
        new = {side: Override(rate, until_ms, said) for side, rate in sides.items()}
        return replace(orders, overrides=_standing(orders, now_ms) | new, by=_by(by, now_ms))

    return change


def end_override_change(broker: int, by: str, side: Side | None = None) -> OrderChange:
    """``side``: of that one only."""
    over = {(broker, each) for each in Side if side in (None, each)}

    def change(orders: Orders, now_ms: int) -> Orders:
        kept = {side: order for side, order in _standing(orders, now_ms).items() if side not in over}
        return replace(orders, overrides=kept, by=_by(by, now_ms))

    return change


def rate_fault(rate_bytes_per_s: int, rate_bytes_per_s_max: float) -> str | None:
    """What is wrong with an override's rate, with the bounds."""
    if 1 <= rate_bytes_per_s <= rate_bytes_per_s_max:
        return None
    said = rate_bytes_per_s if abs(rate_bytes_per_s) < _SAID_MAX else f"of {len(str(abs(rate_bytes_per_s)))} digits"
    return (
        f"rate_bytes_per_s {said} is outside the bounds: 1 to {rate_bytes_per_s_max:.0f} "
        f"({rate_text(rate_bytes_per_s_max)}, tuner.rate_bytes_per_s_max, which is never exceeded)"
    )


def broker_fault(broker: int, alive: Iterable[int]) -> str | None:
    there = sorted(alive)
    if broker in there:
        return None
    return f"broker {broker} is not alive here; alive are {join_names(there, 20) or 'none'}"


class KafkaOrderService:
    """Reads what is ordered now, changes it, writes it; one order at a time."""

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
            latest: the newest that the loop has read, a cycle ago at most.
        """
        self._kafka = kafka_settings
        self._topic = topic
        self._cluster = cluster
        self._latest = latest
        self._wall_clock = wall_clock
        self._lock = threading.Lock()

    def submit(self, change: OrderChange) -> Orders:
        if not self._lock.acquire(timeout=_WAIT_S_MAX):
            raise OrderNotRecorded("another order is still being written: ask again in a moment")
        wrote = False
        try:
            known = (self._on_record() or [self._latest()])[-1]
            before = known
            for _ in range(_TRIES):
                now_ms = round(self._wall_clock() * 1000)
                orders = replace(change(known, now_ms), at_ms=min(max(now_ms, known.at_ms + 1), TIMESTAMP_MS_MAX))
                self._write(orders)
                wrote = True
                log = self._on_record()
                at = log.index(orders) if orders in log else 0
                if at == 0 or log[at - 1] == before:
                    return orders
                # Somebody's word came between our look and our own: theirs first, then ours.
                known, before = log[at - 1], orders
            raise OrderNotRecorded(
                "others give orders at the same time, so it is not known which holds: look, and ask again"
            )
        except NotSent as error:
            if wrote or error.may_be_recorded:
                raise OrderNotRecorded(
                    f"it is not known whether the order is taken, as {error}: look (`rheostat status`) before you give it again"
                ) from error
            raise OrderNotRecorded(f"the order is not taken, as {error}") from error
        finally:
            self._lock.release()

    def _on_record(self) -> list[Orders]:
        """The newest in the order of the topic, as the loop takes them: the last one holds, whatever its clock said.

        Raises:
            NotSent: they cannot be read.
        """
        found: list[Orders] = []
        refused: list[RefusedBatch] = []
        try:
            reader = consumer(self._kafka, _CLIENT_ID, on_refused=refused.append)
        except KAFKA_ERRORS as error:
            raise NotSent(f"the cluster does not answer: {error}", may_be_recorded=False) from error
        try:
            for record in TopicTail(reader, self._topic).read_recent(_NEWEST_RECORDS):
                if record.key == orders_key(self._cluster) and record.value is not None:
                    found += _readable(record.value)
        except KAFKA_ERRORS as error:
            raise NotSent(f"{self._topic} cannot be read: {error}", may_be_recorded=False) from error
        finally:
            reader.close(timeout_ms=2000)
        if refused:  # A newer order may be in it, or the one that was written now.
            raise NotSent(str(UnreadableBatchError(refused[0])), may_be_recorded=False)
        return found

    def _write(self, orders: Orders) -> None:
        """
        Raises:
            NotSent: it is not known that they are on record.
        """
        sender = Sender(self._kafka, self._topic, _CLIENT_ID)
        try:
            sender.send(orders_key(self._cluster), encode_orders(orders))
            sender.wait_for_acks()
        finally:
            sender.close()


def _readable(value: bytes) -> list[Orders]:
    """None of it where this version cannot read it: the tuner passes over it as well, and the order that is given now takes its
    place."""
    try:
        return [decode_orders(value)]
    except ValueError as error:
        log.warning("orders on record cannot be read, so those before them hold", error=str(error))
        return []


def _standing(orders: Orders, now_ms: int) -> dict[BrokerSide, Override]:
    return {side: order for side, order in orders.overrides.items() if order.until_ms > now_ms}


def _by(by: str, now_ms: int) -> str:
    return f"{by}, {moment(now_ms)}"


def override_rates(broker: int, side: Side | None, rate_bytes_per_s: int) -> dict[BrokerSide, int]:
    return {(broker, each): rate_bytes_per_s for each in Side if side is None or each is side}
