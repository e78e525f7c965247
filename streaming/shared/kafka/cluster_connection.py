"""Sends requests to a cluster and returns answers, or errors that name the call and the reason.

Requests to several brokers run in parallel, with one deadline for all brokers and one result per broker. A broker that misses the
deadline gets no further request while its answer is outstanding. Afterwards its deadline is one second (``IMPATIENT_MS``), until
it answers in time. So a hanging broker costs the full time-out only once, and does not delay the answers of other brokers.

If the connection to a broker breaks, the request is sent once more. So ``send_each`` is only for requests that may be repeated.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import kafka.errors
from kafka.admin import KafkaAdminClient

from streaming.shared.kafka.client_internals import connection_manager, network_sleep
from streaming.shared.kafka.clients import admin_client, close_admin
from streaming.shared.kafka.settings import KafkaSettings
from streaming.shared.kafka.values import ClusterError, MissingPermission, Unreachable

T = TypeVar("T")

IMPATIENT_MS = 1_000  # Deadline for a broker that missed its last deadline.
# A failure after this share of the wait counts as a time-out, because the client gives up at about the same moment.
_TIMED_OUT_RATIO = 0.9
# kafka-python reconnects after about 50 ms if a connection breaks that has worked. Its pause for a broker that is down is longer.
_RECONNECT_S_MAX = 0.1


class ClusterConnection:
    """A connection to a cluster. Not thread-safe.

    After a failure the next call reconnects, because kafka-python pins its "controller" to one broker for the life of a client.
    """

    def __init__(self, settings: KafkaSettings, client_id: str) -> None:
        self._settings = settings
        self._client_id = client_id
        self._admin: KafkaAdminClient | None = None
        self._silent: set[int] = set()  # Brokers that missed the deadline of their last request.
        self._outstanding: dict[int, Any] = {}  # By broker: the future of an answer that missed its deadline.
        self.timeout_ms = int(settings.request_timeout_s * 1000)

    def close(self) -> None:
        admin, self._admin = self._admin, None
        self._outstanding.clear()
        if admin is not None:
            close_admin(admin)

    def _connected(self) -> KafkaAdminClient:
        if self._admin is None:
            self._admin = admin_client(self._settings, self._client_id)
        return self._admin

    def call(self, what: str, call: Callable[[KafkaAdminClient], T]) -> T:
        """Returns the result of ``call`` on a connected admin client. On failure the connection is closed.

        Args:
            what: the action, for messages: "cannot {what} at HOST".

        Raises:
            ClusterError: the call failed.
        """
        try:
            return call(self._connected())
        except (kafka.errors.ClusterAuthorizationFailedError, kafka.errors.TopicAuthorizationFailedError) as error:
            raise MissingPermission(str(error), f"to {what}") from error
        except (kafka.errors.KafkaError, OSError, RuntimeError) as error:
            self.close()
            raise Unreachable(
                f"cannot {what} at {self._settings.bootstrap_servers}: {type(error).__name__}: {error}"
            ) from error

    def send_any(self, what: str, request: Any) -> Any:
        """Sends a request to the least loaded broker, which forwards it to the controller if needed. Returns the answer."""

        def ask_any(admin: KafkaAdminClient) -> Any:
            manager = connection_manager(admin)

            async def ask() -> Any:
                # Each of two brokers gets half of the time, so that one unreachable broker does not fail the call.
                first = manager.least_loaded_node()
                try:
                    return await manager.wait_for(manager.send(request, node_id=first), self.timeout_ms / 2)
                except kafka.errors.KafkaError:
                    others = [b.node_id for b in manager.cluster.brokers() if b.node_id != first]
                    if not others:
                        raise
                    other = random.choice(others)
                    return await manager.wait_for(manager.send(request, node_id=other), self.timeout_ms / 2)

            return manager.run(ask)

        return self.call(what, ask_any)

    def send_each(self, what: str, requests: Mapping[int, Any]) -> dict[int, Any | ClusterError]:
        """Sends one request per broker in parallel. Returns each broker's answer or error; a failure delays no other broker."""
        if not requests:
            return {}

        def ask_all(admin: KafkaAdminClient) -> dict[int, Any | ClusterError]:
            manager = connection_manager(admin)
            failed_s: dict[int, float] = {}  # By broker: when its request failed.

            async def ask() -> dict[int, Any | ClusterError]:
                pending = {broker: self._send(manager, what, broker, r, failed_s) for broker, r in requests.items()}
                began_s = time.monotonic()
                answers: dict[int, Any | ClusterError] = {}
                for broker, future_or_error in pending.items():
                    if isinstance(future_or_error, ClusterError):
                        answers[broker] = future_or_error
                    else:
                        answers[broker] = await self._receive(manager, what, broker, future_or_error, began_s, failed_s)
                return answers

            all_answers: dict[int, Any | ClusterError] = manager.run(ask)
            return all_answers

        answers = self.call(what, ask_all)
        # If no broker is reachable, the metadata may be stale: reconnect. If all of them merely hang, a new connection does not
        # help.
        if not self._silent.issuperset(answers) and all(isinstance(answer, Unreachable) for answer in answers.values()):
            self.close()
        return answers

    def _send(
        self, manager: Any, what: str, broker: int, request: Any, failed_s: dict[int, float]
    ) -> Any | ClusterError:
        """Sends the request. Returns the future of its answer, or an error. The time of a failure is stored in ``failed_s``."""
        if self._has_outstanding_answer(broker):
            return Unreachable(
                f"broker {broker}, {what}: not asked: its answer to an earlier request is still outstanding (KafkaTimeoutError)"
            )
        future = manager.call_soon(_send_twice, manager, broker, request, time.monotonic() + self._patience_s(broker))
        future.add_errback(lambda _: failed_s.setdefault(broker, time.monotonic()))
        return future

    def _patience_s(self, broker: int) -> float:
        """Returns the deadline of a request to this broker, from its begin."""
        return min(self.timeout_ms, IMPATIENT_MS if broker in self._silent else self.timeout_ms) / 1000

    async def _receive(
        self, manager: Any, what: str, broker: int, future: Any, began_s: float, failed_s: Mapping[int, float]
    ) -> Any | ClusterError:
        """Returns the broker's answer or error. The deadline counts from ``began_s``, when all requests had been sent."""
        patience_s = self._patience_s(broker)
        left_s = max(0.0, patience_s - (time.monotonic() - began_s))
        try:
            answer = await manager.wait_for(future, 1000 * left_s)
        except kafka.errors.KafkaError as error:
            # A failure before the deadline (a refused connection) costs little time, so the broker keeps its normal deadline.
            took_s = failed_s.get(broker, time.monotonic()) - began_s
            if took_s >= _TIMED_OUT_RATIO * patience_s:
                self._silent.add(broker)
                self._outstanding[broker] = future
            else:
                # The broker may be missing in the client's metadata. Refresh it for the next call.
                manager.cluster.request_update()
            return Unreachable(f"broker {broker}, {what}: {type(error).__name__}")
        self._silent.discard(broker)
        return answer

    def _has_outstanding_answer(self, broker: int) -> bool:
        """Returns whether an answer of this broker is still outstanding."""
        future = self._outstanding.get(broker)
        if future is None:
            return False
        if not future.is_done:
            return True
        del self._outstanding[broker]
        if future.succeeded():
            self._silent.discard(broker)  # Slow but alive.
        return False

    def send_isolated(self, what: str, broker: int, request: Any) -> Any | ClusterError:
        """Sends a request to one broker. Returns the answer or the error; a failure leaves other brokers' connections open."""

        def ask(admin: KafkaAdminClient) -> Any | ClusterError:
            manager = connection_manager(admin)

            async def send_and_wait() -> Any | ClusterError:
                try:
                    return await manager.wait_for(manager.send(request, node_id=broker), self.timeout_ms)
                except kafka.errors.KafkaError as error:
                    # The broker may be missing in the client's metadata. Refresh it for the next call.
                    manager.cluster.request_update()
                    return Unreachable(f"broker {broker}, {what}: {type(error).__name__}")

            return manager.run(send_and_wait)

        try:
            return self.call(what, ask)
        except ClusterError as error:
            return error


async def _send_twice(manager: Any, broker: int, request: Any, until_s: float) -> Any:
    """Returns the broker's answer. If the connection breaks, the request is sent once more, but not after ``until_s``.

    A broker or a load balancer may close a connection at any time, for example if it has been idle.
    """
    try:
        return await manager.send(request, node_id=broker)
    except kafka.errors.KafkaConnectionError:
        delay_s = manager.connection_delay(broker)
        if delay_s > _RECONNECT_S_MAX or time.monotonic() + delay_s >= until_s:
            raise
        await network_sleep(manager, delay_s)
        return await manager.send(request, node_id=broker)
