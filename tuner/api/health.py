"""Tells whether the tuner's work goes on: for /healthz, and for the watchdog of the service manager."""

from __future__ import annotations

from tuner.api.status_store import StatusStore

_CYCLES_MISSED_MAX = 12  # The health check fails once no cycle has ended for this many intervals.
_FIRST_CYCLE_S_MAX = 300.0  # The first cycle reads the whole cluster; a restart would begin it again.


class TunerHealth:
    """The health of one tuner process."""

    def __init__(self, store: StatusStore, cycle_s: float) -> None:
        """
        Args:
            cycle_s: interval of the tuner's cycles.
        """
        self._store = store
        self._missed_s = _CYCLES_MISSED_MAX * cycle_s
        self._was_ready = False

    def fault(self) -> str | None:
        """Returns why the tuner's work has stopped; None while it goes on. The work of a standby is to ask for the lease."""
        allowed_s = self._missed_s if self._store.cycled_at_s is not None else max(self._missed_s, _FIRST_CYCLE_S_MAX)
        silent_s = self._store.silent_s()
        if silent_s <= allowed_s:
            return None
        missing = "no cycle has ended" if self._store.active else "this standby has not asked for the lease"
        return f"{missing} for {silent_s:.0f} s"

    @property
    def is_ready(self) -> bool:
        """Whether the tuner has ended its first cycle, or stands by for another tuner; from then on it stays ready.

        Signals are not needed: another process makes them, and it may start later.
        """
        self._was_ready = self._was_ready or self._store.cycled_at_s is not None or self._store.stands_by
        return self._was_ready

    @property
    def status(self) -> str:
        """One line for the operator, without names of hosts."""
        return self._store.public_readiness()[1]
