"""Which tuner acts, for the first lines of `rheostat status`: the first question of every alert."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from streaming.shared.short_lists import join_names
from streaming.shared.units import rate_text
from tuner.api.sentences import moment
from tuner.core.presence import TunerMode, TunerPresence

_NAMED_MAX = 5


def tuner_json(tuners: Sequence[TunerPresence], rate_bytes_per_s_max: float) -> dict[str, Any]:
    """Returns the tuner that counts, as values: the one that acts, else a dry run, else one that starts or stands by.

    Args:
        tuners: those that are alive, an acting one first.
        rate_bytes_per_s_max: the ceiling of the settings file that the command was given.
    """
    first = tuners[0] if tuners else None
    return {
        "state": first.mode.value if first is not None else "none",
        "acting": first is not None and first.mode is TunerMode.ACTING,
        "holder": first.holder if first is not None else None,
        "since_ms": first.since_ms if first is not None else None,
        "version": first.version if first is not None else None,
        "page": (first.page or None) if first is not None else None,
        "waits_for": (first.waits_for or None) if first is not None else None,
        "rate_bytes_per_s_max": first.rate_bytes_per_s_max if first is not None else None,
        "settings_rate_bytes_per_s_max": rate_bytes_per_s_max,
        "others": [{"state": t.mode.value, "holder": t.holder, "since_ms": t.since_ms} for t in tuners[1:]],
    }


def tuner_lines(tuner: Mapping[str, Any]) -> list[str]:
    """Returns the sentences for ``tuner_json``, the answer first."""
    state, waits = tuner["state"], tuner["waits_for"]
    if state == "none":
        return ["Tuner: none runs. No throttle is changed, and what is set stays. `rheostat run` starts one."]
    where = f"on {tuner['holder']} since {moment(tuner['since_ms'])}"
    lines = [
        {
            TunerMode.ACTING: f"Tuner: acting {where}.",
            TunerMode.DRY_RUN: f"Tuner: dry run {where}. It decides and changes nothing; no tuner acts.",
            TunerMode.STARTING: f"Tuner: starting {where}; no tuner acts yet.",
            TunerMode.STANDBY: f"Tuner: standing by {where}; no tuner acts.",
        }[TunerMode(state)]
    ]
    if waits:
        lines.append(f"It waits: {waits}." if state != TunerMode.ACTING else f"Not all is well with it: {waits}.")
    if tuner["page"]:
        lines.append(f"Its page: {tuner['page']}")
    if tuner["rate_bytes_per_s_max"] != tuner["settings_rate_bytes_per_s_max"]:
        lines.append(
            f"Its ceiling is {rate_text(tuner['rate_bytes_per_s_max'])}; the settings file of this command says "
            f"{rate_text(tuner['settings_rate_bytes_per_s_max'])}."
        )
    if tuner["others"]:
        named = [f"{each['state'].replace('_', ' ')} on {each['holder']}" for each in tuner["others"]]
        lines.append(f"Beside it: {join_names(named, _NAMED_MAX)}.")
    return lines
