"""Tracks the age of broker signals on arrival, and whether the newest signal is young enough for the tuner to be ready.

Signals older than the limit (``tuner.signal_age_s_max``) never raise a rate. Readiness has hysteresis: the tuner becomes ready with
a signal within the limit, and stops being ready when the newest signal is older than twice the limit. On a busy host, single
signals are a little older than the limit. Without hysteresis, a readiness probe would change with each of these signals.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import median

from tuner.core.value import value

UNREADY_AGE_RATIO = 2.0  # A ready tuner stops being ready at this multiple of the limit.
_AGES_KEPT = 60  # Five minutes of signals at one every 5 s.
_AGES_MIN = 5  # With fewer signals no usual age is reported.


@value
class SignalAges:
    """The time of the newest broker signal, and the ages of the last signals when the tuner first read them."""

    sampled_at_ms: int | None = None
    ages_s: tuple[float, ...] = ()
    ready: bool = False


def record_age(before: SignalAges, sampled_at_ms: int | None, now_ms: int, age_s_max: float) -> SignalAges:
    """Returns the state after one cycle.

    Args:
        sampled_at_ms: the time of the newest signal; None: there is none, or it was too old and was dropped.
    """
    after = before
    if sampled_at_ms is not None and sampled_at_ms != before.sampled_at_ms:
        ages_s = (*before.ages_s, _age_s(sampled_at_ms, now_ms))[-_AGES_KEPT:]
        after = replace(before, sampled_at_ms=sampled_at_ms, ages_s=ages_s)
    return replace(after, ready=is_ready(after, now_ms, age_s_max))


def is_ready(ages: SignalAges, now_ms: int, age_s_max: float) -> bool:
    """Whether the newest signal is within the limit, or within twice the limit if the tuner was ready before."""
    if ages.sampled_at_ms is None:
        return False
    return _age_s(ages.sampled_at_ms, now_ms) <= age_s_max * (UNREADY_AGE_RATIO if ages.ready else 1.0)


def explain_stale_signal(ages: SignalAges, now_ms: int, age_s_max: float) -> str | None:
    """Returns a sentence with the newest signal's age and the usual age; None if the signal is missing or within the limit."""
    if ages.sampled_at_ms is None or (age_s := _age_s(ages.sampled_at_ms, now_ms)) <= age_s_max:
        return None
    usual = f"signals are usually {median(ages.ages_s):.0f} s old here, " if len(ages.ages_s) >= _AGES_MIN else ""
    return f"the newest broker signal is {age_s:.0f} s old ({usual}limit {age_s_max:g} s)"


def _age_s(sampled_at_ms: int, now_ms: int) -> float:
    return max(0.0, (now_ms - sampled_at_ms) / 1000)
