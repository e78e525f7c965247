"""Creates Kafka clients from the settings. Each client has its own client-id, so that quotas and broker logs distinguish them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import kafka.errors
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient
from kafka.net.compat import KafkaNetClient

from streaming.shared.deferred_interrupts import DeferredInterrupts
from streaming.shared.kafka import client_internals
from streaming.shared.kafka.mechanisms import register_mechanisms
from streaming.shared.kafka.secrets import LoginError
from streaming.shared.kafka.settings import KafkaSettings
from streaming.shared.kafka.unpacking import OnUnreadableBatch, limit_unpacking, log_unreadable_batch

RECORD_BYTES_MAX = 16 * 1024 * 1024  # For rheostat's topics; Kafka's default of 1 MiB is too small for large clusters.
# An automatically created topic gets the broker's defaults, for example a journal that is deleted after a week.
_NO_AUTO_CREATE = {"allow_auto_create_topics": False}
# Pause before the transaction coordinator is looked up again. For some seconds the lookup can still return the dead broker.
_NOT_READY_S = 0.1
_FETCH_MAX_WAIT_MS = 500  # As kafka-python's default.
# ``fetch_max_wait_ms`` of a consumer that reads a topic once, to its end. A fetch from an empty topic, or from behind the last
# record of a transaction, waits for this time, because more records may arrive.
READ_ONCE_WAIT_MS = 20

register_mechanisms()


class _Refusals(logging.Handler):
    """Keeps kafka-python's log message about a refused login, because its exception says only that it could not connect."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last: kafka.errors.SaslAuthenticationFailedError | None = None

    def emit(self, record: logging.LogRecord) -> None:
        arguments = record.args if isinstance(record.args, tuple) else ()
        message = record.getMessage()
        if login_error := next((a for a in arguments if isinstance(a, LoginError)), None):
            self.last = login_error
        elif "AuthenticationFailed" in message:
            self.last = kafka.errors.SaslAuthenticationFailedError(message)


def admin_client(settings: KafkaSettings, client_id: str) -> KafkaAdminClient:
    """Returns a connected admin client.

    Raises:
        kafka.errors.KafkaTimeoutError: no broker answered within ``request_timeout_s``.
        kafka.errors.SaslAuthenticationFailedError: the brokers refused the login.
    """
    with _refusals() as refusals:
        try:
            with _closed_on_failure(starts_thread=True) as create_net_client:
                return KafkaAdminClient(
                    client_id=client_id, kafka_client=create_net_client, **settings.kafka_python_arguments()
                )
        except kafka.errors.KafkaTimeoutError as error:
            if refusals.last is not None:
                raise refusals.last from error
            raise


@contextmanager
def _closed_on_failure(*, starts_thread: bool) -> Iterator[Callable[..., KafkaNetClient]]:
    """Yields the function with which a Kafka client creates its network client.

    If the Kafka client cannot be created, its network client already has a thread and open files that the caller cannot close. So
    this function closes the network client.

    Args:
        starts_thread: whether the function also starts the thread of the network client. The Kafka client itself would start the
            thread without waiting until its loop runs, and a thread that is told to stop before that never stops.
    """
    net_clients: list[KafkaNetClient] = []

    def create_net_client(**config: Any) -> KafkaNetClient:
        with DeferredInterrupts(first_only=True):
            net_clients.append(KafkaNetClient(**config))
            if starts_thread:
                client_internals.start_network_thread(net_clients[-1])
        return net_clients[-1]

    try:
        yield create_net_client
    except BaseException as error:
        for client in net_clients:
            _abandon(client, error)
        raise


def _abandon(client: KafkaNetClient, cause: BaseException) -> None:
    """Closes a client that failed to connect. A second failure becomes a note on ``cause``, so that a Ctrl-C is not lost."""
    try:
        with DeferredInterrupts(first_only=True):
            try:
                client.close()
            finally:
                client_internals.stop_network_thread(client)
    except Exception as error:  # noqa: BLE001 - any failure is reported as a note
        cause.add_note(
            f"and the client, which was not yet connected, could not be closed: {type(error).__name__}: {error}"
        )


def close_admin(admin: KafkaAdminClient) -> None:
    """Closes the client with interrupts deferred: kafka-python runs its remaining tasks here and swallows their errors."""
    with DeferredInterrupts(first_only=True):
        admin.close()


