"""The objective of a cluster (client latency first, then a goal for the moves), and the constants of the control law.

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

from tuner.core.throttle_limits import MB, ThrottleLimits


class Mode(StrEnum):
    """The goal for the moves; see the module docstring."""

    FAST = "fast"
    DEADLINE = "deadline"
    SHARE = "share"
    GENTLE = "gentle"


# The share of a plan's rate that leaders get while the plan begins partitions; see ``ControlLimits.plan_leader_ratio``.
PLAN_LEADER_RATIO = 0.92


@dataclass(frozen=True, slots=True)
class Capacity:
    """A broker's capacity in each direction: its link's or its disks', whichever is less."""

    in_bytes_per_s: float
    out_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Objective:
    """The objective of one cluster.

    Attributes:
        latency_ms: p99 of produce requests, as brokers report it.
        finish_at_ms: deadline mode: when the moves have to end (epoch).
        share_max: share mode: share of the link (0.25 is a quarter).
        gentle_ratio: gentle mode: share of the headroom.
    """

    latency_ms: float
    mode: Mode = Mode.FAST
    finish_at_ms: int | None = None
    share_max: float | None = None
    gentle_ratio: float = 0.5

    def __post_init__(self) -> None:
        # The settings module checks these conditions too and names the key to the operator.
        assert self.latency_ms > 0
        assert self.mode is not Mode.DEADLINE or self.finish_at_ms is not None
        assert self.mode is not Mode.SHARE or (self.share_max is not None and 0 < self.share_max <= 1)
        assert 0 < self.gentle_ratio <= 1

    @property
    def uses_all_headroom(self) -> bool:
        """Whether plans may use all the headroom, rather than only what the mode requires."""
        return self.mode in (Mode.FAST, Mode.SHARE)


