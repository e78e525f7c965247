"""Learns the p99 that the clients of a broker have while it copies no replicas, neither between brokers nor between its disks.

With ``objective.latency_ms: auto`` the objective of a broker follows from this baseline. The baseline is a mean over half an hour,
or over less until so much was measured. It is a mean of logarithms, in which a single long pause counts little.

Invariant: a signal with copied bytes does not change a baseline. A p99 covers minutes, so neither do the signals of the minutes
after the last copied bytes.
"""

from __future__ import annotations

import math

from streaming.shared.contract import BrokerSignal
from tuner.core.value import value

# Kafka's p99 covers the last thousand requests. With fewer writes (at 16 kB a request) these reach back more than five minutes.
CLIENTS_BYTES_PER_S_MIN = 50_000.0
_MEMORY_S = 1800.0
_KNOWN_AFTER_S = 20.0
_STEP_S_MAX = 60.0  # A later signal counts as this long.
# The weights of requests in Kafka's p99 fall to a tenth in this time.
_AFTER_MOVE_MS = 150_000


@value
class LatencyBaseline:
    """What is known about the latency of one broker's clients without a move.

    Attributes:
        sampled_at_ms: when the newest signal was measured; epoch.
        p99_ms: the baseline; 0: no signal has counted yet.
        measured_s: time that the signals cover which have counted.
        quiet_from_ms: signals count from this time on; epoch.
    """

    sampled_at_ms: int
    p99_ms: float = 0.0
    measured_s: float = 0.0
    quiet_from_ms: int = 0

    @property
    def is_known(self) -> bool:
        return self.p99_ms > 0.0 and self.measured_s >= _KNOWN_AFTER_S

    @property
    def rounded_p99_ms(self) -> float:
        """The baseline with two digits: objectives, records and texts change less often than the measured p99."""
        return float(f"{self.p99_ms:.2g}")


def update_baseline(before: LatencyBaseline | None, signal: BrokerSignal) -> LatencyBaseline:
    """Returns the baseline after one more signal of its broker.

    Args:
        before: the baseline before; None for the broker's first signal. A signal that is not newer changes nothing.
        signal: the newest signal of the broker.
    """
    if before is None:
        before = LatencyBaseline(signal.sampled_at_ms - 1)
    elif signal.sampled_at_ms <= before.sampled_at_ms:
        return before
    at_ms, quiet_from_ms = signal.sampled_at_ms, before.quiet_from_ms
    copied = signal.reassignment_in_bytes_per_s, signal.reassignment_out_bytes_per_s, signal.log_dir_copied_bytes_per_s
    if any(copied):
        quiet_from_ms = at_ms + _AFTER_MOVE_MS
    p99_ms = produce_p99_ms(signal)
    if p99_ms <= 0.0 or at_ms < quiet_from_ms:
        return LatencyBaseline(at_ms, before.p99_ms, before.measured_s, quiet_from_ms)
    step_s = min(_STEP_S_MAX, (at_ms - before.sampled_at_ms) / 1000)
    measured_s = before.measured_s + step_s
    if before.p99_ms > 0.0:
        weight = max(1.0 - math.exp(-step_s / _MEMORY_S), step_s / measured_s)
        p99_ms = before.p99_ms * (p99_ms / before.p99_ms) ** weight
    return LatencyBaseline(at_ms, p99_ms, measured_s, quiet_from_ms)


def produce_p99_ms(signal: BrokerSignal) -> float:
    """Returns the produce p99 (ms); 0 if it is not known or says nothing.

    Kafka's p99 covers the last thousand requests. On a broker that clients hardly write to, those reach back to its start. Fetch
    times are not used: a consumer at the end of its topic waits for the next record, by default half a second.
    """
    return 0.0 if is_hardly_written(signal) else signal.produce_p99_ms or 0.0


def is_hardly_written(signal: BrokerSignal) -> bool:
    """Returns whether clients write so little to the broker that its p99 says nothing about the present."""
    return signal.client_in_bytes_per_s is not None and signal.client_in_bytes_per_s < CLIENTS_BYTES_PER_S_MIN


def lowest_p99_ms(p99_ms: float, before_ms: float) -> float:
    """Returns the lower of both; 0 stands for a p99 that was not measured. It stands for a baseline that is not known."""
    return min(p99_ms, before_ms) if p99_ms > 0.0 and before_ms > 0.0 else max(p99_ms, before_ms)
