"""Tells a service manager about this process, with the protocol of systemd's sd_notify.

systemd passes the address of a datagram socket in ``NOTIFY_SOCKET``, and the interval of its watchdog in ``WATCHDOG_USEC``.
`rheostat run` does the same for its parts (part_reports.py). Without the variable, messages go nowhere.

Source: sd_notify(3), sd_watchdog_enabled(3).
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import MutableMapping

import structlog

log = structlog.get_logger("run")

SOCKET_VARIABLE = "NOTIFY_SOCKET"
WATCHDOG_VARIABLE = "WATCHDOG_USEC"
_WATCHDOG_PID_VARIABLE = "WATCHDOG_PID"
_STATUS_CHARACTERS_MAX = 500


class ServiceManager:
    """Sends messages to the service manager that started this process."""

    def __init__(self, address: str | None = None, watchdog_s: float | None = None) -> None:
        """
        Args:
            address: a path, or ``@`` and the name of an abstract socket; None if there is no service manager.
            watchdog_s: the time without a ping after which the service manager ends this process; None if it needs no pings.
        """
        self.watchdog_s = watchdog_s
        self._address = None
        self._socket = None
        if address is None:
            return
        if address[:1] not in ("/", "@"):
            log.warning(
                "this process cannot tell the service manager (systemd) that it is ready, because NOTIFY_SOCKET is neither a "
                "path nor a name that begins with @",
                address=address,
            )
            return
        self._address = "\0" + address[1:] if address[0] == "@" else address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)  # The work must not wait for a service manager that reads nothing.

    @classmethod
    def from_environment(cls, environ: MutableMapping[str, str]) -> ServiceManager:
        """Returns the service manager that the variables name, and removes them, so that no child process uses them."""
        address = environ.pop(SOCKET_VARIABLE, "") or None
        interval_us = environ.pop(WATCHDOG_VARIABLE, "")
        pid = environ.pop(_WATCHDOG_PID_VARIABLE, None)
        is_watched = interval_us.isdigit() and int(interval_us) > 0 and pid in (None, str(os.getpid()))
        return cls(address, int(interval_us) / 1e6 if is_watched else None)

    @property
    def is_there(self) -> bool:
        return self._socket is not None

    def ready(self, status: str) -> None:
        """Tells that the process has begun its real work, or that a reload has ended."""
        self._send(f"READY=1\nSTATUS={_one_line(status)}")

    def status(self, text: str) -> None:
        self._send(f"STATUS={_one_line(text)}")

    def ping(self) -> None:
        self._send("WATCHDOG=1")

    def extend_start(self, by_s: float) -> None:
        """Tells that the start goes on, and that the next such message comes within ``by_s`` seconds."""
        self._send(f"EXTEND_TIMEOUT_USEC={by_s * 1e6:.0f}")

    def reloading(self) -> None:
        """Tells that a reload begins; ``ready`` ends it. Safe to call from a signal handler."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        self._send("STOPPING=1\nSTATUS=stopping")

    def _send(self, message: str) -> None:
        if self._socket is None or self._address is None:
            return
        try:
            self._socket.sendto(message.encode(), self._address)
        except BlockingIOError:
            return  # The service manager is busy. The next ping comes soon.
        except OSError as error:
            log.warning(
                "the service manager (systemd) no longer accepts messages of this process",
                error=error.strerror or str(error),
            )
            self._socket.close()
            self._socket = None


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_STATUS_CHARACTERS_MAX]
