"""Reads operator orders and plans from the orders topic."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from kafka import KafkaConsumer

from streaming.shared.kafka.unpacking import UnreadableBatch
from tuner.core.operator_orders import Orders
from tuner.journal.order_records import decode_orders, orders_key
from tuner.journal.orders_topic import is_order
from tuner.journal.plan_book import PlanBook
from tuner.journal.topic_reader import UnreadableBatchError
from tuner.journal.topic_tail import ANSWER_MS, KAFKA_ERRORS, TopicTail
from tuner.runtime.observe.refused import RefusedRecords

log = structlog.get_logger("tuner")


class OrdersReader:
    """Follows the orders of one cluster.

    At the start of a leadership term, the journal's reader has read the journal and the orders topic up to certain offsets. The
    term calls ``begin`` with these offsets, so that no order is missed. Then it calls ``set_earlier_orders`` with the orders that
    the journal's reader has found before these offsets.
    """

    def __init__(
        self,
        consumer: KafkaConsumer,
        topic: str,
        cluster: str,
        journal: tuple[KafkaConsumer, str] | None = None,
        *,
        unreadable_batches: list[UnreadableBatch] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            topic: the orders topic.
            journal: a consumer of the journal's topic, and the topic's name; needed only for ``reads_executor_records``.
            unreadable_batches: the list to which ``consumer`` adds batches that it cannot read and skips. ``begin`` empties the
                list. None means the consumer skips no batch.
        """
        self._unreadable_batches = unreadable_batches if unreadable_batches is not None else []
        self.latest = Orders()
        # Orders that newer orders have replaced. The throttle controller empties this in each cycle.
        self.superseded: tuple[Orders, ...] = ()
        # Receives operators' records about plans; None if this tuner executes no plans.
        self.plans: PlanBook | None = None
        # In a dry run, ``plans`` also receives the records of the tuner that executes the plans, so that it shows their progress.
        self.reads_executor_records = False
        self._known: tuple[Orders, ...] = ()  # All orders that the journal's reader has found.
        self._consumer, self._topic = consumer, topic
        self._tail = TopicTail(consumer, topic)
        self._journal = journal
        self._journal_tail = TopicTail(*journal) if journal is not None else None
        self._key = orders_key(cluster)
        self.refused = RefusedRecords(
            topic,
            "earlier orders stay in force, and a plan with such a record is not executed; `rheostat journal check` lists it",
            monotonic=monotonic,
        )

    def begin(self, read_to: Mapping[int, int], journal_read_to: Mapping[int, int]) -> None:
        """Starts to read both topics at these offsets by partition. The journal's reader has read all earlier records."""
        self._unreadable_batches.clear()
        self._tail = TopicTail(self._consumer, self._topic, read_to)
        if self._journal is not None:
            self._journal_tail = TopicTail(*self._journal, journal_read_to)

    def unreadable(self) -> str | None:
        """Returns why an order could not be read, and how to repair it; None if all orders were read."""
        return str(UnreadableBatchError(self._unreadable_batches[0])) if self._unreadable_batches else None

    def set_earlier_orders(self, latest: Orders, superseded: tuple[Orders, ...], known: tuple[Orders, ...]) -> None:
        """Sets the orders that the journal's reader found before the offsets of ``begin``.

        Args:
            latest: the orders in force.
            superseded: orders that were replaced before a cycle could act on them.
            known: all orders that were read, including orders that are already in the journal.
        """
        self.latest, self.superseded, self._known = latest, superseded, known

    def follow(self, wait_ms: int = ANSWER_MS) -> None:
        """Reads new records. An order that cannot be read changes nothing and is logged.

        Args:
            wait_ms: how long to wait for the broker's answer; 0 means that it returns only records that have arrived already.
        """
        try:
            if self.plans is not None and self.reads_executor_records and self._journal_tail is not None:
                for record in self._journal_tail.poll(wait_ms):
                    self._apply_plan(self.plans, record)
            for record in self._tail.poll(wait_ms):
                if record.key == self._key and record.value is not None:
                    self._apply(record)
                elif self.plans is not None and is_order(record.key or b""):
                    self._apply_plan(self.plans, record)
        except KAFKA_ERRORS as error:
            log.warning("the orders topic cannot be read; trying again", error=str(error))

    def _apply(self, record: Any) -> None:
        try:
            orders = decode_orders(record.value)
        except ValueError as error:
            self.refused.refuse(record, f"orders: {error}")
            return
        if orders in self._known:
            return  # The journal's reader has already returned this order, which arrived while the journal was being read.
        self.superseded, self.latest = (*self.superseded, self.latest), orders
        log.info("new orders are in effect", at_ms=self.latest.at_ms, paused=self.latest.pause is not None)

    def _apply_plan(self, plans: PlanBook, record: Any) -> None:
        try:
            apply = plans.apply if self.reads_executor_records else plans.apply_operator_record
            apply(record.key or b"", record.value)
        except ValueError as error:
            self.refused.refuse(record, f"a plan: {error}")
