"""Concurrency grows while a quota is not full, halves when clients suffer, and is kept without measurements."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from streaming.shared.contract import BrokerSignal, ControllerSignal, Side, ThrottledBy
from tuner.control.reassignment.concurrency import decide_concurrency
from tuner.control.reassignment.concurrency_model import (
    ConcurrencyDecision,
    ConcurrencyInput,
    ConcurrencyLimits,
    ConcurrencyReason,
    ConcurrencyState,
)
from tuner.core.cluster import BrokerSide
from tuner.core.controller import ControllerObjective

MB = 1_000_000.0
SIDE: BrokerSide = (3, Side.FOLLOWER)
LIMITS = ConcurrencyLimits()


def broker(at_ms: int, measured_mb: float | None = 50, **others: object) -> BrokerSignal:
    measured = None if measured_mb is None else measured_mb * MB
    by = ThrottledBy.QUOTA if measured is not None else None
    found = BrokerSignal(
        "c", 3, at_ms, at_ms, 6, 1.0, leader_throttled_bytes_per_s=measured, follower_throttled_bytes_per_s=measured,
        throttled_by=by, under_min_isr_partitions=0.0, isr_shrinks_per_s=0.0,
    )  # fmt: skip
    return replace(found, **others)  # type: ignore[arg-type]  # by name, whatever a test sets


def controller(at_ms: int, *, idle: float = 0.95, queue_ms: float = 2.0) -> ControllerSignal:
    return ControllerSignal(
        "c", 100, at_ms, at_ms, 6, 1.0, active=1.0, event_queue_time_mean_ms=queue_ms, idle_ratio=idle
    )


def view(
    now_s: float, *, using: float = 5, waiting: int = 100, seen: bool = True, **others: object
) -> ConcurrencyInput:
    """A side that may have 100 MB/s, has half of it, and all of whose slots are in use."""
    now_ms = round(now_s * 1000)
    found = ConcurrencyInput(
        now_ms, frozenset({SIDE}), {SIDE: using}, {SIDE: waiting}, {SIDE: 100 * MB},
        brokers={3: broker(now_ms)} if seen else {}, controllers={100: controller(now_ms)} if seen else {},
    )  # fmt: skip
    return replace(found, **others)  # type: ignore[arg-type]  # by name, whatever a test sets


def at(
    now_s: float, memory: ConcurrencyState, limits: ConcurrencyLimits = LIMITS, **others: object
) -> ConcurrencyDecision:
    using = others.pop("using", memory.sides[SIDE].slots if SIDE in memory.sides else 5)
    return decide_concurrency(view(now_s, using=using, **others), memory, limits)  # type: ignore[arg-type]  # by name, whatever a test sets


def begun(limits: ConcurrencyLimits = LIMITS, **others: object) -> ConcurrencyState:
    return at(0, ConcurrencyState(), limits, **others).state


def reason(found: ConcurrencyDecision) -> ConcurrencyReason:
    return found.state.sides[SIDE].reason


def test_concurrency_starts_with_five_and_explains_it() -> None:
    found = at(0, ConcurrencyState())
    assert (found.slots[SIDE], found.starts_max, found.cluster_max) == (5, 50, 1250)
    assert [(c.side, c.before, c.after, c.reason) for c in found.changes] == [(SIDE, 0, 5, ConcurrencyReason.INITIAL)]
    assert found.changes[0].text == "partitions at a time onto broker 3: 5, the side has just begun to copy"


def test_concurrency_grows_to_fill_unused_quota_then_by_one() -> None:
    memory = begun()
    slots = []
    for now_s in range(5, 100, 5):
        now_ms = now_s * 1000
        measured_mb = 90 if now_s == 50 else 50
        found = at(now_s, memory, brokers={3: broker(now_ms, measured_mb)})
        memory = found.state
        slots.append(found.slots[SIDE])
    # Every 15 s, with 12 in which all of them were in use; at 50 s it is full for once.
    assert slots == [5, 5, 10, 10, 10, 10, 20, 20, 20, 20, 21, 21, 21, 21, 22, 22, 22, 22, 23]


def test_growth_is_limited_to_quota_and_to_doubling() -> None:
    """Half a quota used asks for twice as many, four fifths for a quarter more; next to nothing is no measure to go by."""
    for measured_mb, slots in ((50, 10), (60, 9), (80, 7), (84, 6), (3, 10)):
        assert at(20, begun(), brokers={3: broker(20_000, measured_mb)}).slots[SIDE] == slots, measured_mb


def test_raise_text_has_setpoint_and_waiting_partitions() -> None:
    (change,) = at(20, begun()).changes
    assert change.text == (
        "partitions at a time onto broker 3: 5 → 10, the copies do not use the whole throttle (setpoint 100 MB/s), and 100 partitions wait"
    )


def test_concurrency_is_kept_where_a_raise_is_useless() -> None:
    memory, now_ms = begun(), 20_000
    cases = [
        ({"brokers": {3: broker(now_ms, 90)}}, ConcurrencyReason.QUOTA_FULL),
        ({"steady_state": {SIDE: 90 * MB}}, ConcurrencyReason.STEADY_STATE_FILLS),
        ({"using": 3.5}, ConcurrencyReason.SLOTS_NOT_USED),
        ({"waiting": 0}, ConcurrencyReason.NO_PARTITION_WAITS),
        ({"setpoints": {}}, ConcurrencyReason.NOT_THROTTLED),
        ({"brokers": {3: broker(now_ms, None)}}, ConcurrencyReason.NOT_THROTTLED),
        ({"brokers": {3: broker(now_ms, throttled_by=ThrottledBy.REPLICATION)}}, ConcurrencyReason.NOT_THROTTLED),
        ({"controllers": {100: controller(now_ms, idle=0.5)}}, ConcurrencyReason.CONTROLLER_NEAR_LIMIT),
    ]
    for others, why in cases:
        found = at(20, memory, **others)
        assert (found.slots[SIDE], reason(found)) == (5, why), why
        assert found.changes == ()


def test_raise_is_judged_by_later_measurements() -> None:
    memory = at(21, at(20, begun()).state).state
    found = at(30, memory)
    assert (found.slots[SIDE], reason(found)) == (10, ConcurrencyReason.COOLDOWN)
    assert at(36, memory).slots[SIDE] == 20


def test_seconds_before_first_byte_do_not_raise_concurrency() -> None:
    """As on four real brokers: a plan's first steps are decided on, announced, throttled and asked for within six seconds. When
    ten more have gone by, the mean that Kafka tells still has empty seconds in it, and twice as many partitions of which each is
    written to would take half of the throttle for keeping up."""
    memory = begun(using=0)
    for now_s, measured_mb in ((2, 0), (6, 0), (10, 40), (15, 80), (17, 84), (19, 97), (30, 99)):
        found = at(now_s, memory, using=0 if now_s < 6 else 5, brokers={3: broker(now_s * 1000, measured_mb)})
        memory = found.state
        assert found.slots[SIDE] == 5, now_s
    assert reason(found) is ConcurrencyReason.QUOTA_FULL


def test_late_measurement_is_judged_by_its_timestamp() -> None:
    """A signal of ten seconds ago tells nothing of the slots that have been in use for fifteen."""
    memory = at(1, begun(using=0)).state
    assert at(16, memory, brokers={3: broker(6_000)}).slots[SIDE] == 5
    assert at(16, memory, brokers={3: broker(14_000)}).slots[SIDE] == 10


def test_concurrency_halves_when_clients_suffer() -> None:
    memory = at(20, begun()).state
    for others, why in (
        ({"under_min_isr_partitions": 1.0}, ConcurrencyReason.UNDER_MIN_ISR),
        ({"isr_shrinks_per_s": 0.2}, ConcurrencyReason.ISR_SHRINKS),
    ):
        found = at(22, memory, brokers={3: broker(22_000, **others)})
        assert (found.slots[SIDE], reason(found)) == (5, why)
        # Its window tells of the same half a minute long; only then it counts again.
        found = at(40, found.state, brokers={3: broker(40_000, **others)})
        assert found.slots[SIDE] == 5
        assert at(60, found.state, brokers={3: broker(60_000, **others)}).slots[SIDE] == 2
        assert at(60, found.state).slots[SIDE] == 6


def test_single_isr_shrink_does_not_halve_concurrency() -> None:
    assert at(20, begun(), brokers={3: broker(20_000, isr_shrinks_per_s=0.03)}).slots[SIDE] == 10


def test_busy_controller_halves_concurrency_and_request_size() -> None:
    found = at(20, begun(), controllers={100: controller(20_000, idle=0.1)})
    assert (found.slots[SIDE], found.starts_max, reason(found)) == (2, 25, ConcurrencyReason.CONTROLLER_BUSY)
    assert found.changes[-1].text == (
        "steps per request: 50 → 25, the controller is idle 10 % of the time (objective: at least 30 %)"
    )
    # Until its window has seen that, neither goes further down nor up again.
    for idle in (0.1, 0.95):
        later = at(40, found.state, controllers={100: controller(40_000, idle=idle)})
        assert (later.slots[SIDE], later.starts_max) == (2, 25)
    assert at(56, found.state, controllers={100: controller(56_000, idle=0.1)}).slots[SIDE] == 1


def test_metadata_lag_counts_only_with_an_objective() -> None:
    late = {3: broker(20_000, metadata_lag_ms=9_000.0)}
    assert at(20, begun(), brokers=late).slots[SIDE] == 10
    found = at(20, begun(), brokers=late, objective=ControllerObjective(apply_lag_ms_max=2_000))
    assert reason(found) is ConcurrencyReason.CONTROLLER_BUSY


def test_request_size_grows_while_full_and_controller_idle() -> None:
    memory = begun()
    assert at(20, memory, last_request_steps=50).starts_max == 100
    assert at(20, memory, last_request_steps=49).starts_max == 50
    assert at(20, memory, last_request_steps=50, controllers={100: controller(20_000, idle=0.5)}).starts_max == 50
    assert at(20, memory, last_request_steps=50, controllers={}).starts_max == 50


def test_concurrency_without_new_signals_decays_after_a_minute() -> None:
    memory = at(20, begun()).state
    for now_s, slots in ((51, 10), (79, 10), (81, 9), (90, 9), (97, 8)):
        found = at(now_s, memory, brokers={3: broker(20_000)})
        memory = found.state
        assert found.slots[SIDE] == slots, now_s
    for now_s in range(100, 300, 5):
        memory = at(now_s, memory, seen=False).state
    assert memory.sides[SIDE].slots == 1
    assert memory.sides[SIDE].reason is ConcurrencyReason.STALE


def test_concurrency_without_controller_metrics_stays_small() -> None:
    memory = begun(controllers={})
    for now_s in range(5, 200, 5):
        found = at(now_s, memory, controllers={})
        memory = found.state
    assert (found.slots[SIDE], reason(found)) == (12, ConcurrencyReason.CONTROLLER_NOT_MEASURED)


def test_lost_controller_metrics_stop_growth() -> None:
    found = at(20, begun(), controllers={})
    assert (found.slots[SIDE], reason(found)) == (5, ConcurrencyReason.CONTROLLER_NOT_MEASURED)


def test_changed_limits_apply_at_once() -> None:
    memory = at(36, at(20, begun()).state).state
    found = at(37, memory, ConcurrencyLimits(slots_max=8))
    assert (found.slots[SIDE], reason(found)) == (8, ConcurrencyReason.LIMITS_CHANGED)
    found = at(60, found.state, ConcurrencyLimits(slots_max=8))
    assert (found.slots[SIDE], reason(found)) == (8, ConcurrencyReason.AT_MAXIMUM)
    assert at(61, found.state, ConcurrencyLimits(slots_min=10)).slots[SIDE] == 10


def test_new_side_starts_at_concurrency_of_others() -> None:
    memory = at(20, begun(), controllers={100: controller(20_000, idle=0.1)}).state
    other = (4, Side.LEADER)
    assert at(21, memory, sides=frozenset({SIDE, other})).slots[other] == 2


def test_side_without_partitions_is_forgotten() -> None:
    assert at(20, begun(), sides=frozenset()).state.sides == {}


@given(
    st.lists(
        st.tuples(
            st.floats(0.5, 40), st.floats(0, 120), st.floats(0, 1), st.sampled_from([0.0, 0.0, 1.0]), st.booleans()
        ),
        max_size=60,
    ),
    st.integers(1, 4),
    st.integers(4, 30),
)
def test_concurrency_stays_within_limits(
    looks: list[tuple[float, float, float, float, bool]], least: int, most: int
) -> None:
    limits = ConcurrencyLimits(slots_min=least, slots_max=most)
    memory, now_s = ConcurrencyState(), 0.0
    for wait_s, measured_mb, idle, under, seen in looks:
        now_s += wait_s
        now_ms = round(now_s * 1000)
        before = memory.sides[SIDE].slots if SIDE in memory.sides else None
        brokers = {3: broker(now_ms, measured_mb, under_min_isr_partitions=under)} if seen else {}
        found = at(now_s, memory, limits, brokers=brokers, controllers={100: controller(now_ms, idle=idle)})
        memory = found.state
        assert least <= found.slots[SIDE] <= most
        assert limits.starts_min <= found.starts_max <= limits.starts_max
        if before is not None and (not seen or under):
            assert found.slots[SIDE] <= before
