"""Tests the steering controller with extreme values, late brokers, external writes and clock changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from fake_throttles import FakeThrottles
from loop_rig import Rig
from test_steering_tick import OBJECTIVE, loaded, seconds, steered
from tuner_cases import NOW_MS, SEEN, SOURCE, STALL, TARGET, WELL, F, L, move_signal, owned

from streaming.shared.contract import ContractError, MoveStep, Side, decode_signal, encode_signal
from streaming.shared.kafka.cluster import ClusterError
from tuner.control.throttle.decision import Reason
from tuner.control.throttle.objective import Capacity, ControlLimits
from tuner.control.throttle.quota_window.model import rate_for_setpoint, steady_window
from tuner.control.throttle.state import Memory
from tuner.control.throttle.steering.allowed_utilisation import START_TOLD
from tuner.control.throttle.steering.law import control_step
from tuner.control.throttle.steering.state import ControlInput, ControlState
from tuner.core.cluster import BrokerSide
from tuner.core.throttle_limits import MB
from tuner.runtime.throttle.steering_controller import SteeringController


class World:
    """Signals as the stream makes them: one every 5 s, the mean of five steps; the throttle's surplus is what catches up. The newest
    step is told beside it, or not, as by a stream of before and of sources that send a scrape in parts."""

    def __init__(self, rig: Rig, clients: float, *, tells_steps: bool = True) -> None:
        self.rig, self.clients, self.ahead_ms, self.jmx, self.tells_steps = rig, clients, 0, True, tells_steps
        self.steps: list[tuple[float, float]] = []
        rig.signals.moves = {s: replace(m, remaining_bytes=600_000 * MB) for s, m in rig.signals.moves.items()}

    def five_seconds(self) -> None:
        rig = self.rig
        for _ in range(5):
            rig.now_s += 1
            rig.now_ms += 1000
            rig.loop.tick()
        step = (self.clients, max(0.0, rig.throttles.rates[SOURCE] - 6 * MB))
        self.steps = ([*self.steps, step] if self.steps else [step] * 5)[-5:]
        clients, caught = (sum(each) / 5 for each in zip(*self.steps, strict=True))
        at_ms = rig.now_ms - 2000 + self.ahead_ms
        # Without a latency, because more passes here than the link carries, and clients that do not wait would prove that it can.
        without_latency = {"sampled_at_ms": at_ms, "produce_p99_ms": None}
        rig.signals.brokers = {b: replace(loaded(b, clients, caught), **without_latency) for b in (1, 3)}
        if self.tells_steps:
            told = {
                f"step_{what}_{way}_bytes_per_s": rate
                for what, rate in (("reassignment", step[1]), ("network", sum(step)))
                for way in ("in", "out")
            }
            rig.signals.brokers = {b: replace(s, step_s=5.0, **told) for b, s in rig.signals.brokers.items()}
        if not self.jmx:
            none = dict.fromkeys(
                ("network_in_bytes_per_s", "network_out_bytes_per_s", "reassignment_in_bytes_per_s",
                 "reassignment_out_bytes_per_s", "produce_p99_ms", "fetch_p99_ms", "step_s",
                 "step_network_in_bytes_per_s", "step_network_out_bytes_per_s", "step_reassignment_in_bytes_per_s",
                 "step_reassignment_out_bytes_per_s")
            )  # fmt: skip
            rig.signals.brokers = {b: replace(s, **none) for b, s in rig.signals.brokers.items()}
        rig.signals.moves = {s: replace(m, sampled_at_ms=at_ms) for s, m in rig.signals.moves.items()}
        rig.loop.cycle()

    def minutes(self, count: int) -> None:
        for _ in range(12 * count):
            self.five_seconds()


def test_min_rate_never_exceeds_ceiling() -> None:
    rig = steered()
    rig.signals.moves = {s: move_signal(*s, steady_state=45 * MB) for s in (SOURCE, TARGET)}
    rig.cycle()
    seconds(rig, 10)
    assert rig.writes()
    assert all(value <= 50 * MB for _, _, value in rig.writes())


def test_infeasible_move_keeps_its_rate() -> None:
    """Somebody's 70 MB/s carries the 60 that keeping up takes; the ceiling of 50 would not."""
    rig = steered()
    rig.throttles.rates.update({SOURCE: 70 * MB, TARGET: 70 * MB})
    rig.signals.moves = {s: move_signal(*s, steady_state=60 * MB) for s in (SOURCE, TARGET)}
    assert rig.cycle() == [Reason.INFEASIBLE] * 2
    seconds(rig, 10)
    assert rig.writes() == []


