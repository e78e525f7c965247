"""Follows the history topic for the week of each broker (tuner/api/week_store.py), in a thread of its own.

Nothing is read until the first request for a week, as only the page and the API need it. A week of a thousand brokers is 500 MB of
JSON. So the thread reads few records at a time and pauses after them, and the tuner's decisions do not wait for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog
from kafka import KafkaConsumer, TopicPartition

from streaming.shared.contract import ContractError, decode_history
from tuner.api.week_store import PERIOD_MS, SLOTS, WeekStore
from tuner.journal.topic_tail import KAFKA_ERRORS
from tuner.runtime.clock import Clock
from tuner.runtime.observe.refused import RefusedRecords

log = structlog.get_logger("tuner")

_RECORDS_MAX = 5  # In one poll: a record of a thousand brokers takes milliseconds.
_PAUSE_S = 0.01
_POLL_MS = 1_000
_AGAIN_S = 10.0
_STOP_S_MAX = 2.0
_CLOSE_MS = 1_000


class HistoryFollower:
    """Reads the last week of the history topic once a week is asked for, and then its new records, until ``stop``."""

    def __init__(
        self, create_consumer: Callable[[], KafkaConsumer], topic: str, store: WeekStore, clock: Clock
    ) -> None:
        """
        Args:
            create_consumer: called in the thread; its consumer begins at the earliest record if its position is lost.
        """
        self._create_consumer = create_consumer
        self._topic = topic
        self._store = store
        self._clock = clock
        self.refused = RefusedRecords(topic, "it is missing in the week of brokers", monotonic=clock.monotonic_s)
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="history-follower", daemon=True)

    def start(self) -> None:
        self._store.on_request = self._wake.set
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread. A poll in progress may continue for a second."""
        self._stop.set()
        self._wake.set()
        self._thread.join(timeout=_STOP_S_MAX)

    def _run(self) -> None:
        self._wake.wait()
        while not self._stop.is_set():
            try:
                consumer = self._create_consumer()
                try:
                    self._follow(consumer)
                finally:
                    consumer.close(timeout_ms=_CLOSE_MS)
            except KAFKA_ERRORS as error:
                self._store.mark_unreadable(f"the history topic {self._topic} cannot be read: {error}")
                log.warning("the history topic cannot be read", topic=self._topic, error=str(error))
                self._stop.wait(_AGAIN_S)

    def _follow(self, consumer: KafkaConsumer) -> None:
        """Reads until ``stop``, or until the topic is looked up again because it does not exist yet."""
        partitions = [TopicPartition(self._topic, p) for p in consumer.partitions_for_topic(self._topic) or ()]
        if not partitions:
            self._store.mark_read()  # Nothing has been written yet.
            self._stop.wait(_AGAIN_S)
            return
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        since_ms = self._clock.now_ms() - SLOTS * PERIOD_MS
        # The broker stamps each record when it is appended, so a record of this week has no earlier stamp.
        for partition, first in consumer.offsets_for_times(dict.fromkeys(partitions, since_ms)).items():
            consumer.seek(partition, first.offset if first is not None else ends[partition])
        is_read = False
        while not self._stop.is_set():
            if not is_read and all((consumer.position(p) or 0) >= end for p, end in ends.items()):
                is_read = True
                self._store.mark_read()
            batches = consumer.poll(timeout_ms=_POLL_MS, max_records=_RECORDS_MAX)
            for records in batches.values():
                for record in records:
                    self._take(record)
            if batches:
                self._stop.wait(_PAUSE_S)

    def _take(self, record: object) -> None:
        value: bytes | None = getattr(record, "value", None)
        if value is None:
            return  # A deleted period; its slot ends with the week.
        try:
            self._store.take(decode_history(value), self._clock.now_ms())
        except ContractError as error:
            self.refused.refuse(record, str(error))
