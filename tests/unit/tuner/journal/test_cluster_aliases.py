"""What is found in the journal under other names of the cluster."""

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
        names.take(key, value)
    return names


def memory(name: str, *sides: tuple[int, Side]) -> tuple[bytes, bytes]:
    return memory_key(name), encode_memory(Memory(owned=dict.fromkeys(sides, RATE)))


def test_a_journal_of_one_name_has_no_other() -> None:
    names = found(memory("new", ONE), (holder_key("new"), encode_holder("us")))
    assert (names.names, names.holdings_by_name()) == ((), {})


def test_what_another_name_has_on_record_is_counted_and_told() -> None:
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


def test_a_name_of_which_nothing_stands_any_more_holds_nothing_but_is_known() -> None:
    alice = QuotaEntity("alice", None)
    key = quota_records.owned_key("old", alice)
    names = found(
        memory("old", ONE),
        (key, quota_records.encode_owned(alice, OwnedQuota(None, 5.0, (5.0,)))),
        (key, None),
        memory("old"),
    )
    assert (names.names, names.holdings_by_name()) == (("old",), {})


def test_what_cannot_be_read_may_be_anything() -> None:
    names = found((memory_key("old"), b'{"v": 9}'))
    assert list(names.holdings_by_name()) == ["old"]
    assert "cannot read" in names.holdings_by_name()["old"]


def test_what_can_be_read_again_is_what_holds() -> None:
    key, nothing = memory("old")
    assert found((key, b'{"v": 9}'), (key, nothing)).holdings_by_name() == {}
    assert found((orders_key("old"), b'{"v": 9}')).holdings_by_name() == {}, "orders hold nothing"


def test_brokers_that_were_away_at_a_moves_end_are_still_to_be_cleared() -> None:
    names = found((memory_key("old"), encode_memory(Memory(brokers_to_clear=frozenset({3})))))
    assert names.holdings_by_name() == {"old": "1 broker to be cleared"}
    assert names.holdings_by_name({3}) == {"old": "1 broker to be cleared"}


def test_what_stands_on_a_broker_that_is_gone_hinders_nobody() -> None:
    names = found(memory("old", ONE, TWO), (memory_key("gone"), encode_memory(Memory(brokers_to_clear=frozenset({3})))))
    assert names.holdings_by_name({1, 4}) == {"old": "1 throttle"}
    assert names.holdings_by_name(()) == {}


def test_a_plan_counts_from_its_first_step_to_its_end() -> None:
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


def test_entries_and_strange_keys_are_no_names() -> None:
    entry = Entry(1, "decision", "hold", "why", "text")
    names = found(
        (entry_key("entry", "old", 1), encode_entry(entry)), (b"", b"x"), (b"\xff\xfe", b"x"), (b"memory|", b"x")
    )
    assert names.names == ()
