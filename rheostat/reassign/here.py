"""The whole service, as `rheostat run` has it, for as long as a plan is watched."""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType

from rheostat.resources import state_dir
from rheostat.supervisor import Supervisor, children_for


class Here:
    """Nothing, where no settings file is given, or where a tuner runs already: that one executes the plan."""

    def __init__(self, config: Path | None, tuners: int | None) -> None:
        self._supervisor: Supervisor | None = None
        if config is None:
            return
        if tuners:
            sys.stderr.write("A tuner runs for this cluster already, and executes the plan: none is started here.\n")
            return
        log = state_dir() / "reassign.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        sys.stderr.write(f"Collector, stream and tuner run here until the plan has ended; their log: {log}\n")
        self._supervisor = Supervisor(children_for(config, dry_run=False), log_to=log)

    @property
    def runs(self) -> bool:
        return self._supervisor is not None

    def __enter__(self) -> Here:
        self.look()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._supervisor is not None:
            self._supervisor.stop()

    def look(self) -> None:
        """Starts what is due, notices what died; to be called several times a second."""
        if self._supervisor is not None:
            self._supervisor.look()
