"""Defines the objective of a cluster (client latency first, then a goal for the moves), and the constants of the control law.

The goals (``Mode``):

fast      end the moves as soon as the latency objective allows
deadline  end the moves at a given time, no faster than necessary
share     as fast as the objective allows, but with at most ``share_max`` of every link
gentle    as fast as ``gentle_ratio`` of the headroom allows
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from tuner.core.broker_baseline import BrokerBaseline
from tuner.core.latency_limit import LatencyLimit, LatencySource
from tuner.core.throttle_limits import MB, ThrottleLimits


class Mode(StrEnum):
    """The goal for the moves; see the module docstring."""

    FAST = "fast"
    DEADLINE = "deadline"
    SHARE = "share"
    GENTLE = "gentle"


# A limit that is computed from the baseline is at least this much above the baseline, because a p99 of few milliseconds varies so
# much by itself.
_LATENCY_MARGIN_MS_MIN = 5.0
# The share of a plan's rate that leaders get while the plan still starts moves; see ``ControlLimits.plan_leader_ratio``.
PLAN_LEADER_RATIO = 0.92


@dataclass(frozen=True, slots=True)
class Capacity:
    """A broker's capacity in each direction: that of its link or of its disks, whichever is lower."""

    in_bytes_per_s: float
    out_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Objective:
    """The objective of one cluster.

    Attributes:
        latency_ms: highest p99 of produce requests, as brokers report it; None: the limit of each broker is computed from its
            baseline, the p99 without a move.
        tolerance: without ``latency_ms``, the limit is (1 + tolerance) × baseline.
        finish_at_ms: deadline mode: when the moves have to end (epoch).
        share_max: share mode: share of the link (0.25 is a quarter).
        gentle_ratio: gentle mode: share of the headroom.
    """

    latency_ms: float | None = None
    mode: Mode = Mode.FAST
    finish_at_ms: int | None = None
    share_max: float | None = None
    gentle_ratio: float = 0.5
    tolerance: float = 0.5

    def __post_init__(self) -> None:
        # The settings module checks these conditions too and names the key to the operator.
        assert self.latency_ms is None or self.latency_ms > 0
        assert self.tolerance > 0
        assert self.mode is not Mode.DEADLINE or self.finish_at_ms is not None
        assert self.mode is not Mode.SHARE or (self.share_max is not None and 0 < self.share_max <= 1)
        assert 0 < self.gentle_ratio <= 1

    def latency_limit(self, baseline: BrokerBaseline | None, low_ms: float) -> LatencyLimit | None:
        """Returns the latency that the clients of a broker may have; None if it needs a baseline and none is known.

        Args:
            baseline: the broker's usual latency without copies; None: not known.
            low_ms: a low p99 during the move, which replaces a missing baseline; 0 if none was measured.
        """
        baseline_ms = baseline.p99_ms if baseline is not None else None
        if self.latency_ms is not None:
            return LatencyLimit(self.latency_ms, LatencySource.SETTINGS, baseline_ms)
        source, p99_ms = LatencySource.MOVE, low_ms
        if baseline is not None and baseline_ms is not None:
            source = LatencySource.HISTORY if baseline.is_learned else LatencySource.BASELINE
            p99_ms = baseline_ms
        if p99_ms <= 0.0:
            return None
        return LatencyLimit(max((1.0 + self.tolerance) * p99_ms, p99_ms + _LATENCY_MARGIN_MS_MIN), source, p99_ms)

    @property
    def uses_all_headroom(self) -> bool:
        """Whether plans may use all the headroom; False: only as much as the mode requires."""
        return self.mode in (Mode.FAST, Mode.SHARE)


