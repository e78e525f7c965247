"""Tests steering in the loop: records before each tick's writes, external values, and sides that may not be raised."""

from __future__ import annotations

from dataclasses import replace

import pytest
from loop_rig import Rig
from tuner_cases import NOW_MS, SEEN, SOURCE, STALLED, TARGET, WELL, broker_signal, move_signal

from streaming.shared.contract import BrokerSignal
from tuner.control.throttle.decision import AllowSteering, Reason, SetRate
from tuner.control.throttle.objective import ControlLimits, Objective
from tuner.control.throttle.state import Memory
from tuner.core.cluster import BrokerSide
from tuner.core.throttle_limits import MB

OBJECTIVE = Objective(latency_ms=50.0)
# Most of what a link of 125 MB/s carries: clients leave some 30 MB/s.
BUSY_BYTES_PER_S = 75 * MB


def loaded(broker: int, client_bytes_per_s: float = BUSY_BYTES_PER_S, caught: float = 4 * MB) -> BrokerSignal:
    return replace(
        broker_signal(broker, leader=9.5 * MB, follower=6 * MB),
        network_in_bytes_per_s=client_bytes_per_s + caught,
        network_out_bytes_per_s=client_bytes_per_s + caught,
        reassignment_in_bytes_per_s=caught,
        reassignment_out_bytes_per_s=caught,
        fetch_p99_ms=9.0,
    )


def steered(
    memory: Memory | None = None, *, dry_run: bool = False, writes_per_s_max: float = 50.0, ceiling: int = 50 * MB
) -> Rig:
    """Throttled to 10 MB/s on both sides; the law would have more, as it takes it over slowly."""
    rig = Rig(
        memory or Memory(stalls={3: WELL}),
        objective=OBJECTIVE,
        dry_run=dry_run,
        law_limits=ControlLimits(rate_bytes_per_s_max=ceiling, takeover_ramp_s=0.1),
        writes_per_s_max=writes_per_s_max,
    )
    rig.signals.brokers = {b: loaded(b) for b in (1, 3)}
    return rig


def seconds(rig: Rig, count: int) -> None:
    """Lets time go by with signals that stay fresh."""
    for _ in range(count):
        rig.now_s += 1.0
        rig.now_ms += 1000
        rig.signals.brokers = {b: replace(s, sampled_at_ms=rig.now_ms - 2000) for b, s in rig.signals.brokers.items()}
        rig.signals.moves = {s: replace(m, sampled_at_ms=rig.now_ms - 2000) for s, m in rig.signals.moves.items()}
        rig.loop.tick()


def test_side_is_steered_in_seconds_after_cycle() -> None:
    rig = steered()
    assert rig.cycle() == [Reason.FOLLOWS_CLIENTS] * 2
    assert rig.writes() == []
    seconds(rig, 3)
    assert rig.throttles.rates[SOURCE] > 11 * MB
    assert rig.throttles.rates[TARGET] > 11 * MB
    assert all(rate <= 50 * MB for rate in rig.throttles.rates.values())


def test_steering_writes_are_recorded_before() -> None:
    rig = steered()
    rig.cycle()
    rig.events.clear()
    seconds(rig, 2)
    kinds = [event[0] for event in rig.events]
    assert kinds[:3] == ["steering", "owned", "write"]
    turn = next(e for e in rig.journal.entries if e.kind == "steering")
    assert ", because clients may have a p99 of " in turn.text, (
        "a change of a rate tells the objective that it follows from"
    )
    assert (turn.action, turn.reason) == ("set", "follows_clients")
    [first, *_] = turn.decision["rates"]
    assert first[2] == 10 * MB
    for _, side, value in rig.writes():
        assert value in {row[3] for e in rig.journal.entries if e.kind == "steering" for row in e.decision["rates"]}, (
            side
        )
    ours = rig.journal.owned[SOURCE]
    assert ours.before_bytes_per_s == 10 * MB
    assert rig.throttles.rates[SOURCE] in ours.possible_rates


def test_cycle_after_steering_sees_no_external_change() -> None:
    rig = steered()
    rig.cycle()
    seconds(rig, 5)
    assert rig.cycle() == [Reason.FOLLOWS_CLIENTS] * 2
    assert rig.loop.memory.externally_owned_until_ms == {}


def test_unavailable_journal_prevents_steering_writes() -> None:
    rig = steered()
    rig.cycle()
    rig.journal.refusing_kinds = frozenset({"steering"})
    seconds(rig, 3)
    assert rig.writes() == []
    assert rig.loop.memory.owned == {}
    rig.journal.refusing_kinds = frozenset()
    seconds(rig, 2)
    assert rig.writes() != []


