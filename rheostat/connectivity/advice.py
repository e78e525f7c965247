"""Describes the results of probing a cluster's bootstrap servers, and what to do if none can be used."""

from __future__ import annotations

from collections.abc import Sequence

from rheostat.connectivity.connection import ProbeOutcome, ProbeResult

_REMEDIES = {
    ProbeOutcome.NO_ROUTE: "check {key}.bootstrap_servers, that the brokers run, and that no firewall blocks the port",
    ProbeOutcome.TLS: "compare {key}.security_protocol and {key}.ssl_* with the brokers' listener on this port",
    ProbeOutcome.LOGIN: (
        "check {key}.security_protocol, {key}.sasl_mechanism, {key}.sasl_username and {key}.sasl_password, or the token's "
        "issuer, audience and expiry, against the brokers' listener on this port"
    ),
    ProbeOutcome.NO_CREDENTIALS: "correct what the message names; {key}.sasl_* has the settings of the login",
    ProbeOutcome.NOT_KAFKA: "check the port in {key}.bootstrap_servers, and {key}.security_protocol",
    ProbeOutcome.SLOW: "read the broker's log: the broker or its disk may hang; a port forwarded to a dead address looks the same",
}


def is_connected(results: Sequence[ProbeResult]) -> bool:
    """Returns whether a server can be used. The probe ends with the first usable server, so its result is the last result."""
    return results[-1].outcome is ProbeOutcome.OPEN


def failure_text(results: Sequence[ProbeResult]) -> str:
    """Returns how the probe of each server failed."""
    return "; ".join(f"{result.outcome}: {result.text}" for result in _relevant(results))


def remedies(results: Sequence[ProbeResult], key: str) -> str:
    """Returns advice about the failures: what the operator should check.

    Args:
        key: the section of this cluster in the settings, e.g. ``kafka``.
    """
    return "; ".join(dict.fromkeys(_REMEDIES[result.outcome].format(key=key) for result in _relevant(results)))


def _relevant(results: Sequence[ProbeResult]) -> Sequence[ProbeResult]:
    """Returns the results to report: a failed login applies to the whole cluster, so it is reported alone."""
    is_login = results[-1].outcome in (ProbeOutcome.LOGIN, ProbeOutcome.NO_CREDENTIALS)
    return results[-1:] if is_login else results
