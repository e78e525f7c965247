"""The order of what moves: in danger first, then the topics that the operator names, then by bytes."""

from __future__ import annotations

import pytest

from streaming.shared.move_order import IsrStanding, goes_first, move_class, order_text, topic_rank

FIRST = ("orders", "payments-*")


@pytest.mark.parametrize(
    ("in_sync", "replicas", "minimum", "expected"),
    [
        (1, 3, 2, IsrStanding.BELOW),
        (2, 3, 2, IsrStanding.AT),
        (2, 3, 1, IsrStanding.ABOVE),
        (2, 2, 2, IsrStanding.ABOVE),  # It has lost no replica.
        (2, 3, None, IsrStanding.BELOW),
    ],
)
def test_move_class_compares_lost_replicas_with_minimum(
    in_sync: int, replicas: int, minimum: int | None, expected: IsrStanding
) -> None:
    assert move_class("t", in_sync, replicas, minimum)[0] is expected


def test_topic_rank_follows_the_list_of_the_operator() -> None:
    assert [topic_rank(t, FIRST) for t in ("orders", "payments-eu", "orders-eu")] == [0, 1, 2]


def test_danger_precedes_named_topics_and_those_all_others() -> None:
    classes = [move_class("t", 2, 3, 2, FIRST), move_class("orders", 3, 3, 2, FIRST), move_class("t", 3, 3, 2, FIRST)]
    assert classes == sorted(classes)
    assert [goes_first(key, FIRST) for key in classes] == [True, True, False]


def test_order_text_names_the_topics() -> None:
    assert "then partitions of orders, payments-* (tuner.first_topics), then by bytes." in order_text(FIRST)
    assert order_text(()).endswith("first, then by bytes.")