def test_external_write_during_slow_record_is_preserved() -> None:
    rig = steered()
    rig.cycle()
    seconds(rig, 2)
    writing = rig.journal.write

    def slow(*args: object, **kwargs: object) -> None:
        writing(*args, **kwargs)  # type: ignore[arg-type]
        rig.throttles.rates[SOURCE] = 3 * MB

    rig.journal.write = slow  # type: ignore[method-assign]
    seconds(rig, 3)
    assert rig.throttles.rates[SOURCE] == 3 * MB
    rig.journal.write = writing  # type: ignore[method-assign]
    seconds(rig, 2)
    rig.cycle()
    assert SOURCE in rig.loop.memory.externally_owned_until_ms


def many(count: int, rate: int = 20 * MB, writes_per_s_max: float = 50.0) -> tuple[FakeThrottles, SteeringController]:
    throttles = FakeThrottles(brokers=range(count), rates={(b, L): rate for b in range(count)})
    limits = ControlLimits(rate_bytes_per_s_max=100 * MB, takeover_ramp_s=0.1)
    steering = SteeringController(
        throttles, OBJECTIVE, lambda _: Capacity(125 * MB, 125 * MB), limits, writes_per_s_max=writes_per_s_max
    )
    return throttles, steering


def test_fifty_external_changes_are_awaited_once() -> None:
    throttles, steering = many(50, rate=100 * MB)
    steering.assign_sides(dict.fromkeys(throttles.rates, (100 * MB, True)), {}, {}, 0.0)
    brokers = {b: loaded(b, 40 * MB) for b in range(50)}
    moves = {(b, L): move_signal(b, L, remaining=60_000 * MB) for b in range(50)}
    steering.next_changes(1.0, NOW_MS + 1000, brokers, moves)
    changes = steering.next_changes(2.0, NOW_MS + 2000, brokers, moves)
    waits: list[int] = []
    confirm = throttles.confirm_rates

    def counted(rates: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, str | None]:
        waits.append(len(rates))
        return confirm(rates)

    throttles.confirm_rates = counted  # type: ignore[method-assign]
    throttles.rates.update({(b, L): 30 * MB for b in range(49)})
    assert len(steering.find_refused(changes)) == 49
    assert waits == [49]


def test_cluster_lost_during_confirmation_does_not_end_tuner() -> None:
    rig = steered()
    rig.cycle()
    seconds(rig, 1)

    def away(_: object) -> dict[BrokerSide, int | ClusterError | None]:
        raise ClusterError("cannot describe broker configs")

    def then_away(rates: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, str | None]:
        rig.throttles.read_rates = away  # type: ignore[method-assign, assignment]
        return dict.fromkeys(rates, "written, but not read back")

    rig.throttles.confirm_rates = then_away  # type: ignore[method-assign]
    rig.throttles.rates.update({SOURCE: 3 * MB, TARGET: 3 * MB})
    seconds(rig, 3)
    assert rig.throttles.rates == {SOURCE: 3 * MB, TARGET: 3 * MB}


def test_write_shown_four_seconds_late_is_managed() -> None:
    rig = steered(Memory(moving_replicas=SEEN, throttled=True, stalls={3: WELL}))
    rig.cycle()
    seconds(rig, 2)
    shown, until_s, read = rig.throttles.rates[SOURCE], rig.now_s + 4, rig.throttles.read_rates

    def late(sides: object) -> dict[BrokerSide, int | ClusterError | None]:
        found = read(sides)  # type: ignore[arg-type]
        return {s: shown if s == SOURCE and rig.now_s < until_s else value for s, value in found.items()}

    def confirm(rates: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, str | None]:
        return {s: None if late([s])[s] == value else "other" for s, value in rates.items()}

    rig.throttles.read_rates, rig.throttles.confirm_rates = late, confirm  # type: ignore[method-assign]
    seconds(rig, 6)
    assert rig.loop.memory.externally_owned_until_ms == {}
    for _ in range(4):
        rig.now_s += 5
        rig.now_ms += 5000
        rig.end_the_move()
    assert rig.throttles.rates == {}


def test_throttle_of_zero_is_steered() -> None:
    rig = steered()
    rig.throttles.rates[SOURCE] = 0
    rig.cycle()
    seconds(rig, 3)
    assert rig.throttles.rates[SOURCE] > 5 * MB


@pytest.mark.parametrize("back_ms", [3_000, 20_000, 3_600_000])
@pytest.mark.parametrize("after_s", [3, 60])
def test_clock_set_back_keeps_rate_above_minimum(back_ms: int, after_s: int) -> None:
    rig = steered()
    rig.loop._steering._limits = ControlLimits(rate_bytes_per_s_max=50 * MB)  # type: ignore[union-attr]
    rig.signals.moves = {s: replace(m, remaining_bytes=600_000 * MB) for s, m in rig.signals.moves.items()}
    rig.cycle()
    seconds(rig, after_s)
    rig.now_ms -= back_ms
    seconds(rig, 10)
    assert all(value >= 7.2 * MB for _, _, value in rig.writes())


