"""What the throttles of one cluster are turned for: its clients' latency first, and then one of four goals for the move.

fast      as soon as the objective allows
deadline  no sooner than at a given moment, if the objective allows that
share     as fast, but with at most this share of every link
gentle    as fast, with this share of what the objective would allow
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from tuner.core.throttle_limits import MB, Limits


class Mode(StrEnum):
    FAST = "fast"
    DEADLINE = "deadline"
    SHARE = "share"
    GENTLE = "gentle"


# Of the rate of a plan, what leaders have while it begins partitions.
PLAN_LEADER_RATIO = 0.92


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a broker can carry each way, by its link or its disks, whichever is less."""

    in_bytes_per_s: float
    out_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Objective:
    """Of one cluster."""

    latency_ms: float  # Of produce requests, their p99 as brokers report it.
    mode: Mode = Mode.FAST
    finish_at_ms: int | None = None  # Deadline mode: epoch.
    share_max: float | None = None  # Share mode: of the link; 0.25 is a quarter.
    gentle_ratio: float = 0.5  # Gentle mode: of the headroom.

    def __post_init__(self) -> None:
        # The settings have told the operator already, naming the key; here it guards the core.
        assert self.latency_ms > 0
        assert self.mode is not Mode.DEADLINE or self.finish_at_ms is not None
        assert self.mode is not Mode.SHARE or (self.share_max is not None and 0 < self.share_max <= 1)
        assert 0 < self.gentle_ratio <= 1

    @property
    def uses_all_headroom(self) -> bool:
        """Whether plans get all that they can use; else no more than it takes."""
        return self.mode in (Mode.FAST, Mode.SHARE)


