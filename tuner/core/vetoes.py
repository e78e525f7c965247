"""Vetoes of external checks, as a decision gets them. A veto keeps throttles from rising or lowers them; it raises nothing."""

from __future__ import annotations

from collections.abc import Iterable

from streaming.shared.short_lists import join_names
from tuner.core.value import value

_NAMED_MAX = 3


@value
class Veto:
    """A check that vetoes now.

    Attributes:
        name: the name of the check in ``tuner.vetoes``.
        cause: why it vetoes, such as "its value 0.8 is above 0.5".
        lower_to_bytes_per_s: the rate to which it lowers throttles; None: it only holds.
    """

    name: str
    cause: str
    lower_to_bytes_per_s: int | None = None


@value
class VetoReport:
    """The state of one check, for the metrics.

    Attributes:
        name, effect: as in ``tuner.vetoes``.
        vetoes: the check holds or lowers throttles now.
        is_unknown: the check has no valid answer.
    """

    name: str
    effect: str
    vetoes: bool
    is_unknown: bool


def lowest_rate_bytes_per_s(vetoes: Iterable[Veto]) -> int | None:
    """Returns the lowest rate that a veto lowers throttles to; None: all of them only hold."""
    rates = (veto.lower_to_bytes_per_s for veto in vetoes if veto.lower_to_bytes_per_s is not None)
    return min(rates, default=None)


def vetoes_text(vetoes: Iterable[Veto]) -> str:
    """Returns the vetoes with their causes, shortened if there are many."""
    return join_names((f"veto {veto.name}: {veto.cause}" for veto in vetoes), _NAMED_MAX, separator="; ")