def test_clock_set_forward_by_years_is_cheap() -> None:
    import time

    rig = steered()
    rig.cycle()
    seconds(rig, 2)
    rig.now_ms += 30 * 86_400_000
    began_s = time.process_time()
    seconds(rig, 1)
    assert time.process_time() - began_s < 0.2


@pytest.mark.parametrize("tells_steps", [True, False])
def test_signal_from_future_does_not_block_later_ones(tells_steps: bool) -> None:
    rig = steered(ceiling=100 * MB)
    world = World(rig, 20 * MB, tells_steps=tells_steps)
    world.minutes(1)
    assert rig.throttles.rates[SOURCE] > 80 * MB
    world.ahead_ms = 3_600_000
    world.five_seconds()
    world.ahead_ms, world.clients = 0, 105 * MB
    world.minutes(2)
    stood = []
    # Without steps what was not known of the first window comes round with it, every fifth signal, and less each time.
    for _ in range(5):
        world.five_seconds()
        stood.append(rig.throttles.rates[SOURCE])
    assert min(stood) < 20 * MB
    assert max(stood) < 40 * MB


@pytest.mark.parametrize("tells_steps", [True, False])
def test_missing_load_prevents_raise_and_decays(tells_steps: bool) -> None:
    rig = steered(ceiling=100 * MB)
    rig.loop._steering._limits = ControlLimits(rate_bytes_per_s_max=100 * MB)  # type: ignore[union-attr]
    world = World(rig, 20 * MB, tells_steps=tells_steps)
    world.five_seconds()
    world.five_seconds()
    world.jmx, stood = False, rig.throttles.rates[SOURCE]
    world.minutes(5)
    assert rig.throttles.rates[SOURCE] < stood


def test_load_never_measured_does_not_drop_rate() -> None:
    rig = steered()
    rig.throttles.rates.update({SOURCE: 50 * MB, TARGET: 50 * MB})
    world = World(rig, 20 * MB)
    world.jmx = False
    world.minutes(5)
    assert rig.throttles.rates == {SOURCE: 50 * MB, TARGET: 50 * MB}
    assert not any(course.no_headroom for course in rig.observer.cycles[-1][0].setpoints.values())
    assert {d.reason for d in rig.loop.cycle()} == {Reason.LOAD_NOT_MEASURED}


def test_steady_state_gap_keeps_last_value() -> None:
    rig = steered()
    rig.throttles.rates.update({SOURCE: 50 * MB, TARGET: 50 * MB})
    rig.signals.moves = {s: move_signal(*s, steady_state=35 * MB, remaining=50 * MB) for s in (SOURCE, TARGET)}
    rig.cycle()
    seconds(rig, 8)
    rig.signals.moves = {s: replace(m, steady_state_bytes_per_s=None) for s, m in rig.signals.moves.items()}
    seconds(rig, 3)
    rig.cycle()
    seconds(rig, 3)
    assert all(rate > 40 * MB for rate in rig.throttles.rates.values())


def test_missing_broker_does_not_limit_others() -> None:
    memory, rates, now_ms = ControlState(), {SOURCE: 10 * MB, TARGET: 10 * MB}, NOW_MS
    limits = ControlLimits(rate_bytes_per_s_max=100 * MB, takeover_ramp_s=0.1)
    for _ in range(60):
        now_ms += 1000
        brokers = {b: replace(loaded(b, 20 * MB), sampled_at_ms=now_ms - 2000) for b in (1, 3)}
        brokers[4] = loaded(4, 20 * MB)
        moves = {s: replace(move_signal(*s, remaining=6000 * MB), sampled_at_ms=now_ms - 2000) for s in rates}
        moves[(4, F)] = move_signal(4, F, remaining=500_000 * MB)
        capacities = dict.fromkeys(brokers, Capacity(125 * MB, 125 * MB))
        memory, writes = control_step(
            ControlInput(now_ms, brokers, moves, dict(rates), capacities), memory, OBJECTIVE, limits
        )
        rates.update(writes)
    assert rates[SOURCE] > 40 * MB


def test_allowed_utilisation_survives_failed_snapshot() -> None:
    rig = steered(ceiling=100 * MB)
    rig.signals.brokers = {b: replace(s, produce_p99_ms=200.0) for b, s in rig.signals.brokers.items()}
    rig.cycle()
    for _ in range(10):
        seconds(rig, 5)
        rig.cycle()
    steering = rig.loop._steering
    assert steering is not None
    learned = steering._state.broker_estimates[1].allowed[Side.LEADER]
    assert learned is not None
    rig.live.not_seen = "no answer"
    rig.cycle()
    rig.live.not_seen = None
    rig.cycle()
    rig.signals.brokers = {b: replace(s, produce_p99_ms=None) for b, s in rig.signals.brokers.items()}
    seconds(rig, 2)
    assert steering._state.broker_estimates[1].allowed[Side.LEADER] == learned
    assert learned < START_TOLD


