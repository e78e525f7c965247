"""Reports the cordoned log directories with their owners, and cordons without effect at the cluster's metadata.version."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kafka.errors import KafkaError

from rheostat.config.settings import Settings
from rheostat.doctor.findings import Finding, FindingVerdict
from rheostat.errors import CommandError
from rheostat.orders import send
from rheostat.status.cordons import read_cordon_rows
from streaming.shared import kafka_names
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.kafka.cordons import cordons_missing

_CHECK = "cordons"


def cordons(client: ClusterClient, brokers: Collection[int], settings: Settings) -> Iterator[Finding]:
    """Yields a finding for each broker with cordoned log directories, or one finding for all brokers.

    Other checks report settings that cannot be read.
    """
    try:
        versions = client.broker_versions(brokers)
        memory = send.read_orders(settings).cordons
        rows = read_cordon_rows(client, brokers, memory)
        reasons = {b: cordons_missing(v) for b, v in versions.items() if not isinstance(v, ClusterError)}
        configured = client.broker_configs([b for b, why in reasons.items() if why], [kafka_names.CORDONED_LOG_DIRS])
    except (ClusterError, CommandError, KafkaError):
        return
    without_effect = {
        broker: reasons[broker]
        for broker, configs in sorted(configured.items())
        if not isinstance(configs, ClusterError)
        and configs.get(kafka_names.CORDONED_LOG_DIRS) is not None
        and configs[kafka_names.CORDONED_LOG_DIRS].value
    }
    for broker, why in without_effect.items():
        yield Finding(
            _CHECK,
            FindingVerdict.ADVICE,
            f"broker {broker} sets {kafka_names.CORDONED_LOG_DIRS}, which has no effect: {why}",
            "finish the upgrade, or remove the setting",
        )
    for row in rows:
        gone = f" Lift it with `rheostat release`, or remove {kafka_names.CORDONED_LOG_DIRS}." if row["managed"] else ""
        yield Finding(_CHECK, FindingVerdict.OK, f"{row['text'].rstrip('.')}: new replicas are not placed there.{gone}")
    if not rows and not without_effect:
        missing = next((f"broker {broker}: {why}" for broker, why in sorted(reasons.items()) if why), None)
        yield Finding(_CHECK, FindingVerdict.OK, "none" if missing is None else f"none ({missing})")
