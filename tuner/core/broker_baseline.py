"""What is usual on a broker while it copies no replicas: measured by this tuner, or learned from the history (`rheostat learn`)."""

from __future__ import annotations

import math

from streaming.shared.contract import BrokerProfile, LearnedCapacity, Side
from tuner.core.value import value

_HOUR_MS = 3_600_000
_PROFILE_MS_MAX = (
    24 * _HOUR_MS
)  # `rheostat learn` writes every hour. A profile that it has not renewed for a day is not used.
_CLOCK_MS_MAX = 600_000  # A profile from further in the future has a wrong clock.
# The profile says how the latency changes over the day. A factor outside this range is no change of the day.
_HOURS_RATIO_MAX = 3.0
# Steps between two powers of ten, by the first digit: up to 2, up to 5, and above.
_PARTS = ((2.0, 50), (5.0, 20), (math.inf, 10))


@value
class BrokerBaseline:
    """What is usual on one broker.

    Attributes:
        p99_ms: the p99 of its clients without copies, at this hour; None: not known.
        mean_ms: their mean latency without copies, at this hour; None: not known.
        is_learned: ``p99_ms`` is from the history, because this tuner has not yet seen the broker without copies.
        carried_in_bytes_per_s: the most that clients and replication together have sent to the broker with latency in order; None:
            not known. ``carried_out_bytes_per_s``: the most that the broker has sent.
    """

    p99_ms: float | None = None
    mean_ms: float | None = None
    is_learned: bool = False
    carried_in_bytes_per_s: float | None = None
    carried_out_bytes_per_s: float | None = None

    def carried_bytes_per_s(self, side: Side) -> float | None:
        return self.carried_out_bytes_per_s if side is Side.LEADER else self.carried_in_bytes_per_s


def baseline_now(
    measured: BrokerBaseline, measured_at_ms: int, profile: BrokerProfile | None, now_ms: int
) -> BrokerBaseline:
    """Returns what is usual on a broker now.

    A value that this tuner has measured counts more than the profile: the load may be new. Of the profile it takes how the latency
    changes from the hour of the measurement to this hour, which matters in moves of many hours.

    Args:
        measured: the latencies that this tuner has measured.
        measured_at_ms: when their newest signal was measured; epoch.
        profile: None: the broker has none.
    """
    if profile is None or not -_CLOCK_MS_MAX <= now_ms - profile.made_at_ms <= _PROFILE_MS_MAX:
        return BrokerBaseline(_rounded(measured.p99_ms), _rounded(measured.mean_ms))
    learned_ms, ratio = _learned_p99_ms(profile, now_ms), 1.0
    then_ms = _learned_p99_ms(profile, measured_at_ms)
    if learned_ms is not None and then_ms is not None:
        ratio = min(_HOURS_RATIO_MAX, max(1.0 / _HOURS_RATIO_MAX, learned_ms / then_ms))
    is_learned = measured.p99_ms is None and learned_ms is not None
    return BrokerBaseline(
        _rounded(learned_ms if is_learned else _scaled(measured.p99_ms, ratio)),
        _rounded(_scaled(measured.mean_ms, ratio)),
        is_learned=is_learned,
        carried_in_bytes_per_s=_carried(profile.capacity_in),
        carried_out_bytes_per_s=_carried(profile.capacity_out),
    )


def _carried(capacity: LearnedCapacity | None) -> float | None:
    return capacity.bytes_per_s if capacity is not None and capacity.bytes_per_s > 0.0 else None


def _scaled(latency_ms: float | None, ratio: float) -> float | None:
    return None if latency_ms is None else latency_ms * ratio


def _learned_p99_ms(profile: BrokerProfile, at_ms: int) -> float | None:
    """Returns the learned baseline of the hour of ``at_ms``; of the first hour, if the profile begins later."""
    step = profile.step_at(max(at_ms, profile.start_ms))
    if step is None or step >= len(profile.quiet_p99_ms):
        return None
    p99_ms = profile.quiet_p99_ms[step]
    return p99_ms if p99_ms is not None and p99_ms > 0.0 else None


def _rounded(latency_ms: float | None) -> float | None:
    """The value in steps of 1 to 2.5 %: objectives, records and texts change less often than the measured latency."""
    if latency_ms is None:
        return None
    power = 10.0 ** math.floor(math.log10(latency_ms))
    step = power / next(parts for below, parts in _PARTS if latency_ms < below * power)
    return float(f"{step * round(latency_ms / step):.3g}")
