"""The history of a real journal: two tuners one after the other, a transaction that was not finished, and records of other topics."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial

import pytest
from lab_parts import until

from rheostat.lab.cluster import Lab, LabSpec
from streaming.shared.contract import Side, Topics
from streaming.shared.kafka import consumer, producer
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.topics import ensure_topics
from tuner.api.journal_history import JournalHistory, MarkKind
from tuner.control.throttle.decision import Reason, SetRate
from tuner.control.throttle.state import Memory
from tuner.core.throttle_limits import MB, ThrottleLimits
from tuner.journal.entries import Entry, encode_entry, entry_key, entry_of, steering_entry
from tuner.journal.kafka_journal import KafkaJournal
from tuner.journal.term_entries import begin_term_entry, settings_in_force
from tuner.runtime.observe.journal_follower import journal_follower

LAB = LabSpec(brokers=1)
CLUSTER = "test"
T0_MS = 1_700_000_000_000  # Years before the broker's own time: the clock of this tuner was wrong.
MINUTE_MS = 60_000
WAIT_S = 60.0
RAISE = SetRate(1, Side.LEADER, 10 * MB, 50 * MB, Reason.STALLED_THROTTLE_BOUND, "broker 1 leader throttle: up")
LOWER = SetRate(1, Side.LEADER, 50 * MB, 20 * MB, Reason.FOLLOWS_CLIENTS, "broker 1 leader throttle: down")


def number_of(entry: Entry) -> int:
    """Returns the id of the first decision of its millisecond."""
    return entry.at_ms * 2_000 + (entry.kind == "steering")


@pytest.fixture
def topics(lab: Lab) -> Iterator[Topics]:
    named = Topics.with_prefix("past")
    with ClusterClient(lab.kafka_settings(), "test") as client:
        ensure_topics(client, named)
        yield named


def journal(lab: Lab, topic: str, holder: str) -> KafkaJournal:
    made = producer(lab.kafka_settings(), f"test-{holder}", linger_ms=0, transactional_id=f"of-{topic}")
    return KafkaJournal(made, topic, CLUSTER, holder=holder, fenced=True)


def term(holder: str, at_ms: int, ceiling: float) -> Entry:
    settings = settings_in_force(ThrottleLimits(rate_bytes_per_s_max=ceiling), None)
    return begin_term_entry(holder, "0.9", settings, at_ms, dry_run=False)


def test_history_spans_two_tuners_and_leaves_out_what_was_not_committed(lab: Lab, topics: Topics) -> None:
    topic = topics.journal
    old, new = journal(lab, topic, "old"), journal(lab, topic, "new")
    intent = entry_of("intent", RAISE, T0_MS + MINUTE_MS)
    tick = steering_entry([LOWER], T0_MS + 20 * MINUTE_MS)
    try:
        old.take_over()
        old.write([term("old", T0_MS, 40 * MB), intent], memory=Memory(throttled=True))
        old.write([entry_of("outcome", RAISE, T0_MS + 2 * MINUTE_MS)])
        # It dies within its next write, which the take-over of its successor aborts.
        dying = old._writer
        dying.begin_transaction()
        lost = entry_of("intent", RAISE, T0_MS + 5 * MINUTE_MS)
        dying.send(topic, key=entry_key("entry", CLUSTER, 900), value=encode_entry(lost)).get(timeout=10)
        new.take_over()
        new.write([term("new", T0_MS + 10 * MINUTE_MS, 90 * MB), tick])
    finally:
        old.close()
        new.close()
    store = JournalHistory(CLUSTER)
    make_consumer = partial(
        consumer, lab.kafka_settings(), "test", auto_offset_reset="earliest", isolation_level="read_committed"
    )
    reader = journal_follower(make_consumer, topic, store)
    reader.start()
    try:
        assert store.unread_reason(WAIT_S) is None
        shown = (T0_MS, T0_MS + 30 * MINUTE_MS)
        # Kafka shows a transaction some moments after its commit.
        until(lambda: len(store.marks(1, *shown, 50)[0]) >= 3, WAIT_S, "the last transaction is read")
        marks, _ = store.marks(1, *shown, 50)
        assert [mark.kind for mark in marks] == [MarkKind.RESTART, MarkKind.DECISION, MarkKind.FAIL_OVER]
        rates = [point.bytes_per_s for point in store.rates(1, Side.LEADER, *shown, 100)]
        assert rates == [10 * MB, 50 * MB, 20 * MB]
        assert [settings.rate_bytes_per_s_max for _, settings in store.settings(*shown, 10)] == [40 * MB, 90 * MB]
        for wanted in (intent, tick):
            row = store.row(number_of(wanted))
            assert row is not None
            assert row.entry.text == wanted.text
        assert store.row(number_of(lost)) is None
    finally:
        reader.stop()
    assert not [thread for thread in threading.enumerate() if thread.name == "reader of the journal"]
