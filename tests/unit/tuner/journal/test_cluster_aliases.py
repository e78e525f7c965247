"""Journal records of other names of the same cluster."""

from __future__ import annotations

from streaming.shared.contract import Side
from streaming.shared.contract.quotas import QuotaEntity
from streaming.shared.throttle_settings import ThrottledReplicas, TopicThrottle
from tuner.control.mutation_quota.state import OwnedQuota
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.core.reassignment_plan import PlanEnding, PlanHead, PlanPartition, PlanState, RequestedStep
from tuner.journal import quota_records
from tuner.journal.cluster_aliases import ClusterAliases
from tuner.journal.entries import (
    Entry,
    encode_entry,
    encode_holder,
    encode_memory,
    encode_owned,
    entry_key,
    holder_key,
    memory_key,
    owned_key,
)
from tuner.journal.list_records import encode_listed, listed_key
from tuner.journal.order_records import orders_key
from tuner.journal.plan_records import (
    encode_head,
    encode_parts,
    encode_requested,
    encode_state,
    head_key,
    part_key,
    requested_key,
    state_key,
)

ONE, TWO = (1, Side.LEADER), (2, Side.FOLLOWER)
RATE = OwnedRate(None, 5, (5,))


def found(*records: tuple[bytes, bytes | None]) -> ClusterAliases:
    names = ClusterAliases("new")
    for key, value in records:
        names.apply(key, value)
    return names


def memory(name: str, *sides: tuple[int, Side]) -> tuple[bytes, bytes]:
    return memory_key(name), encode_memory(Memory(owned=dict.fromkeys(sides, RATE)))


def test_cluster_aliases_single_name_has_none() -> None:
    names = found(memory("new", ONE), (holder_key("new"), encode_holder("us")))
    assert (names.names, names.holdings_by_name()) == ((), {})


def test_cluster_aliases_counts_records_of_another_name() -> None:
    alice = QuotaEntity("alice", None)
    pairs = TopicThrottle(ThrottledReplicas.parse("0:1"), ThrottledReplicas.parse("0:2"))
    names = found(
        memory("old", ONE),
        (owned_key("old", TWO), encode_owned(TWO, RATE)),
        (listed_key("old", "t"), encode_listed("t", pairs)),
        (quota_records.owned_key("old", alice), quota_records.encode_owned(alice, OwnedQuota(None, 5.0, (5.0,)))),
        memory("new", ONE),
    )
    assert names.holdings_by_name() == {"old": "2 throttles, 1 topic's throttled replicas, 1 mutation quota"}


def test_cluster_aliases_cleared_name_is_known_and_holds_nothing() -> None:
    alice = QuotaEntity("alice", None)
    key = quota_records.owned_key("old", alice)
    names = found(
        memory("old", ONE),
        (key, quota_records.encode_owned(alice, OwnedQuota(None, 5.0, (5.0,)))),
        (key, None),
        memory("old"),
    )
    assert (names.names, names.holdings_by_name()) == (("old",), {})


def test_cluster_aliases_unreadable_record_counts_as_managed() -> None:
    names = found((memory_key("old"), b'{"v": 9}'))
    assert list(names.holdings_by_name()) == ["old"]
    assert "cannot read" in names.holdings_by_name()["old"]


def test_cluster_aliases_newer_readable_record_replaces_unreadable() -> None:
    key, nothing = memory("old")
    assert found((key, b'{"v": 9}'), (key, nothing)).holdings_by_name() == {}
    assert found((orders_key("old"), b'{"v": 9}')).holdings_by_name() == {}, "orders hold nothing"


def test_cluster_aliases_brokers_to_clear_count() -> None:
    names = found((memory_key("old"), encode_memory(Memory(brokers_to_clear=frozenset({3})))))
    assert names.holdings_by_name() == {"old": "1 broker to be cleared"}
    assert names.holdings_by_name({3}) == {"old": "1 broker to be cleared"}


def test_cluster_aliases_removed_broker_does_not_count() -> None:
    names = found(memory("old", ONE, TWO), (memory_key("gone"), encode_memory(Memory(brokers_to_clear=frozenset({3})))))
    assert names.holdings_by_name({1, 4}) == {"old": "1 throttle"}
    assert names.holdings_by_name(()) == {}


def test_cluster_aliases_plan_counts_until_its_end() -> None:
    part = ("t", 0)
    given = [
        (part_key("old", "p", 0), encode_parts({part: PlanPartition((3, 4), (1, 2))})),
        (head_key("old", "p"), encode_head(PlanHead("p", "kim@desk", 1, 1, 1))),
    ]
    asked = (requested_key("old", "p", 0), encode_requested({part: RequestedStep((3, 4), (1, 2))}))
    ended = (state_key("old", "p"), encode_state(PlanState(ending=PlanEnding.DONE)))
    assert found(*given).holdings_by_name() == {}, "no tuner has asked anything of it"
    assert found(*given, asked).holdings_by_name() == {"old": "1 plan under way"}
    assert found(*given, asked, ended).holdings_by_name() == {}
    assert found((b"plan|old|p", b'{"v": 9}')).holdings_by_name() == {"old": "1 plan of another version"}


def test_cluster_aliases_entries_and_unknown_keys_are_ignored() -> None:
    entry = Entry(1, "decision", "hold", "why", "text")
    names = found(
        (entry_key("entry", "old", 1), encode_entry(entry)), (b"", b"x"), (b"\xff\xfe", b"x"), (b"memory|", b"x")
    )
    assert names.names == ()
