"""Is what stands there still what we wrote?

A value that somebody else changed is theirs: it is let go, said aloud, and left alone until the hold expires. What stands
there is compared with what may stand there, not with a memory of "the last rate": a crash in the middle of a ramp leaves
one of its steps, and that is ours.
"""

from __future__ import annotations

from dataclasses import replace

from tuner.decide import words
from tuner.model.cluster import BrokerSide, LiveCluster, side_name
from tuner.model.decision import LetGo, Reason
from tuner.model.limits import Limits
from tuner.model.memory import Memory


def let_go_of_changed(live: LiveCluster, memory: Memory, now_ms: int, limits: Limits) -> tuple[Memory, list[LetGo]]:
    """Drops from ``owned`` what no longer is ours, and from ``theirs`` what is free again."""
    theirs = {side: until for side, until in memory.theirs_until_ms.items() if until > now_ms}
    memory = replace(memory, theirs_until_ms=theirs)
    decisions = []
    for side, ours in list(memory.owned.items()):
        if side[0] not in live.brokers or side[0] in live.unreadable:
            continue  # Not seen is not changed.
        setting = live.rates.get(side)
        found = setting.bytes_per_s if setting is not None and setting.own else None
        if found not in ours.may_stand:
            memory, decision = let_go(side, found, memory, now_ms, limits)
            decisions.append(decision)
    return memory, decisions


def let_go(side: BrokerSide, found: int | None, memory: Memory, now_ms: int, limits: Limits) -> tuple[Memory, LetGo]:
    """Somebody else's from now on. ``side`` is one of ``owned``."""
    ours = memory.owned[side]
    until_ms = now_ms + round(limits.yield_s * 1000)
    stands = "nothing" if found is None else words.rate(found)
    text = (
        f"{side_name(side)}: we had set {words.rate(ours.wanted_bytes_per_s)}, now {stands} stands there. Somebody changed "
        f"it, so it is theirs: left alone for {limits.yield_s / 60:.0f} min"
    )
    decision = LetGo(*side, ours.wanted_bytes_per_s, found, until_ms, Reason.CHANGED_BY_SOMEBODY, text)
    theirs = {**memory.theirs_until_ms, side: until_ms}
    return replace(memory, owned=memory.with_owned(side, None), theirs_until_ms=theirs), decision
