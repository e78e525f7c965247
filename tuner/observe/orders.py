"""The orders that people have given, as they come into the journal's topic."""

from __future__ import annotations

import structlog
from kafka import KafkaConsumer

from tuner.journal.order_records import decode_orders, orders_key
from tuner.model.orders import Orders
from tuner.observe.signals import ANSWER_MS, TROUBLE, SignalTail

log = structlog.get_logger("tuner")


class OrdersReader:
    """``latest`` begins with what the journal held at the start; ``follow`` comes before that is read, so that none is missed."""

    def __init__(self, consumer: KafkaConsumer, topic: str, cluster: str) -> None:
        self.latest = Orders()
        self._tail = SignalTail(consumer, topic)
        self._key = orders_key(cluster)

    def follow(self) -> None:
        """Takes in what has come since the last time; an order that cannot be read changes nothing, and is said."""
        try:
            for record in self._tail.new(ANSWER_MS):
                if record.key == self._key and record.value is not None:
                    self._take(record.value)
        except TROUBLE as error:
            log.warning("orders cannot be read", error=str(error))

    def _take(self, value: bytes) -> None:
        try:
            self.latest = decode_orders(value)
        except ValueError as error:
            log.error("an order cannot be read: give it with the version of rheostat that runs here", error=str(error))
            return
        log.info("orders", at_ms=self.latest.at_ms, paused=self.latest.pause is not None)
