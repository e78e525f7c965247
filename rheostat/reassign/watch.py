"""A plan watched until it has ended: a progress bar on a terminal, elsewhere a line every few seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from rheostat.errors import CommandError
from rheostat.orders import HEEDED_S_MAX
from rheostat.reassign.given import client_of
from rheostat.reassign.picture import Picture, picture, to_measure
from rheostat.reassign.record import Follower, following
from rheostat.reassign.words import progress, standing
from rheostat.settings import Settings
from streaming.kafka.cluster import ClusterError
from tuner.actuate.reassignments import KafkaReassignments
from tuner.model.reassigning import Plan

LOOK_EVERY_S = 2.0
LINE_EVERY_S = 5.0
_PACE_S = 30.0  # The rate shown is of as long.
_TICK_S = 0.2


class View:
    """Where a person sees it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._line_due_s = 0.0
        self._said: tuple[str, ...] = ()

    def __enter__(self) -> View:
        if self._console.is_terminal:
            self._bar = Progress(
                BarColumn(),
                TextColumn("{task.percentage:>3.0f} %"),
                TextColumn("{task.description}"),
                console=self._console,
            )
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)

    def show(self, shown: Picture, rate_bytes_per_s: float | None) -> None:
        """What holds the plan up is said once; how far it is, again and again."""
        for line in (*shown.plan.state.said, *shown.plan.state.pace):
            if line not in self._said:
                self.say(f"  {line}")
        self._said = (*shown.plan.state.said, *shown.plan.state.pace)
        line = progress(shown, rate_bytes_per_s)
        if self._bar is None:
            if time.monotonic() >= self._line_due_s:
                self._line_due_s = time.monotonic() + LINE_EVERY_S
                self.say(line)
            return
        if self._task is None:
            self._task = self._bar.add_task("", total=1.0)
        # Of partitions where nothing is to be copied.
        share = (
            shown.copied_bytes / shown.total_bytes if shown.total_bytes else shown.arrived / max(1, shown.partitions)
        )
        self._bar.update(self._task, completed=min(1.0, share), description=line)


def watch(settings: Settings, plan: str, view: View, each_tick: Callable[[], None] = lambda: None) -> Picture:
    """Until the plan has ended.

    Args:
        each_tick: called several times a second, by this thread.

    Raises:
        CommandError: the journal or the cluster can't be read any more; the plan goes on.
    """
    seen: deque[tuple[float, float]] = deque()
    with client_of(settings) as client, following(settings) as follower:
        port = KafkaReassignments(client)
        due_s, blind, told = 0.0, False, False
        since_s = time.monotonic()
        while True:
            each_tick()
            if time.monotonic() < due_s:
                threading.Event().wait(_TICK_S)
                continue
            began_s = time.monotonic()
            found = _look(port, follower, plan)
            # A look at a large plan takes its time, which the cluster has other uses for.
            due_s = time.monotonic() + max(LOOK_EVERY_S, 5 * (time.monotonic() - began_s))
            if isinstance(found, ClusterError):
                if not blind:
                    view.say(f"  the cluster is not seen: {found}; the plan is not lost")
                blind = True
                continue
            blind = False
            late = time.monotonic() - since_s > HEEDED_S_MAX
            if late and not told and found.plan.state.heeded_at_ms < found.plan.head.at_ms:
                view.say(
                    "  no tuner has heeded it yet: none runs, or none that executes plans (tuner.reassign.enabled)"
                )
                told = True
            view.show(found, _rate(seen, found))
            if not found.plan.active:
                return found


def look(settings: Settings, plan: Plan) -> Picture:
    """One look.

    Raises:
        CommandError, UnreachableError: the cluster can't be read.
    """
    with client_of(settings) as client:
        found = _picture(KafkaReassignments(client), plan)
    if isinstance(found, ClusterError):
        raise CommandError(f"The cluster cannot be read: {found}.")
    return found


def _look(port: KafkaReassignments, follower: Follower, plan: str) -> Picture | ClusterError:
    return _picture(port, follower.now().of(plan))


def _picture(port: KafkaReassignments, plan: Plan) -> Picture | ClusterError:
    found = port.look({topic for topic, _ in plan.parts}, to_measure(plan))
    return found if isinstance(found, ClusterError) else picture(plan, found, round(time.time() * 1000))


def _rate(seen: deque[tuple[float, float]], shown: Picture) -> float | None:
    """Bytes/s over the last half minute; None before there are two looks, or where nothing was copied."""
    now_s = time.monotonic()
    seen.append((now_s, shown.copied_bytes))
    while now_s - seen[0][0] > _PACE_S:
        seen.popleft()
    since_s, had = seen[0]
    return (shown.copied_bytes - had) / (now_s - since_s) if now_s > since_s and shown.copied_bytes > had else None


def console() -> Console:
    return Console(file=sys.stderr)


__all__ = ["View", "console", "look", "standing", "watch"]
