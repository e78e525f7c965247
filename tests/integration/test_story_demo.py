"""`rheostat demo` on real brokers: it finds, explains and rescues a stalled move."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from lab_parts import until

DEMO = [sys.executable, "-m", "rheostat", "demo", "--json"]
DEMO_S_MAX = 400  # On a machine that is busy with other tests.
DEMO_S_BOUND = 150  # All of it, on two cores.


def session_of(pid: int) -> list[psutil.Process]:
    """Returns the processes that the demo started, directly or not."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def run_demo() -> dict[str, Any]:
    """Runs the demo to its end, and returns its summary."""
    done = subprocess.run(DEMO, capture_output=True, text=True, timeout=DEMO_S_MAX, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


@pytest.mark.campaign  # Its bound needs a machine without other tests. The next test checks all else in every `make test`.
@pytest.mark.timeout(DEMO_S_MAX + 30)
def test_demo_takes_two_and_a_half_minutes_at_most() -> None:
    assert run_demo()["all_s"] <= DEMO_S_BOUND


@pytest.mark.timeout(DEMO_S_MAX + 30)
def test_demo_rescues_a_stalled_move_and_leaves_nothing() -> None:
    told = run_demo()
    assert told["completed"] is True
    assert told["throttle_keys_left"] == 0
    assert told["cause"] == "stalled_below_steady_state"
    assert told["stalled_before_s"] >= 24
    assert 0 < told["stall_detection_s"] < told["rescue_s"]
    assert told["ratio_to_optimum"] > 1
    assert told["rate_bytes_per_s_max"] == 30_000_000
    assert set(told["produce_p99_ms"]) == {"before", "during", "after"}
    assert all(value is not None for value in told["produce_p99_ms"].values())

    acts = [d for d in told["decisions"] if d["kind"] in ("intent", "outcome")]
    # Every act was on record before it was done, and its outcome after.
    open_intents: list[str] = []
    for act in acts:
        if act["kind"] == "intent":
            open_intents.append(act["text"])
        else:
            open_intents.remove(act["text"])
    assert open_intents == []
    raised = [d for d in acts if d["action"] == "set"]
    assert any("of steady-state replication, in-sync followers included" in d["text"] for d in raised)
    assert {d["action"] for d in acts} == {"set", "clear_lists", "restore"}


@pytest.mark.parametrize(
    ("stage", "mark"),
    [
        ("while the cluster starts", "starting a Kafka cluster"),
        ("while the topic is filled", "rheostat starts to measure"),
        pytest.param("while rheostat starts", "rheostat's tuner starts", marks=pytest.mark.campaign),
    ],
)
def test_demo_ctrl_c_leaves_no_process_and_no_data(stage: str, mark: str, tmp_path: Path) -> None:
    log = tmp_path / "demo.log"
    with log.open("wb") as out:
        demo = subprocess.Popen(
            DEMO, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )  # fmt: skip
    family: list[psutil.Process] = []
    try:
        until(lambda: mark in log.read_text(errors="replace"), 120, f"'{mark}' in the demo's output, {stage}")
        until(lambda: len(session_of(demo.pid)) > 1, 30, "the demo has children")
        family = session_of(demo.pid)
        demo.send_signal(signal.SIGINT)
        assert demo.wait(timeout=90) == 130, log.read_text(errors="replace")[-2000:]
        until(lambda: not [p for p in family if alive(p)], 15, "all are gone")
        assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith("rheostat-")) == []
    finally:
        for process in [*family, *session_of(demo.pid)]:
            if process.is_running():
                process.kill()
        demo.wait(timeout=10)
