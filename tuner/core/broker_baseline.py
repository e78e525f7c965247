"""What is usual on a broker while it copies no replicas: measured by this tuner, or learned from the history (`rheostat learn`)."""

from __future__ import annotations

from streaming.shared.contract import BrokerProfile, Side
from tuner.core.value import value

_HOUR_MS = 3_600_000
_PROFILE_MS_MAX = (
    24 * _HOUR_MS
)  # `rheostat learn` writes every hour. A profile that it has not renewed for a day is not used.
_CLOCK_MS_MAX = 600_000  # A profile from further in the future has a wrong clock.
# The profile says how the latency changes over the day. A factor outside this range is no change of the day.
_HOURS_RATIO_MAX = 3.0


@value
class BrokerBaseline:
    """What is usual on one broker.

    Attributes:
        p99_ms: the p99 of its clients without copies, at this hour; None: not known.
        is_learned: ``p99_ms`` is from the history, because this tuner has not yet seen the broker without copies.
        carried_in_bytes_per_s: the most that clients and replication together have sent to the broker with latency in order; None:
            not known. ``carried_out_bytes_per_s``: the most that the broker has sent.
    """

    p99_ms: float | None = None
    is_learned: bool = False
    carried_in_bytes_per_s: float | None = None
    carried_out_bytes_per_s: float | None = None

    def carried_bytes_per_s(self, side: Side) -> float | None:
        return self.carried_out_bytes_per_s if side is Side.LEADER else self.carried_in_bytes_per_s


def baseline_now(
    measured_p99_ms: float | None, measured_at_ms: int, profile: BrokerProfile | None, now_ms: int
) -> BrokerBaseline:
    """Returns what is usual on a broker now.

    A value that this tuner has measured counts more than the profile: the load may be new. Of the profile it takes how the latency
    changes from the hour of the measurement to this hour, which matters in moves of many hours.

    Args:
        measured_p99_ms: the baseline that this tuner has measured; None if it has none.
        measured_at_ms: when the newest signal of that baseline was measured; epoch.
        profile: None: the broker has none.
    """
    if profile is None or not -_CLOCK_MS_MAX <= now_ms - profile.made_at_ms <= _PROFILE_MS_MAX:
        return BrokerBaseline(_rounded(measured_p99_ms))
    p99_ms, learned_ms = measured_p99_ms, _learned_p99_ms(profile, now_ms)
    if p99_ms is not None:
        then_ms = _learned_p99_ms(profile, measured_at_ms)
        if learned_ms is not None and then_ms is not None:
            p99_ms *= min(_HOURS_RATIO_MAX, max(1.0 / _HOURS_RATIO_MAX, learned_ms / then_ms))
    carried_in, carried_out = profile.capacity_in, profile.capacity_out
    return BrokerBaseline(
        _rounded(learned_ms if p99_ms is None else p99_ms),
        is_learned=p99_ms is None and learned_ms is not None,
        carried_in_bytes_per_s=carried_in.bytes_per_s
        if carried_in is not None and carried_in.bytes_per_s > 0.0
        else None,
        carried_out_bytes_per_s=carried_out.bytes_per_s
        if carried_out is not None and carried_out.bytes_per_s > 0.0
        else None,
    )


def _learned_p99_ms(profile: BrokerProfile, at_ms: int) -> float | None:
    """Returns the learned baseline of the hour of ``at_ms``; of the first hour, if the profile begins later."""
    step = profile.step_at(max(at_ms, profile.start_ms))
    if step is None or step >= len(profile.quiet_p99_ms):
        return None
    p99_ms = profile.quiet_p99_ms[step]
    return p99_ms if p99_ms is not None and p99_ms > 0.0 else None


def _rounded(p99_ms: float | None) -> float | None:
    """The value with two digits: objectives, records and texts change less often than the measured p99."""
    return None if p99_ms is None else float(f"{p99_ms:.2g}")
