"""Prints the findings of the doctor."""

from __future__ import annotations

from rich.console import Console

from rheostat.console.rich_console import styled
from rheostat.doctor.findings import Finding, FindingVerdict

_MARKS = {
    FindingVerdict.OK: ("ok    ", "green"),
    FindingVerdict.ADVICE: ("advice", "yellow"),
    FindingVerdict.FAILED: ("FAILED", "red"),
}


def show(finding: Finding, console: Console) -> None:
    """Prints a line with the state that was found, and a line with what to do about it."""
    mark, style = _MARKS[finding.verdict]
    console.print(styled(mark, style), end=" ")
    console.print(f"{finding.check}: {finding.found}", soft_wrap=True)
    if finding.do and finding.verdict is not FindingVerdict.OK:
        console.print(f"         → {finding.do}", soft_wrap=True)
