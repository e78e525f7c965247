"""While moves run: what each throttle should do about them, and why.

Safety comes first, then a person's word, then patience, then the diagnosis, and only then a rate: the law's where an
objective is set, otherwise the one that rescues a stalled move.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from streaming.shared.contract import Side
from streaming.shared.units import rate_text, size_text
from tuner.control.throttle import deadline, rescue_rate
from tuner.control.throttle.deadline import OBSERVED_S_MIN, DeadlineMiss, find_deadline_miss
from tuner.control.throttle.decision import AllowSteering, Decision, Hold, Reason, SetRate, StartRate
from tuner.control.throttle.diagnosis.not_throttle_bound import BottleneckFinder, explain_unthrottled_stall
from tuner.control.throttle.operator_overrides import (
    decide_override,
    decide_restore,
    hold_during_override_ramp,
    is_in_force,
    limit_override,
)
from tuner.control.throttle.quota_window.ramp import plan_fill
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.control.throttle.view import MovesView
from tuner.core import formatting
from tuner.core.cluster import BrokerSide, RateSetting, side_name
from tuner.core.drain_time import SideLoad
from tuner.core.freshness import Freshness, age_s
from tuner.core.throttle_limits import StallLimits

_TO_PLAN_RATE = "its rate changes to that of a plan of rheostat, in steps over the quota's window"


def decide_sides(
    sides: Iterable[BrokerSide], view: MovesView, memory: Memory, stall_limits: StallLimits
) -> list[Decision]:
    """Each throttle by itself."""
    stalled = {destination for destination, state in memory.stalls.items() if state.stalled}
    watched = (side for side in view.sides if _is_watched(side, view, memory))
    too_late = find_deadline_miss(view.loads, view.courses, watched, view.now_ms, view.limits)
    causes = BottleneckFinder(view, memory, stall_limits)
    return [_decide_side(side, view, memory, stall_limits, stalled, too_late, causes) for side in sides]


def _is_watched(side: BrokerSide, view: MovesView, memory: Memory) -> bool:
    """For long enough to say when it ends."""
    return all(memory.stalls[d].observed_s >= OBSERVED_S_MIN for d in view.measured_destinations(side))


def _decide_side(
    side: BrokerSide,
    view: MovesView,
    memory: Memory,
    stall_limits: StallLimits,
    stalled_brokers: Set[int],
    too_late: DeadlineMiss | None,
    causes: BottleneckFinder,
) -> Decision:
    """One throttle. A ladder: safety first, then patience, then the diagnosis, and only then a higher rate."""
    limits = view.limits_of(side)

    # The broker is not there. Nothing can be read or written, and nothing comes from or to it.
    if side[0] not in view.live.brokers:
        return _hold(
            side,
            Reason.BROKER_DOWN,
            f"broker {side[0]} is not alive: bring it back, or cancel its part of the move",
        )
    # It did not tell its settings: what stands there now is not known, so nothing is written over it.
    if side[0] in view.live.unreadable:
        return _hold(side, Reason.SETTINGS_UNREADABLE, f"broker {side[0]} does not tell its settings")
    # Somebody changed it after us, and after any order that we have heard: theirs.
    if side in memory.externally_owned_until_ms:
        minutes = (memory.externally_owned_until_ms[side] - view.now_ms) / 60_000
        return _hold(side, Reason.EXTERNALLY_OWNED, f"somebody else set it; left alone for another {minutes:.0f} min")
    # A plan is about to copy through a window that is empty: also what a person wants there is brought up as it fills.
    plan_fills = not limits.closed_loop and _respected(side, view, memory) is None
    if plan_fills and (filling := _filling(side, view, memory)) is not None:
        return filling
    # A person wants it to stand at a rate for a while. The ramp to it goes on unseen, too.
    if (ordered := _ordered(side, view, memory)) is not None:
        return ordered
    # It stood before the move came, and the operator wants such throttles left as they are.
    if (standing := _respected(side, view, memory)) is not None:
        return _hold(side, Reason.PRESERVED, f"{rate_text(standing)} stood here before the move, and is left as it is")
    # A step of ours is about to begin where nothing has moved for a while: Kafka would let a whole window's worth through at once.
    if limits.closed_loop and (filling := _filling(side, view, memory)) is not None:
        return filling
    # A plan of rheostat copies through it, or is about to: its rate is the operator's, and needs no measurement.
    if (planned := _planned(side, view, memory)) is not None:
        return planned
    # What it was changed for is over: an order, or replicas that had to come back. The law means its own rate anyway, where it has
    # something to go by, and may; a rescue only ever raises, and would leave it as it is.
    means_its_own = limits.closed_loop and view.freshness(side) is Freshness.FRESH
    goes_back = (not means_its_own or not limits.adopts_existing) and (
        limits.closed_loop or side not in view.plan_rates
    )
    if goes_back and (back := _back(side, view, memory)) is not None:
        return back
    # What we had raised is above the ceiling, which somebody has lowered since. No measurement says that it may stay.
    if (lowered := _to_ceiling(side, view, memory)) is not None:
        return lowered
    # Without fresh measurements there is no judgement, and old ones never raise a throttle.
    if (blind := _blind(side, side, view)) is not None:
        return _sunk(side, view, memory) or blind
    # Signals that contradict each other are fresh, and as little a judgement.
    if side in view.contradictions:
        return _hold(side, Reason.SIGNALS_CONTRADICT, view.contradictions[side])
    # Partitions take no writes until their replicas are back: durability comes before any throttle. The law opens it itself.
    if not limits.closed_loop and side in view.recovering:
        return _opened(side, view)
    # A destination that is down or silent holds only itself up, not the others of its leader.
    destinations = view.measured_destinations(side)
    if not destinations and view.live.brokers.isdisjoint(onto := view.destinations_through(side)):
        return _hold(
            side,
            Reason.BROKER_DOWN,
            f"nothing is copied onto {formatting.brokers(sorted(onto))}, not alive: bring it back, or cancel its part of the move",
        )
    if not destinations:
        return _blind(side, (min(view.destinations_through(side)), Side.FOLLOWER), view) or _hold(
            side, Reason.SIGNALS_MISSING, "no destination is measured"
        )
    stalled = sorted(destinations & stalled_brokers) if stalled_brokers else []
    bound = min((s for d in stalled if (s := view.first_bound(d)) is not None), default=None)
    unknown = min((s for d in stalled if (s := view.first_unknown(d)) is not None), default=None)

    setting, load = view.throttle(side), view.loads.get(side)
    # No throttle here: nothing of ours to turn. A stall has another cause.
    if setting is None:
        if not stalled or bound:
            elsewhere = f"; {side_name(bound)} is what binds" if bound else ""
            return _hold(side, Reason.NOT_THROTTLED, f"{_unheld(view)}{elsewhere}")
        if unknown:
            return _blind(side, unknown, view) or _hold(
                side, Reason.SIGNALS_MISSING, f"{side_name(unknown)} is not measured"
            )
        return _hold(
            side,
            Reason.STALLED_UNTHROTTLED,
            f"the move onto {formatting.brokers(stalled)} has stalled, and no throttle holds it on this side: look at the "
            "disks, the network and the fetchers of both brokers",
        )
    if load is None:
        return _hold(
            side, Reason.SIGNALS_MISSING, "log sizes or write rates are not measured yet: that takes two scrapes"
        )
    # No permitted rate can end it: a person has to decide, and is told the numbers.
    # The law would lower what stands above the ceiling, and must not where only that keeps the move going.
    if rescue_rate.is_infeasible(0 if limits.closed_loop else setting.bytes_per_s, load, limits):
        return _hold(
            side,
            Reason.INFEASIBLE,
            f"keeping up alone takes {rate_text(load.steady_state_bytes_per_s)}, {_ceiling_word(side, view)} is "
            f"{rate_text(limits.rate_bytes_per_s_max)}: no permitted throttle ends this move. Raise "
            f"{_ceiling_name(side, view)}, or move fewer partitions at a time",
        )
    # A ramp is under way: what is measured now is neither the old rate nor the new one.
    if side in view.busy:
        return _hold(side, Reason.RATE_IS_CHANGING, "its rate is changing, in steps over the quota's window")
    if limits.closed_loop:
        nobody_binds = bool(stalled) and not bound and not unknown
        unbound = explain_unthrottled_stall(side, setting.bytes_per_s, stalled, view, causes) if nobody_binds else None
        return _steer(side, setting, load, view, too_late, unbound)
    if not stalled:
        # After a rescue a throttle that binds again is not high enough yet.
        if not (view.is_bound(side) and any(d in memory.rescued for d in destinations)):
            observed_s = min(memory.stalls[d].observed_s for d in destinations)
            if observed_s < stall_limits.observed_s_min:
                return _hold(
                    side,
                    Reason.WATCHING,
                    f"judged after {stall_limits.observed_s_min:.0f} s at one rate, {observed_s:.0f} s seen so far",
                )
            remain = f"{size_text(load.remaining_bytes)} remain"
            return _hold(side, Reason.PROGRESSING, f"progressing under {rate_text(setting.bytes_per_s)}: {remain}")
    elif not bound and unknown:
        return _blind(side, unknown, view) or _hold(
            side, Reason.SIGNALS_MISSING, f"{side_name(unknown)} is not measured"
        )
    # Stalled, but the throttle is not what holds it: a higher one would only be dangerous later.
    elif not bound:
        return _hold(side, *explain_unthrottled_stall(side, setting.bytes_per_s, stalled, view, causes))
    return _raise(side, setting, load, stalled, view, memory)


def _steer(
    side: BrokerSide,
    setting: RateSetting,
    load: SideLoad,
    view: MovesView,
    too_late: DeadlineMiss | None,
    unbound: tuple[Reason, str] | None,
) -> AllowSteering:
    """The law has it: it knows the clients, the ladder above what it must not be given.

    Args:
        unbound: a stall that no throttle makes, in words.
    """
    course = view.courses.get(side)
    live = setting.bytes_per_s

    def steer(reason: Reason, text: str) -> AllowSteering:
        return AllowSteering(*side, live, reason, f"{side_name(side)}: {text}", setting.is_own)

    # Partitions take no writes until their replicas are back: durability comes before latency.
    if side in view.recovering and not (course is not None and course.inputs_stale):
        return steer(
            Reason.ISR_RECOVERY,
            "replicas that were in sync come back through it, and partitions take no writes until they are back: it is opened "
            "for them, up to what the link and the operator allow",
        )
    # The law goes on, as its ceiling is what clients can bear; but a person should look.
    if unbound is not None:
        return steer(*unbound)
    # Without the broker's network bytes nobody knows what clients leave; the operator's rate is as good as any.
    if course is not None and course.inputs_stale:
        return steer(
            Reason.LOAD_NOT_MEASURED,
            f"what clients use of broker {side[0]} is not measured, or not any more (network and reassignment bytes): it is not "
            "raised; see docs/streaming.md for what a collector has to deliver",
        )
    late_text = (
        deadline.explain_deadline_miss(too_late, side, load, course)
        if too_late is not None and course is not None
        else None
    )
    # Its clients come first; the move goes on with the least that drains.
    if course is not None and course.no_headroom:
        return steer(
            Reason.NO_HEADROOM,
            f"clients (or objective.share_max) leave less than the {rate_text(load.steady_state_bytes_per_s)} that keeping up "
            f"takes, so it runs at its least, {rate_text(course.bytes_per_s)}: move fewer partitions at a time, or at a "
            "quieter hour" + (f"; {late_text}" if late_text else ""),
        )
    # It gets all that may be had, and that is too little for the moment that was promised: a person decides what gives.
    if late_text is not None:
        return steer(Reason.DEADLINE_NOT_MET, late_text)
    meant = f"{rate_text(course.bytes_per_s)} meant" if course is not None else f"from {rate_text(live)} on"
    return steer(
        Reason.FOLLOWS_CLIENTS,
        f"follows its clients, {meant}: {size_text(load.remaining_bytes)} remain and "
        f"{rate_text(load.steady_state_bytes_per_s)} go to keeping up",
    )


def _planned(side: BrokerSide, view: MovesView, memory: Memory) -> Decision | None:
    """The rate of the plans that copy through this side; None where nothing has to change for it.

    The law sets the rate itself where it steers, so there only a rate above the plan's is lowered.
    """
    wanted, setting, ours = view.plan_rates.get(side), view.live.rates.get(side), memory.owned.get(side)
    if wanted is None or setting is None or side in view.recovering:
        return None
    live = setting.bytes_per_s
    if side in view.busy:
        leads_there = ours is not None and ours.setpoint_bytes_per_s == wanted
        return (
            _hold(side, Reason.RATE_IS_CHANGING, _TO_PLAN_RATE) if leads_there and not view.limits.closed_loop else None
        )
    if view.limits.closed_loop:
        wanted = min(live, wanted)
    elif side in view.sides_with_other_moves and live < wanted:
        # Another tool's move runs here as well, under the rate that came with it: a plan is no reason to raise that.
        stood = ours.restore_to_bytes_per_s if ours is not None else live
        wanted = wanted if stood is None else min(wanted, max(live, stood))
    if live == wanted:
        return None
    text = f"{side_name(side)} {rate_text(live)} → {rate_text(wanted)}: the rate of a plan of rheostat that copies through it"
    return SetRate(*side, live, wanted, Reason.PLAN_RATE, text, setting.is_own)


def warm_up_started_rates(started: Mapping[BrokerSide, StartRate], view: MovesView) -> list[SetRate]:
    """The way up of the throttles that a plan has just been given, as the windows of their quotas fill."""
    found = []
    for side, start in started.items():
        wanted = view.rate_for_plan(side)
        if view.limits.closed_loop or side not in view.empty or wanted is None or start.value_bytes_per_s >= wanted:
            continue
        head = f"{side_name(side)} {rate_text(start.value_bytes_per_s)} → {rate_text(wanted)}"
        text = f"{head}: brought up for a plan of rheostat as the window of its quota fills"
        found.append(SetRate(*side, wanted, wanted, Reason.WINDOW_WARMUP, text))
    return found


def _unheld(view: MovesView) -> str:
    """What is said of a side on which nothing throttles what moves."""
    if view.limits.throttles_all_moves:
        return "no throttle on this side, nothing to turn"
    ceiling = f"the ceiling of {rate_text(view.limits.rate_bytes_per_s_max)} does not hold here"
    if view.limits.closed_loop:
        return f"no throttle on this side, so {ceiling}: with tuner.unthrottled_moves: leave, moves of other tools stay as they are"
    return (
        f"no throttle on this side, so {ceiling}: without tuner.objective rheostat leaves moves of other tools as they are. Give "
        "them a throttle, or set an objective"
    )


def _ceiling_word(side: BrokerSide, view: MovesView) -> str:
    return "the throttle of the plan" if view.is_limited_by_plan(side) else "the ceiling"


def _ceiling_name(side: BrokerSide, view: MovesView) -> str:
    """What a person has to raise for this side to be given more."""
    return "the throttle of the plan (--throttle)" if view.is_limited_by_plan(side) else "tuner.rate_bytes_per_s_max"


def _filling(side: BrokerSide, view: MovesView, memory: Memory) -> Decision | None:
    """For a window that is empty: brought up to what stood, or to a plan's rate, as it fills, which needs no measurement; None of
    any other."""
    limits, setting, ours = view.limits_of(side), view.live.rates.get(side), memory.owned.get(side)
    planned = None if limits.closed_loop else view.rate_for_plan(side)
    if side not in view.empty or setting is None or side in view.recovering:
        return None
    if not limits.closed_loop and planned is None:
        return None
    if side in view.busy:
        return _hold(side, Reason.RATE_IS_CHANGING, "it is brought up as its quota's window fills")
    live = setting.bytes_per_s
    stood = ours.restore_to_bytes_per_s if ours is not None else None
    wanted = planned or min(live if stood is None else stood, int(limits.rate_bytes_per_s_max))
    first = plan_fill(wanted, limits.warmup_start_bytes_per_s)[0].rate_bytes_per_s
    if live >= wanted and first >= wanted:
        return None
    # A write that was not answered, and was not taken: there is nothing to come back from.
    if stood is not None and live >= wanted and ours is not None and ours.possible_rates != (live,):
        return None
    why = "nothing has moved for a while, so a whole window's worth would pass at once"
    what = "what stood here" if stood is not None else "what stands here" if wanted == live else "the ceiling"
    if planned is not None:
        whose = "the rate of a plan of rheostat" if wanted == view.plan_rates[side] else "as ordered"
        text = f"{side_name(side)} is brought up to {rate_text(wanted)}, {whose}"
        return SetRate(
            *side, live, wanted, Reason.WINDOW_WARMUP, f"{text}, as its quota's window fills: {why}", setting.is_own
        )
    head = f"{side_name(side)} {rate_text(first if live >= wanted else live)} → {rate_text(wanted)}: {what}"
    text = (
        f"{head}, as its quota's window fills: {why}"
        if live >= wanted
        else f"{head}; it was brought up to that, and cut short"
    )
    return SetRate(*side, live, wanted, Reason.WINDOW_WARMUP, text, setting.is_own)


def _blind(side: BrokerSide, needed: BrokerSide, view: MovesView) -> Hold | None:
    """A hold for ``side`` when what it needs to know of ``needed`` is old or was never measured."""
    match view.freshness(needed):
        case Freshness.MISSING:
            return _hold(side, Reason.SIGNALS_MISSING, f"no measurements of broker {needed[0]} ({needed[1]} side) yet")
        case Freshness.STALE:
            signal = view.signal(needed)
            age = age_s(signal, view.now_ms) if signal is not None else 0.0
            return _hold(side, Reason.SIGNALS_STALE, f"last measurements of broker {needed[0]} are {age:.0f} s old")
        case Freshness.FRESH:
            return None


def _sunk(side: BrokerSide, view: MovesView, memory: Memory) -> Decision | None:
    """For a throttle that we raised and nobody has seen for long: less, down to what stood before or to what still drains.

    Where the law steers it does this itself.
    """
    limits, ours, signal = view.limits, memory.owned.get(side), view.signal(side)
    setting = view.live.rates.get(side)
    if side in view.plan_rates:
        return None  # A plan's rate is the operator's, whatever is measured.
    if limits.closed_loop or ours is None or setting is None or view.freshness(side) is Freshness.FRESH:
        return None
    if side in view.recovering:
        return None  # By its leader's word, which is of now, writes wait for what comes through it.
    # What nobody has told us of since we began was raised by the tuner before us.
    since_ms = memory.unmeasured_since_ms.get(side, view.now_ms)
    age = age_s(signal, view.now_ms) if signal is not None else (view.now_ms - since_ms) / 1000
    if age <= limits.decay_age_s:
        return None
    live = setting.bytes_per_s
    if side in view.busy:
        return _sinking(side, ours, setting)
    sunk_at_ms = memory.decayed_at_ms.get(side)
    if sunk_at_ms is not None and 0 <= view.now_ms - sunk_at_ms < limits.decay_every_s * 1000:
        return None
    steady_state = (signal.steady_state_bytes_per_s if signal is not None else None) or 0.0
    least = max(
        ours.before_bytes_per_s or 0.0, rescue_rate.min_draining_bytes_per_s(SideLoad(0.0, steady_state), limits)
    )
    wanted = round(max(least, limits.decay_ratio * live))
    if wanted >= live:
        return None
    seen = f"its last measurements are {age:.0f} s old" if signal is not None else f"no measurements for {age:.0f} s"
    head = f"{side_name(side)} {rate_text(live)} → {rate_text(wanted)}"
    text = f"{head}: {seen}, so what we had raised sinks to {rate_text(least)}"
    return SetRate(*side, live, wanted, Reason.STALE_DECAY, text, setting.is_own)


def _sinking(side: BrokerSide, ours: OwnedRate, setting: RateSetting) -> Hold | None:
    """A change under way that leads down is let go on without news; None of one that leads up."""
    if ours.setpoint_bytes_per_s > setting.bytes_per_s:
        return None
    return _hold(side, Reason.RATE_IS_CHANGING, "it sinks, in steps over the quota's window")


def _respected(side: BrokerSide, view: MovesView, memory: Memory) -> int | None:
    """The rate that stands here and stood before the move, where such rates are left as they are. One for all brokers came with no
    move."""
    found, ours = view.live.rates.get(side), memory.owned.get(side)
    if view.limits.adopts_existing or found is None:
        return None
    if ours is not None:  # By an order that is over, or was before anything was written.
        stood = ours.restore_to_bytes_per_s if side not in view.busy else None
    else:
        stood = memory.preexisting_rates.get(side) if found.is_own else found.bytes_per_s
    return found.bytes_per_s if found.bytes_per_s == stood else None


def _to_ceiling(side: BrokerSide, view: MovesView, memory: Memory) -> Decision | None:
    """No lower than a person's own that stood before. Where the law steers it does this itself."""
    limits, ours, setting = view.limits, memory.owned.get(side), view.live.rates.get(side)
    if limits.closed_loop or ours is None or setting is None:
        return None
    most = max(limits.rate_bytes_per_s_max, ours.before_bytes_per_s or 0)
    if setting.bytes_per_s <= most:
        return None
    if side in view.busy:
        return _sinking(side, ours, setting)
    text = f"{side_name(side)} {rate_text(setting.bytes_per_s)} → {rate_text(most)}: the ceiling is lower by now"
    return SetRate(*side, setting.bytes_per_s, int(most), Reason.AT_CEILING, text, setting.is_own)


