"""The follower of the history on a real broker: a missing topic, a whole week within the time of one request, new and forged records."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from lab_parts import until

from rheostat.lab.cluster import Lab, LabSpec
from streaming.shared.contract import HistoryPeriod, Topics, encode_history, history_key
from streaming.shared.kafka import producer
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.topics import ensure_topics
from tuner.api.week_store import SLOTS, WeekStore
from tuner.runtime.clock import Clock
from tuner.runtime.observe import history_follower as follower_module
from tuner.wiring.readers import history_follower

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

from week_cases import history_week

LAB = LabSpec(brokers=1)
TOPICS = Topics.with_prefix("rheostat")
CLUSTER = "lab"


def write(lab: Lab, periods: list[HistoryPeriod], *forged: tuple[bytes, bytes | None]) -> None:
    sender = producer(lab.kafka_settings(), "test-history")
    records = [*forged, *((history_key(period), encode_history(period)) for period in periods)]
    for key, value in records:
        sender.send(TOPICS.history, key=key, value=value)
    sender.flush(timeout=20)
    sender.close(timeout=5)


def test_week_is_read_within_a_request_and_followed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower_module, "_AGAIN_S", 0.5)
    now_ms = round(time.time() * 1000)
    periods = history_week(CLUSTER, (1, 2, 3), now_ms)
    with ExitStack() as cleanups:
        early = WeekStore(CLUSTER)
        history_follower(cleanups, lab.kafka_settings(), TOPICS, early, Clock())
        assert early.unread_reason(10.0) is None, "a missing topic is an empty history"
        assert early.is_empty
        with ClusterClient(lab.kafka_settings(), "test") as client:
            ensure_topics(client, TOPICS, [TOPICS.history])
        forged = [(b"progress", b'{"v": 1, "kind": "progress"}'), (f"{CLUSTER}|1".encode(), b"\xff"), (b"lab|2", None)]
        write(lab, [*periods[:-1], replace(periods[-2], cluster="other")], *forged)
        until(lambda: early.week(3, now_ms), 20, "the topic that appears later is read")
        store = WeekStore(CLUSTER)
        history_follower(cleanups, lab.kafka_settings(), TOPICS, store, Clock())
        began_s = time.monotonic()
        assert store.unread_reason(10.0) is None
        assert time.monotonic() - began_s < 2.0
        week = store.week(3, now_ms)
        assert week is not None
        assert len(week.copied) == SLOTS - 2  # Without the newest, and the present period has not ended.
        assert None not in week.columns["client_in_bytes_per_s"]
        write(lab, periods[-1:])
        until(
            lambda: (found := store.week(3, now_ms)) and len(found.copied) == SLOTS - 1,
            10,
            "the new period is followed",
        )