@pytest.mark.parametrize("share", [0.5, 2.0])
def test_late_write_of_predecessor_is_corrected_by_steering(share: float) -> None:
    """The law goes on from what stands: what it has written itself is no longer there."""
    rig = steered()
    for _ in range(12):
        rig.cycle()
        seconds(rig, 5)
    stood = rig.throttles.rates[SOURCE]
    late = round(share * stood)
    rig.loop.recorder.memory = replace(
        rig.loop.memory, predecessor_writes={SOURCE: (late,)}, predecessor_writes_until_ms=rig.now_ms + 60_000
    )
    rig.throttles.rates[SOURCE] = late
    assert Reason.LATE_PREDECESSOR_WRITE in rig.cycle()
    seconds(rig, 8)
    assert rig.throttles.rates[SOURCE] == pytest.approx(stood, rel=0.15)
    assert Reason.EXTERNAL_CHANGE not in rig.cycle()
    assert rig.loop.memory.externally_owned_until_ms == {}


def test_external_write_between_ticks_is_preserved() -> None:
    rig = steered()
    rig.cycle()
    seconds(rig, 2)
    rig.throttles.rates[SOURCE] = 7 * MB
    seconds(rig, 3)
    assert rig.throttles.rates[SOURCE] == 7 * MB
    assert SOURCE not in rig.loop.memory.owned
    assert rig.loop.memory.externally_owned_until_ms.keys() == {SOURCE}
    assert rig.kinds("relinquish") == ["decision"]
    assert rig.throttles.rates[TARGET] != 10 * MB  # The other goes on.
    assert rig.cycle() == [Reason.EXTERNALLY_OWNED, Reason.FOLLOWS_CLIENTS]


def test_refused_steering_write_is_retried_after_pause() -> None:
    rig = steered()
    rig.cycle()
    rig.throttles.refusing[1] = "broker 1 is busy"
    seconds(rig, 2)
    assert [f for _, f in rig.observer.acts if f] == ["broker 1 is busy"]
    rig.events.clear()
    seconds(rig, 2)
    assert not [e for e in rig.writes() if e[1] == SOURCE]
    del rig.throttles.refusing[1]
    seconds(rig, 3)
    rig.cycle()
    seconds(rig, 2)
    assert rig.throttles.rates[SOURCE] > 11 * MB


def test_steering_outcome_is_recorded_after_journal_outage() -> None:
    rig = steered()
    rig.cycle()
    rig.throttles.refusing = {1: "broker 1 is busy", 3: "broker 3 is busy"}
    rig.journal.refusing_kinds = frozenset({"outcome"})
    seconds(rig, 2)
    told = [((d.broker, d.side), failure) for d, failure in rig.observer.acts]  # type: ignore[union-attr]
    assert sorted(told) == [(SOURCE, "broker 1 is busy"), (TARGET, "broker 3 is busy")]
    assert rig.kinds("set") == ["steering"]
    rig.events.clear()
    seconds(rig, 1)
    assert rig.writes() == [], "both rest"
    rig.journal.refusing_kinds = frozenset()
    rig.cycle()
    outcomes = [e for e in rig.journal.entries if e.kind == "outcome"]
    assert sorted(str(e.failure) for e in outcomes) == ["broker 1 is busy", "broker 3 is busy"]
    assert {e.at_ms for e in outcomes} == {NOW_MS + 2000}, "when it was, not when it could be told"
    rig.cycle()
    assert rig.kinds("set") == ["steering", "outcome", "outcome"]


def test_external_write_during_journal_outage_is_preserved() -> None:
    rig = steered()
    rig.cycle()
    seconds(rig, 2)
    rig.throttles.rates[SOURCE] = 7 * MB
    rig.journal.refusing = True
    seconds(rig, 1)
    assert rig.loop.memory.externally_owned_until_ms.keys() == {SOURCE}
    rig.journal.refusing = False
    assert rig.cycle() == [Reason.EXTERNALLY_OWNED, Reason.FOLLOWS_CLIENTS]
    assert rig.throttles.rates[SOURCE] == 7 * MB
    assert (rig.kinds("relinquish"), rig.kinds("set")[-1]) == (["decision"], "outcome")
    assert rig.journal.memories[-1].externally_owned_until_ms.keys() == {SOURCE}


def test_unreadable_broker_is_not_written() -> None:
    rig = steered()
    rig.cycle()
    rig.throttles.brokers.discard(1)
    seconds(rig, 2)
    assert not [e for e in rig.writes() if e[1] == SOURCE]
    assert rig.throttles.rates[TARGET] > 11 * MB
    assert rig.loop.memory.externally_owned_until_ms == {}


def test_write_budget_prefers_largest_change() -> None:
    rig = steered(writes_per_s_max=1.0)
    rig.throttles.rates[TARGET] = 6 * MB
    rig.cycle()
    for second in range(1, 8):
        seconds(rig, 1)
        assert len(rig.writes()) <= second
    assert rig.writes()[0][1] == TARGET
    assert {e[1] for e in rig.writes()} == {TARGET, SOURCE}


