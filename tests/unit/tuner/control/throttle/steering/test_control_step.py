"""The order of rules in a control step: hold, decay, ramp, boost, and the latency margin."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tuner_cases import F, L

from streaming.shared.contract import BrokerSignal, MoveSignal, Side, ThrottledBy
from tuner.control.throttle.objective import Capacity, ControlLimits, Mode, Objective
from tuner.control.throttle.steering.law import control_step
from tuner.control.throttle.steering.state import ControlInput, ControlState
from tuner.core.broker_baseline import BrokerBaseline
from tuner.core.cluster import BrokerSide
from tuner.core.throttle_limits import MB

LIMITS = ControlLimits(takeover_ramp_s=0.1)
FAST = Objective(50.0)
SIDE, OTHER, OTHER_LEADER = (1, L), (2, F), (2, L)
START_MS = 1_000_000


def broker(
    node: int, at_s: int, *, throttled: float | None = None, client: float = 30 * MB, under_min: float | None = None
) -> BrokerSignal:
    return BrokerSignal(
        "c", node, START_MS + at_s * 1000, START_MS + at_s * 1000, 2, 1.0, leader_throttled_bytes_per_s=throttled,
        follower_throttled_bytes_per_s=throttled, throttled_by=ThrottledBy.QUOTA,
        network_out_bytes_per_s=client + 20 * MB, network_in_bytes_per_s=client + 20 * MB,
        reassignment_out_bytes_per_s=20 * MB, reassignment_in_bytes_per_s=20 * MB, produce_p99_ms=10.0,
        fetch_p99_ms=10.0, under_min_isr_partitions=under_min,
    )  # fmt: skip


def move(side: BrokerSide, at_s: int, remaining: float | None = 10_000 * MB) -> MoveSignal:
    return MoveSignal(
        "c", side[0], side[1], START_MS + at_s * 1000, START_MS + at_s * 1000, 2, 1.0, 1, 1, remaining_bytes=remaining,
        steady_state_bytes_per_s=2 * MB, write_bytes_per_s=1 * MB,
    )  # fmt: skip


def view(now_s: float, signal: BrokerSignal, moving: MoveSignal | None, stands: int = 20_000_000) -> ControlInput:
    moves = {SIDE: moving} if moving is not None else {}
    now_ms = START_MS + round(now_s * 1000)
    return ControlInput(now_ms, {1: signal}, moves, {SIDE: stands}, {1: Capacity(125 * MB, 125 * MB)})


def meant(memory: ControlState) -> float:
    return memory.side_states[SIDE].setpoint.rate_bytes_per_s


def test_replicas_blocking_writes_open_throttle_to_link() -> None:
    waiting = view(12, broker(1, 10, under_min=1.0), move(SIDE, 10))
    assert (
        meant(control_step(replace(waiting, recovering_sides=frozenset({SIDE})), ControlState(), FAST, LIMITS)[0])
        == 125 * MB
    )
    capped = replace(LIMITS, rate_bytes_per_s_max=60 * MB)
    assert (
        meant(control_step(replace(waiting, recovering_sides=frozenset({SIDE})), ControlState(), FAST, capped)[0])
        == 60 * MB
    )


def test_permanently_lost_replica_opens_no_throttle() -> None:
    """Nothing recovers through this throttle, so more of it would only hurt the clients."""
    waiting = view(12, broker(1, 10, under_min=1.0), move(SIDE, 10))
    assert meant(control_step(waiting, ControlState(), FAST, LIMITS)[0]) < 85 * MB


def test_stale_signals_open_no_throttle() -> None:
    waiting = view(10, broker(1, 10, under_min=1.0), move(SIDE, 10))
    memory, _ = control_step(view(10, broker(1, 10), move(SIDE, 10)), ControlState(), FAST, LIMITS)
    before = meant(memory)
    late = replace(waiting, now_ms=START_MS + 27_000, recovering_sides=frozenset({SIDE}))
    assert meant(control_step(late, memory, FAST, LIMITS)[0]) == before


@pytest.mark.parametrize("side", [L, F])
def test_law_never_writes_above_the_throttle_of_a_plan(side: Side) -> None:
    """The setting plays around what is meant, and may not play above what the plan allows."""
    memory, rate, written = ControlState(), 9_000_000, []
    key = (1, side)
    for second in range(12, 90):
        at_s = second // 5 * 5
        seen = ControlInput(
            START_MS + second * 1000, {1: broker(1, at_s, throttled=8 * MB)}, {key: move(key, at_s)}, {key: rate},
            {1: Capacity(125 * MB, 125 * MB)}, plan_max_rates={key: 9.0 * MB},
        )  # fmt: skip
        memory, rates = control_step(seen, memory, FAST, LIMITS)
        rate = rates.get(key, rate)
        written.append(rate)
    assert max(written) <= 9 * MB
    free, _ = control_step(replace(seen, plan_max_rates={}), memory, FAST, LIMITS)
    assert free.side_states[key].setpoint.rate_bytes_per_s > 9 * MB, "without it the law would take more"


DEADLINE = Objective(50.0, Mode.DEADLINE, START_MS + 4_000_000)


def deadline_rate(ratio: float | None, objective: Objective = DEADLINE, others: float | None = None) -> float:
    """The setpoint of a side with 10 GB and W of 2 MB/s. Another side needs far longer than the deadline at the headroom of now."""
    seen = view(12, broker(1, 10), move(SIDE, 10))
    seen = replace(
        seen,
        brokers={**seen.brokers, 2: broker(2, 10)},
        moves={**seen.moves, OTHER: move(OTHER, 10, 1_000_000 * MB)} if others is not None else seen.moves,
        current_rates={SIDE: 20_000_000, OTHER: 20_000_000},
        capacities=dict.fromkeys((1, 2), Capacity(125 * MB, 125 * MB)),
        deadline_ratios={s: r for s, r in ((SIDE, ratio), (OTHER, others)) if r is not None},
    )
    limits = replace(LIMITS, rate_bytes_per_s_min=1 * MB)
    # The ramp after the takeover has ended in the second step.
    memory, _ = control_step(replace(seen, now_ms=seen.now_ms - 1000), ControlState(), objective, limits)
    return meant(control_step(seen, memory, objective, limits)[0])


def test_deadline_forecast_shortens_the_time_of_a_side() -> None:
    """12 of 4,000 s have passed; 15 s and a tenth are reserves."""
    left_s = 0.9 * (4_000 - 12 - 15)
    plain = deadline_rate(None)
    assert plain == pytest.approx(2 * MB + 10_000 * MB / left_s)
    assert deadline_rate(1.0) == plain
    assert deadline_rate(0.25) == pytest.approx(2 * MB + 10_000 * MB / (0.25 * left_s))


def test_deadline_forecast_without_enough_room_uses_all_headroom() -> None:
    assert deadline_rate(0.0) == pytest.approx(deadline_rate(0.0, Objective(50.0)), rel=0.01)
    assert deadline_rate(0.0) > 5 * deadline_rate(None)


def test_deadline_forecast_of_a_slow_side_does_not_delay_the_others() -> None:
    """The slow side will have more room later, so the others do not wait for the time that it would take now."""
    assert deadline_rate(1.0, others=1.0) == deadline_rate(None)


def test_deadline_forecast_has_no_effect_in_other_modes() -> None:
    assert deadline_rate(0.1, Objective(50.0, Mode.GENTLE)) == deadline_rate(None, Objective(50.0, Mode.GENTLE))


@settings(max_examples=60, deadline=None)
@given(
    ratio=st.floats(0.0, 1.0),
    ceiling_mb=st.integers(6, 120),
    client_mb=st.floats(0.0, 120.0),
    plan_mb=st.none() | st.integers(6, 60),
)
def test_deadline_forecast_never_exceeds_ceiling_or_headroom(
    ratio: float, ceiling_mb: int, client_mb: float, plan_mb: int | None
) -> None:
    seen = replace(
        view(12, broker(1, 10, client=client_mb * MB), move(SIDE, 10)),
        plan_max_rates={} if plan_mb is None else {SIDE: plan_mb * MB},
        deadline_ratios={SIDE: ratio},
    )
    limits = replace(LIMITS, rate_bytes_per_s_max=ceiling_mb * MB)
    rates = []
    for objective in (DEADLINE, Objective(50.0)):
        memory, _ = control_step(replace(seen, now_ms=seen.now_ms - 1000), ControlState(), objective, limits)
        rates.append(meant(control_step(seen, memory, objective, limits)[0]))
    rate, fast = rates
    assert rate <= min(ceiling_mb, plan_mb or ceiling_mb) * MB
    assert rate <= fast + 1


def stalled(throttled: float) -> float:
    """What is meant for a side with 2,000 MB to move, while one with 20,000 MB sets the pace, and its move has stalled."""
    memory, rate = ControlState(), 9_600_000
    for second in range(12, 60):
        at_s = second // 5 * 5
        both = {SIDE: move(SIDE, at_s, 2_000 * MB), OTHER: move(OTHER, at_s, 20_000 * MB)}
        brokers = {1: broker(1, at_s, throttled=throttled), 2: broker(2, at_s)}
        links = dict.fromkeys((1, 2), Capacity(125 * MB, 125 * MB))
        seen = ControlInput(
            START_MS + second * 1000, brokers, both, {SIDE: rate}, links, stalled_sides=frozenset({SIDE})
        )
        memory, _ = control_step(seen, memory, FAST, LIMITS)
    return meant(memory)


def test_stall_raises_only_the_binding_throttle() -> None:
    slow = stalled(throttled=2 * MB)
    assert slow == pytest.approx(10.2 * MB, rel=0.1)
    assert stalled(throttled=60 * MB) > 2 * slow


def beside_the_slowest(throttled: float | None, seconds: int = 60, remaining: float = 40_000 * MB) -> list[float]:
    """What is meant, second by second, for a side with 2,000 MB beside one with more, of which so much passes."""
    memory, rates = ControlState(), {SIDE: 9_600_000, OTHER_LEADER: 80_000_000}
    found = []
    for second in range(12, 12 + seconds):
        at_s = second // 5 * 5
        both = {SIDE: move(SIDE, at_s, 2_000 * MB), OTHER_LEADER: move(OTHER_LEADER, at_s, remaining)}
        brokers = {1: broker(1, at_s), 2: broker(2, at_s, throttled=throttled)}
        links = dict.fromkeys((1, 2), Capacity(125 * MB, 125 * MB))
        memory, _ = control_step(
            ControlInput(START_MS + second * 1000, brokers, both, rates, links), memory, FAST, LIMITS
        )
        found.append(meant(memory))
    return found


def test_side_limited_elsewhere_delays_no_other() -> None:
    """It could take 80 MB/s and takes 40. What is measured looks back over 25 seconds; until then the other waits."""
    meant_rates = beside_the_slowest(throttled=40 * MB)
    assert max(meant_rates[:25]) < 8 * MB
    assert min(meant_rates[27:]) > 9 * MB


def test_slowest_side_with_full_or_unmeasured_throttle_is_awaited() -> None:
    assert max(beside_the_slowest(throttled=80 * MB)) < 8 * MB
    assert max(beside_the_slowest(throttled=None)) < 8 * MB


@pytest.mark.parametrize("missing", ["the move's signal", "what remains", "the network"])
def test_incomplete_signals_hold_then_lower_the_rate(missing: str) -> None:
    memory, _ = control_step(view(10, broker(1, 10), move(SIDE, 10)), ControlState(), FAST, LIMITS)
    before, stands = meant(memory), 20_000_000
    for second in range(11, 200):
        signal, moving = broker(1, second), move(SIDE, second)
        if missing == "the network":
            signal = replace(signal, network_out_bytes_per_s=None)
        seen = view(second, signal, None if missing == "the move's signal" else moving, stands)
        if missing == "what remains":
            seen = replace(seen, moves={SIDE: replace(moving, remaining_bytes=None)})
        memory, writes = control_step(seen, memory, FAST, LIMITS)
        if second > 25:
            assert writes.get(SIDE, stands) <= stands
            assert meant(memory) <= before
        stands = writes.get(SIDE, stands)
        before = meant(memory)
    assert before < 40 * MB
    assert stands <= 1.08 * before  # A window behind, and a dead-band.


def test_ended_move_loses_its_control_state() -> None:
    memory, _ = control_step(view(10, broker(1, 10), move(SIDE, 10)), ControlState(), FAST, LIMITS)
    over = replace(move(SIDE, 11), moving_partitions=0)
    memory, writes = control_step(view(11, broker(1, 11), over), memory, FAST, LIMITS)
    assert memory.side_states == {}
    assert writes == {}


def test_nonbinding_throttle_needs_no_ramp_down() -> None:
    """50 MB/s stand, 20 pass: the window is taken to hold 20, and the line to another rate begins there."""
    memory, _ = control_step(
        view(12, broker(1, 10, throttled=20 * MB), move(SIDE, 10), 50_000_000), ControlState(), FAST, LIMITS
    )
    assert set(memory.side_states[SIDE].window.setpoints) == {20 * MB}


def first_write(stands: int, client: float = 30 * MB) -> float:
    """What stands after the first second of a take-over on whose side 13 MB/s count, by Kafka's mean over its window."""
    seen = view(12, broker(1, 10, throttled=13 * MB, client=client), move(SIDE, 10), stands=stands)
    _, writes = control_step(seen, ControlState(), FAST, replace(LIMITS, takeover_ramp_s=10.0))
    return writes.get(SIDE, stands)


