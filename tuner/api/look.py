"""One look at the tuner: all that the views are made of, from a single cycle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from streaming.contract import MoveSignal, Side
from tuner.api.history import Peak
from tuner.api.watched import Picture
from tuner.decide.rescue_rate import infeasible
from tuner.model.cluster import BrokerSide, Observation, RateSetting
from tuner.model.decision import Decision
from tuner.model.objectives import Objective
from tuner.model.orders import Orders
from tuner.plan.move_time import SideLoad


@dataclass(frozen=True)
class Look:
    """All that the views are made of: the last cycle, what it is measured against, and what was seen before it.

    What several views need is made once.
    """

    picture: Picture
    peaks: Mapping[int, Peak]
    objective: Objective | None
    dry_run: bool

    @property
    def seen(self) -> Observation | None:
        return self.picture.snapshot.observation

    @property
    def orders(self) -> Orders:
        return self.seen.orders if self.seen is not None else Orders()

    @cached_property
    def rates(self) -> Mapping[BrokerSide, RateSetting]:
        live = self.picture.snapshot.live
        return live.rates if live is not None else {}

    @cached_property
    def moves(self) -> Mapping[BrokerSide, MoveSignal]:
        return self.picture.snapshot.moves()

    @cached_property
    def loads(self) -> Mapping[BrokerSide, SideLoad]:
        return self.picture.snapshot.loads()

    @cached_property
    def onto(self) -> Mapping[int, MoveSignal]:
        """What is measured of the moves, by destination; a measurement that comes after the last has ended is history."""
        live = self.picture.snapshot.live
        if live is not None and not live.moves:
            return {}
        return {b: s for (b, side), s in sorted(self.moves.items()) if side is Side.FOLLOWER and s.moving_partitions}

    @cached_property
    def said(self) -> Mapping[BrokerSide, Decision]:
        """What the last cycle said of each side."""
        found: dict[BrokerSide, Decision] = {}
        for decision in self.picture.decisions:
            broker, side = getattr(decision, "broker", None), getattr(decision, "side", None)
            if broker is not None and side is not None:
                found[(broker, side)] = decision
        return found

    def infeasible(self, side: BrokerSide) -> bool:
        load, setting = self.loads.get(side), self.rates.get(side)
        limits = self.picture.snapshot.limits
        return load is not None and setting is not None and infeasible(setting.bytes_per_s, load, limits)
