"""Decides whether the current rates are still the tuner's own.

An operator or another tool may change a rate that the tuner set. The tuner then relinquishes the throttle, and leaves it alone for
``external_change_hold_s``. A rate is the tuner's own if it is one of ``OwnedRate.possible_rates``: after a crash during a ramp, the
rate of any step of the ramp may be set.

Two exceptions:

cleared by a tool  When ``kafka-reassign-partitions --verify`` or ``--cancel`` ends a move, it removes the rates of every broker,
                   and the lists of the move's topics. So if all of the tuner's rates disappear at once, the tuner sets new rates
                   for the moves that still run. If all rates disappear again within the hold, the tuner takes this as an operator's
                   wish. The tool removes the rates one after the other, so the tuner checks a missing rate again in the next cycle.
late write         Kafka does not fence writes of settings. A request of the previous tuner may take effect after this tuner's first
                   snapshot. The journal has the intent of the request, so the rate stays the tuner's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from streaming.shared.units import rate_text
from tuner.control.throttle.decision import Hold, Reason, Relinquish, SetRate
from tuner.control.throttle.rescue_rate import min_draining_bytes_per_s
from tuner.control.throttle.state import Memory
from tuner.core.cluster import BrokerSide, LiveCluster, side_name
from tuner.core.drain_time import SideLoad
from tuner.core.throttle_limits import ThrottleLimits

# Holds on sides where nothing is unknown, changing or wrong.
_HEALTHY_HOLDS = frozenset({Reason.WATCHING, Reason.PROGRESSING, Reason.WITHIN_DEADBAND, Reason.AT_CEILING})


def find_cleared_rates(
    live: LiveCluster, memory: Memory, now_ms: int, limits: ThrottleLimits, *, external_lists_cleared: bool
) -> dict[BrokerSide, int]:
    """Returns the tuner's rates, by side, if a tool has cleared all of them; empty if not.

    Args:
        external_lists_cleared: lists of other owners named the moving replicas before, but do not name them any more.
    """
    readable = live.brokers - live.unreadable
    readable_rates = {side: owned for side, owned in memory.owned.items() if side[0] in readable}
    if not readable_rates or any(side in live.rates and live.rates[side].is_set_on_broker for side in readable_rates):
        return {}
    if any(None in owned.possible_rates for owned in readable_rates.values()):
        return {}  # The tuner is just setting a first rate, which may not be visible yet.
    lists_cleared = external_lists_cleared or any(topic not in live.lists for topic in memory.listed)
    on_one_broker = len({broker for broker, _ in readable_rates}) == 1
    cleared_again = now_ms - memory.cleared_at_ms < limits.external_change_hold_s * 1000
    if (on_one_broker or cleared_again) and not lists_cleared:
        return {}  # An operator may have removed these rates, not a tool.
    return {side: owned.setpoint_bytes_per_s for side, owned in readable_rates.items()}


def may_be_cleared_by_tool(current_bytes_per_s: int | None, *, throttles: bool) -> bool:
    """Whether a tool may have cleared this rate together with all other rates. ``find_cleared_rates`` checks all sides.

    Args:
        throttles: whether the tuner throttles any running move.
    """
    return current_bytes_per_s is None and throttles


def forget_cleared_rates(memory: Memory, sides: Iterable[BrokerSide], now_ms: int) -> tuple[Memory, list[Hold]]:
    """Returns the state without the cleared rates, and a hold that reports them; no hold if ``sides`` is empty.

    The rates from before the tuner's first change are forgotten too: the tool has cleared them as well, so they are not restored.
    """
    cleared = set(sides)
    if not cleared:
        return memory, []
    memory = replace(
        memory,
        owned={side: owned for side, owned in memory.owned.items() if side not in cleared},
        preexisting_rates={side: rate for side, rate in memory.preexisting_rates.items() if side not in cleared},
        missing_rates=memory.missing_rates - cleared,
        cleared_at_ms=now_ms,
    )
    text = (
        f"all {len(cleared)} rates of rheostat were removed at the same time, as kafka-reassign-partitions --verify and "
        "--cancel do with the rates of all brokers. Moves that still run are throttled again. To let them run unthrottled, "
        "use `rheostat pause`"
    )
    return memory, [Hold(None, None, Reason.CLEARED_BY_TOOL, text)]


def relinquish_changed_rates(
    live: LiveCluster, memory: Memory, now_ms: int, limits: ThrottleLimits, *, throttles: bool
) -> tuple[Memory, list[Relinquish | Hold]]:
    """Returns the state without rates that other clients changed and without expired holds, and a decision for each changed rate.

    Args:
        throttles: whether the tuner throttles any running move.
    """
    missing = set()
    missing_before = memory.missing_rates
    possible_late_writes = memory.predecessor_writes if now_ms < memory.predecessor_writes_until_ms else {}
    external = {side: until_ms for side, until_ms in memory.externally_owned_until_ms.items() if until_ms > now_ms}
    memory = replace(
        memory,
        externally_owned_until_ms=external,
        predecessor_writes=possible_late_writes,
        late_predecessor_writes=_current_late_writes(live, memory, now_ms),
    )
    decisions: list[Relinquish | Hold] = []
    for side, owned in list(memory.owned.items()):
        if side[0] not in live.brokers or side[0] in live.unreadable:
            continue  # The current rate is unknown.
        setting = live.rates.get(side)
        current = setting.bytes_per_s if setting is not None and setting.is_set_on_broker else None
        is_changed = current not in owned.possible_rates
        came_with_move = side not in memory.preexisting_rates and (memory.throttled or owned.before_bytes_per_s is None)
        if current is None and not live.moves and came_with_move:
            # The move has ended, and another tool's --verify removed the throttle of the move before the tuner did.
            memory = replace(memory, owned=memory.with_owned(side, None))
        elif (
            is_changed
            and may_be_cleared_by_tool(current, throttles=throttles and bool(live.moves))
            and side not in missing_before
            and not _is_late_predecessor_write(side, current, memory, now_ms)
        ):
            # A tool removes rates one after the other, so this rate is checked again in the next cycle.
            missing.add(side)
        elif is_changed:
            memory, decision = relinquish_rate(side, current, memory, now_ms, limits)
            decisions.append(decision)
    return replace(memory, missing_rates=frozenset(missing)), decisions


def _is_late_predecessor_write(side: BrokerSide, current_bytes_per_s: int | None, memory: Memory, now_ms: int) -> bool:
    if now_ms >= memory.predecessor_writes_until_ms:
        return False
    return current_bytes_per_s in memory.predecessor_writes.get(side, ())


def relinquish_rate(
    side: BrokerSide, current_bytes_per_s: int | None, memory: Memory, now_ms: int, limits: ThrottleLimits
) -> tuple[Memory, Relinquish | Hold]:
    """Returns the state and the decision for an owned rate that changed: it is relinquished, or kept if it is a late write.

    Args:
        side: one of ``memory.owned``.
        current_bytes_per_s: the rate that is set now; None: none is set.
    """
    owned = memory.owned[side]
    current = "no rate is set" if current_bytes_per_s is None else f"{rate_text(current_bytes_per_s)} is set"
    change = f"{side_name(side)}: rheostat had set {rate_text(owned.setpoint_bytes_per_s)}, now {current}"
    if _is_late_predecessor_write(side, current_bytes_per_s, memory, now_ms):
        rates = tuple(dict.fromkeys((current_bytes_per_s, *owned.possible_rates)))
        rate_before = owned.possible_rates[0]
        late_writes = {**memory.late_predecessor_writes, side: (current_bytes_per_s, rate_before)}
        memory = replace(
            memory,
            owned=memory.with_owned(side, replace(owned, possible_rates=rates)),
            late_predecessor_writes=late_writes,
        )
        text = f"{change}: a request of the previous tuner took effect late. rheostat continues to manage the rate"
        return memory, Hold(*side, Reason.LATE_PREDECESSOR_WRITE, text)
    until_ms = now_ms + round(limits.external_change_hold_s * 1000)
    minutes = limits.external_change_hold_s / 60
    text = f"{change}. An operator or another tool changed it, so rheostat leaves it alone for {minutes:.0f} min"
    decision = Relinquish(
        *side, owned.setpoint_bytes_per_s, current_bytes_per_s, until_ms, Reason.EXTERNAL_CHANGE, text
    )
    external = {**memory.externally_owned_until_ms, side: until_ms}
    return replace(memory, owned=memory.with_owned(side, None), externally_owned_until_ms=external), decision


def correct_late_writes(
    holds: Mapping[BrokerSide, Hold],
    live: LiveCluster,
    loads: Mapping[BrokerSide, SideLoad],
    memory: Memory,
    limits: ThrottleLimits,
) -> list[SetRate]:
    """Returns the changes that undo late writes of the previous tuner, on healthy sides whose earlier rate is above the minimum.

    Args:
        holds: the hold of each side in this cycle.
        loads: the measured load of each side.
    """
    changes = []
    for side, (_late_rate, rate_before) in memory.late_predecessor_writes.items():
        hold, setting, load = holds.get(side), live.rates.get(side), loads.get(side)
        if hold is None or hold.reason not in _HEALTHY_HOLDS:
            continue
        if setting is None or rate_before is None or load is None:
            continue
        setpoint = min(rate_before, int(limits.rate_bytes_per_s_max))
        # If the earlier rate is too low for the move, it was a step of the previous tuner's ramp, so it is not restored.
        if setpoint == setting.bytes_per_s:
            continue
        if setpoint < min_draining_bytes_per_s(load.steady_state_bytes_per_s, limits):
            continue
        text = (
            f"{side_name(side)} {rate_text(setting.bytes_per_s)} → {rate_text(setpoint)}: the current rate comes from a "
            "late write of the previous tuner, so the tuner sets the earlier rate again"
        )
        changes.append(SetRate(*side, setting.bytes_per_s, setpoint, Reason.LATE_PREDECESSOR_WRITE, text))
    return changes


def _current_late_writes(
    live: LiveCluster, memory: Memory, now_ms: int
) -> Mapping[BrokerSide, tuple[int | None, int | None]]:
    """Returns the late writes (late rate, rate before) whose late rate is still set, or may be on an unreadable broker."""
    if now_ms >= memory.predecessor_writes_until_ms or not memory.late_predecessor_writes:
        return {}
    rates = {side: setting.bytes_per_s for side, setting in live.rates.items() if setting.is_set_on_broker}
    return {
        side: (late_rate, rate_before)
        for side, (late_rate, rate_before) in memory.late_predecessor_writes.items()
        if side in memory.owned and (side[0] in live.unreadable or rates.get(side) == late_rate)
    }
