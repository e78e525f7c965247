"""Explains to the operator why no tuner has acknowledged an order."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.core.presence import TunerMode, TunerPresence

_NEXT = "The next active tuner will apply it."


def unacknowledged_text(tuners: Sequence[TunerPresence]) -> str:
    """Returns sentences that say why no tuner has acknowledged an order, and which tuner will apply it.

    Args:
        tuners: the running tuners as ``read_tuners`` returns them: an active one first.
    """
    if not tuners:
        return f"No tuner has acknowledged the order, because no tuner runs. {_NEXT}"
    first = tuners[0]
    if first.mode is TunerMode.ACTIVE:
        problem = f" ({first.waits_for})" if first.waits_for else ""
        return f"The active tuner, {first.holder}, has not acknowledged the order yet{problem}. `rheostat status` shows its state."
    if first.mode is TunerMode.DRY_RUN:
        return f"No tuner has acknowledged the order: {first.holder} is in a dry run and follows no orders. {_NEXT}"
    problem = f": {first.waits_for}" if first.waits_for else ""
    return f"No tuner has acknowledged the order yet: {first.holder} is not active{problem}. {_NEXT}"
