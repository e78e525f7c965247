"""Brokers as a decision's sentence names them."""

from __future__ import annotations


def brokers(ids: list[int]) -> str:
    """Returns "broker 3", or "brokers 1, 3" for several."""
    return ("broker " if len(ids) == 1 else "brokers ") + ", ".join(str(i) for i in sorted(ids))
