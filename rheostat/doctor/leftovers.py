"""Checks for throttles that serve neither a move nor a replica that catches up, and that rheostat does not manage."""

from __future__ import annotations

from collections.abc import Iterator

from kafka.errors import KafkaError

from rheostat.config.settings import Settings
from rheostat.doctor.findings import Finding, FindingVerdict
from rheostat.errors import CommandError
from rheostat.orders import send
from rheostat.throttles.cluster_settings import read_throttle_settings
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.short_lists import join_names
from tuner.control.throttle.audit import Serves, ThrottleSettings, audit_lists, audit_log_dir_rates, audit_rates
from tuner.control.throttle.state import Memory
from tuner.core.cluster import side_name

_CHECK = "leftover throttles"
_NAMED_MAX = 5


def leftover_throttles(client: ClusterClient, settings: Settings) -> Iterator[Finding]:
    """Yields one finding. If the cluster or the journal cannot be read, it yields none: other checks name that problem."""
    try:
        throttles, memory = read_throttle_settings(client), send.read_orders(settings).memory
    except (ClusterError, CommandError, KafkaError):
        return
    names = leftover_names(throttles, memory)
    if not names:
        yield Finding(
            _CHECK, FindingVerdict.OK, "each throttle serves a move or a replica that catches up, or none is set"
        )
        return
    yield Finding(
        _CHECK,
        FindingVerdict.ADVICE,
        f"set, although no move and no recovery uses them: {join_names(names, _NAMED_MAX)}",
        "`rheostat throttles` shows them, and `rheostat throttles clear` removes them",
    )


def leftover_names(throttles: ThrottleSettings, memory: Memory) -> list[str]:
    """Returns the name of each unused throttle that rheostat does not manage."""
    rates = [
        side_name((rate.broker, rate.side)) if rate.broker is not None else f"{rate.side} throttle of all brokers"
        for rate in audit_rates(throttles, memory)
        if rate.serves is Serves.NOTHING and not rate.managed
    ]
    lists = [
        f"{replicas.side} list of topic {replicas.topic}"
        for replicas in audit_lists(throttles, memory)
        if replicas.serves is Serves.NOTHING and replicas.managed_entries == 0
    ]
    disks = [
        "log directory throttle of " + ("all brokers" if limit.broker is None else f"broker {limit.broker}")
        for limit in audit_log_dir_rates(throttles)
        if limit.serves is Serves.NOTHING
    ]
    return rates + lists + disks
