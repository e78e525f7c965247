"""Brokers as a decision's sentence names them."""

from __future__ import annotations

from collections.abc import Collection

from streaming.shared.short_lists import join_names


def brokers(ids: Collection[int], most: int | None = None) -> str:
    """Returns "broker 3", or "brokers 1, 3" for several; of more than ``most`` the first, and how many more."""
    return f"{'broker' if len(ids) == 1 else 'brokers'} {join_names(sorted(ids), len(ids) if most is None else most)}"
