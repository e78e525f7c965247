"""What holds for a plan that is about to be given: the limits of the tuner that will carry it out, as that tuner reports them.

The settings file of the command may be another one than the tuner's, or a newer one that the tuner has not read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from rheostat.config.settings import Settings
from rheostat.errors import BadInputError
from rheostat.tuner_presence import read_tuners
from streaming.shared.units import rate_text
from tuner.control.throttle.plan_moves import rate_of
from tuner.core.presence import REPORT_EVERY_S, TunerMode, TunerPresence
from tuner.core.reassignment_plan import PlanThrottle

_REPORTED_S_MAX = REPORT_EVERY_S + 2.0  # A tuner that has just begun may not have reported itself yet.
_LOOK_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class PlanConstraints:
    """What the plan may use, and who says so.

    Attributes:
        source: whose limits these are, for people.
        ceiling_bytes_per_s: the most for each broker and side, in bytes/s.
        throttle: what the operator asked for with this plan.
        objective: the latency objective, for people; None without one.
        leaders_ratio: the part of the rate that leaders get while the plan begins more steps; above 0, at most 1.
        tuner: the tuner that carries the plan out; None where none would now.
        nobody: why none would; None where one does.
        differences: where the settings file of this command says something else than that tuner.
    """

    source: str
    ceiling_bytes_per_s: float
    throttle: PlanThrottle = field(default_factory=PlanThrottle)
    objective: str | None = None
    leaders_ratio: float = 1.0
    tuner: TunerPresence | None = None
    nobody: str | None = None
    differences: tuple[str, ...] = ()

    @property
    def rate_bytes_per_s(self) -> int | None:
        """The most that the plan may use of each broker and side; None: it is not throttled."""
        return rate_of(self.throttle, self.ceiling_bytes_per_s)


def read_terms(settings: Settings, throttle: PlanThrottle, *, may_run: bool, here: bool) -> PlanConstraints:
    """The terms for a plan that is given now.

    Args:
        may_run: False where no tuner takes part in the lease, so that none has to be waited for.
        here: this command runs a tuner itself where none acts.

    Raises:
        BadInputError: the throttle is above the ceiling.
        CommandError: what the tuners report cannot be read.
    """
    deadline_s = time.monotonic() + (_REPORTED_S_MAX if may_run else 0.0)
    while not (tuners := read_tuners(settings, round(time.time() * 1000))) and time.monotonic() < deadline_s:
        threading.Event().wait(_LOOK_EVERY_S)
    return checked_throttle(terms_of(settings, still_there(tuners, may_run=may_run), throttle, here=here))


def still_there(tuners: Sequence[TunerPresence], *, may_run: bool) -> list[TunerPresence]:
    """Without those that were killed a moment ago: a tuner that acts or stands by takes part in the lease."""
    without_lease = (TunerMode.DRY_RUN, TunerMode.STARTING)
    return [tuner for tuner in tuners if may_run or tuner.mode in without_lease]


def terms_of(
    settings: Settings, tuners: Sequence[TunerPresence], throttle: PlanThrottle, *, here: bool
) -> PlanConstraints:
    """Returns the terms of a plan: the limits that the tuner which carries it out has reported.

    The settings file of this command tells the limits where no tuner runs, or where this command starts one. Nothing is checked:
    ``checked_throttle`` does that.

    Args:
        throttle: what the operator asks for with the plan.
        tuners: those that are alive, one that acts first.
        here: this command runs a tuner itself where none acts.
    """
    found = next((tuner for tuner in tuners if tuner.executes_plans), None)
    if found is None and here:
        return _of_file(settings, throttle, "the tuner that this command starts", nobody=None)
    if found is None and not tuners:
        return _of_file(settings, throttle, "the settings file, as no tuner runs", nobody=_nobody(settings, tuners))
    # One that does not carry plans out still tells what would hold.
    tuner = found or tuners[0]
    return PlanConstraints(
        f"the tuner on {tuner.holder}, {_does(tuner)}",
        tuner.rate_bytes_per_s_max,
        throttle,
        _objective(tuner.objective_latency_ms, tuner.objective_mode),
        tuner.plan_leaders_ratio,
        found,
        None if found is not None else _nobody(settings, tuners),
        tuple(_differences(settings, tuner)),
    )


def checked_throttle(terms: PlanConstraints) -> PlanConstraints:
    """Returns ``terms`` themselves.

    Raises:
        BadInputError: the throttle is above the ceiling, or below what Kafka takes.
    """
    asked = terms.throttle.rate_bytes_per_s_max
    if asked is None:
        return terms
    if asked > terms.ceiling_bytes_per_s:
        raise BadInputError(
            f"--throttle {rate_text(asked)} is above the ceiling of {rate_text(terms.ceiling_bytes_per_s)} "
            f"(tuner.rate_bytes_per_s_max of {terms.source}). Give a lower rate, or raise the ceiling first; nothing is on record."
        )
    if asked < 1:
        raise BadInputError(f"--throttle {asked:g} B/s: the least that Kafka takes is 1 B/s; nothing is on record.")
    return terms


def rate_lines(terms: PlanConstraints) -> list[str]:
    """How fast the plan may be, whose limits these are, and where the command's own settings file says something else."""
    ceiling = rate_text(terms.ceiling_bytes_per_s)
    rate = terms.rate_bytes_per_s
    if rate is None:
        line = (
            f"Not throttled (--unthrottled): as fast as disks and network allow, also above the ceiling of {ceiling} of "
            f"{terms.source}. Clients may wait meanwhile."
        )
    else:
        whose = f"the ceiling of {terms.source}"
        if rate < terms.ceiling_bytes_per_s:
            whose = f"the throttle of this plan; {ceiling} is the ceiling of {terms.source}"
        mode = (
            f"Less where the latency objective needs it ({terms.objective})."
            if terms.objective is not None
            else "No latency objective is set, so clients do not lower it."
        )
        line = f"At most {rate_text(rate)} for each broker and side: {whose}. {mode}"
    return [line, *terms.differences]


