"""The fault campaign: real brokers, a real tuner, and one fault per test. ``make faults`` runs all of it.

``make test`` leaves out the tests that are marked ``campaign``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

# Waiting with a deadline and the like are the same for all tests with real parts.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

from stage import BROKER_SETTINGS, MakeStage, Stage
from table import ROWS, Row, lines

from rheostat.lab.cluster import Lab, LabSpec


@pytest.fixture(scope="module")
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    spec = LabSpec(brokers=4, heap_mb=320, broker_settings=BROKER_SETTINGS)
    with Lab(getattr(request.module, "LAB", spec)) as running:
        yield running


@pytest.fixture
def make_stage(lab: Lab, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[MakeStage]:
    """Creates the stages of one test; the last property named ``told`` is the result in the table."""
    began_s = time.monotonic()
    with ExitStack() as stack:

        def make(name: str, **kwargs: Any) -> Stage:
            return stack.enter_context(Stage(lab, name, tmp_path, **kwargs))

        yield make
    told = dict(request.node.user_properties).get("told", "")
    held = getattr(request.node, "went_well", False)
    name = request.node.name.removeprefix("test_").replace("_", " ")
    ROWS.append(Row(name, told, time.monotonic() - began_s, held))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    report = yield
    if report.when == "call":
        item.went_well = report.passed  # type: ignore[attr-defined]  # pytest lets a hook leave a mark of its own
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if ROWS:
        terminalreporter.section("faults")
        for line in lines():
            terminalreporter.write_line(line)
