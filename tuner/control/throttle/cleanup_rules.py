"""The moves have ended: what has to go, and what is put back?

Kinds of throttle that look alike while a move runs and must not be treated alike when it ends:
    the move's own     every list names a replica that moved, and was not there before the move, as far as we saw: it was put
                       on for this move, so it goes, lists first, then the rates of the brokers that took part, but for
                       those that stood there before anything moved. ``kafka-reassign-partitions --verify`` does the same
                       and spares nothing, if only somebody remembers to run it.
    a standing one     some list was there before, is "*", or names nobody who moved: the rates serve it too. So the lists
                       stay, and every rate that we changed becomes again what it was.

    the next one's      it was gone, or not there yet, at a look at which nothing moved: somebody is about to begin. It stays.

Invariant: nothing is touched that neither we wrote nor the ended moves brought. Lists before rates: a rate removed first
leaves the listed replicas unlimited for a moment, a list removed first throttles nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from streaming.shared.contract import Side
from streaming.shared.units import rate_text
from tuner.control.throttle.decision import ClearLists, Reason, RestoreRate
from tuner.control.throttle.state import Memory
from tuner.core.cluster import BrokerSide, LiveCluster, side_name
from tuner.core.throttle_limits import Limits


def cleanup_after_moves(live: LiveCluster, memory: Memory, limits: Limits) -> Sequence[ClearLists | RestoreRate]:
    """What is still to be done; empty when nothing is."""
    if is_throttle_of_move(live, memory, limits):
        # Of a move before this one, too: a broker that was away at its end may be back since.
        went = _participants(memory) | memory.brokers_to_clear
        return [*_clear_lists(live), *_remove_rates(live, memory, went), *_restore_rates(live, memory, but=went)]
    return [
        *_restore_rates(live, memory, but=memory.brokers_to_clear),
        *_remove_rates(live, memory, memory.brokers_to_clear),
    ]


def may_need_cleanup(memory: Memory, live: LiveCluster | None) -> bool:
    """Whether the moves may have just ended, so that the next look has to be at everything.

    A rate on a broker that is away does not count: a broker that is away for good would have everything looked at for ever.

    Args:
        live: as seen last; None: not yet.
    """
    if memory.idle_snapshots == 0:
        return False
    return bool(memory.moving_replicas) or any(live is None or broker in live.brokers for broker, _ in memory.owned)


def is_throttle_of_move(live: LiveCluster, memory: Memory, limits: Limits) -> bool:
    return limits.clears_finished and memory.throttled and not _any_list_serves_others(live, memory)


def unreadable_participants(live: LiveCluster, memory: Memory) -> frozenset[int]:
    """Brokers that took part in what ended, and whose settings cannot be read now."""
    return (_participants(memory) | memory.brokers_to_clear) - _readable(live)


def _participants(memory: Memory) -> frozenset[int]:
    return frozenset(broker for brokers in memory.moving_replicas.values() for broker in brokers)


def _readable(live: LiveCluster) -> frozenset[int]:
    return live.brokers - live.unreadable


def _any_list_serves_others(live: LiveCluster, memory: Memory) -> bool:
    """Does any list serve replicas that did not move?

    A list that was there before the move does. So does one that names no replica that moved: somebody may be throttling the
    catch-up of another topic. One that does name some is the move's; the others in it belong to partitions that were done
    before our first look.
    """
    lists_came = memory.after_moves.new_lists if memory.after_moves is not None else ()
    for topic, throttle in live.lists.items():
        if throttle.leader.all_replicas or throttle.follower.all_replicas or topic in lists_came:
            return True
        if memory.preexisting_lists is not None and topic in memory.preexisting_lists:
            return True
        if not any(
            broker in memory.moving_replicas.get((topic, p), ())
            for p, broker in throttle.leader.pairs | throttle.follower.pairs
        ):
            return True
    return False


def _clear_lists(live: LiveCluster) -> list[ClearLists]:
    return [
        ClearLists(
            topic,
            tuple(
                side for side, listed in ((Side.LEADER, throttle.leader), (Side.FOLLOWER, throttle.follower)) if listed
            ),
            Reason.MOVE_ENDED,
            f"topic {topic}: its move has ended, so its throttled-replica lists go",
        )
        for topic, throttle in sorted(live.lists.items())
    ]


def _remove_rates(live: LiveCluster, memory: Memory, brokers: frozenset[int]) -> list[RestoreRate]:
    found = []
    came = memory.after_moves.new_rates if memory.after_moves is not None else ()
    for side in ((broker, side) for broker in sorted(brokers & _readable(live)) for side in Side):
        setting = live.rates.get(side)
        if setting is None or not setting.is_own or side in memory.externally_owned_until_ms or side in came:
            continue
        stood = memory.preexisting_rates.get(side)
        if stood is None:
            why = "the move has ended and the throttle was put on for it, so it goes"
            found.append(_restore(side, setting.bytes_per_s, None, why))
        elif setting.bytes_per_s != stood and side in memory.owned:
            why = "the move has ended; that stood there before it came"
            found.append(_restore(side, setting.bytes_per_s, stood, why))
    return found


def restore_all(live: LiveCluster, memory: Memory, reason: Reason, why: str) -> list[RestoreRate]:
    """Of every rate that is ours what stood there before, as far as its broker can be reached; and of a broker that was away when
    its move ended what the move had brought, unless it takes part in another by now."""
    busy = {b for move in live.moves for b in (*move.replicas, *move.adding, *move.removing)}
    back = _restore_rates(live, memory, why, but=memory.brokers_to_clear)
    return [
        replace(each, reason=reason) for each in (*back, *_remove_rates(live, memory, memory.brokers_to_clear - busy))
    ]


def drop_restored_rates(live: LiveCluster, memory: Memory) -> Memory:
    """Without the rates that were meant to be changed and stand as they stood before, and the brokers with none left to clear."""

    def stands(side: BrokerSide) -> int | None:
        setting = live.rates.get(side)
        return setting.bytes_per_s if setting is not None and setting.is_own else None

    readable = _readable(live)
    owned = {
        side: ours
        for side, ours in memory.owned.items()
        if side[0] not in readable or stands(side) != ours.before_bytes_per_s
    }
    # Whoever sets a rate on such a broker from now on is somebody else.
    to_clear = {
        b for b in memory.brokers_to_clear if b not in readable or any(stands((b, side)) is not None for side in Side)
    }
    return replace(memory, owned=owned, brokers_to_clear=frozenset(to_clear))


def _restore_rates(
    live: LiveCluster, memory: Memory, why: str = "the move has ended", *, but: frozenset[int]
) -> list[RestoreRate]:
    """What stood there before, but for some brokers, whose rates go."""
    found, readable = [], _readable(live)
    for side, owned in sorted(memory.owned.items()):
        setting = live.rates.get(side)
        # A broker that is away keeps its dynamic settings: it is put back when it is seen again.
        if side[0] not in readable or side[0] in but or setting is None or not setting.is_own:
            continue
        before = owned.before_bytes_per_s
        if setting.bytes_per_s == before:
            continue
        stood = "there was none" if before is None else f"{rate_text(before)} stood there before"
        found.append(_restore(side, setting.bytes_per_s, before, f"{why}; {stood}"))
    return found


def _restore(side: BrokerSide, live: int, value: int | None, why: str) -> RestoreRate:
    to = "removed" if value is None else f"→ {rate_text(value)}"
    return RestoreRate(*side, live, value, Reason.MOVE_ENDED, f"{side_name(side)} {rate_text(live)} {to}: {why}")
