"""Finds the write rate of each partition: measures how fast its log grows, or estimates it from the newest signals."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from rheostat.broker_signals import read_broker_signals
from rheostat.config.settings import Settings
from rheostat.console.countdown import count_down
from rheostat.errors import CommandError
from rheostat.plan.cluster_layout import ClusterLayout, read_log_bytes
from streaming.shared.contract import BrokerSignal
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.units import span_text
from tuner.core.reassignment_plan import TopicPartition
from tuner.planning.shared_rates import divide_by_size

WATCHING = "Watching how fast the logs grow"
SIGNAL_AGE_S_MAX = 600.0  # SignalCache forgets older signals.

Notify = Callable[[str], None]  # Shows a line to the operator.


class NoSignalsError(CommandError):
    """The signals lack the write rate of a broker."""


def measure_write_rates(
    client: ClusterClient, settings: Settings, layout: ClusterLayout, measure_s: float, notify: Notify
) -> dict[TopicPartition, float]:
    """Returns the write rate of each partition in bytes/s; it is 0 if the log shrinks (retention, compaction).

    Args:
        measure_s: how long to watch the logs; 0 means that the rates are estimated from the signals.

    Raises:
        NoSignalsError: ``measure_s`` is 0, and the signals lack the rate of a broker.
    """
    first = read_log_bytes(client, layout)
    began_s = time.monotonic()
    if measure_s == 0:
        leaders = {key: state.leader for key, state in layout.partitions.items() if key in first}
        return estimate_write_rates(read_broker_signals(client, settings), layout.brokers, leaders, first, notify)
    count_down(measure_s, WATCHING, notify)
    last = read_log_bytes(client, layout)
    watched_s = max(time.monotonic() - began_s, 1e-3)
    return {key: max(0, size - first.get(key, size)) / watched_s for key, size in last.items()}


def estimate_write_rates(
    signals: Mapping[int, BrokerSignal],
    brokers: Sequence[int],
    leaders: Mapping[TopicPartition, int],
    size_bytes: Mapping[TopicPartition, float],
    notify: Notify,
    now_ms: int | None = None,
) -> dict[TopicPartition, float]:
    """Returns bytes/s by partition: each broker's BytesInPerSec, divided among its partitions in proportion to their size.

    Raises:
        NoSignalsError: a broker that leads partitions has no recent signal with BytesInPerSec.
    """
    at_ms = round(time.time() * 1000) if now_ms is None else now_ms
    leading = sorted(set(leaders.values()) & set(brokers))
    recent = {b: s for b, s in signals.items() if (at_ms - s.sampled_at_ms) / 1000 <= SIGNAL_AGE_S_MAX}
    rates = {b: rate for b in leading if b in recent and (rate := recent[b].client_in_bytes_per_s) is not None}
    if missing := [b for b in leading if b not in rates]:
        raise NoSignalsError(
            f"--measure-for 0: no signal of the last {span_text(SIGNAL_AGE_S_MAX)} contains the write rate of clients on broker "
            f"{', '.join(map(str, missing))}. Start `rheostat run`, or let this command measure the rate: --measure-for 10s."
        )
    ages_s = [(at_ms - recent[b].sampled_at_ms) / 1000 for b in leading]
    age_s_max = max([0.0, *ages_s])  # An age is negative if the broker's clock is ahead.
    notify(
        f"Write rates are estimates from signals up to {span_text(age_s_max)} old: the rate that clients write to each broker, "
        "divided among the partitions that it leads by the size of their logs. --measure-for 10s measures each partition."
    )
    return divide_by_size(rates, leaders, size_bytes)
