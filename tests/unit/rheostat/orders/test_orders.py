"""Operator orders in the throttle loop: pause, resume, release, override, their records and their commands."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loop_rig import Rig, raised
from test_steering_tick import seconds, steered
from tuner_cases import NOW_MS, OWN_LISTS, SOURCE, STALLED, TARGET, WELL, F, L

from rheostat.orders import send as commands
from streaming.shared.contract import Side
from streaming.shared.contract.bounds import TIMESTAMP_MS_MAX
from tuner.api.orders_api import override_rates
from tuner.control.throttle.decision import Hold, Reason, RestoreRate, SetRate
from tuner.control.throttle.state import Memory
from tuner.core.operator_orders import Orders, Override, Pause
from tuner.core.throttle_limits import MB
from tuner.journal.order_records import decode_orders, encode_orders

PAUSED = Orders(at_ms=NOW_MS, pause=Pause(NOW_MS, "kim@desk"))
RELEASED = Orders(at_ms=NOW_MS, pause=Pause(NOW_MS, "kim@desk", released=True))


def overridden(rate: int, until_ms: int = NOW_MS + 60_000) -> Orders:
    return Orders(at_ms=NOW_MS, overrides={SOURCE: Override(rate, until_ms, "kim@desk")})


# -- pause and resume --------------------------------------------------------------------------------------------------


def test_paused_tuner_starts_no_change() -> None:
    rig = Rig()  # Stalled: without the order it would be raised.
    rig.orders.latest = PAUSED
    [decision] = rig.loop.cycle()
    assert isinstance(decision, Hold)
    assert decision.reason is Reason.PAUSED
    assert decision.text == ("paused by kim@desk: nothing is changed until `rheostat resume`")
    rig.run_ramps()
    assert rig.writes() == []
    assert rig.loop.memory.orders_at_ms == NOW_MS
    assert rig.journal.memories[-1].orders_at_ms == NOW_MS


def test_pause_stops_a_ramp_and_keeps_the_throttle_managed() -> None:
    rig = Rig()
    rig.cycle()
    rig.loop.tick()
    stands = dict(rig.throttles.rates)
    rig.orders.latest = PAUSED
    rig.cycle()
    assert rig.loop.next_due_s() is None
    rig.run_ramps()
    assert rig.throttles.rates == stands
    assert set(rig.loop.memory.owned) == {SOURCE, TARGET}
    told = {failure for _, failure in rig.observer.acts}
    assert told == {"interrupted: paused by kim@desk: nothing is changed until `rheostat resume`"}


def test_pause_stops_steering() -> None:
    rig = steered()
    rig.cycle()
    seconds(rig, 2)
    rig.orders.latest = PAUSED
    rig.cycle()
    stands = dict(rig.throttles.rates)
    seconds(rig, 5)
    assert rig.throttles.rates == stands


def test_ended_move_keeps_its_throttle_until_resume() -> None:
    rig = raised()
    rig.orders.latest = PAUSED
    rig.live.moves = ()
    for _ in range(4):
        rig.cycle()
    assert rig.throttles.rates == {SOURCE: 50 * MB, TARGET: 50 * MB}
    rig.orders.latest = Orders(at_ms=NOW_MS + 1, resumed_at_ms=NOW_MS + 1)
    for _ in range(4):
        rig.cycle()
    assert rig.throttles.rates == {}
    assert rig.loop.memory.owned == {}


def test_resume_ends_the_hold_of_an_earlier_external_change() -> None:
    until_ms = NOW_MS + 3_600_000
    rig = Rig(Memory(stalls={3: STALLED}, externally_owned_until_ms={SOURCE: until_ms}))
    assert rig.cycle()[0] is Reason.EXTERNALLY_OWNED
    rig.orders.latest = Orders(at_ms=NOW_MS + 1, resumed_at_ms=NOW_MS + 1)
    assert rig.cycle()[0] is Reason.RESCUE_NEEDS_MORE  # The other side was raised meanwhile.


def test_resume_does_not_end_a_hold_that_began_after_it() -> None:
    rig = Rig(Memory(stalls={3: WELL}, externally_owned_until_ms={SOURCE: NOW_MS + 3_600_000}))
    rig.orders.latest = Orders(at_ms=NOW_MS - 1, resumed_at_ms=NOW_MS - 1)
    assert rig.cycle()[0] is Reason.EXTERNALLY_OWNED


# -- release -----------------------------------------------------------------------------------------------------------


def test_release_restores_managed_throttles_only() -> None:
    rig = raised()
    rig.throttles.rates[(2, L)] = 9 * MB  # Externally owned.
    rig.orders.latest = RELEASED
    decisions = rig.loop.cycle()
    assert [type(d) for d in decisions] == [RestoreRate, RestoreRate, Hold]
    assert decisions[0].text == (
        "broker 1 leader throttle 50.0 MB/s → 10.0 MB/s: released by kim@desk; 10.0 MB/s was set before"
    )
    assert rig.throttles.rates == {SOURCE: 10 * MB, TARGET: 10 * MB, (2, L): 9 * MB}
    assert rig.throttles.lists["orders"] == OWN_LISTS["orders"]
    assert rig.loop.memory.owned == {}
    rig.events.clear()
    assert rig.cycle() == [Reason.RELEASED]
    assert rig.writes() == []


def test_release_during_a_ramp_restores_the_rate() -> None:
    rig = Rig()
    rig.cycle()
    rig.loop.tick()
    rig.orders.latest = RELEASED
    rig.cycle()
    rig.run_ramps()
    assert rig.throttles.rates == {SOURCE: 10 * MB, TARGET: 10 * MB}
    assert rig.loop.memory.owned == {}


def test_release_restores_steered_rates() -> None:
    rig = steered()
    rig.cycle()
    seconds(rig, 3)
    rig.orders.latest = RELEASED
    rig.cycle()
    assert rig.throttles.rates == {SOURCE: 10 * MB, TARGET: 10 * MB}
    seconds(rig, 3)
    assert rig.throttles.rates == {SOURCE: 10 * MB, TARGET: 10 * MB}


def test_release_names_unreachable_brokers_and_restores_them_later() -> None:
    rig = raised()
    rig.orders.latest = RELEASED
    rig.throttles.brokers.discard(3)
    decisions = rig.loop.cycle()
    assert decisions[-1].text.endswith(
        "not restored yet, because the brokers cannot be reached: broker 3 follower throttle"
    )
    assert set(rig.loop.memory.owned) == {TARGET}
    rig.throttles.brokers.add(3)
    rig.cycle()
    assert rig.throttles.rates == {SOURCE: 10 * MB, TARGET: 10 * MB}


# -- override ----------------------------------------------------------------------------------------------------------


def test_override_is_ramped_and_held() -> None:
    rig = Rig(Memory(stalls={3: WELL}))
    rig.orders.latest = overridden(30 * MB)
    first, second = rig.loop.cycle()
    assert isinstance(first, SetRate)
    assert first.reason is Reason.OVERRIDDEN
    assert second.reason is Reason.PROGRESSING
    rig.run_ramps()
    assert rig.throttles.rates == {SOURCE: 30 * MB, TARGET: 10 * MB}
    [held, _] = rig.loop.cycle()
    assert isinstance(held, Hold)
    assert held.text == ("broker 1 leader throttle: 30.0 MB/s by order of kim@desk")


def test_override_is_reached_without_signals() -> None:
    rig = Rig(Memory(stalls={3: WELL}))
    rig.signals.brokers, rig.signals.moves = {}, {}
    rig.orders.latest = overridden(30 * MB)
    rig.loop.cycle()
    rig.loop.tick()
    [held, _] = rig.loop.cycle()
    assert held.text == "broker 1 leader throttle: 30.0 MB/s by order of kim@desk, in steps over the quota window"
    rig.run_ramps()
    assert rig.throttles.rates == {SOURCE: 30 * MB, TARGET: 10 * MB}


def test_override_stops_another_ramp_without_signals() -> None:
    rig = Rig()
    rig.cycle()  # A rescue begins.
    rig.loop.tick()
    rig.signals.brokers, rig.signals.moves = {}, {}
    rig.orders.latest = overridden(30 * MB)
    assert rig.cycle() == [Reason.SIGNALS_MISSING] * 2
    assert rig.loop.next_due_s() is None
    assert rig.cycle()[0] is Reason.OVERRIDDEN


def test_override_has_precedence_over_rescue_and_steering() -> None:
    rig = Rig()
    rig.orders.latest = overridden(10 * MB)
    assert rig.cycle() == [Reason.OVERRIDDEN, Reason.STALLED_THROTTLE_BOUND]
    law = steered()
    law.orders.latest = overridden(10 * MB)
    assert law.cycle() == [Reason.OVERRIDDEN, Reason.FOLLOWS_CLIENTS]
    seconds(law, 5)
    assert law.throttles.rates[SOURCE] == 10 * MB


@pytest.mark.parametrize("rate", [0, -5, -(10**15), 10**15])
@pytest.mark.parametrize("steers", [False, True])
def test_override_out_of_range_is_clipped(rate: int, steers: bool) -> None:
    """Only the commands check a rate; a record in the topic may have any value."""
    rig = steered() if steers else Rig(Memory(stalls={3: WELL}))
    rig.orders.latest = overridden(rate, NOW_MS + 3_600_000)
    for _ in range(4):
        rig.cycle()
        for _ in range(60):
            seconds(rig, 1)
    ceiling = round(rig.limits.rate_bytes_per_s_max)
    assert all(1 <= stood <= ceiling for stood in rig.throttles.rates.values())
    assert rig.throttles.rates[SOURCE] == (ceiling if rate > 0 else 1)


def test_expired_override_changes_nothing() -> None:
    rig = Rig(Memory(stalls={3: WELL}))
    rig.orders.latest = overridden(30 * MB, until_ms=NOW_MS)
    assert rig.cycle() == [Reason.PROGRESSING] * 2


def test_override_manages_an_externally_changed_throttle_again() -> None:
    rig = Rig(Memory(stalls={3: WELL}, externally_owned_until_ms={SOURCE: NOW_MS + 3_600_000}))
    rig.orders.latest = overridden(30 * MB)
    assert rig.cycle()[0] is Reason.OVERRIDDEN
    assert rig.loop.memory.externally_owned_until_ms == {}


def test_external_change_ends_an_override() -> None:
    """The override stays ended, also for the next tuner, until the operator gives a new order."""
    rig = Rig(Memory(stalls={3: WELL}))
    rig.orders.latest = overridden(30 * MB)
    rig.cycle()
    rig.run_ramps()
    assert rig.throttles.rates[SOURCE] == 30 * MB
    rig.throttles.rates[SOURCE] = 1 * MB
    assert rig.cycle().count(Reason.EXTERNAL_CHANGE) == 1
    for _ in range(3):
        rig.run_ramps()
        assert Reason.EXTERNALLY_OWNED in rig.cycle()
        rig.die_and_start_again()
    assert rig.throttles.rates[SOURCE] == 1 * MB
    ((side, again),) = rig.orders.latest.overrides.items()
    rig.orders.latest = replace(rig.orders.latest, overrides={side: replace(again, by="kim, again")})
    assert Reason.OVERRIDDEN in rig.cycle()
    rig.run_ramps()
    assert rig.throttles.rates[SOURCE] == 30 * MB


@pytest.mark.parametrize("away", ["same look", "no tuner ran"])
def test_order_has_precedence_over_a_simultaneous_external_change(away: str) -> None:
    rig = raised()
    rig.cycle()
    if away == "no tuner ran":
        rig.die_and_start_again()
    rig.throttles.rates[SOURCE] = 1 * MB
    rig.orders.latest = overridden(30 * MB)
    reasons = rig.cycle()
    assert Reason.EXTERNAL_CHANGE in reasons
    assert Reason.OVERRIDDEN in reasons
    rig.run_ramps()
    rig.cycle()
    assert rig.throttles.rates[SOURCE] == 30 * MB


@pytest.mark.parametrize("resumes", [True, False])
def test_order_given_while_the_cluster_is_unreadable_is_applied(resumes: bool) -> None:
    rig = raised()
    rig.throttles.rates[SOURCE] = 1 * MB
    rig.cycle()
    assert Reason.EXTERNALLY_OWNED in rig.cycle()
    rig.live.not_seen = "it does not answer"
    rig.orders.latest = Orders(NOW_MS, resumed_at_ms=NOW_MS, by="kim") if resumes else overridden(30 * MB)
    assert rig.cycle() == [Reason.CLUSTER_NOT_SEEN]
    assert rig.loop.memory.orders_at_ms < NOW_MS, "nothing is done about it yet"
    rig.live.not_seen = None
    assert Reason.EXTERNALLY_OWNED not in rig.cycle()
    assert rig.loop.memory.orders_at_ms == NOW_MS


@pytest.mark.parametrize("off_ms", [-120_000, 0, 120_000])
def test_resume_ends_existing_holds_and_no_later_ones(off_ms: int) -> None:
    """The operator's clock may differ by minutes."""
    rig = raised()
    rig.throttles.rates[SOURCE] = 1 * MB
    assert Reason.EXTERNAL_CHANGE in rig.cycle()
    assert Reason.EXTERNALLY_OWNED in rig.cycle()
    rig.orders.latest = Orders(NOW_MS + off_ms, resumed_at_ms=NOW_MS + off_ms, by="kim")
    assert Reason.EXTERNALLY_OWNED not in rig.cycle()
    rig.throttles.rates[TARGET] = 2 * MB
    assert Reason.EXTERNAL_CHANGE in rig.cycle()
    assert Reason.EXTERNALLY_OWNED in rig.cycle()


