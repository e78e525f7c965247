"""Learns the p99 of a broker's clients while no broker copies replicas, neither between brokers nor between disks.

With ``objective.latency_ms: auto`` the objective of a broker is computed from this baseline. The baseline is a mean over half an
hour, or over all measurements so far if they cover less. It is exp(mean of log(p99)), which a single long pause hardly changes.

Invariant: while any broker copies, no baseline changes. Signals of the first minutes after the last copied bytes are not used
either, because a p99 covers minutes.
"""

from __future__ import annotations

import math
from dataclasses import replace

from streaming.shared.contract import BrokerSignal, MoveSignal
from tuner.core.broker_baseline import LATENCY_MS_MIN
from tuner.core.value import value

# Kafka's p99 covers the last thousand requests. If clients write less than this (at 16 kB a request), the thousand requests cover
# more than five minutes.
CLIENTS_BYTES_PER_S_MIN = 50_000.0
_MEMORY_S = 1800.0
_KNOWN_AFTER_S = 20.0
_STEP_S_MAX = 15.0  # A longer step counts like a step of this duration.
# The weights of requests in Kafka's p99 fall to a tenth in this time.
_AFTER_COPIES_MS = 150_000
_CLOCK_MS_MAX = 600_000  # A larger difference between two times comes from a wrong clock.


@value
class LatencyBaseline:
    """The latency of one broker's clients without a move.

    Attributes:
        sampled_at_ms: when the newest signal was measured; epoch.
        p99_ms: the baseline; 0: no signal was used yet.
        measured_s: total time that the used signals cover.
        mean_ms: the mean latency without a move; 0: it was not measured.
        counted_at_ms: when the newest used signal was measured; epoch.
    """

    sampled_at_ms: int
    p99_ms: float = 0.0
    measured_s: float = 0.0
    mean_ms: float = 0.0
    counted_at_ms: int = 0

    @property
    def is_known(self) -> bool:
        return self.p99_ms > 0.0 and self.measured_s >= _KNOWN_AFTER_S


def quiet_from_ms(before_ms: int, signal: BrokerSignal | MoveSignal) -> int:
    """Returns the time (epoch ms) from which signals may be used for baselines again, after one more signal.

    The time applies to all brokers, because clients of a broker that copies nothing may wait for a follower that copies.

    Args:
        before_ms: the result for the previous signal.
        signal: the signal of a broker, or of the moves of a side. Kafka's reassignment metrics, in the signals of brokers, do not
            include the bytes of recovering partitions; the signals of moves do.
    """
    if isinstance(signal, MoveSignal):
        is_copying = signal.moving_partitions > 0
    else:
        reassigned = signal.reassignment_in_bytes_per_s, signal.reassignment_out_bytes_per_s
        is_copying = any((*reassigned, signal.log_dir_copied_bytes_per_s))
    until_ms = signal.sampled_at_ms + _AFTER_COPIES_MS
    if not is_copying:
        until_ms = 0
    # A time far in the future comes from a wrong clock.
    return until_ms if before_ms - signal.sampled_at_ms > _CLOCK_MS_MAX else max(before_ms, until_ms)


def update_baseline(before: LatencyBaseline | None, signal: BrokerSignal, usable_from_ms: int) -> LatencyBaseline:
    """Returns the baseline after one more signal of its broker.

    Args:
        before: the previous baseline; None for the broker's first signal. A signal that is not newer changes nothing.
        signal: the newest signal of the broker.
        usable_from_ms: the result of ``quiet_from_ms``.
    """
    at_ms = signal.sampled_at_ms
    if before is None:
        before = LatencyBaseline(at_ms - 1)
    elif before.sampled_at_ms - at_ms > _CLOCK_MS_MAX:  # The newest signal had a wrong clock.
        before = replace(before, sampled_at_ms=at_ms - 1)
    elif at_ms <= before.sampled_at_ms:
        return before
    p99_ms = produce_p99_ms(signal)
    is_measured = signal.reassignment_in_bytes_per_s is not None and signal.reassignment_out_bytes_per_s is not None
    if p99_ms <= 0.0 or at_ms < usable_from_ms or not is_measured:
        return replace(before, sampled_at_ms=at_ms)
    step_s = min(_STEP_S_MAX, (at_ms - before.sampled_at_ms) / 1000)
    measured_s = before.measured_s + step_s
    weight = max(1.0 - math.exp(-step_s / _MEMORY_S), step_s / measured_s)
    return LatencyBaseline(
        at_ms,
        _log_mean(before.p99_ms, p99_ms, weight),
        measured_s,
        _log_mean(before.mean_ms, signal.produce_mean_ms or 0.0, weight),
        at_ms,
    )


def _log_mean(before_ms: float, new_ms: float, weight: float) -> float:
    """Returns the logarithmic mean after one more value; a value of 0 was not measured."""
    if before_ms < LATENCY_MS_MIN or new_ms < LATENCY_MS_MIN:
        return max(before_ms, new_ms)
    mean_ms: float = before_ms * (new_ms / before_ms) ** weight
    return mean_ms


def produce_p99_ms(signal: BrokerSignal) -> float:
    """Returns the produce p99 (ms); 0 if it is not known or not current.

    Kafka's p99 covers the last thousand requests. On a broker to which clients hardly write, those requests reach back to the start
    of the broker. Fetch times are not used: a consumer at the end of its topic waits for the next record, by default half a second.
    """
    p99_ms = signal.produce_p99_ms or 0.0
    return 0.0 if is_hardly_written(signal) or p99_ms < LATENCY_MS_MIN else p99_ms


def is_hardly_written(signal: BrokerSignal) -> bool:
    """Returns whether clients write so little to the broker that its p99 is not current."""
    return signal.client_in_bytes_per_s is not None and signal.client_in_bytes_per_s < CLIENTS_BYTES_PER_S_MIN
