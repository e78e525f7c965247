"""How late do broker signals come here, and are they young enough to call the tuner ready?

The age limit (``tuner.signal_age_s_max``) decides at once what may be done: older signals never raise a rate. Readiness is for
probes and people, and has hysteresis. On a busy host signals are now and then a little older than the limit, and a probe that
changes its answer with each of them tells nothing. So the tuner becomes ready with a signal within the limit, and stops being
ready when the newest one is twice as old.
"""

from __future__ import annotations

from statistics import median

from tuner.core.value import value

READY_LIMITS = 2.0
_AGES_KEPT = 60  # Five minutes of signals at one every 5 s.
_AGES_MIN = 5  # With fewer, nothing is called usual.


@value
class SignalAges:
    """The newest broker signal, and how old those before it were when each was first looked at."""

    sampled_at_ms: int | None = None
    ages_s: tuple[float, ...] = ()
    ready: bool = False


def record_age(before: SignalAges, sampled_at_ms: int | None, now_ms: int, age_s_max: float) -> SignalAges:
    """The state after one look.

    Args:
        sampled_at_ms: of the newest signal; None: there is none, or it was so old that it was dropped.
    """
    after = before
    if sampled_at_ms is not None and sampled_at_ms != before.sampled_at_ms:
        ages_s = (*before.ages_s, _age_s(sampled_at_ms, now_ms))[-_AGES_KEPT:]
        after = SignalAges(sampled_at_ms, ages_s, before.ready)
    return SignalAges(after.sampled_at_ms, after.ages_s, is_ready(after, now_ms, age_s_max))


def is_ready(ages: SignalAges, now_ms: int, age_s_max: float) -> bool:
    if ages.sampled_at_ms is None:
        return False
    return _age_s(ages.sampled_at_ms, now_ms) <= age_s_max * (READY_LIMITS if ages.ready else 1.0)


def explain_stale_signal(ages: SignalAges, now_ms: int, age_s_max: float) -> str | None:
    """The age of the newest signal beside what is usual, in words; None where it is within the limit or there is none."""
    if ages.sampled_at_ms is None or (age_s := _age_s(ages.sampled_at_ms, now_ms)) <= age_s_max:
        return None
    usual = f"signals are usually {median(ages.ages_s):.0f} s old here, " if len(ages.ages_s) >= _AGES_MIN else ""
    return f"the newest broker signal is {age_s:.0f} s old ({usual}limit {age_s_max:g} s)"


def _age_s(sampled_at_ms: int, now_ms: int) -> float:
    return max(0.0, (now_ms - sampled_at_ms) / 1000)
