"""Remembers the usual lag of each broker: the median over the last six hours.

The state has the median lag of each span of ten minutes. The usual lag is the median of these medians over six hours. The judge
leaves out recoveries and the first three hours of each incident (judge.py). So a lag becomes usual only if it lasts for more than
three hours, even for a tuner that starts during the incident.

A broker with less than half an hour of history has no usual lag, and neither has any broker just after the tuner's start. The judge
then uses only the size of the lag. The medians of a broker that sends no signals expire after six hours.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from tuner.core.value import value

SPAN_MS = 10 * 60 * 1000
SPANS_MAX = 36  # Six hours.
SPANS_MIN = 3
_SAMPLES_MAX = 40  # Samples of one span; the monitor evaluates every 15 s.


@value
class UsualLag:
    """The history of one broker.

    Attributes:
        medians: the number of each ended span since the epoch, and its median lag in messages.
        span: the number of the current span.
        samples: the lags in the current span.
    """

    span: int
    samples: tuple[float, ...] = ()
    medians: tuple[tuple[int, float], ...] = ()

    def usual_messages(self) -> float | None:
        """Returns the usual sum of lags; None: it is not known yet."""
        return median(lag for _, lag in self.medians) if len(self.medians) >= SPANS_MIN else None


def remember(known: Mapping[int, UsualLag], lags: Mapping[int, float], now_ms: int) -> dict[int, UsualLag]:
    """Returns the history with the newest lags.

    Args:
        lags: sum of lags in messages, by broker. A broker is absent if it has no fresh signal, is in an incident, or recovers.
    """
    span = now_ms // SPAN_MS
    updated = {
        broker: usual
        for broker, usual in known.items()
        if broker not in lags and span - max([usual.span, *(n for n, _ in usual.medians)]) < SPANS_MAX
    }
    for broker, lag in lags.items():
        usual = known.get(broker)
        if usual is None or usual.span > span:  # The clock was set back, so the history cannot be used.
            updated[broker] = UsualLag(span, (lag,))
        elif usual.span == span:
            samples = (*usual.samples, lag) if len(usual.samples) < _SAMPLES_MAX else usual.samples
            updated[broker] = UsualLag(span, samples, usual.medians)
        else:
            ended = (usual.span, median(usual.samples))
            kept = tuple(entry for entry in (*usual.medians, ended) if span - entry[0] <= SPANS_MAX)
            updated[broker] = UsualLag(span, (lag,), kept)
    return updated
