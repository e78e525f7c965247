"""Closed-loop control with any signals keeps its limits, removes no throttle, and raises no rate without fresh signals.

First ``control_step`` alone gets contradictory signals. Then it runs on small clusters whose signals come late, incomplete or
not at all, while brokers stop and operators set rates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streaming.shared.contract import BrokerSignal, MoveSignal, Side, ThrottledBy
from tuner.control.throttle.objective import Capacity, ControlLimits, Mode, Objective
from tuner.control.throttle.replica_lists.list_rules import DRAIN_OVER_STEADY_STATE
from tuner.control.throttle.steering.law import control_step
from tuner.control.throttle.steering.state import ControlInput, ControlState, SideControlState
from tuner.core.cluster import BrokerSide
from tuner.core.throttle_limits import MB
from tuner.simulation.policy import EPOCH_MS, RuleInput, RulePolicy
from tuner.simulation.run import run
from tuner.simulation.world import (
    BrokerLoss,
    BrokerSpec,
    ClientLoad,
    Disturbance,
    InitialRate,
    OperatorWrite,
    PartitionSpec,
    SignalDelivery,
    SignalOutage,
    TopicLists,
    World,
)

CEILING = 90 * MB
LIMITS = ControlLimits(rate_bytes_per_s_max=CEILING)
SIDES: tuple[BrokerSide, ...] = ((1, Side.LEADER), (2, Side.LEADER), (3, Side.FOLLOWER))
OBJECTIVES = (
    Objective(50.0),
    Objective(50.0, Mode.GENTLE),
    Objective(50.0, Mode.SHARE, share_max=0.3),
    Objective(50.0, Mode.DEADLINE, finish_at_ms=2_000_000),
)
LINK = Capacity(125 * MB, 125 * MB)


def least_bytes_per_s(steady_state_bytes_per_s: float, over_steady_state: float = 1.2) -> float:
    """Returns the lower limit: the rate that drains, at least one fetch response, below the operator's ceiling."""
    return min(CEILING, max(5 * MB, over_steady_state * steady_state_bytes_per_s))


def check_bounds(
    rate: int,
    before: int,
    course: SideControlState,
    objective: Objective,
    *,
    blind: bool,
    recovering: bool = False,
) -> None:
    """Invariant 3. A share of the link is the operator's ceiling as well, in-sync followers aside: the floor is below it. What somebody had set outside of the bounds may be on its way into them, and is never taken further out.

    Where nothing is stale no rate lies below the floor, whatever stood there, and the floor comes down to what clients leave, but no
    nearer to what keeps up than 1.05 of it. Where something is, a rate sinks to the whole floor and no further.
    """
    steady_state_bytes_per_s, meant_bytes_per_s = course.load.steady_state_bytes_per_s, course.setpoint.rate_bytes_per_s
    assert math.isfinite(rate)
    assert rate <= max(CEILING, before) + 1
    share = math.inf if objective.share_max is None else objective.share_max * LINK.out_bytes_per_s
    if not (recovering or blind):
        # In-sync followers are a part of what keeps up. A setting plays around what is meant, as its window asks for it.
        assert meant_bytes_per_s <= max(before, share + steady_state_bytes_per_s) + 1
    if blind:
        assert min(before, share, least_bytes_per_s(steady_state_bytes_per_s)) - 1 <= rate <= before
    else:
        assert rate >= min(share, least_bytes_per_s(steady_state_bytes_per_s, DRAIN_OVER_STEADY_STATE)) - 1


@dataclass
class Told:
    """The newest signals of one side that control has received, with their times."""

    broker: BrokerSignal | None = None
    move: MoveSignal | None = None
    whole_at_ms: int = 0


def mostly(usual: st.SearchStrategy[float]) -> st.SearchStrategy[float | None]:
    """Returns a strategy that sometimes yields None."""
    return st.integers(0, 7).flatmap(lambda drawn: usual if drawn else st.none())


