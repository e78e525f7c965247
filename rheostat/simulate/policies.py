"""Parses ``--policy`` of `rheostat simulate`: returns the policy that sets the throttles, and the scenario with its initial
throttles.

The scenario defines the goal of the move: its ``deadline``, its ``share``, or an end as soon as clients allow. ``--policy`` may
name another goal, with its own deadline or share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from rheostat.errors import BadInputError
from streaming.shared import units
from tuner.control.throttle.objective import ControlLimits, Mode, Objective
from tuner.core.cluster import BrokerSide
from tuner.core.throttle_limits import ThrottleLimits
from tuner.settings.tuner import TunerSettings
from tuner.simulation.policy import EPOCH_MS, LoopPolicy, Policy, RuleInput, RulePolicy
from tuner.simulation.scenario import Scenario, with_throttle, without_throttle

POLICIES = (
    "rheostat (with the scenario's deadline or share, if it has one), rheostat:fast, rheostat:gentle, rheostat:share "
    "(rheostat:share:25%), rheostat:deadline (rheostat:deadline:2h), rheostat:rescue (without an objective), static:RATE "
    "(static:50MB/s), as-is (the initial throttles stay), none (no throttle)"
)


@dataclass(frozen=True, slots=True)
class _FixedThrottle:
    """A rule that never changes a throttle."""

    def rates(self, now_s: float, view: RuleInput) -> Mapping[BrokerSide, int | None]:  # noqa: ARG002 - signature of a rule
        return {}


def parse_policy(text: str, scenario: Scenario) -> tuple[Scenario, Policy]:
    """Returns the scenario with the initial throttles of the policy ``text``, and the policy.

    Raises:
        BadInputError: the policy is unknown or incomplete; the message names the choices.
    """
    world, limits = scenario.world, _limits(scenario)
    kind, _, goal = text.partition(":")
    match kind, goal:
        case "rheostat", "rescue":
            return scenario, LoopPolicy(limits, name=text)
        case "rheostat", _:
            scenario, objective = _parse_objective(text, goal, scenario)
            law_limits = ControlLimits(
                rate_bytes_per_s_min=limits.rate_bytes_per_s_min, rate_bytes_per_s_max=limits.rate_bytes_per_s_max
            )
            return scenario, LoopPolicy(limits, objective, law_limits, name=text)
        case "as-is", "":
            return scenario, _fixed_throttle(text)
        case "none", "":
            return replace(scenario, world=without_throttle(world)), _fixed_throttle(text)
        case "static", _ if goal:
            rate = round(_parse_amount(text, units.positive(units.parse_rate), goal))
            return replace(scenario, world=with_throttle(world, rate)), _fixed_throttle(text)
    raise _unknown(text)


def _parse_objective(text: str, goal: str, scenario: Scenario) -> tuple[Scenario, Objective]:
    """Returns the scenario with the deadline to meet, and the objective."""
    mode, _, amount = goal.partition(":")
    if not goal:
        mode = _scenario_mode(scenario)
    objective = Objective(scenario.world.latency.objective_ms)
    match mode, amount:
        case Mode.FAST | Mode.GENTLE, "":
            return scenario, replace(objective, mode=Mode(mode))
        case Mode.SHARE, _:
            share = _parse_amount(text, units.positive(units.parse_share), amount) if amount else scenario.share_max
            if share is None:
                raise BadInputError(
                    f"--policy {text}: the share is missing: give it, as in rheostat:share:25%, or set `share` in the scenario"
                )
            return scenario, replace(objective, mode=Mode.SHARE, share_max=share)
        case Mode.DEADLINE, _:
            deadline_s = _parse_amount(text, units.parse_span, amount) if amount else scenario.deadline_s
            if deadline_s is None:
                raise BadInputError(
                    f"--policy {text}: the deadline is missing: give it, as in rheostat:deadline:2h, or set `deadline` in "
                    "the scenario"
                )
            finish_at_ms = EPOCH_MS + round(1000 * (scenario.world.moves_begin_s + deadline_s))
            objective = replace(objective, mode=Mode.DEADLINE, finish_at_ms=finish_at_ms)
            return replace(scenario, deadline_s=deadline_s), objective
    raise _unknown(text)


def _scenario_mode(scenario: Scenario) -> Mode:
    if scenario.deadline_s:
        return Mode.DEADLINE
    return Mode.SHARE if scenario.share_max else Mode.FAST


def _parse_amount(policy: str, parse: Callable[[str], float], text: str) -> float:
    try:
        return parse(text)
    except ValueError as error:
        raise BadInputError(f"--policy {policy}: {error}") from error


def _unknown(text: str) -> BadInputError:
    return BadInputError(f"--policy: unknown policy {text!r}, expected one of {POLICIES}")


def _fixed_throttle(name: str) -> Policy:
    # An infinite interval, because this rule never changes a throttle.
    return RulePolicy(name, _FixedThrottle(), every_s=math.inf)


def _limits(scenario: Scenario) -> ThrottleLimits:
    """Returns the limits of a settings file that sets only the ceiling."""
    ceiling = scenario.rate_bytes_per_s_max
    min_rate = min(TunerSettings.model_fields["rate_bytes_per_s_min"].default, ceiling)
    rates = {"rate_bytes_per_s_max": f"{ceiling:f}B/s", "rate_bytes_per_s_min": f"{min_rate:f}B/s"}
    return TunerSettings.model_validate(rates).limits()
