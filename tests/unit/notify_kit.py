"""The socket of a service manager, as systemd makes it."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class NotifySocket:
    """Receives the messages of services."""

    def __init__(self, address: str) -> None:
        """
        Args:
            address: a path, or ``@`` and the name of an abstract socket.
        """
        self.address = address
        self.messages: list[str] = []  # All that have arrived.
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address[0] == "@" else address)
        self._socket.setblocking(False)

    def take(self, wait_s: float = 0.0) -> list[str]:
        """Returns the lines that have arrived since the last call; waits up to ``wait_s`` for the first one."""
        select.select([self._socket], [], [], wait_s)
        lines: list[str] = []
        while True:
            try:
                message = self._socket.recv(4096).decode()
            except BlockingIOError:
                self.messages += lines
                return lines
            lines += message.splitlines()

    def until(self, line: str, timeout_s: float) -> list[str]:
        """Returns the lines up to the first that begins with ``line``, which must come in time."""
        lines: list[str] = []
        deadline_s = time.monotonic() + timeout_s
        while not any(one.startswith(line) for one in lines):
            assert time.monotonic() < deadline_s, f"no {line} within {timeout_s} s, but {lines[-20:]}"
            lines += self.take(0.5)
        return lines

    def close(self) -> None:
        self._socket.close()


@contextmanager
def notify_socket(address: str | Path) -> Iterator[NotifySocket]:
    opened = NotifySocket(str(address))
    try:
        yield opened
    finally:
        opened.close()
