"""Long lists in sentences and on terminals: at the bound, above it, and with what is left named."""

from __future__ import annotations

import pytest

from streaming.shared.short_lists import join_names, more_text, shorten_lines
from tuner.core.formatting import brokers

NAMES = ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("most", "commas", "semicolons"),
    [
        (5, "a, b, c, d", "a; b; c; d"),
        (4, "a, b, c, d", "a; b; c; d"),
        (3, "a, b, c and 1 more", "a; b; c; and 1 more"),
    ],
)
def test_join_names_shows_first_names_and_counts_rest(most: int, commas: str, semicolons: str) -> None:
    assert (join_names(NAMES, most), join_names(NAMES, most, separator="; ")) == (commas, semicolons)


def test_join_names_accepts_any_values_and_noun() -> None:
    assert join_names((n for n in range(9)), 1, "topics") == "0 and 8 more topics"
    assert join_names([], 3) == ""


def test_shorten_lines_ends_with_number_left_out() -> None:
    assert shorten_lines(NAMES, 4) == NAMES
    assert shorten_lines(NAMES, 2, "sides") == ["a", "b", "and 2 more sides"]
    assert more_text(2) == "and 2 more"


def test_brokers_are_sorted_before_they_are_cut() -> None:
    assert (brokers([7]), brokers([9, 1, 3])) == ("broker 7", "brokers 1, 3, 9")
    assert brokers([9, 1, 3], 2) == "brokers 1, 3 and 1 more"
