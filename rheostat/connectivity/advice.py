"""What is said of a way into a cluster that ended before its end, and what to do about it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rheostat.connectivity.connection import Reached, ReachedStage

_DO = {
    ReachedStage.NO_ROUTE: "check {key}.bootstrap_servers, that the brokers run, and that no firewall stands between",
    ReachedStage.TLS: "compare {key}.security_protocol and {key}.ssl_* with the brokers' listener on this port",
    ReachedStage.LOGIN: (
        "check {key}.security_protocol, {key}.sasl_mechanism, {key}.sasl_username and {key}.sasl_password against the "
        "brokers' listener on this port"
    ),
    ReachedStage.NOT_KAFKA: "check the port in {key}.bootstrap_servers, and {key}.security_protocol",
    ReachedStage.SLOW: "look into the broker's log: it, or its disk, may hang; a port forwarded to a dead address looks the same",
}


def is_open(reached: Sequence[Reached]) -> bool:
    return reached[-1].way is ReachedStage.OPEN


def why(reached: Sequence[Reached]) -> str:
    """Where the way through each server ended; a refused login settles it alone."""
    return "; ".join(f"{one.way}: {one.said}" for one in _telling(reached))


def remedies(reached: Sequence[Reached], key: str) -> str:
    """Args: key: where the settings of this cluster stand, e.g. ``kafka``."""
    return "; ".join(dict.fromkeys(_DO[one.way].format(key=key) for one in _telling(reached)))


def _telling(reached: Sequence[Reached]) -> Sequence[Reached]:
    return reached[-1:] if reached[-1].way is ReachedStage.LOGIN else reached
