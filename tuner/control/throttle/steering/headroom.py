"""How much of a broker's link may replication take, so that its clients keep their latency?

Intuition: what clients will use in a moment is what they use now, going on as it went, and a little more, for it is never
known better than it usually was. What is left below 90 % of the link is the headroom. Ten per cent is a guess about this
link, though, and latency is the truth about it: while p99 stands above its aim the margin grows, and while it stands below,
the margin is given back slowly, and of those ten per cent up to four where the p99 holds all that comes and goes. The aim lies
as far below the objective as latency comes and goes without the p99 telling it: how much of it the p99 tells is felt.py's. Where
all the headroom is little more than what keeping up takes, a margin costs a multiple of the time, so there it answers to what
comes near a miss.

Invariant: the margin stays within its limits, and shrinks only while replication is what fills the link: a link left idle
says nothing about how full it may be (anti-windup).

Vocabulary:
    load     bytes/s of everything but the bytes that catch up: clients, and in-sync replication.
    spread   how far the forecast of the load is usually off.
    margin   share of the capacity below the utilisation that is allowed; below 0 it is above.
"""

from __future__ import annotations

from dataclasses import replace

from tuner.control.throttle.objective import LawLimits
from tuner.core.value import value


@value
class DirectionLoad:
    """Of one direction of one broker."""

    level_bytes_per_s: float
    slope_bytes_per_s2: float = 0.0
    spread_bytes_per_s: float = 0.0
    usual_bytes_per_s: float = 0.0  # Its mean over some minutes.


def with_step(
    load: DirectionLoad | None, measured_bytes_per_s: float, step_s: float, limits: LawLimits
) -> DirectionLoad:
    """The forecast after one more step was measured."""
    if load is None:
        return DirectionLoad(measured_bytes_per_s, 0.0, 0.05 * measured_bytes_per_s, measured_bytes_per_s)
    expected = load.level_bytes_per_s + load.slope_bytes_per_s2 * step_s
    miss = measured_bytes_per_s - expected
    if jumped(load, measured_bytes_per_s, step_s, limits):
        level = measured_bytes_per_s
        return replace(load, level_bytes_per_s=level, slope_bytes_per_s2=0.0, usual_bytes_per_s=level)
    return DirectionLoad(
        expected + limits.level_gain * miss,
        load.slope_bytes_per_s2 + limits.slope_gain * limits.level_gain * miss / step_s,
        load.spread_bytes_per_s + limits.spread_gain * (1.25 * abs(miss) - load.spread_bytes_per_s),
        load.usual_bytes_per_s + limits.usual_gain * (measured_bytes_per_s - load.usual_bytes_per_s),
    )


def jumped(load: DirectionLoad, measured_bytes_per_s: float, step_s: float, limits: LawLimits) -> bool:
    """Whether this step is another load, and not the noise of the one that was known."""
    expected = load.level_bytes_per_s + load.slope_bytes_per_s2 * step_s
    miss = measured_bytes_per_s - expected
    return abs(miss) > limits.jump_spreads * max(load.spread_bytes_per_s, 0.02 * expected)


def expected_bytes_per_s(load: DirectionLoad, ahead_s: float, limits: LawLimits) -> float:
    """The load so long after the newest step, on the careful side."""
    forecast = load.level_bytes_per_s + load.slope_bytes_per_s2 * ahead_s
    return max(0.0, forecast + limits.spreads * load.spread_bytes_per_s)


def next_margin(
    margin: float,
    latency_ratio: float,
    fills: bool,
    limits: LawLimits,
    *,
    tight: bool = False,
    momentary: float = 1.0,
) -> float:
    """
    Args:
        latency_ratio: client p99 ÷ its objective.
        fills: replication is at the ceiling that this margin leaves it.
        tight: that ceiling is little more than what keeping up takes, so any margin costs a multiple of the time.
        momentary: how much of that p99 is of this moment (felt.py). A miss weighs the same, however old.
    """
    aim = limits.latency_aim_tight if tight else limits.latency_aim
    if latency_ratio > 1.0:
        error = min(1.0, latency_ratio - aim) + limits.miss_weight
    else:
        nearer = max(aim, min(limits.latency_aim_max, 1.0 - momentary * (1.0 - limits.latency_aim)))
        # The pull goes by the distance as a share of what lies between the aim and the objective. Where it is tight, the aim is as
        # near as it ever comes, and the pull is a weak one on purpose.
        # What is of this moment is given back half as fast as it grows: the next moment may be another.
        error = max(0.5 * momentary - 1.0, (latency_ratio - nearer) * (1.0 - aim) / (1.0 - nearer))
    if error < 0 and not fills:
        return margin
    # A miss ends what was given beyond the tenth at once.
    before = max(margin, 0.0) if latency_ratio > 1.0 else margin
    return min(limits.margin_max, max(least_margin(momentary, limits), before + limits.margin_gain * error))


def least_margin(momentary: float, limits: LawLimits) -> float:
    """A margin that is kept whatever the p99 says, as a share of the capacity.

    It is for seconds that a p99 of this moment does not tell. One that holds them is the truth about the link, and the
    utilisation a guess: as long as that p99 stands below its aim the guess was too careful, and the least is below 0.
    """
    return momentary * limits.margin_min + (1.0 - momentary) * min(limits.margin_min, limits.margin_told_min)


def headroom_bytes_per_s(
    capacity_bytes_per_s: float, load: DirectionLoad, margin: float, ahead_s: float, limits: LawLimits
) -> float:
    """What may catch up through this direction of the broker."""
    allowed = (limits.utilisation_max - margin) * capacity_bytes_per_s
    return max(0.0, allowed - expected_bytes_per_s(load, ahead_s, limits))
