"""The metrics, made anew from the last cycle at each scrape: a broker that has vanished vanishes here too."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from streaming.contract import Side
from tuner.api import metric_defs as defs
from tuner.api.board import Board, Snapshot
from tuner.api.families import Labels, family
from tuner.api.quota_board import QuotaBoard, QuotaCollector
from tuner.decide.freshness import age_s


def installed_version() -> str:
    try:
        return version("rheostat")
    except PackageNotFoundError:
        return "unknown"


class BoardCollector(Collector):
    def __init__(self, board: Board) -> None:
        self._board = board

    def collect(self) -> Iterator[Metric]:
        board = self._board
        snapshot = board.snapshot()
        c = (board.cluster,)
        yield family(defs.BUILD_INFO, {(installed_version(),): 1.0})
        yield family(defs.READY, {c: float(board.ready()[0])})
        yield family(defs.ACTING, {c: float(board.acting)})
        yield family(defs.DRY_RUN, {c: float(board.dry_run)})
        yield family(defs.CYCLE_SECONDS, {c: board.cycle_s})
        yield family(defs.RATE_MAX, {c: board.limits.rate_bytes_per_s_max})
        yield family(defs.DECISIONS, {(*c, *key): float(n) for key, n in snapshot.decisions.items()})
        yield family(defs.ACTUATION_FAILURES, {c: float(snapshot.failures)})
        yield from self._cluster(snapshot, c)
        yield from self._moves(snapshot, c)

    def _cluster(self, snapshot: Snapshot, c: Labels) -> Iterator[Metric]:
        live, seen = snapshot.live, snapshot.observation
        if live is not None:
            yield family(defs.REASSIGNING_PARTITIONS, {c: float(len(live.moves))})
            yield family(defs.RECOVERING_PARTITIONS, {c: float(snapshot.recovering_partitions())})
            yield family(defs.THROTTLE_KEYS_IDLE, {c: float(snapshot.idle_throttle_keys())})
            yield family(defs.RATE_LIVE, {(*c, *_side(s)): float(r.bytes_per_s) for s, r in live.rates.items()})
        yield family(defs.RATE_WANTED, {(*c, *_side(s)): float(r) for s, r in snapshot.wanted.items()})
        courses = seen.courses if seen is not None else {}
        yield family(defs.NO_HEADROOM, {(*c, *_side(s)): float(course.no_headroom) for s, course in courses.items()})
        if seen is None:
            return
        now_ms = seen.now_ms
        brokers = seen.brokers
        yield family(defs.SIGNAL_AGE_SECONDS, {(*c, str(b)): age_s(s, now_ms) for b, s in brokers.items()})
        yield family(
            defs.PRODUCE_P99_SECONDS,
            {(*c, str(b)): s.produce_p99_ms / 1000 for b, s in brokers.items() if s.produce_p99_ms is not None},
        )
        throttled = {(*c, str(b), "leader"): s.leader_throttled_bytes_per_s for b, s in brokers.items()}
        throttled |= {(*c, str(b), "follower"): s.follower_throttled_bytes_per_s for b, s in brokers.items()}
        yield family(defs.THROTTLED_BYTES, {k: v for k, v in throttled.items() if v is not None})

    def _moves(self, snapshot: Snapshot, c: Labels) -> Iterator[Metric]:
        loads = snapshot.loads()
        yield family(defs.KEEP_UP_BYTES, {(*c, *_side(s)): load.keep_up_bytes_per_s for s, load in loads.items()})
        yield family(defs.INFEASIBLE, {(*c, *_side(s)): float(snapshot.infeasible(s)) for s in loads})
        stalls = snapshot.memory.stalls
        yield family(defs.STALLED, {(*c, str(b)): float(s.stalled) for b, s in stalls.items()})
        yield family(defs.STALL_SCORE_SECONDS, {(*c, str(b)): s.lost_s for b, s in stalls.items()})
        onto = {b: s for (b, side), s in snapshot.moves().items() if side is Side.FOLLOWER and s.moving_partitions}
        yield family(
            defs.REMAINING_BYTES,
            {(*c, str(b)): s.remaining_bytes for b, s in onto.items() if s.remaining_bytes is not None},
        )
        yield family(
            defs.REMAINING_SLOPE,
            {
                (*c, str(b)): s.remaining_slope_bytes_per_s
                for b, s in onto.items()
                if s.remaining_slope_bytes_per_s is not None
            },
        )


def registry_of(board: Board, quotas: QuotaBoard) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(BoardCollector(board))
    registry.register(QuotaCollector(quotas))
    return registry


def _side(side: tuple[int, Side]) -> Labels:
    return (str(side[0]), side[1].value)
