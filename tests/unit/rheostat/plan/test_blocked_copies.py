"""Copies of tiered partitions that cannot begin are named with their brokers, and with what to do."""

from __future__ import annotations

from rheostat.plan.blocked_copies import blocked_copy_texts

A, B, C = ("a", 0), ("a", 1), ("b", 0)
LEADERS = {A: 1, B: 1, C: 2}
BLOCKED = dict.fromkeys((A, B, C), frozenset({3, 4}))


def test_texts_name_each_leader_with_its_partitions() -> None:
    texts = blocked_copy_texts(BLOCKED, {A: {3}, B: {4}, C: {3}}, LEADERS)
    assert texts[0].startswith("a-0, a-1: broker 3, 4 cannot begin to copy from broker 1, because follower.fetch.last.")
    assert texts[1].endswith("on the leader: upgrade broker 2, or remove this setting from broker 3")
    assert len(texts) == 2


def test_no_text_without_a_new_replica_on_such_a_broker() -> None:
    assert blocked_copy_texts(BLOCKED, {A: {1}, B: set()}, LEADERS) == []