RATES = st.floats(0.0, 200 * MB)
SECOND = st.fixed_dictionaries(
    {
        "side": st.sampled_from(SIDES),
        "late_s": st.sampled_from([2, 3, 4, 14, 40]),
        "network": mostly(RATES),
        "caught": mostly(st.floats(0.0, 60 * MB)),
        "throttled": mostly(RATES),
        "p99_ms": mostly(st.floats(1.0, 500.0)),
        "shrinks": st.sampled_from([None, 0.0, 0.1]),
        "under_min": st.sampled_from([None, 0.0, 3.0]),
        "remaining": mostly(st.floats(1e9, 1e12)),
        "steady_state": mostly(st.floats(0.0, 60 * MB)),
        "says": st.sampled_from(["all", "all", "all", "all", "broker", "move", "nothing", "forgotten"]),
        "stalled": st.booleans(),
        "recovering": st.booleans(),
        "planned": st.booleans(),
        "lasts_s": st.sampled_from([1, 5, 5, 5, 20, 40]),
    }
)


def hear(told: Told, side: BrokerSide, second: Mapping[str, Any], now_ms: int) -> None:
    """Replaces an older signal by a newer one, as the signal reader does."""
    at_ms = now_ms - int(second["late_s"]) * 1000
    if second["says"] == "forgotten":
        told.broker = told.move = None
    if second["says"] in ("all", "broker") and (told.broker is None or at_ms > told.broker.sampled_at_ms):
        values = {
            "leader_throttled_bytes_per_s": second["throttled"], "follower_throttled_bytes_per_s": second["throttled"],
            "network_out_bytes_per_s": second["network"], "network_in_bytes_per_s": second["network"],
            "reassignment_out_bytes_per_s": second["caught"], "reassignment_in_bytes_per_s": second["caught"],
            "produce_p99_ms": second["p99_ms"], "isr_shrinks_per_s": second["shrinks"],
            "under_min_isr_partitions": second["under_min"],
        }  # fmt: skip
        told.broker = BrokerSignal("c", side[0], at_ms, at_ms, 6, 1.0, throttled_by=ThrottledBy.QUOTA, **values)
    if second["says"] in ("all", "move") and (told.move is None or at_ms > told.move.sampled_at_ms):
        told.move = MoveSignal(
            "c", side[0], side[1], at_ms, at_ms, 6, 1.0, 1, 1, remaining_bytes=second["remaining"],
            steady_state_bytes_per_s=second["steady_state"], write_bytes_per_s=1 * MB,
        )  # fmt: skip


def whole(told: Told) -> int | None:
    if told.broker is None or told.move is None:
        return None
    if None in (told.move.remaining_bytes, told.move.steady_state_bytes_per_s):
        return None
    if None in (told.broker.network_out_bytes_per_s, told.broker.reassignment_out_bytes_per_s):
        return None
    return min(told.broker.sampled_at_ms, told.move.sampled_at_ms)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(SECOND, min_size=3, max_size=40), st.sampled_from(OBJECTIVES), st.integers(1, 200))
def test_any_signals_keep_rates_within_limits(
    seconds: list[dict[str, Any]], objective: Objective, start_mb: int
) -> None:
    memory, now_ms = ControlState(), 1_000_000
    told = {side: Told(whole_at_ms=now_ms) for side in SIDES}
    stands = dict.fromkeys(SIDES, start_mb * 1_000_000)
    for second in seconds:
        side: BrokerSide = second["side"]
        hear(told[side], side, second, now_ms)
        flagged = frozenset({side})
        for _ in range(int(second["lasts_s"])):
            now_ms += 1000
            view = ControlInput(
                now_ms,
                {s[0]: t.broker for s, t in told.items() if t.broker is not None},
                {s: t.move for s, t in told.items() if t.move is not None},
                stands,
                {b: LINK for b, _ in SIDES},
                stalled_sides=flagged if second["stalled"] else frozenset(),
                recovering_sides=flagged if second["recovering"] else frozenset(),
                planned_sides=flagged if second["planned"] else frozenset(),
            )
            before = memory
            memory, writes = control_step(view, memory, objective, LIMITS)
            for each, heard in told.items():
                at_ms = whole(heard)
                blind = at_ms is None or now_ms - at_ms > LIMITS.hold_age_s * 1000
                if each in writes:
                    course, recovering = memory.side_states[each], each in view.recovering_sides
                    check_bounds(writes[each], stands[each], course, objective, blind=blind, recovering=recovering)
                if blind and each in before.side_states and each in memory.side_states:
                    meant = memory.side_states[each].setpoint.rate_bytes_per_s
                    assert meant <= before.side_states[each].setpoint.rate_bytes_per_s
            stands = stands | writes


