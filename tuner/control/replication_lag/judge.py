"""Finds the brokers whose replicas lag without any move, and explains each of them. causes.py has the rules.

A broker lags if its lag grows, or stays above its usual lag. Replicas that a reassignment adds do not count: they lag by nature,
and the throttle controller explains their stalls. The result only explains; nothing is changed because of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streaming.shared.contract import LagTrend, ReplicationSignal
from tuner.control.replication_lag import sentences
from tuner.control.replication_lag.causes import CauseFinder, late_threads
from tuner.control.replication_lag.decision import LagDiagnosis
from tuner.control.replication_lag.usual import UsualLag, remember
from tuner.control.replication_lag.view import LagView

SIGNAL_AGE_S_MAX = 60.0
# A replica in sync fetches several times a second, so a lag of seconds is no mere request under way. At 30 s it leaves the ISR.
LAG_S_MIN = 2.0
# Less than both is no lag: a single message of a partition with few writes may be a lag of minutes.
LAG_MESSAGES_MIN = 1_000
LAG_BYTES_MIN = 10e6
ABOVE_USUAL_FACTOR = 3.0
GROWS_R2_MIN = 0.5
_LONG_TREND_S_MIN = 60.0  # A shorter trend says no more than the trend over the window.


@dataclass(frozen=True, slots=True)
class LagMemory:
    """What the judge remembers from one evaluation to the next.

    Attributes:
        since_ms: when each lagging broker began to lag.
    """

    usual: Mapping[int, UsualLag] = field(default_factory=dict)
    since_ms: Mapping[int, int] = field(default_factory=dict)


def judge(view: LagView, memory: LagMemory) -> tuple[LagMemory, tuple[LagDiagnosis, ...]]:
    """Returns the new memory, and a diagnosis of each broker that lags, the largest lag first."""
    signals = {b: s for b, s in view.signals.items() if _is_usable(s, view)}
    lags = {b: lag for b, s in signals.items() if (lag := sentences.lag_messages(s)) is not None}
    usual = {b: history.usual_messages() for b, history in memory.usual.items()}
    lagging = {b: signals[b] for b, lag in lags.items() if _lags(signals[b], lag, usual.get(b))}
    since_ms = {b: memory.since_ms.get(b, view.now_ms) for b in lagging}
    updated = LagMemory(remember(memory.usual, lags, view.now_ms), since_ms)
    if not lagging:
        return updated, ()
    finder = CauseFinder(view, signals, lagging)
    diagnoses = []
    for broker, signal in lagging.items():
        cause, worst = finder.find(signal), signal.worst[0] if signal.worst else None
        sources = tuple(dict.fromkeys(t.source for t in late_threads(signal.threads)))
        is_growing = grows(signal)
        diagnoses.append(
            LagDiagnosis(
                broker=broker,
                reason=cause.reason,
                text=f"{sentences.lag(signal, sources, worst, growing=is_growing)}: {cause.text}",
                growing=is_growing,
                lag_messages=lags[broker],
                lag_s=worst.lag_s if worst is not None else None,
                usual_messages=usual.get(broker),
                since_ms=since_ms[broker],
                sources=sources,
                thread=cause.thread,
                topic=worst.topic if worst is not None else None,
                partition=worst.partition if worst is not None else None,
                better_fetchers=cause.better_fetchers,
            )
        )
    return updated, tuple(sorted(diagnoses, key=lambda d: (-(d.lag_s or 0.0), -d.lag_messages, d.broker)))


def grows(signal: ReplicationSignal) -> bool:
    """Returns whether the lag grows, over the window and, if they are known, over the last five minutes."""
    long = signal.trend_5min
    return _rises(signal.trend, GROWS_R2_MIN) and (long is None or long.span_s < _LONG_TREND_S_MIN or _rises(long, 0.0))


def _rises(trend: LagTrend | None, r2_min: float) -> bool:
    return trend is not None and trend.slope_messages_per_s > 0 and (trend.r2 is None or trend.r2 >= r2_min)


def _is_usable(signal: ReplicationSignal, view: LagView) -> bool:
    return abs(view.now_ms - signal.sampled_at_ms) <= 1000 * SIGNAL_AGE_S_MAX and signal.broker in view.live.brokers


def _lags(signal: ReplicationSignal, lag_messages: float, usual_messages: float | None) -> bool:
    lag_s = signal.worst[0].lag_s if signal.worst else None
    is_large = (lag_s is None or lag_s >= LAG_S_MIN) and (
        lag_messages >= LAG_MESSAGES_MIN or (signal.lag_sum_bytes or 0.0) >= LAG_BYTES_MIN
    )
    is_above_usual = usual_messages is None or lag_messages > ABOVE_USUAL_FACTOR * usual_messages + LAG_MESSAGES_MIN
    return is_large and (grows(signal) or is_above_usual)
