"""Describes a reason code for operators. Each controller has one catalogue of them; the reference page is generated from it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonText:
    """Explains one reason code. Each text begins in lower case, has no full stop at its end, and is also shown without the others.

    Attributes:
        cause: the condition that the tuner found.
        effect: what the tuner does.
        advice: what the operator does.
    """

    cause: str
    effect: str
    advice: str = "nothing"
