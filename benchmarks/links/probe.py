"""Measures the capacity of a link: one end sends as fast as it can, the other end counts.

``receive HOST PORT`` prints bytes/s; ``send HOST PORT SECONDS``. The first second, TCP's slow start, is not counted.
"""

from __future__ import annotations

import socket
import sys
import time

_CHUNK = 65_536
_WARM_S = 1.0
_TRIES_S = 10.0


def receive(host: str, port: int) -> float:
    with socket.create_server((host, port)) as server:
        server.settimeout(_TRIES_S)
        connection, _ = server.accept()
        with connection:
            connection.settimeout(_TRIES_S)
            counted, began, last = 0, 0.0, 0.0
            warm_until = time.monotonic() + _WARM_S
            while data := connection.recv(4 * _CHUNK):
                last = time.monotonic()
                if last >= warm_until:
                    began = began or last
                    counted += len(data)
    return counted / (last - began)


def send(host: str, port: int, lasts_s: float) -> None:
    deadline = time.monotonic() + _TRIES_S
    while True:
        try:
            connection = socket.create_connection((host, port), timeout=_TRIES_S)
            break
        except ConnectionRefusedError:  # The other end is not up yet.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    with connection:
        until = time.monotonic() + _WARM_S + lasts_s
        while time.monotonic() < until:
            connection.sendall(bytes(_CHUNK))


if __name__ == "__main__":
    what, host, port, *rest = sys.argv[1:]
    if what == "receive":
        print(receive(host, int(port)))
    else:
        send(host, int(port), float(rest[0]))
