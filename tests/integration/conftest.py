"""Labs as fixtures. A test module defines its lab in a constant; the default has three brokers.

LAB = LabSpec(brokers=1)

def test_something(lab: Lab) -> None: ...
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from lab_parts import MakeLab, java_processes_of

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config


@pytest.fixture(scope="module")
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """The module's lab: it runs from the first test to the last, and leaves nothing behind."""
    with Lab(getattr(request.module, "LAB", LabSpec(brokers=3))) as running:
        yield running
    assert_gone(running)


@pytest.fixture
def make_lab() -> Iterator[MakeLab]:
    """Starts labs for one test; each is removed when the test ends, also after a failure."""
    made: list[Lab] = []
    with ExitStack() as stack:

        def make(spec: LabSpec) -> Lab:
            made.append(stack.enter_context(Lab(spec)))
            return made[-1]

        yield make
    for one in made:
        assert_gone(one)


@pytest.fixture
def lab_config_file(lab: Lab, tmp_path: Path) -> Path:
    """A settings file for the module's lab, with the checkpoint in the test's own folder."""
    file = tmp_path / "rheostat.yaml"
    file.write_text(lab_config(lab).replace(str(lab.home / "checkpoint"), str(tmp_path / "checkpoint")))
    return file


def assert_gone(lab: Lab) -> None:
    assert java_processes_of(lab.home) == []
    assert not lab.home.exists()
