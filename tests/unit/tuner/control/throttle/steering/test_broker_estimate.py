"""The estimate of one broker: its steps, its load, how full its link may be, and the capacity if it is not known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streaming.shared.contract import BrokerSignal, Side
from tuner.control.throttle.objective import Capacity, ControlLimits, Mode, Objective
from tuner.control.throttle.steering.broker_estimate import BrokerEstimate, update_estimate
from tuner.core.broker_baseline import BrokerBaseline
from tuner.core.latency_limit import LatencySource
from tuner.core.link_limit import LinkSource
from tuner.core.throttle_limits import MB

LIMITS = ControlLimits()
OBJECTIVE = Objective(50.0)
LINK = Capacity(125 * MB, 125 * MB)


def signal(at_s: int, *, p99_ms: float = 37.0, used: float = 60 * MB) -> BrokerSignal:
    """Two samples, so that the mean is the newest step; 20 MB/s of what is used catch up."""
    return BrokerSignal(
        "c", 1, at_s * 1000, at_s * 1000, 2, 1.0, network_out_bytes_per_s=used, network_in_bytes_per_s=used,
        reassignment_out_bytes_per_s=20 * MB, reassignment_in_bytes_per_s=20 * MB, produce_p99_ms=p99_ms,
        fetch_p99_ms=1.0,
    )  # fmt: skip


def after(*signals: BrokerSignal, capacity: Capacity | None = LINK) -> BrokerEstimate:
    sight = None
    for each in signals:
        sight = update_estimate(each, sight, capacity, None, OBJECTIVE, LIMITS)
    assert sight is not None
    return sight


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
        sight = update_estimate(now, sight, LINK, None, OBJECTIVE, LIMITS)
    assert sight is not None
    direction = sight.directions[Side.LEADER]
    assert direction.network.newest == pytest.approx(120 * MB, rel=0.02)


def test_measured_rate_belongs_to_its_own_interval() -> None:
    told = {"step_network_out_bytes_per_s": 60 * MB, "step_reassignment_out_bytes_per_s": 20 * MB}
    sight = after(signal(0), replace(signal(10), step_s=2.5, **told))
    assert sight.step_s == 2.5
    assert after(signal(0), replace(signal(5), step_s=0.0, **told)).step_s == 5.0


def allowed(*signals: BrokerSignal, capacity: Capacity | None = LINK) -> float:
    return after(*signals, capacity=capacity).allowed[Side.LEADER]


def test_produce_p99_lowers_the_allowed_utilisation_and_slow_fetch_does_not() -> None:
    fast, slow = signal(5, p99_ms=10.0), signal(5, p99_ms=60.0)
    assert allowed(signal(0, p99_ms=10.0), slow) < allowed(signal(0, p99_ms=10.0), fast)
    polling = replace(fast, fetch_p99_ms=500.0)
    assert allowed(signal(0, p99_ms=10.0), polling) == allowed(signal(0, p99_ms=10.0), fast)


@pytest.mark.parametrize(
    "silent",
    [
        pytest.param({"produce_p99_ms": None}, id="latency is not measured"),
        pytest.param({"network_out_bytes_per_s": None}, id="utilisation is not measured"),
    ],
)
def test_allowed_utilisation_stays_without_a_measurement(silent: dict[str, float | None]) -> None:
    now = replace(signal(5, p99_ms=60.0), **silent)  # type: ignore[arg-type]  # Fields by their names.
    assert allowed(signal(0), now) == allowed(signal(0))


def test_first_traffic_is_the_unit_without_a_capacity() -> None:
    sight = after(signal(0), signal(5, p99_ms=34.0, used=90 * MB), capacity=None)
    assert (sight.capacity, sight.is_capacity_configured) == (Capacity(60 * MB, 60 * MB), False)
    limit = sight.link_limit(Side.LEADER)
    assert limit is not None
    assert (limit.bytes_per_s, limit.capacity_bytes_per_s) == (pytest.approx(90 * MB, rel=0.02), None)
    unmeasured = replace(signal(0), network_in_bytes_per_s=None, network_out_bytes_per_s=None)
    assert after(unmeasured, capacity=None).capacity is None


def test_link_speed_limits_only_above_what_was_learned() -> None:
    fast = [
        replace(signal(at_s, p99_ms=5.0, used=110 * MB), link_speed_bytes_per_s=125 * MB) for at_s in range(0, 60, 5)
    ]
    limit = after(*fast, capacity=None).link_limit(Side.FOLLOWER)
    assert limit is not None
    assert (limit.source, limit.bytes_per_s) == (LinkSource.LINK, pytest.approx(1.25 * 110 * MB, rel=0.01))
    assert limit.text == "the broker's link carries 125 MB/s, according to the metrics of its machine"
    slow_disk = [replace(each, produce_p99_ms=300.0) for each in fast]
    limit = after(*slow_disk, capacity=None).link_limit(Side.FOLLOWER)
    assert limit is not None
    assert (limit.source, limit.text) == (LinkSource.LEARNED, "")
    assert limit.bytes_per_s < 125 * MB


def test_link_speed_expires_with_its_signal_and_yields_to_the_settings() -> None:
    fast = [
        replace(signal(at_s, p99_ms=5.0, used=110 * MB), link_speed_bytes_per_s=125 * MB) for at_s in range(0, 60, 5)
    ]
    gone = after(*fast, signal(60, p99_ms=5.0, used=110 * MB), capacity=None)
    assert gone.link_bytes_per_s(Side.LEADER) is None
    limit = after(*fast).link_limit(Side.LEADER)
    assert limit is not None
    assert (limit.source, after(*fast).link_bytes_per_s(Side.LEADER)) == (LinkSource.SETTINGS, 125 * MB)


def test_clients_that_hardly_write_leave_no_limit() -> None:
    """No client waits any more, so the latency of the last burst must not hold the moves at their minimum."""
    slow = [signal(at_s, p99_ms=300.0) for at_s in range(0, 60, 5)]
    assert allowed(*slow) == pytest.approx(40 / 125), "the load of clients"
    assert after(*slow, replace(signal(60), client_in_bytes_per_s=10.0)).allowed == {}


def test_allowed_utilisation_starts_anew_after_a_long_gap() -> None:
    slow = [signal(at_s, p99_ms=300.0) for at_s in range(0, 60, 5)]
    assert allowed(*slow, signal(3600, p99_ms=30.0)) > 0.8


def test_learned_utilisation_survives_the_time_between_two_moves() -> None:
    first = [signal(at_s, p99_ms=5.0, used=(60 + at_s) * MB) for at_s in range(0, 60, 5)]
    learned = allowed(*first, capacity=None)
    assert allowed(*first, signal(3600, p99_ms=5.0), capacity=None) == pytest.approx(0.85 * learned, rel=0.05)


def test_move_starts_near_what_the_history_has_seen() -> None:
    """`rheostat learn` has seen 200 MB/s pass with normal latency; the throttle in force and the load are far below."""
    usual = BrokerBaseline(8.0, carried_in_bytes_per_s=200 * MB, carried_out_bytes_per_s=1.0)
    found = update_estimate(signal(0, p99_ms=5.0), None, None, usual, Objective(), LIMITS)
    limit = found.link_limit(Side.FOLLOWER)
    assert limit is not None
    assert limit.bytes_per_s >= 0.85 * 200 * MB
    plain = update_estimate(signal(0, p99_ms=5.0), None, None, BrokerBaseline(8.0), Objective(), LIMITS)
    assert found.allowed[Side.LEADER] == plain.allowed[Side.LEADER]


def test_hardly_written_broker_has_no_limit_without_a_capacity() -> None:
    found = after(replace(signal(0), client_in_bytes_per_s=10.0), capacity=None)
    assert found.allowed == {}
    assert found.link_limit(Side.FOLLOWER) is None


def test_latency_limit_follows_from_the_baseline_else_from_the_lowest_p99() -> None:
    objective, estimate = Objective(), None
    for p99_ms in (20.0, 20.0, 20.0):
        at_s = 0 if estimate is None else estimate.sampled_at_ms // 1000 + 5
        estimate = update_estimate(signal(at_s, p99_ms=p99_ms), estimate, LINK, None, objective, LIMITS)
    assert estimate is not None
    assert estimate.latency_limit is not None
    assert (estimate.latency_limit.p99_ms_max, estimate.latency_limit.source) == (30.0, LatencySource.MOVE)
    estimate = update_estimate(signal(25), estimate, LINK, BrokerBaseline(8.0), objective, LIMITS)
    assert estimate.latency_limit is not None
    assert (estimate.latency_limit.p99_ms_max, estimate.latency_limit.source) == (13.0, LatencySource.BASELINE)


def test_clients_that_write_little_during_a_copy_do_not_open_it_without_a_capacity() -> None:
    """They may write little because the copy has slowed them down."""
    busy = [signal(at_s, p99_ms=5.0) for at_s in range(0, 30, 5)]
    starved = replace(signal(30), client_in_bytes_per_s=10.0)
    assert allowed(*busy, starved, capacity=None) == allowed(*busy, capacity=None)


def test_full_direction_is_found_although_the_other_one_sends_four_times_as_much() -> None:
    """A destination with a slow disk, and consumers."""
    slow = [replace(signal(at_s, p99_ms=300.0), network_out_bytes_per_s=240 * MB) for at_s in range(0, 60, 5)]
    found = after(*slow, capacity=None)
    limits = {side: found.link_limit(side) for side in Side}
    assert limits[Side.FOLLOWER] is not None
    assert limits[Side.FOLLOWER].bytes_per_s == pytest.approx(40 * MB, rel=0.05), "the load of clients"
    assert limits[Side.LEADER] is not None
    assert limits[Side.LEADER].bytes_per_s > 200 * MB


def test_gentle_mode_learns_what_the_copies_would_use_at_full_speed() -> None:
    estimate, gentle = None, Objective(50.0, Mode.GENTLE)
    for at_s in range(0, 900, 5):
        link = estimate.link_limit(Side.LEADER) if estimate is not None else None
        copied = 5 * MB if link is None else max(5 * MB, 0.5 * (link.bytes_per_s - 1 * MB))
        now = replace(
            signal(at_s, p99_ms=5.0, used=1 * MB + copied),
            reassignment_out_bytes_per_s=copied,
            reassignment_in_bytes_per_s=copied,
        )
        estimate = update_estimate(now, estimate, None, BrokerBaseline(5.0), gentle, LIMITS)
        if copied > 100 * MB:
            return
    pytest.fail("a gentle move never used an idle link")
