"""Follows the history topic for the weeks of each broker (tuner/api/week_store.py).

A week of a thousand brokers is 700 MB of JSON. So the thread reads the last week first. It reads older weeks only if a request asks
for older weeks.
"""

from __future__ import annotations

from collections.abc import Callable

from kafka import KafkaConsumer

from streaming.shared.kafka.history_topic import HistoryTopic
from tuner.api.week_store import HOUR_MS, HOURS, PERIOD_MS, SLOTS, WeekStore
from tuner.runtime.clock import Clock
from tuner.runtime.observe.background_reader import BackgroundReader

_POLL_MS = 1_000


def history_follower(
    create_consumer: Callable[[], KafkaConsumer], topic: str, store: WeekStore, clock: Clock
) -> BackgroundReader:
    """Returns a thread that follows the history topic: it reads the last week after the first request, and then new periods.

    It reads the older weeks after the first request for older weeks.

    Args:
        create_consumer: as in ``BackgroundReader``.
    """

    def read_since(history: HistoryTopic, since_ms: int, reader: BackgroundReader) -> None:
        for period in history.periods(store.cluster, since_ms):
            store.add(period, clock.now_ms())
            reader.pause()
            if reader.is_stopping:
                return

    def follow(consumer: KafkaConsumer, reader: BackgroundReader) -> None:
        history, has_older = HistoryTopic(consumer, topic), False
        read_since(history, clock.now_ms() - SLOTS * PERIOD_MS, reader)
        store.mark_read()
        while consumer.assignment() and not reader.is_stopping:
            if store.wants_older and not has_older:
                # This also reads the last week again, so that the consumer is at the end of the topic afterwards.
                read_since(history, clock.now_ms() - HOURS * HOUR_MS, reader)
                has_older = True
                store.mark_older_read()
            for period in history.new_periods(store.cluster, _POLL_MS):
                store.add(period, clock.now_ms())
                reader.pause()

    return BackgroundReader("history topic", create_consumer, topic, follow, store=store)