def _of_file(settings: Settings, throttle: PlanThrottle, source: str, *, nobody: str | None) -> PlanConstraints:
    tuner = settings.tuner
    objective = tuner.objective
    return PlanConstraints(
        source,
        tuner.rate_bytes_per_s_max,
        throttle,
        None if objective is None else _objective(objective.latency_ms, objective.mode.value),
        tuner.plan_leaders_ratio(),
        nobody=nobody,
    )


def _does(tuner: TunerPresence) -> str:
    match tuner.mode:
        case TunerMode.ACTING:
            return "which acts"
        case TunerMode.DRY_RUN:
            return "which is in a dry run"
        case TunerMode.STANDBY:
            return "which stands by"
        case TunerMode.STARTING:
            return f"which is starting{f' ({tuner.waits_for})' if tuner.waits_for else ''}"


def _objective(latency_ms: float | None, mode: str | None) -> str | None:
    return None if latency_ms is None or mode is None else f"p99 of {latency_ms:g} ms, mode {mode}"


def _nobody(settings: Settings, tuners: Sequence[TunerPresence]) -> str:
    """Why none of the tuners carries plans out, and what to do."""
    if not tuners:
        return (
            f"No tuner runs for cluster {settings.cluster}, so nobody would execute the plan; nothing is on record. Start "
            "`rheostat run` (or `rheostat tune`) with these settings and ask again, or let this command do it: --standalone."
        )
    first = tuners[0]
    if all(tuner.mode is TunerMode.DRY_RUN for tuner in tuners):
        return (
            f"The tuner on {first.holder} runs in a dry run and carries out no plans; nothing is on record. Set `tuner.dry_run: "
            "false` in its settings file and start it again, or let this command do it: --standalone."
        )
    return (
        f"The tuner on {first.holder}, {_does(first)}, carries out no plans; nothing is on record. Either `tuner.reassign.enabled` "
        "is false in its settings file, or it is in a dry run, or the part that carries plans out has failed (see its log)."
    )


def _differences(settings: Settings, tuner: TunerPresence) -> list[str]:
    """Where the settings file of this command and the tuner differ; the tuner's values hold."""
    own = settings.tuner
    found = []
    if own.rate_bytes_per_s_max != tuner.rate_bytes_per_s_max:
        found.append(f"rate_bytes_per_s_max is {rate_text(own.rate_bytes_per_s_max)}")
    mine = None if own.objective is None else _objective(own.objective.latency_ms, own.objective.mode.value)
    theirs = _objective(tuner.objective_latency_ms, tuner.objective_mode)
    if mine != theirs:
        found.append(f"the objective is {mine or 'not set'}, and the tuner has {theirs or 'none'}")
    if not found:
        return []
    return [
        f"The settings file of this command says something else ({'; '.join(found)}). The tuner's values hold until it reads "
        "that file again."
    ]
