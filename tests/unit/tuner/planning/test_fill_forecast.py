"""The forecast of when a limit is reached, and the reasons for having none."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from rheostat.limits.report import LimitsReport, as_record, build_report
from rheostat.limits.view import describe_forecasts, show
from tuner.core.partition_limits import PartitionCounts, PartitionLimits
from tuner.planning.fill_forecast import FillForecast, FillOutlook, forecast, sum_histories

HOUR = 3600.0


def hourly(*counts: float, every_s: float = HOUR) -> list[tuple[float, float]]:
    return [(1e9 + n * every_s, count) for n, count in enumerate(counts)]


GROWING = hourly(100, 110, 110, 130, 140)  # Forty in four hours.


@pytest.mark.parametrize(
    ("history", "headroom", "found"),
    [
        (GROWING, 20, FillForecast(FillOutlook.IN_TIME, 4 * HOUR, 40, 2 * HOUR)),
        (GROWING, 1200, FillForecast(FillOutlook.IN_TIME, 4 * HOUR, 40, 120 * HOUR)),
        (GROWING, 1201, FillForecast(FillOutlook.BEYOND, 4 * HOUR, 40)),  # Thirty times as far ahead as back.
        (GROWING, 0, FillForecast(FillOutlook.FULL, 4 * HOUR, 40)),
        (GROWING, -5, FillForecast(FillOutlook.FULL, 4 * HOUR, 40)),
        (GROWING, None, FillForecast(FillOutlook.UNLIMITED, 4 * HOUR, 40)),
        (hourly(100, 100, 100), 20, FillForecast(FillOutlook.NOT_GROWING, 2 * HOUR, 0)),
        (hourly(100, 140, 90), 20, FillForecast(FillOutlook.NOT_GROWING, 2 * HOUR, -10)),
        (hourly(100, 100, 140, 140), 20, FillForecast(FillOutlook.TOO_FEW, 3 * HOUR, 40)),  # One topic is no rate.
        (hourly(100, 110, 120), 20, FillForecast(FillOutlook.TOO_FEW, 2 * HOUR, 20)),
        (hourly(1, 2, 3, 4, every_s=1199), 20, FillForecast(FillOutlook.TOO_SHORT, 3597, 3)),
        (hourly(1, 2, 3, 4, every_s=1200), 20, FillForecast(FillOutlook.IN_TIME, 3600, 3, 24_000)),
        ([], 20, FillForecast(FillOutlook.TOO_SHORT)),
        (hourly(7), 20, FillForecast(FillOutlook.TOO_SHORT)),
    ],
)
def test_forecast_extrapolates_growth(
    history: list[tuple[float, float]], headroom: int | None, found: FillForecast
) -> None:
    assert forecast(history, headroom) == found


def test_sum_histories_uses_times_common_to_all() -> None:
    assert sum_histories({1: hourly(1, 2, 3), 2: hourly(10, 20, 30)[1:]}) == [(1e9 + HOUR, 22), (1e9 + 2 * HOUR, 33)]
    assert sum_histories({}) == []


def made(
    limits: PartitionLimits, histories: dict[int, list[tuple[float, float]]], why: str | None = None
) -> LimitsReport:
    counts = PartitionCounts({1: 140, 2: 40, 3: 9})
    racks = dict.fromkeys((1, 2))  # Broker 3 is down.
    return build_report("a test", racks, counts, limits, are_set=True, histories=histories, missing_reason=why)


def test_forecasts_first_to_fill_comes_first() -> None:
    found = made(PartitionLimits(160, 300), {1: GROWING, 2: hourly(10, 20, 30, 35, 40), 3: hourly(9, 9)})
    assert describe_forecasts(found) == [
        "Broker 1 grew by 40 in 4 h: full in about 2 h at this rate.",
        "The cluster grew by 70 in 4 h: full in about 6 h 21 min at this rate.",
        "Broker 2 grew by 30 in 4 h: full in about 16 h at this rate.",
    ]
    record = json.loads(json.dumps(as_record(found)))
    assert record["brokers"][0]["forecast"] == {
        "fills": "in_time", "full_in_s": 7200.0, "growth": 40, "growth_per_day": 240.0, "history_s": 14_400.0,
    }  # fmt: skip
    assert record["brokers"][2]["forecast"] is None
    out = io.StringIO()
    show(found, Console(file=out, width=150, no_color=True))
    assert "Broker 1 grew by 40 in 4 h: full in about 2 h" in out.getvalue()


@pytest.mark.parametrize(
    ("histories", "limits", "said"),
    [
        ({1: hourly(1, 2, every_s=720)}, PartitionLimits(160), "No forecast yet: the signals cover 12 min, and a forecast needs at least 1 h."),
        ({1: hourly(5, 5, 5)}, PartitionLimits(160), "No limit comes nearer: the number of partitions has not grown in 2 h."),
        ({1: hourly(5, 5, 9)}, PartitionLimits(160), "No forecast: in 2 h the number of partitions rose fewer than 3 times, too few for a rate."),
        ({1: GROWING}, PartitionLimits(9000), "Nothing is full within 5 d at the rate of the last 4 h."),
        ({1: GROWING}, PartitionLimits(), "No forecast: there are no limits."),
        ({1: GROWING}, PartitionLimits(140), "All limits are reached already."),
    ],
)  # fmt: skip
def test_forecasts_without_time_name_the_reason(
    histories: dict[int, list[tuple[float, float]]], limits: PartitionLimits, said: str
) -> None:
    assert describe_forecasts(made(limits, histories)) == [said]


def test_forecasts_without_signals_say_why() -> None:
    assert describe_forecasts(made(PartitionLimits(160), {}, "there is no topic a.signals yet")) == [
        "No forecast: there is no topic a.signals yet."
    ]
    assert describe_forecasts(build_report("", {}, PartitionCounts({}), PartitionLimits(), are_set=True)) == []
