"""The stream on standby: when it warms up its session, and when it starts its query."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from kafka.errors import KafkaTimeoutError
from stream_leases import FakeStreamLease

from streaming import standby
from streaming.standby import StreamStandby


def never(_is_over: Callable[[], bool]) -> None:
    pytest.fail("a stream on its own was warmed up")


def test_stream_on_its_own_is_not_warmed_up() -> None:
    told: list[bool] = []
    assert StreamStandby(FakeStreamLease(is_held=True), threading.Event(), never, told.append).wait()
    assert told == [True]
    lease = FakeStreamLease()
    lease.give_soon()
    assert StreamStandby(lease, threading.Event(), never, told.append).wait()
    assert told == [True, False, True]


def test_standby_is_warmed_up_once_and_starts_when_it_gets_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standby, "WARM_UP_AFTER_S", 0.0)
    lease, stop, warmed, told = FakeStreamLease(), threading.Event(), list[bool](), list[bool]()

    def warm_up(is_over: Callable[[], bool]) -> None:
        warmed.append(is_over())
        lease.give_soon()

    waiting = StreamStandby(lease, stop, warm_up, told.append)
    assert waiting.wait()
    assert (warmed, told) == ([False], [False, True])
    lease.is_held = False
    threading.Timer(0.3, stop.set).start()
    assert not waiting.wait(), "it is stopped on standby"
    assert (warmed, told) == ([False], [False, True, False])


def test_failed_warm_up_does_not_end_the_standby(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standby, "WARM_UP_AFTER_S", 0.0)
    lease = FakeStreamLease()

    def fail(_is_over: Callable[[], bool]) -> None:
        lease.give_soon()
        raise KafkaTimeoutError

    assert StreamStandby(lease, threading.Event(), fail, lambda _: None).wait()
