"""Whom `rheostat simulate` lets turn the throttles: the words of ``--policy`` → the world as it starts under it, and who acts.

The goal of the move is the scenario's, as ``tuner.objective`` is a cluster's: its ``deadline``, its ``share``, or as soon as
clients allow. ``--policy`` may ask for another one, and says how late or how much where the scenario does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from rheostat.errors import BadInputError
from streaming.shared import units
from tuner.control.throttle.objective import LawLimits, Mode, Objective
from tuner.core.cluster import BrokerSide
from tuner.core.throttle_limits import Limits
from tuner.settings.tuner import TunerSettings
from tuner.simulation.policy import EPOCH_MS, LoopPolicy, Policy, RuleInput, RulePolicy
from tuner.simulation.scenario import Scenario, with_throttle, without_throttle

POLICIES = (
    "rheostat (with the scenario's deadline or share, where it has one), rheostat:fast, rheostat:gentle, rheostat:share "
    "(rheostat:share:25%), rheostat:deadline (rheostat:deadline:2h), rheostat:rescue (without an objective), static:RATE "
    "(static:50MB/s), as-is (what stands at the start stays), none (no throttle)"
)


@dataclass(frozen=True, slots=True)
class _Nothing:
    """A throttle that nobody turns."""

    def rates(self, now_s: float, view: RuleInput) -> Mapping[BrokerSide, int | None]:  # noqa: ARG002 - the rule's shape
        return {}


def parse_policy(text: str, scenario: Scenario) -> tuple[Scenario, Policy]:
    """The scenario as it starts under this policy, and who acts in it.

    Raises:
        BadInputError: naming the choices.
    """
    world, limits = scenario.world, _limits(scenario)
    kind, _, rest = text.partition(":")
    match kind, rest:
        case "rheostat", "rescue":
            return scenario, LoopPolicy(limits, name=text)
        case "rheostat", _:
            scenario, objective = _asked(text, rest, scenario)
            law_limits = LawLimits(
                rate_bytes_per_s_min=limits.rate_bytes_per_s_min, rate_bytes_per_s_max=limits.rate_bytes_per_s_max
            )
            return scenario, LoopPolicy(limits, objective, law_limits, name=text)
        case "as-is", "":
            return scenario, _standing(text)
        case "none", "":
            return replace(scenario, world=without_throttle(world)), _standing(text)
        case "static", _ if rest:
            rate = round(_read(text, units.positive(units.parse_rate), rest))
            return replace(scenario, world=with_throttle(world, rate)), _standing(text)
    raise _unknown(text)


def _asked(text: str, rest: str, scenario: Scenario) -> tuple[Scenario, Objective]:
    """The goal, and the scenario with the deadline that is to be kept."""
    named, _, amount = rest.partition(":")
    if not rest:
        named = Mode.DEADLINE if scenario.deadline_s else Mode.SHARE if scenario.share_max else Mode.FAST
    objective = Objective(scenario.world.latency.objective_ms)
    match named, amount:
        case Mode.FAST | Mode.GENTLE, "":
            return scenario, replace(objective, mode=Mode(named))
        case Mode.SHARE, _:
            share = _read(text, units.positive(units.parse_share), amount) if amount else scenario.share_max
            if share is None:
                raise BadInputError(
                    f"--policy {text}: of what share? Give it, as in rheostat:share:25%, or set `share` in the scenario"
                )
            return scenario, replace(objective, mode=Mode.SHARE, share_max=share)
        case Mode.DEADLINE, _:
            deadline_s = _read(text, units.parse_span, amount) if amount else scenario.deadline_s
            if deadline_s is None:
                raise BadInputError(
                    f"--policy {text}: done when? Give it, as in rheostat:deadline:2h, or set `deadline` in the scenario"
                )
            finish_at_ms = EPOCH_MS + round(1000 * (scenario.world.moves_begin_s + deadline_s))
            objective = replace(objective, mode=Mode.DEADLINE, finish_at_ms=finish_at_ms)
            return replace(scenario, deadline_s=deadline_s), objective
    raise _unknown(text)


def _read(policy: str, parse: Callable[[str], float], text: str) -> float:
    try:
        return parse(text)
    except ValueError as error:
        raise BadInputError(f"--policy {policy}: {error}") from error


def _unknown(text: str) -> BadInputError:
    return BadInputError(f"--policy: unknown policy {text!r}, expected one of {POLICIES}")


def _standing(name: str) -> Policy:
    # Asked once: it never has anything to say.
    return RulePolicy(name, _Nothing(), every_s=math.inf)


def _limits(scenario: Scenario) -> Limits:
    """As of a settings file that says no more than the ceiling."""
    ceiling = scenario.rate_bytes_per_s_max
    floor = min(TunerSettings.model_fields["rate_bytes_per_s_min"].default, ceiling)
    rates = {"rate_bytes_per_s_max": f"{ceiling:f}B/s", "rate_bytes_per_s_min": f"{floor:f}B/s"}
    return TunerSettings.model_validate(rates).limits()
