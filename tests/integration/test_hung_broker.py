"""Calls to all brokers, of which some hang or lose their connections. A signal suspends real brokers, so they refuse nothing."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.future import Future
from lab_parts import until

from rheostat.lab.cluster import Lab, LabSpec
from streaming.shared import kafka_names
from streaming.shared.kafka.client_internals import connection_manager
from streaming.shared.kafka.cluster import ClusterClient, ClusterError

TIMEOUT_S = 3.0
HUNG = (2, 3)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(LabSpec(brokers=3)) as made:
        yield made


def signalled(lab: Lab, which: signal.Signals) -> None:
    for broker in HUNG:
        process = lab.nodes[broker].process
        assert process is not None
        process.send_signal(which)
        if which is signal.SIGSTOP:
            # A thread on another processor goes on until the system interrupts it, and may answer one more request.
            until(lambda pid=process.pid: thread_states(pid) == {"T"}, 5, f"broker {broker} is stopped")


def thread_states(pid: int) -> set[str]:
    """Returns the states of a process's threads, as the system abbreviates them."""
    stats = (stat.read_text() for stat in Path(f"/proc/{pid}/task").glob("*/stat"))
    return {text.rsplit(")", 1)[1].split()[0] for text in stats}


def answering_brokers(client: ClusterClient) -> tuple[set[int], float]:
    """Returns which brokers answered, and the duration."""
    began_s = time.monotonic()
    found = client.broker_configs((1, 2, 3), [kafka_names.LEADER_RATE])
    return {b for b, answer in found.items() if not isinstance(answer, ClusterError)}, time.monotonic() - began_s


def test_hung_brokers_cost_one_timeout_and_delay_no_others(lab: Lab) -> None:
    settings = lab.kafka_settings().model_copy(update={"request_timeout_s": TIMEOUT_S})
    with ClusterClient(settings, "test") as client:
        assert answering_brokers(client)[0] == {1, 2, 3}
        signalled(lab, signal.SIGSTOP)
        try:
            who, took_s = answering_brokers(client)
            assert who == {1}
            assert took_s < 1.8 * TIMEOUT_S, "one timeout for both"
            # A while after, with their requests given up and made again: a second now and then, and mostly nothing.
            ends_s, found = time.monotonic() + 2.5 * TIMEOUT_S, []
            while time.monotonic() < ends_s:
                who, took_s = answering_brokers(client)
                assert who == {1}
                found.append(took_s)
            assert len(found) > 3
            assert sorted(found)[-2] < 0.9 * TIMEOUT_S, "on a busy machine one may take long"
            assert sum(took_s < 0.3 for took_s in found) > len(found) / 2
        finally:
            signalled(lab, signal.SIGCONT)
        until(lambda: answering_brokers(client)[0] == {1, 2, 3}, 30, "all answer again")


def test_broken_connections_are_replaced_within_the_call(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    with ClusterClient(lab.kafka_settings(), "test") as client:
        assert answering_brokers(client)[0] == {1, 2, 3}
        manager, broken = connection_manager(client._connection._connected()), list[int]()
        send = manager.send

        def send_and_break(request: Any, node_id: int) -> Future:
            future = send(request, node_id=node_id)
            if node_id not in broken:
                broken.append(node_id)
                manager._conns[node_id].transport._sock.shutdown(socket.SHUT_RDWR)
            return future

        monkeypatch.setattr(manager, "send", send_and_break)
        assert answering_brokers(client)[0] == {1, 2, 3}
        assert sorted(broken) == [1, 2, 3]
