"""How far one gets on the way into a cluster: to the address, through TLS, past the login, to an answer.

Intuition: a client that cannot get in says only that it could not, after as long as it was told to try. But the way has
stages, each fails in its own manner, and each wants another remedy. So the doctor walks it by itself, one connection to
each bootstrap server, all at once, and says where it ended:

    no route        the name is not known, the port is closed, or nobody takes the connection within ``CONNECT_S_MAX``
    TLS             the two sides do not agree on it, or on a certificate
    refused login   they answer, and do not want this login, or want one where we have none
    not Kafka       something else listens there
    slow            the connection stands and no answer comes within ``ANSWER_S_MAX``

Invariant: a refused login is told when it is refused, whatever the other servers are still waited for; and somebody who took
our connection is waited for longer than ``kafka.request_timeout_s``, so that slow can be told from silent.
"""

from __future__ import annotations

import threading
from queue import SimpleQueue

from rheostat.connectivity.connection import ProbeOutcome, ProbeResult
from rheostat.connectivity.stages import probe_server
from streaming.shared.kafka import KafkaSettings

CONNECT_S_MAX = 5.0
ANSWER_S_MAX = 20.0  # A broker on a disk of 5 MB/s took more than 5 s to its first answer.

__all__ = ["ProbeOutcome", "ProbeResult", "probe_servers"]


def probe_servers(
    kafka: KafkaSettings, *, connect_s_max: float = CONNECT_S_MAX, answer_s_max: float = ANSWER_S_MAX
) -> list[ProbeResult]:
    """What became of each bootstrap server, in the order in which it was known.

    The list ends with the first that is open or refuses our login: that settles it, and the others are not waited for.
    """
    servers = [server.strip() for server in kafka.bootstrap_servers.split(",")]
    ended: SimpleQueue[ProbeResult | Exception] = SimpleQueue()

    def try_it(server: str) -> None:
        try:
            ended.put(probe_server(kafka, server, connect_s_max, answer_s_max))
        except Exception as error:  # noqa: BLE001 - raised again where it is waited for
            ended.put(error)

    for server in servers:
        # Not of a pool: the program would wait for its threads before it could end.
        threading.Thread(target=try_it, args=(server,), name=f"reach-{server}", daemon=True).start()
    found: list[ProbeResult] = []
    while len(found) < len(servers):
        reached = ended.get()
        if isinstance(reached, Exception):
            raise reached
        found.append(reached)
        if reached.way in (ProbeOutcome.OPEN, ProbeOutcome.LOGIN):
            break
    return found
