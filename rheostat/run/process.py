"""Starts and stops child processes that never outlive this process.

Three measures ensure that. The parent stops the child before the parent ends. The child has its own session, so that Ctrl-C
reaches only the parent. And on Linux the kernel kills the child if the parent is killed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from streaming.shared.deferred_interrupts import DeferredInterrupts

_PR_SET_PDEATHSIG = 1
_AUTOGROUP = b"/proc/self/autogroup"
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def _before_exec(parent: int, nice: int) -> Callable[[], None]:
    """Returns a function for the child process that runs between fork and exec."""

    def prepare() -> None:
        # Between fork and exec nothing may take a lock, so this function neither logs nor imports.
        os.nice(nice)
        if nice:
            _nice_session(nice)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        if _LIBC is not None:
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # The parent has died before the line above was executed.
                os._exit(1)

    return prepare


def _nice_session(nice: int) -> None:
    """Sets the niceness of the whole session: with autogroups, nice(1) counts only within a session."""
    try:
        file = os.open(_AUTOGROUP, os.O_WRONLY)
    except OSError:
        return  # The kernel has no autogroups, or the container may not set them.
    try:
        os.write(file, b"%d" % nice)
    except BlockingIOError:
        pass  # Without root the kernel allows ten such writes per second. After them only nice(1) applies.
    finally:
        os.close(file)


def spawn(
    command: Sequence[str], *, log: Path | int, nice: int = 0, environ: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Starts a child in its own session, with its output in ``log``; ``nice`` as in nice(1).

    Args:
        environ: the environment of the child; None means the environment of this process.

    Only the main thread may call this, because the kernel kills the child when the thread that started it ends.
    """
    out = log if isinstance(log, int) else os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    child = None
    try:
        with DeferredInterrupts():
            child = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=environ,
                preexec_fn=_before_exec(os.getpid(), nice),
            )
    except BaseException:
        if child is not None:  # The caller does not have the child yet, so the child is stopped here.
            child.kill()
            child.wait(timeout=10)
        raise
    finally:
        if not isinstance(log, int):
            os.close(out)
    return child


def stop(process: subprocess.Popen[bytes], *, grace_s: float) -> None:
    """Sends SIGTERM, and SIGKILL after ``grace_s`` seconds; returns when the process has ended."""
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(timeout=grace_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(timeout=10)