def test_planned_raise_is_not_preceded_by_a_cut() -> None:
    """20 MB/s stand under a move that has just begun, and 80 are free: Kafka's mean counts seconds in which it was not there."""
    assert 20_000_000 <= first_write(20_000_000) < 20_500_000


def test_planned_cut_starts_at_measured_rate() -> None:
    """Clients leave 80 MB/s of the link, and 120 stand."""
    assert first_write(120_000_000) < 40 * MB


@pytest.mark.parametrize(("throttled", "held_to"), [(20 * MB, 20 * MB), (46 * MB, None), (None, None)])
def test_initial_bottleneck_is_inferred_from_measured_rate(throttled: float | None, held_to: float | None) -> None:
    memory, _ = control_step(
        view(12, broker(1, 10, throttled=throttled), move(SIDE, 10), 50_000_000), ControlState(), FAST, LIMITS
    )
    assert memory.side_states[SIDE].initial_flow_bytes_per_s == held_to


@pytest.mark.parametrize(("steady_state", "held_to"), [(5 * MB, None), (4 * MB, 3 * MB)])
def test_rate_below_steady_state_binds_even_new_moves(steady_state: float, held_to: float | None) -> None:
    """Of 5 MB/s 3 have passed in Kafka's mean, which counts seconds from before the move."""
    young = replace(move(SIDE, 10), steady_state_bytes_per_s=steady_state)
    memory, _ = control_step(view(12, broker(1, 10, throttled=3 * MB), young, 5_000_000), ControlState(), FAST, LIMITS)
    assert memory.side_states[SIDE].initial_flow_bytes_per_s == held_to
    assert memory.side_states[SIDE].window.seconds[0] == (3 * MB if held_to else 5 * MB)


