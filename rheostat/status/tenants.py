"""Evaluates the tenants for `rheostat status --watch`: demand, quota, throttled or not, and the reason."""

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

READ_EVERY_S = 5.0


class TenantsPane:
    """Evaluates the tenants. It reads the quotas less often than the screen is drawn, because quotas rarely change."""

    def __init__(
        self,
        settings: Settings,
        read_quotas: Callable[[], Mapping[QuotaEntity, float]],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            read_quotas: returns the current quotas; raises ClusterError.
        """
        self._settings = settings
        self._read_quotas = read_quotas
        self._monotonic = monotonic
        self._due_s = float("-inf")
        self._quotas: Mapping[QuotaEntity, float] | ClusterUnreadable = {}

    def evaluate(
        self,
        signals: SignalCache,
        memory: MutationMemory,
        orders: Orders,
        now_ms: int,
        windows: Set[QuotaWindow] = frozenset(),
    ) -> dict[str, Any] | None:
        """Returns the report of ``rheostat quotas --json``; None if rheostat manages no quotas."""
        if self._settings.tuner.mutation_quota is None:
            return None
        if self._monotonic() >= self._due_s:
            self._quotas = self._read()
            self._due_s = self._monotonic() + READ_EVERY_S
        return evaluate_now(self._settings, self._quotas, signals, memory, orders, now_ms, windows=windows)

    def _read(self) -> Mapping[QuotaEntity, float] | ClusterUnreadable:
        try:
            return self._read_quotas()
        except ClusterError as error:
            return ClusterUnreadable(str(error))
