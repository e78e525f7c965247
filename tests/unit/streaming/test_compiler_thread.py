"""The priority is lowered only for compiler threads of processes that this process starts."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from streaming.compiler_thread import lowered_priority

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads have priorities on Linux only")

# A process with two threads, of which the second has the name that it is told; it prints their ids.
PROGRAM = """
import ctypes, sys, threading
named = threading.Event()
def second():
    ctypes.CDLL(None).prctl(15, sys.argv[1].encode(), 0, 0, 0)
    print(threading.main_thread().native_id, threading.get_native_id(), flush=True)
    sys.stdin.read()
threading.Thread(target=second).start()
"""


@contextmanager
def process(name: str) -> Iterator[tuple[int, int]]:
    command = [sys.executable, "-c", PROGRAM, name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        first, second = child.stdout.readline().split()
        yield int(first), int(second)
        child.communicate()


def nice(thread: int) -> int:
    return os.getpriority(os.PRIO_PROCESS, thread)


def test_lowered_priority_affects_only_compiler_of_new_process() -> None:
    mine = nice(0)
    with process("C2 CompilerThread0") as (_, old):
        with (
            lowered_priority(),
            process("C1 CompilerThread0") as (main, other),
            process("C2 CompilerThread0") as (_, new),
        ):
            deadline = time.monotonic() + 10
            while nice(new) != 19 and time.monotonic() < deadline:
                time.sleep(0.01)
            assert nice(new) == 19
            assert (nice(main), nice(other)) == (mine, mine)
        assert nice(old) == mine, "it was there before"
    assert nice(0) == mine


def test_lowered_priority_without_new_process_does_not_wait() -> None:
    with lowered_priority():
        pass
