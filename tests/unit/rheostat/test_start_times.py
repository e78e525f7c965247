"""Times of --start and --at: times of day, changes of the clocks, and refused text."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from rheostat.errors import BadInputError
from rheostat.start_times import RequestedStart, local_text, parse_start
from streaming.shared.contract.bounds import TIMESTAMP_MS_MAX

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.fixture(autouse=True)
def _berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def at_ms(text: str, fold: int = 0) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=BERLIN, fold=fold).timestamp() * 1000)


def parsed(text: str, now: str, fold: int = 0) -> str:
    start_ms = parse_start(text, at_ms(now, fold), "--at").at_ms
    assert start_ms is not None
    return local_text(start_ms)


def test_now_and_best_are_words() -> None:
    assert parse_start(" now ", 5, "--at") == RequestedStart(5)
    assert parse_start("best", 5, "--at") == RequestedStart(None)


@pytest.mark.parametrize(
    ("text", "now", "expected"),
    [
        ("22:00", "2026-11-21T18:00", "2026-11-21 22:00+01:00"),
        ("8:05", "2026-11-21T18:00", "2026-11-22 08:05+01:00"),
        ("18:00", "2026-11-21T18:00", "2026-11-21 18:00+01:00"),
        ("2026-11-22T03:00", "2026-11-21T18:00", "2026-11-22 03:00+01:00"),
        ("2026-11-22T03:00Z", "2026-11-21T18:00", "2026-11-22 04:00+01:00"),
        ("2026-11-22 03:00-05:00", "2026-11-21T18:00", "2026-11-22 09:00+01:00"),
        # In the night to 29 March 2026 clocks are set forward from 2 to 3, in that to 25 October back from 3 to 2.
        ("4:00", "2026-03-28T20:00", "2026-03-29 04:00+02:00"),
        ("22:00", "2026-03-28T23:00", "2026-03-29 22:00+02:00"),
        ("22:00", "2026-10-24T23:00", "2026-10-25 22:00+01:00"),
        ("2:30", "2026-10-24T20:00", "2026-10-25 02:30+02:00"),
    ],
)
def test_times_are_those_of_the_machine(text: str, now: str, expected: str) -> None:
    assert parsed(text, now) == expected


def test_time_of_day_that_comes_twice_is_the_next_one() -> None:
    assert parsed("2:30", "2026-10-25T02:45", fold=0) == "2026-10-25 02:30+01:00"
    assert parsed("2:30", "2026-10-25T02:45", fold=1) == "2026-10-26 02:30+01:00"


def test_latest_time_of_a_record_can_be_shown() -> None:
    assert local_text(TIMESTAMP_MS_MAX).startswith("9999-12-31 00:59")


@pytest.mark.parametrize("text", ["2:30", "2026-03-29T02:30"])
def test_time_that_clocks_skip_is_refused(text: str) -> None:
    with pytest.raises(
        BadInputError, match=r"--at: 2026-03-29 02:30 does not exist, because clocks are set forward then"
    ):
        parse_start(text, at_ms("2026-03-28T20:00"), "--at")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("24:00", "expected now, best, a time of day such as 22:00"),
        ("tomorrow", "expected now, best"),
        ("", "expected now, best"),
        ("-2h", "expected now, best"),
        ("2026-11-21T17:59", r"2026-11-21 17:59\+01:00 has passed"),
        ("2026-11-28T18:01", r"2026-11-28 18:01\+01:00 is more than 7 d ahead"),
        ("0001-01-01T00:00", "is a time that this machine cannot represent|has passed"),
        ("9999-12-31T23:59", "is a time that this machine cannot represent|ahead"),
    ],
)
def test_other_texts_are_refused(text: str, message: str) -> None:
    with pytest.raises(BadInputError, match=f"--at: .*({message})"):
        parse_start(text, at_ms("2026-11-21T18:00"), "--at")
