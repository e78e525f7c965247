"""Plans in sentences."""

from __future__ import annotations

from rheostat.reassign.progress import PlanProgress, limits_record
from streaming.shared.short_lists import shorten_lines
from streaming.shared.units import rate_text, size_text, span_text
from tuner.core.batch_limits import BatchLimits
from tuner.core.reassignment_plan import DesiredPlanState, PlanEnding, PlanThrottle

BATCH_SHOWN = 8


def sentences(shown: PlanProgress, *, ends: bool = True) -> list[str]:
    """
    Args:
        ends: also when it ends.
    """
    plan, state = shown.plan, shown.plan.state
    said = [f"Plan {plan.id}, given by {plan.head.submitted_by}: {standing(shown)}"]
    if state.ending is not None:
        return [*said, *(f"  {line}" for line in state.blockers)]
    said.append(f"  {progress(shown, ends=ends)}")
    batch = [f"{topic}-{number}: {list(current)} → {list(target)}" for (topic, number), current, target in shown.batch]
    said += [f"  {line}" for line in shorten_lines(batch, BATCH_SHOWN, "under way (--json has all)")]
    bounds = (limits_text(plan.head.limits), throttle_text(plan.head.throttle))
    said += [f"  {line}" for line in (*bounds, *state.blockers, *shown.new_partitions, *state.concurrency)]
    return said


def standing(shown: PlanProgress) -> str:
    plan, state = shown.plan, shown.plan.state
    if state.ending is PlanEnding.DONE:
        return (
            "done."
            if not state.dropped
            else f"done, but for {len(state.dropped)} partitions that are not there any more."
        )
    if state.ending is PlanEnding.CANCELLED:
        tally = state.result
        return (
            "cancelled."
            if tally is None
            else f"cancelled; {tally.at_target} of {tally.partitions} partitions are at their target."
        )
    if state.acknowledged_at_ms < plan.head.ordered_at_ms:
        return f"{plan.head.desired.value}, as soon as a tuner heeds it."
    if plan.head.no_rollback:
        return "ending where it stands."
    return {
        DesiredPlanState.RUNNING: "running.",
        DesiredPlanState.PAUSED: "paused.",
        DesiredPlanState.CANCELLING: "being put back.",
    }[plan.head.desired]


def progress(shown: PlanProgress, rate_bytes_per_s: float | None = None, *, ends: bool = True) -> str:
    """One line: partitions, bytes, what is under way, and how long it still takes."""
    copied, *pace = amounts(shown, rate_bytes_per_s)
    pace = pace if ends else []
    return ", ".join(
        [f"{shown.arrived} of {shown.partitions} partitions", copied, f"{len(shown.batch)} under way", *pace]
    )


def amounts(shown: PlanProgress, rate_bytes_per_s: float | None = None) -> list[str]:
    """Bytes, their rate, and how long it still takes; the last two where they are known."""
    said = [f"{size_text(shown.copied_bytes)} of {size_text(shown.total_bytes)}"]
    if rate_bytes_per_s:
        said.append(rate_text(rate_bytes_per_s))
    if shown.eta_s is not None and shown.remaining_bytes > 0:
        said.append(f"about {span_text(shown.eta_s)} left")
    return said


def batch_text(shown: PlanProgress) -> str:
    """What is under way, the first few by name: the replicas as they are, and those that the step ends with."""
    moves = [f"{t}-{n} {_ids(current)} → {_ids(target)}" for (t, n), current, target in shown.batch[:BATCH_SHOWN]]
    said = f"{len(shown.batch)} under way"
    return f"{said}: {', '.join(moves)}" if moves else said


def _ids(replicas: tuple[int, ...]) -> str:
    return f"({','.join(map(str, replicas))})"


def throttle_text(throttle: PlanThrottle) -> str:
    """What the plan may use of each broker and side."""
    if throttle.unthrottled:
        return "not throttled (--unthrottled): the ceiling does not hold for it"
    asked = throttle.rate_bytes_per_s_max
    if asked is None:
        return "throttled at the ceiling of the tuner at most, on each broker and side"
    return f"throttled at {rate_text(asked)} at most, on each broker and side (--throttle)"


def limits_text(limits: BatchLimits) -> str:
    named = {name.removeprefix("reassignment.max.concurrent."): value for name, value in limits_record(limits).items()}
    said = ", ".join(
        f"{value} {name.replace('.', ' ').removesuffix('s' if value == 1 else '')}"
        for name, value in named.items()
        if value is not None
    )
    return f"at most {said} at a time" if said else "no limits of its own"
