"""Kafka's answers to requests for topics and partitions with given placement."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from streaming.shared.kafka.placed_topics import PlacingClient, TopicRefusal
from streaming.shared.kafka.values import Unreachable


def answering(code: int) -> PlacingClient:
    result = SimpleNamespace(error_code=code, error_message="a test")
    answer = SimpleNamespace(topics=[result], results=[result], throttle_time_ms=0)
    client = PlacingClient.__new__(PlacingClient)
    client._connection = cast(Any, SimpleNamespace(timeout_ms=10_000, send_any=lambda *_: answer))
    return client


def test_success_and_refusal_are_told() -> None:
    assert answering(0).create_placed("orders", [[1]], {}) is None
    assert answering(0).add_placed("orders", 2, [[1]]) is None
    assert answering(37).add_placed("orders", 2, [[1]]) == TopicRefusal(37, "INVALID_PARTITIONS: a test")


@pytest.mark.parametrize("code", [7, 41])
def test_answer_that_leaves_the_outcome_open_is_no_refusal(code: int) -> None:
    """The commands would say that nothing was changed."""
    message = f"Kafka did not confirm in time whether topic orders was changed .error {code}.: look at its partitions"
    with pytest.raises(Unreachable, match=message):
        answering(code).create_placed("orders", [[1]], {})
    with pytest.raises(Unreachable, match=message):
        answering(code).add_placed("orders", 2, [[1]])
