"""Fixtures of the unit tests. Unit tests use no broker, no Spark and no real clock."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

# Unit tests use the fakes that pass the contract suite.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "contract"))
# Some tests share values with another file of tests.
sys.path.extend(sorted({str(file.parent) for file in Path(__file__).parent.rglob("test_*.py")}))


@pytest.fixture(autouse=True)
def _logs_of_its_own() -> Iterator[None]:
    """Restores logging: a command logs to the stream of its own test, which is closed before the next test."""
    handlers = list(logging.root.handlers)
    yield
    structlog.reset_defaults()
    logging.root.handlers = handlers
