"""Describes a reason code for operators. Each controller has one catalogue of them; the reference page is generated from it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReasonText:
    """What a reason code means, and what follows from it. Each text begins in lower case and has no full stop at its end.

    Attributes:
        meaning: the condition that the tuner found.
        tuner: what the tuner does.
        operator: what the operator does.
    """

    meaning: str
    tuner: str
    operator: str
