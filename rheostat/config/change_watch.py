"""Reports whether the settings file still equals the settings in use, and reloads it on SIGHUP.

A saved change takes effect only on SIGHUP or a restart, because an operator may save a half-finished file. But if a process dies,
the supervisor restarts it with the present content of the file. Therefore a metric and an alert report a faulty file beforehand.

A SIGHUP to the tuner applies the keys in ``RELOADABLE``. A file with a fault, or with a change of any other key, changes nothing.
Every process applies a new log level on SIGHUP. The other processes apply nothing else: they log which changes of their own
sections need a restart.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import structlog

from rheostat.config.clusters import ClusterSettings
from rheostat.config.settings import Settings, load_file, load_settings
from rheostat.console.logs import LogLevel, set_log_level
from rheostat.errors import BadInputError
from streaming.shared.file_stamp import file_stamp
from streaming.shared.process_metrics import ConfigState
from tuner.settings.tuner import TunerSettings

log = structlog.get_logger("settings")

# A reload starts a new leadership term in the same process. These settings are used outside the term, so they need a restart.
_NEEDS_RESTART = {"dry_run", "cycle_s", "metrics", "http"}
RELOADABLE = frozenset(
    {"limits", *(f"tuner.{name}" for name in TunerSettings.model_fields if name not in _NEEDS_RESTART)}
)

_TUNER = "tune"
_CONNECTION = frozenset({"cluster", "kafka", "topics"})
# The sections that each process uses, besides the log level. The tuner uses all sections. "clusters" stands for an added or removed
# cluster, and "clusters.kafka" for the connection of one of several clusters.
_SECTIONS_OF: Mapping[str, frozenset[str]] = {
    "run": frozenset({"clusters"}),
    "collect": _CONNECTION | {"collector", "clusters", "clusters.kafka", "clusters.collector"},
    "stream": _CONNECTION | {"collector", "stream"},
    "learn": _CONNECTION | {"learn", "clusters"},
}


def changed_keys(before: Settings, after: Settings) -> list[str]:
    """Returns the differences: single keys of the tuner's section, and the names of other sections."""
    other_sections = [name for name in Settings.model_fields if name not in ("tuner", "clusters")]
    sections = [name for name in other_sections if getattr(before, name) != getattr(after, name)]
    if before.metrics_kafka != after.metrics_kafka and "kafka" not in sections:
        sections.append("kafka")
    if before.other_pages != after.other_pages:
        sections.append("clusters")  # In the settings of one cluster, only this field names the other clusters.
    keys = [name for name in TunerSettings.model_fields if getattr(before.tuner, name) != getattr(after.tuner, name)]
    return [*sections, *(f"tuner.{name}" for name in keys), *_changes_of_clusters(before, after)]


def _changes_of_clusters(before: Settings, after: Settings) -> list[str]:
    """Returns the sections that differ in each cluster; "clusters" if a cluster was added or removed."""
    if before.clusters.keys() != after.clusters.keys():
        return ["clusters"]
    return [
        f"clusters.{name}.{section}"
        for name, cluster in before.clusters.items()
        for section in ClusterSettings.model_fields
        if getattr(cluster, section) != getattr(after.clusters[name], section)
    ]


def _section_of(change: str) -> str:
    """Returns the section of a change, as ``_SECTIONS_OF`` names it."""
    section, _, rest = change.partition(".")
    return f"{section}.{rest.rpartition('.')[2]}" if section == "clusters" and rest else section


