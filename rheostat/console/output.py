"""Lines for a person or a script, on the standard streams. What came from outside is escaped here, at the latest."""

from __future__ import annotations

import sys
from contextlib import suppress

from rheostat.console.escape import escaped


def out(*lines: str) -> None:
    """Writes to standard output what was asked for: text or JSON. Line breaks within a line stay."""
    sys.stdout.write("".join(f"{_shown(line)}\n" for line in lines))
    sys.stdout.flush()


def tell(*lines: str, end: str = "\n") -> None:
    """Writes to standard error what is said besides. Line breaks within a line stay.

    A terminal that has gone takes no more (EIO). A command that puts something back because of that must not break off.
    """
    with suppress(OSError):
        sys.stderr.write("".join(f"{_shown(line)}{end}" for line in lines))
        sys.stderr.flush()


def _shown(line: str) -> str:
    return "\n".join(map(escaped, line.split("\n")))
