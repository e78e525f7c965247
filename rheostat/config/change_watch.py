"""Whether the settings file still says what runs, and whether the next start would take it; and its being read again on SIGHUP.

Intuition: what a person saves is not in force before they say so, as a file is saved half done, too. But a part that dies is
started again by its supervisor, with the file as it is then: whoever has left a fault in it should hear of that from an alert at
noon, and not from a part that does not come back at night.

The file is looked at when somebody asks, and read again only where it has changed. On SIGHUP the tuner takes up what it can change
while it runs; a file that has a fault, or that changes anything else, changes nothing.
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

# All that a term of the tuner is begun with. The others are of the process, or of other parts.
_NEEDS_RESTART = {"dry_run", "cycle_s", "metrics", "http"}
TAKEN = frozenset({"limits", *(f"tuner.{name}" for name in TunerSettings.model_fields if name not in _NEEDS_RESTART)})


def changes(before: Settings, after: Settings) -> list[str]:
    """The keys that differ: of the tuner one by one, of the others the section."""
    sections = [name for name in Settings.model_fields if name != "tuner"]
    found = [name for name in sections if getattr(before, name) != getattr(after, name)]
    mine = [name for name in TunerSettings.model_fields if getattr(before.tuner, name) != getattr(after.tuner, name)]
    return [*found, *(f"tuner.{name}" for name in mine)]


class ConfigWatch:
    """``settings`` is what was read at the start, of this file and this environment."""

    def __init__(
        self,
        path: Path,
        environ: Mapping[str, str],
        settings: Settings,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
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
        with self._lock:
            stamp = file_stamp(self._path)
            if stamp != self._stamp:
                self._stamp = stamp
                self._read()
            return ConfigState(self._good, self._good_at_s, self._in_force, self._taken, self._refused)

    def ask(self) -> None:
        """Has the file read again, by another thread; what a handler of signals may call."""
        self._asked.set()

    def follow(self, do: Callable[[], None]) -> None:
        """Has ``do`` called each time the file is read again because it was asked for."""
        self._followers.append(do)

    def heed_asks(self) -> None:
        def heed() -> None:
            while self._asked.wait():
                self._asked.clear()
                self.reload()
                for do in self._followers:
                    do()

        threading.Thread(target=heed, name="settings", daemon=True).start()

    def reload(self) -> None:
        """Reads the file again; what may be taken up waits to be, and else it is said why nothing is."""
        with self._lock:
            self._stamp = file_stamp(self._path)
            found = self._read(told=True)
            differ = changes(self._settings, found) if found is not None else []
            if found is None or (others := [key for key in differ if key not in TAKEN]):
                self._refused += 1
                self._fresh = None
                if found is not None:
                    log.error(
                        f"the settings are not taken up, as a restart is needed for {', '.join(others)}; what runs goes on as "
                        "before: restart it, or take these back and send SIGHUP again",
                        file=str(self._path),
                    )
                return
            self._fresh = found if differ else None
            if differ:
                log.info(
                    "the settings are good, and wait to be taken up: by a tuner that acts within seconds, by one that stands by "
                    "when its turn comes",
                    changed=differ,
                )
            else:
                self._taken += 1
                log.info("the settings file says what is in force already", file=str(self._path))

    def waiting(self) -> bool:
        return self._fresh is not None

    def take(self) -> Settings:
        """What was read last, which is in force from now on."""
        with self._lock:
            found = self._fresh or self._settings
            log.info("the settings are read again", changed=changes(self._settings, found), file=str(self._path))
            self._settings, self._fresh = found, None
            self._taken += 1
            self._good = self._in_force = True
            self._stamp = (-1, -1, -1)  # What came to the file since is seen at the next look, for it looks again.
            return found

    def _read(self, *, told: bool = False) -> Settings | None:
        """
        Args:
            told: whoever asks says what becomes of a change.
        """
        try:
            found = load_settings(self._path, self._environ)
        except BadInputError as error:
            log.error(
                "the settings file has changed, and the next start would refuse it; what runs goes on as before",
                error=str(error),
            )
            self._good = self._in_force = False
            return None
        in_force = found == self._settings
        if not in_force and not told:
            log.warning("the settings file has changed; SIGHUP or a restart takes that up", file=str(self._path))
        self._good, self._good_at_s, self._in_force = True, self._wall_clock(), in_force
        return found
