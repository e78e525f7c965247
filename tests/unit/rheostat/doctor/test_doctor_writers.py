"""The doctor's findings about other principals that may write to rheostat's topics."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

from rheostat.config.settings import Settings
from rheostat.doctor.examine import Finding, FindingVerdict
from rheostat.doctor.writers import writers
from streaming.shared.kafka.cluster import ClusterError, MissingPermission

SETTINGS = Settings.model_validate(
    {
        "cluster": "c",
        "kafka": {
            "bootstrap_servers": "k:1", "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN",
            "sasl_username": "rheostat", "sasl_password": "x",
        },
        "stream": {"checkpoint_dir": "/tmp/x"},
        "tuner": {"rate_bytes_per_s_max": 1e8},
    }
)  # fmt: skip


def said(**by_topic: set[str] | ClusterError | None) -> list[Finding]:
    class Client:
        def writers(self, topic: str) -> set[str] | None:
            found = by_topic[topic.removeprefix("rheostat.")]
            if isinstance(found, ClusterError):
                raise found
            return found

    client: Any = Client()
    return list(writers(client, SETTINGS, SETTINGS.kafka, astuple(SETTINGS.topic_names())))


def test_writers_names_all_but_the_own_principal() -> None:
    many = {f"User:u{n:02}" for n in range(12)}
    orders, journal, signals, history, profiles = said(
        orders={"User:rheostat", "User:kim"},
        journal={"User:rheostat"},
        signals=many,
        history={"User:eve"},
        profiles={"User:eve", "User:rheostat"},
    )
    assert (orders.check, orders.verdict) == ("writers of rheostat.orders", FindingVerdict.ADVICE)
    assert orders.found == "User:kim: each may pause, override and move partitions through rheostat"
    assert "docs/reference/permissions.md" in orders.do
    assert journal.verdict is FindingVerdict.OK
    assert signals.found.startswith("User:u00, ")
    assert "User:u09 and 2 more: each may give a tuner false measurements" in signals.found
    assert history.found == "User:eve: each may give `rheostat learn` a false history"
    assert (profiles.check, profiles.verdict) == ("writers of rheostat.profiles", FindingVerdict.ADVICE)
    assert profiles.found.startswith("User:eve: each may give a tuner false usual latencies and capacities")


def test_writers_without_authorizer_give_one_advice() -> None:
    (finding,) = said(orders=None)
    assert finding.verdict is FindingVerdict.ADVICE
    assert finding.found.startswith("every client that can reach the brokers may pause")
    assert finding.found.endswith("the cluster has no authorizer")


def test_writers_open_to_all_users_are_named_per_topic() -> None:
    findings = said(orders={"User:*"}, journal=set(), signals={"User:*"}, history=set(), profiles=set())
    assert [f.verdict for f in findings[:3]] == [FindingVerdict.ADVICE, FindingVerdict.OK, FindingVerdict.ADVICE]
    assert [f.verdict for f in findings[3:]] == [FindingVerdict.OK, FindingVerdict.OK]
    assert findings[0].found.endswith("an ACL allows it")


def test_writers_that_cannot_be_read_are_advice() -> None:
    for error in (MissingPermission("Describe on Cluster", "to describe ACLs"), ClusterError("nobody answers")):
        (finding,) = said(orders=error)
        assert finding.verdict is FindingVerdict.ADVICE
        assert finding.found.startswith("not known: ")
