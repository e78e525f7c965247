"""The pages of plans in a real browser: list, timeline, partitions sorted and found by the tuner, names, no JavaScript, phone."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, expect
from ui_kit import OpenPage, Seat

from benchmarks.pages.tuner import SimulatedTuner
from tuner.core.reassignment_plan import PlanEnding, PlanHead, PlanPartition, PlanResult, PlanState
from tuner.journal.entries import STEP_OUTCOMES, STEPS, Entry
from tuner.journal.plan_records import encode_head, encode_parts, encode_state, head_key, part_key, state_key

PLAN = "20260301-020000-ab12"
HOSTILE = "<img src=x onerror=alert(1)>\u202eトピック-" + "ж" * 200
MINUTE_MS = 60_000


@pytest.fixture
def planned_tuner(open_tuner: SimulatedTuner) -> SimulatedTuner:
    """A tuner whose journal has a finished plan of 121 partitions, which an earlier process executed."""
    tuner, cluster = open_tuner, open_tuner.board.cluster
    start_ms = round(tuner.now_s() * 1000) - 3 * 3_600_000
    keys = [*(("orders", number) for number in range(120)), (HOSTILE, 7)]
    parts = {key: PlanPartition((2, 3), (1, 2), 1e6 * (number + 1)) for number, key in enumerate(keys)}
    head = PlanHead(PLAN, "kim at 02:00", start_ms, start_ms, part_records=1, expected_s=1_200.0)
    result = PlanResult(121, 121, 7.4e9, 7.4e9)
    state = PlanState(ending=PlanEnding.DONE, ended_at_ms=start_ms + 30 * MINUTE_MS, result=result)
    tuner.journal.apply_plan_record(part_key(cluster, PLAN, 0), encode_parts(parts))
    tuner.journal.apply_plan_record(head_key(cluster, PLAN), encode_head(head))
    tuner.journal.apply_plan_record(state_key(cluster, PLAN), encode_state(state))
    for number, key in enumerate(keys):
        at_ms = start_ms + number * 10_000
        begun = {"plan": PLAN, "steps": [[*key, [1, 2], [2, 3], "advance"]]}
        done = {"plan": PLAN, "reached": [key], "arrived": number + 1}
        tuner.record(Entry(at_ms, STEPS, "reassign", "advance", f"plan {PLAN}: {key[0]}-{key[1]} to [2, 3]", begun))
        text = f"plan {PLAN}: {key[0]}-{key[1]} reached"
        tuner.record(Entry(at_ms + 9_000 + number, STEP_OUTCOMES, "reassign", "ended", text, done))
    return tuner


def test_finished_plan_opens_from_the_view_with_its_timeline(
    planned_tuner: SimulatedTuner, open_page: OpenPage
) -> None:
    seat = open_page(planned_tuner, "/moves")
    page = seat.page
    expect(page.locator("#plan-history")).to_contain_text("121 of 121")
    assert seat.axe() == []
    page.get_by_role("link", name=PLAN).click()
    expect(page).to_have_url(re.compile(f"/plans/{PLAN}$"))
    plan = page.locator("#plan")
    expect(plan).to_contain_text("20 min: the plan took 150 % of this time")
    expect(plan.locator("polyline")).to_be_attached()
    expect(plan.locator("li")).to_have_count(50)
    expect(plan).to_contain_text("The newest 50 of 242 events.")
    assert seat.axe() == []
    plan.locator("li a").first.click()
    expect(page.locator("#decision")).to_contain_text("reached")


def test_tuner_sorts_finds_and_turns_pages_of_partitions(planned_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    page = open_page(planned_tuner, f"/plans/{PLAN}").page
    rows = page.locator("#partitions tbody tr")
    expect(rows).to_have_count(50)
    expect(page.locator("#partitions-shown")).to_have_text("1 to 50 of 121.")
    page.get_by_label("Sort by").select_option("size")
    page.get_by_label("highest first").check()
    expect(rows.first).to_contain_text("121 MB")
    assert page.locator("#partitions img").count() == 0
    expect(page).to_have_url(re.compile(r"\?sort=size&descending=true$"))
    page.get_by_role("button", name="Next").click()
    expect(page.locator("#partitions-shown")).to_have_text("51 to 100 of 121.")
    page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Next").click()
    expect(page.locator("#partitions-shown")).to_have_text("101 to 121 of 121.")
    page.get_by_role("textbox", name="Name").fill("orders-11")
    page.get_by_role("textbox", name="Name").press("Enter")
    page.get_by_role("textbox", name="Name").blur()
    expect(rows).to_have_count(11)
    other = open_page(planned_tuner, page.url.removeprefix(planned_tuner.address)).page
    expect(other.locator("#partitions tbody tr")).to_have_count(11)


def test_unknown_plan_is_named(planned_tuner: SimulatedTuner, browser: Browser) -> None:
    seat = Seat(browser, planned_tuner.address, "/plans/no-plan")
    expect(seat.page.locator("#plan")).to_contain_text("have no plan no-plan")
    seat.close()


def test_plan_without_javascript_is_there_in_words(planned_tuner: SimulatedTuner, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{planned_tuner.address}/plans/{PLAN}")
    page.get_by_role("link", name="partitions", exact=True).click()
    expect(page.locator("body")).to_contain_text("1 to 50 of 121.")
    context.close()


@pytest.mark.parametrize(("width", "dark"), [(390, True), (1280, False)])
def test_plan_passes_axe_and_fits_a_phone(
    planned_tuner: SimulatedTuner, open_page: OpenPage, width: int, dark: bool
) -> None:
    seat = open_page(planned_tuner, f"/plans/{PLAN}?sort=size&descending=true", width=width, dark=dark)
    expect(seat.page.locator("#partitions tbody tr")).to_have_count(50)
    expect(seat.page.locator("#plan li").first).to_be_visible()
    assert seat.axe() == []
    assert seat.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "wider than the screen"
