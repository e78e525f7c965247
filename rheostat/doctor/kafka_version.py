"""Checks the version of Kafka that the brokers run."""

from __future__ import annotations

from collections.abc import Iterator

from rheostat.config.settings import Settings
from rheostat.doctor.findings import Finding, FindingVerdict
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.kafka.versions import (
    IDLE_RATIO_FROM,
    NEWEST_TESTED,
    OLDEST_SUPPORTED,
    BrokerVersion,
    Version,
    version_of,
)

_CHECK = "kafka version"


def kafka_version(client: ClusterClient, brokers: list[int], settings: Settings) -> Iterator[Finding]:
    """Yields findings with the versions of the brokers, and what these versions lack. Fails before 3.9 and in ZooKeeper mode."""
    answers = client.broker_versions(brokers)
    known = {broker: answer for broker, answer in sorted(answers.items()) if not isinstance(answer, ClusterError)}
    for broker, answer in sorted(answers.items()):
        if isinstance(answer, ClusterError):
            yield Finding(
                _CHECK, FindingVerdict.ADVICE, f"broker {broker} does not tell its version: {answer}", "see its log"
            )
    by_version: dict[BrokerVersion, list[int]] = {}
    for broker, version in known.items():
        by_version.setdefault(version, []).append(broker)
    for version, its_brokers in by_version.items():
        yield _judge(version, its_brokers, settings)


def _judge(broker_version: BrokerVersion, brokers: list[int], settings: Settings) -> Finding:
    """Returns the finding about brokers that report the same version."""
    named = f"broker {brokers[0]} runs" if len(brokers) == 1 else f"brokers {', '.join(map(str, brokers))} run"
    version, number = broker_version.version, broker_version.metadata_version_max
    if not broker_version.is_kraft:
        return Finding(
            _CHECK,
            FindingVerdict.FAILED,
            f"{named} in ZooKeeper mode; rheostat works with KRaft only",
            "migrate the cluster to KRaft with Kafka 3.9, the last version that has ZooKeeper mode",
        )
    if number is None or (version is not None and version < OLDEST_SUPPORTED):
        name = "a version before 3.0" if version is None else f"Kafka {_text(version)}"
        return Finding(
            _CHECK,
            FindingVerdict.FAILED,
            f"{named} {name}; rheostat works with Kafka {_text(OLDEST_SUPPORTED)} and newer",
            f"upgrade the brokers to Kafka {_text(OLDEST_SUPPORTED)} or newer",
        )
    if version is None:
        return Finding(
            _CHECK,
            FindingVerdict.ADVICE,
            f"{named} a version newer than Kafka {_text(NEWEST_TESTED)} (metadata.version {number}), with which this version of "
            "rheostat was not tested",
            "look for a newer version of rheostat, or begin with a dry run (tuner.dry_run: true)",
        )
    found = f"{named} Kafka {_text(version)} (metadata.version {number}{_still_used(broker_version)})"
    if version >= IDLE_RATIO_FROM:
        return Finding(_CHECK, FindingVerdict.OK, found)
    found += "; missing in this version: the metric of the controller's idle ratio"
    quotas = settings.tuner.mutation_quota
    if quotas is not None and quotas.objective.idle_ratio_min is not None:
        return Finding(
            _CHECK,
            FindingVerdict.ADVICE,
            found,
            "use another objective than tuner.mutation_quota.objective.idle_ratio_min, such as apply_lag_ms_max, or upgrade to "
            f"Kafka {_text(IDLE_RATIO_FROM)}: without the metric this objective has no effect",
        )
    return Finding(_CHECK, FindingVerdict.OK, found)


def _still_used(broker_version: BrokerVersion) -> str:
    """Returns the end of the text if the cluster uses an older metadata.version than its brokers support, as in an upgrade."""
    used = broker_version.metadata_version
    if used is None or used == broker_version.metadata_version_max:
        return ""
    version = version_of(used)
    return f"; the cluster still uses {used}" + (
        f", the version of Kafka {_text(version)}" if version is not None else ""
    )


def _text(version: Version) -> str:
    return ".".join(map(str, version))
