"""Defines the inputs of the throttle rules for one side of one broker: its settings, measurements and stalled moves."""

from __future__ import annotations

from tuner.control.throttle.decision import Hold, Reason, SetRate
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.control.throttle.view import MovesView
from tuner.core.cluster import BrokerSide, RateSetting, side_name
from tuner.core.drain_time import SideLoad
from tuner.core.freshness import Freshness, age_s
from tuner.core.throttle_limits import ThrottleLimits
from tuner.core.value import value


@value
class SideCase:
    """A side (the leader or the follower throttle of one broker) in one cycle.

    Attributes:
        limits: the operator's limits. If a plan with a throttle below the ceiling copies through this side, the ceiling is the
            plan's throttle.
    """

    side: BrokerSide
    view: MovesView
    memory: Memory
    limits: ThrottleLimits

    @classmethod
    def of(cls, side: BrokerSide, view: MovesView, memory: Memory) -> SideCase:
        return cls(side, view, memory, view.limits_of(side))

    @property
    def setting(self) -> RateSetting | None:
        """The rate that is set now, even if no replica on a throttled-replica list counts against it."""
        return self.view.live.rates.get(self.side)

    @property
    def owned(self) -> OwnedRate | None:
        """The tuner's own rate on this side; None if the tuner has not set one."""
        return self.memory.owned.get(self.side)

    @property
    def is_ramping(self) -> bool:
        return self.side in self.view.ramping

    @property
    def blocks_writes(self) -> bool:
        """Whether this throttle slows a lost replica (fallen out of the ISR) that a partition needs to accept writes again."""
        return self.side in self.view.blocking_writes

    @property
    def is_limited_by_plan(self) -> bool:
        return self.view.is_limited_by_plan(self.side)

    @property
    def ceiling_name(self) -> str:
        return "the throttle of the plan" if self.is_limited_by_plan else "the ceiling"

    def hold(self, reason: Reason, text: str) -> Hold:
        return Hold(*self.side, reason, f"{side_name(self.side)}: {text}")

    def set_rate(self, setting: RateSetting, setpoint_bytes_per_s: int, reason: Reason, text: str) -> SetRate:
        """Returns the change of this throttle from ``setting`` to a setpoint; ``text`` names the side itself."""
        return SetRate(*self.side, setting.bytes_per_s, setpoint_bytes_per_s, reason, text, setting.is_set_on_broker)

    def hold_if_ramping_down(self) -> Hold | None:
        """Returns a hold that lets a ramp to a lower rate continue; None for a ramp to a higher rate."""
        setting, owned = self.setting, self.owned
        if setting is None or owned is None or owned.setpoint_bytes_per_s > setting.bytes_per_s:
            return None
        return self.hold(Reason.RATE_IS_CHANGING, "the rate falls in steps over the quota window")

    def hold_if_unmeasured(self, required: BrokerSide) -> Hold | None:
        """Returns a hold of this side if the signals of the side ``required`` are old or missing; else None."""
        match self.view.freshness(required):
            case Freshness.MISSING:
                text = f"no measurements of broker {required[0]} ({required[1]} side) yet"
                return self.hold(Reason.SIGNALS_MISSING, text)
            case Freshness.STALE:
                signal = self.view.signal(required)
                signal_age_s = age_s(signal, self.view.now_ms) if signal is not None else 0.0
                text = f"the last measurements of broker {required[0]} are {signal_age_s:.0f} s old"
                return self.hold(Reason.SIGNALS_STALE, text)
            case Freshness.FRESH:
                return None


@value
class Stall:
    """The stalled moves through one side.

    Attributes:
        destinations: brokers onto which a move has stalled, sorted; empty if all moves progress.
        bound_side: a side on the path of these moves whose throttle limits them; None if no throttle limits them.
        unmeasured_side: a side on the path of these moves whose throughput is unknown; None if all are known.
    """

    destinations: list[int]
    bound_side: BrokerSide | None
    unmeasured_side: BrokerSide | None


@value
class ThrottledSide:
    """A side with a throttle and a measured load: the input of both strategies."""

    case: SideCase
    setting: RateSetting
    load: SideLoad
    stall: Stall
