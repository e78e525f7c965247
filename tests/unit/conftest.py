"""Unit tests: literal numbers in, decisions out; no broker, no Spark, no clock but the test's own."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

# The fake that passes the contract suite is the one used here.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "contract"))
# Some tests share values with another file of tests.
sys.path.extend(sorted({str(file.parent) for file in Path(__file__).parent.rglob("test_*.py")}))


@pytest.fixture(autouse=True)
def _logs_of_its_own() -> Iterator[None]:
    """A command sets up logs on the stream it was run with, which is closed by the time of the next test."""
    handlers = list(logging.root.handlers)
    yield
    structlog.reset_defaults()
    logging.root.handlers = handlers
