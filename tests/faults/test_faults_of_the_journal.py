"""The leader of the journal's partition dies, or its transaction coordinator: the tuner waits no longer than Kafka needs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from lab_parts import until

from rheostat.lab.cluster import Lab, LabSpec
from streaming.shared.contract import Topics
from streaming.shared.kafka import producer
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.topics import ensure_topics
from tuner.journal.kafka_journal import JournalError, JournalLost, KafkaJournal
from tuner.journal.transactions import ACK_S_MAX

Tell = Callable[[str, object], None]

LAB = LabSpec(brokers=3, heap_mb=320)
TOPICS = Topics.with_prefix("rheostat-of-journal")
# Kafka's controller misses a broker for 9 s before another leads; on a busy machine everything takes longer.
SILENT_S_MAX = 120.0
# A write that is under way may end by its time-out; the next one goes through.
LATE_S_MAX = ACK_S_MAX

pytestmark = [pytest.mark.campaign]


@contextmanager
def opened(lab: Lab, name: str) -> Iterator[KafkaJournal]:
    made = producer(lab.kafka_settings(), "test-journal", linger_ms=0, transactional_id=name, retry_backoff_ms=20)
    journal = KafkaJournal(made, TOPICS.journal, "lab", holder="test", fenced=True)
    try:
        journal.take_over(30.0)
        yield journal
    finally:
        journal.close()


def coordinator(journal: KafkaJournal) -> int:
    """Returns the transaction coordinator from kafka-python's internals."""
    found = journal._writer._transaction_manager._transaction_coordinator
    return int(str(found).removeprefix("coordinator-"))


class Election:
    """Records when another broker than ``dead`` leads the journal, as the living brokers report."""

    def __init__(self, lab: Lab, dead: int) -> None:
        self.at_s: float | None = None
        self._lab, self._dead = lab, dead
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        with ClusterClient(self._lab.kafka_settings(), "test-election") as client:
            while self.at_s is None and not self._over.wait(0.1):
                try:
                    if leader(client) not in (self._dead, None, -1):
                        self.at_s = time.monotonic()
                except ClusterError:
                    pass

    def end(self) -> None:
        self._over.set()
        self._thread.join(30)


def leader(client: ClusterClient) -> int | None:
    """Returns the journal's leader; None also while a broker does not know the new topic yet."""
    return next((state.leader for state in client.partitions([TOPICS.journal])), None)


def all_in_sync(client: ClusterClient, brokers: int) -> bool:
    return [len(state.isr) for state in client.partitions([TOPICS.journal])] == [brokers]


@pytest.mark.parametrize("both", [False, True], ids=["leader", "leader-and-coordinator"])
def test_journal_is_written_soon_after_its_leader_dies(lab: Lab, both: bool, record_property: Tell) -> None:
    with ClusterClient(lab.kafka_settings(), "test") as client, ExitStack() as stack:
        ensure_topics(client, TOPICS)
        until(lambda: all_in_sync(client, len(lab.brokers)), 60, "all brokers are in sync")
        dead = until(lambda: leader(client), 20, "its leader is known")
        assert dead is not None
        ids = (stack.enter_context(opened(lab, f"journal-{number}")) for number in range(20))
        journal = next(one for one in ids if (coordinator(one) == dead) is both)
        election = Election(lab, dead)
        lab.nodes[dead].kill()
        try:
            killed_s, failed = time.monotonic(), 0
            while not ownership_proved(journal):
                failed += 1
                assert time.monotonic() - killed_s < SILENT_S_MAX, "never written again"
            silent_s = time.monotonic() - killed_s
        finally:
            election.end()
            lab.start_again(dead)
    assert election.at_s is not None
    late_s = killed_s + silent_s - election.at_s
    assert late_s < LATE_S_MAX, f"another broker led, and it was not written for {late_s:.1f} s more"
    record_property(
        "told",
        f"written again {silent_s:.1f} s after the kill, {late_s:.1f} s after another led; {failed} writes failed",
    )


def ownership_proved(journal: KafkaJournal) -> bool:
    try:
        journal.prove_ownership()
    except JournalLost as error:
        pytest.fail(f"given up, so that lease and journal have to be had again: {error}")
    except JournalError:
        return False
    return True
