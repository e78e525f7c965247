"""Reports whether Kafka or rheostat elects preferred leaders, and the effect on clients if Kafka does."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from rheostat.config.settings import Settings
from rheostat.doctor.findings import Finding, FindingVerdict
from streaming.shared import kafka_names
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.kafka.leader_elections import electing_brokers
from streaming.shared.short_lists import join_names

_CHECK = "preferred leaders"
_NAMED_MAX = 5
_KEY = kafka_names.AUTO_LEADER_REBALANCE


def leadership(client: ClusterClient, brokers: Collection[int], settings: Settings) -> Iterator[Finding]:
    """Yields a finding, unless a setting cannot be read, which other checks report."""
    try:
        electing = electing_brokers(client, brokers)
    except ClusterError:
        return
    if electing is None:
        return
    acts = settings.tuner.leadership == "act"
    if not electing:
        now = "rheostat elects them" if acts else "no program elects them until tuner.leadership is act"
        yield Finding(_CHECK, FindingVerdict.OK, f"Kafka does not elect preferred leaders ({_KEY} is false): {now}")
        return
    named = "all brokers" if len(electing) == len(brokers) else f"broker {join_names(sorted(electing), _NAMED_MAX)}"
    found = (
        f"Kafka elects preferred leaders itself ({_KEY} is true on {named}): a broker that returns gets leaders back, all at "
        "once, while it "
        f"still copies its other partitions{_check_text(client, brokers)}. Meanwhile the p99 latency of producers may be 3 to 10 "
        "times its usual value (apache/kafka, pull request 22934)"
    )
    remedy = f"set {_KEY} to false on all brokers and controllers, and restart them"
    if acts:
        # The operator expects elections by rheostat, but rheostat makes none.
        yield Finding(_CHECK, FindingVerdict.ADVICE, f"{found}. So rheostat elects no leaders", remedy)
    else:
        yield Finding(
            _CHECK, FindingVerdict.OK, f"{found}. To let rheostat elect them, {remedy}, and set tuner.leadership: act"
        )


def _check_text(client: ClusterClient, brokers: Collection[int]) -> str:
    """Returns how often Kafka looks for such partitions, as the brokers' settings say; empty if they cannot be read."""
    answers = client.broker_configs(brokers, [kafka_names.LEADER_CHECK_S, kafka_names.LEADER_IMBALANCE_PERCENT])
    known = [configs for configs in answers.values() if not isinstance(configs, ClusterError)]
    if len(known) < len(brokers):
        return ""
    default = str(kafka_names.LEADER_CHECK_S_DEFAULT)
    periods = {int(c[kafka_names.LEADER_CHECK_S].value if kafka_names.LEADER_CHECK_S in c else default) for c in known}
    period = f"{min(periods)} s" if len(periods) == 1 else f"{min(periods)} to {max(periods)} s"
    text = (
        f"; Kafka looks for such partitions every {period} ({kafka_names.LEADER_CHECK_S} of the brokers; the controllers use "
        "their own value)"
    )
    if any(kafka_names.LEADER_IMBALANCE_PERCENT in configs for configs in known):
        text += f", and {kafka_names.LEADER_IMBALANCE_PERCENT} has no effect in KRaft mode"
    return text
