"""Texts of other services become one short printable line."""

from __future__ import annotations

from streaming.shared.foreign_text import printable_start


def test_printable_start_replaces_control_characters_and_shortens() -> None:
    assert printable_start("a\nb\x1b[31mc\u2028d", 8) == "a b [31m"


def test_printable_start_keeps_short_printable_text() -> None:
    assert printable_start("disk 7 is full: 98 %", 200) == "disk 7 is full: 98 %"
