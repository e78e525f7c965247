"""The estimate of a broker's margin: from misses, changes of load, and a shrunken ISR."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streaming.shared.contract import BrokerSignal, Side
from tuner.control.throttle.objective import ControlLimits, Objective
from tuner.control.throttle.steering.broker_estimate import BrokerEstimate, update_estimate
from tuner.core.throttle_limits import MB

LIMITS = ControlLimits(margin_start=0.03, margin_min=-0.03, latency_aim=0.74)
OBJECTIVE = Objective(50.0)


def signal(
    at_s: int, *, p99_ms: float = 37.0, used: float = 60 * MB, shrinks_per_s: float | None = None
) -> BrokerSignal:
    """Two samples, so that the mean is the newest step; 20 MB/s of what is used catch up."""
    return BrokerSignal(
        "c", 1, at_s * 1000, at_s * 1000, 2, 1.0, network_out_bytes_per_s=used, network_in_bytes_per_s=used,
        reassignment_out_bytes_per_s=20 * MB, reassignment_in_bytes_per_s=20 * MB, produce_p99_ms=p99_ms,
        fetch_p99_ms=1.0, isr_shrinks_per_s=shrinks_per_s,
    )  # fmt: skip


def after(*signals: BrokerSignal, fills: bool = True) -> BrokerEstimate:
    sight = None
    for each in signals:
        sight = update_estimate(each, sight, fills, OBJECTIVE, LIMITS)
    assert sight is not None
    return sight


def test_produce_p99_miss_widens_margin_and_slow_fetch_does_not() -> None:
    """The objective is of produce requests; a consumer's fetch waits for the next record where nothing is slow."""
    missed = signal(5, p99_ms=60.0)
    for fetch_ms in (1.0, 59.0, 500.0):
        seen_so = replace(missed, fetch_p99_ms=fetch_ms)
        assert after(signal(0), seen_so).margin == pytest.approx(0.03 + 0.01 * (0.46 + 2.0)), fetch_ms


@pytest.mark.parametrize(
    ("p99_ms", "margin"),
    [
        (60.0, 0.03 + 0.01 * (0.6 + 2.0)),  # 1.2 of the objective: 0.6 above the aim, and a miss.
        (50.0, 0.03 + 0.01 * 0.4),  # As promised, and no miss.
        (37.5, 0.03 + 0.01 * 0.15),
        (30.0, 0.03),  # The aim: 0.6 of 50 ms.
        (20.0, 0.03 - 0.01 * 0.2),
        (2.5, 0.03 - 0.01 * 0.5),  # Given back half as fast as it grows, however low.
    ],
)
def test_margin_after_one_signal_with_default_constants(p99_ms: float, margin: float) -> None:
    first = update_estimate(signal(0, p99_ms=30.0), None, True, OBJECTIVE, ControlLimits())
    assert first.margin == pytest.approx(0.03)
    assert update_estimate(signal(5, p99_ms=p99_ms), first, True, OBJECTIVE, ControlLimits()).margin == pytest.approx(
        margin
    )


def test_calm_broker_keeps_two_percent_margin_by_default() -> None:
    sight = None
    for at_s in range(0, 100, 5):
        sight = update_estimate(signal(at_s, p99_ms=10.0), sight, True, OBJECTIVE, ControlLimits())
    assert sight is not None
    assert sight.margin == pytest.approx(0.02)


def test_isr_shrink_cuts_five_percent_for_half_a_minute() -> None:
    before = update_estimate(signal(0, p99_ms=30.0), None, True, OBJECTIVE, ControlLimits())
    cut = update_estimate(signal(5, p99_ms=35.0, shrinks_per_s=0.1), before, True, OBJECTIVE, ControlLimits())
    assert cut.margin == pytest.approx(0.03 + 0.01 * 0.1 + 0.05)
    assert cut.margin_held_until_ms == 35_000
    calm = update_estimate(signal(5, p99_ms=29.0, shrinks_per_s=0.1), before, True, OBJECTIVE, ControlLimits())
    assert calm.margin == pytest.approx(0.03 - 0.01 * 0.02)


