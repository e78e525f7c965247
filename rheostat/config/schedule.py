"""Previews the schedule of the settings: the periods of the next days, with the ceiling and the objective of each."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

from rich.console import Console
from rich.table import Table

from rheostat.config.settings import Settings
from streaming.shared.units import rate_text
from tuner.settings.schedule_periods import find_period, periods
from tuner.settings.tuner import TunerSettings

_PERIODS_MAX = 1_000


def settings_now(settings: Settings, now_ms: int | None = None) -> Settings:
    """Returns the settings in force: the settings of the file, changed by the rules of the schedule that apply.

    Args:
        now_ms: the time (epoch); None means the time of this machine.
    """
    if not settings.tuner.schedule:
        return settings
    now_ms = round(time.time() * 1000) if now_ms is None else now_ms
    return settings.model_copy(update={"tuner": find_period(settings.tuner, now_ms).settings})


def schedule_preview(tuner: TunerSettings, from_ms: int, until_ms: int) -> dict[str, Any]:
    """Returns the periods from ``from_ms`` to ``until_ms`` (epoch) as JSON values, at most ``_PERIODS_MAX``."""
    zones = {rule.time_zone for rule in tuner.schedule}
    preview_periods = list(islice(periods(tuner, from_ms, until_ms), _PERIODS_MAX))
    return {
        "time_zone": next(iter(zones)) if len(zones) == 1 else "UTC",
        "highest_ceiling_bytes_per_s": tuner.highest_ceiling_bytes_per_s,
        "periods": [
            {
                "from_ms": period.from_ms,
                "until_ms": period.until_ms,
                "rules": list(period.rules),
                "rate_bytes_per_s_max": period.settings.rate_bytes_per_s_max,
                **_objective_json(period.settings),
            }
            for period in preview_periods
        ],
    }


def _objective_json(tuner: TunerSettings) -> dict[str, Any]:
    objective = tuner.objective
    return {
        "mode": objective.mode.value if objective is not None else None,
        "tolerance": objective.tolerance if objective is not None and objective.latency_ms is None else None,
    }


def show_preview(preview: Mapping[str, Any], console: Console) -> None:
    """Prints the preview as a table; its times are in the time zone of the rules, or in UTC if the rules have several."""
    table = Table(title=f"Schedule, times in {preview['time_zone']}", title_justify="left")
    for column in ("from", "until", "rules"):
        table.add_column(column)
    table.add_column("ceiling", justify="right")
    table.add_column("mode")
    table.add_column("tolerance", justify="right")
    zone = ZoneInfo(preview["time_zone"])
    for period in preview["periods"]:
        table.add_row(
            _time_text(period["from_ms"], zone),
            "no end" if period["until_ms"] is None else _time_text(period["until_ms"], zone),
            _names_text(period["rules"]),
            rate_text(period["rate_bytes_per_s_max"]),
            period["mode"] or "no objective",
            "–" if period["tolerance"] is None else f"{period['tolerance']:g}",
        )
    console.print(table)


def _names_text(rules: Sequence[str]) -> str:
    return ", ".join(rules) or "–"


def _time_text(at_ms: int, zone: ZoneInfo) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone).strftime("%a %Y-%m-%d %H:%M %Z")
