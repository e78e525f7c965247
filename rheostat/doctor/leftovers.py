"""Checks for leftover throttles: those that `rheostat throttles clear` would remove."""

from __future__ import annotations

import time
from collections.abc import Iterator

from kafka.errors import KafkaError

from rheostat.config.settings import Settings
from rheostat.doctor.findings import Finding, FindingVerdict
from rheostat.errors import CommandError
from rheostat.orders import send
from rheostat.throttles.cluster_settings import read_throttle_settings
from rheostat.throttles.report import ThrottleHistory, throttle_rows
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.short_lists import join_names

_CHECK = "leftover throttles"
_NAMED_MAX = 5


def leftover_throttles(client: ClusterClient, settings: Settings) -> Iterator[Finding]:
    """Yields one finding. If the cluster or the journal cannot be read, it yields none: other checks name that problem."""
    try:
        throttles, recorded = read_throttle_settings(client), send.read_orders(settings)
    except (ClusterError, CommandError, KafkaError):
        return
    history = ThrottleHistory(recorded.memory, recorded.orders)
    rows = throttle_rows(throttles, history, traffic={}, now_ms=round(time.time() * 1000))
    names = [row.name for row in rows if row.can_be_cleared]
    if not names:
        yield Finding(_CHECK, FindingVerdict.OK, "none that `rheostat throttles clear` would remove")
        return
    yield Finding(
        _CHECK,
        FindingVerdict.ADVICE,
        f"set, although no move and no recovery uses them: {join_names(names, _NAMED_MAX)}",
        "`rheostat throttles` shows them, and `rheostat throttles clear` removes them",
    )
