"""The invariant checker accepts a correct run and names each kind of violation."""

from __future__ import annotations

import invariants
from invariants import OperatorActions
from reading import Record
from watcher import Look

from streaming.shared.contract import Side
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.journal.entries import encode_holder, encode_memory, encode_owned, holder_key, memory_key, owned_key

CLUSTER = "lab"
SIDE = (1, Side.LEADER)
STOOD, OURS, HIGHER, KIMS = 300_000, 600_000, 900_000, 1_200_001
FLOOR, CEILING = 200_000, 1_500_000
NOBODY = OperatorActions(stood={STOOD})


def look(at_s: float, rate: int | None, *, listed: bool = True, moving: bool = True) -> Look:
    sides = frozenset(Side) if listed else frozenset()
    return Look(at_s, round(at_s * 1000), {SIDE: rate}, sides, moving)


def test_setting_differences_name_left_and_lost_settings() -> None:
    before = {("broker", "1"): {"log.cleaner.threads": "2"}, ("topic", "orders"): {}}
    assert invariants.setting_differences(before, before) == []
    assert invariants.setting_differences(before, {**before, ("broker", "1"): {}}) == [
        "broker 1: log.cleaner.threads was 2, now it is None"
    ]
    now = {**before, ("topic", "orders"): {"leader.replication.throttled.replicas": ""}}
    assert invariants.setting_differences(before, now) == [
        "topic orders: leader.replication.throttled.replicas was None, now it is "
    ]


def test_overwritten_operator_rates_are_reported() -> None:
    people = OperatorActions(stood={KIMS}, final={SIDE: (2.0, KIMS)})
    stands = [look(1, OURS), look(3, KIMS), look(4, KIMS)]
    assert invariants.overwritten_operator_rates(stands, people) == []
    assert "later ['600000'] stood there" in invariants.overwritten_operator_rates([*stands, look(5, OURS)], people)[0]
    assert "was never seen" in invariants.overwritten_operator_rates([look(1, OURS), look(3, OURS)], people)[0]


def test_rates_outside_limits_are_reported_except_operators() -> None:
    people = OperatorActions(stood={STOOD, 9_000_000})
    assert (
        invariants.rates_outside_limits([look(1, STOOD), look(2, OURS), look(3, 9_000_000)], people, FLOOR, CEILING)
        == []
    )
    assert "1500001 stood there" in invariants.rates_outside_limits([look(1, 1_500_001)], people, FLOOR, CEILING)[0]
    assert "199999 stood there" in invariants.rates_outside_limits([look(1, 199_999)], people, FLOOR, CEILING)[0]


def test_throttle_removed_before_its_list_is_reported() -> None:
    gone = [look(1, OURS), look(2, None)]
    assert "unlimited" in invariants.rates_outside_limits(gone, NOBODY, FLOOR, CEILING)[0]
    assert invariants.rates_outside_limits(gone, OperatorActions(stood={STOOD}, removed={SIDE}), FLOOR, CEILING) == []
    assert invariants.rates_outside_limits([look(1, OURS), look(2, None, listed=False)], NOBODY, FLOOR, CEILING) == []
    assert invariants.rates_outside_limits([look(1, None), look(2, OURS)], NOBODY, FLOOR, CEILING) == [], (
        "before its throttle was set"
    )


def test_only_newest_lease_holder_acts() -> None:
    def line(at_s: float, pid: int, **what: str) -> dict[str, object]:
        return {"at_s": at_s, "pid": pid, **what}

    def held(*pids: int) -> list[Record]:
        return [Record(i, holder_key(CLUSTER), encode_holder(f"host:{pid}")) for i, pid in enumerate(pids)]

    first = [line(1, 7, done="commit holder"), line(2, 7, step="alter broker configs sets")]
    second = [line(3, 8, done="commit holder"), line(4, 8, step="alter broker configs sets")]
    assert invariants.writes_without_lease([*second, *first], held(7, 7, 8), CLUSTER) == []
    late = line(5, 7, step="alter broker configs sets")
    assert "process 7 did" in invariants.writes_without_lease([*first, *second, late], held(7, 8), CLUSTER)[0]
    assert "held by [7, 8, 7]" in invariants.writes_without_lease([*first, *second], held(7, 8, 7), CLUSTER)[0]


def test_raises_with_stale_signals_are_reported() -> None:
    looks = [look(1, STOOD), look(5, OURS), look(15, OURS), look(20, STOOD), look(31, HIGHER)]
    assert invariants.raises_with_stale_signals(looks, [(2.0, 30.0)], age_s_max=10) == []
    assert (
        "from 600000 to 900000"
        in invariants.raises_with_stale_signals([*looks[:3], look(21, HIGHER)], [(2.0, 30.0)], age_s_max=10)[0]
    )
    assert (
        "from 600000 to None"
        in invariants.raises_with_stale_signals([*looks[:3], look(21, None)], [(2.0, 30.0)], age_s_max=10)[0]
    )


def test_rates_without_earlier_record_are_reported() -> None:
    whole = Record(500, memory_key(CLUSTER), encode_memory(Memory(owned={SIDE: OwnedRate(STOOD, OURS, (STOOD, OURS))})))
    newer = Record(1_500, owned_key(CLUSTER, SIDE), encode_owned(SIDE, OwnedRate(STOOD, HIGHER, (OURS, HIGHER))))
    looks = [look(0.1, STOOD), look(1, OURS), look(2, HIGHER)]
    assert invariants.rates_without_record(looks, [whole, newer], CLUSTER, NOBODY) == []
    assert (
        "900000 stood there, and went on record never"
        in invariants.rates_without_record(looks, [whole], CLUSTER, NOBODY)[0]
    )
    early = [look(0.1, STOOD), look(1, OURS), look(1.4, HIGHER)]
    assert "100 ms later" in invariants.rates_without_record(early, [whole, newer], CLUSTER, NOBODY)[0]
