"""Shows the result of a calibration as a table and sentences."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from rheostat.quotas.calibrate.report import (
    KIND_TEXTS,
    CalibrationReport,
    command_text,
    proposal_lines,
    settings_text,
    spread_text,
)


def show(report: CalibrationReport, console: Console) -> None:
    """Prints a row for each kind and size, the proposal, and the settings and the command that use it."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("mutations")
    for name in ("partitions per topic", "rate at the objective", "spread", "steps"):
        table.add_column(name, justify="right")
    table.add_column("limited by", overflow="fold")
    for estimate in report.estimates:
        table.add_row(
            KIND_TEXTS[estimate.kind],
            str(estimate.size),
            "–" if estimate.rate_per_s is None else f"{estimate.rate_per_s:.3g}/s",
            spread_text(estimate),
            str(estimate.steps),
            estimate.limited_by or "the bounds of the calibration",
        )
    if report.estimates:
        console.print(table)
    for line in proposal_lines(report):
        console.print(line, soft_wrap=True)
    if report.proposal is None:
        return
    console.print("To let rheostat share the total among tenants, by their demand:")
    for line in (settings_text(report) or "").splitlines():
        console.print(line, soft_wrap=True)
    console.print("Or to set the same fixed quota for each client id:")
    console.print(command_text(report) or "", soft_wrap=True)
