"""SIGHUP, and the settings file as the tuner asks for it again."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

from rheostat.config.change_watch import ConfigWatch
from tuner.core.partition_limits import PartitionLimits
from tuner.settings.tuner import TunerSettings


class ReloadsOf:
    """The watch of the settings file, as the tuner asks it."""

    def __init__(self, watch: ConfigWatch, *, dry_run: bool) -> None:
        self.waiting = watch.waiting
        self._watch = watch
        self._dry_run = dry_run  # By the command's option it may be another than the file's.

    def take(self) -> tuple[TunerSettings, PartitionLimits]:
        found = self._watch.take()
        return found.tuner.model_copy(update={"dry_run": self._dry_run}), found.limits.limits()


def heed_hangup(reload: Callable[[], None], stop: threading.Event) -> None:
    """SIGHUP has the settings read again. To what runs in the foreground of a terminal that has gone it means what it always has,
    the end; not to what runs behind it, or under nohup: that was meant to go on."""
    ends = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN and _in_foreground()

    def heed(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the shape of a handler
        if ends and not _has_terminal():
            stop.set()
        else:
            reload()

    signal.signal(signal.SIGHUP, heed)


def _in_foreground() -> bool:
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
