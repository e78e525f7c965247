"""A mapping that knows its difference to the previous one, and its journal records."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tuner.control.throttle.incremental.delta_mapping import DeltaMapping, added_since
from tuner.journal.codec import Piece, apply_piece, diff_field
from tuner.journal.moving_replicas_records import MovingReplicasByTopic

A, B, C = frozenset({1, 2}), frozenset({3}), frozenset({1, 2, 4})


def test_added_since_its_base_is_known() -> None:
    first = DeltaMapping({("orders", 0): A}, {("orders", 1): B})
    second = DeltaMapping(first, {("pay", 0): B, ("orders", 0): C})
    assert second == {("orders", 0): C, ("orders", 1): B, ("pay", 0): B}
    assert added_since(first, second) == {("pay", 0): B, ("orders", 0): C}


def test_added_since_another_mapping_is_unknown() -> None:
    first = DeltaMapping({}, {("orders", 0): A})
    second = DeltaMapping(first, {("orders", 1): B})
    third = DeltaMapping(second, {("orders", 2): B})
    assert added_since(first, third) is None
    assert added_since({}, first) is None
    assert added_since(dict(first), second) is None
    assert added_since(second, first) is None
    assert added_since(first, dict(second)) is None


def test_input_piece_holds_the_added_items() -> None:
    before = DeltaMapping({}, {("orders", 0): A})
    after = DeltaMapping(before, {("orders", 1): B})
    assert list(diff_field("memory.moving_replicas", before, after)) == [
        Piece("memory.moving_replicas", "put", {("orders", 1): B})
    ]


keys = st.tuples(st.sampled_from(["orders", "pay"]), st.integers(0, 3))
brokers = st.frozensets(st.integers(1, 4), min_size=1)


@given(st.lists(st.tuples(st.dictionaries(keys, brokers, min_size=1), st.booleans()), max_size=5))
def test_delta_inputs_and_topics_equal_a_full_comparison(
    steps: list[tuple[dict[tuple[str, int], frozenset[int]], bool]],
) -> None:
    by_topic, before = MovingReplicasByTopic(), DeltaMapping({}, {})
    known = {"memory.moving_replicas": dict(before)}
    for more, forgets in steps:
        after = DeltaMapping(
            {} if forgets else before, {k: v for k, v in more.items() if forgets or before.get(k) != v}
        )
        for piece in diff_field("memory.moving_replicas", before, after):
            apply_piece(known, piece)
        assert list(known["memory.moving_replicas"].items()) == list(after.items()) or forgets
        assert known["memory.moving_replicas"] == after
        joined = {topic for (topic, partition), found in after.items() if before.get((topic, partition)) is not found}
        assert by_topic.grown_topics(before, after) == {
            topic: {p: found for (t, p), found in after.items() if t == topic} for topic in joined
        }
        known["memory.moving_replicas"] = before = after


def test_records_of_other_writers_are_kept() -> None:
    by_topic = MovingReplicasByTopic()
    first = DeltaMapping({}, {("orders", 0): A})
    by_topic.grown_topics({}, first)
    # A memory that was written whole went on record without it.
    later = DeltaMapping({}, {("orders", 7): B, ("pay", 0): B})
    more = DeltaMapping(later, {("orders", 8): B})
    assert by_topic.grown_topics(later, more) == {"orders": {7: B, 8: B}}