@dataclass(frozen=True, slots=True)
class ControlLimits:
    """The constants of the law, with the reason for each."""

    # Above this a link's queue grows faster than any throttle follows; ``margin_min_slow_p99`` says where it may all the same.
    utilisation_max: float = 0.9
    rate_bytes_per_s_min: float = 5 * MB  # Below it one fetch response is already seconds of budget.
    rate_bytes_per_s_max: float = float("inf")  # The operator's ceiling.
    min_rate_over_steady_state: float = 1.2  # A quota only just above W drains nothing.
    min_rate_over_steady_state_low_headroom: float = 1.05  # Where clients usually leave less than that.

    # The forecast of client load, by step of the stream.
    level_gain: float = 0.35
    slope_gain: float = 0.05
    spread_gain: float = 0.1
    usual_gain: float = 0.015  # What is usual is learned in minutes.
    # The floor comes down where clients leave less; how many misses more than usual they are taken to use. A law that knew
    # everything would still need twice the shortest time where they leave less than they come and go by.
    min_rate_spreads: float = 0.65
    forecast_spreads: float = 0.5  # How many of its usual misses the load is taken to be higher than forecast.
    jump_spreads: float = 4.0  # A miss this large is a step of the load and not noise.

    # The margin below ``utilisation_max``: it grows by the gain a step where p99 is far above the aim, and shrinks
    # half as fast, or as fast where the p99 holds what comes within seconds.
    margin_start: float = 0.03
    margin_gain: float = 0.01
    # A throttle's own seconds are uneven: without any margin a tenth of them is over on a link that is all the move's.
    margin_min: float = 0.02
    # Where the p99 holds those seconds: beyond ``utilisation_max``, as far as clients' latency leaves it.
    margin_min_slow_p99: float = -0.04
    # Of the link, in the newest step: where less is used, nobody has felt a link that is fuller than the tenth leaves it.
    near_capacity_ratio: float = 0.75
    margin_max: float = 0.3
    # What a step that misses the objective adds to that: few misses matter more than a good mean.
    miss_weight: float = 2.0
    # Of the objective: nearer to it more seconds are missed, further off the move takes longer.
    latency_aim: float = 0.6
    # The distance from the objective, and the least margin, are for what comes within seconds. Where the mean of a window says that
    # the p99 holds that already, they go with the part of it that is of this moment; this much nearer it never comes.
    latency_aim_max: float = 0.95
    variation_gain: float = 0.15  # By step: half a minute.
    # A mean below this share of what it was while the p99 was made: the p99 remembers what is over.
    mean_relief_ratio: float = 0.95
    # Where a side can have less than this times what keeps up, most of a margin is taken from the little that drains. There
    # only what comes near a miss counts.
    low_headroom_ratio: float = 2.0
    latency_aim_low_headroom: float = 0.95
    # Kafka's p99 is of some thousand requests; where less is written (16 kB a request) they are of more than five minutes.
    clients_bytes_per_s_min: float = 50_000.0
    # What a shrunken ISR adds while clients wait. Until the stream's window has forgotten the shrink, no more is added and
    # nothing is given back. After a mere miss a rest has cost time in simulation and saved no misses, so there is none.
    isr_shrink_margin: float = 0.05
    margin_hold_s: float = 30.0
    # Of what is meant: where less passes, something else holds the move, so the margin is not tested.
    throttle_full_ratio_min: float = 0.85

    # A side that a stalled move is bound by gets this much more, and as much again after each ``boost_interval_s``.
    stall_boost: float = 1.5
    stall_boost_max: float = 5.0
    boost_interval_s: float = 15.0  # A window of the quota, and the signals' age.

    # Where something else than its throttle holds the slowest side, the others are done in this share of its time: what they
    # leave, of a link or a disk, is for it alone. It is told by what passes, so not before the way up and then the quota's
    # window and the signals' age are over; and it is not asked again for a minute, or the others would go to and fro.
    decoupled_time_ratio: float = 0.5
    decoupled_after_s: float = 25.0
    decoupled_for_s: float = 60.0

    # The leader side paces and the follower side guards: it gets this much more than it should need.
    leader_margin_ratio: float = 1.0
    follower_margin_ratio: float = 1.3
    # Where a plan still begins partitions both ends get at least this much more: a side is in use by turns, as one partition ends
    # and the next begins, and what it did not use while it could is lost to all that wait for it.
    plan_margin_ratio: float = 1.5
    # Of the operator's ceiling, what leaders have meanwhile, so that the follower's side guards there too. A replica that arrives
    # begins to fetch anew and counts as one that is behind: where its quota is used up it is not asked for, and producers wait.
    plan_leader_ratio: float = PLAN_LEADER_RATIO
    drain_s_min: float = 2.0  # Shorter plans only chase the age of the signals.
    # A take-over goes from the rate that stood there up to the wanted one in this time: the first forecasts are guesses.
    takeover_ramp_s: float = 3.0
    # A side at this share of its ceiling fills the link.
    at_ceiling_ratio: float = 0.9
    # The last bytes are seen some seconds late, and a throttle that binds lets 0.9 of itself through.
    deadline_reserve_s: float = 15.0
    deadline_ratio: float = 0.9

    # What may differ from the rate that stands without being written: the whole cluster hears of a write. A second lets twelve
    # times the difference through, so 3 % are a burst of a third, and it comes back every twelve seconds.
    deadband_ratio: float = 0.005
    follower_deadband_ratio: float = 0.10
    # Of a leader while a plan begins more: moves end and begin within the window there, so a second that brings a quarter more than
    # is meant is one of many. After each write the broker reads all of its configuration anew, and clients wait.
    plan_deadband_ratio: float = 0.02
    # How far the written bound may be from the planned one. The window is known late and in steps of five seconds, so more
    # of it would chase the model's own errors; less would leave the echoes of bursts in it.
    window_compensation_range: float = 0.07
    # A follower that was held up asks again half a second later, so a throttle that binds lets this much less than itself
    # through (0.96 to 0.97 of it on real brokers). Taken for room in the window it would be taken off the setting, of which as
    # much less would pass, and so on to the end of the play.
    unused_ratio: float = 0.04
    # A second is meant to bring no less than this share of what the eleven before it were. All of a cut to a quarter at once
    # leaves next to nothing for a whole window, and any error in what the window holds is then silence.
    setpoint_fall_ratio_min: float = 0.6

    # Signals older than this hold everything where it is; from the second age on rates sink to the floor.
    hold_age_s: float = 15.0
    decay_age_s: float = 30.0
    decay_per_s: float = 0.993  # 10 % in 15 s.

    quota_samples: int = 11  # replication.quota.window.num

    @property
    def plan_follower_deadband_ratio(self) -> float:
        """While a plan begins more: no follower stands below what its leaders may stand at."""
        above_leaders = 1.0 / (self.plan_leader_ratio * (1.0 + self.plan_deadband_ratio)) - 1.0
        return max(self.deadband_ratio, min(self.follower_deadband_ratio, above_leaders))

    def __post_init__(self) -> None:
        # The margin's pull is by the distance as a share of what lies between an aim and the objective.
        assert max(self.latency_aim, self.latency_aim_max, self.latency_aim_low_headroom) < 1.0


AnyLimits = TypeVar("AnyLimits", Limits, ControlLimits)


def with_max_rate(limits: AnyLimits, most_bytes_per_s: float) -> AnyLimits:
    """The limits of a side that is allowed less than the operator's ceiling; ``limits`` itself where that is not less.

    The lowest rate that is asked for comes down with it.
    """
    if most_bytes_per_s >= limits.rate_bytes_per_s_max:
        return limits
    least = min(limits.rate_bytes_per_s_min, most_bytes_per_s)
    return replace(limits, rate_bytes_per_s_max=most_bytes_per_s, rate_bytes_per_s_min=least)
