"""Whether the settings file still says what runs, and whether the next start would take it.

Intuition: nothing is reloaded, as a tuner that changes its ceiling half way through a move would have to explain itself twice. But
a part that dies is started again by its supervisor, with the file as it is then: whoever has left a fault in it should hear of
that from an alert at noon, and not from a part that does not come back at night.

The file is looked at when somebody asks, and read again only where it has changed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import structlog

from rheostat.errors import BadInputError
from rheostat.settings import Settings, load_settings
from streaming.own_metrics import ConfigState

log = structlog.get_logger("settings")

_Stamp = tuple[int, int, int] | None


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
        self._stamp = self._stamp_now()
        self._state = ConfigState(good=True, good_at_s=wall_clock(), in_force=True)

    def state(self) -> ConfigState:
        with self._lock:
            stamp = self._stamp_now()
            if stamp != self._stamp:
                self._stamp = stamp
                self._state = self._read()
            return self._state

    def _read(self) -> ConfigState:
        try:
            found = load_settings(self._path, self._environ)
        except BadInputError as error:
            log.error(
                "the settings file has changed, and the next start would refuse it; what runs goes on as before",
                error=str(error),
            )
            return ConfigState(good=False, good_at_s=self._state.good_at_s, in_force=False)
        in_force = found == self._settings
        if not in_force:
            log.warning("the settings file has changed; a restart takes that up", file=str(self._path))
        return ConfigState(good=True, good_at_s=self._wall_clock(), in_force=in_force)

    def _stamp_now(self) -> _Stamp:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return (found.st_mtime_ns, found.st_size, found.st_ino)
