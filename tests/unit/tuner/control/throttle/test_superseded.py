"""Changes in progress that an order, or partitions without writes, supersede."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tuner_cases import LIMITS, SOURCE, TARGET, broker_signal, live, move, move_signal, observation

from tuner.control.throttle.decision import Hold, Reason, Relinquish, SetRate
from tuner.control.throttle.superseded import find_changes_to_stop, find_superseded_changes, find_undraining_changes
from tuner.core.cluster import BrokerSide
from tuner.core.throttle_limits import MB


@pytest.mark.parametrize(
    ("reason", "wanted", "waiting", "ends"),
    [
        (Reason.FOLLOWS_CLIENTS, 5 * MB, False, True),
        (Reason.FOLLOWS_CLIENTS, 20 * MB, False, False),
        (Reason.FOLLOWS_CLIENTS, 20 * MB, True, True),
        (Reason.WINDOW_WARMUP, 10 * MB, False, True),
    ],
)
def test_changes_that_slow_lost_replicas_are_superseded(reason: Reason, wanted: int, waiting: bool, ends: bool) -> None:
    change = SetRate(*SOURCE, 10 * MB, wanted, reason, "text: text")
    behind = replace(broker_signal(1), under_min_isr_partitions=1)
    comes_back = live(moves=(replace(move(), isr=(1,)),))
    seen = observation(comes_back, brokers=(behind, broker_signal(3)))
    found = find_superseded_changes({SOURCE: change}, {SOURCE} if waiting else set(), seen, LIMITS)
    assert bool(found) == ends
    assert find_superseded_changes({TARGET: change}, {TARGET}, observation(live()), LIMITS) == {}, "nothing is behind"


@pytest.mark.parametrize("reason", [Reason.STALLED_BELOW_STEADY_STATE, Reason.RESTORED])
def test_rescue_of_a_side_stops_if_its_moves_have_another_leader(reason: Reason) -> None:
    change = SetRate(*SOURCE, 10 * MB, 20 * MB, reason, "text: text")
    elsewhere = live(moves=(replace(move(), leader=2),))
    found = find_superseded_changes({SOURCE: change}, set(), observation(elsewhere), LIMITS)
    assert found.keys() == ({SOURCE} if reason is Reason.STALLED_BELOW_STEADY_STATE else set())
    assert find_superseded_changes({SOURCE: change}, set(), observation(live(moves=(move(),))), LIMITS) == {}


# -- changes that a cycle's decisions stop ------------------------------------------------------------------------------

SIDES = (SOURCE, TARGET)


def hold(reason: Reason, side: BrokerSide | None = None) -> Hold:
    return Hold(*(side or (None, None)), reason, reason.value)


@pytest.mark.parametrize(
    ("decision", "stops"),
    [
        (hold(Reason.CLUSTER_NOT_SEEN), {SOURCE, TARGET}),
        (hold(Reason.SIGNALS_STALE, SOURCE), {SOURCE}),
        (hold(Reason.PROGRESSING, SOURCE), set()),
        (Relinquish(*TARGET, 5 * MB, 7 * MB, 9, Reason.EXTERNAL_CHANGE, "text"), {TARGET}),
    ],
)
def test_change_stops_after_unobserved_hold_or_relinquish(decision: Hold | Relinquish, stops: set[BrokerSide]) -> None:
    found = find_changes_to_stop([decision], SIDES, (), SIDES)
    assert found == dict.fromkeys(stops, f"interrupted: {decision.text}")


def test_pause_stops_all_changes_except_warmups() -> None:
    paused = hold(Reason.PAUSED)
    assert find_changes_to_stop([paused], SIDES, [TARGET], SIDES).keys() == {SOURCE}
    assert find_changes_to_stop([hold(Reason.RELEASED)], SIDES, [TARGET], SIDES).keys() == {SOURCE, TARGET}


def test_change_of_a_rate_no_longer_owned_stops() -> None:
    assert find_changes_to_stop([], SIDES, [TARGET], [SOURCE]) == {
        TARGET: "interrupted: the reason for the change is over"
    }


@pytest.mark.parametrize(
    ("steady_state", "wanted", "reason", "stops"),
    [
        (20 * MB, 10 * MB, Reason.RESTORED, True),
        (20 * MB, 24 * MB, Reason.RESTORED, False),  # 1.2 times what keeps up.
        (20 * MB, 10 * MB, Reason.OVERRIDDEN, False),
        (60 * MB, 50 * MB, Reason.RESTORED, False),  # A way up.
        (None, 10 * MB, Reason.RESTORED, False),
    ],
)
def test_restore_stops_if_it_would_not_drain(
    steady_state: float | None, wanted: int, reason: Reason, stops: bool
) -> None:
    signal = replace(move_signal(*SOURCE), steady_state_bytes_per_s=steady_state)
    changes = {SOURCE: SetRate(*SOURCE, 50 * MB, wanted, reason, "text")}
    assert (find_undraining_changes(changes, {SOURCE: signal}, LIMITS).keys() == {SOURCE}) is stops
    assert find_undraining_changes(changes, {}, LIMITS) == {}
