"""Tests the creation probe: the brokers it uses, the requests that count, and its behaviour without answers."""

from __future__ import annotations

import random
import threading

import pytest
import structlog
from fake_asker import FakeAsker

from streaming.shared.kafka.cluster import ClusterError
from tuner.control.mutation_quota.probe_window import COUNT_MIN
from tuner.runtime.mutation_quota.creation_probe import BROKERS_MAX, EVERY_S, CreationProbe


def probe_of(asker: FakeAsker) -> CreationProbe:
    return CreationProbe(asker, rng=random.Random(1), monotonic=asker.monotonic)


def go(probe: CreationProbe, asker: FakeAsker, seconds: float, *, late_s: float = 0.0) -> None:
    """As its thread does, on the cluster's clock."""
    until_s, due_s = asker.now_s + seconds, asker.now_s
    while asker.now_s < until_s:
        asker.now_s = max(asker.now_s, due_s + late_s)
        rest_s = probe.send_one(due_s)
        due_s = max(due_s, asker.now_s) + rest_s + EVERY_S


def test_probe_alternates_brokers_and_reports_latency() -> None:
    asker = FakeAsker(takes_s=0.02)
    probe = probe_of(asker)
    assert probe.p90_ms() is None
    go(probe, asker, 20.0)
    assert probe.p90_ms() == pytest.approx(20.0)
    counts = [asker.asked.count(broker) for broker in (1, 2, 3)]
    assert max(counts) - min(counts) <= 1
    assert sum(counts) > COUNT_MIN


def test_probe_replaces_chosen_broker_that_is_gone() -> None:
    asker = FakeAsker(brokers_there=tuple(range(1, 1001)))
    probe = probe_of(asker)
    go(probe, asker, 40.0)
    assert probe.p90_ms() == pytest.approx(10.0)
    first = set(asker.asked)
    assert len(first) == BROKERS_MAX
    left = min(first)
    asker.brokers_there = tuple(broker for broker in asker.brokers_there if broker != left)
    go(probe, asker, 60.0)
    assert len(set(asker.asked[-50:])) == BROKERS_MAX
    assert left not in asker.asked[-50:]
    assert first - {left} < set(asker.asked[-50:])


def test_probe_does_not_count_connection_time() -> None:
    asker = FakeAsker(connects_s=3.0)
    probe = probe_of(asker)
    go(probe, asker, 30.0)
    assert probe.p90_ms() == pytest.approx(10.0)
    assert sorted(asker.met) == [1, 2, 3]


def test_probe_does_not_count_late_request() -> None:
    asker = FakeAsker()
    probe = probe_of(asker)
    go(probe, asker, 30.0, late_s=0.1)
    assert probe.p90_ms() is None


@pytest.mark.parametrize("brokers", [2, 3, 5])
@pytest.mark.parametrize("connected", [True, False])
def test_probe_frozen_broker_is_paused_and_not_counted(brokers: int, *, connected: bool) -> None:
    """At no moment, from the one on at which it freezes; nor where it takes a connection to it to find out."""
    asker = FakeAsker(brokers_there=tuple(range(1, brokers + 1)))
    probe = probe_of(asker)
    if connected:
        go(probe, asker, 60.0)
    asker.silent = {2}
    asked = len(asker.asked)
    for _ in range(90):
        go(probe, asker, 1.0)
        felt_ms = probe.p90_ms()
        assert felt_ms is None or felt_ms == pytest.approx(10.0)
    assert felt_ms is not None
    assert asker.asked[asked:].count(2) <= 1


@pytest.mark.parametrize("brokers", [1, 2, 3, 5])
def test_probe_unresponsive_controller_shows_at_every_moment(brokers: int) -> None:
    asker = FakeAsker(brokers_there=tuple(range(1, brokers + 1)))
    probe = probe_of(asker)
    go(probe, asker, 60.0)
    asker.takes_s = 60.0
    go(probe, asker, 20.0)
    known = []
    for _ in range(20):
        go(probe, asker, 5.0)
        felt_ms = probe.p90_ms()
        known.append(felt_ms is not None and felt_ms > 3_000)
    assert sum(known) >= 18


