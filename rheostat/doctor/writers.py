"""Finds other clients that may write to the topics that control a tuner: orders, journal and signals."""

from __future__ import annotations

from collections.abc import Iterator

from rheostat.config.settings import Settings
from rheostat.doctor.findings import Finding, FindingVerdict
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, MissingPermission
from streaming.shared.short_lists import join_names

_EVERYBODY = "User:*"
_NAMES_MAX = 10


def writers(client: ClusterClient, settings: Settings) -> Iterator[Finding]:
    """One finding a topic, by the cluster's ACLs."""
    names = settings.topic_names()
    ours = f"User:{settings.kafka.sasl_username}" if settings.kafka.sasl_username else None
    for topic, follows in (
        (names.orders, "may pause, override and move partitions through rheostat"),
        (names.journal, "may make a tuner forget or believe what is rheostat's own"),
        (names.signals, "may make a tuner believe what brokers measure, within the bounds of the settings"),
    ):
        check = f"writers of {topic}"
        try:
            found = client.writers(topic)
        except MissingPermission as error:
            yield Finding(
                check,
                FindingVerdict.ADVICE,
                f"cannot be seen: missing right: {error.right}",
                "run the doctor once as a user that may describe the cluster",
            )
            return
        except ClusterError as error:
            yield Finding(check, FindingVerdict.ADVICE, f"cannot be seen: {error}", "see the brokers' logs")
            return
        if found is None or _EVERYBODY in found:
            why = "the cluster has no authorizer" if found is None else "an ACL allows it"
            yield Finding(
                check,
                FindingVerdict.ADVICE,
                f"every client that reaches the brokers {follows}: {why}",
                "restrict Write to the principals that docs/reference/permissions.md names",
            )
            if found is None:
                return  # The same of the others.
            continue
        others = sorted(found - {ours})
        if not others:
            yield Finding(check, FindingVerdict.OK, "no other principal by ACLs; superusers are not seen here")
            continue
        yield Finding(
            check,
            FindingVerdict.ADVICE,
            f"{join_names(others, _NAMES_MAX)}: each {follows}",
            "leave Write to the principals that docs/reference/permissions.md names",
        )
