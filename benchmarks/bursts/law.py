"""Runs the control law on one pair of brokers while a copy is in progress, and changes its setpoint from time to time.

The simulated plant and real brokers use this same file, so that their results can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from streaming.shared.contract import BrokerSignal, MoveSignal, Side, ThrottledBy
from tuner.control.throttle.objective import Capacity, ControlLimits, Mode, Objective
from tuner.control.throttle.quota_window.ramp import WINDOW_S
from tuner.control.throttle.steering.law import control_step
from tuner.control.throttle.steering.state import ControlInput, ControlState
from tuner.core.cluster import BrokerSide
from tuner.runtime.throttle.steering_controller import TICK_EVERY_S

LINK = Capacity(100e6, 100e6)
# Takeover is not measured here, so its ramp is short. The rates of a lab are below the default minimum.
LIMITS = ControlLimits(rate_bytes_per_s_min=0.5e6, rate_bytes_per_s_max=50e6, takeover_ramp_s=1.0)
SCRAPE_S, STEPS = 5.0, 5  # The stream's window.
LATE_S = 2.0  # What the tuner hears of is so old.
ENDLESS_BYTES = 1e12

Passed = Callable[[float, float], float]  # (from, to) in seconds → bytes that came through.
Write = Callable[[Mapping[BrokerSide, int]], None]


class Law:
    """Decides once a second, with throughput signals that are some seconds old. The setpoint is a share of the link.

    The leader's throttle compensates for the contents of the quota window; the follower's throttle is a little higher.
    """

    def __init__(
        self,
        write: Write,
        passed: Passed,
        now_s: Callable[[], float],
        source: int,
        target: int,
        stands_bytes_per_s: int,
    ) -> None:
        self._write, self._passed, self._now_s = write, passed, now_s
        self._leader, self._follower = (source, Side.LEADER), (target, Side.FOLLOWER)
        self._stands = {self._leader: stands_bytes_per_s, self._follower: stands_bytes_per_s}
        self._objective = _share_of(stands_bytes_per_s)
        self._memory = ControlState()
        self._began_s = self._next_s = now_s()
        self._brokers: dict[int, BrokerSignal] = {}
        self._moves: dict[BrokerSide, MoveSignal] = {}

    def to(self, rate_bytes_per_s: int) -> None:
        """Sets the setpoint."""
        self._objective = _share_of(rate_bytes_per_s)

    def act(self) -> float:
        """Makes the writes that are due, and returns the time of the next ones."""
        now_s = self._now_s()
        if now_s < self._next_s:
            return self._next_s
        self._hear(now_s)
        view = ControlInput(_ms(now_s), self._brokers, self._moves, self._stands, dict.fromkeys(self._brokers, LINK))
        self._memory, writes = control_step(view, self._memory, self._objective, LIMITS)
        if writes:
            self._write(writes)
        self._stands |= writes
        self._next_s = max(self._next_s + TICK_EVERY_S, self._now_s())
        return self._next_s

    def _hear(self, now_s: float) -> None:
        """Takes the newest scrape that the stream would have delivered by now."""
        scrapes = int((now_s - LATE_S - self._began_s) / SCRAPE_S)
        to_s = self._began_s + max(0, scrapes) * SCRAPE_S
        steps = min(max(1, scrapes), STEPS)
        from_s = to_s - steps * SCRAPE_S
        mean = self._passed(from_s, to_s) / (to_s - from_s)
        counted = self._passed(to_s - WINDOW_S, to_s) / WINDOW_S
        for broker, side in (self._leader, self._follower):
            out, into = (mean, 0.0) if side is Side.LEADER else (0.0, mean)
            self._brokers[broker] = BrokerSignal(
                "lab",
                broker,
                _ms(to_s),
                _ms(to_s),
                steps + 1,
                1.0,
                leader_throttled_bytes_per_s=counted,
                follower_throttled_bytes_per_s=counted,
                throttled_by=ThrottledBy.QUOTA.value,
                network_out_bytes_per_s=out,
                reassignment_out_bytes_per_s=out,
                network_in_bytes_per_s=into,
                reassignment_in_bytes_per_s=into,
                produce_p99_ms=1.0,
            )
            self._moves[(broker, side)] = MoveSignal(
                "lab",
                broker,
                side,
                _ms(to_s),
                _ms(to_s),
                steps + 1,
                1.0,
                moving_partitions=1,
                listed_partitions=1,
                remaining_bytes=ENDLESS_BYTES,
                steady_state_bytes_per_s=0.0,
                write_bytes_per_s=0.0,
            )


def _share_of(rate_bytes_per_s: float) -> Objective:
    return Objective(latency_ms=50.0, mode=Mode.SHARE, share_max=rate_bytes_per_s / LINK.out_bytes_per_s)


def _ms(at_s: float) -> int:
    return round(at_s * 1000)
