"""Writes the first lines of `rheostat status`: which tuner is active, and its state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from streaming.shared.short_lists import join_names
from streaming.shared.units import rate_text
from tuner.api.sentences import moment
from tuner.core.presence import TunerMode, TunerPresence

_NAMED_MAX = 5


def tuner_json(tuners: Sequence[TunerPresence], rate_bytes_per_s_max: float) -> dict[str, Any]:
    """Returns the most relevant tuner as JSON values: the active tuner, else a dry run, else a starting tuner or a standby.

    Args:
        tuners: the running tuners, sorted in that order.
        rate_bytes_per_s_max: the value in this command's settings file.
    """
    tuner = tuners[0] if tuners else None
    return {
        "state": tuner.mode.value if tuner is not None else "none",
        "holder": tuner.holder if tuner is not None else None,
        "since_ms": tuner.since_ms if tuner is not None else None,
        "version": tuner.version if tuner is not None else None,
        "page": (tuner.page or None) if tuner is not None else None,
        "waits_for": (tuner.waits_for or None) if tuner is not None else None,
        "rate_bytes_per_s_max": tuner.rate_bytes_per_s_max if tuner is not None else None,
        "settings_rate_bytes_per_s_max": rate_bytes_per_s_max,
        "others": [
            {"state": other.mode.value, "holder": other.holder, "since_ms": other.since_ms} for other in tuners[1:]
        ],
    }


def tuner_lines(tuner: Mapping[str, Any]) -> list[str]:
    """Returns sentences on the result of ``tuner_json``, the most important sentence first."""
    state = tuner["state"]
    if state == "none":
        return ["Tuner: none runs. No throttle is changed, and existing throttles stay. `rheostat run` starts a tuner."]
    where = f"on {tuner['holder']} since {moment(tuner['since_ms'])}"
    lines = [
        {
            TunerMode.ACTIVE: f"Tuner: active {where}.",
            TunerMode.DRY_RUN: f"Tuner: dry run {where}. It decides, but changes nothing; no tuner acts.",
            TunerMode.STARTING: f"Tuner: starting {where}; no tuner acts yet.",
            TunerMode.STANDBY: f"Tuner: standby {where}; no tuner acts.",
        }[TunerMode(state)]
    ]
    if tuner["waits_for"]:
        # An active tuner waits for nothing, and reports a problem in the same field.
        lines.append(f"{'It has a problem' if state == TunerMode.ACTIVE else 'It waits'}: {tuner['waits_for']}.")
    if tuner["page"]:
        lines.append(f"Status page: {tuner['page']}")
    if tuner["rate_bytes_per_s_max"] != tuner["settings_rate_bytes_per_s_max"]:
        lines.append(
            f"Its ceiling is {rate_text(tuner['rate_bytes_per_s_max'])}; this command's settings file has "
            f"{rate_text(tuner['settings_rate_bytes_per_s_max'])}."
        )
    if tuner["others"]:
        others = [f"{other['state'].replace('_', ' ')} on {other['holder']}" for other in tuner["others"]]
        lines.append(f"Other tuners: {join_names(others, _NAMED_MAX)}.")
    return lines
