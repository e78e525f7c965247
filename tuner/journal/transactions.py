"""Writes transactions with one ``transactional.id``, where every wait is bounded.

kafka-python waits without limit for the end of a transaction, which can take long. A dead broker leads its partitions until
the controller has missed its heartbeats for ``broker.session.timeout.ms`` (9 s by default). Until then the markers of the previous
transaction cannot be written: the next transaction cannot add records (CONCURRENT_TRANSACTIONS), and cannot be aborted either.
Nothing is lost except time. So a failed transaction is aborted in a thread of its own, and the next transaction begins when the
abort has ended. A new producer would be slower: it needs the lease and the whole journal again, from the same brokers.

Invariant: a transaction begins only after its predecessor has ended with a known outcome. If the outcome cannot be known, the
producer is unusable, and the tuner has to read the journal again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from typing import Any

from kafka import KafkaProducer

from tuner.journal.topic_tail import KAFKA_ERRORS

ACK_S_MAX = 6.0
# Longer than Kafka needs to replace a dead transaction coordinator. A commit without a known outcome makes the producer unusable.
COMMIT_S_MAX = 15.0
# Kafka's transaction.timeout.ms: longer than ACK_S_MAX and COMMIT_S_MAX together, so that Kafka aborts only transactions that a
# dead tuner has left.
TRANSACTION_S_MAX = 30.0
# This time is longer than a leader election. If writes fail for a longer time, the cause is not just a dead broker but, for
# example, a deleted topic.
GIVE_UP_S = 20.0
_ABORT_WAIT_S = 1.0  # An abort takes some milliseconds if the brokers answer.

Record = tuple[str, bytes, bytes | None]  # Topic, key, value.


def transactional_settings(transactional_id: str) -> dict[str, Any]:
    """Returns the producer settings for transactions of this ``transactional.id``."""
    return {
        "transactional_id": transactional_id,
        "transaction_timeout_ms": round(TRANSACTION_S_MAX * 1000),
        "retry_backoff_ms": 20,
    }


class NotWritten(Exception):
    """The transaction was not committed, and will not be."""


class ProducerUnusable(NotWritten):
    """Another producer has taken over the id, or the outcome of a transaction is unknown. This producer cannot write any more."""


def send_and_wait(producer: KafkaProducer, records: Iterable[Record], timeout_s: float) -> dict[str, int]:
    """Sends records as they are made, and waits for all acknowledgements.

    Returns the smallest offset per topic; -1 if the broker's answer has no offset, as for a duplicate record.

    Raises:
        KafkaError, TimeoutError: a record was not acknowledged in time.
    """
    offsets: dict[str, int] = {}
    sent = [(topic, producer.send(topic, key=key, value=value)) for topic, key, value in records]
    # Making thousands of records takes a while. The time limit of the brokers begins only now.
    deadline = time.monotonic() + timeout_s
    for topic, answer in sent:
        offset = answer.get(timeout=max(0.0, deadline - time.monotonic())).offset
        offsets[topic] = min(offset, offsets.get(topic, offset))
    return offsets


class Transactions:
    """The transactions of one producer, one after the other."""

    def __init__(self, producer: KafkaProducer, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._producer = producer
        self._monotonic = monotonic
        self._abort: _BackgroundCall | None = None  # The abort of the previous transaction, until it ends.
        self._failing_since_s: float | None = None
        self._offsets: dict[str, int] = {}  # By topic: the smallest offset of the last committed transaction.

    def write(self, records: Iterable[Record]) -> None:
        """Writes all records in one transaction. An exception of the iterable aborts the transaction, and is raised unchanged.

        Raises:
            NotWritten: no record was committed; the caller may try again.
            ProducerUnusable: no record was committed, and this producer cannot write any more.
        """
        try:
            self._write(records)
        except NotWritten as error:
            now_s = self._monotonic()
            if self._failing_since_s is None:
                self._failing_since_s = now_s
            if now_s - self._failing_since_s > GIVE_UP_S and not isinstance(error, ProducerUnusable):
                raise ProducerUnusable(str(error)) from error
            raise
        self._failing_since_s = None

    def _write(self, records: Iterable[Record]) -> None:
        self._wait_for_abort(ACK_S_MAX)
        try:
            self._producer.begin_transaction()
            offsets = send_and_wait(self._producer, _make_records(records), ACK_S_MAX)
            if reset := [topic for topic, offset in offsets.items() if 0 <= offset <= self._offsets.get(topic, -1)]:
                raise _OffsetsReset(
                    f"{', '.join(reset)} has lost earlier records: the topic was recreated, or had an unclean leader election"
                )
            call_with_timeout(self._producer.commit_transaction, COMMIT_S_MAX)
            self._offsets |= offsets
        except KAFKA_ERRORS as error:
            # If the commit has not ended in time, the abort fails, and the outcome counts as unknown.
            self._abort = _BackgroundCall(self._producer.abort_transaction)
            self._wait_for_abort(_ABORT_WAIT_S, error)
            if isinstance(error, _OffsetsReset):
                raise ProducerUnusable(str(error)) from error
            raise NotWritten(f"{type(error).__name__}: {error}") from error
        except BaseException as error:
            self._abort = _BackgroundCall(self._producer.abort_transaction)
            if isinstance(error, _RecordNotMade):
                raise error.why from error.why.__cause__
            raise

    def _wait_for_abort(self, timeout_s: float, why: BaseException | None = None) -> None:
        """Returns when the previous transaction has ended.

        Args:
            why: the error that caused the abort, for the message.

        Raises:
            NotWritten: the transaction has not ended in time.
            ProducerUnusable: the outcome of the transaction is unknown.
        """
        if self._abort is None:
            return
        try:
            self._abort.result(timeout_s)
        except StillUnderWay as error:
            reason = f"{type(why).__name__}: {why}" if why is not None else "the previous transaction has not ended yet"
            raise NotWritten(reason) from error
        except KAFKA_ERRORS as error:
            why = why or error
            raise ProducerUnusable(f"{type(why).__name__}: {why}") from error
        self._abort = None


class _RecordNotMade(Exception):
    """Making a record failed, before it was sent to a broker."""

    def __init__(self, why: Exception) -> None:
        super().__init__(str(why))
        self.why = why


def _make_records(records: Iterable[Record]) -> Iterator[Record]:
    iterator = iter(records)
    while True:
        try:
            record = next(iterator)
        except StopIteration:
            return
        except Exception as error:
            raise _RecordNotMade(error) from error
        yield record


class _OffsetsReset(RuntimeError):
    """A topic gave a smaller offset than before. Offsets only grow, unless the topic has lost records or was recreated."""


class StillUnderWay(TimeoutError):
    """A background call has not returned yet."""


class _BackgroundCall:
    """A call that may hang, in a daemon thread."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._done: Future[None] = Future()
        threading.Thread(target=self._run, args=(call,), name="journal-transaction", daemon=True).start()

    def _run(self, call: Callable[[], None]) -> None:
        try:
            call()
            self._done.set_result(None)
        except BaseException as error:  # noqa: BLE001 - result() raises it again
            self._done.set_exception(error)

    def result(self, timeout_s: float) -> None:
        """Waits for the call and raises its exception, if any.

        Raises:
            StillUnderWay: the call has not returned in time. The caller may wait again.
        """
        if not wait([self._done], timeout_s).done:
            raise StillUnderWay(f"no answer within {timeout_s:.0f} s")
        self._done.result()


def call_with_timeout(call: Callable[[], None], timeout_s: float) -> None:
    """Runs ``call`` in the background and waits for it.

    Raises:
        StillUnderWay: the call has not returned in time, and continues.
    """
    _BackgroundCall(call).result(timeout_s)
