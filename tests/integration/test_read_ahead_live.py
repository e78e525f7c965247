"""A standby that has read the journal ahead has the same state as one that reads it completely, and takes over quickly."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from lab_parts import RHEOSTAT, running, until, wait_for_metadata
from test_one_hand import STAYS_S, TAKE_OVER_S_MAX, Tuner, config, members

from rheostat.lab.cluster import Lab, LabSpec
from streaming.shared.contract import Side, Topics
from streaming.shared.kafka import producer
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.topics import ensure_topics
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.core.operator_orders import Orders, Override
from tuner.journal.entries import RING, RINGS, Entry, encode_entry, encode_owned, entry_key, owned_key
from tuner.journal.kafka_journal import KafkaJournal
from tuner.journal.outbox import Outbox
from tuner.journal.plan_records import head_key
from tuner.journal.read_ahead import ReadAhead
from tuner.journal.transactions import send_and_wait
from tuner.runtime.standby import journal_reader

LAB = LabSpec(brokers=2)
CLUSTER = "test"
SIDE, OTHER = (1, Side.LEADER), (2, Side.FOLLOWER)
ENTRY = Entry(1, "decision", "hold", "watching", "well")
# As the law's own are: what was measured, what was decided, and why.
FILLED_BYTES = 700


@pytest.fixture
def client(lab: Lab) -> Iterator[ClusterClient]:
    with ClusterClient(lab.kafka_settings(), "test") as made:
        yield made


def journal(lab: Lab, topic: str, holder: str) -> KafkaJournal:
    made = producer(
        lab.kafka_settings(), f"test-{holder}", linger_ms=0, transactional_id=f"of-{topic}", retry_backoff_ms=20
    )
    return KafkaJournal(made, topic, CLUSTER, holder=holder, fenced=True)


def ahead_of(lab: Lab, client: ClusterClient, topic: str, times_ms: frozenset[int] = frozenset()) -> ReadAhead:
    return ReadAhead(partial(journal_reader, lab.kafka_settings()), topic, CLUSTER, client.topic_ids, times_ms)


def read_on(ahead: ReadAhead, lasts_s: float = 3.0) -> None:
    until_s = time.monotonic() + lasts_s
    while time.monotonic() < until_s:
        ahead.step()


def known_of(lab: Lab, topic: str, owed: Outbox, ahead: ReadAhead | None) -> tuple[object, ...]:
    found = KafkaJournal(None, topic, CLUSTER, holder="new")
    reader = journal_reader(lab.kafka_settings())
    known = None
    if ahead is not None:
        known = ahead.take_knowledge()
        assert known is not None, "nothing was read ahead"
        assert known.next_offsets[0] > 0
    try:
        memory = found.recover(reader, owed, known)
    finally:
        reader.close(timeout_ms=2000)
    return (
        memory, found._seqs, found.orders, found.superseded_orders, found.orders_history, found.holdings, found.quotas,
        found.cluster_aliases.names, found.cluster_aliases.holdings_by_name(), owed.entries, found.plans.plans, found.plans.unreadable_plans,
        found.next_offsets,
    )  # fmt: skip


def found_memory(lab: Lab, topic: str) -> Memory:
    reader = journal_reader(lab.kafka_settings())
    try:
        return KafkaJournal.read_only(topic, CLUSTER).recover(reader)
    finally:
        reader.close(timeout_ms=2000)


def test_read_ahead_plus_newer_records_is_whole_journal(lab: Lab, client: ClusterClient) -> None:
    topic = Topics.with_prefix("ahead").journal
    ensure_topics(client, Topics.with_prefix("ahead"))
    old, new = journal(lab, topic, "old"), journal(lab, topic, "new")
    owed = [replace(ENTRY, at_ms=at) for at in (5, 6, 7)]
    given = Orders(10, overrides={SIDE: Override(7, 20_000, "me")})
    try:
        old.take_over()
        old.write([ENTRY, owed[0]], memory=Memory(throttled=True), owned={SIDE: OwnedRate(None, 5, (5,))})
        ahead = ahead_of(lab, client, topic, frozenset({5, 6, 7}))
        read_on(ahead)
        old.write([owed[1]], owned={SIDE: OwnedRate(None, 6, (6,)), OTHER: OwnedRate(3, 4, (4,))})
        read_on(ahead)
        # The last that it reads of itself is behind; what is written after it stands by no more comes first in what is read then.
        ahead.stop()
        old.write(
            [ENTRY] * 3, memory=replace(Memory(), recorded_orders=given), other_records={head_key(CLUSTER, "p"): None}
        )
        # It dies within its next write, which whoever takes over ends: nothing of that was done.
        dying = old._writer
        dying.begin_transaction()
        dying.send(topic, key=owned_key(CLUSTER, SIDE), value=encode_owned(SIDE, OwnedRate(None, 99, (99,)))).get(
            timeout=10
        )
        read_on(ahead, 1.0)
        new.take_over()
        found, expected = Outbox(), Outbox()
        found.entries, expected.entries = list(owed), list(owed)
        assert known_of(lab, topic, found, ahead) == known_of(lab, topic, expected, None)
        assert found.entries == [owed[2]]
        assert SIDE not in found_memory(lab, topic).owned, "what was not committed was taken for done"
    finally:
        old.close()
        new.close()


def test_recreated_journal_is_read_from_its_beginning(lab: Lab, client: ClusterClient) -> None:
    topics = Topics.with_prefix("anew")
    ensure_topics(client, topics)
    first = journal(lab, topics.journal, "first")
    try:
        first.take_over()
        first.write(owned={SIDE: OwnedRate(None, 5, (5,))})
    finally:
        first.close()
    ahead = ahead_of(lab, client, topics.journal)
    read_on(ahead)
    with lab.admin() as admin:
        admin.delete_topics([topics.journal])
        until(lambda: not client.partitions([topics.journal]), 20, "it is gone")
    wait_for_metadata(lab)
    ensure_topics(client, topics)
    wait_for_metadata(lab)
    assert ahead.take_knowledge() is None


@pytest.mark.campaign
def test_standby_takes_over_a_full_journal(lab: Lab, tmp_path: Path) -> None:
    """The journal is as long as after months of moves, just before its compaction."""
    topics = Topics.with_prefix("rheostat")
    with ClusterClient(lab.kafka_settings(), "test") as made:
        ensure_topics(made, topics)
    filler = producer(lab.kafka_settings(), "test-filler", linger_ms=20)
    body = replace(ENTRY, text="x" * FILLED_BYTES)
    try:
        for ring in RINGS:
            for from_seq in range(0, RING, 10_000):
                records = [
                    (topics.journal, entry_key(ring, "lab", seq), encode_entry(replace(body, seq=seq)))
                    for seq in range(from_seq, from_seq + 10_000)
                ]
                send_and_wait(filler, records, 60.0)
    finally:
        filler.close(timeout=10)
    first, second = (config(lab, tmp_path / f"{name}.yaml") for name in ("a", "b"))
    with running(*RHEOSTAT, "tune", "--config", first[0], log=tmp_path / "a.log") as a:
        leader = Tuner(a, first[1])
        until(leader.acts, 90, "the first acts")
        with running(*RHEOSTAT, "tune", "--config", second[0], log=tmp_path / "b.log") as b:
            stand_by = Tuner(b, second[1])
            until(lambda: members(lab) >= 2, 60, "the second is a member")
            stays_s = (
                time.monotonic() + 5 * STAYS_S
            )  # A minute, as docs/how-to/run-two-tuners.md says of a journal that is full.
            until(lambda: time.monotonic() > stays_s, 6 * STAYS_S, "the journal is read ahead")
            leader.run.process.send_signal(signal.SIGKILL)
            until(stand_by.acts, TAKE_OVER_S_MAX, "the stand-by takes over")
            assert [line["ahead"] for line in stand_by.told("the journal is read")] == [True]
            assert stand_by.told("the journal is read")[0]["records"] < RING / 10
