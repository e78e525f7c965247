"""Backquotes around the names in a help text or a description."""

from __future__ import annotations

import pytest

from rheostat.code_marks import mark_names


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("end --watch after this time", "end `--watch` after this time"),
        ("near partitions_max; the end at finish_at.", "near `partitions_max`; the end at `finish_at`."),
        ("if auto.leader.rebalance.enable is false", "if `auto.leader.rebalance.enable` is false"),
        ("a plan of kafka-reassign-partitions", "a plan of `kafka-reassign-partitions`"),
        ("as kafka-acls --list does", "as `kafka-acls --list` does"),
        ("such as http://x.example.org:9090/a_b, or", "such as `http://x.example.org:9090/a_b`, or"),
        ("one role, such as collect=User:alice", "one role, such as `collect=User:alice`"),
        ("written as package.module:function", "written as `package.module:function`"),
    ],
)
def test_name_gets_backquotes(text: str, marked: str) -> None:
    assert mark_names(text) == marked


@pytest.mark.parametrize(
    "text",
    [
        "such as `tuner.objective`, or `0 20 * * mon-fri`",
        "at 2026-01-31T06:00:00Z, 1.5GiB/s, or 0.25",
        "a name may contain *, such as payments-*",
        "if it takes *.svg or *.txt.",
    ],
)
def test_other_text_stays(text: str) -> None:
    assert mark_names(text) == text