@pytest.mark.parametrize(("restore", "corrected"), [(0, False), (10_000_000, True), (None, True)])
def test_step_before_the_start_of_a_throttle_is_not_counted(restore: int | None, corrected: bool) -> None:
    """The step of 20 MB/s ended two seconds after the takeover, and began before it."""
    restores = {} if restore is None else {SIDE: restore}
    begun = replace(view(10, broker(1, 8, throttled=0.0), move(SIDE, 8), 5_000_000), restore_rates=restores)
    state, _ = control_step(begun, ControlState(), FAST, LIMITS)
    begun = replace(view(13, broker(1, 12, throttled=0.0), move(SIDE, 12), 5_000_000), restore_rates=restores)
    state, _ = control_step(begun, state, FAST, LIMITS)
    assert (state.side_states[SIDE].corrected_until_ms == START_MS + 12_000) is corrected
    begun = replace(view(17, broker(1, 16, throttled=0.0), move(SIDE, 16), 5_000_000), restore_rates=restores)
    state, _ = control_step(begun, state, FAST, LIMITS)
    assert state.side_states[SIDE].corrected_until_ms == START_MS + 16_000


def test_throttle_that_has_just_started_is_raised_by_the_planned_rate() -> None:
    """Nothing has passed it yet. The rate rises with the setpoints of its window, and is not held to a flow of 0."""
    begun = replace(view(10, broker(1, 8, throttled=0.0), move(SIDE, 8), 5_000_000), restore_rates={SIDE: 0})
    state, writes = control_step(begun, ControlState(), FAST, LIMITS)
    for second in (11, 12):
        begun = replace(
            begun, now_ms=START_MS + second * 1000, current_rates={SIDE: writes.get(SIDE, begun.current_rates[SIDE])}
        )
        state, writes = control_step(begun, state, FAST, LIMITS)
    setpoint = meant(state)
    assert setpoint > 50 * MB
    assert writes[SIDE] == pytest.approx((10 * 5 * MB + 2 * setpoint) / 12, rel=0.01)


