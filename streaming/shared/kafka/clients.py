"""Clients made from the settings. Every one has a client-id of its own: quotas and broker logs can tell them apart."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import kafka.errors
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient
from kafka.net.compat import KafkaNetClient

from streaming.shared.deferred_interrupts import DeferredInterrupts
from streaming.shared.kafka.settings import KafkaSettings
from streaming.shared.kafka.unpacking import OnRefused, limit_unpacking, log_refused

RECORD_BYTES_MAX = 16 * 1024 * 1024  # Of our own topics; Kafka's default of 1 MiB is too small for large clusters.
# A broker that makes topics for whoever names them makes them with its defaults: a journal that forgets after a week.
_CREATES_NOTHING = {"allow_auto_create_topics": False}
# Until the coordinator is asked for again, which for some seconds is still the broker that has died.
_NOT_READY_S = 0.1


class _Refusals(logging.Handler):
    """Keeps what a client logs of a refused login: kafka-python tells its caller only that it could not connect."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        said = record.getMessage()
        if "AuthenticationFailed" in said:
            self.last = said


def admin_client(settings: KafkaSettings, client_id: str) -> KafkaAdminClient:
    """Connects at once.

    Raises:
        kafka.errors.KafkaTimeoutError: no broker answered within ``request_timeout_s``.
        kafka.errors.SaslAuthenticationFailedError: they answered, and refused our login.
    """
    made: list[KafkaNetClient] = []

    def kept(**config: Any) -> KafkaNetClient:
        with DeferredInterrupts(
            first_only=True
        ):  # A thread that is told to end before it has come to its loop never does.
            made.append(KafkaNetClient(**config))
            made[-1]._net.start()
            made[-1]._net.run(_nothing)
        return made[-1]

    with _refusals() as refusals:
        try:
            return KafkaAdminClient(client_id=client_id, kafka_client=kept, **settings.for_python())
        except BaseException as error:
            # It has a thread and files already, which nobody else can reach.
            for client in made:
                _abandon(client, error)
            if isinstance(error, kafka.errors.KafkaTimeoutError) and refusals.last is not None:
                raise kafka.errors.SaslAuthenticationFailedError(refusals.last) from error
            raise


async def _nothing() -> None:
    """What a loop does that only has to show that it runs."""


def _abandon(client: KafkaNetClient, why: BaseException) -> None:
    """Whatever comes of it, its caller hears ``why``: of a Ctrl-C made another error nobody would hear."""
    try:
        with DeferredInterrupts(first_only=True):
            try:
                client.close()
            finally:
                client._net.stop()
    except Exception as also:  # noqa: BLE001 - whatever it is, it is told
        why.add_note(f"and the client that was being made did not end: {type(also).__name__}: {also}")


def close_admin(made: KafkaAdminClient) -> None:
    """kafka-python does what is left of its tasks in our own thread then, and swallows all that is raised in them."""
    with DeferredInterrupts(first_only=True):
        made.close()


_quiet = threading.Lock()
_connecting: list[_Refusals] = []  # Of all threads, while they do.
_logger_before = (logging.NOTSET, True)


@contextmanager
def _refusals() -> Iterator[_Refusals]:
    """What kafka-python logs while somebody connects goes to whoever does, and nowhere else. Several may at a time."""
    global _logger_before
    refusals, logger = _Refusals(), logging.getLogger("kafka.net.manager")
    with _quiet:
        if not _connecting:
            _logger_before = (logger.level, logger.propagate)
            logger.setLevel(logging.WARNING)
            logger.propagate = False
        _connecting.append(refusals)
        logger.addHandler(refusals)
    try:
        yield refusals
    finally:
        with _quiet:
            logger.removeHandler(refusals)
            _connecting.remove(refusals)
            if not _connecting:
                logger.setLevel(_logger_before[0])
                logger.propagate = _logger_before[1]


def producer(settings: KafkaSettings, client_id: str, **extra: Any) -> KafkaProducer:
    """Waits for all in-sync replicas: what rheostat writes is its memory."""
    config = {"acks": "all", "compression_type": "gzip", "max_request_size": RECORD_BYTES_MAX, **settings.for_python()}
    # Of a topic that is not there any more; else a minute.
    config["max_block_ms"] = config["request_timeout_ms"]
    made = KafkaProducer(client_id=client_id, **_CREATES_NOTHING, **(config | extra))
    if "transactional_id" in extra:
        _keep_requests(made)
    return made


def _keep_requests(made: KafkaProducer) -> None:
    """Where the coordinator of transactions refuses the connection, kafka-python 3.0.12 forgets the request that it had for it:
    its sender keeps what is told to be not ready, and drops what meets an error. So a broker's death cost every write its whole
    time-out, and a commit or an abort never ended. Here the error becomes the answer that the sender expects."""
    client = made._sender._client
    really = client.await_ready

    def await_ready(node_id: Any, timeout_ms: float = 30_000) -> bool:
        try:
            return bool(really(node_id, timeout_ms=timeout_ms))
        except kafka.errors.KafkaConnectionError:
            time.sleep(_NOT_READY_S)
            return False

    client.await_ready = await_ready


def consumer(
    settings: KafkaSettings, client_id: str, *, on_refused: OnRefused = log_refused, **extra: Any
) -> KafkaConsumer:
    """
    Args:
        on_refused: hears of each compressed batch that is too large when unpacked, or cannot be unpacked, and is left out.
    """
    config = {"enable_auto_commit": False, "max_partition_fetch_bytes": RECORD_BYTES_MAX, **settings.for_python()}
    made = KafkaConsumer(client_id=client_id, **_CREATES_NOTHING, **config, **extra)
    limit_unpacking(made, on_refused)
    return made


def close_producer(made: KafkaProducer, timeout_s: float) -> None:
    """Closes it within about twice that time, whatever it still has to send.

    Where records wait for a broker that has died kafka-python's own ``close`` raises, and leaves a thread behind that goes on
    sending them.
    """
    try:
        made.close(timeout=timeout_s)
    except kafka.errors.KafkaTimeoutError:
        made._sender.force_close()
        made._sender.join(timeout_s)