@pytest.mark.parametrize(
    "how", ["a look that failed", "a restart", "a restart without signals", "a restart with half of them"]
)
def test_stale_signals_decay_managed_rate_afterwards(how: str) -> None:
    ours = {SOURCE: owned(10 * MB, 50 * MB), TARGET: owned(10 * MB, 50 * MB)}
    rig = steered(Memory(stalls={3: WELL}, owned=ours))
    rig.throttles.rates.update({SOURCE: 50 * MB, TARGET: 50 * MB})
    if how == "a restart":
        rig.now_ms += 40_000
    elif how == "a restart without signals":
        rig.signals.brokers, rig.signals.moves = {}, {}
    elif how == "a restart with half of them":
        half = {b: replace(s, network_in_bytes_per_s=None) for b, s in rig.signals.brokers.items()}
        rig.signals.brokers = {b: replace(s, network_out_bytes_per_s=None) for b, s in half.items()}
    rig.cycle()
    for second in range(120):
        rig.now_s += 1
        rig.now_ms += 1000
        if second % 5 == 0:
            rig.live.not_seen = "no answer" if how == "a look that failed" and second == 20 else None
            rig.cycle()
        rig.loop.tick()
    assert all(rate < 40 * MB for rate in rig.throttles.rates.values())


def test_current_rate_without_own_write_comes_from_cluster() -> None:
    rig = steered()
    rig.throttles.rates.update({SOURCE: 50 * MB, TARGET: 50 * MB})
    world = World(rig, 20 * MB)
    world.minutes(1)
    assert TARGET not in rig.loop.memory.owned
    rig.throttles.rates[TARGET] = 400 * MB
    world.minutes(1)
    assert rig.throttles.rates[TARGET] <= 50 * MB


def test_dry_run_evaluates_current_rates() -> None:
    rig = steered(Memory(), dry_run=True, ceiling=100 * MB)
    rig.signals.brokers = {b: loaded(b, 20 * MB) for b in (1, 3)}
    remaining, steps = 600_000.0 * MB, []
    rig.signals.moves = {s: replace(m, remaining_bytes=remaining) for s, m in rig.signals.moves.items()}
    rig.cycle()
    for _ in range(14):
        seconds(rig, 5)
        remaining -= 20 * MB
        steps = [*steps, MoveStep(rig.now_ms - 2000, 5.0, 35 * MB, 15 * MB, remaining)][-6:]
        rig.signals.moves = {
            s: replace(m, steps=tuple(steps) if s == TARGET else (), remaining_bytes=remaining)
            for s, m in rig.signals.moves.items()
        }
        rig.cycle()
    assert not rig.loop.memory.stalls[3].stalled
    assert STALL.stalled_lost_s > rig.loop.memory.stalls[3].lost_s


def test_lowering_writes_precede_raises() -> None:
    throttles, steering = many(21, 5 * MB, writes_per_s_max=2)
    throttles.rates[(0, L)] = 60 * MB
    steering.assign_sides({side: (rate, True) for side, rate in throttles.rates.items()}, {}, {}, 0.0)
    brokers = {b: loaded(b, 100 * MB if b == 0 else 30 * MB) for b in range(21)}
    moves = {(b, L): move_signal(b, L, remaining=60_000 * MB) for b in range(21)}
    for second in (1, 2, 3):
        changes = steering.next_changes(float(second), NOW_MS + second * 1000, brokers, moves)
        assert [c.broker for c in changes if c.setpoint_bytes_per_s < c.current_bytes_per_s] in ([0], [])
        steering.write(changes)
    assert throttles.rates[(0, L)] < 60 * MB


@pytest.mark.parametrize(
    ("number", "said"),
    [("NaN", "malformed"), ("1e999", "network_out_bytes_per_s"), ("-1e999", "network_out_bytes_per_s")],
)
def test_signal_with_non_number_is_refused(number: str, said: str) -> None:
    value = encode_signal(replace(loaded(1), network_out_bytes_per_s=4711.0)).replace(b"4711.0", number.encode())
    with pytest.raises(ContractError, match=said):
        decode_signal(value)


@pytest.mark.parametrize("samples", [1, 2, 11, 33, 61])
def test_rate_for_setpoint_with_steady_window_is_setpoint(samples: int) -> None:
    assert rate_for_setpoint(steady_window(0, 10.0), 10.0, samples) == pytest.approx(10.0)
