"""Defines the operator's limits for throttles, and the constants of the throttle rules and of the stall detector."""

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
    # The lowest rate of a side ÷ W, its steady-state replication. A rate that is only just above W leaves nothing for the copy.
    min_rate_over_steady_state: float = 1.2
    # A throttle binds if the measured bytes reach this share of its rate. Kafka's traffic is 0.95 to 1.04 of a rate in full use.
    bound_ratio: float = 0.85
    # Shortest drain time that the tuner plans. A shorter copy is limited by the 11 s quota window and the ramp, not by the rate.
    drain_s_min: float = 10.0
    # The leader side limits the copy. The follower side gets this multiple of the rate that it needs.
    follower_slack: float = 1.3

    # Maximum age of a signal: three periods of 5 s.
    signal_age_s_max: float = 15.0
    # If the signals of a side are older than this, the tuner lowers the rate that it has raised: in each step to decay_ratio × the
    # present rate. The age is four times ``signal_age_s_max``.
    decay_age_s: float = 60.0
    decay_ratio: float = 0.9
    # Minimum time between two steps of the decay. It is a little less than one cycle, because a cycle may come early.
    decay_every_s: float = 4.0
    # Two measures of the same bytes contradict each other if they differ by this factor and by at least
    # ``contradiction_bytes_per_s_min``. Smaller differences are normal, because Kafka's quota lets bytes through in bursts. Kafka's
    # measure is a mean over 11 s, and the stream's measure is a mean over 30 s.
    contradiction_ratio: float = 3.0
    contradiction_bytes_per_s_min: float = 10 * MB
    # A reassignment has ended after three snapshots in a row without moves: tools that move in batches pause for up to 10 s.
    idle_snapshots_before_cleanup: int = 3
    # How long the tuner leaves a value alone that another client wrote.
    external_change_hold_s: float = 3600.0
    # For this time after a takeover, a value that the previous tuner was about to write counts as managed. The request of the
    # previous tuner may be delayed, or its process may be stopped and resumed. Later, an operator may have set the same value.
    predecessor_write_s: float = 600.0
    # Whether the tuner also steers throttles that existed before the move and the tuner, and restores them afterwards.
    adopts_existing: bool = True
    # Whether the control law sets rates every second (closed-loop control), because there is a latency objective. Otherwise the
    # tuner only raises the throttles of stalled moves.
    closed_loop: bool = False
    # Whether the tuner also throttles moves that have no throttle. Closed-loop control can only steer a side with a throttle.
    throttles_all_moves: bool = False
    # Whether the tuner throttles replicas that recover (``tuner.recovery: act``), or only reports what it would do (``watch``).
    throttles_recoveries: bool = False
    reports_recoveries: bool = False
    # Deadline of the moves (epoch); the tuner reports if they will miss it. None: no deadline.
    finish_at_ms: int | None = None
    # Whether the tuner removes a move's throttle at its end (as kafka-reassign-partitions --verify does).
    clears_finished: bool = True
    # Names of the rules of ``tuner.schedule`` that apply now, separated by commas; and the ceiling and objective in force as text.
    schedule_rules: str = ""
    schedule_text: str = ""
    # The highest rate that an operator may order: the highest ceiling that the schedule ever sets; None: the ceiling.
    order_rate_bytes_per_s_max: float | None = None

    @property
    def override_bytes_per_s_max(self) -> float:
        """The highest rate of an override: the highest ceiling that the schedule ever sets.

        An override takes precedence over the schedule, so the ceiling of the moment does not limit it.
        """
        return max(self.rate_bytes_per_s_max, self.order_rate_bytes_per_s_max or 0.0)

    @property
    def warmup_start_bytes_per_s(self) -> float:
        """The lowest rate (bytes/s) at which a warm-up of the quota window starts.

        It is 0 without an objective, so that the traffic of the warm-up stays below the ceiling.
        """
        return self.rate_bytes_per_s_min if self.closed_loop else 0.0

    def __post_init__(self) -> None:
        # The settings module reports this to the operator with the key; this assertion guards the core.
        assert 0 < self.rate_bytes_per_s_min <= self.rate_bytes_per_s_max


@dataclass(frozen=True, slots=True)
class StallLimits:
    """The constants of the stall detector (tuner/control/throttle/diagnosis/stall_detector.py)."""

    # A move loses time while it copies less than this share of the expected bytes. A move that uses its throttle fully copies 0.8
    # to 1.0 of the expected bytes; with slow disks or links it copies 0.7 of them.
    share_expected: float = 0.5
    # A move with this many lost seconds is stalled. A pause of a broker (garbage collection, an election, a busy disk) lasts 12 s
    # at most. Three steps of 5 s reach the 14.5 s, even if scrapes come a little early.
    stalled_lost_s: float = 14.5
    # The progress is judged over the newest steps that together last this long, because the quota passes bytes in bursts with
    # silence in between. Two steps of 5 s, or one step of 10 s, reach the 8.5 s, even if scrapes come a little early.
    window_s: float = 8.5
    # A longer step is a gap in the data: the move counts as unknown, not as stalled. At one snapshot every 10 s, three snapshots in
    # a row may be missing. After a longer gap it is unknown which rates the throttles allowed in the meantime.
    step_s_max: float = 45.0
    # The expected progress if the throttle allows none, or if it is unknown.
    progress_bytes_per_s_min: float = 1 * MB
    # A move is near its end, and not stalled, if its backlog is below ``near_end_bytes`` or below the writes of
    # ``near_end_write_s``.
    near_end_write_s: float = 2.0
    near_end_bytes: float = 1 * MB
    # A move counts as progressing only after it was observed for about two quota windows of 11 s.
    observed_s_min: float = 24.0
