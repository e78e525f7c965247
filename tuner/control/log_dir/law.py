"""Implements the control law for copies between the log directories of one broker.

A copy between log directories uses no link, and the capacity of a disk is not known, so the headroom cannot be computed. The law
therefore probes for the capacity, as TCP does:

- It raises the rate by up to 10 % while the produce latency is below ``LATENCY_AIM`` × its objective, the request handlers are idle
  enough, and the copies use the whole rate. Before the first reduction it raises the rate by up to 25 %.
- It lowers the rate by 30 % while the latency is above its objective, or while the request handlers are busy.

Invariants: the rate stays between the minimum and the ceiling. If something other than the rate limits the copies, the rate is not
raised. Each signal is used once.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import NamedTuple

from streaming.shared.contract import BrokerSignal
from tuner.control.log_dir.decision import LogDirReason
from tuner.control.throttle.diagnosis.bottleneck import BUSY_IDLE_RATIO
from tuner.control.throttle.objective import ControlLimits
from tuner.control.throttle.steering.latency_baseline import produce_p99_ms
from tuner.control.throttle.steering.present_latency import PresentLatency, update_latency
from tuner.core.broker_baseline import BrokerBaseline
from tuner.core.value import value

# Relative changes of the rate in one step. A rise is smaller the closer the latency is to LATENCY_AIM × its objective.
RISE_MAX, FAST_RISE_MAX, FALL = 0.1, 0.25, 0.3
# The signals show the effect of a change after Kafka's quota window (11 s) and the delay of the signals.
SETTLE_S = 15.0
# The rate does not rise while latency ÷ objective is at least this, so that a rise does not exceed the objective.
LATENCY_AIM = 0.6
# The same as SETTLE_S for the idle ratio of the request handlers, which Kafka reports as a mean over about a minute.
HANDLERS_SETTLE_S = 60.0
# The rate does not rise while the idle ratio of the request handlers is below this, so that a rise does not make them busy.
IDLE_RATIO_MIN = BUSY_IDLE_RATIO + 0.1
_STEP_S_DEFAULT = 5.0


@value
class LogDirLaw:
    """The state of the law for one broker.

    Attributes:
        sampled_at_ms: when the newest signal was measured; epoch.
        latency: the current latency of the broker's producers.
        lowered_at_ms: when the rate was lowered last; 0: not yet.
        has_waited: since the copies began, clients have waited: the latency was above its objective, or the request handlers were
            busy. So the rate rises in small steps.
    """

    sampled_at_ms: int = 0
    latency: PresentLatency = field(default_factory=PresentLatency)
    lowered_at_ms: int = 0
    has_waited: bool = False


class RateBounds(NamedTuple):
    """The bounds of the rate, in bytes/s."""

    min_bytes_per_s: float
    max_bytes_per_s: float


class NextRate(NamedTuple):
    """The result of one step: the next rate in bytes/s, which may equal the current rate."""

    law: LogDirLaw
    bytes_per_s: int
    reason: LogDirReason


def rate_bounds(written_bytes_per_s: float, limits: ControlLimits) -> RateBounds:
    """Returns the bounds. The minimum is above the rate of new writes, because with a lower rate the copies would never end."""
    lowest = max(limits.rate_bytes_per_s_min, limits.min_rate_over_steady_state * written_bytes_per_s)
    return RateBounds(min(lowest, limits.rate_bytes_per_s_max), limits.rate_bytes_per_s_max)


def update_law(law: LogDirLaw, signal: BrokerSignal, baseline: BrokerBaseline | None) -> LogDirLaw:
    """Returns the state after a newer signal.

    Args:
        baseline: the broker's usual latency without copies; None: not known.
    """
    elapsed_s = (signal.sampled_at_ms - law.sampled_at_ms) / 1000 if law.sampled_at_ms else _STEP_S_DEFAULT
    latency = update_latency(law.latency, signal.produce_mean_ms, produce_p99_ms(signal), elapsed_s, baseline)
    return replace(law, sampled_at_ms=signal.sampled_at_ms, latency=latency)


def first_rate(signal: BrokerSignal, ratio: float, bounds: RateBounds) -> int:
    """Returns the first limit for copies without a limit: half of their traffic, or the minimum if clients wait."""
    copied = signal.log_dir_copied_bytes_per_s or 0.0
    rate = copied / 2 if ratio <= LATENCY_AIM else 0.0
    return round(min(bounds.max_bytes_per_s, max(bounds.min_bytes_per_s, rate)))


def next_rate(
    law: LogDirLaw,
    current_bytes_per_s: int,
    signal: BrokerSignal,
    ratio: float,
    bounds: RateBounds,
    now_ms: int,
    limits: ControlLimits,
) -> NextRate:
    """Returns the rate after a new signal.

    Args:
        law: the state after ``update_law``.
        current_bytes_per_s: the rate in force.
        signal: the newest signal of the broker.
        ratio: produce p99 ÷ its objective.
        bounds: the bounds of the rate.
        now_ms: epoch.
        limits: the constants of the law.
    """
    current, idle_ratio = current_bytes_per_s, signal.request_handler_idle_ratio
    if current > bounds.max_bytes_per_s:
        return NextRate(law, round(bounds.max_bytes_per_s), LogDirReason.AT_CEILING)
    if current < bounds.min_bytes_per_s:
        return NextRate(law, round(bounds.min_bytes_per_s), LogDirReason.AT_MINIMUM)
    lowered_s = (now_ms - law.lowered_at_ms) / 1000
    handlers_busy = idle_ratio is not None and idle_ratio < BUSY_IDLE_RATIO
    if ratio > 1.0 or handlers_busy:
        if current <= bounds.min_bytes_per_s:
            return NextRate(replace(law, has_waited=True), current, LogDirReason.AT_MINIMUM)
        if 0 <= lowered_s < (SETTLE_S if ratio > 1.0 else HANDLERS_SETTLE_S):
            return NextRate(law, current, LogDirReason.SETTLING)
        rate = round(max(bounds.min_bytes_per_s, (1.0 - FALL) * current))
        reason = LogDirReason.CLIENTS_WAIT if ratio > 1.0 else LogDirReason.HANDLERS_BUSY
        return NextRate(replace(law, lowered_at_ms=now_ms, has_waited=True), rate, reason)
    if ratio >= LATENCY_AIM or (idle_ratio is not None and idle_ratio < IDLE_RATIO_MIN):
        return NextRate(law, current, LogDirReason.NEAR_OBJECTIVE)
    if (signal.log_dir_copied_bytes_per_s or 0.0) < limits.throttle_full_ratio_min * current:
        return NextRate(law, current, LogDirReason.NOT_THROTTLE_LIMITED)
    if current >= bounds.max_bytes_per_s:
        return NextRate(law, current, LogDirReason.AT_CEILING)
    if 0 <= lowered_s < SETTLE_S:
        return NextRate(law, current, LogDirReason.SETTLING)
    rise = (RISE_MAX if law.has_waited else FAST_RISE_MAX) * (LATENCY_AIM - ratio) / LATENCY_AIM
    rate = round(min(bounds.max_bytes_per_s, (1.0 + rise) * current))
    return NextRate(law, rate, LogDirReason.CLIENTS_WELL)
