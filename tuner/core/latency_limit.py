"""Defines the latency limit of a broker's clients, and the source of the limit."""

from __future__ import annotations

from enum import StrEnum

from tuner.core.value import value

# If the limit comes from the settings, the baseline counts as at most this share of the limit. With a baseline close to the limit,
# every variation of the p99 would look like a rise.
_FLOOR_RATIO_MAX = 2 / 3


class LatencySource(StrEnum):
    SETTINGS = "settings"  # objective.latency_ms
    BASELINE = "baseline"  # The broker's p99 while it copied no replicas.
    HISTORY = "history"  # The same p99, from the history of the last weeks (`rheostat learn`).
    MOVE = "move"  # A low p99 during the move, because the p99 was not measured before the move.


# When the baseline was measured from which a limit is derived.
WHEN_MEASURED = {
    LatencySource.BASELINE: "without copies",
    LatencySource.HISTORY: "without copies at this hour, according to the history",
    LatencySource.MOVE: "at best in this move",
}


@value
class LatencyLimit:
    """The highest p99 of produce requests on one broker.

    Attributes:
        p99_ms_max: the limit, in ms.
        baseline_ms: the p99 without copies; with the source ``MOVE`` a low p99 during the move; None: not known.
    """

    p99_ms_max: float
    source: LatencySource = LatencySource.SETTINGS
    baseline_ms: float | None = None

    def rise_ratio(self, p99_ms: float) -> float:
        """Returns how much of the permitted rise of the latency a p99 uses: 0 at the baseline, 1 at the limit, more above it."""
        floor_ms = self.baseline_ms or 0.0
        if self.source is LatencySource.SETTINGS:
            floor_ms = min(floor_ms, _FLOOR_RATIO_MAX * self.p99_ms_max)
        return max(0.0, (p99_ms - floor_ms) / (self.p99_ms_max - floor_ms))

    @property
    def text(self) -> str:
        """The limit and its source, as a clause."""
        limit = f"clients may have a p99 of {_digits(self.p99_ms_max)} ms"
        if self.baseline_ms is None or self.source is LatencySource.SETTINGS:
            return limit
        return f"{limit} ({_digits(self.baseline_ms)} ms {WHEN_MEASURED[self.source]})"


def _digits(ms: float) -> str:
    """Returns at least three significant digits, without an exponent."""
    return f"{ms:.0f}" if ms >= 99.95 else f"{ms:.3g}"
