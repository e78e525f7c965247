"""Lines for a person at a terminal."""

from __future__ import annotations

import sys
from contextlib import suppress


def tell(line: str) -> None:
    """To standard error. A terminal that has gone takes no more (EIO): nobody is there to hear it, and who is putting something
    back, as it has gone, must not break off for that."""
    with suppress(OSError):
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
