"""Suggests a known settings key instead of an unknown one."""

from __future__ import annotations

import difflib
from collections.abc import Collection

RENAMED = {
    "hop_s": "slide_s",
    "lateness_s": "watermark_delay_s",
    "skip_behind_s": "backfill_after_s",
    "sweep_s": "full_scan_interval_s",
    "yield_s": "external_change_hold_s",
    "standing_throttles": "existing_throttles",
    "standing_quotas": "existing_quotas",
    "create_felt_ms_max": "create_probe_p90_ms_max",
}


def hint(key: str, known: Collection[str]) -> str:
    """Returns the new name of a renamed key, the closest known key, or all known keys."""
    if (renamed := RENAMED.get(key)) in known:
        return f"it is called {renamed} now"
    close = difflib.get_close_matches(key, known, n=1)
    return f"did you mean {close[0]}?" if close else f"known here: {', '.join(sorted(known))}"
