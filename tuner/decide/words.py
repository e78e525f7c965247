"""Numbers as people read them in a decision's sentence."""

from __future__ import annotations

from tuner.model.limits import MB


def rate(bytes_per_s: float) -> str:
    return f"{bytes_per_s / MB:.1f} MB/s"


def size(n_bytes: float) -> str:
    return f"{n_bytes / MB:.0f} MB"


def brokers(ids: list[int]) -> str:
    return ("broker " if len(ids) == 1 else "brokers ") + ", ".join(str(i) for i in sorted(ids))
