"""Renders the table of exit codes."""

from __future__ import annotations

from rheostat.errors import EXIT_CODES


def render_exit_codes() -> str:
    """Returns the table of all exit codes."""
    rows = (f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items())
    return "\n".join(("| exit code | meaning |", "|---|---|", *rows))
