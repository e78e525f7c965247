"""Reports whether the settings file still equals the settings in use, and reloads it on SIGHUP.

A saved change takes effect only on SIGHUP or a restart, because a file may be saved half done. The supervisor restarts a process
that died with the file as it is then, so a faulty file is reported by a metric and an alert before that happens.

A SIGHUP applies the keys in ``RELOADABLE``. A file with a fault, or with a change of any other key, changes nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import structlog

from rheostat.config.settings import Settings, load_settings
from rheostat.errors import BadInputError
from streaming.shared.file_stamp import file_stamp
from streaming.shared.process_metrics import ConfigState
from tuner.settings.tuner import TunerSettings

log = structlog.get_logger("settings")

# These settings belong to the process, not to a leadership term.
_NEEDS_RESTART = {"dry_run", "cycle_s", "metrics", "http"}
RELOADABLE = frozenset(
    {"limits", *(f"tuner.{name}" for name in TunerSettings.model_fields if name not in _NEEDS_RESTART)}
)


def changes(before: Settings, after: Settings) -> list[str]:
    """Returns the keys that differ: each key of the tuner, and the name of each other section."""
    others = [name for name in Settings.model_fields if name != "tuner"]
    sections = [name for name in others if getattr(before, name) != getattr(after, name)]
    keys = [name for name in TunerSettings.model_fields if getattr(before.tuner, name) != getattr(after.tuner, name)]
    return [*sections, *(f"tuner.{name}" for name in keys)]


class ConfigWatch:
    """Compares the settings file with the settings in use, and keeps reloaded settings until a tuner takes them."""

    def __init__(
        self,
        path: Path,
        environ: Mapping[str, str],
        settings: Settings,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """
        Args:
            settings: the settings in use, read from this file and environment at the start.
        """
        self._path = path
        self._environ = dict(environ)
        self._settings = settings
        self._wall_clock = wall_clock
        self._lock = threading.Lock()
        self._stamp = file_stamp(self._path)
        self._good, self._good_at_s, self._in_force = True, wall_clock(), True
        self._taken = self._refused = 0
        self._asked = threading.Event()
        self._followers: list[Callable[[], None]] = []
        self._fresh: Settings | None = None

    def state(self) -> ConfigState:
        """Returns whether the file is valid and in use. Reads it again if it has changed."""
        with self._lock:
            stamp = file_stamp(self._path)
            if stamp != self._stamp:
                self._stamp = stamp
                self._read()
            return ConfigState(self._good, self._good_at_s, self._in_force, self._taken, self._refused)

    def ask(self) -> None:
        """Requests a reload, which another thread does. A signal handler may call it."""
        self._asked.set()

    def follow(self, do: Callable[[], None]) -> None:
        """Registers a function that is called after each requested reload."""
        self._followers.append(do)

    def serve_reloads(self) -> None:
        """Starts the thread that does the requested reloads."""

        def serve() -> None:
            while self._asked.wait():
                self._asked.clear()
                self.reload()
                for do in self._followers:
                    do()

        threading.Thread(target=serve, name="settings", daemon=True).start()

    def reload(self) -> None:
        """Reads the file again. Keeps the new settings for ``take``, or logs why they are refused."""
        with self._lock:
            self._stamp = file_stamp(self._path)
            new = self._read(is_requested=True)
            differ = changes(self._settings, new) if new is not None else []
            if new is None or (others := [key for key in differ if key not in RELOADABLE]):
                self._refused += 1
                self._fresh = None
                if new is not None:
                    log.error(
                        f"the settings are not reloaded: a restart is needed for {', '.join(others)}. The running settings "
                        "stay in use. Restart, or undo these changes and send SIGHUP again",
                        file=str(self._path),
                    )
                return
            self._fresh = new if differ else None
            if differ:
                log.info(
                    "the new settings are valid. The active tuner applies them within seconds, a standby when it gets the lease",
                    changed=differ,
                )
            else:
                self._taken += 1
                log.info("the settings file equals the settings in use; nothing to reload", file=str(self._path))

    def waiting(self) -> bool:
        """Whether reloaded settings wait for ``take``."""
        return self._fresh is not None

    def take(self) -> Settings:
        """Returns the reloaded settings, which are in use from now on."""
        with self._lock:
            new = self._fresh or self._settings
            log.info("the settings are reloaded", changed=changes(self._settings, new), file=str(self._path))
            self._settings, self._fresh = new, None
            self._taken += 1
            self._good = self._in_force = True
            self._stamp = (-1, -1, -1)  # A later change of the file is seen by the next ``state``.
            return new

    def _read(self, *, is_requested: bool = False) -> Settings | None:
        """Returns the settings of the file; None if they are invalid.

        Args:
            is_requested: a reload was requested; the caller logs what becomes of a change.
        """
        try:
            new = load_settings(self._path, self._environ)
        except BadInputError as error:
            log.error(
                "the settings file has changed and is invalid: the next start would fail. The running settings stay in use",
                error=str(error),
            )
            self._good = self._in_force = False
            return None
        in_force = new == self._settings
        if not in_force and not is_requested:
            log.warning("the settings file has changed: send SIGHUP or restart to apply it", file=str(self._path))
        self._good, self._good_at_s, self._in_force = True, self._wall_clock(), in_force
        return new
