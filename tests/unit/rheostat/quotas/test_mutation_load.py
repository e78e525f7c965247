"""Tests the pace of the load, and that it stops: at a verdict, and at the first error."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from rheostat.quotas.calibrate.mutation_load import MutationLoad
from streaming.shared.kafka.settings import KafkaSettings
from streaming.shared.kafka.topic_mutations import TopicMutationClient
from streaming.shared.kafka.values import ClusterError


@pytest.fixture
def load() -> Iterator[MutationLoad]:
    """The clients connect with their first request, so none connects here."""
    pool = MutationLoad(KafkaSettings(bootstrap_servers="127.0.0.1:9"), "test", [1, 2])
    yield pool
    pool.close()


class Sent:
    """Records the requests; ``errors`` fail, by number."""

    def __init__(self, errors: dict[int, ClusterError] | None = None) -> None:
        self.brokers: list[int] = []
        self.sent_s: list[float] = []
        self._errors = errors or {}
        self._lock = threading.Lock()

    def __call__(self, client: TopicMutationClient, broker: int) -> ClusterError | None:  # noqa: ARG002 - a fixed signature
        with self._lock:
            self.brokers.append(broker)
            self.sent_s.append(time.monotonic())
            return self._errors.get(len(self.brokers))


def never() -> bool:
    return False


def test_mutations_are_sent_through_all_brokers_at_the_rate(load: MutationLoad) -> None:
    sent, began_s = Sent(), time.monotonic()
    result = load.run_phase([sent] * 40, 100.0, never)
    assert (result.done, result.error) == (tuple(range(40)), None)
    assert set(sent.brokers) == {1, 2}
    assert max(sent.sent_s) - began_s >= 0.39
    assert result.duration_s >= 0.39


def test_verdict_stops_the_phase(load: MutationLoad) -> None:
    sent = Sent()
    result = load.run_phase([sent] * 1000, 100.0, lambda: len(sent.brokers) > 5)
    assert 5 < len(result.done) < 200
    assert len(result.done) == len(sent.brokers)


def test_first_error_stops_the_phase_and_is_returned(load: MutationLoad) -> None:
    refused = ClusterError("refused")
    sent = Sent({4: refused})
    result = load.run_phase([sent] * 1000, 1000.0, never)
    assert result.error is refused
    assert len(sent.brokers) < 100
    assert len(result.done) == len(sent.brokers) - 1
