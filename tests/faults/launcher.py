"""Starts the tuner as a user does, and records its steps; it can kill the tuner at a step and shift its clock.

    python launcher.py CLOCK PLAN.json tune --config rheostat.yaml

The product does not know this launcher. It wraps every request that changes a setting of the cluster, every confirming read,
the journal's records and commits, and the start of a cycle. A new step is therefore recorded when it is first made.

A *point* is the moment between two steps, named after both. CLOCK is a file with the seconds that are added to ``time.time``;
the launcher reads it several times a second. When everything is loaded, the launcher waits for the plan, which has these keys:

    trace    file that gets a JSON line before each step (monotonic seconds, process, step, point), and one after it
    spares   the process kills itself with SIGKILL at the first point that is not in this list; null: it lives
    stops    when this file exists, the process removes it right before its next request that sets rates, and suspends itself
             with SIGSTOP
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection
from functools import wraps
from pathlib import Path
from typing import Any

_CLOCK_READ_EVERY_S = 0.2
_PLAN_LOOKED_FOR_EVERY_S = 0.02
_SETS_RATES = "alter broker configs sets"


class Steps:
    """Records each step before it is made, and kills the process there unless the point is spared."""

    def __init__(self, trace: Path, spares: Collection[str] | None, stops: Path) -> None:
        self._trace = os.open(trace, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._spares = None if spares is None else frozenset(spares)
        self._stops = stops
        self._last = "start"
        self._lock = threading.Lock()
        self.recording = ""

    def made(self, step: str) -> None:
        with self._lock:
            point = f"{self._last} → {step}"
            self._last = step
            self._note({"step": step, "point": point})
            if self._spares is not None and point not in self._spares:
                os.kill(os.getpid(), signal.SIGKILL)
        if step == _SETS_RATES and self._stops.exists():
            self._stops.unlink()
            os.kill(os.getpid(), signal.SIGSTOP)

    def _note(self, what: dict[str, str]) -> None:
        line = {"at_s": time.monotonic(), "pid": os.getpid(), **what}
        os.write(self._trace, (json.dumps(line) + "\n").encode())

    def watch(self, owner: type, name: str, named: Callable[..., str]) -> None:
        real = getattr(owner, name)

        @wraps(real)
        def call(*args: Any, **kwargs: Any) -> Any:
            step = named(*args, **kwargs)
            self.made(step)
            result = real(*args, **kwargs)
            # What is asked of several is answered for each.
            failed = isinstance(result, dict) and any(result.values())
            self._note({"done": step} | ({"failed": "of some"} if failed else {}))
            return result

        setattr(owner, name, call)


def watch_all(steps: Steps) -> None:
    from kafka import KafkaProducer

    from streaming.shared.kafka.cluster import ClusterClient
    from streaming.shared.kafka.reassignments import ReassignmentClient
    from tuner.journal.kafka_journal import KafkaJournal
    from tuner.runtime.throttle.actuator import KafkaThrottles
    from tuner.runtime.throttle.loop import ThrottleController

    def record(_journal: KafkaJournal, records: Any, *_: Any, **__: Any) -> str:
        steps.recording = _record_name(records)
        return f"record {steps.recording}"

    def altered(_client: ClusterClient, changes: Any, **_: Any) -> str:
        values = [value for configs in changes.values() for value in configs.values()]
        return " removes" if values and all(value is None for value in values) else " sets"

    steps.watch(KafkaJournal, "take_over", lambda *_, **__: "take over")
    steps.watch(KafkaJournal, "_send", record)
    watched = KafkaJournal._send

    @wraps(watched)
    def listed(journal: KafkaJournal, records: Any, *args: Any, **kwargs: Any) -> None:
        watched(journal, list(records), *args, **kwargs)  # They are made as they are sent, and looked at before.

    setattr(KafkaJournal, "_send", listed)  # noqa: B010 - mypy takes the other way for a mistake
    steps.watch(KafkaProducer, "commit_transaction", lambda *_, **__: f"commit {steps.recording}")
    steps.watch(ThrottleController, "cycle", lambda *_: "cycle")
    for name in [n for n in vars(KafkaThrottles) if n.startswith("confirm")]:
        steps.watch(KafkaThrottles, name, lambda *_, n=name, **__: n.replace("_", " "))
    for name in [n for n in vars(ReassignmentClient) if n.startswith(("alter", "elect"))]:
        steps.watch(ReassignmentClient, name, lambda *_, n=name, **__: n.replace("_", " "))
    for name in [n for n in vars(ClusterClient) if n.startswith(("alter", "delete", "elect", "create"))]:
        what = name.replace("_", " ")
        how = altered if name.startswith("alter") else lambda *_, **__: ""
        steps.watch(ClusterClient, name, lambda *args, w=what, h=how, **kwargs: w + h(*args, **kwargs))


def _record_name(records: Any) -> str:
    """Returns what one write records, with equal text for equal content."""
    names = set()
    for key, value in records:
        kind = key.decode().split("|")[0]
        if kind in ("entry", "steering"):
            body = json.loads(value)
            kind = body["kind"] if body["kind"] in ("decision", "steering") else f"{body['kind']} {body['action']}"
            kind += " failed" if body.get("failure") else ""
        names.add(kind)
    return "+".join(sorted(names)) or "inputs"  # What decisions stood on may go on record by itself.


def set_clock(file: Path) -> None:
    """Shifts ``time.time`` by the seconds in the file; monotonic time is unchanged, as on a machine with a wrong clock."""
    real, monotonic = time.time, time.monotonic
    state = {"read_s": float("-inf"), "shift_s": 0.0}

    def shifted() -> float:
        now_s = monotonic()
        if now_s - state["read_s"] > _CLOCK_READ_EVERY_S:
            state["read_s"] = now_s
            state["shift_s"] = float(file.read_text() or 0)
        return real() + state["shift_s"]

    time.time = shifted


def main() -> None:
    faulthandler.register(signal.SIGUSR1)  # What it is about, where it hangs.
    set_clock(Path(sys.argv[1]))  # Before anything binds ``time.time``.
    import tuner.app  # noqa: F401 - what the command loads when it is called
    from rheostat.cli import main as program

    plan_file = Path(sys.argv[2])
    while not plan_file.exists():
        threading.Event().wait(_PLAN_LOOKED_FOR_EVERY_S)
    plan = json.loads(plan_file.read_text())
    watch_all(Steps(Path(plan["trace"]), plan["spares"], Path(plan["stops"])))
    sys.argv = ["rheostat", *sys.argv[3:]]
    program()


if __name__ == "__main__":
    main()
