"""Learns the load of one cluster hour by hour, and makes its profiles and events.

The profiles depend only on the periods, their order in time, and the first hour that was learned. ``first_hour_of`` gives the same
first hour for all hours of a day. So a process that relearns everything each day has the same profiles as a process that has just
started.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from learning.models.change_points import ChangeWatch, FoundChange
from learning.models.forecaster import Forecasts, LoadForecaster
from learning.models.periods import HOUR_MS, KEPT_HOURS, BrokerFigure, Floats, PeriodRow
from learning.models.proven_capacity import ProvenCapacity
from learning.models.tenant_numbers import Tenant
from learning.models.usual_latency import DAY_H, UsualLatency
from learning.models.value_ring import mean_of_known
from streaming.shared.contract.history import PERIOD_S
from streaming.shared.contract.profiles import (
    STEPS_MAX,
    BrokerProfile,
    ChangedMeasure,
    ChangeEvent,
    LearnedCapacity,
    LoadForecast,
)

FORECAST = (BrokerFigure.CLIENT_IN, BrokerFigure.CLIENT_OUT, BrokerFigure.STEADY_IN, BrokerFigure.STEADY_OUT)
_DIGITS = 4  # Significant digits of a published value: forecast errors are larger, and records stay small.
_GONE_AFTER_HOURS = 7 * 24  # A broker without a period for this long gets no profile.
# Values below these make no difference to operators, so they are never reported as changes.
_LAG_NEGLIGIBLE_MESSAGES = 1_000.0
_LATENCY_NEGLIGIBLE_MS = 1.0
_RATE_NEGLIGIBLE_PER_S = 0.1


def first_hour_of(end_hour: int, oldest_hour: int) -> int:
    """Returns the first hour that a learner needs to learn, about five weeks before ``end_hour``.

    It is the start of a day (UTC), or ``oldest_hour`` if the history is shorter.

    Args:
        oldest_hour: the oldest hour of the history.
    """
    return max(oldest_hour, end_hour // DAY_H * DAY_H - (KEPT_HOURS - DAY_H))


class Learner:
    """The models and profiles of one cluster, learned from the hours before ``next_hour``.

    Attributes:
        next_hour: the hour (since 1970) whose periods ``learn`` expects next.
        events: the newest change and the newest unusual value of each measure of a broker or tenant.
    """

    def __init__(self, cluster: str, first_hour: int) -> None:
        self.next_hour = first_hour
        self.events: dict[tuple[bool, ChangedMeasure, int | Tenant], ChangeEvent] = {}
        self._cluster = cluster
        self._columns = 0
        self._known_periods = np.zeros(0, dtype=np.int64)
        self._newest_hour = np.zeros(0, dtype=np.int64)
        self._loads = LoadForecaster()
        self._latency = UsualLatency()
        self._capacity_in, self._capacity_out = ProvenCapacity(), ProvenCapacity()
        self._latency_watches: list[ChangeWatch] = []
        self._lag_watches: list[ChangeWatch] = []
        self._tenant_watches: dict[Tenant, ChangeWatch] = {}

    def learn(self, periods: Sequence[PeriodRow | None], brokers: Sequence[int]) -> None:
        """Learns the next hour.

        Args:
            periods: the last period before the hour, then the six periods of the hour; None: the period is missing.
            brokers: the node id of each column.
        """
        hour = self.next_hour
        self._widen(len(brokers))
        before, *rest = periods
        known = [period for period in rest if period is not None]
        rows = [self._row(period) for period in known]
        means = mean_of_known(np.stack(rows)) if rows else self._nothing()
        self._loads.learn(means[list(FORECAST)].T.reshape(-1))
        # A p99 covers minutes, so nothing may be copied in its period and in the period before.
        quiet = [
            self._row(period)[BrokerFigure.P99_MS]
            for earlier, period in zip([before, *rest], rest, strict=False)
            if period is not None and earlier is not None and not (period.is_copying or earlier.is_copying)
        ]
        quiet_p99_ms = np.exp(mean_of_known(np.log(np.stack(quiet)))) if quiet else self._nothing()[0]
        self._latency.learn(hour, quiet_p99_ms)
        usual_ms = self._latency.p99_ms(hour)
        for row in rows:
            p99s = row[BrokerFigure.IN_MAX_P99_MS], row[BrokerFigure.OUT_MAX_P99_MS]
            self._capacity_in.learn(hour, row[BrokerFigure.IN_MAX], p99s[0], usual_ms)
            self._capacity_out.learn(hour, row[BrokerFigure.OUT_MAX], p99s[1], usual_ms)
        for row in rows:
            self._known_periods += ~np.isnan(row).all(axis=0)
        self._newest_hour = np.where(np.isnan(means).all(axis=0), self._newest_hour, hour)
        self._watch(hour, brokers, quiet_p99_ms, means[BrokerFigure.STEADY_LAG])
        self._watch_tenants(hour, known)
        self.next_hour = hour + 1

    def profiles(self, brokers: Sequence[int], made_at_ms: int | None = None) -> list[BrokerProfile]:
        """Returns a profile of each broker that was measured in the last week.

        Args:
            made_at_ms: epoch ms at which the profile is made, if the last learned hour has not ended yet. The profile then begins
                with this hour, and takes the values so far as the values of the whole hour. None: the last learned hour has ended,
                and the profile begins with the next hour.
        """
        loads = self._loads.forecasts(STEPS_MAX, from_newest=made_at_ms is not None)
        first_step = self.next_hour if made_at_ms is None else self.next_hour - 1
        usual_ms = np.stack([self._latency.p99_ms(first_step + step) for step in range(STEPS_MAX)])
        profiles = []
        for column in range(min(len(brokers), self._columns)):
            if first_step - self._newest_hour[column] > _GONE_AFTER_HOURS:
                continue
            series = [_forecast(loads, column * len(FORECAST) + i) for i in range(len(FORECAST))]
            profiles.append(
                BrokerProfile(
                    cluster=self._cluster,
                    broker=brokers[column],
                    made_at_ms=first_step * HOUR_MS if made_at_ms is None else made_at_ms,
                    start_ms=first_step * HOUR_MS,
                    history_s=float(self._known_periods[column] * PERIOD_S),
                    client_in=series[0],
                    client_out=series[1],
                    steady_in=series[2],
                    steady_out=series[3],
                    quiet_p99_ms=_steps(usual_ms[:, column]),
                    capacity_in=_capacity(self._capacity_in.at(first_step, column)),
                    capacity_out=_capacity(self._capacity_out.at(first_step, column)),
                )
            )
        return profiles

    def recent_events(self) -> list[ChangeEvent]:
        """Returns the events of the last five weeks."""
        since_ms = (self.next_hour - KEPT_HOURS) * HOUR_MS
        return [event for event in self.events.values() if event.found_at_ms >= since_ms]

    def _widen(self, columns: int) -> None:
        missing = columns - self._columns
        if missing <= 0:
            return
        self._columns = columns
        self._known_periods = np.pad(self._known_periods, (0, missing))
        self._newest_hour = np.pad(self._newest_hour, (0, missing))
        self._loads.widen(columns * len(FORECAST))
        self._latency.widen(columns)
        self._capacity_in.widen(columns)
        self._capacity_out.widen(columns)
        self._latency_watches.extend(ChangeWatch(_LATENCY_NEGLIGIBLE_MS) for _ in range(missing))
        self._lag_watches.extend(ChangeWatch(_LAG_NEGLIGIBLE_MESSAGES) for _ in range(missing))

    def _row(self, period: PeriodRow) -> Floats:
        """Returns the figures of all brokers; NaN for brokers that were added after the period."""
        missing = self._columns - period.values.shape[1]
        return np.pad(period.values, ((0, 0), (0, missing)), constant_values=np.nan) if missing else period.values

    def _nothing(self) -> Floats:
        return np.full((len(BrokerFigure), self._columns), np.nan, dtype=np.float32)

    def _watch(self, hour: int, brokers: Sequence[int], p99_ms: Floats, lag: Floats) -> None:
        for column, (latency, messages) in enumerate(zip(p99_ms.tolist(), lag.tolist(), strict=True)):
            change = self._latency_watches[column].learn(hour, latency)
            self._note(change, ChangedMeasure.CLIENT_LATENCY, brokers[column])
            if change is not None and not change.is_unusual:
                # For example, the broker has got another disk, so its old figures no longer apply.
                self._capacity_in.forget(column)
                self._capacity_out.forget(column)
                self._latency.begin_again(column, change.after)
            self._note(self._lag_watches[column].learn(hour, messages), ChangedMeasure.REPLICATION_LAG, brokers[column])

    def _watch_tenants(self, hour: int, periods: Sequence[PeriodRow]) -> None:
        rates: dict[Tenant, list[float]] = {}
        for period in periods:
            for tenant, rate in period.tenant_rates.items():
                rates.setdefault(tenant, []).append(rate)
        for tenant, values in rates.items():
            watch = self._tenant_watches.setdefault(tenant, ChangeWatch(_RATE_NEGLIGIBLE_PER_S))
            self._note(watch.learn(hour, math.fsum(values) / len(values)), ChangedMeasure.MUTATION_RATE, tenant)

    def _note(self, change: FoundChange | None, measure: ChangedMeasure, subject: int | Tenant) -> None:
        if change is None:
            return
        user, client_id = subject if isinstance(subject, tuple) else (None, None)
        self.events[(change.is_unusual, measure, subject)] = ChangeEvent(
            cluster=self._cluster,
            measure=measure,
            is_unusual=change.is_unusual,
            before=_rounded(change.before),
            after=_rounded(change.after),
            since_ms=change.since_hour * HOUR_MS,
            found_at_ms=(self.next_hour + 1) * HOUR_MS,
            broker=subject if isinstance(subject, int) else None,
            user=user,
            client_id=client_id,
        )


def _forecast(loads: Forecasts, series: int) -> LoadForecast:
    values = loads.values[:, series]
    if np.isnan(values).all():
        return LoadForecast()
    return LoadForecast(
        bytes_per_s=_steps(values), error_bytes_per_s=_steps(loads.errors[:, series]), model=loads.models[series]
    )


def _steps(values: Floats) -> tuple[float | None, ...]:
    if np.isnan(values).all():
        return ()
    return tuple(None if math.isnan(value) else _rounded(value) for value in values.tolist())


def _capacity(proven: tuple[float, int] | None) -> LearnedCapacity | None:
    return None if proven is None else LearnedCapacity(bytes_per_s=_rounded(proven[0]), seen_at_ms=proven[1] * HOUR_MS)


def _rounded(value: float) -> float:
    """Returns the value with four significant digits, to keep records small."""
    return float(f"{value:.{_DIGITS}g}")
