"""The connection to a metrics cluster that is away when the tuner starts."""

from __future__ import annotations

import threading
from typing import Any

import kafka.errors
from structlog.testing import capture_logs

from streaming.shared.kafka.settings import PemError
from tuner.runtime.observe.signals_connection import SignalsConnection
from tuner.runtime.observe.signals_reader import SignalReader

WAIT_S_MAX = 10.0
AWAY = kafka.errors.KafkaTimeoutError("no broker answers")


class Consumer:
    is_closed = False

    def close(self, timeout_ms: int) -> None:  # noqa: ARG002 - the consumer's shape
        self.is_closed = True

    def partitions_for_topic(self, topic: str) -> set[int]:  # noqa: ARG002 - the consumer's shape
        raise kafka.errors.KafkaConnectionError("away again")


def test_reader_without_a_connection_has_no_signals_and_no_error() -> None:
    reader = SignalReader(None, "signals", "east")
    assert reader.poll() == 0
    reader.rewind()
    reader.attach(Consumer())
    with capture_logs() as lines:
        assert reader.poll() == 0
    assert [line["event"] for line in lines] == ["the signals topic cannot be read"]


def test_connection_is_tried_again_until_the_metrics_cluster_answers() -> None:
    consumer, attached = Consumer(), threading.Event()
    answers: list[Exception | Consumer] = [AWAY, AWAY, PemError("ca.pem is missing"), consumer]

    def create() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    connection = SignalsConnection(create, lambda _: attached.set(), every_s=0.01)
    with capture_logs() as lines:
        connection.start()
        assert attached.wait(WAIT_S_MAX)
    assert [line["error"] for line in lines] == [
        f"KafkaTimeoutError: {AWAY}",
        "PemError: ca.pem is missing",
    ]
    assert not consumer.is_closed
    connection.stop()
    assert consumer.is_closed


def test_consumer_that_comes_after_the_stop_is_closed_and_not_used() -> None:
    consumer, began, may_end = Consumer(), threading.Event(), threading.Event()

    def create() -> Any:
        began.set()
        assert may_end.wait(WAIT_S_MAX)
        return consumer

    attached: list[object] = []
    connection = SignalsConnection(create, attached.append)
    connection.start()
    assert began.wait(WAIT_S_MAX)
    connection._stop.set()
    may_end.set()
    connection.stop()
    assert consumer.is_closed
    assert attached == []