def test_stale_signals_never_raise_and_then_decay() -> None:
    rig = steered()
    rig.throttles.rates[TARGET] = 60 * MB
    rig.cycle()
    seconds(rig, 4)
    last_signal_ms = rig.now_ms - 2000
    stood: dict[BrokerSide, int] = {}
    while rig.now_ms - last_signal_ms < 300_000:
        rig.now_s += 1.0
        rig.now_ms += 1000
        if rig.now_ms % 5000 == NOW_MS % 5000:
            rig.cycle()
        rig.loop.tick()
        assert all(rate <= stood[side] for side, rate in rig.throttles.rates.items() if side in stood)
        if rig.now_ms - last_signal_ms > 15_000:
            stood = dict(rig.throttles.rates)
    assert rig.throttles.rates[SOURCE] == pytest.approx(7.2 * MB, rel=0.05)  # 1.2 times what keeping up takes.
    assert rig.loop.memory.externally_owned_until_ms == {}


def test_dry_run_steers_without_writing() -> None:
    rig = steered(dry_run=True)
    rig.cycle()
    seconds(rig, 5)
    rig.cycle()
    assert rig.writes() == []
    assert rig.throttles.rates == {SOURCE: 10 * MB, TARGET: 10 * MB}
    assert {e.kind for e in rig.journal.entries} == {"decision"}
    assert rig.journal.memories == []
    observed = rig.observer.cycles[-1][0]
    assert observed.setpoints[SOURCE].bytes_per_s > 11 * MB


def test_steered_move_end_restores_rates() -> None:
    rig = steered(Memory(moving_replicas=SEEN, throttled=True, stalls={3: WELL}))
    rig.cycle()
    seconds(rig, 5)
    rig.end_the_move()
    assert rig.loop.next_due_s() is None
    rig.cycle()
    assert rig.throttles.rates == {}
    assert rig.loop.memory.owned == {}


def test_busy_clients_leave_move_at_minimum_rate() -> None:
    rig = steered()
    busy = {b: loaded(b, 120 * MB, caught=0.5 * MB) for b in (1, 3)}
    rig.signals.brokers = {b: replace(signal, produce_p99_ms=45.0) for b, signal in busy.items()}
    rig.cycle()
    seconds(rig, 20)
    decisions = rig.loop.cycle()
    source = next(d for d in decisions if (d.broker, d.side) == SOURCE)  # type: ignore[union-attr]
    assert isinstance(source, AllowSteering)
    assert source.reason is Reason.NO_HEADROOM
    assert "move fewer partitions at a time" in source.text
    # 6 MB/s keep up, so the minimum is 1.2 times that; the rate is still falling to it.
    assert 7.2 * MB <= rig.throttles.rates[SOURCE] <= 1.05 * 7.2 * MB


def test_stall_without_throttle_is_reported_while_steering() -> None:
    rig = steered(Memory(stalls={3: STALLED}))
    rig.throttles.rates.update({SOURCE: 40 * MB, TARGET: 50 * MB})
    rig.signals.moves = {SOURCE: move_signal(*SOURCE), TARGET: move_signal(*TARGET, steady_state=3 * MB)}
    decisions = rig.loop.cycle()
    assert [type(d) for d in decisions] == [AllowSteering, AllowSteering]
    assert {d.reason for d in decisions} == {Reason.STALLED_NOT_THROTTLE_BOUND}


def test_objective_replaces_rescue() -> None:
    """A stalled, throttle-bound move: the law raises it, and no ramp is begun beside it."""
    rig = steered(Memory(stalls={3: STALLED}))
    decisions = rig.loop.cycle()
    assert not [d for d in decisions if isinstance(d, SetRate)]
    seconds(rig, 3)
    assert rig.throttles.rates[SOURCE] > 11 * MB


def test_longer_quota_samples_end_steering_until_brokers_have_one_second() -> None:
    """Broker 3 has restarted with samples of two seconds: the law cannot compute its window."""
    rig = steered()
    rig.live.quota_sample_s = {3: 2}
    decisions = rig.loop.cycle()
    assert [d.reason for d in decisions if d.broker is None] == [Reason.QUOTA_WINDOW_UNSUPPORTED]
    assert "broker 3: 2 s" in decisions[0].text
    assert not [d for d in decisions if isinstance(d, AllowSteering | SetRate)]
    rate = rig.throttles.rates[SOURCE]
    seconds(rig, 3)
    assert rig.throttles.rates[SOURCE] == rate
    rig.live.quota_sample_s = {}
    assert [d for d in rig.loop.cycle() if isinstance(d, AllowSteering)]


def test_stalled_moves_are_rescued_with_longer_quota_samples() -> None:
    rig = steered(Memory(stalls={3: STALLED}))
    rig.live.quota_sample_s = {3: 2}
    changes = [d for d in rig.loop.cycle() if isinstance(d, SetRate)]
    assert {change.reason for change in changes} == {Reason.STALLED_THROTTLE_BOUND}


def test_steering_uses_broker_quota_window() -> None:
    """Ten seconds at 10 MB/s are in a window of eleven, two in one of three: that one lets the higher rate through sooner."""
    bounds = {}
    for samples in (3, 11):
        rig = steered(ceiling=14 * MB)
        rig.live.quota_samples = samples
        rig.cycle()
        seconds(rig, 2)
        bounds[samples] = rig.throttles.rates[SOURCE]
    assert 10 * MB < bounds[11] < bounds[3] <= 14 * MB
