"""Computes the baseline of a broker: the latency of its clients while no broker of the cluster copies replicas.

The baseline is measured by this tuner, or learned by `rheostat learn` from the history.
"""

from __future__ import annotations

import math

from streaming.shared.contract import BrokerProfile, LearnedCapacity, Side
from tuner.core.forecast import PROFILE_AGE_S_MAX
from tuner.core.value import value

LATENCY_MS_MIN = 1e-3  # No request is answered faster, so a lower value is not a measurement.
_HOUR_MS, _WEEK_H, _DAY_S = 3_600_000, 168, 86_400
_HISTORY_S_MIN = 3600.0  # Minutes of history say little about the latency.
_CLOCK_MS_MAX = 600_000  # A profile that was made further in the future comes from a wrong clock.
# The proven capacity counts in full for two weeks. Then it is halved every two weeks.
_FRESH_S, _HALF_LIFE_S = 14.0 * _DAY_S, 14.0 * _DAY_S
# The profile scales a measured latency from its hour to this hour. A factor above this, or below 1 ÷ this, is not plausible.
_HOURS_RATIO_MAX = 3.0
# A value between 10^n and 10^(n+1) is rounded to steps of 10^n ÷ parts. Each pair: upper limit of the value ÷ 10^n, and parts.
_PARTS = ((2.0, 50), (5.0, 20), (math.inf, 10))


@value
class BrokerBaseline:
    """The baseline of one broker.

    Attributes:
        p99_ms: the p99 of the broker's clients without copies, at this hour; None: not known.
        mean_ms: the mean latency of the broker's clients without copies, at this hour; None: not known.
        is_learned: ``p99_ms`` is from the history, because this tuner has not yet seen the broker without copies.
        carried_in_bytes_per_s: proven capacity: the highest rate that clients and replication together have sent to the broker
            while latency was normal; None: not known.
        carried_out_bytes_per_s: the same for the bytes that the broker has sent.
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
    """Returns the baseline of a broker now.

    A measured value has priority over the profile, because the load may be new. The profile then only scales the measured value
    from the hour of the measurement to this hour. This matters in moves of many hours.

    Args:
        measured: the latencies that this tuner has measured.
        measured_at_ms: time of the newest signal in ``measured``; epoch.
        profile: what `rheostat learn` knows about the broker; None: the broker has no profile.
    """
    if profile is None or not _is_usable(profile, now_ms):
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
        carried_in_bytes_per_s=_carried(profile.capacity_in, now_ms),
        carried_out_bytes_per_s=_carried(profile.capacity_out, now_ms),
    )


def _is_usable(profile: BrokerProfile, now_ms: int) -> bool:
    age_ms = now_ms - profile.made_at_ms
    return -_CLOCK_MS_MAX <= age_ms <= PROFILE_AGE_S_MAX * 1000 and profile.history_s >= _HISTORY_S_MIN


def _carried(capacity: LearnedCapacity | None, now_ms: int) -> float | None:
    if capacity is None or capacity.bytes_per_s <= 0.0:
        return None
    age_s = max(0.0, (now_ms - capacity.seen_at_ms) / 1000 - _FRESH_S)
    weight: float = 0.5 ** (age_s / _HALF_LIFE_S)
    return capacity.bytes_per_s * weight


def _scaled(latency_ms: float | None, ratio: float) -> float | None:
    return None if latency_ms is None else latency_ms * ratio


def _learned_p99_ms(profile: BrokerProfile, at_ms: int) -> float | None:
    """Returns the learned baseline of the hour of ``at_ms``.

    For a time before the profile's first hour, returns the baseline of the same hour of the week.
    """
    step = (at_ms - profile.start_ms) // _HOUR_MS
    if step < 0:
        step %= _WEEK_H
    if step >= len(profile.quiet_p99_ms):
        return None
    p99_ms = profile.quiet_p99_ms[step]
    return p99_ms if p99_ms is not None and p99_ms >= LATENCY_MS_MIN else None


def _rounded(latency_ms: float | None) -> float | None:
    """Returns the value rounded to steps of 1 to 2.5 %, so that objectives, records and texts seldom change."""
    if latency_ms is None or latency_ms < LATENCY_MS_MIN or not math.isfinite(latency_ms):
        return None
    power = 10.0 ** math.floor(math.log10(latency_ms))
    step = power / next(parts for below, parts in _PARTS if latency_ms < below * power)
    return float(f"{step * round(latency_ms / step):.3g}")
