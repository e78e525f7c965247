"""What is said of a way into a cluster that ended before its end, and what to do about it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rheostat.connectivity.connection import ProbeOutcome, ProbeResult

_DO = {
    ProbeOutcome.NO_ROUTE: "check {key}.bootstrap_servers, that the brokers run, and that no firewall stands between",
    ProbeOutcome.TLS: "compare {key}.security_protocol and {key}.ssl_* with the brokers' listener on this port",
    ProbeOutcome.LOGIN: (
        "check {key}.security_protocol, {key}.sasl_mechanism, {key}.sasl_username and {key}.sasl_password against the "
        "brokers' listener on this port"
    ),
    ProbeOutcome.NOT_KAFKA: "check the port in {key}.bootstrap_servers, and {key}.security_protocol",
    ProbeOutcome.SLOW: "look into the broker's log: it, or its disk, may hang; a port forwarded to a dead address looks the same",
}


def is_connected(reached: Sequence[ProbeResult]) -> bool:
    return reached[-1].way is ProbeOutcome.OPEN


def failure_text(reached: Sequence[ProbeResult]) -> str:
    """Where the way through each server ended; a refused login settles it alone."""
    return "; ".join(f"{one.way}: {one.said}" for one in _telling(reached))


def remedies(reached: Sequence[ProbeResult], key: str) -> str:
    """Args: key: where the settings of this cluster stand, e.g. ``kafka``."""
    return "; ".join(dict.fromkeys(_DO[one.way].format(key=key) for one in _telling(reached)))


def _telling(reached: Sequence[ProbeResult]) -> Sequence[ProbeResult]:
    return reached[-1:] if reached[-1].way is ProbeOutcome.LOGIN else reached
