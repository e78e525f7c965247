"""Compares the produce latency of a broker with its limit."""

from __future__ import annotations

from streaming.shared.contract import BrokerSignal
from tuner.control.throttle.steering.latency_baseline import CLIENTS_BYTES_PER_S_MIN, produce_p99_ms
from tuner.control.throttle.steering.present_latency import PresentLatency
from tuner.core.latency_limit import LatencyLimit, LatencySource


def latency_ratio(present: PresentLatency, signal: BrokerSignal, limit: LatencyLimit | None) -> float | None:
    """Returns the current produce p99 ÷ its limit. With a baseline: the rise above the baseline ÷ the permitted rise.

    The result is 0 if clients hardly write, and None if the latency or its limit is not known.
    """
    if signal.produce_p99_ms is None and signal.client_in_bytes_per_s is None:
        return None
    p99_ms = produce_p99_ms(signal)
    if p99_ms == 0.0 and (signal.client_in_bytes_per_s or 0.0) >= CLIENTS_BYTES_PER_S_MIN:
        return None
    if p99_ms == 0.0:
        return 0.0
    if limit is None:
        return None
    is_fixed = limit.source is LatencySource.SETTINGS
    return present.p99_ms / limit.p99_ms_max if is_fixed else limit.rise_ratio(present.p99_ms)
