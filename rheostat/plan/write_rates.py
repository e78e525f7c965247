"""What is written to each partition: measured by watching the logs grow, or estimated from the signals topic at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from rheostat.config.settings import Settings
from rheostat.console.countdown import count_down
from rheostat.errors import CommandError
from rheostat.plan.cluster_layout import ClusterLayout, log_bytes
from streaming.shared.contract import BrokerSignal
from streaming.shared.kafka import consumer
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.units import span_text
from tuner.planning.plan_file import TopicPartition
from tuner.planning.shared_rates import shared_by_size
from tuner.runtime.observe.signals_reader import SignalReader

WATCHING = "Watching how fast the logs grow"
SIGNAL_AGE_S_MAX = 600.0  # NewestSignals forgets what is older.
_BACKLOG_RECORDS = 400

Say = Callable[[str], None]


class NoSignalsError(CommandError):
    """The signals do not say what is written to each broker."""


def write_rates(
    client: ClusterClient, settings: Settings, standing: ClusterLayout, watch_s: float, say: Say
) -> dict[TopicPartition, float]:
    """Returns bytes/s written to each partition; a log that shrinks (retention, compaction) counts as 0.

    Args:
        watch_s: how long the logs are watched; 0: the signals' rates are taken instead.

    Raises:
        NoSignalsError: they should be taken from the signals, which do not have them.
    """
    first, began_s = log_bytes(client, standing), time.monotonic()
    if watch_s == 0:
        leaders = {key: state.leader for key, state in standing.partitions.items() if key in first}
        return rates_from_signals(newest_brokers(client, settings), standing.brokers, leaders, first, say)
    count_down(watch_s, WATCHING, say)
    last = log_bytes(client, standing)
    took_s = max(time.monotonic() - began_s, 1e-3)
    return {key: max(0, size - first.get(key, size)) / took_s for key, size in last.items()}


def rates_from_signals(
    signals: Mapping[int, BrokerSignal],
    brokers: Sequence[int],
    leaders: Mapping[TopicPartition, int],
    size_bytes: Mapping[TopicPartition, float],
    say: Say,
    now_ms: int | None = None,
) -> dict[TopicPartition, float]:
    """Returns bytes/s by partition: each broker's BytesInPerSec, shared among the partitions that it leads.

    Raises:
        NoSignalsError: a broker that leads partitions has no signal with that figure.
    """
    at_ms = round(time.time() * 1000) if now_ms is None else now_ms
    leading = sorted(set(leaders.values()) & set(brokers))
    known = {b: s for b, s in signals.items() if (at_ms - s.sampled_at_ms) / 1000 <= SIGNAL_AGE_S_MAX}
    rates = {b: rate for b in leading if b in known and (rate := known[b].client_in_bytes_per_s) is not None}
    if missing := [b for b in leading if b not in rates]:
        raise NoSignalsError(
            f"--watch-s 0: no signal of the last {span_text(SIGNAL_AGE_S_MAX)} says what is written to broker "
            f"{', '.join(map(str, missing))}. Start `rheostat run`, or let this command watch the logs: --watch-s 10."
        )
    oldest_s = max((max(0.0, (at_ms - known[b].sampled_at_ms) / 1000) for b in leading), default=0.0)
    say(
        f"Write rates are estimates from signals up to {span_text(oldest_s)} old: what clients write to each broker, shared "
        "among the partitions it leads by the size of their logs. --watch-s 10 measures each partition."
    )
    return shared_by_size(rates, leaders, size_bytes)


def newest_brokers(client: ClusterClient, settings: Settings) -> dict[int, BrokerSignal]:
    """Returns the newest signal of each broker, however old; none where the topic is missing."""
    topic = settings.topic_names().signals
    if not client.partitions([topic]):
        return {}
    reader = consumer(settings.kafka, "rheostat-write-rates")
    try:
        signals = SignalReader(reader, topic, settings.cluster)
        signals.rewind(_BACKLOG_RECORDS)
    finally:
        reader.close(timeout_ms=2000)
    return signals.brokers
