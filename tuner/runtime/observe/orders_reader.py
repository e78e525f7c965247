"""The orders that people have given, and their plans, as they come into their topic."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from kafka import KafkaConsumer

from streaming.shared.kafka.unpacking import RefusedBatch
from tuner.core.operator_orders import Orders
from tuner.journal.order_records import decode_orders, orders_key
from tuner.journal.orders_topic import is_order
from tuner.journal.plan_book import PlanBook
from tuner.journal.topic_reader import UnreadableBatchError
from tuner.journal.topic_tail import ANSWER_MS, KAFKA_ERRORS, TopicTail
from tuner.runtime.observe.refused import RefusedRecords

log = structlog.get_logger("tuner")


class OrdersReader:
    """``begin`` says up to where the topics were read, so that none is missed, and ``begin_with`` what stood in them."""

    def __init__(
        self,
        consumer: KafkaConsumer,
        topic: str,
        cluster: str,
        journal: tuple[KafkaConsumer, str] | None = None,
        *,
        refused_batches: list[RefusedBatch] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            topic: the orders' topic.
            journal: a consumer of the journal's topic, and its name, for a tuner that only looks on (``plans_whole``).
            refused_batches: those that ``consumer`` leaves out; emptied where ``begin`` reads anew. None: it never does.
        """
        self._refused_batches = refused_batches if refused_batches is not None else []
        self.latest = Orders()
        self.overtaken: tuple[Orders, ...] = ()  # By the latest, since somebody emptied this.
        self.plans: PlanBook | None = None  # Told of what people say about plans, where somebody executes them.
        self.plans_whole = False  # And of what another tuner writes about them, by one that only looks on.
        self._before: tuple[Orders, ...] = ()  # All that stood in the journal.
        self._consumer, self._topic = consumer, topic
        self._tail = TopicTail(consumer, topic)
        self._journal = journal
        self._journal_tail = TopicTail(*journal) if journal is not None else None
        self._key = orders_key(cluster)
        self.refused = RefusedRecords(
            topic,
            "the orders before it hold, and a plan with such a record is not carried out; `rheostat journal check` lists it",
            monotonic=monotonic,
        )

    def begin(self, read_to: Mapping[int, int], journal_read_to: Mapping[int, int]) -> None:
        """From where both topics were read to, by partition: what came before, the journal tells, with what has come of it."""
        self._refused_batches.clear()
        self._tail = TopicTail(self._consumer, self._topic, read_to)
        if self._journal is not None:
            self._journal_tail = TopicTail(*self._journal, journal_read_to)

    def unreadable(self) -> str | None:
        """Why orders that were given are not known here, and what to do; None: all that have come are known."""
        return str(UnreadableBatchError(self._refused_batches[0])) if self._refused_batches else None

    def begin_with(self, latest: Orders, overtaken: tuple[Orders, ...], given: tuple[Orders, ...]) -> None:
        """``given``: all that were read, also those that have been told of."""
        self.latest, self.overtaken, self._before = latest, overtaken, given

    def follow(self, wait_ms: int = ANSWER_MS) -> None:
        """Takes in what has come since the last time; an order that cannot be read changes nothing, and is said.

        Args:
            wait_ms: 0: only what is here already; the answer to what is asked for now is taken in the next time.
        """
        try:
            if self.plans is not None and self.plans_whole and self._journal_tail is not None:
                for record in self._journal_tail.poll(wait_ms):
                    self._take_plan(self.plans, record)
            for record in self._tail.poll(wait_ms):
                if record.key == self._key and record.value is not None:
                    self._take(record)
                elif self.plans is not None and is_order(record.key or b""):
                    self._take_plan(self.plans, record)
        except KAFKA_ERRORS as error:
            log.warning("orders cannot be read", error=str(error))

    def _take(self, record: Any) -> None:
        try:
            given = decode_orders(record.value)
        except ValueError as error:
            self.refused.refuse(record, f"orders: {error}")
            return
        if given in self._before:
            return  # What came while the journal was read may come by here as well.
        self.overtaken, self.latest = (*self.overtaken, self.latest), given
        log.info("orders", at_ms=self.latest.at_ms, paused=self.latest.pause is not None)

    def _take_plan(self, plans: PlanBook, record: Any) -> None:
        try:
            (plans.take if self.plans_whole else plans.take_operator_record)(record.key or b"", record.value)
        except ValueError as error:
            self.refused.refuse(record, f"a plan: {error}")
