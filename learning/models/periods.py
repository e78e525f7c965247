"""Keeps the history of the last five weeks in a compact form: an array of numbers per period of ten minutes.

A value that no broker can have (negative, beyond all hardware, or a latency far below Kafka's resolution) counts as not measured.
All times are UTC, without daylight saving time. A load that follows local time therefore shifts by an hour twice a year.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from learning.models.places import Ids, Places
from learning.models.tenant_numbers import Tenant, TenantNumbers
from streaming.shared.contract.history import PERIOD_S, BrokerHistory, HistoryPeriod

Floats = npt.NDArray[np.float32]
PERIOD_MS = PERIOD_S * 1000
HOUR_MS = 3_600_000
PERIODS_PER_HOUR = HOUR_MS // PERIOD_MS
KEPT_HOURS = 35 * 24
# Bounds the memory that a forged history can use.
BROKERS_MAX = 5_000
TENANTS_MAX = 1_000
# Highest number of tenants with a number. Most may be short-lived, for example client ids that contain pod names.
_TENANTS_NAMED_MAX = 10 * TENANTS_MAX
_PLACES_KEPT_DAYS = 7  # A broker or tenant without a period for this long loses its place (places.py).
_DAY_MS = 24 * HOUR_MS
_RATE_MAX = 1e12
# Kafka's resolution is far coarser, so a smaller p99 is forged. The logarithm of a value near 0 would distort the mean for long.
_LATENCY_MS_MIN, _LATENCY_MS_MAX = 1e-3, 1e7
_LAG_MAX = 1e15
# Kafka's p99 covers the last thousand requests. If clients write less than this, most of the thousand requests are too old.
_CLIENTS_BYTES_PER_S_MIN = 50_000.0


class BrokerFigure(IntEnum):
    """The measurements of a broker; each is a row of a period's array."""

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
        values: by ``BrokerFigure`` and broker's column; NaN: not measured.
        is_copying: a broker copied replicas to or from another broker, or between its disks.
        tenant_rates: mutations/s, by tenant.
    """

    values: Floats
    is_copying: bool
    tenant_rates: dict[Tenant, float]


@dataclass(frozen=True, slots=True)
class _KeptPeriod:
    """A period in the compact form of ``PeriodBook``.

    Attributes:
        values: by ``BrokerFigure`` and broker, in the order of ``brokers``.
        tenants: numbers of tenants (``TenantNumbers``).
        rates: mutations/s, in the order of ``tenants``.
    """

    brokers: Ids
    values: Floats
    is_copying: bool
    tenants: Ids
    rates: Floats

    def equals(self, other: _KeptPeriod) -> bool:
        return (
            self.is_copying == other.is_copying
            and np.array_equal(self.brokers, other.brokers)
            and np.array_equal(self.values, other.values, equal_nan=True)
            and np.array_equal(self.tenants, other.tenants)
            and np.array_equal(self.rates, other.rates)
        )


class PeriodBook:
    """The periods of one cluster.

    Each period stores only its own brokers, so a forged period with thousands of brokers does not enlarge other periods.
    ``assign_places`` decides which brokers and tenants are learned.

    Attributes:
        newest_ms: start of the newest period; None while there is no period.
        changes: how often a period was added or replaced.
        changed_from_hour: the first hour that may have changed since ``forget_changes``.
    """

    def __init__(self) -> None:
        self.newest_ms: int | None = None
        self.changes = 0
        self.changed_from_hour = 0
        self._broker_places = Places(BROKERS_MAX)
        self._tenant_places = Places(TENANTS_MAX)
        self._tenant_numbers = TenantNumbers(_TENANTS_NAMED_MAX)
        self._rows: dict[int, _KeptPeriod] = {}
        self._last_brokers: Ids = np.zeros(0, dtype=np.int64)  # Shared by periods with the same brokers.

    @property
    def brokers(self) -> list[int]:
        """The node ids, by column."""
        return self._broker_places.ids

    def add(self, period: HistoryPeriod) -> None:
        """Adds a period, or replaces the earlier period of the same time. Ignores a period that is more than five weeks old."""
        newest_ms = max(period.start_ms, self.newest_ms or 0)
        if period.start_ms <= newest_ms - KEPT_HOURS * HOUR_MS:
            return
        row = self._kept(period)
        known = self._rows.get(period.start_ms)
        if known is not None and known.equals(row):
            return
        self._rows[period.start_ms] = row
        self._broker_places.add(row.brokers.tolist())
        self._tenant_places.add(row.tenants.tolist())
        self.changes += 1
        hour = period.start_ms // HOUR_MS
        self.changed_from_hour = min(hour, self.changed_from_hour)
        if newest_ms != self.newest_ms:
            self.newest_ms = newest_ms
            oldest_ms = newest_ms - KEPT_HOURS * HOUR_MS
            for start_ms in [s for s in self._rows if s <= oldest_ms]:
                del self._rows[start_ms]

    def assign_places(self) -> None:
        """Reassigns the brokers' columns and the tenants' places to the brokers and tenants of the newest week."""
        newest_ms = self.newest_ms or 0
        newest_day, before = [], []
        for start_ms, row in self._rows.items():
            age_ms = newest_ms - start_ms
            if age_ms < _DAY_MS:
                newest_day.append(row)
            elif age_ms < _PLACES_KEPT_DAYS * _DAY_MS:
                before.append(row)
        self._broker_places.reassign([row.brokers for row in newest_day], [row.brokers for row in before])
        self._tenant_places.reassign([row.tenants for row in newest_day], [row.tenants for row in before])

    def left_out(self) -> tuple[int, int]:
        """Returns how many brokers and how many tenants of the newest period have no place because all places are taken."""
        row = self._rows.get(self.newest_ms or 0)
        if row is None:
            return 0, 0
        brokers = int((self._broker_places.of(row.brokers) < 0).sum())
        return brokers, int((self._tenant_places.of(row.tenants) < 0).sum())

    def forget_changes(self, before_hour: int) -> None:
        """Marks all hours before ``before_hour`` as unchanged. ``before_hour`` and later hours count as changed."""
        self.changed_from_hour = before_hour

    def periods(self, hour: int) -> list[PeriodRow | None]:
        """Returns the last period before the hour, then the six periods of the hour; None: the period is missing."""
        start_ms = hour * HOUR_MS
        rows = [self._rows.get(start_ms + i * PERIOD_MS) for i in range(-1, PERIODS_PER_HOUR)]
        return [None if row is None else self._row_of(row) for row in rows]

    def first_hour(self) -> int | None:
        return min(self._rows) // HOUR_MS if self._rows else None

    def _kept(self, period: HistoryPeriod) -> _KeptPeriod:
        brokers = {broker.broker: broker for broker in period.brokers[:BROKERS_MAX]}
        values = np.array([_figures(broker) for broker in brokers.values()], dtype=np.float32)
        rates: dict[int, float] = {}
        for tenant in period.tenants[:TENANTS_MAX]:
            rate = _checked(tenant.mutation_rate_per_s, _RATE_MAX)
            if rate is not None:
                rates[self._tenant_numbers.number_of((tenant.user, tenant.client_id))] = rate
        ids = np.array(list(brokers), dtype=np.int64)
        if not np.array_equal(ids, self._last_brokers):
            self._last_brokers = ids
        return _KeptPeriod(
            brokers=self._last_brokers,
            values=values.reshape(len(brokers), len(BrokerFigure)).T,
            is_copying=any(_is_copying(broker) for broker in period.brokers),
            tenants=np.array(list(rates), dtype=np.int64),
            rates=np.array(list(rates.values()), dtype=np.float32),
        )

    def _row_of(self, kept: _KeptPeriod) -> PeriodRow:
        columns = self._broker_places.of(kept.brokers)
        values = np.full((len(BrokerFigure), len(self.brokers)), np.nan, dtype=np.float32)
        values[:, columns[columns >= 0]] = kept.values[:, columns >= 0]
        has_place = self._tenant_places.of(kept.tenants) >= 0
        rates: dict[Tenant, float] = {}
        for number, rate in zip(kept.tenants[has_place].tolist(), kept.rates[has_place].tolist(), strict=True):
            tenant = self._tenant_numbers.tenant(number)
            if tenant is not None:
                rates[tenant] = rate
        return PeriodRow(values=values, is_copying=kept.is_copying, tenant_rates=rates)


def _figures(broker: BrokerHistory) -> list[float | None]:
    client_in = _checked(broker.client_in_bytes_per_s, _RATE_MAX)
    p99_ms = _latency(broker.produce_p99_ms)
    is_measured = broker.reassignment_in_bytes_per_s is not None and broker.reassignment_out_bytes_per_s is not None
    is_written = client_in is not None and client_in >= _CLIENTS_BYTES_PER_S_MIN
    is_steady = not broker.moving_partitions_max
    # By ``BrokerFigure``. An array of floats takes None as NaN.
    return [
        client_in,
        _checked(broker.client_out_bytes_per_s, _RATE_MAX),
        _steady(broker, broker.replication_in_bytes_per_s, broker.reassignment_in_bytes_per_s),
        _steady(broker, broker.replication_out_bytes_per_s, broker.reassignment_out_bytes_per_s),
        p99_ms if is_written and is_measured else None,
        _checked(broker.lag_sum_messages, _LAG_MAX) if is_steady else None,
        _checked(broker.in_bytes_per_s_max, _RATE_MAX),
        _latency(broker.in_max_p99_ms),
        _checked(broker.out_bytes_per_s_max, _RATE_MAX),
        _latency(broker.out_max_p99_ms),
    ]


def _steady(broker: BrokerHistory, replication: float | None, reassignment: float | None) -> float | None:
    """Returns the replication rate without the bytes of moves; None: those bytes are not known."""
    if broker.moving_partitions_max and not reassignment:
        # The copies may be replicas that recover. Kafka's metrics of reassignments do not include the bytes of these replicas.
        return None
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


def _latency(value_ms: float | None) -> float | None:
    return _checked(value_ms, _LATENCY_MS_MAX, _LATENCY_MS_MIN)


def _checked(value: float | None, value_max: float, value_min: float = 0.0) -> float | None:
    return value if value is not None and value_min <= value <= value_max else None
