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
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

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


class _KeptSignals:
    """Ctrl-C and the like, kept while it is entered.

    A handler's error is lost while Python forks: it can only be printed there, and who pressed Ctrl-C is not heard.
    """

    _NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self._came: list[int] = []
        self._keeps = False
        self._before: dict[int, Callable[[int, FrameType | None], object]] = {}

    def __enter__(self) -> None:
        # Only there do handlers run, and only there can they be changed.
        numbers = self._NUMBERS if threading.current_thread() is threading.main_thread() else ()
        handlers = {number: signal.getsignal(number) for number in numbers}
        self._before = {number: handler for number, handler in handlers.items() if callable(handler)}
        for number in self._before:
            signal.signal(number, self._keep)
        self._keeps = True

    def __exit__(self, *_: object) -> None:
        # A handler put back may raise before the next one is: whoever is left here passes on what comes.
        self._keeps = False
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def pass_on(self) -> None:
        """To the handlers that stood before, which may raise."""
        while self._came:
            signal.raise_signal(self._came.pop(0))

    def _keep(self, number: int, frame: FrameType | None) -> None:
        if self._keeps:
            self._came.append(number)
        else:
            self._before[number](number, frame)


def spawn(command: Sequence[str], *, log: Path | int, nice: int = 0) -> subprocess.Popen[bytes]:
    """Starts a child in a session of its own, its output going to ``log``; ``nice`` as in nice(1).

    Call it from the main thread: the kernel ties the child's life to the thread that made it.
    """
    out = log if isinstance(log, int) else os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    kept, child = _KeptSignals(), None
    try:
        with kept:
            child = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_before_exec(os.getpid(), nice),
            )
        kept.pass_on()
    except BaseException:
        if child is not None:  # Nobody else knows of it yet.
            child.kill()
            child.wait(timeout=10)
        kept.pass_on()
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