@given(st.floats(6 * MB, 80 * MB), st.floats(0.0, 10 * MB), st.integers(1, 60))
@settings(max_examples=40, deadline=None)
def test_side_without_signals_holds_then_falls_to_minimum(client: float, steady_state: float, heard_s: int) -> None:
    broker = BrokerSignal(
        "c", 1, 0, 0, 6, 1.0, network_out_bytes_per_s=client + 20 * MB, network_in_bytes_per_s=0.0,
        reassignment_out_bytes_per_s=20 * MB, reassignment_in_bytes_per_s=0.0, produce_p99_ms=20.0,
    )  # fmt: skip
    move = MoveSignal(
        "c",
        1,
        Side.LEADER,
        0,
        0,
        6,
        1.0,
        1,
        1,
        remaining_bytes=1e11,
        steady_state_bytes_per_s=steady_state,
        write_bytes_per_s=0.0,
    )
    side, memory, stands, rates = SIDES[0], ControlState(), 20_000_000, []
    for second in range(1000 + heard_s):
        at_ms = 1_000_000 + min(second, heard_s) // 5 * 5000
        moved = replace(move, sampled_at_ms=at_ms)
        view = ControlInput(
            1_000_000 + second * 1000,
            {1: replace(broker, sampled_at_ms=at_ms)},
            {side: moved},
            {side: stands},
            {1: LINK},
        )
        memory, writes = control_step(view, memory, OBJECTIVES[0], LIMITS)
        stands = writes.get(side, stands)
        rates.append(stands)
    last_s = heard_s // 5 * 5
    assert all(later <= earlier for earlier, later in zip(rates[last_s + 16 :], rates[last_s + 17 :], strict=False))
    assert rates[-1] <= 1.08 * least_bytes_per_s(steady_state)
    assert rates[-1] >= 0.999 * min(least_bytes_per_s(steady_state), rates[last_s + 16])


@dataclass(frozen=True)
class TunerFaults:
    """Faults of the tuner itself, as (from, until) in seconds."""

    objective: Objective
    not_seen_s: tuple[float, float]  # The look at the cluster fails, and nothing is steered.
    refused_s: tuple[float, float]  # Brokers take no write, ...
    refused_by: int  # ... this one, or (0) all of them.


@dataclass
class Watched:
    """Closed-loop control on a simulated cluster, with its limits checked."""

    fate: TunerFaults
    memory: ControlState = field(default_factory=ControlState)
    seconds: int = 0
    refused: int = 0

    def rates(self, now_s: float, view: RuleInput) -> Mapping[BrokerSide, int | None]:
        fate = self.fate
        if fate.not_seen_s[0] <= now_s < fate.not_seen_s[1]:
            self.memory = replace(self.memory, side_states={})  # As steering does it.
            return {}
        stands = {side: rate.bytes_per_s for side, rate in view.live.rates.items()}
        links = {b.broker: LINK for b in view.world.brokers}
        seen = ControlInput(EPOCH_MS + round(now_s * 1000), view.brokers, view.moves, stands, links)
        self.memory, writes = control_step(seen, self.memory, fate.objective, LIMITS)
        self.seconds += 1
        taken: dict[BrokerSide, int | None] = {}
        for side, rate in writes.items():
            told = Told(view.brokers.get(side[0]), view.moves.get(side))
            at_ms = whole(told)
            blind = at_ms is None or seen.now_ms - at_ms > LIMITS.hold_age_s * 1000
            check_bounds(rate, stands[side], self.memory.side_states[side], fate.objective, blind=blind)
            if fate.refused_s[0] <= now_s < fate.refused_s[1] and fate.refused_by in (0, side[0]):
                self.refused += 1
            else:
                taken[side] = rate
        return taken