class ConfigWatch:
    """Compares the settings file with the settings in use, and keeps reloaded settings until a tuner takes them."""

    def __init__(
        self,
        path: Path,
        environ: Mapping[str, str],
        settings: Settings,
        wall_clock: Callable[[], float] = time.time,
        *,
        part: str = _TUNER,
        set_level: Callable[[LogLevel], None] = set_log_level,
    ) -> None:
        """
        Args:
            settings: the settings in use, read from this file and environment at the start.
            part: the process: "run", "collect", "stream", "learn" or "tune".
        """
        self._part = part
        self._set_level = set_level
        self._path = path
        self._environ = dict(environ)
        self._settings = settings
        self._wall_clock = wall_clock
        self._lock = threading.Lock()
        self._stamp = file_stamp(self._path)
        self._is_valid = True  # Whether the file can be used.
        self._valid_at_s = wall_clock()  # When the file was last valid.
        self._is_applied = True  # Whether the settings in use equal the file.
        self._reloads_taken = self._reloads_refused = 0
        self._reload_requested = threading.Event()
        self._before_reload: list[Callable[[], None]] = []
        self._after_reload: list[Callable[[], None]] = []
        self._new_settings: Settings | None = None  # Reloaded, and not yet taken by the tuner.

    def state(self) -> ConfigState:
        """Returns whether the file is valid and in use. Reads the file again if it has changed."""
        with self._lock:
            stamp = file_stamp(self._path)
            if stamp != self._stamp:
                self._stamp = stamp
                self._read()
            return ConfigState(
                is_valid=self._is_valid,
                valid_at_s=self._valid_at_s,
                is_applied=self._is_applied,
                reloads_taken=self._reloads_taken,
                reloads_refused=self._reloads_refused,
            )

    def request_reload(self) -> None:
        """Requests a reload from the thread of ``serve_reloads``, so that a signal handler may call this function."""
        self._reload_requested.set()

    def before_reload(self, function: Callable[[], None]) -> None:
        """Registers a function that is called before each requested reload."""
        self._before_reload.append(function)

    def after_reload(self, function: Callable[[], None]) -> None:
        """Registers a function that is called after each requested reload."""
        self._after_reload.append(function)

    def serve_reloads(self) -> None:
        """Starts the thread that carries out the requested reloads."""

        def serve() -> None:
            while self._reload_requested.wait():
                self._reload_requested.clear()
                for function in self._before_reload:
                    function()
                self.reload()
                for function in self._after_reload:
                    function()

        threading.Thread(target=serve, name="settings", daemon=True).start()

    def reload(self) -> None:
        """Reads the file again. Keeps the new settings for ``take``, or logs why they are refused."""
        with self._lock:
            self._stamp = file_stamp(self._path)
            new = self._read(is_requested=True)
            if new is not None:
                self._apply_level(new)
            changed = changed_keys(self._settings, new) if new is not None else []
            if self._part == _TUNER:
                need_restart = [key for key in changed if key not in RELOADABLE]
            else:
                need_restart = [key for key in changed if _section_of(key) in _SECTIONS_OF[self._part]]
            if new is None or need_restart:
                self._reloads_refused += 1
                self._new_settings = None
                if new is not None:  # If it is None, ``_read`` has logged the fault.
                    log.error(
                        f"the settings are not reloaded: a restart is needed for {', '.join(need_restart)}. The running settings "
                        "stay in use. Restart, or undo these changes and send SIGHUP again",
                        file=str(self._path),
                    )
                return
            if self._part != _TUNER:
                self._settings = new
                self._is_applied = True
                self._reloads_taken += 1
                return
            self._new_settings = new if changed else None
            if changed:
                log.info(
                    "the new settings are valid. The active tuner applies them within seconds, a standby when it gets the lease",
                    changed=changed,
                )
            else:
                self._is_applied = True
                self._reloads_taken += 1
                log.info("the settings file equals the settings in use; nothing to reload", file=str(self._path))

    def _apply_level(self, new: Settings) -> None:
        before, after = self._settings.log.level, new.log.level
        if before == after:
            return
        self._set_level("info")  # Otherwise the line about the change could be missing.
        log.info(f"log.level is now {after}", before=before)
        self._set_level(after)
        self._settings = self._settings.model_copy(update={"log": new.log})

    def waiting(self) -> bool:
        """Whether reloaded settings wait for ``take``."""
        return self._new_settings is not None

    def take(self) -> Settings:
        """Returns the reloaded settings, which are in use from now on."""
        with self._lock:
            new = self._new_settings or self._settings
            log.info("the settings are reloaded", changed=changed_keys(self._settings, new), file=str(self._path))
            self._settings, self._new_settings = new, None
            self._reloads_taken += 1
            self._is_valid = self._is_applied = True
            # The file may have changed since the reload. No file has this stamp, so the next ``state`` reads the file again.
            self._stamp = (-1, -1, -1)
            return new

    def _read(self, *, is_requested: bool = False) -> Settings | None:
        """Returns the settings of the file; None if they are invalid.

        Args:
            is_requested: whether a reload was requested. If it was, the caller logs whether a change is applied.
        """
        try:
            load = load_settings if self._part == _TUNER else load_file
            new = load(self._path, self._environ)
        except BadInputError as error:
            log.error(
                "the settings file has changed and is invalid: the next start would fail. The running settings stay in use. "
                "Correct the file",
                error=str(error),
            )
            self._is_valid = self._is_applied = False
            return None
        is_applied = new == self._settings
        if not is_applied and not is_requested:
            log.warning("the settings file has changed: send SIGHUP or restart to apply it", file=str(self._path))
        self._is_valid, self._valid_at_s, self._is_applied = True, self._wall_clock(), is_applied
        return new
