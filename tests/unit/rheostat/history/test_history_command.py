"""`rheostat history`: the figures of a report, its table and its chart."""

from __future__ import annotations

import io
import json
import math
from dataclasses import replace
from typing import Any

import pytest
from command_rig import Command

from rheostat.console.rich_console import Terminal
from rheostat.history.chart import draw_history
from rheostat.history.report import as_record, build_report
from rheostat.history.view import ROWS_MAX, show
from streaming.shared.contract import PERIOD_S, BrokerHistory, HistoryPeriod

P0 = 1_700_000_400_000
PERIOD_MS = PERIOD_S * 1000
MB = 1e6


def period(number: int, *brokers: BrokerHistory) -> HistoryPeriod:
    return HistoryPeriod(cluster="c", start_ms=P0 + number * PERIOD_MS, brokers=brokers)


def broker(number: int = 1, signals: int = 120, **fields: Any) -> BrokerHistory:
    return BrokerHistory(broker=number, signals=signals, **fields)


def report(*periods: HistoryPeriod, brokers: tuple[int, ...] = ()) -> Any:
    return build_report("c", periods, brokers, P0, P0 + 6 * PERIOD_MS)


def shown(*periods: HistoryPeriod, width: int = 300) -> str:
    stream = io.StringIO()
    show(report(*periods), Terminal(file=stream, width=width))
    return stream.getvalue()


def test_mean_weighs_periods_by_their_signals() -> None:
    (row,) = report(
        period(0, broker(signals=30, client_in_bytes_per_s=1 * MB)),
        period(1, broker(signals=90, client_in_bytes_per_s=5 * MB)),
        period(2, broker(signals=120)),
    ).rows
    assert row.means["client_in_bytes_per_s"] == 4 * MB
    assert (row.periods, row.signals) == (3, 240)


def test_row_has_maxima_medians_and_time_of_moves() -> None:
    (row,) = report(
        period(
            0, broker(in_bytes_per_s_max=9.0, produce_p99_ms=4.0, produce_p99_ms_max=8.0, moving_partitions_max=2.0)
        ),
        period(
            1, broker(in_bytes_per_s_max=7.0, produce_p99_ms=6.0, produce_p99_ms_max=40.0, moving_partitions_max=0.0)
        ),
        period(2, broker(produce_p99_ms=90.0)),
    ).rows
    assert (row.maxima["in_bytes_per_s_max"], row.maxima["produce_p99_ms_max"]) == (9.0, 40.0)
    assert (row.produce_p99_ms, row.moved_s) == (6.0, PERIOD_S)


def test_unmeasured_number_is_unknown_not_zero() -> None:
    made = report(period(0, broker()))
    (row,) = made.rows
    assert set(row.means.values()) == {None}
    assert set(row.maxima.values()) == {None}
    assert row.produce_p99_ms is None
    assert "0 B/s" not in shown(period(0, broker()))
    json.dumps(as_record(made), allow_nan=False)


def test_chosen_brokers_alone_are_shown() -> None:
    made = report(period(0, broker(1), broker(2)), period(1, broker(2)), brokers=(2,))
    assert [row.broker for row in made.rows] == [2]
    assert [[b.broker for b in p.brokers] for p in made.periods] == [[2], [2]]
    assert report(period(0, broker(1)), brokers=(7,)).rows == ()


def test_table_shows_busiest_brokers_first_and_names_holes() -> None:
    brokers = [broker(n, client_in_bytes_per_s=n * MB) for n in range(1, ROWS_MAX + 3)]
    text = shown(period(0, *brokers), period(1, brokers[0]))
    lines = text.splitlines()
    assert f"the {ROWS_MAX} busiest of {ROWS_MAX + 2}" in lines[0]
    first = next(line for line in lines if "MB/s" in line)
    assert first.split()[:3] == [str(ROWS_MAX + 2), "42.0", "MB/s"]
    assert "2 of 6 periods" in text


def test_table_fits_a_narrow_terminal() -> None:
    full = broker(
        1000, client_in_bytes_per_s=123 * MB, client_out_bytes_per_s=123 * MB, in_bytes_per_s_max=456 * MB,
        out_bytes_per_s_max=456 * MB, produce_p99_ms=12.3, produce_p99_ms_max=1234.0, moving_partitions_max=3.0,
    )  # fmt: skip
    lines = shown(period(0, full), width=80).splitlines()
    assert "1000" in next(line for line in lines if "123 MB/s" in line and "1234" in line and "10 min" in line)


def test_table_without_hole_names_none() -> None:
    assert "keep them" not in shown(*[period(n, broker()) for n in range(5)])


def test_chart_has_gap_for_missing_period() -> None:
    picture = draw_history(
        report(
            period(0, broker(client_in_bytes_per_s=MB)),
            period(1, broker(client_in_bytes_per_s=2 * MB)),
            period(4, broker(client_in_bytes_per_s=3 * MB)),
        )
    )
    path = picture.split('<path d="')[1].split('"')[0]
    assert path.count("M") == 2
    assert "2023-11-14 22:20 UTC" in picture


def test_chart_of_many_brokers_shows_the_busiest() -> None:
    brokers = [broker(n, client_in_bytes_per_s=n * MB) for n in range(1, 10)]
    picture = draw_history(report(period(0, *brokers)))
    assert "the busiest 6 of 9 brokers" in picture
    assert "broker 9<" in picture
    assert "broker 3<" not in picture


def test_chart_bears_negative_and_infinite_numbers() -> None:
    hostile = replace(broker(), client_in_bytes_per_s=-5.0, produce_p99_ms=math.inf)
    assert draw_history(report(period(0, hostile))).endswith("</svg>\n")


@pytest.mark.parametrize("arguments", [("--since", "0"), ("--since", "yesterday"), ("--broker", "x")])
def test_wrong_arguments_are_refused(arguments: tuple[str, str]) -> None:
    assert arguments[0].lstrip("-") in Command("history").refused("--config", "none.yaml", *arguments)


def test_plot_in_missing_folder_is_refused_at_once() -> None:
    assert "folder" in Command("history").refused("--config", "none.yaml", "--plot", "/missing/folder/x.svg")
