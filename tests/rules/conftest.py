"""promtool and amtool check rules and routes. If one is missing, the tests are skipped on a laptop and fail in CI."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Tool = Callable[..., None]

INSTALL = {
    "promtool": "apt-get install prometheus (Debian, Ubuntu), brew install prometheus (macOS), "
    "or the archive from prometheus.io/download",
    "amtool": "apt-get install prometheus-alertmanager (Debian, Ubuntu), or the archive from prometheus.io/download",
}


@pytest.fixture(scope="session")
def promtool() -> Tool:
    """Runs promtool with these arguments and fails the test, in promtool's words, when it isn't content."""
    return tool("promtool")


@pytest.fixture(scope="session")
def amtool() -> Tool:
    """Runs amtool in the same way."""
    return tool("amtool")


def tool(name: str) -> Tool:
    program = shutil.which(name)
    if program is None:
        missing = f"{name} is not on PATH: {INSTALL[name]}"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)

    def run(*arguments: str | Path) -> None:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr

    return run
