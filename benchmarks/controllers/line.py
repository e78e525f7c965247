"""Shows where a well-behaved tenant waits beside a busy one: at the broker that both use.

Brokers forward requests to the controller one at a time (performance.md). One client creates and deletes topics several times a
second through the first broker. Another client sometimes creates one: through the same broker, through another broker, and without
the busy client. Each case runs twice, on three controllers and three idle brokers. There is no bound. How the wait depends on the
quota is computed by line_model.py.

    python -m benchmarks.controllers.line
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from benchmarks.controllers.figures import percentile
from benchmarks.controllers.storm import Storm, StormTenant
from benchmarks.heaps import HEAP_MB, JAVA_OPTIONS
from benchmarks.memory import in_memory
from rheostat.lab.cluster import Lab, LabSpec

SECONDS, TURNS = 20.0, 2
SHARES = (50.0, 75.0, 90.0, 95.0)
_QUIET_S = 8.0  # After its start the cluster has work of its own.
_WAYS = {"the same broker": 0, "another broker": 1, "nobody beside it": None}


def took_ms(servers: Sequence[str], busy_at: int | None, turn: int) -> list[float]:
    """Returns the create latencies of the well-behaved client, which uses the first of ``servers``.

    Args:
        busy_at: index of the broker that the busy client uses; None: there is no busy client.
    """
    own = f"{turn}-{busy_at}"
    quiet = StormTenant(f"quiet-{own}", 2, partitions=2, replication_factor=3, connections=1, topics_max=1, varies=True)
    busy = StormTenant(f"busy-{own}", 6, partitions=4, replication_factor=3, connections=1, topics_max=1, varies=True)
    with ThreadPoolExecutor(max_workers=1) as pool:
        beside = None if busy_at is None else pool.submit(Storm([servers[busy_at]]).run, [busy], SECONDS)
        found = Storm([servers[0]]).run([quiet], SECONDS)
        others = [] if beside is None else beside.result(timeout=60)
    failed = [request for request in (*found, *others) if request.failed is not None]
    assert not failed, failed[0]
    return [1000 * (request.ended_s - request.began_s) for request in found if request.creates]


def main() -> int:
    spec = LabSpec(brokers=3, controllers=3, heap_mb=HEAP_MB, java_options=JAVA_OPTIONS, folder=in_memory())
    with Lab(spec) as lab:
        threading.Event().wait(_QUIET_S)
        sys.stdout.write(
            f"{'through':>18}{'creations':>11}" + "".join(f"{f'p{share:.0f}, ms':>10}" for share in SHARES) + "\n"
        )
        for turn in range(TURNS):
            for name, busy_at in _WAYS.items():
                took = took_ms(lab.bootstrap_servers.split(","), busy_at, turn)
                cells = "".join(f"{percentile(took, share) or 0.0:>10.0f}" for share in SHARES)
                sys.stdout.write(f"{name:>18}{len(took):>11}{cells}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
