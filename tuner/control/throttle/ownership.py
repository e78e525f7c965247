"""Is what stands there still what we wrote?

A value that somebody else changed is theirs: it is let go, said aloud, and left alone until the hold expires. What stands
there is compared with what may stand there, not with a memory of "the last rate": a crash in the middle of a ramp leaves
one of its steps, and that is ours.

Where we throttle what moves, one change is nobody's word on a rate: ``kafka-reassign-partitions --verify`` and ``--cancel`` end
a move of their own and sweep the rates of every broker away, and the lists of their own topics with them. So when every rate of
ours is gone at once, that was a sweep, and what still moves is throttled again. A person changes a value, or takes one away; and
who takes all of them away by hand will do it again, and then it is a person's word. As the tool needs a moment for its sweep, what
is merely gone is looked at twice.

Kafka does not fence its settings: a request that the tuner before us had sent, or was stopped in, may land when we have looked
already. What it was about to write is on record, so such a value is known for what it is, and stays ours.
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
from tuner.core.throttle_limits import Limits

# Nothing of what is held for these has to do with a rate that is right: no blindness, no change under way, no trouble.
_HEALTHY_HOLDS = frozenset({Reason.WATCHING, Reason.PROGRESSING, Reason.WITHIN_DEADBAND, Reason.AT_CEILING})


def find_cleared_rates(
    live: LiveCluster, memory: Memory, now_ms: int, limits: Limits, *, unlisted: bool
) -> dict[BrokerSide, int]:
    """What stood on our sides before a sweep; nothing where there was none.

    Args:
        unlisted: somebody else's lists have named what moves, and do not any more.
    """
    readable = live.brokers - live.unreadable
    seen = {side: ours for side, ours in memory.owned.items() if side[0] in readable}
    if not seen or any(side in live.rates and live.rates[side].is_own for side in seen):
        return {}
    if any(None in ours.possible_rates for ours in seen.values()):
        return {}  # A rate that is only being set may not stand yet.
    lists_went = unlisted or any(topic not in live.lists for topic in memory.listed)
    by_hand = (
        len({broker for broker, _ in seen}) == 1 or now_ms - memory.cleared_at_ms < limits.external_change_hold_s * 1000
    )
    if by_hand and not lists_went:
        return {}
    return {side: ours.setpoint_bytes_per_s for side, ours in seen.items()}


def may_be_cleared_by_tool(found: int | None, *, throttles: bool) -> bool:
    """Of one side by itself: whether a tool may have swept all of it away, which only a look at everything can tell."""
    return found is None and throttles


def forget_cleared_rates(memory: Memory, sides: Iterable[BrokerSide], now_ms: int) -> tuple[Memory, list[Hold]]:
    """Neither ours any more nor anybody's: what stood before us was swept away as well, and is not put back either."""
    gone = set(sides)
    if not gone:
        return memory, []
    owned = {side: ours for side, ours in memory.owned.items() if side not in gone}
    standing = {side: rate for side, rate in memory.preexisting_rates.items() if side not in gone}
    text = (
        f"all our {len(gone)} rates were removed at once, as kafka-reassign-partitions --verify and --cancel do it with every "
        "broker's: what still moves is throttled again. Whoever wants it to run free says so with `rheostat pause`"
    )
    memory = replace(
        memory, owned=owned, preexisting_rates=standing, missing_rates=memory.missing_rates - gone, cleared_at_ms=now_ms
    )
    return memory, [Hold(None, None, Reason.CLEARED_BY_TOOL, text)]


def relinquish_changed_rates(
    live: LiveCluster, memory: Memory, now_ms: int, limits: Limits, *, throttles: bool
) -> tuple[Memory, list[Relinquish | Hold]]:
    """Drops from ``owned`` what no longer is ours, and from ``theirs`` what is free again.

    Args:
        throttles: whether we put throttles on any of what moves.
    """
    theirs = {side: until for side, until in memory.externally_owned_until_ms.items() if until > now_ms}
    waits = throttles and bool(live.moves)
    before, missing = memory.missing_rates, set()
    # It is on record, and a ramp has dozens of steps.
    late = memory.predecessor_writes if now_ms < memory.predecessor_writes_until_ms else {}
    memory = replace(
        memory,
        externally_owned_until_ms=theirs,
        predecessor_writes=late,
        late_predecessor_writes=_current_late_writes(live, memory, now_ms),
    )
    decisions: list[Relinquish | Hold] = []
    for side, ours in list(memory.owned.items()):
        if side[0] not in live.brokers or side[0] in live.unreadable:
            continue  # Not seen is not changed.
        setting = live.rates.get(side)
        found = setting.bytes_per_s if setting is not None and setting.is_own else None
        came_with_it = side not in memory.preexisting_rates and (memory.throttled or ours.before_bytes_per_s is None)
        if found is None and not live.moves and came_with_it:
            # The move has ended and its throttle is gone, as it should be: the tool's --verify was quicker than we.
            memory = replace(memory, owned=memory.with_owned(side, None))
        elif (
            found is None
            and waits
            and side not in before
            and found not in ours.possible_rates
            and not _is_late_predecessor_write(side, found, memory, now_ms)
        ):
            missing.add(side)
        elif found not in ours.possible_rates:
            memory, decision = relinquish_rate(side, found, memory, now_ms, limits)
            decisions.append(decision)
    return replace(memory, missing_rates=frozenset(missing)), decisions


