"""Mutation quotas as the last cycle left them, for whoever asks over HTTP. Written by the loop's thread, read by the server's."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from tuner.api import metric_defs as defs
from tuner.api.families import family
from tuner.decide.mutation_quota import Turn
from tuner.model.cluster import NotSeen
from tuner.model.mutation import QuotaView
from tuner.model.mutation_decision import HoldQuota, TotalSaid, action_of
from tuner.model.mutation_memory import MutationMemory

# A series for each that is held back; client-ids may be made up anew each time.
NAMED_MAX = 50


@dataclass(frozen=True, slots=True)
class Shown:
    """One cycle."""

    view: QuotaView
    made: Turn
    memory: MutationMemory

    @property
    def total(self) -> TotalSaid | None:
        return next((d for d in self.made.decisions if isinstance(d, TotalSaid)), None)


class QuotaBoard:
    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self._lock = threading.Lock()
        self._shown: Shown | None = None
        self._failures = 0
        self._decisions: Counter[tuple[str, str]] = Counter()

    def shared_out(self, view: QuotaView, made: Turn, memory: MutationMemory, failures: int) -> None:
        with self._lock:
            self._shown, self._failures = Shown(view, made, memory), failures
            for decision in made.decisions:
                self._decisions[(action_of(decision), decision.reason.value)] += 1

    def stands_by(self) -> None:
        """What was seen last is somebody else's to tell from now on."""
        with self._lock:
            self._shown = None

    def shown(self) -> tuple[Shown | None, int, dict[tuple[str, str], int]]:
        with self._lock:
            return self._shown, self._failures, dict(self._decisions)

    def as_json(self) -> dict[str, Any] | None:
        """None: nobody turns any quotas."""
        shown, _, _ = self.shown()
        return None if shown is None else quotas_json(shown)


def quotas_json(shown: Shown) -> dict[str, Any]:
    total, view, memory = shown.total, shown.view, shown.memory
    tokens = {(s.user, s.client_id): s.tokens for s in sorted(view.tenants, key=lambda s: s.sampled_at_ms)}
    return {
        "total_per_s": memory.total.rate_per_s if memory.total is not None else None,
        "pressure": total.pressure if total is not None else None,
        "why": total.text if total is not None else None,
        "holds": [d.text for d in shown.made.decisions if isinstance(d, HoldQuota)],
        "seen_at_ms": view.now_ms,
        # None: nobody was judged, and the holds say why. That is not to say that there is nobody.
        "tenants": None
        if total is None and not shown.made.shares
        else [
            {
                "user": row.tenant.user,
                "client_id": row.tenant.client_id,
                "demand_per_s": row.rate_per_s,
                "quota_per_s": row.stands_per_s,
                "quota_wanted_per_s": row.wanted_per_s,
                "tokens": tokens.get((row.tenant.user, row.tenant.client_id)),
                "throttled": row.hungry,
                "ours": row.tenant.entity in memory.owned,
                "rule": row.rule,
                "reason": row.reason.value,
            }
            for row in shown.made.shares
        ],
    }


class QuotaCollector(Collector):
    def __init__(self, board: QuotaBoard) -> None:
        self._board = board

    def collect(self) -> Iterator[Metric]:
        shown, failures, decisions = self._board.shown()
        c = (self._board.cluster,)
        if decisions:
            yield family(defs.QUOTA_DECISIONS, {(*c, *key): float(n) for key, n in decisions.items()})
            yield family(defs.QUOTA_FAILURES, {c: float(failures)})
        if shown is None:
            return
        total, memory = shown.total, shown.memory
        yield family(defs.QUOTAS_SEEN, {c: float(not isinstance(shown.view.quotas, NotSeen))})
        if total is not None:
            yield family(defs.CONTROLLER_PRESSURE, {c: total.pressure})
        if memory.total is not None:
            yield family(defs.MUTATION_TOTAL, {c: memory.total.rate_per_s})
        rows = shown.made.shares
        yield family(defs.TENANTS_HELD, {c: float(sum(row.hungry for row in rows))})
        yield family(defs.QUOTAS_OWNED, {c: float(len(memory.owned))})
        busiest = sorted((row for row in rows if row.hungry), key=lambda row: (-row.rate_per_s, row.tenant.key))
        yield family(
            defs.TENANT_EXHAUSTED,
            {(*c, row.tenant.user or "", row.tenant.client_id or ""): 1.0 for row in busiest[:NAMED_MAX]},
        )
