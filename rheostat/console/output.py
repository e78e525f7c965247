"""Writes lines to the standard streams, with control characters escaped."""

from __future__ import annotations

import sys
from contextlib import suppress

from rheostat.console.escape import escaped


def out(*lines: str) -> None:
    """Writes the result of a command to standard output: text or JSON. Line breaks within a line stay."""
    sys.stdout.write("".join(f"{_escape_line(line)}\n" for line in lines))
    sys.stdout.flush()


def tell(*lines: str, end: str = "\n") -> None:
    """Writes messages to standard error. Line breaks within a line stay.

    Errors are ignored: after its terminal has closed (EIO), a command must still be able to restore settings.
    """
    with suppress(OSError):
        sys.stderr.write("".join(f"{_escape_line(line)}{end}" for line in lines))
        sys.stderr.flush()


def _escape_line(line: str) -> str:
    return "\n".join(map(escaped, line.split("\n")))
