"""Formats the measures of calm, and clients before, during and after a move, for the tables of benchmarks.

A row is a mapping with the names of ``tuner.simulation.calm.Calm`` and of ``ClientPhases.flat``. A figure that is missing or None,
as in rows of earlier versions, is shown as a dash.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from tuner.simulation.calm import Calm
from tuner.simulation.client_phases import ClientPhase, ClientPhases

Row = Mapping[str, Any]

CALM = tuple(field.name for field in fields(Calm))
CLIENTS = tuple(ClientPhases().flat())
CALM_HEADER = f"{'varies':>7} {'burst':>6} {'under':>7} {'silence':>8} {'writes':>7}"
_PHASES = tuple(field.name for field in fields(ClientPhases))
_FIGURES = tuple(field.name for field in fields(ClientPhase))
_TITLES = {"bytes_per_s": "clients, MB/s", "p50_ms": "p50, ms", "p99_ms": "p99, ms"}
CLIENTS_HEADER = "   ".join(f"{_TITLES[figure]:^23}" for figure in _FIGURES)
CLIENTS_PHASES = "   ".join(" ".join(f"{phase:>7}" for phase in _PHASES) for _ in _FIGURES)
MEANING = (
    "varies: total variation of a rate beyond its trend ÷ its mean, per minute; burst: largest second ÷ its rate;\n"
    "under: bytes below the rate while work is left ÷ bytes that the rate allows; silence: longest time without a byte;\n"
    "writes: a broker and minute"
)


def calm_cells(row: Row) -> str:
    """Returns the measures of calm under ``CALM_HEADER``."""
    widths_and_forms = ((7, ".2f"), (6, ".1f"), (7, ".1%"), (7, ".1f"), (7, ".1f"))
    cells = [_cell(row.get(name), width, form) for name, (width, form) in zip(CALM, widths_and_forms, strict=True)]
    cells[3] += "s" if row.get("silence_s_max") is not None else " "
    return " ".join(cells)


def clients_cells(row: Row) -> str:
    """Returns the three phases of the clients under ``CLIENTS_HEADER``."""
    scales = {"bytes_per_s": 1e-6}
    return "   ".join(
        " ".join(_cell(row.get(f"clients_{phase}_{figure}"), 7, ".1f", scales.get(figure, 1.0)) for phase in _PHASES)
        for figure in _FIGURES
    )


def present(rows: Sequence[Row], name: str) -> list[float]:
    """Returns the figure of each row that has it."""
    return [float(value) for row in rows if (value := row.get(name)) is not None]


def medians(rows: Sequence[Row]) -> dict[str, float | None]:
    """Returns the median of each measure of calm and each figure of clients; None if no row has it."""
    found = {name: present(rows, name) for name in (*CALM, *CLIENTS)}
    return {name: statistics.median(values) if values else None for name, values in found.items()}


def p99_ratio(row: Row) -> float | None:
    """Returns the clients' p99 during the moves ÷ the p99 before; None if either is missing."""
    before, during = row.get("clients_before_p99_ms"), row.get("clients_during_p99_ms")
    return during / before if before and during is not None else None


def _cell(value: float | None, width: int, form: str, scale: float = 1.0) -> str:
    return f"{'-':>{width}}" if value is None else f"{value * scale:{width}{form}}"