def test_miss_caused_by_new_load_does_not_widen_margin() -> None:
    """From 40 to 80 MB/s of clients in one step: the forecast answers that, at once."""
    sight = after(signal(0), signal(5), signal(10, p99_ms=60.0, used=100 * MB))
    assert sight.margin == pytest.approx(0.03)
    assert after(signal(0), signal(5), signal(10, p99_ms=60.0)).margin > 0.05


def test_isr_shrink_under_high_latency_cuts_then_pauses() -> None:
    cut = after(signal(0), signal(5, p99_ms=38.0, shrinks_per_s=0.1))
    assert cut.margin == pytest.approx(0.03 + 0.01 * 0.02 + 0.05)
    assert cut.margin_held_until_ms == 35_000
    # The same shrink is in the stream's window for half a minute: it is answered once, and nothing is given back.
    resting = after(signal(0), signal(5, p99_ms=38.0, shrinks_per_s=0.1), signal(10, p99_ms=38.0, shrinks_per_s=0.1))
    assert resting.margin == pytest.approx(cut.margin + 0.01 * 0.02)
    calm = after(signal(0), signal(5, p99_ms=38.0, shrinks_per_s=0.1), signal(30, p99_ms=5.0))
    assert calm.margin == cut.margin
    assert after(signal(0), signal(5, p99_ms=38.0, shrinks_per_s=0.1), signal(35, p99_ms=5.0)).margin < cut.margin


def test_isr_shrink_under_low_latency_does_not_cut() -> None:
    assert after(signal(0), signal(5, p99_ms=20.0, shrinks_per_s=0.1), fills=False).margin == 0.03


def test_margin_without_latency_is_kept() -> None:
    silent = replace(signal(5), produce_p99_ms=None)
    assert after(signal(0), silent).margin == 0.03


def test_long_polling_consumer_does_not_widen_margin() -> None:
    waiting = replace(signal(5), fetch_p99_ms=500.0)
    assert after(signal(0), waiting).margin == after(signal(0), signal(5)).margin


def test_extra_signal_does_not_lengthen_the_window() -> None:
    """A window of five steps in which the collector looked six times: 60 MB/s go to 65, so the newest step is 30 more, and not 36."""
    before = replace(signal(0), samples=6)
    more = replace(signal(5, used=65 * MB), samples=7, completeness=7 / 6)
    newest = after(before, more).directions[Side.LEADER].network.newest
    assert newest == pytest.approx((5 * 65 - 4 * 60) * MB, rel=0.02)


def test_reported_step_overrides_window_mean() -> None:
    """A move that began five seconds ago: the mean of thirty has a sixth of it, and whoever took that for all of the window would
    see what is missing go round in it for minutes."""
    told = replace(
        signal(0, used=40 * MB), samples=7, step_s=5.0, reassignment_out_bytes_per_s=0.5 * MB,
        step_network_out_bytes_per_s=63 * MB, step_reassignment_out_bytes_per_s=3 * MB,
    )  # fmt: skip
    sights = [after(*(replace(told, sampled_at_ms=k * 5000) for k in range(n))) for n in (1, 2, 7)]
    for direction in (sight.directions[Side.LEADER] for sight in sights):
        assert (direction.network.newest, direction.catch_up.newest) == (63 * MB, 3 * MB)
        assert direction.load is not None
        assert direction.load.level_bytes_per_s == pytest.approx(60 * MB)
    # The other direction does not tell its step, so there it is worked out.
    assert sights[0].directions[Side.FOLLOWER].network.newest == 40 * MB


