"""Clients that cannot connect, and Ctrl-C while one is made or closed."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import kafka.errors
import pytest
from kafka.net.selector import NetworkSelector

from rheostat.lab.node import free_ports
from streaming.shared.kafka.clients import admin_client, close_admin, consumer, producer
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka.settings import KafkaSettings


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """Installs Python's default handler, because other tests may have left another."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def nowhere() -> KafkaSettings:
    return KafkaSettings(bootstrap_servers=f"127.0.0.1:{free_ports(1)[0]}", request_timeout_s=0.3)


def failed() -> None:
    with pytest.raises(kafka.errors.KafkaTimeoutError):
        admin_client(nowhere(), "test")


@pytest.mark.parametrize("create", [admin_client, consumer, producer])
def test_client_that_cannot_connect_leaves_no_thread_and_no_file(
    create: Callable[[KafkaSettings, str], object],
) -> None:
    before, selectors_before = set(threading.enumerate()), _open_selectors()
    for _ in range(3):
        with pytest.raises(kafka.errors.KafkaTimeoutError):
            create(nowhere(), "test")
    for left in set(threading.enumerate()) - before:
        left.join(timeout=5)
    assert set(threading.enumerate()) <= before
    assert _open_selectors() == selectors_before


def _open_selectors() -> int:
    """Returns the number of selectors, of which each network client has one besides its sockets."""
    names = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    return sum("eventpoll" in os.readlink(name) for name in names if os.path.lexists(name))


def test_concurrent_connections_restore_log_level() -> None:
    logger = logging.getLogger("kafka.net.manager")
    before = (logger.level, logger.propagate, list(logger.handlers))
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(failed) for _ in range(8)]:
            done.result(timeout=30)
    assert (logger.level, logger.propagate, logger.handlers) == before


def test_ctrl_c_during_thread_start_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """kafka-python turned it into "cannot join thread before it is started", which looked like an unreachable cluster."""
    really, before = threading.Thread.start, set(threading.enumerate())

    def pressed(thread: threading.Thread) -> None:
        if thread.name.startswith("kafka-io"):
            signal.raise_signal(signal.SIGINT)
        really(thread)

    monkeypatch.setattr(threading.Thread, "start", pressed)
    with pytest.raises(KeyboardInterrupt), ClusterClient(nowhere(), "test") as client:
        client.brokers()
    assert set(threading.enumerate()) <= before


@pytest.mark.timeout(30)
def test_ctrl_c_before_loop_runs_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that was told to stop before it started ran forever, and close() waited for it forever."""
    began, told, may_run, really = threading.Event(), threading.Event(), threading.Event(), NetworkSelector.run_forever
    before, wakeup, main = set(threading.enumerate()), NetworkSelector.wakeup, threading.get_ident()

    def late(net: NetworkSelector) -> None:
        began.set()
        assert may_run.wait(10)
        really(net)

    def woken(net: NetworkSelector) -> None:
        if net._stop:
            told.set()
        wakeup(net)

    def press() -> None:
        assert began.wait(10)
        signal.pthread_kill(main, signal.SIGINT)
        told.wait(0.3)
        may_run.set()

    monkeypatch.setattr(NetworkSelector, "wakeup", woken)
    monkeypatch.setattr(NetworkSelector, "run_forever", late)
    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(KeyboardInterrupt), ClusterClient(nowhere(), "test") as client:
        client.brokers()
    presser.join(10)
    assert set(threading.enumerate()) <= before


def test_ctrl_c_during_close_is_not_lost() -> None:
    class Closing:
        """Closes its loop with a pending task, as kafka-python's admin client does."""

        def __init__(self) -> None:
            self._net: Any = NetworkSelector()
            self._net.call_soon(lambda: signal.raise_signal(signal.SIGINT))

        def close(self) -> None:
            self._net.close()

    closing: Any = Closing()
    with pytest.raises(KeyboardInterrupt):
        close_admin(closing)
    assert closing._net._closed


def test_close_failure_does_not_hide_connection_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: NetworkSelector) -> None:
        raise RuntimeError("cannot be closed")

    before = set(threading.enumerate())
    with monkeypatch.context() as patch:
        patch.setattr(NetworkSelector, "close", fails)
        with pytest.raises(kafka.errors.KafkaTimeoutError) as met:
            admin_client(nowhere(), "test")
    assert met.value.__notes__ == [
        "and the client, which was not yet connected, could not be closed: RuntimeError: cannot be closed"
    ]
    assert set(threading.enumerate()) <= before
