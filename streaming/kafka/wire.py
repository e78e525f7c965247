"""How a request reaches a cluster and its answer comes back, or a failure that says which call and why.

Intuition: an operator's cluster is never whole. A broker is down, a call hangs, metadata are out of date. So calls that go to
several brokers go to all of them at once, each with its own deadline, and come back as one result a broker: the dead one
costs its own timeout and nobody else's.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import kafka.errors
from kafka.admin import KafkaAdminClient

from streaming.kafka.clients import admin_client
from streaming.kafka.settings import KafkaSettings
from streaming.kafka.values import ClusterError, MissingRight, Unreachable

T = TypeVar("T")


class Wire:
    """One connection to a cluster. Not thread-safe.

    After a failure the next call connects anew: kafka-python pins its "controller" to one broker for the life of a
    client, and would fail for ever once that broker is gone.
    """

    def __init__(self, settings: KafkaSettings, client_id: str) -> None:
        self._settings = settings
        self._client_id = client_id
        self._admin: KafkaAdminClient | None = None
        self.timeout_ms = int(settings.request_timeout_s * 1000)

    def close(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()

    def _connected(self) -> KafkaAdminClient:
        if self._admin is None:
            self._admin = admin_client(self._settings, self._client_id)
        return self._admin

    def call(self, what: str, call: Callable[[KafkaAdminClient], T]) -> T:
        try:
            return call(self._connected())
        except (kafka.errors.ClusterAuthorizationFailedError, kafka.errors.TopicAuthorizationFailedError) as error:
            raise MissingRight(str(error), f"to {what}") from error
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
            manager = admin._manager

            async def ask() -> dict[int, Any | ClusterError]:
                pending: dict[int, Awaitable[Any] | ClusterError] = {}
                for broker, request in requests.items():
                    try:
                        pending[broker] = manager.send(request, node_id=broker)
                    except kafka.errors.KafkaError as error:
                        # Not in the client's metadata: gone, or back since they were read. The next call will know.
                        manager.cluster.request_update()
                        pending[broker] = Unreachable(f"broker {broker}, {what}: {type(error).__name__}")
                answers: dict[int, Any | ClusterError] = {}
                for broker, future in pending.items():
                    if isinstance(future, ClusterError):
                        answers[broker] = future
                        continue
                    try:
                        answers[broker] = await manager.wait_for(future, self.timeout_ms)
                    except kafka.errors.KafkaError as error:
                        answers[broker] = Unreachable(f"broker {broker}, {what}: {type(error).__name__}")
                return answers

            answers: dict[int, Any | ClusterError] = manager.run(ask)
            return answers

        answers = self.call(what, ask_all)
        if all(isinstance(answer, Unreachable) for answer in answers.values()):
            self.close()  # Perhaps it is our metadata that is out of date.
        return answers

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