def load_of(told: dict[str, float], *, means: bool = True) -> float | None:
    """Of a broker of which 40 MB/s of clients and 20 that catch up were known, after this step; its window says the same as before."""
    none = {} if means else {"network_out_bytes_per_s": None, "reassignment_out_bytes_per_s": None}
    now = replace(signal(5), step_s=5.0, **told, **none)  # type: ignore[arg-type]  # Fields by their names.
    direction = after(signal(0), now).directions[Side.LEADER]
    assert direction.load is not None
    assert (direction.catch_up.newest is None) is not means
    return direction.load.level_bytes_per_s


@pytest.mark.parametrize(("network", "caught"), [(-1e12, 3 * MB), (70 * MB, 90 * MB), (0.0, 20 * MB)])
def test_step_above_total_falls_back_to_window(network: float, caught: float) -> None:
    told = {"step_network_out_bytes_per_s": network, "step_reassignment_out_bytes_per_s": caught}
    assert load_of(told) == pytest.approx(40 * MB)
    # And where that does not know either what was known stays, and no bytes are said of this step.
    assert load_of(told, means=False) == 40 * MB


def test_negative_step_is_zero_and_overlong_step_is_ignored() -> None:
    told = {"step_network_out_bytes_per_s": 40 * MB, "step_reassignment_out_bytes_per_s": -1e12}
    assert load_of(told) == pytest.approx(40 * MB)
    assert after(replace(signal(0), step_s=1e300, **told)).step_s == 5.0  # type: ignore[arg-type]  # As above.


def test_missing_step_is_derived_from_reported_ones() -> None:
    """Clients go from 50 to 100 MB/s; of the third step at that only the window's mean is known: five steps, three of them at 100."""
    told = [50.0, 50.0, 50.0, 100.0, 100.0]
    sight = None
    for k, clients in enumerate([*told, None]):
        at_s, seen_so = 5 * k, [50.0] * (5 - len(told[: k + 1])) + told[: k + 1] + ([100.0] if clients is None else [])
        mean = sum(seen_so[-5:]) / 5
        now = replace(signal(at_s, used=(mean + 20) * MB), samples=6)
        if clients is not None:
            now = replace(
                now,
                step_s=5.0,
                step_network_out_bytes_per_s=(clients + 20) * MB,
                step_reassignment_out_bytes_per_s=20 * MB,
            )
        sight = update_estimate(now, sight, True, OBJECTIVE, LIMITS)
    assert sight is not None
    direction = sight.directions[Side.LEADER]
    assert direction.network.newest == pytest.approx(120 * MB, rel=0.02)
    assert not direction.jumped


def test_oscillating_load_does_not_excuse_a_miss() -> None:
    """40 and 60 MB/s by turns, each far from what was expected; p99 is three times the objective all the while."""
    sight = given(near_capacity=True)
    for k in range(20):
        clients = 60 if k % 2 else 40
        now = replace(
            signal(200 + 5 * k, p99_ms=150.0), step_s=5.0, step_network_out_bytes_per_s=(clients + 50) * MB,
            step_reassignment_out_bytes_per_s=50 * MB, produce_mean_ms=40.0,
        )  # fmt: skip
        sight = update_estimate(now, sight, True, OBJECTIVE, ControlLimits(), near_capacity=True)
        assert sight.margin >= 0.0
    assert sight.margin > 0.15


def test_each_load_step_counts_as_new_load() -> None:
    """As clients do who come while the link is full: what is taken from the move shows them, a step at a time."""
    before = given(near_capacity=True)
    sight = before
    for k in range(5):
        clients = 50 + 12 * k
        now = replace(
            signal(200 + 5 * k, p99_ms=55.0), step_s=5.0, step_network_out_bytes_per_s=110 * MB,
            step_reassignment_out_bytes_per_s=(110 - clients) * MB, produce_mean_ms=20.0,
        )  # fmt: skip
        sight = update_estimate(now, sight, True, OBJECTIVE, ControlLimits(), near_capacity=True)
    assert sight.directions[Side.LEADER].jumped
    assert sight.margin == 0.0


REMEMBERS = [replace(signal(at_s, p99_ms=20.0), produce_mean_ms=8.0 + at_s % 10) for at_s in range(0, 200, 5)]


