"""The newest signal of every entity, from the signals topic.

Windows overlap: one scrape is in six of them, and the youngest holds only that scrape. So the best signal of an entity is
not the one with the latest end, but among those with the newest sample the one with the most samples.
"""

from __future__ import annotations

import kafka.errors
import structlog
from kafka import KafkaConsumer, TopicPartition

from streaming.contract import BrokerSignal, ContractError, MoveSignal, decode_signal
from tuner.model.cluster import BrokerSide

log = structlog.get_logger("tuner")

# An entity that stopped sending: its age is shown and alerted on until then.
_FORGET_MS = 10 * 60 * 1000
POLLS_MAX = 50  # A cycle takes in all that has come, but does not live in here.
# kafka-python's network thread answers with these two beside its own errors.
_TROUBLE = (kafka.errors.KafkaError, RuntimeError, OSError)


class SignalReader:
    """Follows all partitions of the topic from its end, in no consumer group: every tuner sees everything."""

    def __init__(self, consumer: KafkaConsumer, topic: str, cluster: str) -> None:
        self.brokers: dict[int, BrokerSignal] = {}
        self.moves: dict[BrokerSide, MoveSignal] = {}
        self.unreadable = 0
        self._consumer = consumer
        self._cluster = cluster
        self._topic = topic
        self._assigned = False

    def poll(self) -> int:
        """Takes in what has come; how many records. A broker that is away costs nothing here but staleness later."""
        try:
            if not self._assigned:
                self._assign()
            taken = 0
            for _ in range(POLLS_MAX):
                batches = self._consumer.poll(timeout_ms=0, max_records=20_000)
                for records in batches.values():
                    for record in records:
                        taken += 1
                        self._take(record.value)
                if not batches:
                    break
            return taken
        except _TROUBLE as error:
            log.warning("the signals topic cannot be read", topic=self._topic, error=str(error))
            return 0

    def rewind(self, records: int) -> None:
        """Takes in the newest ``records`` of each partition that are there already; for a look without a history.

        Raises nothing: what cannot be read stays unknown, as with ``poll``.
        """
        try:
            self._assign()
            if not self._assigned:
                return
            ends = self._consumer.end_offsets(list(self._consumer.assignment()))
            begins = self._consumer.beginning_offsets(list(ends))
            for partition, end in ends.items():
                self._consumer.seek(partition, max(begins[partition], end - records))
            while any((self._consumer.position(p) or 0) < end for p, end in ends.items()):
                batches = self._consumer.poll(timeout_ms=1000)
                if not batches:
                    return
                for batch in batches.values():
                    for record in batch:
                        self._take(record.value)
        except _TROUBLE as error:
            log.warning("the signals topic cannot be read", topic=self._topic, error=str(error))

    def forget_old(self, now_ms: int) -> None:
        self.brokers = {k: s for k, s in self.brokers.items() if now_ms - s.sampled_at_ms < _FORGET_MS}
        self.moves = {k: s for k, s in self.moves.items() if now_ms - s.sampled_at_ms < _FORGET_MS}

    def _assign(self) -> None:
        partitions = self._consumer.partitions_for_topic(self._topic)
        if not partitions:
            return  # Not created yet; asked again at the next poll.
        assigned = [TopicPartition(self._topic, p) for p in sorted(partitions)]
        self._consumer.assign(assigned)
        self._consumer.seek_to_end(*assigned)
        self._assigned = True

    def _take(self, value: bytes | None) -> None:
        try:
            signal = decode_signal(value or b"")
        except ContractError as error:
            self.unreadable += 1
            if self.unreadable == 1:
                log.warning("a signal cannot be read; further ones are only counted", error=str(error))
            return
        if signal.cluster != self._cluster:
            return
        if isinstance(signal, MoveSignal):
            key = (signal.broker, signal.side)
            if _better(signal, self.moves.get(key)):
                self.moves[key] = signal
        elif _better(signal, self.brokers.get(signal.broker)):
            self.brokers[signal.broker] = signal


def _better(new: BrokerSignal | MoveSignal, old: BrokerSignal | MoveSignal | None) -> bool:
    if old is None:
        return True
    # A sample from far ahead came from a clock that was wrong then: it must not keep out all that come after.
    if old.sampled_at_ms - new.sampled_at_ms > _FORGET_MS:
        return True
    return (new.sampled_at_ms, new.samples) >= (old.sampled_at_ms, old.samples)
