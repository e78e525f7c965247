"""The sender of a transactional producer keeps its requests while the transaction coordinator is down."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import kafka.errors
import pytest
from kafka.producer.sender import Sender
from kafka.producer.transaction_manager import InitProducerIdHandler, TransactionManager

from streaming.shared.kafka import clients

DEAD, SUCCESSOR = "coordinator-2", "coordinator-3"


class Client:
    """A network client: the coordinator refuses connections until it is made ready."""

    def __init__(self) -> None:
        self.refuses = True
        self.sent: list[Any] = []

    def await_ready(self, node: str, timeout_ms: float = 0) -> bool:  # noqa: ARG002 - the client's shape
        if self.refuses:
            raise kafka.errors.KafkaConnectionError(f"Node {node} not ready")
        return True

    def send(self, node: str, request: Any) -> Any:
        self.sent.append((node, request))
        return SimpleNamespace(add_both=lambda *_: None)


class Rig:
    def __init__(self) -> None:
        self.client = Client()
        self.manager = TransactionManager("rheostat-tuner-lab", api_version=(4, 2))
        self.manager.initialize_transactions()
        self.manager._transaction_coordinator = DEAD
        self.sender = Sender.__new__(Sender)
        self.sender.__dict__.update(
            config={**Sender.DEFAULT_CONFIG, "retry_backoff_ms": 1}, _client=self.client, _running=True, _force_close=False,
            _transaction_manager=self.manager, _accumulator=SimpleNamespace(has_incomplete=False),
        )  # fmt: skip

    def kept(self) -> list[Any]:
        return [handler for *_, handler in self.manager._pending_requests]


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    monkeypatch.setattr(clients, "_NOT_READY_S", 0.01)
    return Rig()


def test_sender_keeps_request_while_coordinator_is_unreachable(rig: Rig) -> None:
    clients._keep_requests(SimpleNamespace(_sender=rig.sender))
    rig.sender._maybe_send_pending_request()
    assert rig.client.sent == []
    assert [handler for handler in rig.kept() if isinstance(handler, InitProducerIdHandler)], rig.kept()

    rig.client.refuses, rig.manager._transaction_coordinator = False, SUCCESSOR
    rig.manager._pending_requests = [(0, 0, h) for h in rig.kept() if isinstance(h, InitProducerIdHandler)]
    rig.sender._maybe_send_pending_request()
    [(node, request)] = rig.client.sent
    assert node == SUCCESSOR
    assert request.transactional_id == "rheostat-tuner-lab"


def test_sender_of_kafka_python_drops_request(rig: Rig) -> None:
    """If this test fails, kafka-python keeps the request, and ``_keep_requests`` can be removed."""
    rig.sender._maybe_send_pending_request()
    assert not [handler for handler in rig.kept() if isinstance(handler, InitProducerIdHandler)]


def test_sender_waits_between_attempts_at_unreachable_coordinator(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "_NOT_READY_S", 0.1)
    clients._keep_requests(SimpleNamespace(_sender=rig.sender))
    began_s = time.monotonic()
    assert rig.client.await_ready(DEAD) is False
    assert time.monotonic() - began_s >= 0.1
