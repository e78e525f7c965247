"""An aborting transaction is awaited and is not the end of the journal; one of unknown outcome is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import kafka.errors
import pytest

from streaming.shared.kafka.clients import close_producer
from tuner.journal import transactions
from tuner.journal.topic_reader import SILENCE_S_MAX
from tuner.journal.transactions import NotWritten, ProducerUnusable, StillUnderWay, Transactions, call_with_timeout

RECORDS = [("journal", b"key", b"value"), ("inputs", b"key", None)]


def test_read_journal_waits_for_open_transaction_of_killed_tuner() -> None:
    """And no transaction of a tuner that lives reaches the time-out."""
    cleanup_interval_s = 10.0  # Kafka's transaction.abort.timed.out.transaction.cleanup.interval.ms.
    given = transactions.transactional_settings("tuner")
    assert given["transactional_id"] == "tuner"
    assert given["transaction_timeout_ms"] / 1000 > transactions.ACK_S_MAX + transactions.COMMIT_S_MAX
    assert given["transaction_timeout_ms"] / 1000 + cleanup_interval_s < SILENCE_S_MAX


class Sent:
    def __init__(self, taken: bool, offset: int) -> None:
        self._taken = taken
        self.offset = offset

    def get(self, timeout: float) -> Sent:
        if not self._taken or timeout <= 0:
            raise kafka.errors.KafkaTimeoutError(f"not within {timeout} s")
        return self


class Producer:
    """``leader``: whether a partition leader accepts records. ``aborts`` and ``commits``: what these calls do; they may hang."""

    def __init__(self) -> None:
        self.leader = True
        self.ends = {"journal": 7, "inputs": 3}
        self.told: list[Any] = []
        self.aborts: Callable[[], Any] = lambda: None
        self.commits: Callable[[], Any] = lambda: None

    def begin_transaction(self) -> None:
        self.told.append("begin")

    def send(self, topic: str, key: bytes, value: bytes | None) -> Sent:  # noqa: ARG002 - the producer's shape
        self.told.append(topic)
        self.ends[topic] += 1
        return Sent(self.leader, self.ends[topic])

    def commit_transaction(self) -> None:
        self.told.append("commit")
        self.commits()

    def abort_transaction(self) -> None:
        self.told.append("abort")
        self.aborts()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"ACK_S_MAX": 0.1, "COMMIT_S_MAX": 0.1, "GIVE_UP_S": 0.4, "_ABORT_WAIT_S": 0.02}.items():
        monkeypatch.setattr(transactions, name, value)


def test_transactions_write_is_one_transaction() -> None:
    producer = Producer()
    Transactions(producer).write(RECORDS)
    assert producer.told == ["begin", "journal", "inputs", "commit"]


@pytest.mark.parametrize("error", [TypeError("no JSON has this"), RecursionError("too deep"), OSError("no such file")])
def test_transactions_failed_encoding_writes_nothing(error: Exception) -> None:
    """It is told as what it is, also where it looks like trouble with brokers."""

    def made() -> Iterator[tuple[str, bytes, bytes | None]]:
        yield RECORDS[0]
        raise error

    producer = Producer()
    journal = Transactions(producer)
    with pytest.raises(type(error), match=str(error)):
        journal.write(made())
    journal.write(RECORDS)
    assert producer.told == ["begin", "journal", "abort", "begin", "journal", "inputs", "commit"]


def test_transactions_encoding_time_is_not_in_the_deadline() -> None:
    def made() -> Iterator[tuple[str, bytes, bytes | None]]:
        yield RECORDS[0]
        time.sleep(1.5 * transactions.ACK_S_MAX)  # Stands for the making: longer than brokers may take.
        yield RECORDS[1]

    producer = Producer()
    Transactions(producer).write(made())
    assert producer.told[-1] == "commit"


def test_transactions_abort_in_progress_sends_nothing() -> None:
    """As where the broker that leads the journal has died: until another leads, nothing ends."""
    producer, elected = Producer(), threading.Event()
    producer.leader, producer.aborts = False, elected.wait
    journal = Transactions(producer)
    with pytest.raises(NotWritten, match="KafkaTimeoutError"):
        journal.write(RECORDS)
    told = list(producer.told)
    assert told[-1] == "abort"
    with pytest.raises(NotWritten, match="has not ended yet") as again:
        journal.write(RECORDS)
    assert not isinstance(again.value, ProducerUnusable)
    assert producer.told == told, "sent into a transaction that is being aborted"

    producer.leader = True
    elected.set()
    journal.write(RECORDS)
    assert producer.told == [*told, "begin", "journal", "inputs", "commit"]


def test_transactions_endless_abort_ends_the_producer() -> None:
    producer = Producer()
    producer.leader, producer.aborts = False, threading.Event().wait
    journal = Transactions(producer)
    with pytest.raises(NotWritten):
        journal.write(RECORDS)
    time.sleep(transactions.GIVE_UP_S)
    with pytest.raises(ProducerUnusable):
        journal.write(RECORDS)


def test_transactions_give_up_after_long_failure() -> None:
    """As where the topic is gone: each try fails by itself, and each abort ends."""
    now_s = 0.0
    producer = Producer()
    journal = Transactions(producer, monotonic=lambda: now_s)
    for at_s, leader, ends_its_use in (
        (0.0, False, False),
        (0.3, True, False),
        (0.5, False, False),
        (1.0, False, True),
    ):
        now_s, producer.leader = at_s, leader
        if leader:
            journal.write(RECORDS)
            continue
        with pytest.raises(NotWritten) as told:
            journal.write(RECORDS)
        assert isinstance(told.value, ProducerUnusable) is ends_its_use, at_s


def test_transactions_recreated_topic_must_be_read_again() -> None:
    """What is remembered as being on record is not, and a record of what has changed since would be half of it."""
    producer = Producer()
    journal = Transactions(producer)
    journal.write(RECORDS)
    journal.write(RECORDS)
    producer.ends["journal"] = 0
    with pytest.raises(ProducerUnusable, match=r"^journal has lost earlier records"):
        journal.write(RECORDS)
    assert producer.told[-1] == "abort"


def refused() -> None:
    raise kafka.errors.ProducerFencedError("another has it")


def test_transactions_fenced_producer_cannot_write() -> None:
    producer = Producer()
    producer.commits = producer.aborts = refused
    with pytest.raises(ProducerUnusable, match="ProducerFencedError"):
        Transactions(producer).write(RECORDS)


def test_transactions_fenced_during_abort_cannot_write() -> None:
    producer, answered = Producer(), threading.Event()
    producer.leader = False

    def refused_later() -> None:
        answered.wait()
        refused()

    producer.aborts = refused_later
    journal = Transactions(producer)
    with pytest.raises(NotWritten):
        journal.write(RECORDS)
    answered.set()
    with pytest.raises(ProducerUnusable, match="ProducerFencedError"):
        write_once_the_abort_has_ended(journal)


def write_once_the_abort_has_ended(journal: Transactions) -> None:
    """Writes again while the abort, in its own thread, has not ended; for 30 s at most."""
    until_s = time.monotonic() + 30.0
    while True:
        try:
            journal.write(RECORDS)
        except NotWritten as error:
            if isinstance(error, ProducerUnusable) or time.monotonic() > until_s:
                raise
            threading.Event().wait(0.01)
        else:
            return


def test_transactions_endless_commit_has_unknown_outcome() -> None:
    """kafka-python aborts no transaction that it is committing."""
    producer, over = Producer(), threading.Event()

    def no_abort() -> None:
        raise kafka.errors.IllegalStateError("Invalid transition")

    producer.commits, producer.aborts = over.wait, no_abort
    with pytest.raises(ProducerUnusable, match="no answer within"):
        Transactions(producer).write(RECORDS)
    over.set()


def test_transactions_records_share_one_deadline() -> None:
    class Slow:
        offset = 0

        def get(self, timeout: float) -> Slow:
            time.sleep(min(timeout, 0.07))
            if timeout < 0.07:
                raise kafka.errors.KafkaTimeoutError("too late")
            return self

    producer = Producer()
    producer.send = lambda *_, **__: Slow()  # type: ignore[assignment, method-assign, return-value]
    began_s = time.monotonic()
    with pytest.raises(NotWritten):
        Transactions(producer).write(RECORDS * 20)
    assert time.monotonic() - began_s < 2.0


def test_transactions_hanging_call_is_bounded() -> None:
    with pytest.raises(StillUnderWay):
        call_with_timeout(threading.Event().wait, 0.05)
    with pytest.raises(kafka.errors.ProducerFencedError):
        call_with_timeout(refused, 5.0)


def test_transactions_unclosable_producer_leaves_no_thread() -> None:
    class Sender(threading.Thread):
        def __init__(self) -> None:
            super().__init__(daemon=True)
            self.forced = threading.Event()

        def run(self) -> None:
            self.forced.wait()

        def force_close(self) -> None:
            self.forced.set()

    class Stuck:
        def __init__(self) -> None:
            self._sender = Sender()
            self._sender.start()

        def close(self, timeout: float) -> None:
            raise kafka.errors.KafkaTimeoutError(f"records wait for longer than {timeout} s")

    stuck = Stuck()
    close_producer(stuck, 1.0)
    assert not stuck._sender.is_alive()
