"""Describes plans and their progress in sentences for people."""

from __future__ import annotations

from collections.abc import Sequence

from rheostat.reassign.progress import PlanProgress, limits_record
from rheostat.start_times import local_text
from streaming.shared.short_lists import shorten_lines
from streaming.shared.units import rate_text, size_text, span_text
from tuner.core.batch_limits import BatchLimits
from tuner.core.reassignment_plan import DesiredPlanState, PlanEnding, PlanThrottle

MOVES_SHOWN = 8


def describe_plan(progress: PlanProgress, *, with_eta: bool = True) -> list[str]:
    """Returns the lines of a plan: its state, progress, running steps, limits and blockers."""
    plan, state = progress.plan, progress.plan.state
    header = f"Plan {plan.id}, submitted by {plan.head.submitted_by}: {state_text(progress)}"
    if state.ending is not None:
        return [header, *(f"  {line}" for line in state.blockers)]
    moves = [
        f"{topic}-{number}: {replicas_text(current)} → {replicas_text(target)}"
        for (topic, number), current, target in progress.batch
    ]
    lines = [
        progress_text(progress, with_eta=with_eta),
        *shorten_lines(moves, MOVES_SHOWN, "moving (--json has all)"),
        limits_text(plan.head.limits),
        throttle_text(plan.head.throttle),
        *([f"cordons {_brokers_text(plan.head.cordon)} before the first step"] if plan.head.cordon else ()),
        *state.blockers,
        *progress.new_partitions,
        *state.concurrency,
    ]
    return [header, *(f"  {line}" for line in lines)]


def state_text(progress: PlanProgress) -> str:
    """Returns the state of a plan in a few words, with a full stop."""
    plan, state = progress.plan, progress.plan.state
    if state.ending is PlanEnding.DONE:
        if not state.dropped and plan.head.cordon and not state.blockers:
            return f"done; no replica is left on {_brokers_text(plan.head.cordon)}."
        if not state.dropped:
            return "done."
        count = len(state.dropped)
        missing = "1 partition that no longer exists" if count == 1 else f"{count} partitions that no longer exist"
        return f"done, except {missing}."
    if state.ending is PlanEnding.CANCELLED:
        if (result := state.result) is None:
            return "cancelled."
        return f"cancelled; {result.at_target} of {result.partitions} partitions are at their target."
    if state.acknowledged_at_ms < plan.head.ordered_at_ms:
        return f"{plan.head.desired.value}, once a tuner acknowledges it."
    # A plan that is cancelled without rollback also has the desired state CANCELLING, but its replicas are not rolled back.
    if plan.head.no_rollback:
        return "ending without rollback."
    if plan.head.desired is DesiredPlanState.RUNNING and plan.head.waits_for_start(progress.at_ms):
        return f"waiting; it starts {local_text(plan.head.not_before_ms)}."
    return {
        DesiredPlanState.RUNNING: "running.",
        DesiredPlanState.PAUSED: "paused.",
        DesiredPlanState.CANCELLING: "being rolled back.",
    }[plan.head.desired]


def _brokers_text(brokers: Sequence[int]) -> str:
    return f"broker{'s' if len(brokers) != 1 else ''} {', '.join(map(str, brokers))}"


def progress_text(progress: PlanProgress, rate_bytes_per_s: float | None = None, *, with_eta: bool = True) -> str:
    """Returns one line with partitions, bytes, moving partitions, rate and time left."""
    copied, *rate_and_eta = amount_texts(progress, rate_bytes_per_s)
    counts = [f"{progress.arrived} of {progress.partitions} partitions", copied, f"{len(progress.batch)} moving"]
    return ", ".join([*counts, *(rate_and_eta if with_eta else ())])


def amount_texts(progress: PlanProgress, rate_bytes_per_s: float | None = None) -> list[str]:
    """Returns the copied bytes, then the rate and the time left if they are known."""
    texts = [f"{size_text(progress.copied_bytes)} of {size_text(progress.total_bytes)}"]
    if rate_bytes_per_s:
        texts.append(rate_text(rate_bytes_per_s))
    if progress.eta_s is not None and progress.remaining_bytes > 0:
        texts.append(f"about {span_text(progress.eta_s)} left")
    return texts


def moves_text(progress: PlanProgress) -> str:
    """Returns the number of moving partitions, and for the first few the replicas now and after the running step."""
    moves = [
        f"{topic}-{number} {replicas_text(current)} → {replicas_text(target)}"
        for (topic, number), current, target in progress.batch[:MOVES_SHOWN]
    ]
    text = f"{len(progress.batch)} moving"
    return f"{text}: {', '.join(moves)}" if moves else text


def replicas_text(replicas: tuple[int, ...]) -> str:
    """Returns the brokers of a partition's replicas as KIP-435 writes them, such as "(1,2,3)"."""
    return f"({','.join(map(str, replicas))})"


def throttle_text(throttle: PlanThrottle) -> str:
    """Returns a sentence on the highest rate of the plan for each broker and side."""
    if throttle.unthrottled:
        return "not throttled (--unthrottled): the ceiling does not apply"
    rate = throttle.rate_bytes_per_s_max
    if rate is None:
        return "each leader and follower throttle is at most the ceiling of the tuner"
    return f"each leader and follower throttle is at most {rate_text(rate)} (--throttle)"


def limits_text(limits: BatchLimits) -> str:
    """Returns the limits of a plan, such as "at most 2 leader movements at a time"."""
    by_name = {
        name.removeprefix("reassignment.max.concurrent."): value for name, value in limits_record(limits).items()
    }
    texts = []
    for name, value in by_name.items():  # Names such as "leader.movements".
        if value is not None:
            noun = name.replace(".", " ")
            texts.append(f"{value} {noun.removesuffix('s') if value == 1 else noun}")
    return f"at most {', '.join(texts)} at a time" if texts else "no limits of its own"