_logger_lock = threading.Lock()
_connecting: list[_Refusals] = []  # One per thread that is connecting.
_saved_level_and_propagate = (logging.NOTSET, True)  # State of the logger before the first thread began to connect.


@contextmanager
def _refusals() -> Iterator[_Refusals]:
    """Redirects kafka-python's connection log to the yielded handler while a client connects.

    Several threads may connect at once.
    """
    global _saved_level_and_propagate
    refusals, logger = _Refusals(), logging.getLogger("kafka.net.manager")
    with _logger_lock:
        if not _connecting:
            _saved_level_and_propagate = (logger.level, logger.propagate)
            logger.setLevel(logging.WARNING)
            logger.propagate = False
        _connecting.append(refusals)
        logger.addHandler(refusals)
    try:
        yield refusals
    finally:
        with _logger_lock:
            logger.removeHandler(refusals)
            _connecting.remove(refusals)
            if not _connecting:
                level, logger.propagate = _saved_level_and_propagate
                logger.setLevel(level)


def producer(settings: KafkaSettings, client_id: str, **extra: Any) -> KafkaProducer:
    """Returns a producer that waits for all in-sync replicas, because rheostat keeps its state only in these records.

    Args:
        extra: further settings of ``KafkaProducer``; they have priority.
    """
    config = {
        "acks": "all",
        "compression_type": "gzip",
        "max_request_size": RECORD_BYTES_MAX,
        **settings.kafka_python_arguments(),
    }
    # Limits how long a send to a deleted topic blocks; kafka-python's default is a minute.
    config["max_block_ms"] = config["request_timeout_ms"]
    with _closed_on_failure(starts_thread=False) as create_net_client:
        new_producer = KafkaProducer(
            client_id=client_id, kafka_client=create_net_client, **_NO_AUTO_CREATE, **(config | extra)
        )
    if "transactional_id" in extra:
        _keep_requests(new_producer)
    return new_producer


def _keep_requests(transactional: KafkaProducer) -> None:
    """Makes the sender keep a request while the transaction coordinator refuses connections.

    kafka-python 3.0.12 drops the request when ``await_ready`` raises, and keeps it when ``await_ready`` returns False. A dropped
    write fails only after its whole time-out, and a dropped commit or abort never ends. So the error is turned into False.
    """
    client = client_internals.sender_client(transactional)
    original_await_ready = client.await_ready

    def await_ready(node_id: Any, timeout_ms: float = 30_000) -> bool:
        try:
            return bool(original_await_ready(node_id, timeout_ms=timeout_ms))
        except kafka.errors.KafkaConnectionError:
            time.sleep(_NOT_READY_S)
            return False

    client.await_ready = await_ready


def consumer(
    settings: KafkaSettings,
    client_id: str,
    *,
    on_unreadable_batch: OnUnreadableBatch = log_unreadable_batch,
    **extra: Any,
) -> KafkaConsumer:
    """Returns a consumer that does not commit offsets.

    Args:
        on_unreadable_batch: called for each compressed batch that is skipped because it is too large or cannot be unpacked.
        extra: further settings of ``KafkaConsumer``.
    """
    config = {
        "enable_auto_commit": False,
        "max_partition_fetch_bytes": RECORD_BYTES_MAX,
        **settings.kafka_python_arguments(),
    }
    # kafka-python refuses a longer wait than ``request_timeout_s``.
    config["fetch_max_wait_ms"] = min(_FETCH_MAX_WAIT_MS, config["request_timeout_ms"] // 2)
    with _closed_on_failure(starts_thread=True) as create_net_client:
        new_consumer = KafkaConsumer(
            client_id=client_id, kafka_client=create_net_client, **_NO_AUTO_CREATE, **(config | extra)
        )
    limit_unpacking(new_consumer, on_unreadable_batch)
    return new_consumer


def close_producer(producer: KafkaProducer, timeout_s: float) -> None:
    """Closes the producer within about 2 × ``timeout_s``; records that are not sent by then are dropped.

    If records wait for a dead broker, kafka-python's ``close`` raises and leaves a thread that keeps sending them.
    """
    try:
        producer.close(timeout=timeout_s)
    except kafka.errors.KafkaTimeoutError:
        client_internals.stop_sender(producer, timeout_s)
