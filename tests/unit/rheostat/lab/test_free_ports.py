"""The ports of a lab: free, given once, and none that an outgoing connection takes."""

from __future__ import annotations

import socket
from itertools import count

import pytest

from rheostat.errors import SetupError
from rheostat.lab import node
from rheostat.lab.node import HOST, free_ports

EPHEMERAL_FROM = 32_768  # Linux's default.


def test_free_ports_are_given_once_and_take_no_connection_port() -> None:
    ports = [port for _ in range(50) for port in free_ports(4)]
    assert len(set(ports)) == 200
    assert 1024 < min(ports) <= max(ports) < EPHEMERAL_FROM
    with socket.create_server((HOST, ports[0])):
        assert ports[0] not in free_ports(4)


def test_free_ports_leave_out_a_port_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((HOST, free_ports(1)[0])) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(node, "_PORTS", range(port, port + 50))
        monkeypatch.setattr(node, "_port_numbers", count())
        assert port not in free_ports(5)


def test_free_ports_without_enough_free_ones_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((HOST, free_ports(1)[0])) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(node, "_PORTS", range(port, port + 1))
        monkeypatch.setattr(node, "_port_numbers", count())
        with pytest.raises(SetupError, match=rf"Only 0 of 1 ports are free on {HOST} \(from {port} to {port}\)"):
            free_ports(1)
