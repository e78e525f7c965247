"""Formats broker ids for the sentences of decisions."""

from __future__ import annotations

from collections.abc import Collection

from streaming.shared.short_lists import join_names


def brokers(ids: Collection[int], names_max: int | None = None) -> str:
    """Returns "broker 3" or "brokers 1, 3". Beyond ``names_max`` ids, the rest is only counted."""
    noun = "broker" if len(ids) == 1 else "brokers"
    return f"{noun} {join_names(sorted(ids), len(ids) if names_max is None else names_max)}"
