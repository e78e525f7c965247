"""The tenants in `rheostat status --watch`: who asks for how much, who is held back and why; where quotas are turned at all."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Set
from typing import Any

from rheostat.config.settings import Settings
from rheostat.quotas.live import evaluate_now
from streaming.shared.kafka.cluster import ClusterError
from tuner.control.mutation_quota.entity import QuotaEntity
from tuner.control.mutation_quota.state import MutationMemory
from tuner.core.cluster import ClusterUnreadable
from tuner.core.operator_orders import Orders
from tuner.core.quota_window import QuotaWindow
from tuner.runtime.observe.signals_reader import SignalCache

EVERY_S = 5.0


class TenantsPane:
    """The cluster is asked for its quotas now and then: they change less often than the picture."""

    def __init__(
        self,
        settings: Settings,
        stand: Callable[[], Mapping[QuotaEntity, float]],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            stand: the quotas that stand now; raises ClusterError.
        """
        self._settings = settings
        self._stand = stand
        self._monotonic = monotonic
        self._due_s = float("-inf")
        self._quotas: Mapping[QuotaEntity, float] | ClusterUnreadable = {}

    def told(
        self,
        signals: SignalCache,
        memory: MutationMemory,
        orders: Orders,
        now_ms: int,
        windows: Set[QuotaWindow] = frozenset(),
    ) -> dict[str, Any] | None:
        """As ``rheostat quotas --json`` has them; None: no quotas are turned here."""
        if self._settings.tuner.mutation_quota is None:
            return None
        if self._monotonic() >= self._due_s:
            self._quotas = self._looked()
            self._due_s = self._monotonic() + EVERY_S
        return evaluate_now(self._settings, self._quotas, signals, memory, orders, now_ms, windows=windows)

    def _looked(self) -> Mapping[QuotaEntity, float] | ClusterUnreadable:
        try:
            return self._stand()
        except ClusterError as error:
            return ClusterUnreadable(str(error))
