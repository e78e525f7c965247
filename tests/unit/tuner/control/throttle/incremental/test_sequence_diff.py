"""The difference of two long sequences equals that of sets."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.control.throttle.incremental import sequence_diff as came_and_went_module
from tuner.control.throttle.incremental.sequence_diff import _STRETCH, diff_sequences


class Thing:
    """One like another, and none the same."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Thing)

    def __hash__(self) -> int:
        return 0


def by_sets(before: list[Thing], now: list[Thing]) -> tuple[list[Thing], list[Thing]]:
    old, new = set(map(id, before)), set(map(id, now))
    return [each for each in now if id(each) not in old], [each for each in before if id(each) not in new]


def check(before: list[Thing], now: list[Thing]) -> None:
    found, told = diff_sequences(before, now), by_sets(before, now)
    assert [list(map(id, each)) for each in found] == [list(map(id, each)) for each in told]


def test_equal_but_not_identical_items_differ() -> None:
    one, other = Thing(), Thing()
    assert one == other
    check([one], [other])


def test_identical_sequences_do_not_differ() -> None:
    things = [Thing() for _ in range(3 * _STRETCH + 7)]
    assert diff_sequences(things, [*things]) == ([], [])


def test_added_and_removed_items_keep_their_order() -> None:
    things = [Thing() for _ in range(5 * _STRETCH)]
    check(things[: 4 * _STRETCH], things[200:])
    check(things[2 * _STRETCH :], things)
    check(things, things[: -_STRETCH - 1])


def test_items_after_long_gap_are_not_compared_with_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where more moves of one topic end at once than are laid side by side at first: the rest is passed over."""
    things = [Thing() for _ in range(60 * _STRETCH)]
    asked = 0

    def counted(thing: object) -> int:
        nonlocal asked
        asked += 1
        return id(thing)

    monkeypatch.setattr(came_and_went_module, "id", counted, raising=False)
    gone = things[: 3 * _STRETCH] + things[5 * _STRETCH :]
    came, went = diff_sequences(things, gone)
    assert (came, len(went)) == ([], 2 * _STRETCH)
    assert asked < 20 * _STRETCH


def test_reordered_items_are_neither_added_nor_removed() -> None:
    things = [Thing() for _ in range(4 * _STRETCH)]
    assert diff_sequences(things, things[::-1]) == ([], [])
    assert diff_sequences(things, [*things[_STRETCH + 1 :], *things[: _STRETCH + 1]]) == ([], [])


@given(st.integers(0, 2**32), st.integers(0, 3 * _STRETCH), st.sampled_from([0, 1, 30, 300, 3000]))
def test_sequence_diff_equals_difference_of_sets(seed: int, length: int, others: int) -> None:
    random = Random(seed)
    before = [Thing() for _ in range(length)]
    now = [each for each in before if random.randrange(1000) >= others]
    for _ in range(random.randrange(others + 1)):
        now.insert(random.randrange(len(now) + 1), Thing())
    if seed % 3 == 0:
        now[: len(now) // 2] = random.sample(now[: len(now) // 2], len(now) // 2)
    check(before, now)