def test_override_sets_no_throttle_where_none_was() -> None:
    rig = Rig(Memory(stalls={3: WELL}))
    del rig.throttles.rates[SOURCE]
    rig.orders.latest = overridden(30 * MB)
    decision = rig.loop.cycle()[0]
    assert isinstance(decision, Hold)
    assert decision.text.endswith("but no throttle is set here, and an override does not add one")


# -- records and commands ----------------------------------------------------------------------------------------------


@given(
    st.builds(
        Orders,
        at_ms=st.integers(0, TIMESTAMP_MS_MAX),
        pause=st.none() | st.builds(Pause, st.integers(0, TIMESTAMP_MS_MAX), st.text(max_size=20), st.booleans()),
        resumed_at_ms=st.integers(0, TIMESTAMP_MS_MAX),
        overrides=st.dictionaries(
            st.tuples(st.integers(0, 9999), st.sampled_from(list(Side))),
            st.builds(Override, st.integers(1, 2**50), st.integers(0, TIMESTAMP_MS_MAX), st.text(max_size=20)),
            max_size=5,
        ),
    )
)
def test_orders_survive_encoding_and_decoding(orders: Orders) -> None:
    assert decode_orders(encode_orders(orders)) == orders


@pytest.mark.parametrize(
    "value", [b"", b"7", b"null", b"{}", b'{"v": 9}', b'{"v": 3, "at_ms": 1, "pause": [1]}', b"[" * 100_000]
)
def test_decode_orders_refuses_other_records(value: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decode_orders(value)


@pytest.mark.parametrize("rate", ["Infinity", "1e999", "NaN", "0", "-5", "5.5", "9223372036854775808", '"5"', "null"])
def test_orders_with_an_impossible_rate_are_refused(rate: str) -> None:
    value = encode_orders(overridden(4711)).replace(b"4711", rate.encode())
    with pytest.raises(ValueError, match="not a record of this version"):
        decode_orders(value)


def test_order_records_operator_and_time() -> None:
    assert commands.pause(Orders(), NOW_MS).pause.by.endswith(", 2023-11-14 22:13:20 UTC")  # type: ignore[union-attr]
    given = commands.override({SOURCE: 5 * MB}, 60.0)(Orders(), NOW_MS)
    assert given.overrides[SOURCE].by.endswith(", 2023-11-14 22:13:20 UTC, until 2023-11-14 22:14:20 UTC")


def test_commands_change_only_their_own_part() -> None:
    begun = overridden(30 * MB)
    assert commands.pause(begun, NOW_MS).overrides == begun.overrides
    resumed = commands.resume(commands.pause(begun, NOW_MS), NOW_MS + 5)
    assert replace(resumed, by="") == replace(begun, resumed_at_ms=NOW_MS + 5)
    assert resumed.by.endswith(", 2023-11-14 22:13:20 UTC")
    assert commands.release(begun, NOW_MS).overrides == {}
    both = commands.override(override_rates(3, None, 5 * MB), 60.0)(begun, NOW_MS)
    assert both.overrides.keys() == {SOURCE, (3, L), (3, F)}
    assert both.overrides[(3, F)].until_ms == NOW_MS + 60_000
    assert commands.end_override(3)(both, NOW_MS).overrides == begun.overrides
    assert commands.end_override(3, L)(both, NOW_MS).overrides.keys() == {SOURCE, (3, F)}
    assert commands.override({(3, L): 1}, 1.0)(begun, NOW_MS + 60_001).overrides.keys() == {
        (3, L)
    }  # The old one has expired.


# -- what is on record of it --------------------------------------------------------------------------------------------


def texts(rig: Rig) -> list[str]:
    return [entry.text for entry in rig.journal.entries if entry.action == "ordered"]


def test_orders_and_their_ends_are_recorded_with_the_operator() -> None:
    """The orders topic keeps only the newest record; the journal has each."""
    rig = Rig()
    rig.cycle()
    rig.orders.latest = replace(PAUSED, by="kim@desk")
    rig.cycle()
    rig.cycle()
    rig.orders.latest = Orders(at_ms=NOW_MS + 1, resumed_at_ms=NOW_MS + 1, by="lee@home")
    rig.cycle()
    rig.orders.latest = replace(overridden(7 * MB), by="kim@desk", resumed_at_ms=NOW_MS + 1)
    rig.cycle()
    rig.orders.latest = Orders(at_ms=NOW_MS + 3, resumed_at_ms=NOW_MS + 1, by="lee@home")
    rig.cycle()
    assert texts(rig) == [
        "rheostat is paused, by order of kim@desk",
        "rheostat resumes, by order of lee@home: the pause of kim@desk is over",
        "broker 1 leader throttle: 7.00 MB/s by order of kim@desk",
        "broker 1 leader throttle: the order of kim@desk for 7.00 MB/s is withdrawn, by order of lee@home",
    ]


KIMS_ORDER = "broker 1 leader throttle: 7.00 MB/s by order of kim@desk"


def test_override_that_expired_before_the_next_order_is_recorded() -> None:
    rig = Rig()
    rig.orders.latest = overridden(7 * MB)
    rig.cycle()
    rig.now_ms = NOW_MS + 60_001
    rig.orders.latest = Orders(at_ms=NOW_MS + 60_001, resumed_at_ms=NOW_MS + 60_001, by="lee@home")
    rig.cycle()
    assert texts(rig) == [
        KIMS_ORDER,
        "rheostat again manages the throttles that other tools had changed, by order of lee@home",
        "broker 1 leader throttle: the order of kim@desk for 7.00 MB/s has expired",
    ]


@pytest.mark.parametrize("not_seen", [None, "no broker answers"])
def test_order_without_a_tuner_is_recorded_once(
    not_seen: str | None,
) -> None:
    rig = Rig()
    rig.live.not_seen = not_seen
    rig.orders.latest = overridden(7 * MB)
    rig.cycle()
    assert texts(rig) == [KIMS_ORDER]
    both = replace(overridden(7 * MB), at_ms=NOW_MS + 2, pause=Pause(NOW_MS + 2, "lee@home"))
    for _ in range(2):
        rig.die_and_start_again()
        rig.orders.latest = both
        rig.cycle()
        rig.cycle()
        assert texts(rig) == [KIMS_ORDER, "rheostat is paused, by order of lee@home"]


@pytest.mark.parametrize("last_word", [None, "lee@home"])
def test_override_that_expired_without_a_tuner_is_recorded_once(last_word: str | None) -> None:
    rig = Rig()
    rig.orders.latest = overridden(7 * MB)
    rig.cycle()
    rig.die_and_start_again()
    rig.now_ms = NOW_MS + 60_001
    if last_word is not None:  # It leaves out expired orders.
        rig.orders.latest = Orders(at_ms=NOW_MS + 60_001, by=last_word)
    rig.cycle()
    rig.die_and_start_again()
    rig.cycle()
    assert texts(rig) == [
        KIMS_ORDER,
        "broker 1 leader throttle: the order of kim@desk for 7.00 MB/s has expired",
    ]


def test_superseded_order_without_a_tuner_is_recorded() -> None:
    rig = Rig()
    rig.cycle()
    rig.die_and_start_again()
    rig.orders.superseded = (replace(PAUSED, at_ms=NOW_MS + 1),)
    rig.orders.latest = Orders(at_ms=NOW_MS + 2, resumed_at_ms=NOW_MS + 2, by="lee@home")
    rig.cycle()
    assert texts(rig) == [
        "rheostat is paused, by order of kim@desk",
        "rheostat resumes, by order of lee@home: the pause of kim@desk is over",
    ]


def test_dry_run_records_orders_since_its_start() -> None:
    rig = Rig(dry_run=True)
    rig.orders.latest = overridden(7 * MB)
    rig.cycle()
    assert texts(rig) == []
    rig.orders.latest = replace(overridden(7 * MB), at_ms=NOW_MS + 2, pause=Pause(NOW_MS + 2, "lee@home"))
    rig.cycle()
    assert texts(rig) == ["rheostat is paused, by order of lee@home"]


def test_dry_run_does_not_record_earlier_expiries() -> None:
    """An earlier dry run may have recorded them already."""
    order = overridden(7 * MB)
    rig = Rig(Memory(recorded_orders=order, orders_recorded_until_ms=NOW_MS), dry_run=True)
    rig.orders.latest = order
    rig.now_ms = NOW_MS + 60_001
    rig.cycle()
    rig.cycle()
    assert texts(rig) == []


def test_superseded_order_is_recorded() -> None:
    rig = Rig()
    rig.cycle()
    rig.orders.superseded = (Orders(), replace(PAUSED, by="kim@desk"))
    rig.orders.latest = Orders(at_ms=NOW_MS + 1, resumed_at_ms=NOW_MS + 1, by="lee@home")
    rig.journal.refusing = True
    rig.cycle()
    rig.journal.refusing = False
    rig.cycle()
    rig.cycle()
    assert texts(rig) == [
        "rheostat is paused, by order of kim@desk",
        "rheostat resumes, by order of lee@home: the pause of kim@desk is over",
    ]
    assert rig.orders.superseded == ()


def test_expired_override_is_recorded_once_without_another_order() -> None:
    rig = Rig()
    rig.orders.latest = overridden(7 * MB)
    rig.cycle()
    rig.now_ms = NOW_MS + 60_001
    rig.cycle()
    rig.cycle()
    rig.now_ms += 60_000
    rig.orders.latest = Orders(at_ms=rig.now_ms, by="lee@home")  # A new order leaves out expired ones.
    rig.cycle()
    assert texts(rig) == [
        KIMS_ORDER,
        "broker 1 leader throttle: the order of kim@desk for 7.00 MB/s has expired",
    ]


def test_order_is_recorded_again_after_a_journal_failure() -> None:
    rig = Rig()
    rig.cycle()
    rig.journal.refusing = True
    rig.orders.latest = replace(RELEASED, by="kim@desk")
    rig.cycle()
    assert texts(rig) == []
    rig.journal.refusing = False
    rig.cycle()
    assert texts(rig) == ["rheostat releases all managed settings, by order of kim@desk"]
