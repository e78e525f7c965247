"""Checks for settings and topics that earlier commands or tools have left in the cluster: throttles, topics, a metering quota."""

from __future__ import annotations

import time
from collections.abc import Iterator

from kafka.errors import KafkaError

from rheostat.config.settings import Settings
from rheostat.doctor.findings import Finding, FindingVerdict
from rheostat.errors import CommandError
from rheostat.orders import send
from rheostat.quotas.calibrate.own_topics import find_leftovers, is_run_active
from rheostat.throttles.cluster_settings import read_throttle_settings
from rheostat.throttles.report import ThrottleHistory, throttle_rows
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.kafka.quotas import QuotaClient
from streaming.shared.short_lists import join_names
from streaming.shared.units import count_text
from tuner.control.mutation_quota.metering_trial import is_leftover
from tuner.core.operator_orders import QuotaTrialKind

_CHECK = "leftover throttles"
_TRIALS_CHECK = "leftovers of quota measurements"
_NAMED_MAX = 5


def leftover_throttles(client: ClusterClient, settings: Settings) -> Iterator[Finding]:
    """Yields one finding; none if the cluster or the journal cannot be read, which other checks report."""
    try:
        throttles, recorded = read_throttle_settings(client), send.read_orders(settings)
    except (ClusterError, CommandError, KafkaError):
        return
    managed = frozenset(recorded.log_dirs.owned)
    history = ThrottleHistory(recorded.memory, recorded.orders, managed_log_dirs=managed)
    rows = throttle_rows(throttles, history, traffic={}, now_ms=round(time.time() * 1000))
    names = [row.name for row in rows if row.can_be_cleared]
    if not names:
        yield Finding(_CHECK, FindingVerdict.OK, "none that `rheostat throttles clear` would remove")
        return
    yield Finding(
        _CHECK,
        FindingVerdict.ADVICE,
        f"set, although no move, no recovery and no offline broker needs them: {join_names(names, _NAMED_MAX)}",
        "`rheostat throttles` shows them, and `rheostat throttles clear` removes them",
    )


def leftover_trials(client: ClusterClient, settings: Settings) -> Iterator[Finding]:
    """Yields a finding about topics and a quota that killed `rheostat quotas` commands have left; none if nothing is left.

    Yields none if the cluster cannot be read, which other checks report.
    """
    quota_client = QuotaClient(settings.kafka, "rheostat-doctor")
    now_ms = round(time.time() * 1000)
    try:
        topics = find_leftovers(client, settings.topics.prefix)
        quotas, trials = quota_client.mutation_quotas(), send.read_orders(settings).orders.trials
    except (ClusterError, CommandError, KafkaError):
        return
    finally:
        quota_client.close()
    if topics and not is_run_active(trials.get(QuotaTrialKind.CALIBRATE), now_ms):
        yield Finding(
            _TRIALS_CHECK,
            FindingVerdict.ADVICE,
            f"a killed `rheostat quotas calibrate` has left {count_text(len(topics), 'topic')}: {join_names(topics, _NAMED_MAX)}",
            "`rheostat quotas calibrate --clear` deletes them",
        )
    if is_leftover(quotas, trials.get(QuotaTrialKind.MEASURE), now_ms):
        yield Finding(
            _TRIALS_CHECK,
            FindingVerdict.ADVICE,
            "a killed `rheostat quotas measure` has left the quota with which Kafka measured tenants; it is too high to limit one",
            "`rheostat quotas measure --clear` removes it",
        )
