"""Which rates stay the tuner's own, and which belong to an operator or another tool until the hold expires."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tuner_cases import LIMITS, NOW_MS, SOURCE, TARGET, live, owned

from tuner.control.throttle.decision import Hold, Reason, Relinquish, SetRate
from tuner.control.throttle.ownership import correct_late_writes, relinquish_changed_rates
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.control.throttle.write_intents import narrow_to_current
from tuner.core.cluster import BrokerSide, LiveCluster, RateSetting
from tuner.core.drain_time import SideLoad
from tuner.core.throttle_limits import MB, ThrottleLimits

# 4.5 stood there; the ramp to 21 is at one of its steps.
MID_RAMP = owned(4_500_000, 21 * MB, 4_500_000, 10 * MB, 16 * MB, 21 * MB)
SETTLED = owned(4_500_000, 21 * MB)


def look(cluster: LiveCluster, memory: Memory, *, now_ms: int = NOW_MS) -> tuple[Memory, list[Relinquish | Hold]]:
    return relinquish_changed_rates(cluster, memory, now_ms, LIMITS, throttles=False)


@pytest.mark.parametrize("stands", [4.5, 10, 16, 21])
def test_rate_on_a_ramp_step_stays_owned(stands: float) -> None:
    memory = Memory(owned={SOURCE: MID_RAMP})
    assert look(live({SOURCE: stands * MB}), memory) == (memory, [])


@pytest.mark.parametrize("stands", [4.499999, 9.999999, 12, 20.9, 21.000001, 50])
def test_rate_between_ramp_steps_is_relinquished(stands: float) -> None:
    memory, decisions = look(live({SOURCE: stands * MB}), Memory(owned={SOURCE: MID_RAMP}))
    assert memory.owned == {}
    assert [d.current_bytes_per_s for d in decisions if isinstance(d, Relinquish)] == [round(stands * MB)]


def test_external_change_is_relinquished_with_a_text() -> None:
    memory, decisions = look(live({SOURCE: 12 * MB}), Memory(owned={SOURCE: SETTLED, TARGET: owned(None, 10 * MB)}))
    until_ms = NOW_MS + 3_600_000
    assert memory.externally_owned_until_ms == {SOURCE: until_ms, TARGET: until_ms}
    first = decisions[0]
    assert first == Relinquish(*SOURCE, 21 * MB, 12 * MB, until_ms, Reason.EXTERNAL_CHANGE, first.text)
    assert first.text == (
        "broker 1 leader throttle: rheostat had set 21.0 MB/s, now 12.0 MB/s is set. An operator or another tool changed it, so rheostat leaves it alone for 60 min"
    )


def test_external_change_relinquishes_only_its_side() -> None:
    memory, decisions = look(
        live({SOURCE: 12 * MB, TARGET: 10 * MB}), Memory(owned={SOURCE: SETTLED, TARGET: owned(None, 10 * MB)})
    )
    assert set(memory.owned) == {TARGET}
    assert [(d.broker, d.side) for d in decisions] == [SOURCE]


def test_external_removal_is_relinquished() -> None:
    _, decisions = look(live({}), Memory(owned={SOURCE: SETTLED}))
    assert isinstance(decisions[0], Relinquish)
    assert decisions[0].current_bytes_per_s is None
    assert "now no rate is set" in decisions[0].text


def test_inherited_rate_counts_as_removed() -> None:
    inherited = LiveCluster(brokers=frozenset({1, 2, 3}), rates={SOURCE: RateSetting(21 * MB, is_set_on_broker=False)})
    _, decisions = look(inherited, Memory(owned={SOURCE: SETTLED}))
    assert [d.current_bytes_per_s for d in decisions] == [None]


@pytest.mark.parametrize(
    "cluster", [live({}, brokers=(2, 3)), live({}, unreadable=(1,)), live({SOURCE: 99 * MB}, unreadable=(1,))]
)
def test_unreadable_side_is_not_relinquished(cluster: LiveCluster) -> None:
    memory = Memory(owned={SOURCE: SETTLED})
    assert look(cluster, memory) == (memory, [])


@pytest.mark.parametrize(("late_ms", "still_theirs"), [(-1, True), (0, False), (1, False)])
def test_external_hold_expires(late_ms: int, still_theirs: bool) -> None:
    until_ms = NOW_MS + 3_600_000
    memory, decisions = look(live(), Memory(externally_owned_until_ms={SOURCE: until_ms}), now_ms=until_ms + late_ms)
    assert (SOURCE in memory.externally_owned_until_ms) is still_theirs
    assert decisions == []


def test_external_hold_lasts_as_long_as_configured() -> None:
    limits = ThrottleLimits(rate_bytes_per_s_max=50 * MB, external_change_hold_s=90.0)
    cluster, ours = live({SOURCE: MB}), Memory(owned={SOURCE: SETTLED})
    memory, decisions = relinquish_changed_rates(cluster, ours, NOW_MS, limits, throttles=False)
    assert memory.externally_owned_until_ms == {SOURCE: NOW_MS + 90_000}
    assert decisions[0].until_ms == NOW_MS + 90_000


def test_rates_that_were_never_owned_are_ignored() -> None:
    assert look(live({SOURCE: 99 * MB}), Memory()) == (Memory(), [])


# -- what the tuner before us sent, and comes when we have looked already ---------------------------------------------------


def taken_over() -> Memory:
    """At our first look what stood before the ramp stands there still."""
    memory = narrow_to_current(Memory(owned={SOURCE: MID_RAMP}), live({SOURCE: 4_500_000}), NOW_MS, LIMITS)
    assert memory.owned[SOURCE].possible_rates == (4_500_000,)
    return memory


def test_predecessor_writes_include_the_end_of_a_round_trip() -> None:
    """It stands among what may stand as what stood before."""
    fills = OwnedRate(10 * MB, 10 * MB, (10 * MB, 1 * MB, 5 * MB, 9 * MB), restore_to_bytes_per_s=10 * MB)
    memory = narrow_to_current(Memory(owned={SOURCE: fills}), live({SOURCE: 9 * MB}), NOW_MS, LIMITS)
    assert (memory.owned[SOURCE].possible_rates, memory.predecessor_writes[SOURCE]) == ((9 * MB,), (10 * MB,))
    memory = narrow_to_current(Memory(owned={SOURCE: fills}), live({SOURCE: 10 * MB}), NOW_MS, LIMITS)
    assert memory.predecessor_writes[SOURCE] == (1 * MB, 5 * MB, 9 * MB)


def test_predecessor_writes_are_kept_after_another_tool_removed_the_rate() -> None:
    """The missing rate does not show which writes of the previous tuner took effect."""
    memory = narrow_to_current(Memory(owned={SOURCE: MID_RAMP}), live({}), NOW_MS, LIMITS)
    assert memory.predecessor_writes[SOURCE] == MID_RAMP.possible_rates
    assert memory.predecessor_writes_until_ms == NOW_MS + round(1000 * LIMITS.predecessor_write_s)


@pytest.mark.parametrize("stands", [10, 16, 21])
def test_late_predecessor_write_stays_owned(stands: float) -> None:
    memory, decisions = look(live({SOURCE: stands * MB}), taken_over(), now_ms=NOW_MS + 599_000)
    assert [(type(d), d.reason) for d in decisions] == [(Hold, Reason.LATE_PREDECESSOR_WRITE)]
    assert decisions[0].text == (
        f"broker 1 leader throttle: rheostat had set 21.0 MB/s, now {stands:.1f} MB/s is set: a request of the previous "
        "tuner took effect late. rheostat continues to manage the rate"
    )
    assert memory.externally_owned_until_ms == {}
    assert look(live({SOURCE: stands * MB}), memory, now_ms=NOW_MS + 599_500) == (memory, []), "said once"


@pytest.mark.parametrize(("stands", "after_s"), [(12, 1), (21, 600)])
def test_late_write_that_is_unknown_or_expired_is_relinquished(stands: float, after_s: float) -> None:
    memory, decisions = look(live({SOURCE: stands * MB}), taken_over(), now_ms=NOW_MS + round(1000 * after_s))
    assert [d.reason for d in decisions] == [Reason.EXTERNAL_CHANGE]
    assert memory.owned == {}


def test_late_write_of_another_side_is_relinquished() -> None:
    memory = replace(taken_over(), owned={**taken_over().owned, TARGET: owned(None, 5 * MB)})
    _, decisions = look(live({SOURCE: 4_500_000, TARGET: 21 * MB}), memory)
    assert [(d.side, d.reason) for d in decisions] == [(TARGET[1], Reason.EXTERNAL_CHANGE)]


@pytest.mark.parametrize("stands", [4.5, 10])
def test_predecessor_writes_exclude_earlier_steps(stands: float) -> None:
    """The tuner before us was at 16 of 4.5, 10, 16, 21: who sets one of the first two is a person who goes back."""
    memory = narrow_to_current(Memory(owned={SOURCE: MID_RAMP}), live({SOURCE: 16 * MB}), NOW_MS, LIMITS)
    assert memory.predecessor_writes == {SOURCE: (21 * MB,)}
    _, decisions = look(live({SOURCE: round(stands * MB)}), memory)
    assert [d.reason for d in decisions] == [Reason.EXTERNAL_CHANGE]


def test_predecessor_writes_include_those_of_older_predecessors() -> None:
    """It died as well, before it had seen it; and what it was about to write itself may come, too."""
    before = replace(taken_over(), owned={SOURCE: owned(4_500_000, 14 * MB, 12 * MB, 14 * MB)})
    memory = narrow_to_current(before, live({SOURCE: 10 * MB}), NOW_MS + 60_000, LIMITS)
    assert memory.predecessor_writes == {SOURCE: (10 * MB, 16 * MB, 21 * MB, 12 * MB, 14 * MB)}
    memory, decisions = look(live({SOURCE: 10 * MB}), memory)
    assert [d.reason for d in decisions] == [Reason.LATE_PREDECESSOR_WRITE]
    memory, decisions = look(live({SOURCE: 14 * MB}), memory)
    assert decisions == []
    assert narrow_to_current(before, live({SOURCE: 12 * MB}), NOW_MS + 601_000, LIMITS).predecessor_writes == {
        SOURCE: (14 * MB,)
    }


def test_predecessor_write_time_limit_is_not_extended_by_takeovers() -> None:
    """Nor for longer than that by a clock that was ahead. And then it goes from the record as well."""
    before, there = replace(taken_over(), owned={SOURCE: owned(4_500_000, 14 * MB)}), live({SOURCE: 14 * MB})
    assert narrow_to_current(before, there, NOW_MS + 500_000, LIMITS).predecessor_writes_until_ms == NOW_MS + 600_000
    assert (
        narrow_to_current(before, there, NOW_MS - 3_600_000, LIMITS).predecessor_writes_until_ms == NOW_MS - 3_000_000
    )
    memory, _ = look(there, before, now_ms=NOW_MS + 599_000)
    assert memory.predecessor_writes == before.predecessor_writes
    memory, _ = look(there, before, now_ms=NOW_MS + 600_000)
    assert memory.predecessor_writes == {}


def test_existing_setting_is_not_a_predecessor_write() -> None:
    """Somebody removes what the tuner before us had put where nothing stood."""
    memory = Memory(owned={SOURCE: owned(None, 5 * MB, None, 5 * MB)})
    memory = narrow_to_current(memory, live({SOURCE: 5 * MB}), NOW_MS, LIMITS)
    assert memory.predecessor_writes == {}


CALM = {SOURCE: Hold(*SOURCE, Reason.PROGRESSING, "")}
LOADS = {SOURCE: SideLoad(500 * MB, 2 * MB)}


def late_predecessor_write(stands: float = 21, *, stood: int = 14) -> Memory:
    """Where we have set another value since."""
    memory, decisions = look(
        live({SOURCE: round(stands * MB)}), replace(taken_over(), owned={SOURCE: owned(4_500_000, stood * MB)})
    )
    assert [d.reason for d in decisions] == [Reason.LATE_PREDECESSOR_WRITE]
    return memory


@pytest.mark.parametrize("stands", [21, 10])
def test_late_write_is_corrected_while_it_is_set(stands: float) -> None:
    memory, there = late_predecessor_write(stands), live({SOURCE: round(stands * MB)})
    for _ in range(2):
        (change,) = correct_late_writes(CALM, there, LOADS, memory, LIMITS)
        assert isinstance(change, SetRate)
        assert (change.current_bytes_per_s, change.setpoint_bytes_per_s) == (stands * MB, 14 * MB)
        memory, _ = look(there, memory, now_ms=NOW_MS + 30_000)


@pytest.mark.parametrize("reason", [Reason.SIGNALS_STALE, Reason.INFEASIBLE, Reason.RATE_IS_CHANGING, Reason.NO_LEADER])
def test_late_write_is_not_corrected_on_unhealthy_sides(reason: Reason) -> None:
    assert (
        correct_late_writes(
            {SOURCE: Hold(*SOURCE, reason, "")}, live({SOURCE: 21 * MB}), LOADS, late_predecessor_write(), LIMITS
        )
        == []
    )


def test_late_write_correction_keeps_to_the_ceiling() -> None:
    memory = late_predecessor_write(10, stood=18)
    (change,) = correct_late_writes(
        CALM, live({SOURCE: 10 * MB}), LOADS, memory, replace(LIMITS, rate_bytes_per_s_max=15 * MB)
    )
    assert change.setpoint_bytes_per_s == 15 * MB


@pytest.mark.parametrize(
    ("cluster", "after_s"), [(live({SOURCE: 14 * MB}), 1), (live({}), 1), (live({SOURCE: 21 * MB}), 601)]
)
def test_late_write_is_forgotten_after_change_or_expiry(cluster: LiveCluster, after_s: int) -> None:
    memory, _ = look(cluster, late_predecessor_write(), now_ms=NOW_MS + 1000 * after_s)
    assert memory.late_predecessor_writes == {}


def test_late_write_without_later_change_restores_the_found_rate() -> None:
    found = owned(14 * MB, 21 * MB, 14 * MB, 21 * MB)
    memory = narrow_to_current(Memory(owned={SOURCE: found}), live({SOURCE: 14 * MB}), NOW_MS, LIMITS)
    memory, _ = look(live({SOURCE: 21 * MB}), memory)
    (change,) = correct_late_writes(CALM, live({SOURCE: 21 * MB}), LOADS, memory, LIMITS)
    assert change.setpoint_bytes_per_s == 14 * MB


@pytest.mark.parametrize("loads", [{SOURCE: SideLoad(500 * MB, 13 * MB)}, {}])
def test_late_write_correction_needs_a_rate_that_drains(loads: dict[BrokerSide, SideLoad]) -> None:
    """The one before was on its way up from there."""
    assert correct_late_writes(CALM, live({SOURCE: 21 * MB}), loads, late_predecessor_write(), LIMITS) == []