@pytest.mark.parametrize("brokers", [1, 2, 3, 5])
@pytest.mark.parametrize("stall_s", [2.0, 4.9])
def test_probe_controller_stall_raises_latency(brokers: int, stall_s: float) -> None:
    asker = FakeAsker(brokers_there=tuple(range(1, brokers + 1)))
    probe = probe_of(asker)
    go(probe, asker, 60.0)
    asker.takes_s = stall_s
    probe.send_one(asker.now_s)
    asker.takes_s = 0.01
    go(probe, asker, 5.0)
    felt_ms = probe.p90_ms()
    assert felt_ms is not None
    # Nine of ten: of the last half minute a tenth is three seconds.
    assert (felt_ms > 500) == (stall_s > 3)


def test_probe_replaces_brokers_that_do_not_answer() -> None:
    """A part of a large cluster cannot be reached from here, by chance most of those who were chosen."""
    asker = FakeAsker(brokers_there=tuple(range(1, 1001)))
    probe = probe_of(asker)
    go(probe, asker, 20.0)
    asker.silent = set(asker.asked[-5:][:4])
    go(probe, asker, 120.0)
    assert probe.p90_ms() == pytest.approx(10.0)
    assert not asker.silent & set(asker.asked[-60:])


def test_probe_broker_known_gone_is_not_counted() -> None:
    asker = FakeAsker(gone={1, 2}, takes_s=0.19)
    probe = probe_of(asker)
    go(probe, asker, 30.0)
    assert probe.p90_ms() == pytest.approx(190.0)


@pytest.mark.parametrize("trouble", ["refuses", "away", "gone"])
def test_probe_without_answers_logs_once_and_reports_nothing(trouble: str) -> None:
    asker = FakeAsker()
    match trouble:
        case "refuses":
            asker.refuses = True
        case "away":
            asker.away = True
        case _:
            asker.gone = {1, 2, 3}
    probe = probe_of(asker)
    with structlog.testing.capture_logs() as logs:
        go(probe, asker, 100.0)
    assert probe.p90_ms() is None
    assert [line["log_level"] for line in logs] == ["warning"]
    assert "no quota is raised" in logs[0]["event"]
    asker.refuses, asker.away, asker.gone = False, False, set()
    go(probe, asker, 100.0)
    assert probe.p90_ms() == pytest.approx(10.0)
    asker.refuses = True
    with structlog.testing.capture_logs() as again:
        go(probe, asker, 100.0)
    assert len(again) == 1


def test_probe_continues_after_unexpected_error() -> None:
    asked = threading.Event()

    class Odd(FakeAsker):
        def ping(self, broker: int) -> ClusterError | None:  # noqa: ARG002 - the asker's shape
            asked.set()
            raise ValueError("nobody foresaw this")

    probe = CreationProbe(Odd(), rng=random.Random(1))
    with structlog.testing.capture_logs() as logs:
        probe.start()
        assert asked.wait(5.0)
        probe.stop()
    assert [line["error"] for line in logs] == ["ValueError: nobody foresaw this"]


def test_probe_stop_without_start_closes_client() -> None:
    asker = FakeAsker()
    CreationProbe(asker, rng=random.Random(1)).stop()
    assert asker.closed


def test_probe_thread_sends_requests_and_closes_client() -> None:
    asked = threading.Event()

    class Told(FakeAsker):
        def ping(self, broker: int) -> ClusterError | None:
            asked.set()
            return super().ping(broker)

    asker = Told()
    probe = CreationProbe(asker, rng=random.Random(1))
    probe.start()
    assert asked.wait(5.0)
    probe.stop()
    assert asker.closed
