"""Keeps the history of the last five weeks in a compact form: an array of numbers per period of ten minutes.

A value that no broker can have (negative, or beyond all hardware) counts as not measured. All times are UTC, so daylight saving
changes nothing here: a load that follows local time moves by an hour twice a year, as a change of the load itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from streaming.shared.contract.history import PERIOD_S, BrokerHistory, HistoryPeriod

Floats = npt.NDArray[np.float32]
Tenant = tuple[str | None, str | None]  # User and client id.

PERIOD_MS = PERIOD_S * 1000
HOUR_MS = 3_600_000
PERIODS_PER_HOUR = HOUR_MS // PERIOD_MS
KEPT_HOURS = 35 * 24
# A forged history must not fill the memory.
BROKERS_MAX = 5_000
TENANTS_MAX = 1_000
_RATE_MAX = 1e12
_LATENCY_MS_MAX = 1e7
_LAG_MAX = 1e15
# With fewer writes Kafka's p99, which covers the last thousand requests, says nothing about the present.
_CLIENTS_BYTES_PER_S_MIN = 50_000.0


class BrokerFigure(IntEnum):
    """The rows of a period's array."""

    CLIENT_IN = 0
    CLIENT_OUT = 1
    STEADY_IN = 2
    STEADY_OUT = 3
    P99_MS = 4
    STEADY_LAG = 5
    IN_MAX = 6
    IN_MAX_P99_MS = 7
    OUT_MAX = 8
    OUT_MAX_P99_MS = 9


@dataclass(frozen=True, slots=True)
class PeriodRow:
    """One period.

    Attributes:
        values: by ``BrokerFigure`` and column of a broker; NaN: not measured. Columns of later brokers are missing.
        is_copying: some broker copied replicas, between brokers or between its disks.
        tenant_rates: mutations/s, by tenant.
    """

    values: Floats
    is_copying: bool
    tenant_rates: dict[Tenant, float]

    def equals(self, other: PeriodRow) -> bool:
        return (
            self.is_copying == other.is_copying
            and self.tenant_rates == other.tenant_rates
            and self.values.shape == other.values.shape
            and np.array_equal(self.values, other.values, equal_nan=True)
        )


class PeriodBook:
    """The periods of one cluster.

    Attributes:
        brokers: the node ids, by column.
        newest_ms: begin of the newest period; None while there is none.
        changes: how often a period was added or replaced.
        changed_from_hour: no hour before this one has changed since ``forget_changes``.
    """

    def __init__(self) -> None:
        self.brokers: list[int] = []
        self.newest_ms: int | None = None
        self.changes = 0
        self.changed_from_hour = 0
        self._columns: dict[int, int] = {}
        self._tenants: set[Tenant] = set()
        self._rows: dict[int, PeriodRow] = {}

    def take(self, period: HistoryPeriod) -> None:
        """Takes a period. It replaces an earlier one of the same time; one that is older than five weeks is left out."""
        newest_ms = max(period.start_ms, self.newest_ms or 0)
        if period.start_ms <= newest_ms - KEPT_HOURS * HOUR_MS:
            return
        row = self._row_of(period)
        known = self._rows.get(period.start_ms)
        if known is not None and known.equals(row):
            return
        self._rows[period.start_ms] = row
        self.changes += 1
        hour = period.start_ms // HOUR_MS
        self.changed_from_hour = min(hour, self.changed_from_hour)
        if newest_ms != self.newest_ms:
            self.newest_ms = newest_ms
            oldest_ms = newest_ms - KEPT_HOURS * HOUR_MS
            for start_ms in [s for s in self._rows if s <= oldest_ms]:
                del self._rows[start_ms]

    def forget_changes(self, before_hour: int) -> None:
        """Forgets the changes of hours before this one. The hours from it on may have changed as well."""
        self.changed_from_hour = before_hour

    def periods(self, hour: int) -> list[PeriodRow | None]:
        """Returns the last period of the hour before, and the six periods of the hour; None for each that is missing."""
        start_ms = hour * HOUR_MS
        return [self._rows.get(start_ms + i * PERIOD_MS) for i in range(-1, PERIODS_PER_HOUR)]

    def first_hour(self) -> int | None:
        return min(self._rows) // HOUR_MS if self._rows else None

    def _row_of(self, period: HistoryPeriod) -> PeriodRow:
        for broker in period.brokers:
            if broker.broker not in self._columns and len(self.brokers) < BROKERS_MAX:
                self._columns[broker.broker] = len(self.brokers)
                self.brokers.append(broker.broker)
        values = np.full((len(BrokerFigure), len(self.brokers)), np.nan, dtype=np.float32)
        is_copying = False
        for broker in period.brokers:
            is_copying = is_copying or _is_copying(broker)
            column = self._columns.get(broker.broker)
            if column is not None:
                values[:, column] = _figures(broker)
        rates: dict[Tenant, float] = {}
        for tenant in period.tenants:
            key = (tenant.user, tenant.client_id)
            rate = _checked(tenant.mutation_rate_per_s, _RATE_MAX)
            if rate is not None and (key in self._tenants or len(self._tenants) < TENANTS_MAX):
                self._tenants.add(key)
                rates[key] = rate
        return PeriodRow(values=values, is_copying=is_copying, tenant_rates=rates)


def _figures(broker: BrokerHistory) -> list[float | None]:
    client_in = _checked(broker.client_in_bytes_per_s, _RATE_MAX)
    p99_ms = _checked(broker.produce_p99_ms, _LATENCY_MS_MAX)
    is_measured = broker.reassignment_in_bytes_per_s is not None and broker.reassignment_out_bytes_per_s is not None
    is_written = client_in is not None and client_in >= _CLIENTS_BYTES_PER_S_MIN
    is_steady = not broker.moving_partitions_max
    # By ``BrokerFigure``. An array of floats takes None as NaN.
    return [
        client_in,
        _checked(broker.client_out_bytes_per_s, _RATE_MAX),
        _steady(broker, broker.replication_in_bytes_per_s, broker.reassignment_in_bytes_per_s),
        _steady(broker, broker.replication_out_bytes_per_s, broker.reassignment_out_bytes_per_s),
        p99_ms if p99_ms and is_written and is_measured else None,
        _checked(broker.lag_sum_messages, _LAG_MAX) if is_steady else None,
        _checked(broker.in_bytes_per_s_max, _RATE_MAX),
        _checked(broker.in_max_p99_ms, _LATENCY_MS_MAX),
        _checked(broker.out_bytes_per_s_max, _RATE_MAX),
        _checked(broker.out_max_p99_ms, _LATENCY_MS_MAX),
    ]


def _steady(broker: BrokerHistory, replication: float | None, reassignment: float | None) -> float | None:
    """Returns replication without the bytes of moves; None if these are not known."""
    if broker.moving_partitions_max and not reassignment:
        return None  # Kafka's metrics of reassignments do not count the bytes of replicas that recover.
    total = _checked(replication, _RATE_MAX)
    moves = _checked(0.0 if reassignment is None and not broker.moving_partitions_max else reassignment, _RATE_MAX)
    return None if total is None or moves is None else max(0.0, total - moves)


def _is_copying(broker: BrokerHistory) -> bool:
    return bool(
        broker.reassignment_in_bytes_per_s
        or broker.reassignment_out_bytes_per_s
        or broker.log_dir_copied_bytes_per_s
        or broker.moving_partitions_max
    )


def _checked(value: float | None, value_max: float) -> float | None:
    return value if value is not None and 0.0 <= value <= value_max else None
