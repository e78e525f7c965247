"""Tests ramps: when a step is due, when an external value stops the ramp, and how it ends."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest
from fake_throttles import FakeThrottles
from tuner_cases import SOURCE, TARGET

from streaming.shared.contract import Side
from streaming.shared.kafka.cluster import ClusterError
from tuner.control.throttle.decision import Reason, SetRate
from tuner.control.throttle.quota_window.ramp import RampStep, plan_fill, plan_ramp
from tuner.core.cluster import BrokerSide
from tuner.core.outcome import Failure
from tuner.core.throttle_limits import MB
from tuner.runtime.throttle.ramp_executor import RampExecutor

START_S = 100.0
STEPS = (RampStep(0.0, 8 * MB), RampStep(1.0, 12 * MB), RampStep(2.0, 16 * MB), RampStep(3.0, 20 * MB))


def change(side: BrokerSide = SOURCE, live: int = 4 * MB) -> SetRate:
    return SetRate(*side, live, 20 * MB, Reason.STALLED_THROTTLE_BOUND, "broker 1 leader throttle: text")


def slewing(throttles: FakeThrottles, sides: Iterable[BrokerSide] = (SOURCE,)) -> RampExecutor:
    made = RampExecutor(throttles)
    for side in sides:
        made.start(change(side), STEPS, START_S)
    return made


@pytest.fixture
def throttles() -> FakeThrottles:
    return FakeThrottles(rates={SOURCE: 4 * MB, TARGET: 4 * MB})


def test_ramp_writes_steps_to_setpoint(throttles: FakeThrottles) -> None:
    ramp = slewing(throttles)
    stands = []
    for second in range(4):
        assert ramp.busy == {SOURCE}
        ended = ramp.step(START_S + second)
        stands.append(throttles.rates[SOURCE])
    assert stands == [8 * MB, 12 * MB, 16 * MB, 20 * MB]
    assert [(e.decision, e.failure) for e in ended] == [(change(), None)]
    assert ramp.busy == frozenset()


def test_ramp_writes_nothing_before_step_is_due(throttles: FakeThrottles) -> None:
    ramp = slewing(throttles)
    ramp.step(START_S)
    assert ramp.step(START_S + 0.99) == []
    assert throttles.rates[SOURCE] == 8 * MB
    assert len(throttles.events) == 1


def test_ramp_next_due_is_next_step(throttles: FakeThrottles) -> None:
    ramp = slewing(throttles)
    ramp.start(change(TARGET), STEPS, START_S + 0.5)
    assert ramp.next_due_s() == START_S
    ramp.step(START_S)
    assert ramp.next_due_s() == START_S + 0.5
    ramp.step(START_S + 0.5)
    assert ramp.next_due_s() == START_S + 1.0
    assert slewing(throttles, []).next_due_s() is None


def test_ramp_may_begin_after_decision(throttles: FakeThrottles) -> None:
    ramp = RampExecutor(throttles)
    ramp.start(change(), [RampStep(9.0, 12 * MB), RampStep(9.5, 20 * MB)], START_S)
    assert ramp.busy == {SOURCE}
    assert ramp.next_due_s() == START_S + 9.0
    assert ramp.step(START_S + 8.9) == []
    assert throttles.events == []
    ramp.step(START_S + 9.0)
    assert throttles.rates[SOURCE] == 12 * MB
    assert ramp.next_due_s() == START_S + 9.5


def test_late_tick_delays_later_steps_and_skips_none(throttles: FakeThrottles) -> None:
    ramp = slewing(throttles)
    ramp.step(START_S)
    ramp.step(START_S + 2.4)
    assert throttles.events == [("write", SOURCE, 8 * MB), ("write", SOURCE, 12 * MB)]
    assert ramp.next_due_s() == START_S + 3.4


def test_small_lateness_does_not_lengthen_ramp(throttles: FakeThrottles) -> None:
    ramp = slewing(throttles)
    ramp.step(START_S + 0.25)
    assert ramp.next_due_s() == START_S + 1.0
    ramp.step(START_S + 1.5)
    assert ramp.next_due_s() == START_S + 2.0
    ramp.step(START_S + 2.75)
    assert ramp.next_due_s() == START_S + 3.75, "two steps are half a pause apart at the least"


def ramped(sides: Iterable[BrokerSide], at_s: float, to: int, ramp: RampExecutor) -> None:
    for side in sides:
        steps = plan_ramp(10 * MB, to, sides=12, writes_per_s_max=50.0)
        ramp.start(SetRate(*side, 10 * MB, to, Reason.OVERRIDDEN, "text: text"), steps, at_s)


def test_many_ramps_share_write_budget() -> None:
    """Five times twelve, a second apart, each in steps of a quarter of a second: 240 a second would be due."""
    waves = [[(12 * wave + i, Side.LEADER) for i in range(12)] for wave in range(5)]
    throttles = FakeThrottles(range(60), rates=dict.fromkeys(itertools.chain(*waves), 10 * MB))
    ramp = RampExecutor(throttles, writes_per_s_max=50.0)
    written: list[float] = []
    begins = dict(zip((0.0, 1.0, 2.0, 3.0, 4.0), waves, strict=True))
    now_s = 0.0
    while begins or ramp.busy:
        if now_s in begins:
            ramped(begins.pop(now_s), now_s, 20 * MB, ramp)
        before = len(throttles.events)
        ramp.step(now_s)
        written += [now_s] * (len(throttles.events) - before)
        now_s = min([t for t in (ramp.next_due_s(), *begins) if t is not None and t > now_s], default=now_s + 0.01)
    assert set(throttles.rates.values()) == {20 * MB}
    assert len(written) == 5 * 12 * 44
    for span_s in (1.0, 5.0, 20.0):
        most = max(sum(at <= other < at + span_s for other in written) for at in set(written))
        assert most <= 50 * (span_s + 1.0) + 1
    assert now_s < 5 * 12 * 44 / 50 + 2.0, "and no longer than the budget takes"


@pytest.mark.parametrize("writes_per_s_max", [1.5, 3.0, 7.0, 9.7, 10.0])
def test_small_write_budget_still_finishes_ramps(writes_per_s_max: float) -> None:
    sides = [(broker, Side.LEADER) for broker in range(20)]
    throttles = FakeThrottles(range(20), rates=dict.fromkeys(sides, 10 * MB))
    ramp = RampExecutor(throttles, writes_per_s_max=writes_per_s_max)
    ramped(sides, 0.3, 20 * MB, ramp)
    ticks = 0
    while (due_s := ramp.next_due_s()) is not None:
        ramp.step(due_s)
        ticks += 1
        assert ticks < 4 * 20 * 44, "it is due, and nothing is done"
    assert set(throttles.rates.values()) == {20 * MB}


def test_lowering_ramps_are_written_first() -> None:
    up, down = [[(10 * k + i, Side.LEADER) for i in range(8)] for k in (1, 2)]
    throttles = FakeThrottles(range(30), rates=dict.fromkeys([*up, *down], 10 * MB))
    ramp = RampExecutor(throttles, writes_per_s_max=10.0)
    ramped(up, 0.0, 20 * MB, ramp)
    ramped(down, 0.0, 5 * MB, ramp)
    ramp.step(0.0)
    assert {side for side in down if throttles.rates[side] < 10 * MB} == {*down}
    assert sum(throttles.rates[side] > 10 * MB for side in up) == 2


def test_warmup_counts_as_lowering_until_lowered() -> None:
    up, dips = [[(10 * k + i, Side.LEADER) for i in range(8)] for k in (1, 2)]
    throttles = FakeThrottles(range(30), rates=dict.fromkeys([*up, *dips], 10 * MB))
    ramp = RampExecutor(throttles, writes_per_s_max=8.0)
    ramped(up, 0.0, 20 * MB, ramp)
    for broker, side in dips:
        change = SetRate(broker, side, 10 * MB, 10 * MB, Reason.WINDOW_WARMUP, "fills")
        ramp.start(change, plan_fill(10 * MB, 0.0), 0.0)
    ramp.step(0.0)
    assert {side for side in dips if throttles.rates[side] < 10 * MB} == {*dips}
    ramp.step(1.0)
    assert all(throttles.rates[side] > 10 * MB for side in up), "the way up is no more urgent than any other"


def test_very_late_tick_does_not_jump_to_setpoint(throttles: FakeThrottles) -> None:
    ramp = slewing(throttles)
    assert ramp.step(START_S + 3_600) == []
    assert throttles.events == [("write", SOURCE, 8 * MB)]
    assert ramp.next_due_s() == START_S + 3_601


@pytest.mark.parametrize("foreign", [1 * MB, 9 * MB, 20 * MB])
def test_external_value_stops_ramp(throttles: FakeThrottles, foreign: int) -> None:
    ramp = slewing(throttles)
    ramp.step(START_S)
    throttles.rates[SOURCE] = foreign
    (ended,) = ramp.step(START_S + 1)
    assert ended.failure == f"interrupted: expected 8000000 bytes/s, but the broker has {foreign} bytes/s"
    assert (ended.external_change, ended.found) == (True, foreign)
    assert throttles.rates[SOURCE] == foreign
    assert ramp.busy == frozenset()
    assert ramp.step(START_S + 2) == []
    assert throttles.rates[SOURCE] == foreign


def test_external_value_before_first_step_stops_ramp(throttles: FakeThrottles) -> None:
    throttles.rates[SOURCE] = 5 * MB
    (ended,) = slewing(throttles).step(START_S)
    assert "expected 4000000 bytes/s, but the broker has 5000000 bytes/s" in (ended.failure or "")
    assert throttles.events == []


def test_externally_removed_throttle_stops_ramp(throttles: FakeThrottles) -> None:
    ramp = slewing(throttles)
    ramp.step(START_S)
    del throttles.rates[SOURCE]
    (ended,) = ramp.step(START_S + 1)
    assert "but the broker has no rate" in (ended.failure or "")
    assert SOURCE not in throttles.rates


def test_external_value_does_not_stop_ramp_of_other_side(throttles: FakeThrottles) -> None:
    ramp = slewing(throttles, [SOURCE, TARGET])
    ramp.step(START_S)
    throttles.rates[SOURCE] = 1 * MB
    (ended,) = ramp.step(START_S + 1)
    assert (ended.decision.broker, ended.decision.side) == SOURCE
    assert throttles.rates == {SOURCE: 1 * MB, TARGET: 12 * MB}
    assert ramp.busy == {TARGET}


def test_refused_write_ends_ramp_with_cause(throttles: FakeThrottles) -> None:
    ramp = slewing(throttles, [SOURCE, TARGET])
    ramp.step(START_S)
    throttles.refusing[1] = "missing right: AlterConfigs on Cluster"
    (ended,) = ramp.step(START_S + 1)
    assert ended.failure == "missing right: AlterConfigs on Cluster"
    assert throttles.rates == {SOURCE: 8 * MB, TARGET: 12 * MB}
    assert ramp.busy == {TARGET}


def test_unreachable_broker_stops_its_ramp(throttles: FakeThrottles) -> None:
    ramp = slewing(throttles, [SOURCE, TARGET])
    ramp.step(START_S)
    throttles.brokers.discard(1)
    (ended,) = ramp.step(START_S + 1)
    assert "interrupted: broker 1 does not answer" in (ended.failure or "")
    assert ramp.busy == {TARGET}


def test_unreachable_cluster_stops_all_ramps() -> None:
    class Away(FakeThrottles):
        def read_rates(self, sides: Iterable[BrokerSide]) -> dict[BrokerSide, int | ClusterError | None]:
            raise ClusterError(f"nobody answers for {list(sides)}")

    throttles = Away(rates={SOURCE: 4 * MB, TARGET: 4 * MB})
    ramp = slewing(throttles, [SOURCE, TARGET])
    assert len(ramp.step(START_S)) == 2
    assert throttles.events == []
    assert ramp.busy == frozenset()


def test_unconfirmed_last_step_is_failure(throttles: FakeThrottles) -> None:
    ramp = slewing(throttles)
    for second in range(3):
        ramp.step(START_S + second)
    throttles.forgetful.add(SOURCE)
    (ended,) = ramp.step(START_S + 3)
    assert ended.failure == "20000000 was written, but the broker has 16000000"


def test_dropped_ramp_writes_nothing_more(throttles: FakeThrottles) -> None:
    ramp = slewing(throttles, [SOURCE, TARGET])
    ramp.step(START_S)
    assert ramp.drop(SOURCE, "paused") is not None
    assert ramp.drop(SOURCE, "paused") is None
    ramp.step(START_S + 1)
    assert throttles.rates == {SOURCE: 8 * MB, TARGET: 12 * MB}
    assert ramp.busy == {TARGET}


def test_late_shown_step_does_not_stop_ramp() -> None:
    """The first look after a write still shows what stood before; a moment later it shows the write."""

    class Slow(FakeThrottles):
        late = 0

        def read_rates(self, sides: Iterable[BrokerSide]) -> dict[BrokerSide, int | ClusterError | None]:
            if self.late:
                self.late -= 1
                return dict.fromkeys(sides, 4 * MB)
            return super().read_rates(sides)

    throttles = Slow(rates={SOURCE: 4 * MB})
    ramp = slewing(throttles)
    ramp.step(START_S)
    throttles.late = 1
    assert ramp.step(START_S + 1) == []
    assert throttles.rates[SOURCE] == 12 * MB


def test_inherited_throttle_is_set_on_broker(throttles: FakeThrottles) -> None:
    """4 MB/s come from <default>: on the broker itself nothing stands, and that is what must be found there."""
    del throttles.rates[SOURCE]
    ramp = RampExecutor(throttles)
    ramp.start(replace(change(), is_set_on_broker=False), STEPS, START_S)
    assert ramp.step(START_S) == []
    assert throttles.rates[SOURCE] == 8 * MB


def test_ramp_without_steps_is_never_due(throttles: FakeThrottles) -> None:
    ramp = slewing(throttles)
    assert ramp.step(START_S - 1) == []
    assert throttles.events == []


# -- a broker that shows our last write late ---------------------------------------------------------------------------


def test_previous_step_is_awaited_as_late(throttles: FakeThrottles) -> None:
    ramp = slewing(throttles)
    ramp.step(START_S)
    ramp.step(START_S + 1.0)
    throttles.rates[SOURCE] = 8 * MB
    for second in range(2, 6):
        assert ramp.step(START_S + second) == []
        assert throttles.rates[SOURCE] == 8 * MB
    throttles.rates[SOURCE] = 12 * MB
    assert ramp.step(START_S + 6.0) == []
    assert throttles.rates[SOURCE] == 16 * MB
    (ended,) = ramp.step(START_S + 7.0)
    assert (ended.failure, throttles.rates[SOURCE]) == (None, 20 * MB)


def test_previous_step_shown_too_long_is_external_change(throttles: FakeThrottles) -> None:
    ramp = slewing(throttles)
    ramp.step(START_S)
    ramp.step(START_S + 1.0)
    throttles.rates[SOURCE] = 8 * MB
    ended = [each for second in range(2, 20) for each in ramp.step(START_S + second)]
    assert [(each.external_change, each.found) for each in ended] == [(True, 8 * MB)]
    assert throttles.rates[SOURCE] == 8 * MB


def test_older_step_is_external_change_at_once(throttles: FakeThrottles) -> None:
    ramp = slewing(throttles)
    for second in range(3):
        ramp.step(START_S + second)
    throttles.rates[SOURCE] = 8 * MB
    (ended,) = ramp.step(START_S + 3.0)
    assert ended.external_change


def test_unshown_last_step_keeps_previous_step_possible(throttles: FakeThrottles) -> None:
    ramp = slewing(throttles)
    for second in range(3):
        ramp.step(START_S + second)
    throttles.confirm_rates = lambda rates: dict.fromkeys(rates, "20 was written, but the broker has 16")  # type: ignore[method-assign]
    (ended,) = ramp.step(START_S + 3.0)
    assert ended.failure is not None
    assert set(ended.possible_rates) == {16 * MB, 20 * MB}


def test_ramp_stopped_on_late_broker_keeps_shown_rate_possible(throttles: FakeThrottles) -> None:
    ramp = slewing(throttles)
    ramp.step(START_S)
    ramp.step(START_S + 1.0)
    throttles.rates[SOURCE] = 8 * MB
    ramp.step(START_S + 2.0)
    ended = ramp.drop(SOURCE, "paused")
    assert ended is not None
    assert set(ended.possible_rates) == {8 * MB, 12 * MB}


def test_late_brokers_are_awaited_together_once(throttles: FakeThrottles) -> None:
    ramp = slewing(throttles, (SOURCE, TARGET))
    ramp.step(START_S)
    ramp.step(START_S + 1.0)
    throttles.rates = {SOURCE: 8 * MB, TARGET: 8 * MB}
    confirm, asked = throttles.confirm_rates, []

    def confirmed(rates: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, Failure | None]:
        asked.append(set(rates))
        return confirm(rates)

    throttles.confirm_rates = confirmed  # type: ignore[method-assign]  # this one throttle's, for this test
    for second in range(2, 6):
        ramp.step(START_S + second)
    assert asked == [{SOURCE, TARGET}]
