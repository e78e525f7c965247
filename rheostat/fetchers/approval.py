"""Runs `rheostat fetchers --apply`: asks the operator, changes the setting, and reports the outcome."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from rheostat.console.confirm import confirm
from rheostat.console.interrupt import DeferredCtrlC
from rheostat.errors import CommandError
from rheostat.fetchers.apply import ResizeOutcome, ResizeRun, targets_text
from rheostat.fetchers.fetcher_setting import InterruptibleClock, LiveFetcherSetting
from rheostat.fetchers.report import FetchersReport
from streaming.shared.kafka.fetchers import FetcherClient
from streaming.shared.units import span_text
from tuner.core.fetchers import NUM_REPLICA_FETCHERS
from tuner.planning.fetcher_change import ResizePlan, plan_resize

# A follower that lags leaves the ISR after replica.lag.time.max.ms, 30 s by default, so harm shows well within this time.
OBSERVE_S = 120.0
Notify = Callable[[str], None]  # Shows a line to the operator.


@dataclass(frozen=True, slots=True)
class FetcherChange:
    """The requested change.

    Attributes:
        value: the new value of num.replica.fetchers; None means the best value of the report.
        observe_s: how long to watch the followers after each step.
        yes: whether to change the setting without a question.
    """

    value: int | None = None
    observe_s: float = OBSERVE_S
    yes: bool = False


def apply_change(client: FetcherClient, report: FetchersReport, change: FetcherChange, notify: Notify) -> ResizeOutcome:
    """Changes the setting, if the operator agrees.

    Raises:
        CommandError: partitions are being reassigned.
        NotConfirmedError: the operator did not agree.
    """
    best = report.best.fetchers if report.is_worthwhile else None
    value = best if change.value is None else change.value
    if value is None:
        return _skip(report, notify, "No other value is clearly better: nothing was changed.")
    setting = LiveFetcherSetting(client, sorted(report.fetchers))
    plan = plan_resize(setting.read_settings(), setting.read_default(), value)
    for broker, own_value in plan.left_alone.items():
        notify(
            f"Broker {broker} has its own value {own_value}, which differs from the other brokers: it is not changed."
        )
    if not plan.steps:
        return _skip(report, notify, f"{NUM_REPLICA_FETCHERS} is {value} already: nothing was changed.")
    if (moving := setting.sample_followers().moving) > 0:
        raise CommandError(
            f"{moving} partitions are being reassigned, and every change of {NUM_REPLICA_FETCHERS} restarts all fetcher threads: "
            "nothing was changed. Try again when the reassignments are done; `rheostat status` shows their progress."
        )
    confirm([_change_line(plan, change.observe_s)], yes=change.yes)
    with ExitStack() as stack, DeferredCtrlC() as ctrl_c:
        show_progress = _open_progress_bar(stack)
        run = ResizeRun(setting, plan, change.observe_s, InterruptibleClock(ctrl_c), notify, show_progress)
        outcome = run.run()
    notify(_outcome_line(plan, outcome))
    return outcome


def _skip(report: FetchersReport, notify: Notify, text: str) -> ResizeOutcome:
    """Shows why nothing is changed, and returns that outcome."""
    notify(text)
    # The outcome holds a single value. The value is 0 if the brokers have different values.
    return ResizeOutcome(report.current.fetchers or 0, changed=False)


def _change_line(plan: ResizePlan, observe_s: float) -> str:
    steps = ", ".join(map(str, plan.steps))
    return (
        f"Set {NUM_REPLICA_FETCHERS} from {plan.current} to {steps} on {targets_text(plan)}, and watch each step for "
        f"{span_text(observe_s)}."
    )


def _outcome_line(plan: ResizePlan, outcome: ResizeOutcome) -> str:
    if outcome.why is None:
        brokers = ", ".join(map(str, plan.brokers))
        return f"Done: {NUM_REPLICA_FETCHERS}={plan.desired} is in force on broker {brokers}, read back."
    return f"The change was not made as requested: {outcome.why}."


def _open_progress_bar(stack: ExitStack) -> Callable[[float], None]:
    """Returns a function that shows the completed share, from 0 to 1, on a terminal, and does nothing elsewhere."""
    if not sys.stderr.isatty():
        return lambda _: None
    from rich.progress import Progress

    from rheostat.console.rich_console import console_for

    bar = stack.enter_context(Progress(console=console_for(sys.stderr), transient=True))
    task = bar.add_task("steps watched", total=1.0)
    return lambda share: bar.update(task, completed=share)
