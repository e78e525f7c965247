"""`rheostat fetchers --apply`: whether somebody agrees, what is left alone, and how it ended, in words."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from rheostat.console.confirm import confirm
from rheostat.console.interrupt import DeferredCtrlC
from rheostat.errors import CommandError
from rheostat.fetchers.apply import Outcome, ResizeRun, places_text
from rheostat.fetchers.fetcher_setting import LiveFetcherSetting, WallClock
from rheostat.fetchers.report import FetchersReport
from streaming.shared.kafka.fetchers import FetcherClient
from streaming.shared.units import span_text
from tuner.core.fetchers import NUM_REPLICA_FETCHERS
from tuner.planning.fetcher_change import ResizePlan, plan_resize

# A follower leaves the in-sync set after replica.lag.time.max.ms, half a minute: a step is well when that has passed some times.
SETTLE_S = 120.0
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class FetcherChange:
    """That the value be changed."""

    value: int | None = None  # None: to the best.
    settle_s: float = SETTLE_S
    yes: bool = False  # Nobody is to be asked.


def applied(client: FetcherClient, made: FetchersReport, wanted: FetcherChange, say: Say) -> Outcome:
    """Changes it, if somebody agrees.

    Raises:
        CommandError: partitions are being reassigned.
        NotConfirmedError: the operator did not agree.
    """
    value = wanted.value if wanted.value is not None else made.best.fetchers if made.pays else None
    if value is None:
        return _nothing(made, say, "No other value is clearly better: nothing was changed.")
    knob = LiveFetcherSetting(client, sorted(made.fetchers))
    asked = plan_resize(knob.settings(), knob.default(), value)
    for broker, other in asked.left_alone.items():
        say(f"Broker {broker} has {other}, which somebody set for it: it is left alone.")
    if not asked.steps:
        return _nothing(made, say, f"{NUM_REPLICA_FETCHERS} is {value} already: nothing was changed.")
    if (moving := knob.look().moving) > 0:
        raise CommandError(
            f"{moving} partitions are being reassigned, and every change of {NUM_REPLICA_FETCHERS} starts all fetcher threads "
            "anew: nothing was changed. Ask again when they are done; `rheostat status` shows how far they are."
        )
    confirm([_change_line(asked, wanted.settle_s)], yes=wanted.yes)
    with ExitStack() as stack, DeferredCtrlC() as ctrl_c:
        outcome = ResizeRun(knob, asked, wanted.settle_s, WallClock(ctrl_c), say, _bar(stack)).run()
    say(_ended(asked, outcome))
    return outcome


def _nothing(made: FetchersReport, say: Say, text: str) -> Outcome:
    say(text)
    return Outcome(made.today.fetchers or 0, changed=False)


def _change_line(asked: ResizePlan, settle_s: float) -> str:
    steps = ", ".join(map(str, asked.steps))
    return (
        f"Set {NUM_REPLICA_FETCHERS} from {asked.current} to {steps} on {places_text(asked)}, each watched for "
        f"{span_text(settle_s)}."
    )


def _ended(asked: ResizePlan, outcome: Outcome) -> str:
    if outcome.why is None:
        brokers = ", ".join(map(str, asked.brokers))
        return f"Done: {NUM_REPLICA_FETCHERS}={asked.desired} is in force on broker {brokers}, read back."
    return f"Not as asked: {outcome.why}."


def _bar(stack: ExitStack) -> Any:
    """Shows how much is done, where somebody sees it."""
    if not sys.stderr.isatty():
        return lambda _: None
    from rich.progress import Progress

    from rheostat.console.rich_console import console_for

    bar = stack.enter_context(Progress(console=console_for(sys.stderr), transient=True))
    task = bar.add_task("steps watched", total=1.0)
    return lambda share: bar.update(task, completed=share)
