"""What the operator allows, and the constants of the law with the reason for each."""

from __future__ import annotations

from dataclasses import dataclass

MB = 1_000_000  # Decimal, as Kafka's own tools count throttles.


@dataclass(frozen=True, slots=True)
class Limits:
    # The operator's two numbers: never above the one, and never asking for less than the other.
    rate_bytes_per_s_max: float
    rate_bytes_per_s_min: float = 5 * MB  # Below it one fetch response is already seconds of budget.

    # Smallest relative change worth a config write, which the whole cluster hears of.
    deadband_ratio: float = 0.10
    # A quota only just above W drains nothing: 20 % is the least that moves.
    min_rate_over_steady_state: float = 1.2
    # A side binds when its measured bytes reach this share of the throttle; Kafka itself stays within 0.95–1.04 of it.
    bound_ratio: float = 0.85
    # Shortest time a drain is planned for: below it the quota's 11 s window and the ramp set the pace, not the rate.
    drain_s_min: float = 10.0
    # The leader side paces, the follower side guards: it gets this much more than it should need.
    follower_slack: float = 1.3

    # Older signals than this are history: three periods of 5 s.
    signal_age_s_max: float = 15.0
    # A rate that we raised sinks from this age of its signals on, by a tenth at a time: four periods of 15 s.
    decay_age_s: float = 60.0
    decay_ratio: float = 0.9
    # And not again sooner, however often cycles come before their time: a little less than from one cycle to the next.
    decay_every_s: float = 4.0
    # Two measures of one thing differ by a multiple of this only where one of them is wrong: Kafka's quota moves bytes in clumps,
    # and its own mean spans 11 s where the stream's spans 30. Below the second number clumps are all that there is.
    contradiction_ratio: float = 3.0
    contradiction_bytes_per_s_min: float = 10 * MB
    # A reassignment has ended when three looks in a row find none: tools that move in batches have pauses of up to 10 s.
    idle_snapshots_before_cleanup: int = 3
    # How long a value that somebody else wrote is left alone.
    external_change_hold_s: float = 3600.0
    # For so long after a take-over a value that the tuner before us was about to write is still its own: a call that hung, or a
    # process that was stopped in it and goes on. Later somebody may well have meant the same number.
    predecessor_write_s: float = 600.0
    # A throttle that stood before a move and before us is tuned while the move needs it, and put back; or else left alone.
    adopts_existing: bool = True
    # An objective for client latency is set and what the brokers can carry is known: throttles follow the clients all the
    # time. Otherwise the tuner only rescues stalled moves.
    closed_loop: bool = False
    # A move that nobody throttles is throttled: what steers has to have something to turn.
    throttles_all_moves: bool = False
    # Deadline mode: when the moves are to be done (epoch), so that it can be said when they will not be.
    finish_at_ms: int | None = None
    # Take away, at the end of a move, the throttle that was put on for it (as kafka-reassign-partitions --verify does).
    clears_finished: bool = True

    @property
    def warmup_start_bytes_per_s(self) -> float:
        """The least from which a throttle is brought up as its window fills, in bytes/s.

        Without an objective from nothing: any more would pass a second time within the window, which is above the ceiling then.
        """
        return self.rate_bytes_per_s_min if self.closed_loop else 0.0

    def __post_init__(self) -> None:
        # settings.py has told the operator already, naming the key; here it guards the core.
        assert 0 < self.rate_bytes_per_s_min <= self.rate_bytes_per_s_max


@dataclass(frozen=True, slots=True)
class StallLimits:
    # Progress below this share of what is expected counts as lost time.
    share_expected: float = 0.5
    # Lost seconds that make a stall. More than the healthy worst dip (0.5 · 10.5 s of the quota's echo) plus one hiccup.
    stalled_lost_s: float = 15.0
    # What was lost beyond this is not counted: a move that stood for an hour and goes again at the rate expected is well after
    # half a minute, and not after another hour.
    lost_s_max: float = 25.0
    # A longer step is a gap in the data: unknown, not stalled. Three looks in a row may be missed at one every 10 s: the sizes
    # at both ends still tell the mean between them, but what the throttles allowed for longer is anybody's guess.
    step_s_max: float = 45.0
    # Shorter steps are put together until they span most of the quota's 11 s: a clump that falls into one stretch and the
    # silence that falls into the next would else be judged apart. Two scrapes 5 s apart do, and one after 10 s, with jitter.
    step_s_min: float = 8.5
    # One step may not decide alone, neither for (a clump of catch-up) nor against (a burst of writes).
    share_max: float = 5.0
    # Silence while producers write counts as 0.7 s a second, so that 11 s of the quota's rhythm and a hiccup stay below 15.
    share_min: float = -0.2
    # What counts as progress where the throttle allows none, or nothing is known of it.
    progress_bytes_per_s_min: float = 1 * MB
    # Nearly there: what is left is what was written a moment ago, and its size is noise.
    near_end_write_s: float = 2.0
    near_end_bytes: float = 1 * MB
    # Before this much has been seen, "progressing" is not said either: the quota moves bytes in an 11 s rhythm.
    observed_s_min: float = 24.0
