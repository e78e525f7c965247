"""Finds other principals that may write to topics that a tuner reads: orders, journal, signals, history and profiles."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from rheostat.config.settings import Settings
from rheostat.doctor.findings import Finding, FindingVerdict
from streaming.shared.kafka import KafkaSettings
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, MissingPermission
from streaming.shared.short_lists import join_names

_EVERYBODY = "User:*"
_NAMES_MAX = 10


def writers(
    client: ClusterClient, settings: Settings, kafka: KafkaSettings, used: Collection[str]
) -> Iterator[Finding]:
    """Yields a finding for each topic, from the cluster's ACLs; only one finding if the ACLs cannot be read.

    Args:
        kafka: the connection of ``client``.
        used: the topics that this cluster has.
    """
    names = settings.topic_names()
    own_principal = f"User:{kafka.sasl_username}" if kafka.sasl_username else None
    for topic, effect in (
        (names.orders, "may pause, override and move partitions through rheostat"),
        (names.journal, "may change which settings a tuner regards as rheostat's own"),
        (names.signals, "may give a tuner false measurements, within the bounds of the settings"),
        (names.history, "may give `rheostat learn` a false history"),
        (names.profiles, "may give a tuner false usual latencies and capacities, within the bounds of the settings"),
    ):
        if topic not in used:
            continue
        check = f"writers of {topic}"
        try:
            principals = client.writers(topic)
        except MissingPermission as error:
            yield Finding(
                check,
                FindingVerdict.ADVICE,
                f"not known: missing right: {error.right}",
                "run the doctor once as a user that may describe the cluster",
            )
            return
        except ClusterError as error:
            yield Finding(check, FindingVerdict.ADVICE, f"not known: {error}", "see the brokers' logs")
            return
        if principals is None or _EVERYBODY in principals:
            why = "the cluster has no authorizer" if principals is None else "an ACL allows it"
            yield Finding(
                check,
                FindingVerdict.ADVICE,
                f"every client that can reach the brokers {effect}: {why}",
                "restrict Write to the principals that docs/reference/permissions.md names",
            )
            if principals is None:
                return  # Without an authorizer the result is the same for the other topics.
            continue
        other_principals = sorted(principals - {own_principal})
        if not other_principals:
            yield Finding(
                check, FindingVerdict.OK, "the ACLs allow no other principal; superusers are not visible in the ACLs"
            )
            continue
        yield Finding(
            check,
            FindingVerdict.ADVICE,
            f"{join_names(other_principals, _NAMES_MAX)}: each {effect}",
            "restrict Write to the principals that docs/reference/permissions.md names",
        )