def _ordered(side: BrokerSide, view: MovesView, memory: Memory) -> Decision | None:
    """What a person wants of it; None where nobody does, or another change is under way."""
    order = limit_override(view.orders.overrides.get(side), view.limits)
    if order is None:
        return None
    if side in view.busy:
        return hold_during_override_ramp(side, order, memory.owned.get(side), view.now_ms)
    return decide_override(side, order, view.live.rates.get(side), view.now_ms)


def decide_sides_without_moves(view: MovesView, memory: Memory) -> list[Decision]:
    """Throttles of brokers that only have replicas to bring back: a "*" holds those back, too. And back, when they are."""
    gone = {side for side, ours in memory.owned.items() if ours.restore_to_bytes_per_s is not None}
    if not (view.recovering or gone):
        return []
    found: list[Decision] = []
    for side in sorted((view.recovering | gone).difference(view.sides)):
        stood = _respected(side, view, memory) is not None
        away = side[0] not in view.live.brokers or side[0] in view.live.unreadable
        if view.live.rates.get(side) is None or away or stood or side in memory.externally_owned_until_ms:
            continue
        decision = _ordered(side, view, memory)
        if decision is None:
            decision = _opened(side, view) if side in view.recovering else _back(side, view, memory)
        if decision is not None:
            found.append(decision)
    return found