@dataclass(frozen=True, slots=True)
class ControlLimits:
    """The constants of the control law, each with its reason.

    W is the steady-state replication of a side, T the time in which the moves can end (steering/target_rate.py). Margin, spread and
    aim are terms of steering/headroom.py; the fast component of a p99 is one of steering/latency_filter.py.
    """

    # Above this utilisation a link's queue grows faster than a throttle can follow. ``margin_min_slow_p99`` allows more.
    utilisation_max: float = 0.9
    rate_bytes_per_s_min: float = 5 * MB  # At a lower rate one fetch response uses up seconds of the quota.
    rate_bytes_per_s_max: float = float("inf")  # The operator's ceiling.
    min_rate_over_steady_state: float = 1.2  # A quota only just above W drains nothing.
    # The same factor on a side whose clients usually leave less than 1.2 × W.
    min_rate_over_steady_state_low_headroom: float = 1.05

    # The gains of the forecast of the client load (Holt's linear smoothing), per step of the stream.
    level_gain: float = 0.35
    slope_gain: float = 0.05
    spread_gain: float = 0.1
    usual_gain: float = 0.015  # The usual load is learned over minutes.
    # The minimum rate drops if clients usually leave less. Their load is then assumed to be this many spreads above usual.
    min_rate_spreads: float = 0.65
    forecast_spreads: float = 0.5  # The load is assumed to be this many spreads above the forecast.
    jump_spreads: float = 4.0  # A forecast error this large is a step of the load and not noise.

    # The margin below ``utilisation_max``. It grows by the gain per step if the p99 is far above the aim, and shrinks half as fast.
    # With a fast component of 0 it shrinks as fast as it grows, because such a p99 already contains the peaks of the next seconds.
    margin_start: float = 0.03
    margin_gain: float = 0.01
    # A throttle passes uneven numbers of bytes in each second. Without a margin a tenth of the seconds would exceed
    # ``utilisation_max`` on a link that only the move uses.
    margin_min: float = 0.02
    # The minimum margin for a p99 with a fast component of 0, which already contains such seconds. A negative margin lets the link
    # become fuller than ``utilisation_max`` as long as client latency allows.
    margin_min_slow_p99: float = -0.04
    # Share of the link that is in use. Below this share the clients' latency says nothing about a fuller link.
    near_capacity_ratio: float = 0.75
    margin_max: float = 0.3
    # Weight of a step that misses the objective: avoiding misses matters more than a good mean.
    miss_weight: float = 2.0
    # Share of the objective to aim at. With a higher aim more seconds miss the objective; with a lower aim the move takes longer.
    latency_aim: float = 0.6
    # The distance between aim and objective, and the minimum margin, cover the peaks of the next seconds. A p99 with a small fast
    # component already contains such peaks, so both shrink with the fast component. The aim rises to this value at most.
    latency_aim_max: float = 0.95
    variation_gain: float = 0.15  # Per step; averages over about half a minute.
    # If the mean latency drops below this share of its value at the time of the worst p99, the p99 reports the past.
    mean_relief_ratio: float = 0.95
    # A side at its ceiling has low headroom if its setpoint is below this multiple of W. A step of the margin would take most of
    # the little that drains, so such a side aims closer to the objective.
    low_headroom_ratio: float = 2.0
    latency_aim_low_headroom: float = 0.95
    # Kafka's p99 covers some thousand requests. With fewer writes (at 16 kB a request) it covers more than five minutes.
    clients_bytes_per_s_min: float = 50_000.0
    # A shrunken ISR adds this margin while clients wait. The margin is then held until the shrink has left the stream's window.
    # A miss of the objective alone holds no margin: in simulation that cost time and saved no misses.
    isr_shrink_margin: float = 0.05
    margin_hold_s: float = 30.0
    # Share of the setpoint. If less passes, something other than the throttle limits the move, so low latency proves nothing.
    throttle_full_ratio_min: float = 0.85

    # The required rate of a side that limits a stalled move is multiplied by this factor, again after each ``boost_interval_s``.
    stall_boost: float = 1.5
    stall_boost_max: float = 5.0
    boost_interval_s: float = (
        15.0  # A quota window plus the age of the signals: until then the effect of a boost is not visible.
    )

    # If something other than its throttle limits the slowest side, the other sides finish in this share of its time and leave
    # their part of a link or disk to it. The measured bytes show such a limit only after the ramp, the quota window and the delay
    # of the signals. The finding then holds for a minute; otherwise the other sides would alternate between two rates.
    decoupled_time_ratio: float = 0.5
    decoupled_after_s: float = 25.0
    decoupled_for_s: float = 60.0

    # Factors on the catch-up rate that a side requires. The leader side limits the copy; the follower side gets more, so that it
    # does not limit.
    leader_margin_ratio: float = 1.0
    follower_margin_ratio: float = 1.3
    # While a plan begins partitions both sides get at least this factor. A side is idle between partitions, and time that it
    # does not use is lost to the sides that wait for it.
    plan_margin_ratio: float = 1.5
    # Share of the ceiling that leaders get while a plan begins partitions, so that followers at the ceiling have a margin too. A
    # replica that was just added counts as out of sync: while the leader's quota is exhausted, the leader does not answer its
    # fetches, and producers wait.
    plan_leader_ratio: float = PLAN_LEADER_RATIO
    drain_s_min: float = 2.0  # A shorter T would only follow the delay of the signals.
    # After a takeover the rate rises from the current one to the setpoint in this time: the first forecasts are guesses.
    takeover_ramp_s: float = 3.0
    # A side at this share of its ceiling fills the link.
    at_ceiling_ratio: float = 0.9
    # The last bytes are observed some seconds late (the reserve), and a throttle that limits passes 0.9 of its rate (the ratio).
    deadline_reserve_s: float = 15.0
    deadline_ratio: float = 0.9

    # Changes below this share are not written: every broker reads each write. The second after a write passes twelve times the
    # difference (quota_window/model.py), so 3 % would be a burst of a third of the rate that returns every twelve seconds.
    deadband_ratio: float = 0.005
    follower_deadband_ratio: float = 0.10
    # The leaders' deadband while a plan begins partitions. Moves end and begin within one window then, so a second with a quarter
    # more than its setpoint is nothing unusual. After each write the broker reads its whole configuration, and clients wait.
    plan_deadband_ratio: float = 0.02
    # The largest difference between the written and the planned rate. The window's contents are known late and in steps of five
    # seconds. A larger range would follow the model's own errors; a smaller one would leave the echoes of bursts.
    window_compensation_range: float = 0.07
    # A delayed follower asks again half a second later, so a throttle that limits passes this much less than its rate (measured:
    # 0.96 to 0.97). If the compensation counted the unused bytes as room in the window, it would lower the rate again and again,
    # to the end of its range.
    unused_ratio: float = 0.04
    # Each second's setpoint is at least this share of the mean setpoint of the last eleven seconds. A cut to a quarter at once
    # leaves next to nothing for a whole window, and any error in the window's contents is then a standstill.
    setpoint_fall_ratio_min: float = 0.6

    # A side whose signals are older than ``hold_age_s`` keeps its rate. From ``decay_age_s`` on, the rate decays to the minimum.
    hold_age_s: float = 15.0
    decay_age_s: float = 30.0
    decay_per_s: float = 0.993  # 10 % in 15 s.

    quota_samples: int = 11  # replication.quota.window.num

    @property
    def plan_follower_deadband_ratio(self) -> float:
        """The followers' deadband while a plan begins partitions: small enough that none stays below its leaders' rate."""
        above_leaders = 1.0 / (self.plan_leader_ratio * (1.0 + self.plan_deadband_ratio)) - 1.0
        return max(self.deadband_ratio, min(self.follower_deadband_ratio, above_leaders))

    def __post_init__(self) -> None:
        # The margin's gain is divided by the distance between the aim and the objective, which must not be 0.
        assert max(self.latency_aim, self.latency_aim_max, self.latency_aim_low_headroom) < 1.0


AnyLimits = TypeVar("AnyLimits", ThrottleLimits, ControlLimits)


def with_max_rate(limits: AnyLimits, max_rate_bytes_per_s: float) -> AnyLimits:
    """Returns the limits with a lower ceiling, and a minimum rate not above it; ``limits`` itself if the rate is not lower."""
    if max_rate_bytes_per_s >= limits.rate_bytes_per_s_max:
        return limits
    min_rate = min(limits.rate_bytes_per_s_min, max_rate_bytes_per_s)
    return replace(limits, rate_bytes_per_s_max=max_rate_bytes_per_s, rate_bytes_per_s_min=min_rate)
