"""`rheostat reassign start PLAN.json`: checked, put on record, watched until it has ended."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rheostat.config.settings import Settings, load_settings
from rheostat.console.confirm import check_can_confirm, confirm
from rheostat.console.interrupt import DeferredCtrlC
from rheostat.console.output import out
from rheostat.errors import EXIT_DONE, EXIT_NOT_ACKNOWLEDGED, EXIT_NOT_WELL, BadInputError, CommandError
from rheostat.orders.send import wrong_cluster_name
from rheostat.reassign import plan_store
from rheostat.reassign.checks import Checked, checked, ways_of
from rheostat.reassign.constraints import PlanConstraints, rate_lines, read_terms
from rheostat.reassign.embedded_service import EmbeddedService
from rheostat.reassign.interrupted import interrupted, left
from rheostat.reassign.plan_input import PlanGround, PlanInput, client_of, given_of, ground_of, plan_of
from rheostat.reassign.progress import PlanProgress, as_record
from rheostat.reassign.step_preview import as_rows, sentences_of_steps
from rheostat.reassign.text import standing
from rheostat.reassign.view import PlanView, console, say
from rheostat.reassign.watch import watch
from streaming.shared.short_lists import join_names
from tuner.core.batch_limits import BatchLimits
from tuner.core.reassignment_plan import DesiredPlanState, PlanThrottle, TopicPartition
from tuner.runtime.gc_tuning import tune_gc

_AGAIN_AFTER_S = 5.0
_SEEN_AGAIN_S = 60.0  # Looked on for so long, the plan was seen meanwhile, and what ended that is news.
_TICK_S = 0.2


@dataclass(frozen=True, slots=True)
class ReassignRequest:
    plan: Path
    limits: BatchLimits
    may_change_factor: bool = False
    watch_s: float = 10.0  # How long the logs are watched for what is written to them.
    dry_run: bool = False
    detach: bool = False
    here: bool = False
    as_json: bool = False
    throttle: PlanThrottle = field(default_factory=PlanThrottle)
    yes: bool = False  # Nothing is asked before it begins.


def run_reassign(config: Path, asked: ReassignRequest) -> int:
    """Returns the exit code."""
    tune_gc()
    # The plan first: what is wrong in it needs no cluster to be found.
    plan = plan_of(asked.plan)
    settings = load_settings(config)
    if not asked.dry_run:
        check_can_confirm(yes=asked.yes)
    with client_of(settings) as client:
        ground = ground_of(client, settings, {target.topic for target in plan.targets}, asked.watch_s, say)
    given = given_of(plan, ground)
    if not given.parts:
        return _nothing_to_do(given, asked)
    known = plan_store.read(settings)
    terms = read_terms(settings, asked.throttle, may_run=ground.tuners != 0, here=asked.here)
    found = checked(
        given,
        ground,
        rate_bytes_per_s_max=terms.rate_bytes_per_s,
        limits=settings.limits.limits(),
        may_change_factor=asked.may_change_factor,
        batch=asked.limits,
        others=known.active,
        leaders_ratio=terms.leaders_ratio,
        steers=terms.objective is not None,
    )
    taken = _taken_already(given.parts.keys(), known)
    if asked.dry_run:
        return _dry_run(given, ground, found, taken, terms, asked)
    for line in found.notes:
        say(line)
    if taken:
        raise BadInputError(taken[0])
    if found.forbidden:
        raise CommandError("\n".join([*found.forbidden, "Nothing is on record, and nothing is begun."]))
    if (other := wrong_cluster_name(settings)) is not None:
        raise BadInputError(other)
    if asked.here and not ground.tuners and settings.tuner.dry_run:
        raise BadInputError(
            "--standalone starts a tuner, and with these settings it would not act: write dry_run: false under tuner:. "
            "Nothing is on record."
        )
    if terms.nobody is not None:
        raise CommandError(terms.nobody)
    confirm(_foretold(given, found, terms), yes=asked.yes, word="unthrottled" if asked.throttle.unthrottled else None)
    with EmbeddedService(config, ground.tuners) if asked.here else EmbeddedService(None, ground.tuners) as service:
        head = plan_store.put(settings, given.parts, asked.limits, asked.throttle)
        say(f"Plan {head.id} is on record: {_count(given.parts)}.")
        if asked.detach:
            return _detached(settings, head.id, head.ordered_at_ms, asked)
        return _watched(settings, head.id, service, asked)


def _watched(settings: Settings, plan: str, service: EmbeddedService, asked: ReassignRequest) -> int:
    try:
        seen = _seen_to_its_end(settings, plan, service)
    except BaseException:
        # Whatever it was: the tuner here ends with it, and its throttles stay.
        if service.runs:
            left(plan, here=True)
        raise
    if isinstance(seen, int):
        return seen
    paused = seen.plan.is_active
    say(
        f"Plan {plan}: {standing(seen)}"
        + (" `rheostat reassign resume`, and a tuner, go on with it." if paused else "")
    )
    if asked.as_json:
        _print(as_record(seen))
    return EXIT_DONE if paused or seen.well else EXIT_NOT_WELL


def _seen_to_its_end(settings: Settings, plan: str, service: EmbeddedService) -> PlanProgress | int:
    """Or to where somebody who pressed Ctrl-C wants to leave it: then the exit code.

    Raises:
        CommandError: it can't be watched any more; with the service here, only where looking again is of no use.
    """
    answered = False  # With what is watched for: that it is so.
    told, rest_s = "", 0.0
    while True:
        began_s = time.monotonic()
        try:
            _rest(service, rest_s)
            return _look_on(settings, plan, service, may_pause=answered)
        except KeyboardInterrupt:
            # Who is asked once, and presses Ctrl-C again, doesn't want to wait for it.
            if answered:
                return left(plan, here=service.runs)
            rest_s = 0.0
            try:
                code = interrupted(settings, plan, here=service.runs)
            except CommandError as error:
                # What was answered is not said, or nobody knows: whoever answered it can look on, and press it again.
                say(str(error))
                continue
            if code is not None:
                return code
            answered = True
        except CommandError as error:
            # To end now would end the only executor, and leave its throttles.
            if not service.runs or isinstance(error, BadInputError):
                raise
            if str(error) != told or time.monotonic() - began_s > _SEEN_AGAIN_S:
                say(f"{str(error).rstrip('.')}. Looking again.")
            told, rest_s = str(error), _AGAIN_AFTER_S


def _rest(service: EmbeddedService, for_s: float) -> None:
    until_s = time.monotonic() + for_s
    while time.monotonic() < until_s:
        for line in service.look():
            say(f"  {line}")
        threading.Event().wait(_TICK_S)


def _look_on(settings: Settings, plan: str, service: EmbeddedService, *, may_pause: bool) -> PlanProgress:
    """Until the plan has ended, or is paused and nothing of it is under way; then until its throttles are taken back."""

    def rests(shown: PlanProgress) -> bool:
        return may_pause and shown.plan.head.desired is DesiredPlanState.PAUSED and not shown.plan.requested

    words = {"unacknowledged": f"the tuner here has not begun yet; its log: {service.log}"} if service.runs else {}
    with DeferredCtrlC() as ctrl_c, PlanView(console()) as view:

        def tick() -> None:
            ctrl_c.check()
            for line in service.look():
                view.say(f"  {line}")

        seen = watch(settings, plan, view, each_tick=tick, enough=rests, **words)
        if service.runs and plan_store.throttles_stand(settings):
            view.say("The throttles are being taken back.")
            if not service.settle(lambda: plan_store.throttles_stand(settings), tick):
                view.say("Not all of them are taken back yet: the next tuner that acts goes on with that.")
    return seen


def _detached(settings: Settings, plan: str, at_ms: int, asked: ReassignRequest) -> int:
    took = plan_store.acknowledged(settings, plan, at_ms)
    if asked.as_json:
        _print({"plan": plan, "acknowledged": took})
    if not took:
        say(
            "No tuner has acknowledged it yet: the next that acts, and executes plans (tuner.reassign.enabled), begins with it."
        )
    return EXIT_DONE if took else EXIT_NOT_ACKNOWLEDGED


def _nothing_to_do(given: PlanInput, asked: ReassignRequest) -> int:
    if asked.as_json:
        _print({"plan": None, "partitions": 0})
    say(f"Nothing is to be moved: all {len(given.targets)} partitions of the plan are where they shall be.")
    return EXIT_DONE


def _foretold(given: PlanInput, found: Checked, terms: PlanConstraints) -> list[str]:
    """What the plan moves, how fast it may be, and about how long it takes."""
    onto = sorted(
        {broker for part in given.parts.values() for broker in part.target if broker not in part.original_replicas}
    )
    topics = {topic for topic, _ in given.parts}
    to_brokers = f" onto broker{'s' if len(onto) != 1 else ''} {', '.join(map(str, onto))}" if onto else ""
    moves = f"{_count(given.parts)} of {len(topics)} topic{'s' if len(topics) != 1 else ''}"
    return [f"The plan moves {moves}{to_brokers}.", *rate_lines(terms), *found.takes]


def _dry_run(
    given: PlanInput,
    ground: PlanGround,
    found: Checked,
    taken: list[str],
    terms: PlanConstraints,
    asked: ReassignRequest,
) -> int:
    forbidden = [*taken, *found.forbidden]
    ways = ways_of(given, ground)
    if asked.as_json:
        _print(
            {
                "partitions": len(given.parts),
                "copied_bytes": found.fluid.copied_bytes,
                "fluid_optimum_s": found.fluid.time_s,
                "expected_s": found.expected_s,
                "all_at_once_s": found.fluid.at_once_s,
                "steps": as_rows(ways, asked.limits.replica_movements_max),
                "rate_bytes_per_s": terms.rate_bytes_per_s,
                "ceiling_bytes_per_s": terms.ceiling_bytes_per_s,
                "objective": terms.objective,
                "tuner": None if terms.tuner is None else terms.tuner.holder,
                "limits_of": terms.source,
                "differences": list(terms.differences),
                "forbidden": forbidden,
                "notes": list(found.notes),
            }
        )
    else:
        for line in sentences_of_steps(ways, asked.limits.replica_movements_max):
            out(line)
        for line in (*_foretold(given, found, terms), *found.notes, *(f"Forbidden: {line}" for line in forbidden)):
            say(line)
        if terms.nobody is not None:
            say(terms.nobody)
    say("Nothing is on record, and nothing is begun.")
    return EXIT_NOT_WELL if forbidden else EXIT_DONE


def _taken_already(keys: Collection[TopicPartition], known: plan_store.StoredPlans) -> list[str]:
    """Plans that have one of the partitions."""
    said = []
    for plan in known.active:
        both = sorted(key for key in plan.partitions if key in keys)
        if both:
            names = join_names((f"{topic}-{number}" for topic, number in both), 1)
            said.append(
                f"plan {plan.id}, given by {plan.head.submitted_by}, has {names} already: let it end, or "
                f"`rheostat reassign cancel {plan.id}`"
            )
    return said


def _count(parts: Collection[object]) -> str:
    return f"{len(parts)} partition{'s' if len(parts) != 1 else ''}"


def _print(body: dict[str, Any]) -> None:
    out(json.dumps(body, indent=2))
