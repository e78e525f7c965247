"""Hypothesis settings for all tests: no deadline, because a machine may be busy, and failures that can be repeated from the log."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, core, settings
from hypothesis.internal.conjecture import engine
from hypothesis.vendor import pretty

# A shell starts its background jobs with SIGINT ignored. The programs that tests start would inherit that, and miss Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "rheostat",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[phase for phase in Phase if phase is not Phase.explain],  # It traces every line, which is slow.
    print_blob=True,  # A log is enough to see the failure again.
)
settings.load_profile("rheostat")
# By default as long as pytest's own timeout, which ends the run before it was said what failed.
engine.MAX_SHRINKING_SECONDS = 60
# schemathesis, which is a plugin of every run, has put one in its place that prints no values: of no test, not only of its own.
core.RepresentationPrinter = pretty.RepresentationPrinter


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a tmpfs with the given options on a folder of its own; skips where this user may mount nothing."""
    made: list[Path] = []

    def mounted(options: str) -> Path:
        folder = tmp_path / f"mount-{len(made)}"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        if done.returncode:
            pytest.skip(f"this user may mount nothing: {done.stderr.strip()}")
        made.append(folder)
        return folder

    yield mounted
    for folder in made:
        subprocess.run(["umount", "--lazy", folder], timeout=20, check=True)