def given(*, near_capacity: bool, fills: bool = True) -> BrokerEstimate:
    """After three minutes of a p99 that stands still far below its aim while the mean comes and goes."""
    sight = None
    for each in REMEMBERS:
        sight = update_estimate(each, sight, fills, OBJECTIVE, ControlLimits(), near_capacity=near_capacity)
    assert sight is not None
    return sight


def test_last_tenth_needs_clients_observed_on_full_link() -> None:
    assert given(near_capacity=True).margin == pytest.approx(-0.04)
    # An operator's ceiling, or half of the headroom on purpose: what p99 says there is not of a full link.
    assert given(near_capacity=False).margin == pytest.approx(0.02)


@pytest.mark.parametrize(
    "now",
    [
        pytest.param({"produce_p99_ms": None, "produce_mean_ms": None}, id="latency is not measured"),
        pytest.param({"client_in_bytes_per_s": 0.0}, id="there are none any more"),
    ],
)
def test_last_tenth_ends_with_its_reason(now: dict[str, float | None]) -> None:
    later = replace(REMEMBERS[-1], sampled_at_ms=REMEMBERS[-1].sampled_at_ms + 5000, **now)
    assert update_estimate(
        later, given(near_capacity=True), True, OBJECTIVE, ControlLimits(), near_capacity=True
    ).margin == pytest.approx(0.02)


def test_last_tenth_ends_when_link_is_no_longer_full() -> None:
    later = replace(REMEMBERS[-1], sampled_at_ms=REMEMBERS[-1].sampled_at_ms + 600_000)
    for fills in (True, False):
        assert (
            update_estimate(later, given(near_capacity=True), fills, OBJECTIVE, ControlLimits()).margin >= 0.02 - 1e-9
        )


def test_miss_or_shrink_takes_back_the_last_tenth_first() -> None:
    later = replace(REMEMBERS[-1], sampled_at_ms=REMEMBERS[-1].sampled_at_ms + 5000)
    missed = update_estimate(
        replace(later, produce_p99_ms=60.0),
        given(near_capacity=True),
        True,
        OBJECTIVE,
        ControlLimits(),
        near_capacity=True,
    )
    assert missed.margin >= 0.02
    shrunk = replace(later, produce_p99_ms=40.0, isr_shrinks_per_s=0.1)
    assert update_estimate(
        shrunk, given(near_capacity=True), True, OBJECTIVE, ControlLimits(), near_capacity=True
    ).margin == pytest.approx(0.07)


def test_measured_rate_belongs_to_its_own_interval() -> None:
    told = {"step_network_out_bytes_per_s": 60 * MB, "step_reassignment_out_bytes_per_s": 20 * MB}
    sight = after(signal(0), replace(signal(10), step_s=2.5, **told))
    assert sight.step_s == 2.5
    assert after(signal(0), replace(signal(5), step_s=0.0, **told)).step_s == 5.0


def test_outdated_p99_does_not_widen_margin_after_relief() -> None:
    """Means fall from 12 ms to 3 while Kafka still tells 48: with them it is far below the aim, without them above it."""
    told = [(i * 5, 12.0) for i in range(8)] + [(40 + i * 5, 3.0) for i in range(3)]
    with_means = after(*(replace(signal(at_s, p99_ms=48.0), produce_mean_ms=mean) for at_s, mean in told))
    without = after(*(signal(at_s, p99_ms=48.0) for at_s, _ in told))
    assert with_means.margin < without.margin
    before = after(*(replace(signal(at_s, p99_ms=48.0), produce_mean_ms=mean) for at_s, mean in told[:8]))
    assert with_means.margin < before.margin


def test_mean_of_nearly_idle_broker_is_ignored() -> None:
    silent = replace(signal(0), produce_mean_ms=200.0, client_in_bytes_per_s=100.0)
    assert after(silent).latency.mean_ms is None
    assert after(replace(silent, client_in_bytes_per_s=1 * MB)).latency.mean_ms == 200.0
