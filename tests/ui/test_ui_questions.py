"""Five questions of an operator, each answered by one view alone. The fourth one needs a cluster: test_ui_plan_preview.py."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from ui_kit import OpenPage, Seat, take_picture

from benchmarks.pages.tuner import SimulatedTuner
from streaming.shared.contract import BrokerProfile, Side
from tuner.control.throttle.decision import Reason, SetRate
from tuner.journal.entries import entry_of

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

from metrics_rig import StormSignals
from week_cases import broker_profile

MB = 1_000_000
HOUR_MS, DAY_MS, BUSIEST_HOUR = 3_600_000, 86_400_000, 6


@pytest.mark.parametrize("width", [1280, 390])
def test_page_answers_whether_anything_is_wrong(browser: Browser, width: int) -> None:
    with SimulatedTuner("infeasible-throttle", steers=False, dry_run=True) as tuner:
        tuner.advance(42)
        seat = Seat(browser, tuner.address, width=width, height=844)
        answer = seat.page.locator("#attention")
        expect(answer).to_contain_text("The move onto broker 3 has stalled.")
        box = answer.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= 844, "not on the first screen"
        answer.get_by_role("link").first.click()
        expect(seat.page).to_have_url(re.compile(r"/brokers\?find=3$"))
        seat.close()


def _profile_of_a_busy_hour(tuner: SimulatedTuner, broker: int) -> BrokerProfile:
    """Returns a profile with the busiest hour of the day now, whatever the time of the test is."""
    now_ms = round(tuner.now_s() * 1000)
    busy_ms = now_ms - now_ms % DAY_MS + BUSIEST_HOUR * HOUR_MS
    profile = broker_profile(tuner.board.cluster, broker, busy_ms)
    return replace(profile, made_at_ms=now_ms - 600_000, start_ms=now_ms // HOUR_MS * HOUR_MS)


def test_page_answers_that_nothing_is_wrong(open_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    open_tuner.advance(60)
    open_tuner.weeks.profiles = {b: _profile_of_a_busy_hour(open_tuner, b) for b in (1, 2)}  # Broker 3 is new.
    open_tuner.advance(6)
    page = open_page(open_tuner, height=1000).page
    expect(page.locator("#attention")).to_have_text("Nothing is wrong.")
    expect(page.locator("#headline")).to_have_text("Nothing is moving.")
    outlook = page.locator("#idle")
    for name in (
        "Objective",
        "Best start of a plan",
        "If a broker returned now",
        "Replication lag",
        "Orphaned throttles",
    ):
        expect(outlook).to_contain_text(name)
    expect(page.get_by_role("region", name="Capacity by broker").locator("tbody tr")).to_have_count(3)
    expect(outlook).to_contain_text("the quietest 4 hours of the next day")
    expect(outlook).to_contain_text("unknown, because")
    take_picture(page, "page-idle")


def test_page_answers_when_the_moves_are_done(guarded_moves: SimulatedTuner, open_page: OpenPage) -> None:
    page = open_page(guarded_moves).page
    expect(page.locator("#headline")).to_have_text(
        re.compile(r"moving onto broker 4.*, done in about .*\. \(at \d\d:\d\d UTC\)$")
    )
    expect(page.locator("#idle")).to_be_empty()
    expect(page.get_by_role("heading", name="While nothing moves")).to_be_hidden()


@pytest.fixture
def guarded_moves() -> Iterator[SimulatedTuner]:
    """A tuner during a steered move, without tokens."""
    with SimulatedTuner("broker-add") as tuner:
        tuner.advance(240)
        yield tuner


def test_page_answers_why_a_throttle_changed(open_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    at = datetime.fromtimestamp(open_tuner.now_s(), UTC).replace(hour=3, minute=12, second=7, microsecond=0)
    at_ms = round(at.timestamp() * 1000)
    why = "broker 7 leader throttle 10.0 MB/s → 50.0 MB/s: the move onto broker 3 has stalled"
    change = SetRate(7, Side.LEADER, 10 * MB, 50 * MB, Reason.STALLED_THROTTLE_BOUND, why)
    later = SetRate(
        7, Side.LEADER, 50 * MB, 20 * MB, Reason.OVERRIDDEN, "broker 7 leader throttle 50.0 MB/s → 20.0 MB/s: by order"
    )
    open_tuner.observers.decisions.add(
        [
            entry_of("intent", change, at_ms),
            entry_of("outcome", change, at_ms + 400),
            entry_of("intent", later, at_ms + 60_000),
        ]
    )
    page = open_page(open_tuner, f"/?broker=7&changes_only=true&until={at:%Y-%m-%dT%H:%M}#decisions-title").page
    decisions = page.locator("#decisions li")
    expect(decisions).to_have_count(1)
    expect(decisions).to_contain_text("03:12:07")
    expect(decisions).to_contain_text("50.0 MB/s: the move onto broker 3 has stalled")
    decisions.get_by_role("link").first.click()
    expect(page.locator("#decision")).to_contain_text("10.0 MB/s → 50.0 MB/s")
    expect(page.locator("#decision")).to_contain_text("stalled_throttle_bound")
    expect(page.locator("#replay-command")).to_contain_text(f"--from {at:%Y-%m-%d}T03:11")


def test_page_answers_who_holds_up_the_controller(open_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    for seconds in range(0, 60, 5):
        open_tuner.mutations.update(
            StormSignals(round(open_tuner.now_s() * 1000) + seconds * 1000),
            round(open_tuner.now_s() * 1000) + seconds * 1000,
        )
    page = open_page(open_tuner, "/controller").page
    expect(page.locator("#controller")).to_contain_text('Most of these creations and deletions come from user "alice"')
    expect(page.locator("#controller")).to_contain_text("This command limits the tenant to")
    page.get_by_role("link", name="Now", exact=True).click()
    expect(page.locator("#attention")).to_contain_text('Most of these creations and deletions come from user "alice"')
