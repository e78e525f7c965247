"""Unit tests: literal numbers in, decisions out; no broker, no Spark, no clock but the test's own."""

from __future__ import annotations

import sys
from pathlib import Path

# The fake that passes the contract suite is the one used here.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "contract"))
