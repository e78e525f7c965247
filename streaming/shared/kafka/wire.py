"""How a request reaches a cluster and its answer comes back, or a failure that says which call and why.

Intuition: an operator's cluster is never whole. A broker is down, a call hangs, metadata are out of date. So calls that go to
several brokers go to all of them at once, with one deadline for all, and come back as one result a broker. And whoever let that
pass once is not waited for like that again: as long as it owes an answer it is asked for no other, and then it has a second,
until it answers. So a broker that hangs costs one timeout once, and what is known of the others is not held up by it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import kafka.errors
from kafka.admin import KafkaAdminClient

from streaming.shared.kafka.clients import admin_client, close_admin
from streaming.shared.kafka.settings import KafkaSettings
from streaming.shared.kafka.values import ClusterError, MissingPermission, Unreachable

T = TypeVar("T")

IMPATIENT_MS = 1_000
_IN_VAIN = 0.9  # Of the time that it was waited for: the client gives a request up at about the same moment.


class Wire:
    """One connection to a cluster. Not thread-safe.

    After a failure the next call connects anew: kafka-python pins its "controller" to one broker for the life of a
    client, and would fail for ever once that broker is gone.
    """

    def __init__(self, settings: KafkaSettings, client_id: str) -> None:
        self._settings = settings
        self._client_id = client_id
        self._admin: KafkaAdminClient | None = None
        self._silent: set[int] = set()  # Brokers that did not answer in time when they were asked last.
        self._owed: dict[int, Any] = {}  # By broker: the answer that it was not waited for any longer.
        self.timeout_ms = int(settings.request_timeout_s * 1000)

    def close(self) -> None:
        admin, self._admin = self._admin, None
        self._owed.clear()
        if admin is not None:
            close_admin(admin)

    def _connected(self) -> KafkaAdminClient:
        if self._admin is None:
            self._admin = admin_client(self._settings, self._client_id)
        return self._admin

    def call(self, what: str, call: Callable[[KafkaAdminClient], T]) -> T:
        try:
            return call(self._connected())
        except (kafka.errors.ClusterAuthorizationFailedError, kafka.errors.TopicAuthorizationFailedError) as error:
            raise MissingPermission(str(error), f"to {what}") from error
        except (kafka.errors.KafkaError, OSError, RuntimeError) as error:
            self.close()
            raise Unreachable(
                f"cannot {what} at {self._settings.bootstrap_servers}: {type(error).__name__}: {error}"
            ) from error

    def one(self, what: str, request: Any) -> Any:
        """One request to whichever broker is free; brokers forward what only the controller knows."""

        def ask_any(admin: KafkaAdminClient) -> Any:
            manager = admin._manager

            async def ask() -> Any:
                # Two brokers within the time allowed: one that we cannot reach must not speak for the cluster.
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

    def each(self, what: str, requests: Mapping[int, Any]) -> dict[int, Any | ClusterError]:
        """One request a broker, all under way at once; a failure is that broker's value and nobody else's delay."""
        if not requests:
            return {}

        def ask_all(admin: KafkaAdminClient) -> dict[int, Any | ClusterError]:
            manager, failed_s = admin._manager, dict[int, float]()

            async def ask() -> dict[int, Any | ClusterError]:
                pending = {broker: self._sent(manager, what, broker, r, failed_s) for broker, r in requests.items()}
                began_s = time.monotonic()
                return {
                    broker: asked
                    if isinstance(asked, ClusterError)
                    else await self._received(manager, what, broker, asked, began_s, failed_s)
                    for broker, asked in pending.items()
                }

            answers: dict[int, Any | ClusterError] = manager.run(ask)
            return answers

        answers = self.call(what, ask_all)
        # Perhaps it is our metadata that is out of date; but not where all that is known is that they hang.
        if not self._silent.issuperset(answers) and all(isinstance(answer, Unreachable) for answer in answers.values()):
            self.close()
        return answers

    def _sent(
        self, manager: Any, what: str, broker: int, request: Any, failed_s: dict[int, float]
    ) -> Any | ClusterError:
        """What will be its answer; ``failed_s`` is told when it failed, if it does."""
        if self._owes(broker):
            return Unreachable(
                f"broker {broker}, {what}: not asked: it has let a question before time out (KafkaTimeoutError)"
            )
        try:
            asked = manager.send(request, node_id=broker)
        except kafka.errors.KafkaError as error:
            # Not in the client's metadata: gone, or back since they were read. The next call will know.
            manager.cluster.request_update()
            return Unreachable(f"broker {broker}, {what}: {type(error).__name__}")
        asked.add_errback(lambda _: failed_s.setdefault(broker, time.monotonic()))
        return asked

    async def _received(
        self, manager: Any, what: str, broker: int, asked: Any, began_s: float, failed_s: Mapping[int, float]
    ) -> Any | ClusterError:
        """Its answer, within what is left of the time since all were asked."""
        patience_ms = min(self.timeout_ms, IMPATIENT_MS) if broker in self._silent else self.timeout_ms
        left_ms = max(0.0, patience_ms - 1000 * (time.monotonic() - began_s))
        try:
            answer = await manager.wait_for(asked, left_ms)
        except kafka.errors.KafkaError as error:
            # Whatever failed sooner has made nobody wait.
            took_s = failed_s.get(broker, time.monotonic()) - began_s
            if 1000 * took_s >= _IN_VAIN * patience_ms:
                self._silent.add(broker)
                self._owed[broker] = asked
            return Unreachable(f"broker {broker}, {what}: {type(error).__name__}")
        self._silent.discard(broker)
        return answer

    def _owes(self, broker: int) -> bool:
        """An answer that is still to come, unless the connection breaks."""
        owed = self._owed.get(broker)
        if owed is None:
            return False
        if not owed.is_done:
            return True
        del self._owed[broker]
        if owed.succeeded():
            self._silent.discard(broker)  # Slow, but there.
        return False

    def alone(self, what: str, broker: int, request: Any) -> Any | ClusterError:
        """One request to one broker, whose failure is a value and says nothing of the client's other connections."""

        def ask(admin: KafkaAdminClient) -> Any | ClusterError:
            manager = admin._manager

            async def asked() -> Any | ClusterError:
                try:
                    return await manager.wait_for(manager.send(request, node_id=broker), self.timeout_ms)
                except kafka.errors.KafkaError as error:
                    # Not in the client's metadata: gone, or back since they were read. The next call will know.
                    manager.cluster.request_update()
                    return Unreachable(f"broker {broker}, {what}: {type(error).__name__}")

            return manager.run(asked)

        try:
            return self.call(what, ask)
        except ClusterError as error:
            return error
