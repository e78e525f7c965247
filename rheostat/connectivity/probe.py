"""Probes the bootstrap servers of a cluster, and reports at which stage each connection fails.

A Kafka client reports only that it could not connect. But each stage of a connection needs another remedy, so the probe opens one
connection to each bootstrap server, all at the same time, and goes through the stages itself. The outcomes:

    no route        the name cannot be resolved, the port is closed, or no connection is accepted within ``CONNECT_S_MAX``
    TLS             client and server do not agree on TLS, or on a certificate
    no password or token   this machine cannot read the password, or gets no token
    refused login   the server refuses this login, or requires a login, and the settings have none
    not Kafka       another service listens on the port
    slow            the connection is accepted, but no response arrives within ``ANSWER_S_MAX``

Invariant: a refused login is reported at once, even if other servers have not answered yet. After a server has accepted the
connection, the probe waits longer than ``kafka.request_timeout_s``, to distinguish a slow broker from a silent one.
"""

from __future__ import annotations

import threading
from queue import SimpleQueue

from rheostat.connectivity.connection import ProbeOutcome, ProbeResult
from rheostat.connectivity.stages import probe_server
from streaming.shared.kafka import KafkaSettings

CONNECT_S_MAX = 5.0
ANSWER_S_MAX = 20.0  # A broker with a disk of 5 MB/s needed more than 5 s for its first response.

__all__ = ["ProbeOutcome", "ProbeResult", "probe_servers"]


def probe_servers(
    kafka: KafkaSettings, *, connect_s_max: float = CONNECT_S_MAX, answer_s_max: float = ANSWER_S_MAX
) -> list[ProbeResult]:
    """Returns the result of each bootstrap server, in the order in which the probes ended.

    The probe ends with the first server that is open or refuses the login. Its result is the last of the list, because the function
    does not wait for the other servers.
    """
    servers = [server.strip() for server in kafka.bootstrap_servers.split(",")]
    ended: SimpleQueue[ProbeResult | Exception] = SimpleQueue()

    def run_probe(server: str) -> None:
        try:
            ended.put(probe_server(kafka, server, connect_s_max, answer_s_max))
        except Exception as error:  # noqa: BLE001 - raised again below
            ended.put(error)

    for server in servers:
        # Daemon threads, because at its end the program would wait for the threads of a pool.
        threading.Thread(target=run_probe, args=(server,), name=f"reach-{server}", daemon=True).start()
    results: list[ProbeResult] = []
    while len(results) < len(servers):
        result = ended.get()
        if isinstance(result, Exception):
            raise result
        results.append(result)
        if result.outcome in (ProbeOutcome.OPEN, ProbeOutcome.LOGIN, ProbeOutcome.NO_CREDENTIALS):
            break
    return results
