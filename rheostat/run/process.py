"""A child process that cannot outlive us, whatever ends us.

Three nets, because each has a hole: we stop it by name when all goes well; it sits in a session of its own, so Ctrl-C
reaches us first and not it; and the kernel kills it when we die without a word (Linux only).
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from streaming.shared.deferred_interrupts import DeferredInterrupts

_PR_SET_PDEATHSIG = 1
_AUTOGROUP = b"/proc/self/autogroup"
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def _before_exec(parent: int, nice: int) -> Callable[[], None]:
    def prepare() -> None:
        # Runs between fork and exec: nothing here may take a lock, so no logging and no imports.
        os.nice(nice)
        if nice:
            _nice_session(nice)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        if _LIBC is not None:
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # It died before the call above.
                os._exit(1)

    return prepare


def _nice_session(nice: int) -> None:
    """Where the kernel shares the processors out by session, nice(1) counts within the session alone."""
    try:
        file = os.open(_AUTOGROUP, os.O_WRONLY)
    except OSError:
        return  # A kernel that does not, or a container that may not.
    try:
        os.write(file, b"%d" % nice)
    except BlockingIOError:
        pass  # Ten a second for all who are not root; who comes too soon has nice(1) alone.
    finally:
        os.close(file)


def spawn(command: Sequence[str], *, log: Path | int, nice: int = 0) -> subprocess.Popen[bytes]:
    """Starts a child in a session of its own, its output going to ``log``; ``nice`` as in nice(1).

    Call it from the main thread: the kernel ties the child's life to the thread that made it.
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
                preexec_fn=_before_exec(os.getpid(), nice),
            )
    except BaseException:
        if child is not None:  # Nobody else knows of it yet.
            child.kill()
            child.wait(timeout=10)
        raise
    finally:
        if not isinstance(log, int):
            os.close(out)
    return child


def stop(process: subprocess.Popen[bytes], *, grace_s: float) -> None:
    """SIGTERM, then SIGKILL after ``grace_s``; returns when it is gone."""
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(timeout=grace_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(timeout=10)