def _is_late_predecessor_write(side: BrokerSide, found: int | None, memory: Memory, now_ms: int) -> bool:
    return now_ms < memory.predecessor_writes_until_ms and found in memory.predecessor_writes.get(side, ())


def relinquish_rate(
    side: BrokerSide, found: int | None, memory: Memory, now_ms: int, limits: Limits
) -> tuple[Memory, Relinquish | Hold]:
    """Somebody else's from now on, unless it is what the tuner before us was about to write. ``side`` is one of ``owned``."""
    ours = memory.owned[side]
    if _is_late_predecessor_write(side, found, memory, now_ms):
        stands = "nothing" if found is None else rate_text(found)
        text = (
            f"{side_name(side)}: we had set {rate_text(ours.setpoint_bytes_per_s)}, now {stands} stands there, as the tuner "
            "before this one was about to set it: its request came late. It stays ours"
        )
        owned = replace(ours, possible_rates=tuple(dict.fromkeys((found, *ours.possible_rates))))
        late_predecessor_write = {**memory.late_predecessor_writes, side: (found, ours.possible_rates[0])}
        memory = replace(memory, owned=memory.with_owned(side, owned), late_predecessor_writes=late_predecessor_write)
        return memory, Hold(*side, Reason.LATE_PREDECESSOR_WRITE, text)
    until_ms = now_ms + round(limits.external_change_hold_s * 1000)
    stands = "nothing" if found is None else rate_text(found)
    text = (
        f"{side_name(side)}: we had set {rate_text(ours.setpoint_bytes_per_s)}, now {stands} stands there. Somebody changed "
        f"it, so it is theirs: left alone for {limits.external_change_hold_s / 60:.0f} min"
    )
    decision = Relinquish(*side, ours.setpoint_bytes_per_s, found, until_ms, Reason.EXTERNAL_CHANGE, text)
    theirs = {**memory.externally_owned_until_ms, side: until_ms}
    return replace(memory, owned=memory.with_owned(side, None), externally_owned_until_ms=theirs), decision


def correct_late_writes(
    holds: Mapping[BrokerSide, Hold],
    live: LiveCluster,
    loads: Mapping[BrokerSide, SideLoad],
    memory: Memory,
    limits: Limits,
) -> list[SetRate]:
    """Back to what stood before something came late, where that still stands and nothing speaks against a change.

    Args:
        holds: what was decided of each side.
        loads: what is known to go through each.
    """
    changes = []
    for side, (_, stood) in memory.late_predecessor_writes.items():
        hold, setting, load = holds.get(side), live.rates.get(side), loads.get(side)
        if hold is None or hold.reason not in _HEALTHY_HOLDS or setting is None or stood is None or load is None:
            continue
        wanted = min(stood, int(limits.rate_bytes_per_s_max))
        # What stood and does not drain was left by whoever came late, on the way up.
        if wanted == setting.bytes_per_s or wanted < min_draining_bytes_per_s(load, limits):
            continue
        text = (
            f"{side_name(side)}: {rate_text(setting.bytes_per_s)}, which the tuner before this one had sent late, to "
            f"{rate_text(wanted)}, as it stood"
        )
        changes.append(SetRate(*side, setting.bytes_per_s, wanted, Reason.LATE_PREDECESSOR_WRITE, text))
    return changes


def _current_late_writes(
    live: LiveCluster, memory: Memory, now_ms: int
) -> Mapping[BrokerSide, tuple[int | None, int | None]]:
    if now_ms >= memory.predecessor_writes_until_ms or not memory.late_predecessor_writes:
        return {}
    found = {side: setting.bytes_per_s for side, setting in live.rates.items() if setting.is_own}
    return {
        side: late
        for side, late in memory.late_predecessor_writes.items()
        if side in memory.owned and (side[0] in live.unreadable or found.get(side) == late[0])
    }
