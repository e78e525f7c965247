"""Messages to the service manager: sd_notify's protocol on a real datagram socket."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from notify_kit import notify_socket

from rheostat.run.service_manager import ServiceManager


@pytest.fixture(params=["path", "abstract"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return (
        str(tmp_path / "notify") if request.param == "path" else f"@rheostat-test-{os.getpid()}-{time.monotonic_ns()}"
    )


def test_messages_have_the_form_of_sd_notify(address: str) -> None:
    with notify_socket(address) as received:
        manager = ServiceManager(address)
        manager.extend_start(60.0)
        manager.ready("two\nlines")
        manager.status("well")
        manager.ping()
        manager.stopping()
        assert received.take(1.0) == [
            "EXTEND_TIMEOUT_USEC=60000000", "READY=1", "STATUS=two lines", "STATUS=well", "WATCHDOG=1", "STOPPING=1",
            "STATUS=stopping",
        ]  # fmt: skip


def test_reloading_has_the_time_that_systemd_compares(tmp_path: Path) -> None:
    with notify_socket(tmp_path / "notify") as received:
        before_us = time.monotonic_ns() // 1000
        ServiceManager(received.address).reloading()
        begins, at = received.take(1.0)
        assert begins == "RELOADING=1"
        assert before_us <= int(at.removeprefix("MONOTONIC_USEC=")) <= time.monotonic_ns() // 1000


def test_from_environment_removes_its_variables() -> None:
    environ = {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "90000000", "WATCHDOG_PID": str(os.getpid()), "HOME": "/"}
    manager = ServiceManager.from_environment(environ)
    assert environ == {"HOME": "/"}
    assert manager.watchdog_s == 90.0


@pytest.mark.parametrize("environ", [{}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "5000000", "WATCHDOG_PID": "1"}])
def test_process_without_a_watchdog_of_its_own_needs_no_pings(environ: dict[str, str]) -> None:
    assert ServiceManager.from_environment(environ).watchdog_s is None


def test_without_service_manager_messages_go_nowhere() -> None:
    manager = ServiceManager.from_environment({})
    assert not manager.is_there
    manager.ready("well")


@pytest.mark.parametrize("address", ["/nowhere/at/all", "vsock:2:1234", ""])
def test_useless_address_does_not_end_the_process(address: str) -> None:
    manager = ServiceManager(address)
    manager.ready("well")
    manager.ping()
    assert not manager.is_there
