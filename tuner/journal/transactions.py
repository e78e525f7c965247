"""One producer with a ``transactional.id``, of which every wait has an end.

Intuition: kafka-python waits for the end of a transaction for ever, and that end can be long in coming. A broker that has died
leads its partitions until Kafka's controller has missed it for ``broker.session.timeout.ms``, 9 s unless set. So long the
markers of the transaction before cannot be written, nothing can be added to the next one (CONCURRENT_TRANSACTIONS), and that
one cannot be aborted either. Nothing is lost by it but time. So what could not be written is aborted beside, and the next
transaction begins when that has ended; to give the producer up instead takes a new one, the lease, and a reading of the whole
journal, all of which need the same brokers.

Invariant: nothing is sent before the transaction before has ended, one way or the other, and it is known which. Where that
cannot be known, the producer is of no use any more: who goes on has to read what is there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from typing import Any

import kafka.errors
from kafka import KafkaProducer

ACK_S_MAX = 6.0
# Longer than Kafka takes to give a dead coordinator's work to another: a commit of unknown outcome costs the producer.
COMMIT_S_MAX = 15.0
# The transaction.timeout.ms: longer than the records and the commit together, so that Kafka aborts only what a dead tuner left.
TRANSACTION_S_MAX = 30.0
# Longer than Kafka takes for a new leader: who can write nothing for so long has lost more than a broker; the topic, say.
GIVE_UP_S = 20.0
_ABORT_SEEN_S = 1.0  # With brokers that answer an abort takes some milliseconds.
TROUBLE = (kafka.errors.KafkaError, RuntimeError, OSError, TimeoutError)

Record = tuple[str, bytes, bytes | None]  # Topic, key, value.


def transactional(transactional_id: str) -> dict[str, Any]:
    """Returns the settings of the producer that writes the transactions of this ``transactional.id``."""
    return {
        "transactional_id": transactional_id,
        "transaction_timeout_ms": round(TRANSACTION_S_MAX * 1000),
        "retry_backoff_ms": 20,
    }


class NotWritten(Exception):
    """Nothing of it is there, nor will be."""


class OutOfUse(NotWritten):
    """Somebody else has taken over, or it is not known what is there: nothing more can be written."""


def acknowledged(producer: KafkaProducer, records: Iterable[Record], timeout_s: float) -> dict[str, int]:
    """Sends them as they are made, and waits for all of them together; returns the least offset that each topic gave, -1 where
    it did not tell (a record that it had already).

    Raises:
        KafkaError, TimeoutError: one was not taken in time.
    """
    offsets: dict[str, int] = {}
    sent = [(topic, producer.send(topic, key=key, value=value)) for topic, key, value in records]
    # To make thousands takes a while, and is not the brokers' time.
    deadline = time.monotonic() + timeout_s
    for topic, answer in sent:
        offset = answer.get(timeout=max(0.0, deadline - time.monotonic())).offset
        offsets[topic] = min(offset, offsets.get(topic, offset))
    return offsets


class Transactions:
    def __init__(self, producer: KafkaProducer, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._producer = producer
        self._monotonic = monotonic
        self._abort: _BackgroundCall | None = None  # Of the transaction before, while it is under way.
        self._failing_since_s: float | None = None
        self._offsets: dict[str, int] = {}  # By topic, of the newest transaction.

    def write(self, records: Iterable[Record]) -> None:
        """All of them, or none; what goes wrong where they are made is raised as it is, and none is there.

        Raises:
            NotWritten: none; it may be tried again.
            OutOfUse: none, and it may not.
        """
        try:
            self._write(records)
        except NotWritten as error:
            now_s = self._monotonic()
            if self._failing_since_s is None:
                self._failing_since_s = now_s
            if now_s - self._failing_since_s > GIVE_UP_S and not isinstance(error, OutOfUse):
                raise OutOfUse(str(error)) from error
            raise
        self._failing_since_s = None

    def _write(self, records: Iterable[Record]) -> None:
        self._see_the_abort(ACK_S_MAX)
        try:
            self._producer.begin_transaction()
            offsets = acknowledged(self._producer, _made(records), ACK_S_MAX)
            if anew := [topic for topic, offset in offsets.items() if 0 <= offset <= self._offsets.get(topic, -1)]:
                raise _BegunAnew(
                    f"{', '.join(anew)} has lost what was written before: made anew, or an unclean election"
                )
            bounded(self._producer.commit_transaction, COMMIT_S_MAX)
            self._offsets |= offsets
        except TROUBLE as error:
            # Of a commit that has not ended this tells the same: it cannot be aborted any more.
            self._abort = _BackgroundCall(self._producer.abort_transaction)
            self._see_the_abort(_ABORT_SEEN_S, error)
            if isinstance(error, _BegunAnew):
                raise OutOfUse(str(error)) from error
            raise NotWritten(f"{type(error).__name__}: {error}") from error
        except BaseException as error:
            self._abort = _BackgroundCall(self._producer.abort_transaction)
            if isinstance(error, _NotMade):
                raise error.why from error.why.__cause__
            raise

    def _see_the_abort(self, timeout_s: float, why: BaseException | None = None) -> None:
        """Returns when the transaction before has ended.

        Args:
            why: it is aborted.

        Raises:
            NotWritten: not yet.
            OutOfUse: how it ended is not known.
        """
        if self._abort is None:
            return
        try:
            self._abort.result(timeout_s)
        except StillUnderWay as error:
            said = f"{type(why).__name__}: {why}" if why is not None else "the transaction before has not ended yet"
            raise NotWritten(said) from error
        except TROUBLE as error:
            why = why or error
            raise OutOfUse(f"{type(why).__name__}: {why}") from error
        self._abort = None


class _NotMade(Exception):
    """Something went wrong where a record was made; whatever it is, the brokers have no part in it."""

    def __init__(self, why: Exception) -> None:
        super().__init__(str(why))
        self.why = why


def _made(records: Iterable[Record]) -> Iterator[Record]:
    left = iter(records)
    while True:
        try:
            record = next(left)
        except StopIteration:
            return
        except Exception as error:
            raise _NotMade(error) from error
        yield record


class _BegunAnew(RuntimeError):
    """Offsets only grow, unless a topic is another one of the same name."""


class StillUnderWay(TimeoutError):
    """The call has not returned yet."""


class _BackgroundCall:
    """A call that may hang, in a thread of its own, which ends with the process."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._done: Future[None] = Future()
        threading.Thread(target=self._run, args=(call,), name="journal-transaction", daemon=True).start()

    def _run(self, call: Callable[[], None]) -> None:
        try:
            call()
            self._done.set_result(None)
        except BaseException as error:  # noqa: BLE001 - raised again where the result is waited for
            self._done.set_exception(error)

    def result(self, timeout_s: float) -> None:
        """
        Raises:
            StillUnderWay: it has not returned in time; ask again.
        """
        if not wait([self._done], timeout_s).done:
            raise StillUnderWay(f"no end within {timeout_s:.0f} s")
        self._done.result()


def bounded(call: Callable[[], None], timeout_s: float) -> None:
    """Waits no longer than that for ``call``.

    Raises:
        StillUnderWay: and it goes on.
    """
    _BackgroundCall(call).result(timeout_s)