SPELLS = st.tuples(st.integers(0, 120), st.integers(5, 60)).map(lambda drawn: (float(drawn[0]), float(sum(drawn))))
NEVER = st.just((0.0, 0.0))
FATES = st.builds(
    TunerFaults,
    objective=st.sampled_from(
        [*OBJECTIVES[:3], *(Objective(50.0, Mode.DEADLINE, EPOCH_MS + at_s * 1000) for at_s in (60, 200, 900))]
    ),
    not_seen_s=NEVER | SPELLS,
    refused_s=NEVER | SPELLS,
    refused_by=st.integers(0, 4),
)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Four brokers, a few minutes, up to three disturbances; operators set rates, also far outside the limits."""
    what: list[Disturbance] = []
    for kind in draw(st.lists(st.sampled_from(["outage", "loss", "person"]), max_size=3)):
        at_s = float(draw(st.integers(5, 120)))
        until_s = at_s + draw(st.integers(5, 90))
        broker = draw(st.integers(1, 4))
        if kind == "person":
            side = Side.FOLLOWER if broker == 4 else Side.LEADER
            what.append(
                OperatorWrite(
                    at_s, broker, side, draw(st.sampled_from([None, 100_000, 4_000_000, 30_000_000, 300_000_000]))
                )
            )
        else:
            what.append(
                SignalOutage(at_s, until_s, (broker,)) if kind == "outage" else BrokerLoss(at_s, until_s, broker)
            )
    rate = draw(st.integers(5, 120)) * 1_000_000
    late_s = draw(st.floats(0.5, 12.0))
    write = draw(st.sampled_from([1e6, 1e6, 8e6]))  # The last: W is 16 MB/s and more, so that the floor is not 5.
    moves = [PartitionSpec("t", i, 1.5e9, write, ((1, 2), (2, 3), (3, 1))[i % 3], (4,)) for i in range(3)]
    return World(
        seed=draw(st.integers(0, 1000)),
        brokers=tuple(BrokerSpec(b, 125e6, 125e6, 400e6, 400e6) for b in range(1, 5)),
        partitions=tuple(moves),
        loads=tuple(
            ClientLoad(b, draw(st.floats(5e6, 90e6)), draw(st.floats(5e6, 90e6)), noise_ratio=0.1) for b in range(1, 5)
        ),
        lists=(TopicLists("t", "0:1,0:2,1:2,1:3,2:3,2:1", "0:4,1:4,2:4"),),
        rates=(*(InitialRate(b, Side.LEADER, rate) for b in (1, 2, 3)), InitialRate(4, Side.FOLLOWER, rate)),
        disturbances=tuple(what),
        duration_s_max=240.0,
        delivery=SignalDelivery(delay_s_min=0.5, delay_s_max=late_s, loss_ratio=draw(st.sampled_from([0.0, 0.2, 0.5]))),
    )


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(worlds(), FATES)
def test_late_or_missing_signals_keep_rates_within_limits(world: World, fate: TunerFaults) -> None:
    law = Watched(fate)
    run(world, RulePolicy("law", law, every_s=1.0), settle_s=0.0)
    assert law.seconds > 0


def test_each_mode_steers_a_world_with_every_feature() -> None:
    """One fixed world with every feature, because random worlds may lack some."""
    persons = (OperatorWrite(30.0, 1, Side.LEADER, 100_000), OperatorWrite(60.0, 4, Side.FOLLOWER, None))
    brokers = tuple(BrokerSpec(b, 125e6, 125e6, 400e6, 400e6) for b in range(1, 5))
    world = World(
        seed=1, brokers=brokers, loads=tuple(ClientLoad(b, 40e6, 40e6, noise_ratio=0.1) for b in range(1, 5)),
        partitions=tuple(PartitionSpec("t", i, 3e9, 8e6, ((1, 2), (2, 3), (3, 1))[i], (4,)) for i in range(3)),
        lists=(TopicLists("t", "0:1,0:2,1:2,1:3,2:3,2:1", "0:4,1:4,2:4"),),
        rates=(*(InitialRate(b, Side.LEADER, 20_000_000) for b in (1, 2, 3)), InitialRate(4, Side.FOLLOWER, 20_000_000)),
        disturbances=persons, duration_s_max=120.0,
    )  # fmt: skip
    for objective in (*OBJECTIVES[:3], Objective(50.0, Mode.DEADLINE, EPOCH_MS + 900_000)):
        law = Watched(TunerFaults(objective, not_seen_s=(80.0, 90.0), refused_s=(12.0, 25.0), refused_by=0))
        run(world, RulePolicy("law", law, every_s=1.0), settle_s=0.0)
        assert law.refused > 0
        assert law.seconds < 115
        assert (4, Side.FOLLOWER) not in law.memory.side_states, "its rate was taken away"
        assert law.memory.side_states[(1, Side.LEADER)].setpoint.rate_bytes_per_s >= 1.05 * 16e6
