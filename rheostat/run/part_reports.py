"""Receives the reports of the parts of `rheostat run`, as a service manager receives the reports of a service.

Each part gets the address of one socket in ``NOTIFY_SOCKET``. The kernel adds the process id of the sender to each message. So a
part cannot report for another part, and messages of other processes are ignored.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import structlog

from rheostat.run.service_manager import SOCKET_VARIABLE, WATCHDOG_VARIABLE

log = structlog.get_logger("run")

WATCHDOG_S = 60.0  # A part without a ping for this long is killed and restarted.
_PAUSED_S_MIN = 10.0
_MESSAGE_BYTES_MAX = 4096
_CREDENTIALS = struct.Struct("3i")  # Process, user and group id, as in unix(7).


@dataclass(slots=True)
class PartReport:
    """The reports of a part since its start."""

    pid: int
    is_ready: bool = False
    is_reloading: bool = False
    status: str = "starting"
    pinged_s: float | None = None  # When its last ping came; None before the first ping.


class PartReports:
    """The reports of all parts. One thread may use it; ``is_ready``, ``status`` and ``fault`` may be called by any thread."""

    def __init__(
        self,
        required: Collection[str],
        monotonic: Callable[[], float] = time.monotonic,
        *,
        tuners: Collection[str] = (),
    ) -> None:
        """
        Args:
            required: the parts that have to be ready before the whole process is ready.
            tuners: the tuners, of which at least one has to be ready too. It need not be every tuner, because one unreachable
                cluster must not keep the service manager waiting.
        """
        self._required = tuple(required)
        self._tuners = tuple(tuners)
        self._monotonic = monotonic
        self._reports: dict[str, PartReport] = {}
        self._checked_s = monotonic()
        # Called with True when a reload begins, and False when it ends.
        self.on_reload: Callable[[bool], None] = lambda _: None
        self._socket: socket.socket | None = None
        self._address = ""
        if sys.platform == "linux":
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            self._socket.setblocking(False)
            self._socket.bind("")  # Linux chooses an abstract name that no other socket has.
            self._address = "@" + self._socket.getsockname()[1:].decode()

    def environment(self, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Returns the environment of a part."""
        if self._socket is None:
            return dict(environ)
        return {**environ, SOCKET_VARIABLE: self._address, WATCHDOG_VARIABLE: f"{WATCHDOG_S * 1e6:.0f}"}

    def started(self, part: str, pid: int) -> None:
        """Records that a part has started. Its earlier reports are dropped."""
        self._reports[part] = PartReport(pid)

    def receive(self) -> None:
        """Processes the messages that have arrived."""
        now_s = self._monotonic()
        if now_s - self._checked_s > _PAUSED_S_MIN:  # This process was suspended, and its parts probably too.
            for report in self._reports.values():
                report.pinged_s = now_s if report.pinged_s is not None else None
        self._checked_s = now_s
        while self._socket is not None:
            try:
                data, ancillary, _, _ = self._socket.recvmsg(_MESSAGE_BYTES_MAX, socket.CMSG_SPACE(_CREDENTIALS.size))
            except BlockingIOError:
                return
            for level, kind, content in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
                    self._take(data.decode(errors="replace"), _CREDENTIALS.unpack(content[: _CREDENTIALS.size])[0])

    def silent(self) -> list[str]:
        """Returns the parts whose work has stopped: they have sent pings before, but no longer send any."""
        now_s = self._monotonic()
        return [
            part
            for part, report in self._reports.items()
            if report.pinged_s is not None and now_s - report.pinged_s > WATCHDOG_S
        ]

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def fault(self) -> str | None:
        """Returns why the supervisor itself has stopped; None while it goes on. It restarts parts whose work has stopped."""
        silent_s = self._monotonic() - self._checked_s
        return f"the processes have not been checked for {silent_s:.0f} s" if silent_s > WATCHDOG_S else None

    @property
    def is_ready(self) -> bool:
        return all(map(self._is_part_ready, self._required)) and (
            not self._tuners or any(map(self._is_part_ready, self._tuners))
        )

    @property
    def status(self) -> str:
        """One line with the status of each part."""
        return "; ".join(f"{part}: {report.status}" for part, report in sorted(self._reports.items()))

    def _is_part_ready(self, part: str) -> bool:
        report = self._reports.get(part)
        return report is not None and report.is_ready

    def _take(self, message: str, pid: int) -> None:
        report = next((report for report in self._reports.values() if report.pid == pid), None)
        if report is None:
            return
        for line in message.splitlines():
            key, _, value = line.partition("=")
            if key == "READY":
                report.is_ready = True
                if report.is_reloading:
                    report.is_reloading = False
                    self.on_reload(False)
            elif key == "RELOADING":
                report.is_reloading = True
                self.on_reload(True)
            elif key == "STATUS":
                report.status = value
            elif key == "WATCHDOG":
                report.pinged_s = self._monotonic()
