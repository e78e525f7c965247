"""A week of one broker: a load that follows the day, two moves, a profile and a change."""

from __future__ import annotations

import math

from streaming.shared.contract import (
    PERIOD_S,
    STEP_S,
    BrokerHistory,
    BrokerProfile,
    ChangedMeasure,
    ChangeEvent,
    HistoryPeriod,
    LearnedCapacity,
    LoadForecast,
)

PERIOD_MS, HOUR_MS = PERIOD_S * 1000, STEP_S * 1000
MB = 1e6


def by_hour(at_ms: int) -> float:
    """Returns a factor of 0.5 to 1.5 that follows the hour of the day."""
    return 1.0 + 0.5 * math.sin(2 * math.pi * at_ms / (24 * HOUR_MS))


def broker_history(broker: int, start_ms: int, *, copies: bool = False) -> BrokerHistory:
    return BrokerHistory(
        broker=broker,
        signals=20,
        client_in_bytes_per_s=30 * MB * by_hour(start_ms),
        client_out_bytes_per_s=60 * MB * by_hour(start_ms),
        replication_in_bytes_per_s=(80 if copies else 20) * MB,
        replication_out_bytes_per_s=20 * MB,
        produce_p99_ms=(12.0 if copies else 8.0) * by_hour(start_ms),
        moving_partitions_max=4.0 if copies else 0.0,
        lag_sum_messages=1_000.0 if copies else 10.0,
    )


def history_week(cluster: str, brokers: tuple[int, ...], now_ms: int, days: float = 7.0) -> list[HistoryPeriod]:
    """Returns the complete periods of the last days, the oldest first; two moves of three hours in each day."""
    last_ms = now_ms // PERIOD_MS * PERIOD_MS - PERIOD_MS
    count = round(days * 24 * 6)
    starts = [last_ms - number * PERIOD_MS for number in range(count)][::-1]
    return [
        HistoryPeriod(
            cluster=cluster,
            start_ms=start_ms,
            brokers=tuple(
                broker_history(broker, start_ms, copies=start_ms // HOUR_MS % 12 in (1, 2, 3)) for broker in brokers
            ),
        )
        for start_ms in starts
    ]


def broker_profile(cluster: str, broker: int, now_ms: int) -> BrokerProfile:
    start_ms = now_ms // HOUR_MS * HOUR_MS
    hours = [start_ms + number * HOUR_MS for number in range(8 * 24)]

    def forecast(rate: float) -> LoadForecast:
        return LoadForecast(
            bytes_per_s=tuple(rate * by_hour(at_ms) for at_ms in hours),
            error_bytes_per_s=(1 * MB, 2 * MB, 3 * MB, 4 * MB, None),
            model="hour_yesterday",
        )

    return BrokerProfile(
        cluster=cluster,
        broker=broker,
        made_at_ms=now_ms - 600_000,
        start_ms=start_ms,
        history_s=7 * 86_400.0,
        client_in=forecast(30 * MB),
        client_out=forecast(60 * MB),
        quiet_p99_ms=tuple(8.0 * by_hour(at_ms) for at_ms in hours),
        capacity_in=LearnedCapacity(bytes_per_s=110 * MB, seen_at_ms=now_ms - 3 * HOUR_MS),
        capacity_out=LearnedCapacity(bytes_per_s=900 * MB, seen_at_ms=now_ms - 26 * HOUR_MS),
    )


def change_event(cluster: str, broker: int, now_ms: int) -> ChangeEvent:
    return ChangeEvent(
        cluster=cluster,
        measure=ChangedMeasure.CLIENT_LATENCY,
        is_unusual=False,
        before=8.0,
        after=14.5,
        since_ms=now_ms - 30 * HOUR_MS,
        found_at_ms=now_ms - 28 * HOUR_MS,
        broker=broker,
    )
