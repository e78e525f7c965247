"""The usual lag: a median of hours, which a short incident does not change, and which expires."""

from __future__ import annotations

from tuner.control.replication_lag.usual import SPAN_MS, SPANS_MAX, UsualLag, remember

MINUTE_MS = 60_000


def after(lags: list[float], known: dict[int, UsualLag] | None = None, start_ms: int = 0) -> dict[int, UsualLag]:
    """Returns the memory after one lag of broker 1 each minute."""
    known = known or {}
    for n, lag in enumerate(lags):
        known = remember(known, {1: lag}, start_ms + n * MINUTE_MS)
    return known


def test_usual_lag_is_unknown_for_half_an_hour() -> None:
    assert after([100.0] * 30)[1].usual_messages() is None
    assert after([100.0] * 31)[1].usual_messages() == 100


def test_usual_lag_ignores_an_incident_and_single_peaks() -> None:
    day = [100.0] * 90 + [50_000.0] * 80 + [100.0] * 10
    day[::7] = [9_000.0] * len(day[::7])
    assert after([*day, 0.0])[1].usual_messages() == 100


def test_usual_lag_follows_a_lasting_change() -> None:
    assert after([100.0] * 180 + [2_000.0] * 360)[1].usual_messages() == 2_000
    assert len(after([100.0] * 900)[1].medians) == SPANS_MAX


def test_usual_lag_of_a_silent_broker_expires() -> None:
    known = after([100.0] * 60)
    assert remember(known, {}, SPANS_MAX * SPAN_MS) == known
    assert remember(known, {}, (SPANS_MAX + 6) * SPAN_MS) == {}


def test_usual_lag_expires_when_the_broker_returns() -> None:
    known = after([100.0] * 60)
    later = after([7.0] * 31, known, start_ms=50 * SPAN_MS)
    assert later[1].usual_messages() == 7


def test_usual_lag_begins_anew_after_a_clock_was_set_back() -> None:
    known = after([100.0] * 60, start_ms=1000 * SPAN_MS)
    assert remember(known, {1: 5.0}, 0)[1] == UsualLag(0, (5.0,))
