"""Finds the brokers whose replicas lag although they do not move, and the cause of the lag (causes.py).

A broker lags if the lag of its replicas is large, and grows or is above the broker's usual lag. Replicas that a reassignment adds
are ignored, because their lag is expected. For a broker whose replicas recover, the reported cause is the recovery (recovering.py).
The result only explains the lag; it changes nothing in the cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from streaming.shared.contract import ReplicationSignal
from tuner.control.replication_lag import sentences
from tuner.control.replication_lag.causes import CauseFinder, LagCause, late_threads
from tuner.control.replication_lag.decision import LagDiagnosis, LagReason
from tuner.control.replication_lag.recovering import recovering_brokers
from tuner.control.replication_lag.trends import grows
from tuner.control.replication_lag.usual import UsualLag, remember
from tuner.control.replication_lag.view import LagView

SIGNAL_AGE_S_MAX = 60.0
# Kafka measures the lag of a replica only after the replica has left the ISR. With a lag below this, it is about to return.
LAG_S_MIN = 2.0
# A lag below both limits is ignored, because even a single message may be a lag of minutes in a partition with few writes.
LAG_MESSAGES_MIN = 1_000
LAG_BYTES_MIN = 10e6
ABOVE_USUAL_FACTOR = 3.0
INCIDENT_MS = 3 * 3600 * 1000  # For this time a lag counts as an incident. Only then does it change the usual lag.
RETURNED_MS = 60 * 1000  # A broker that has sent signals for less than two windows of signals has just returned.


@dataclass(frozen=True, slots=True)
class LagMemory:
    """The state of the judge between two evaluations.

    Attributes:
        since_ms: when each lagging broker began to lag.
        seen_since_ms: since when each broker has sent signals without a break.
    """

    usual: Mapping[int, UsualLag] = field(default_factory=dict)
    since_ms: Mapping[int, int] = field(default_factory=dict)
    seen_since_ms: Mapping[int, int] = field(default_factory=dict)


def judge(view: LagView, memory: LagMemory) -> tuple[LagMemory, tuple[LagDiagnosis, ...]]:
    """Returns the new memory, and a diagnosis of each broker that lags, the largest lag first."""
    now_ms = view.now_ms
    signals = {b: s for b, s in view.signals.items() if _is_usable(s, view)}
    lags = {b: lag for b, s in signals.items() if (lag := sentences.lag_messages(s)) is not None}
    usual = {b: history.usual_messages() for b, history in memory.usual.items()}
    lagging = {b: signals[b] for b, lag in lags.items() if _lags(signals[b], lag, usual.get(b))}
    since_ms = {b: memory.since_ms.get(b, now_ms) for b in lagging}
    seen_since_ms = {b: memory.seen_since_ms.get(b, now_ms) for b in signals}
    returned = [b for b, since in seen_since_ms.items() if now_ms - since < RETURNED_MS]
    recovering = recovering_brokers(view, signals, returned)
    normal = {b: lag for b, lag in lags.items() if b not in recovering and now_ms - since_ms.get(b, 0) >= INCIDENT_MS}
    updated = LagMemory(remember(memory.usual, normal, now_ms), since_ms, seen_since_ms)
    if not lagging:
        return updated, ()
    finder = CauseFinder(view, _without(signals, recovering), _without(lagging, recovering))
    diagnoses = []
    for broker, signal in lagging.items():
        worst = signal.worst[0] if signal.worst else None
        cause = _recovery(recovering[broker]) if broker in recovering else finder.find(signal)
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


def _recovery(is_throttled: bool) -> LagCause:
    return LagCause(LagReason.RECOVERING, sentences.recovering(is_throttled))


def _without(signals: Mapping[int, ReplicationSignal], brokers: Collection[int]) -> dict[int, ReplicationSignal]:
    return {b: s for b, s in signals.items() if b not in brokers}


def _is_usable(signal: ReplicationSignal, view: LagView) -> bool:
    return abs(view.now_ms - signal.sampled_at_ms) <= 1000 * SIGNAL_AGE_S_MAX and signal.broker in view.live.brokers


def _lags(signal: ReplicationSignal, lag_messages: float, usual_messages: float | None) -> bool:
    lag_s = signal.worst[0].lag_s if signal.worst else None
    is_large = (lag_s is None or lag_s >= LAG_S_MIN) and (
        lag_messages >= LAG_MESSAGES_MIN or (signal.lag_sum_bytes or 0.0) >= LAG_BYTES_MIN
    )
    is_above_usual = usual_messages is None or lag_messages > ABOVE_USUAL_FACTOR * usual_messages + LAG_MESSAGES_MIN
    return is_large and (grows(signal) or is_above_usual)
