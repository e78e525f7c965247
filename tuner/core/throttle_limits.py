"""The operator's limits for throttles, and the constants of the throttle rules and the stall detector, with the reason for each."""

from __future__ import annotations

from dataclasses import dataclass

MB = 1_000_000  # Decimal, as in Kafka's own tools.


@dataclass(frozen=True, slots=True)
class ThrottleLimits:
    """The operator's limits for throttles, and the constants of the rules for one side.

    The constants of the control law are in ``ControlLimits`` (tuner/control/throttle/objective.py).
    """

    # The operator's ceiling, and the lowest rate that the tuner sets.
    rate_bytes_per_s_max: float
    rate_bytes_per_s_min: float = 5 * MB  # Below it, one fetch response already uses seconds of the quota.

    # Smallest relative change that is worth a write, because Kafka sends a changed setting to the whole cluster.
    deadband_ratio: float = 0.10
    # A quota only just above W drains nothing. 20 % more is the least that makes progress.
    min_rate_over_steady_state: float = 1.2
    # A throttle binds if the measured bytes reach this share of it. Kafka itself stays within 0.95 to 1.04 of a throttle.
    bound_ratio: float = 0.85
    # Shortest planned drain time. Below it the quota's 11 s window and the ramp limit the speed, not the rate.
    drain_s_min: float = 10.0
    # The leader side limits the move. The follower side gets this factor more than it should need.
    follower_slack: float = 1.3

    # Maximum age of a signal: three periods of 5 s.
    signal_age_s_max: float = 15.0
    # The tuner lowers a rate that it raised once its signals are older than this (four periods of 15 s), to decay_ratio of the
    # rate at a time.
    decay_age_s: float = 60.0
    decay_ratio: float = 0.9
    # Minimum time between two such steps, also if cycles come early. A little less than one cycle.
    decay_every_s: float = 4.0
    # Two measures of the same bytes contradict each other if they differ by this factor and by at least
    # ``contradiction_bytes_per_s_min``. Smaller differences are normal: Kafka's quota lets bytes through in bursts, and its mean
    # spans 11 s, the stream's 30 s.
    contradiction_ratio: float = 3.0
    contradiction_bytes_per_s_min: float = 10 * MB
    # A reassignment has ended after three snapshots in a row without moves: tools that move in batches pause for up to 10 s.
    idle_snapshots_before_cleanup: int = 3
    # How long the tuner leaves a value alone that another client wrote.
    external_change_hold_s: float = 3600.0
    # How long after a takeover a value that the previous tuner was about to write counts as managed. That tuner's request may be
    # delayed, or its process stopped and resumed. After this time an operator may have chosen the same number.
    predecessor_write_s: float = 600.0
    # Whether the tuner also steers throttles that existed before the move and the tuner, and restores them afterwards.
    adopts_existing: bool = True
    # Closed-loop control: there is a latency objective, and the capacity of the brokers is known, so throttles follow the clients'
    # load all the time. Otherwise the tuner only raises the throttle of stalled moves.
    closed_loop: bool = False
    # Whether the tuner also throttles moves that have no throttle. Closed-loop control needs one to steer.
    throttles_all_moves: bool = False
    # Whether the tuner throttles replicas that recover (``tuner.recovery: act``), or only reports what it would do (``watch``).
    throttles_recoveries: bool = False
    reports_recoveries: bool = False
    # Deadline of the moves (epoch); the tuner reports if they will miss it. None: no deadline.
    finish_at_ms: int | None = None
    # Whether the tuner removes a move's throttle at its end (as kafka-reassign-partitions --verify does).
    clears_finished: bool = True
    # The rules of ``tuner.schedule`` that apply, by name, separated by commas; and the ceiling and objective in force as text.
    schedule_rules: str = ""
    schedule_text: str = ""
    # The highest rate that an operator may order, the highest ceiling of the schedule; None: the ceiling.
    order_rate_bytes_per_s_max: float | None = None

    @property
    def override_bytes_per_s_max(self) -> float:
        """The highest rate of an override. It precedes the schedule, so the highest ceiling of any time bounds it."""
        return max(self.rate_bytes_per_s_max, self.order_rate_bytes_per_s_max or 0.0)

    @property
    def warmup_start_bytes_per_s(self) -> float:
        """The lowest rate (bytes/s) at which a warm-up of the quota window starts.

        It is 0 without an objective: a higher rate would pass a second time within the window, above the ceiling.
        """
        return self.rate_bytes_per_s_min if self.closed_loop else 0.0

    def __post_init__(self) -> None:
        # The settings module reports this to the operator with the key; this assertion guards the core.
        assert 0 < self.rate_bytes_per_s_min <= self.rate_bytes_per_s_max


@dataclass(frozen=True, slots=True)
class StallLimits:
    """The constants of the stall detector (tuner/control/throttle/diagnosis/stall_detector.py)."""

    # A move loses time while it drains less than this share of the expected bytes. A throttle in full use delivers 0.8 to 1.0 of
    # its rate, and slower disks or links 0.7 of it.
    share_expected: float = 0.5
    # Lost seconds that make a stall. A pause of a broker (garbage collection, an election, a busy disk) takes 12 s at most. Three
    # scrapes 5 s apart are enough, with jitter.
    stalled_lost_s: float = 14.5
    # The drain is judged over the newest steps that span so many seconds, so that a burst of the quota's 11 s and the silence after
    # it are judged together. Two scrapes 5 s apart are enough, or one after 10 s, with jitter.
    window_s: float = 8.5
    # A longer step is a gap in the data: unknown, not stalled. At one snapshot every 10 s, three in a row may be missed: the
    # sizes at both ends still give the mean, but for a longer gap it is unknown what the throttles allowed.
    step_s_max: float = 45.0
    # The expected progress if the throttle allows none, or is unknown.
    progress_bytes_per_s_min: float = 1 * MB
    # A move near its end is not stalled: the remaining bytes were written just now, and their number is noise.
    near_end_write_s: float = 2.0
    near_end_bytes: float = 1 * MB
    # A move is not called progressing before it was observed this long, because of the quota's 11 s rhythm.
    observed_s_min: float = 24.0
