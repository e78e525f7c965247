"""Collects the results of a campaign for the table that is printed at its end."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    happened: str
    seconds: float
    held: bool


ROWS: list[Row] = []


def lines() -> list[str]:
    wide = max(len(row.name) for row in ROWS)
    head = f"{'fault':{wide}}   {'s':>5}   1-6, data   what happened"
    rows = [f"{r.name:{wide}}   {r.seconds:5.0f}   {'held' if r.held else 'BROKEN':9}   {r.happened}" for r in ROWS]
    return [head, *rows]