def _back(side: BrokerSide, view: MovesView, memory: Memory) -> Decision | None:
    """To what stood before a change that was for a while, when that is over as far as anybody can tell; up only on news of now."""
    ours, setting = memory.owned.get(side), view.live.rates.get(side)
    if ours is None or ours.restore_to_bytes_per_s is None or setting is None:
        return None
    if side in view.recovering or side in view.possibly_recovering:
        return None
    if side in view.busy:
        ordered = is_in_force(view.orders.overrides.get(side), view.now_ms)
        return None if ordered else _sinking(side, ours, setting)
    if ours.restore_to_bytes_per_s > setting.bytes_per_s and not view.has_fresh_signal(side):
        return None
    signal = view.signal(side)
    steady_state = (signal.steady_state_bytes_per_s or 0.0) if signal is not None else None
    drains = (
        rescue_rate.min_draining_bytes_per_s(SideLoad(0.0, steady_state), view.limits)
        if steady_state is not None
        else 0.0
    )
    return decide_restore(side, ours, setting, drains, view.limits_of(side))


def _opened(side: BrokerSide, view: MovesView) -> Decision:
    """For replicas that were in sync and come back through it: up to what the operator allows, and back when they are."""
    setting, most = view.live.rates.get(side), view.limits.rate_bytes_per_s_max
    story = "partitions take no writes until replicas are back that come through it"
    if side in view.busy:
        return _hold(side, Reason.RATE_IS_CHANGING, f"{story}: its rate is changing, in steps over the quota's window")
    if setting is None or setting.bytes_per_s >= most * (1 - view.limits.deadband_ratio):
        return _hold(side, Reason.ISR_RECOVERY, f"{story}: it is open for them")
    head = f"{side_name(side)} {rate_text(setting.bytes_per_s)} → {rate_text(most)}"
    return SetRate(*side, setting.bytes_per_s, round(most), Reason.ISR_RECOVERY, f"{head}: {story}", setting.is_own)


