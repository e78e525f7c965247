"""The priority of child processes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from rheostat.run.process import spawn, stop

_ASK = """
import os
print(os.nice(0))
print(open("/proc/self/autogroup").read().split()[-1] if os.path.exists("/proc/self/autogroup") else "none")
"""


@pytest.mark.skipif(not os.access("/proc/self/autogroup", os.W_OK), reason="a kernel that knows no groups of sessions")
def test_nice_child_also_lowers_its_session_group(tmp_path: Path) -> None:
    log = tmp_path / "said"
    child = spawn([sys.executable, "-c", _ASK], log=log, nice=5)
    try:
        assert child.wait(timeout=30) == 0
    finally:
        stop(child, grace_s=0.0)
    nice, group = log.read_text().split()
    assert int(nice) == min(19, os.nice(0) + 5)
    assert group == "5"