@dataclass(frozen=True, slots=True)
class ControlLimits:
    """The constants of the control law, each with its reason.

    W is the steady-state replication of a side, T the time in which the moves can end (steering/target_rate.py). The constants of
    the latency feedback are in steering/allowed_utilisation.py and steering/present_latency.py.
    """

    # Highest utilisation of a link at any latency objective. Above it the queue of the link grows faster than a throttle can
    # follow.
    utilisation_max: float = 0.95
    rate_bytes_per_s_min: float = 5 * MB  # At a lower rate one fetch response uses up seconds of the quota.
    rate_bytes_per_s_max: float = float("inf")  # The operator's ceiling.
    min_rate_over_steady_state: float = 1.2  # Lowest rate ÷ W. A rate only just above W leaves nothing for the copy.

    # The client load is a mean over ``load_s``. A shorter mean follows noise; a longer mean follows a change of the load too late.
    load_s: float = 10.0
    variation_s: float = 60.0  # The spread of the load is a mean over this time.
    forecast_spreads: float = 0.5  # The load is assumed to be this many spreads above its mean.
    # If less than this share of the setpoint passes, something other than the throttle limits the move.
    throttle_full_ratio_min: float = 0.85

    # The required rate of a side that limits a stalled move is multiplied by this factor, again after each ``boost_interval_s``.
    stall_boost: float = 1.5
    stall_boost_max: float = 5.0
    # The effect of a boost is visible only after a quota window plus the age of the signals.
    boost_interval_s: float = 15.0

    # If something other than a throttle limits the slowest side, the other sides finish in ``decoupled_time_ratio`` × T. Afterwards
    # they leave their part of a link or disk to the slowest side. The measured bytes show this limit only after
    # ``decoupled_after_s``: the ramp, the quota window and the delay of the signals. The other sides keep the higher rate for
    # ``decoupled_for_s``, so that they do not alternate between two rates.
    decoupled_time_ratio: float = 0.5
    decoupled_after_s: float = 25.0
    decoupled_for_s: float = 60.0

    # The rate of a follower side ÷ the rate that it needs for the copy (within its ceiling), so that the leader side limits the
    # copy.
    follower_margin_ratio: float = 1.3
    # While a plan still starts moves, this ratio applies to leader sides and follower sides. A side is idle between two moves, and
    # other sides wait for it meanwhile.
    plan_margin_ratio: float = 1.5
    # Share of the ceiling that leaders get while a plan still starts moves, so that followers at the ceiling have a margin too. A
    # replica that was just added counts as out of sync. While the leader's quota is exhausted, the leader does not answer the
    # replica's fetches, and producers wait.
    plan_leader_ratio: float = PLAN_LEADER_RATIO
    drain_s_min: float = 2.0  # Lowest T. A shorter T would only follow the delay of the signals.
    # After a takeover, the rate rises from the current rate to the setpoint in this time: the first estimates are inaccurate, and
    # the quota window still has bytes from before.
    takeover_ramp_s: float = 20.0
    # From this share of its ceiling on, a side counts as being at its ceiling.
    at_ceiling_ratio: float = 0.9
    # The moves are planned to end this long before the deadline, because the tuner observes the last bytes some seconds late.
    deadline_reserve_s: float = 15.0
    deadline_ratio: float = 0.9  # The share of its rate that a throttle in full use lets through.

    # Relative changes below the deadband are not written, because every broker reads each write. In the second after a write,
    # twelve times the difference passes (quota_window/model.py). So a change by 3 % would cause a burst of a third of the rate,
    # which returns every twelve seconds.
    deadband_ratio: float = 0.005
    # The leaders' deadband while a plan still starts moves. Several moves then end and start within one quota window, and the bytes
    # of one second often exceed the setpoint by a quarter, so a small change has no effect. After each write the broker reads its
    # whole configuration, and clients wait meanwhile.
    plan_deadband_ratio: float = 0.02
    # The written rate may differ from the setpoint by this share (window compensation). The tuner knows the bytes in the quota
    # window only late, and in steps of some seconds. A larger range would follow the errors of the model of the window; a smaller
    # range would not prevent the pauses after bursts.
    window_compensation_range: float = 0.15

    # A side whose signals are older than ``hold_age_s`` keeps its rate. From ``decay_age_s`` on, the rate decays to the minimum.
    hold_age_s: float = 15.0
    decay_age_s: float = 30.0
    decay_per_s: float = 0.993  # 10 % in 15 s.

    quota_samples: int = 11  # replication.quota.window.num

    @property
    def plan_follower_deadband_ratio(self) -> float:
        """The followers' deadband while a plan still starts moves: so small that no follower stays below its leaders' rate."""
        return 1.0 / (self.plan_leader_ratio * (1.0 + self.plan_deadband_ratio)) - 1.0


AnyLimits = TypeVar("AnyLimits", ThrottleLimits, ControlLimits)


def with_max_rate(limits: AnyLimits, max_rate_bytes_per_s: float) -> AnyLimits:
    """Returns the limits with the ceiling ``max_rate_bytes_per_s``, if it is lower than the present ceiling."""
    if max_rate_bytes_per_s >= limits.rate_bytes_per_s_max:
        return limits
    min_rate = min(limits.rate_bytes_per_s_min, max_rate_bytes_per_s)
    return replace(limits, rate_bytes_per_s_max=max_rate_bytes_per_s, rate_bytes_per_s_min=min_rate)
