"""promtool, which decides what a rule means. Where it is missing a laptop skips, and CI fails."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

INSTALL_PROMTOOL = (
    "promtool is not on PATH: apt-get install prometheus (Debian, Ubuntu), brew install prometheus (macOS), "
    "or the archive from prometheus.io/download"
)


@pytest.fixture(scope="session")
def promtool() -> Callable[..., None]:
    """Runs promtool with these arguments and fails the test, in promtool's words, when it isn't content."""
    program = shutil.which("promtool")
    if program is None and os.environ.get("CI"):
        pytest.fail(INSTALL_PROMTOOL)
    if program is None:
        pytest.skip(INSTALL_PROMTOOL)

    def run(*arguments: str | Path) -> None:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr

    return run
