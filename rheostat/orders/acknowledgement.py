"""Why no tuner has acknowledged an order, in words, from what the tuners report of themselves."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.core.presence import TunerMode, TunerPresence

_NEXT = "The next tuner that acts begins with it."


def unacknowledged_text(tuners: Sequence[TunerPresence]) -> str:
    """Returns why no tuner has acknowledged an order, and which tuner will, in sentences for the operator.

    Args:
        tuners: those that are alive, as ``read_tuners`` gives them: one that acts comes first.
    """
    if not tuners:
        return f"No tuner has acknowledged it, because none runs. {_NEXT}"
    first = tuners[0]
    if first.mode is TunerMode.ACTING:
        waits = f" ({first.waits_for})" if first.waits_for else ""
        return f"No tuner has acknowledged it yet, though {first.holder} acts{waits}. See `rheostat status` for what it does."
    if first.mode is TunerMode.DRY_RUN:
        return f"No tuner has acknowledged it, because {first.holder} is in a dry run and follows no orders. {_NEXT}"
    waits = f": {first.waits_for}" if first.waits_for else ""
    return f"No tuner has acknowledged it yet: {first.holder} does not act yet{waits}. {_NEXT}"
