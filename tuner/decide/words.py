"""Numbers as people read them in a decision's sentence."""

from __future__ import annotations

from tuner.model.limits import MB

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400


def rate(bytes_per_s: float) -> str:
    return f"{bytes_per_s / MB:.1f} MB/s"


def size(n_bytes: float) -> str:
    return f"{n_bytes / MB:.0f} MB"


def brokers(ids: list[int]) -> str:
    return ("broker " if len(ids) == 1 else "brokers ") + ", ".join(str(i) for i in sorted(ids))


def span(seconds: float) -> str:
    """As a person says it: two units at most."""
    whole = round(seconds)
    if whole < _MINUTE_S:
        return f"{whole} s"
    if whole < _HOUR_S:
        minutes, rest = divmod(whole, _MINUTE_S)
        return f"{minutes} min" + (f" {rest} s" if rest and minutes < 10 else "")
    if whole < _DAY_S:
        hours, rest = divmod(whole, _HOUR_S)
        return f"{hours} h" + (f" {rest // _MINUTE_S} min" if rest >= _MINUTE_S else "")
    days, rest = divmod(whole, _DAY_S)
    return f"{days} d" + (f" {rest // _HOUR_S} h" if rest >= _HOUR_S else "")