def _raise(
    side: BrokerSide,
    setting: RateSetting,
    load: SideLoad,
    stalled: list[int],
    view: MovesView,
    memory: Memory,
) -> Decision:
    limits, live, own = view.limits_of(side), setting.bytes_per_s, setting.is_own
    wanted = rescue_rate.setpoint_bytes_per_s(side[1], load, live, view.target_s, limits)
    # A small change is not worth a write, unless it is the one that takes the throttle above what keeping up takes.
    crosses = live <= load.steady_state_bytes_per_s < wanted
    if wanted <= live * (1 + limits.deadband_ratio) and not crosses:
        if live >= limits.rate_bytes_per_s_max * (1 - limits.deadband_ratio):
            return _hold(
                side,
                Reason.AT_CEILING,
                f"at {_ceiling_word(side, view)} ({rate_text(live)}), {size_text(load.remaining_bytes)} remain",
            )
        return _hold(
            side, Reason.WITHIN_DEADBAND, f"{rate_text(live)} is enough: {size_text(load.remaining_bytes)} remain"
        )
    head = f"{side_name(side)} {rate_text(live)} → {rate_text(wanted)}"
    need = f"{size_text(load.remaining_bytes)} remain and {rate_text(load.steady_state_bytes_per_s)} go to keeping up"
    if not stalled:
        return SetRate(*side, live, wanted, Reason.RESCUE_NEEDS_MORE, f"{head}: {need}", own)
    lost = max(memory.stalls[d].lost_s for d in stalled)
    story = f"the move onto {formatting.brokers(stalled)} has stalled ({lost:.0f} s of progress lost)"
    if live <= load.steady_state_bytes_per_s:
        why = (
            f"{rate_text(live)} is not above the {rate_text(load.steady_state_bytes_per_s)} that keeping up takes"
            + (", in-sync followers included" if side[1] is Side.LEADER else "")
            + f", so it would never end; {size_text(load.remaining_bytes)} remain"
        )
        return SetRate(*side, live, wanted, Reason.STALLED_BELOW_STEADY_STATE, f"{head}: {story}; {why}", own)
    role = "this throttle binds" if view.is_bound(side) else "so that this side does not bind next"
    return SetRate(*side, live, wanted, Reason.STALLED_THROTTLE_BOUND, f"{head}: {story}; {role}; {need}", own)


def _hold(side: BrokerSide, reason: Reason, text: str) -> Hold:
    return Hold(*side, reason, f"{side_name(side)}: {text}")
