"""A request to each broker is sent once more if the connection breaks, within its deadline.

tests/integration/test_hung_broker.py has the same with real brokers.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import kafka.errors
import pytest
from kafka.future import Future
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

from streaming.shared.kafka import cluster_connection
from streaming.shared.kafka.cluster import Unreachable
from streaming.shared.kafka.cluster_connection import ClusterConnection
from streaming.shared.kafka.settings import KafkaSettings

BROKEN = kafka.errors.KafkaConnectionError("socket disconnected")


class Manager:
    """kafka-python's manager with its event loop, and with brokers that answer each request from a list."""

    wait_for, call_soon, run = (
        KafkaConnectionManager.wait_for,
        KafkaConnectionManager.call_soon,
        KafkaConnectionManager.run,
    )

    def __init__(self, answers: dict[int, list[str | Exception]], delay_s: float = 0.0) -> None:
        self._net = NetworkSelector()
        self.answers = answers
        self.delay_s = delay_s
        self.metadata_updates = 0
        self.cluster = SimpleNamespace(request_update=self._update)

    def _update(self) -> None:
        self.metadata_updates += 1

    def send(self, _request: object, node_id: int) -> Future:
        answer = self.answers[node_id].pop(0)
        return Future().failure(answer) if isinstance(answer, Exception) else Future().success(answer)

    def connection_delay(self, _node_id: int) -> float:
        return self.delay_s


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[int, Any]]:
    def ask_all(manager: Manager, timeout_s: float = 5.0) -> dict[int, Any]:
        monkeypatch.setattr(cluster_connection, "connection_manager", lambda _: manager)
        monkeypatch.setattr(cluster_connection, "admin_client", lambda *_: object())
        monkeypatch.setattr(cluster_connection, "close_admin", lambda _: None)
        connection = ClusterConnection(KafkaSettings(bootstrap_servers="a:9092", request_timeout_s=timeout_s), "test")
        return connection.send_each("read", dict.fromkeys(manager.answers, object()))

    return ask_all


def test_broken_connection_is_followed_by_a_second_request(ask: Callable[..., dict[int, Any]]) -> None:
    manager = Manager({1: [BROKEN, "second"], 2: ["first"]}, delay_s=0.01)
    assert ask(manager) == {1: "second", 2: "first"}
    assert manager.metadata_updates == 0


@pytest.mark.parametrize(
    ("answers", "delay_s", "timeout_s", "left"),
    [
        ([BROKEN, BROKEN, "third"], 0.0, 5.0, ["third"]),
        ([BROKEN, "second"], 0.2, 5.0, ["second"]),  # The broker has failed before: it is down.
        ([BROKEN, "second"], 0.09, 0.05, ["second"]),  # A write must not come after its deadline.
        ([kafka.errors.KafkaTimeoutError("slow"), "second"], 0.0, 5.0, ["second"]),
    ],
)
def test_request_is_not_sent_again(
    answers: list[str | Exception],
    delay_s: float,
    timeout_s: float,
    left: list[str],
    ask: Callable[..., dict[int, Any]],
) -> None:
    name, manager = type(answers[0]).__name__, Manager({1: answers, 2: ["fine"]}, delay_s)
    replies = ask(manager, timeout_s)
    assert isinstance(replies[1], Unreachable)
    assert str(replies[1]) == f"broker 1, read: {name}"
    assert replies[2] == "fine"
    assert manager.answers[1] == left


def test_unknown_broker_makes_the_client_refresh_its_metadata(ask: Callable[..., dict[int, Any]]) -> None:
    class Forgetful(Manager):
        def send(self, _request: object, node_id: int) -> Future:
            if node_id == 9:
                raise kafka.errors.UnknownBrokerIdError(node_id)
            return super().send(_request, node_id)

    manager = Forgetful({9: [], 1: ["fine"]})
    replies = ask(manager)
    assert (str(replies[9]), replies[1]) == ("broker 9, read: UnknownBrokerIdError", "fine")
    assert manager.metadata_updates == 1
