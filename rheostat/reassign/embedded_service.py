"""The whole service, as `rheostat run` has it, for as long as a plan is watched."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TextIO

from rheostat.config.resources import state_dir
from rheostat.console.logs import set_up_logs
from rheostat.console.output import tell
from rheostat.reassign.view import say
from rheostat.run.supervisor import Supervisor, children_for

LEFT_S_MAX = 60.0  # Two idle looks and the endings, on a machine that has much to do.
_LOOK_EVERY_S = 1.0
_TICK_S = 0.2


class EmbeddedService:
    """Nothing, where no settings file is given, or where a tuner runs already: that one executes the plan."""

    def __init__(self, config: Path | None, tuners: int | None) -> None:
        self._supervisor: Supervisor | None = None
        self._words: TextIO | None = None
        self.log = state_dir() / "reassign.log"
        if config is None:
            return
        if tuners:
            say("A tuner runs for this cluster already, and executes the plan: none is started here.")
            return
        self.log.parent.mkdir(parents=True, exist_ok=True)
        say(f"Collector, stream and tuner run here until the plan has ended; their log: {self.log}")
        self._supervisor = Supervisor(children_for(config, dry_run=False), log_to=self.log)

    @property
    def runs(self) -> bool:
        return self._supervisor is not None

    def __enter__(self) -> EmbeddedService:
        if self._supervisor is not None:
            # What the supervisor has to say goes where its parts say theirs: a person looks at a picture of the plan.
            self._words = self.log.open("a", buffering=1)
            set_up_logs(self._words)
        self.look()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._supervisor is None or self._words is None:
            return
        tell("Ending tuner, stream and collector.")
        try:
            self._supervisor.stop()
        finally:
            set_up_logs()
            self._words.close()

    def look(self) -> tuple[str, ...]:
        """Starts what is due, notices what died; to be called several times a second. What a person should know of it."""
        if self._supervisor is None:
            return ()
        before = {child.name: child.restarts for child in self._supervisor.children}
        self._supervisor.check()
        return tuple(
            f"{child.name} ended by itself and is started again; see {self.log}"
            for child in self._supervisor.children
            if child.restarts > before[child.name]
        )

    def settle(self, stands: Callable[[], bool], tick: Callable[[], None]) -> bool:
        """Lets the tuner take back what it has put on for the plan, which it does some seconds after the last step.

        Args:
            stands: whether anything of it still does.
            tick: called several times a second meanwhile.

        Returns:
            Whether nothing does any more; also where another tuner sees to that.
        """
        deadline = time.monotonic() + LEFT_S_MAX
        while self.runs and stands():
            if time.monotonic() > deadline:
                return False
            for _ in range(round(_LOOK_EVERY_S / _TICK_S)):
                tick()
                threading.Event().wait(_TICK_S)
        return True
