"""Tests the sentences about trials of mutation quotas: one for the begin, one for the end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tuner.api.orders_api import begin_trial_change, end_trial_change
from tuner.control.throttle.order_events import list_order_events
from tuner.core.operator_orders import Orders, Pause, QuotaTrialKind
from tuner.journal.order_records import decode_orders, encode_orders

CALIBRATE, MEASURE = QuotaTrialKind
PAUSED = Orders(5, Pause(5, "kim"), by="kim")


def begun(kind: QuotaTrialKind, orders: Orders = PAUSED) -> Orders:
    return replace(begin_trial_change(kind, 60.0, "lee")(orders, 1_000), at_ms=1_000)


def ended(orders: Orders, kind: QuotaTrialKind, total_per_s: float | None = None) -> Orders:
    return replace(end_trial_change(kind, "lee", total_per_s)(orders, 9_000), at_ms=9_000)


def texts(before: Orders, after: Orders) -> list[str]:
    return [event.text for event in list_order_events(before, after, 0, 10_000)]


@pytest.mark.parametrize(
    ("kind", "begin", "end"),
    [
        (CALIBRATE, "began to create and delete temporary topics", "found a total of 36 partitions/s"),
        (MEASURE, "set an unlimited mutation quota for a while", "removed the unlimited mutation quota again"),
    ],
)
def test_begin_and_end_of_trial_are_told_once(kind: QuotaTrialKind, begin: str, end: str) -> None:
    first = begun(kind)
    last = ended(first, kind, 36.0)
    (told,) = texts(PAUSED, first)
    assert begin in told
    assert told.endswith(f"(`rheostat quotas {kind}`)")
    (told,) = texts(first, last)
    assert end in told
    assert texts(last, last) == []


def test_calibration_without_result_says_so() -> None:
    first = begun(CALIBRATE)
    (told,) = texts(first, ended(first, CALIBRATE))
    assert "found no rate" in told


def test_trial_keeps_pause_and_other_trial_on_record() -> None:
    orders = ended(begun(MEASURE, begun(CALIBRATE)), CALIBRATE, 36.0)
    assert decode_orders(encode_orders(orders)) == orders
    assert orders.pause == PAUSED.pause
    assert orders.trials[MEASURE].until_ms == 61_000
    assert (orders.trials[CALIBRATE].until_ms, orders.trials[CALIBRATE].total_per_s) == (9_000, 36.0)


def test_end_without_begin_is_recorded() -> None:
    assert ended(PAUSED, CALIBRATE, 5.0).trials[CALIBRATE].total_per_s == 5.0
