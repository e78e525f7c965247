"""Reloads the settings on SIGHUP."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

from rheostat.config.change_watch import ConfigWatch
from tuner.core.partition_limits import PartitionLimits
from tuner.settings.tuner import TunerSettings


class SettingsReloads:
    """Passes reloaded settings to the tuner."""

    def __init__(self, watch: ConfigWatch, *, dry_run: bool) -> None:
        self.waiting = watch.waiting
        self._watch = watch
        self._dry_run = dry_run  # The value at the start stays, because the option --dry-run overrides the file.

    def take(self) -> tuple[TunerSettings, PartitionLimits]:
        """Returns the reloaded settings, which are in use from now on."""
        new = self._watch.take()
        return new.tuner.model_copy(update={"dry_run": self._dry_run}), new.limits.limits()


def reload_on_hangup(reload: Callable[[], None], stop: threading.Event) -> None:
    """Reloads the settings on SIGHUP.

    If SIGHUP means that the terminal of a foreground process has closed, the process ends instead, as is usual. A background
    process, or a process under nohup, continues.
    """
    ends_with_terminal = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN and _in_foreground()

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - signature of a signal handler
        if ends_with_terminal and not _has_terminal():
            stop.set()
        else:
            reload()

    signal.signal(signal.SIGHUP, handle)


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
