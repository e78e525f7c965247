"""The connection table: which connection is closed for a new one, and which for being late."""

from __future__ import annotations

import pytest

from streaming.shared.addresses import client_network, is_https_or_local, is_loopback
from tuner.api.connection_table import (
    PHASE_S_MAX,
    UNREAD_S_MAX,
    ConnectionTable,
    OpenConnection,
    Phase,
    limits_for_descriptors,
)

REMOTE, OTHER, LOCAL = "192.0.2.1", "192.0.2.2", "127.0.0.1"


def table(connections_max: int = 200, per_address_max: int = 64) -> ConnectionTable:
    return ConnectionTable(connections_max, per_address_max)


class Closed:
    """The names of the connections that were closed, in order."""

    def __init__(self, table: ConnectionTable) -> None:
        self.table = table
        self.aborted: list[str] = []
        self.expired: list[str] = []

    def expire(self, name: str, phase: Phase) -> bool:
        self.expired.append(name)
        return phase is not Phase.IDLE

    def open(self, address: str, name: str, now_s: float, phase: Phase = Phase.HEAD) -> OpenConnection | None:
        connection = self.table.admit(address, now_s)
        if connection is not None:
            connection.abort = lambda: self.aborted.append(name)
            connection.expire = lambda: self.expire(name, phase)
            connection.enter(phase, now_s)
        return connection


def test_table_when_full_closes_the_longest_waiting() -> None:
    closed = Closed(table(connections_max=3))
    for number in range(3):
        closed.open(f"192.0.2.{number}", f"c{number}", float(number))
    assert closed.open(OTHER, "new", 3.0) is not None
    assert closed.aborted == ["c0"]
    assert len(closed.table) == 3


def test_table_when_full_spares_the_address_with_one_connection() -> None:
    closed = Closed(table(connections_max=4))
    closed.open(OTHER, "dashboard", 0.0, Phase.IDLE)
    for number in range(5):
        closed.open(REMOTE, f"slow{number}", 1.0 + number)
    assert closed.aborted == ["slow0", "slow1"]


def test_address_with_too_many_closes_its_own() -> None:
    closed = Closed(table(per_address_max=2))
    closed.open(OTHER, "other", 0.0)
    for number in range(4):
        closed.open(REMOTE, f"slow{number}", 1.0 + number)
    assert closed.aborted == ["slow0", "slow1"]
    assert len(closed.table) == 3


def test_remote_connection_never_takes_the_place_of_a_local_one() -> None:
    closed = Closed(table(connections_max=2))
    closed.open(LOCAL, "local", 0.0)
    closed.open(LOCAL, "local too", 0.0)
    assert closed.open(REMOTE, "remote", 1.0) is None
    assert closed.aborted == []
    assert closed.table.take_closed_early() == {REMOTE: 1}


def test_local_connection_takes_the_place_of_a_remote_one() -> None:
    closed = Closed(table(connections_max=2))
    closed.open(REMOTE, "remote", 0.0)
    closed.open(OTHER, "other", 1.0)
    assert closed.open(LOCAL, "local", 2.0) is not None
    assert closed.aborted == ["remote"]


def test_answered_connection_is_closed_for_no_other() -> None:
    closed = Closed(table(connections_max=2))
    closed.open(REMOTE, "events", 0.0, Phase.RESPONSE)
    closed.open(REMOTE, "events too", 0.0, Phase.RESPONSE)
    assert closed.open(LOCAL, "local", 9.0) is None
    assert closed.aborted == []


def test_answer_that_its_client_leaves_unread_is_given_up() -> None:
    closed = Closed(table(connections_max=1))
    connection = closed.open(REMOTE, "deaf", 0.0, Phase.RESPONSE)
    assert connection is not None
    connection.unread_since_s = 1.0
    assert closed.open(OTHER, "new", 2.0) is not None
    assert closed.aborted == ["deaf"]


@pytest.mark.parametrize("phase", [Phase.HEAD, Phase.BODY, Phase.IDLE, Phase.CLOSING])
def test_connection_expires_when_its_phase_is_over(phase: Phase) -> None:
    closed = Closed(table())
    closed.open(REMOTE, "slow", 100.0, phase)
    closed.table.expire_late(100.0 + PHASE_S_MAX[phase])
    assert closed.expired == []
    closed.table.expire_late(100.1 + PHASE_S_MAX[phase])
    assert closed.expired == ["slow"]
    told = closed.table.take_closed_early()
    assert told == ({} if phase is Phase.IDLE else {REMOTE: 1})


def test_answer_expires_only_while_its_client_reads_nothing() -> None:
    closed = Closed(table())
    connection = closed.open(REMOTE, "events", 0.0, Phase.RESPONSE)
    assert connection is not None
    closed.table.expire_late(1e9)
    assert closed.expired == []
    connection.unread_since_s = 1e9
    closed.table.expire_late(1e9 + UNREAD_S_MAX + 0.1)
    assert closed.expired == ["events"]


@pytest.mark.parametrize(
    ("address", "network", "loopback"),
    [
        ("192.0.2.7", "192.0.2.7", False),
        ("::ffff:192.0.2.7", "192.0.2.7", False),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64", False),
        ("127.0.0.2", "127.0.0.2", True),
        ("::1", "::1", True),
        ("::ffff:127.0.0.1", "127.0.0.1", True),
        ("", "", False),
    ],
)
def test_client_network_is_an_ipv4_address_or_ipv6_prefix(address: str, network: str, loopback: bool) -> None:
    assert client_network(address) == network
    assert is_loopback(address) == loopback


@pytest.mark.parametrize("descriptors", [-1, 4, 64, 256, 1024, 10**6])
def test_limits_leave_free_descriptors_for_any_process_limit(descriptors: int) -> None:
    limits = limits_for_descriptors(descriptors)
    for each in (limits.requests, limits.scrapes):
        assert 1 <= each.per_address_max <= each.network_max < each.total_max
    assert limits.requests.per_address_max <= limits.connections_per_address <= limits.connections <= 200
    assert limits.requests.total_max + limits.scrapes.total_max < limits.connections
    assert descriptors < 80 or limits.connections <= descriptors // 4


@pytest.mark.parametrize(
    ("url", "accepted"),
    [
        ("https://idp.example.org/token", True),
        ("http://127.0.0.1:8080/token", True),
        ("http://localhost/token", True),
        ("http://[::1]/token", True),
        ("http://idp.example.org/token", False),
        ("http://localhost.example.org/token", False),
        ("http://127.0.0.1@idp.example.org/token", False),
        ("https:///token", False),
        ("https://[::1", False),
        ("file:///etc/token", False),
        ("idp/token", False),
    ],
)
def test_url_is_accepted_if_no_other_machine_can_read(url: str, accepted: bool) -> None:
    assert is_https_or_local(url) is accepted