@pytest.mark.parametrize(
    ("p99_ms", "stalled", "opens"), [(None, True, True), (None, False, False), (10.0, True, False)]
)
def test_stalled_move_is_rescued_where_neither_capacity_nor_latency_is_known(
    p99_ms: float | None, stalled: bool, opens: bool
) -> None:
    limits = replace(LIMITS, rate_bytes_per_s_max=60 * MB)
    memory = ControlState()
    for at_s in range(10, 60):
        signal = replace(broker(1, at_s, client=5 * MB), produce_p99_ms=p99_ms, client_in_bytes_per_s=5 * MB)
        now = replace(view(at_s, signal, move(SIDE, at_s), 20_000_000), capacities={})
        now = replace(
            now, stalled_sides=frozenset({SIDE}) if stalled else frozenset(), baselines={1: BrokerBaseline(9.0)}
        )
        memory, _ = control_step(now, memory, Objective(), limits)
    assert (meant(memory) == 60 * MB) is opens


def test_broker_without_a_signal_keeps_what_was_learned() -> None:
    memory, _ = control_step(view(10, broker(1, 10), move(SIDE, 10)), ControlState(), FAST, LIMITS)
    later = replace(view(15, broker(1, 10), move(SIDE, 15)), brokers={})
    after, _ = control_step(later, memory, FAST, LIMITS)
    assert after.broker_estimates == memory.broker_estimates
