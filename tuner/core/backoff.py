"""How long to wait before a write that failed is tried again."""

from __future__ import annotations

RETRY_S_MIN, RETRY_S_MAX = 4.0, 300.0  # The first retry is the next cycle.
