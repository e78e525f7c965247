"""The status page in a real browser, served by a real tuner whose cluster is simulated."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect
from ui_kit import OPERATE_TOKEN, READ_TOKEN, OpenPage, Seat, open_pages

from benchmarks.pages.tuner import SimulatedTuner
from streaming.shared.contract import FetcherThreadLag, LaggingPartition, LagTrend, ReplicationSignal
from streaming.shared.units import rate_text, span_text
from tuner.api.decisions import DecisionFilter
from tuner.api.sentences import moment
from tuner.control.mutation_quota.decision import QuotaReason, TenantShare, TotalRateReport
from tuner.control.mutation_quota.entity import Tenant
from tuner.control.mutation_quota.model import QuotaView
from tuner.control.mutation_quota.policy import QuotaStep
from tuner.control.mutation_quota.state import MutationMemory, TotalRate
from tuner.control.reassignment.measurements import PartitionMeasurements
from tuner.control.reassignment.partition_progress import PartitionProgress
from tuner.control.reassignment.policy import PlanDecision
from tuner.core.batch_limits import BatchLimits
from tuner.core.reassignment_plan import Plan, PlanHead, PlanPartition
from tuner.core.reassignment_steps import ReassignmentStep, StepReason


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Opens pages, also without the token that they need, and with orders that are refused."""
    with open_pages(browser, "401", "422") as opened:
        yield opened


def give_token(page: Page, secret: str) -> None:
    page.get_by_role("textbox", name="Token").fill(secret)
    page.get_by_role("button", name="Use token").click()


def test_page_shows_state_reason_and_end(open_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    seat = open_page(open_tuner)
    page = seat.page
    expect(page.locator("#headline")).to_contain_text("4 partitions are moving onto broker 3")
    expect(page.locator("#link")).to_have_text("Live")
    expect(page.locator("#now")).to_contain_text("When the moves have ended: 6 throttles removed")
    expect(page.locator("#decisions li").first).to_be_visible()
    expect(page.locator("#decisions")).to_contain_text("is not above the 24.0 MB/s of steady-state replication")
    expect(page.locator("#mode")).to_contain_text("Rescue. The tuner raises the throttle of a stalled move")
    expect(page.locator("#version")).to_have_text(f"rheostat {told(open_tuner)['version']}")
    # A caller with read access sees no button for orders.
    assert page.locator("[data-order]:visible").count() == 0
    expect(page.locator("#who")).to_be_hidden()  # This tuner requires no token.


def test_views_are_reached_by_links(open_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    page = open_page(open_tuner).page
    page.get_by_role("link", name="Brokers", exact=True).click()
    expect(page).to_have_url(re.compile("/brokers$"))
    expect(page.locator("#brokers .card")).to_have_count(3)
    expect(page.locator("#brokers canvas")).to_have_count(6)
    assert "throttle" in (page.locator("#chart-3-follower").get_attribute("aria-label") or "")
    # The explanation of W and of the minimum rate is text, not a tooltip.
    expect(page.locator("section", has=page.locator("#brokers"))).to_contain_text("1.2 × W, and at least")
    page.get_by_role("link", name="Controller and tenants").click()
    expect(page.locator("#tenants")).to_contain_text("tuner.mutation_quota is not set")
    expect(page.get_by_role("link", name="Controller and tenants")).to_have_attribute("aria-current", "page")
    page.get_by_role("link", name="Moves and plans").click()
    expect(page.locator("#plans")).to_contain_text("No plan is active")
    expect(page).to_have_title(re.compile("Moves and plans · rheostat$"))
    page.locator("#moves tbody a").first.click()
    expect(page).to_have_url(re.compile(r"/brokers\?find=3$"))
    expect(page.locator("#brokers .card")).to_have_count(1)


def test_filters_are_in_the_address(guarded_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    """A link from a chat shows the same rows, also after the reader has entered a token."""
    page = open_page(guarded_tuner, "/?broker=4&changes_only=true#decisions-title").page
    give_token(page, READ_TOKEN)
    search = page.get_by_role("search", name="Decisions")
    expect(search.get_by_role("textbox", name="Broker")).to_have_value("4")
    expect(search.get_by_label("only changes")).to_be_checked()
    expect(page.locator("#decisions")).to_have_text(re.compile("No decision matches the filter"))
    search.get_by_label("only changes").uncheck()
    expect(page).to_have_url(re.compile(r"/\?broker=4#decisions-title$"))
    expect(page.locator("#decisions li").first).to_be_visible()
    reason = page.locator("#decisions li .code").first.inner_text()
    search.get_by_label("Reason").select_option(reason)
    expect(page).to_have_url(re.compile(f"broker=4&reason={reason}#decisions-title$"))
    search.get_by_role("textbox", name="Broker").fill("")
    search.get_by_role("textbox", name="Broker").press("Tab")
    expect(page).to_have_url(re.compile(f"/\\?reason={reason}#"))


def test_point_of_a_throttle_opens_its_decision(open_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    page = open_page(open_tuner, "/brokers?find=3").page
    chart = page.locator("#chart-3-follower .u-over")
    box = chart.bounding_box()
    assert box is not None
    chart.click(position={"x": 1, "y": 20})
    expect(page.locator("#said")).to_contain_text("The tuner knows no decision about this throttle before")
    chart.click(position={"x": box["width"] - 2, "y": 20})
    expect(page).to_have_url(re.compile(r"/decisions/\d+$"))
    decision = page.locator("#decision")
    row = open_tuner.observers.decisions.row(int(page.url.rpartition("/")[2]))
    assert row is not None
    assert DecisionFilter(3, "follower").matches(row.entry)
    expect(page.get_by_role("heading", name=f"Decision {row.number}")).to_be_visible()
    expect(decision.locator(".code").first).to_have_text(row.entry.reason)
    expect(decision.get_by_role("link", name="Broker 3")).to_have_attribute("href", "/brokers?find=3")
    expect(page.locator("#replay-command")).to_have_text(re.compile(r"^rheostat replay --from \S+T\S+ --to \S+T\S+$"))
    page.get_by_text("Earlier rules").click()
    expect(decision).to_contain_text("broker_down")
    expect(page.get_by_role("region", name="Inputs of this decision").locator("tbody tr").first).to_be_visible()
    page.get_by_role("button", name="Copy").click()
    expect(page.locator("#copied")).to_have_text(re.compile("Copied|Selected"))


@pytest.mark.parametrize("path", ["/", "/moves", "/brokers", "/controller", "/decisions/0"])
def test_view_passes_axe_and_fits_a_phone(open_tuner: SimulatedTuner, open_page: OpenPage, path: str) -> None:
    show_lag(open_tuner)
    for width, dark in ((1280, False), (390, True)):
        seat = open_page(open_tuner, path, width=width, dark=dark)
        expect(seat.page.locator("#link")).to_have_text("Live")
        expect(seat.page.locator("main section div").first).not_to_contain_text("The page waits")
        assert seat.axe() == []
        assert seat.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "wider than the screen"


def test_page_without_scripts_leads_to_the_state_in_words(open_tuner: SimulatedTuner, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(open_tuner.address)
    page.get_by_role("link", name="now", exact=True).click()
    expect(page.locator("#headline")).to_contain_text("4 partitions are moving onto broker 3")
    context.close()


def told(tuner: SimulatedTuner) -> Any:
    with urllib.request.urlopen(f"{tuner.address}/api/v1/status", timeout=8) as answer:
        return json.loads(answer.read())


def observe_again(tuner: SimulatedTuner, brokers: Any = None, moves: Any = None) -> None:
    """Runs a cycle with the last observation and changed signals."""
    snapshot = tuner.board.snapshot()
    assert snapshot.observation is not None
    signals = {"broker_signals": brokers, "move_signals": moves}
    changed = {
        name: {key: replace(signal, **more) for key, signal in getattr(snapshot.observation, name).items()}
        for name, more in signals.items()
        if more is not None
    }
    tuner.observers.record_cycle(replace(snapshot.observation, **changed), snapshot.memory, snapshot.cycle_decisions)


def show_lag(tuner: SimulatedTuner) -> None:
    """Runs a cycle with the last observation and a follower that lags."""
    snapshot = tuner.board.snapshot()
    assert snapshot.observation is not None
    at_ms = snapshot.observation.now_ms
    trend = LagTrend(120.0, 25.0, 6, 0.97)
    thread = FetcherThreadLag(1, 2, lag_sum_messages=5_000.0, fetched_bytes_per_s=12e6)
    lag = ReplicationSignal(
        tuner.board.cluster, 3, at_ms, at_ms, 6, 1.0, lag_sum_messages=5_000.0, lag_max_s=24.0, trend=trend,
        threads=(thread,), worst=(LaggingPartition("<b>orders</b>", 7, 4_800.0, 1, 2),),
    )  # fmt: skip
    seen = replace(snapshot.observation, replication_signals={3: lag})
    tuner.observers.record_cycle(seen, snapshot.memory, snapshot.cycle_decisions)


def test_page_shows_lag_of_followers(open_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    page = open_page(open_tuner, "/brokers").page
    expect(page.locator("#replication")).to_contain_text("The tuner has no signal about replication lag.")
    show_lag(open_tuner)
    row = page.locator("#replication tbody tr")
    expect(row).to_contain_text("+120 messages/s, fit 97 %")
    expect(row).to_contain_text("2 from broker 1: 5,000 messages, copies 12.0 MB/s")
    expect(row).to_contain_text("<b>orders</b>-7: 4,800 messages")


def test_page_shows_eta_or_never(open_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    observe_again(open_tuner, moves={"remaining_slope_bytes_per_s": -2e6})
    page = open_page(open_tuner).page
    status = told(open_tuner)
    assert status["eta_s"] > 0
    # The simulated clock does not advance by itself.
    end = f"{moment(status['ends_at_ms'])[11:16]} UTC"
    expect(page.locator("#headline")).to_contain_text(f"done in about {span_text(status['eta_s'])}. (at {end})")
    expect(page.locator("#now .how-far")).to_have_text(re.compile(r"^\s*\d+ % copied\.\s*$"))
    # One move has one end, in the headline.
    text = page.locator("main").inner_text()
    assert (text.count("done in about"), text.count(end)) == (1, 1)
    expect(page.locator("#moves")).not_to_contain_text("ends in")
    expect(page.locator("#now")).not_to_contain_text("never ends at the current limits")
    observe_again(open_tuner, moves={"steady_state_bytes_per_s": 1e9})
    expect(page.locator("#now")).to_contain_text("The move never ends at the current limits: the ceiling of")
    expect(page.locator("#now")).to_contain_text(re.compile(r"steady-state replication on\s+broker 1 \(leader\)"))
    expect(page.locator("#now").get_by_role("link", name="ThrottleInfeasible").first).to_be_visible()
    expect(page.locator("#now .pills")).to_contain_text("infeasible")
    observe_again(open_tuner, moves={"remaining_slope_bytes_per_s": 1e6})
    expect(page.locator("#headline")).to_contain_text("the expected end is not known yet")
    expect(page.locator("#now")).not_to_contain_text("done in about")


def test_page_says_whether_latency_is_within_the_objective(open_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    page = open_page(open_tuner).page
    objective = told(open_tuner)["objective"]["latency_ms"]
    meter = page.get_by_role("meter", name="Latency against its objective", exact=True)
    for p99_ms, is_it in ((0.5 * objective, "within"), (1.5 * objective, "over")):
        observe_again(open_tuner, brokers={"produce_p99_ms": p99_ms})
        expect(page.locator("#now dl")).to_contain_text(f"{is_it} the objective of {objective:.0f} ms")
        expect(meter).to_have_js_property("value", p99_ms)
        expect(meter).to_have_js_property("high", objective)
    observe_again(open_tuner, brokers={"produce_p99_ms": 9 * objective})
    expect(meter).to_have_js_property("value", 2 * objective)


def test_chart_shows_minimum_and_distant_ceiling(open_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    page = open_page(open_tuner, "/brokers").page
    chart = page.locator("#chart-3-follower")
    card = page.locator(".side", has=chart)
    edge = "getComputedStyle(document.querySelector('#chart-3-follower'), '::after').content"
    expect(page.get_by_role("list", name="Lines of the charts")).to_contain_text("minimum rate")
    described = r"steady-state replication [\d.]+ MB/s, minimum rate [\d.]+ MB/s, ceiling {}B/s{}$"
    expect(chart).to_have_attribute("aria-label", re.compile(described.format(r"1\.00 G", ", above the chart")))
    assert "ceiling 1.00 GB/s" in page.evaluate(edge)
    expect(card).to_contain_text(re.compile(r" W [\d.]+ MB/s, minimum rate [\d.]+ MB/s, ceiling 1\.00 GB/s"))
    # Near enough to be drawn.
    open_tuner.board.limits = replace(open_tuner.board.limits, rate_bytes_per_s_max=300e6)
    observe_again(open_tuner)
    expect(chart).to_have_attribute("aria-label", re.compile(described.format("300 M", "")))
    assert page.evaluate(edge) == '""'
    expect(card).to_contain_text("ceiling 300 MB/s")


def test_rates_in_charts_equal_those_of_the_server(open_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    """Rates around each change of unit, and ties, which Python and JavaScript round differently."""
    rates = [
        0, 0.5, 1, 2.5, 999, 999.4, 999.5, 1000, 9_994, 9_995, 40_000, 99_940, 99_950, 999_499, 999_500, 1_234_567,
        10_050_000, 10_250_000, 10_750_000, 11_250_000, 1_125_000, 1_375_000, 100_500_000, 101_500_000, 999_500_000,
        1_200_000_000, 3.3e12, 7e15, -40_000, -11_250_000,
    ]  # fmt: skip
    page = open_page(open_tuner, "/brokers").page
    expect(page.locator("#link")).to_have_text("Live")
    assert page.evaluate("rates => rates.map(units.rateText)", rates) == [rate_text(rate) for rate in rates]


def test_lowered_ceiling_is_drawn_from_the_time_of_change(open_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    limits = open_tuner.board.limits
    for ceiling in (60e6, 60e6, 40e6):
        open_tuner.board.limits = replace(limits, rate_bytes_per_s_max=ceiling)
        open_tuner.advance(5)
    page = open_page(open_tuner, "/brokers").page
    expect(page.locator("#chart-3-follower canvas")).to_be_visible()
    drawn = page.evaluate("charts.data('chart-3-follower').at(-1).slice(-3)")
    assert drawn == [60, 60, 40]
    open_tuner.board.limits = replace(limits, rate_bytes_per_s_max=30e6)
    open_tuner.advance(5)  # What comes now does not change what was.
    expect(page.locator("#chart-3-follower")).to_have_attribute("aria-label", re.compile(r"ceiling 30\.0 MB/s$"))
    assert page.evaluate("charts.data('chart-3-follower').at(-1).slice(-4)") == [60, 60, 40, 30]


@pytest.mark.parametrize("dark", [False, True])
def test_stalled_state_is_visible_on_a_phone(browser: Browser, dark: bool) -> None:
    with SimulatedTuner("infeasible-throttle", steers=False, dry_run=True) as tuner:
        tuner.advance(42)
        seat = Seat(browser, tuner.address, width=390, height=844, dark=dark)
        word = seat.page.locator("tr.stalled b")
        expect(word).to_have_text("stalled")
        box = word.bounding_box()
        assert box is not None
        assert 0 < box["x"] < box["x"] + box["width"] <= 390
        # The first screen shows the mode and the state.
        expect(seat.page.locator("#mode")).to_contain_text("Dry run. The tuner decides, but changes nothing")
        for name in ("#mode", "#headline"):
            place = seat.page.locator(name).bounding_box()
            assert place is not None
            assert place["y"] + place["height"] <= 844
        decisions = seat.page.locator("#decisions")
        expect(decisions).to_contain_text("dry run: not executed")
        expect(decisions.locator("li.no_change").first).to_contain_text("no change")
        expect(seat.page.locator("#now")).to_contain_text("Without the dry run the tuner would do this.")
        seat.close()


def test_page_shows_one_eta_per_plan(browser: Browser, open_tuner: SimulatedTuner) -> None:
    observe_again(open_tuner, moves={"remaining_slope_bytes_per_s": -50e6})
    parts = {("t", number): PlanPartition((1, 2), (4, 2), size_bytes=400e6) for number in range(3)}
    at_ms = round(open_tuner.now_s() * 1000)
    plan = Plan(PlanHead("p", "kim", at_ms - 60_000, at_ms - 60_000, 1), parts)
    begins = ReassignmentStep(
        "t", 1, (4, 2), (4,), (1,), StepReason.REPLICAS, moves_leader=True, needs_election=False, is_last=True
    )
    turn = PlanDecision(plan, PartitionProgress(arrived=[("t", 0)], running={("t", 1): begins}))
    open_tuner.plans.record_step((turn,), BatchLimits(), PartitionMeasurements(), at_ms)
    why = "a plan waits, until `rheostat reassign resume p`; what is `unpaired"
    open_tuner.board.ready = lambda: (False, why)  # type: ignore[method-assign]
    seat = Seat(browser, open_tuner.address)
    page = seat.page
    status = told(open_tuner)
    ends = f"done in about {span_text(status['eta_s'])}"
    expect(page.locator("#headline")).to_contain_text(ends)
    text = page.locator("main").inner_text()
    assert text.count("done in about") == text.count(ends) == 1
    expect(page.locator("#moves")).not_to_contain_text("ends in")
    expect(page.locator("#now .wrong code")).to_have_text("rheostat reassign resume p")
    expect(page.locator("#now .wrong")).to_contain_text("what is `unpaired")
    page.goto(f"{open_tuner.address}/moves?find=q")
    expect(page.locator("#plans")).to_contain_text("No active plan has a name with “q”.")
    page.goto(f"{open_tuner.address}/moves")
    expect(page.locator("#plans .how-far")).to_contain_text("copied:")
    expect(page.locator("main")).not_to_contain_text("done in about")
    page.locator("#plans h3 a").click()
    expect(page).to_have_url(re.compile("/plans/p$"))
    expect(page.locator("#plan-title")).to_have_text("Plan p")
    page.goto(f"{open_tuner.address}/moves?find=p")
    expect(page.locator("#plans article")).to_have_count(1)
    assert seat.wrong == []
    seat.close()


def test_outdated_response_changes_no_chart(open_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    page = open_page(open_tuner, "/brokers").page
    expect(page.locator("#brokers canvas")).to_have_count(6)
    since = page.evaluate("""async () => {
      const given = [], paths = [];
      const ask = (path) => (paths.push(path), new Promise((give) => given.push(give)));
      const since = (path) => Number(path.match(/since_ms=([0-9]+)/)[1]);
      const at = (times) => ({ ok: true, json: async () => ({ times_ms: times, rate_bytes_per_s_max: 1e8, max_rates_bytes_per_s: times.map(() => 1e8), brokers: {} }) });
      const draws = [charts.draw(ask), charts.draw(ask)];
      const [first] = paths.map(since);
      given[1](at([first + 5000, first + 10000]));
      await draws[1];
      given[0](at([first + 5000]));
      await draws[0];
      charts.draw(ask);
      return since(paths[2]) - first;
    }""")
    assert since == 10_000


def test_page_updates_by_itself(open_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    page = open_page(open_tuner).page
    expect(page.locator("#headline")).to_contain_text("4 partitions are moving")
    open_tuner.advance(60)
    expect(page.locator("#headline")).to_have_text("Nothing is moving.")
    expect(page.locator("#decisions")).to_contain_text("move_ended")


def test_charts_survive_recreation_of_their_card(guarded_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    page = open_page(guarded_tuner, "/brokers").page
    give_token(page, READ_TOKEN)
    expect(page.locator("#brokers canvas").first).to_be_visible()
    before = page.locator("#chart-4-follower").get_attribute("aria-label")
    page.evaluate("document.querySelector('#chart-4-follower canvas').dataset.mine = 'yes'")
    guarded_tuner.advance(20)
    expect(page.locator("#chart-4-follower")).not_to_have_attribute("aria-label", before or "")
    assert page.evaluate("document.querySelector('#chart-4-follower canvas').dataset.mine") == "yes"


def test_token_is_requested_and_kept_in_this_tab(guarded_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    page = open_page(guarded_tuner).page
    expect(page.get_by_role("dialog")).to_be_visible()
    give_token(page, "wrong-0123456789abcdef")
    expect(page.locator("#token .wrong")).to_have_text(
        "The tuner refuses this token: this token is unknown to the tuner."
    )
    give_token(page, READ_TOKEN)
    expect(page.locator("#headline")).to_contain_text("moving onto broker 4")
    assert page.locator("[data-order]:visible").count() == 0
    page.reload()
    expect(page.locator("#headline")).to_contain_text("moving onto broker 4")
    assert page.evaluate("[localStorage.length, document.cookie]") == [0, ""]
    assert READ_TOKEN not in page.content()
    page.locator("#who").click()
    page.get_by_role("button", name="Forget token").click()
    expect(page.get_by_role("dialog")).to_be_visible()


def test_operator_pauses_and_resumes_on_the_page(guarded_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    page = open_page(guarded_tuner).page
    give_token(page, OPERATE_TOKEN)
    page.get_by_role("button", name="Pause…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("The tuner changes nothing until an operator resumes it.")
    dialog.get_by_role("button", name="Cancel").click()
    guarded_tuner.advance(6)
    assert guarded_tuner.orders.latest.pause is None
    page.get_by_role("button", name="Pause…").click()
    dialog.get_by_role("button", name="Pause", exact=True).click()
    expect(page.locator("#said")).to_have_text("Pause: recorded. The tuner acknowledges it within a cycle.")
    guarded_tuner.advance(6)
    expect(page.locator("#said")).to_have_text("Pause: acknowledged.")
    expect(page.locator("#now")).to_contain_text("Paused by kim over HTTP from 127.0.0.1")
    expect(page.locator("#now")).to_contain_text("The tuner changes nothing, and waits for an operator to resume.")
    expect(page.locator("#now")).to_contain_text("After that:")
    page.get_by_role("button", name="Resume…").click()
    dialog.get_by_role("button", name="Resume", exact=True).click()
    expect(page.locator("#said")).to_contain_text("Resume: recorded")
    guarded_tuner.advance(6)
    expect(page.locator("#now")).not_to_contain_text("Operator orders")


def test_acknowledged_order_is_the_submitted_one(guarded_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    page = open_page(guarded_tuner).page
    give_token(page, OPERATE_TOKEN)
    page.get_by_role("button", name="Pause…").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause", exact=True).click()
    expect(page.locator("#said")).to_contain_text("Pause: recorded")
    page.get_by_role("button", name="Release…").click()
    guarded_tuner.advance(6)
    expect(page.locator("#said")).to_have_text("Pause: acknowledged.")


def test_late_response_leaves_another_dialog_open(guarded_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    page = open_page(guarded_tuner).page
    give_token(page, OPERATE_TOKEN)
    held: list[Route] = []
    page.route("**/api/v1/pause", lambda route: held.append(route))
    page.get_by_role("button", name="Pause…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Pause", exact=True).click()
    dialog.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Release…").click()
    held[0].fulfill(status=422, json={"detail": "the order is not taken"})
    expect(page.locator("#said")).to_have_text("Pause: the order is not taken")
    expect(dialog.locator(".wrong")).to_be_empty()
    expect(dialog).to_contain_text("Release?")


def test_paging_past_the_end_keeps_the_last_page(open_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    page = open_page(open_tuner, "/brokers").page
    expect(page.locator("#brokers-shown")).to_contain_text("1 to 3 of 3")
    offset = page.locator("#brokers-asked [name=offset]")
    for _ in range(3):
        page.get_by_role("button", name="Less busy").click()
    expect(offset).to_have_value("0")
    snapshot = open_tuner.board.snapshot()
    assert snapshot.observation is not None
    assert snapshot.live is not None
    many = replace(snapshot.observation, live=replace(snapshot.live, brokers=frozenset(range(1, 31))))
    open_tuner.observers.record_cycle(many, snapshot.memory, snapshot.cycle_decisions)
    expect(page.locator("#brokers-shown")).to_contain_text("1 to 12 of 30")
    for at in ("12", "24", "24", "24"):
        page.get_by_role("button", name="Less busy").click()
        expect(offset).to_have_value(at)
    page.get_by_role("button", name="Busier").click()
    expect(page.locator("#brokers-shown")).to_contain_text("13 to 24 of 30")


def test_operator_sets_and_ends_an_override_on_the_page(guarded_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    page = open_page(guarded_tuner, "/brokers").page
    give_token(page, OPERATE_TOKEN)
    page.get_by_role("button", name="Override broker 4").click()
    dialog = page.get_by_role("dialog")
    assert dialog.get_by_label("Broker", exact=True).input_value() == "4"
    # What the browser would stop the tuner refuses, too, with the bounds.
    page.evaluate("document.querySelector('#order [name=rate]').removeAttribute('max')")
    dialog.get_by_label("Rate, MB/s").fill("99999")
    dialog.get_by_role("button", name="Override", exact=True).click()
    expect(dialog.locator(".wrong")).to_contain_text("is outside the bounds: 1 to")
    dialog.get_by_label("Rate, MB/s").fill("20")
    dialog.get_by_label("Side").select_option("follower")
    dialog.get_by_role("button", name="Override", exact=True).click()
    expect(page.locator("#said")).to_contain_text("Override: recorded")
    guarded_tuner.advance(6)
    expect(page.locator("#said")).to_have_text("Override: acknowledged.")
    expect(page.locator("#brokers")).to_contain_text("overridden until")
    page.get_by_role("link", name="Now", exact=True).click()
    expect(page.locator("#now")).to_contain_text(
        re.compile(r"Broker 4 follower throttle: 20\.0 MB/s by order of kim over HTTP.*, until .* UTC\.")
    )
    assert (page.locator("#now li", has_text="by order of").first.text_content() or "").count("until") == 1
    expect(page.locator("#now .pills")).to_contain_text("1 broker overridden")
    page.get_by_role("button", name="End the overrides of broker 4").click()
    dialog.get_by_role("button", name="End the override", exact=True).click()
    expect(page.locator("#said")).to_contain_text("recorded")
    guarded_tuner.advance(6)
    expect(page.locator("#now")).not_to_contain_text("Operator orders")


def test_operator_releases_everything_by_keyboard(guarded_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    page = open_page(guarded_tuner).page
    expect(page.get_by_role("textbox", name="Token")).to_be_focused()
    page.keyboard.type(OPERATE_TOKEN)
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Release…")).to_be_visible()
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.dataset.order") == "release":
            break
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("The tuner restores all settings that it manages")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert page.evaluate("document.activeElement.dataset.order") == "release"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#said")).to_contain_text("Release: recorded")
    guarded_tuner.advance(10)
    expect(page.locator("#now")).to_contain_text("released by kim".capitalize())
    assert guarded_tuner.board.snapshot().memory.owned == {}


def test_page_filters_brokers_and_decisions(guarded_tuner: SimulatedTuner, open_page: OpenPage) -> None:
    page = open_page(guarded_tuner, "/brokers").page
    give_token(page, READ_TOKEN)
    find = page.get_by_role("search", name="Brokers").get_by_label("Broker")
    find.fill("2")
    find.press("Tab")
    expect(page.locator("#brokers .card")).to_have_count(1)
    find.fill("99")
    find.press("Tab")
    expect(page.locator("#brokers")).to_contain_text("The tuner knows no broker 99.")
    expect(page).to_have_url(re.compile(r"/brokers\?find=99$"))
    page.get_by_role("link", name="Now", exact=True).click()
    page.get_by_role("search", name="Decisions").get_by_label("Reason").select_option("infeasible")
    expect(page.locator("#decisions")).to_have_text(re.compile("No decision matches the filter"))
    # And what there is of one kind: all of it, and nothing else.
    rows, _ = guarded_tuner.observers.decisions.page(DecisionFilter(), 30)
    every = [row.entry for row in rows]
    reason = every[-1].reason
    of_it = [entry for entry in every if entry.reason == reason]
    assert 0 < len(of_it) < len(every), "the test needs decisions of two kinds"
    page.get_by_role("search", name="Decisions").get_by_label("Reason").select_option(reason)
    expect(page.locator("#decisions li .code")).to_have_text([reason] * len(of_it))
    of_broker = page.get_by_role("search", name="Decisions").get_by_role("textbox", name="Broker")
    of_broker.fill("4")
    of_broker.press("Tab")
    about = [entry for entry in of_it if DecisionFilter(4).matches(entry)]
    expect(page.locator("#decisions li .code")).to_have_count(len(about))


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False), (390, True)])
def test_page_passes_axe(guarded_tuner: SimulatedTuner, open_page: OpenPage, width: int, dark: bool) -> None:
    """axe-core checks the whole page with an operator's buttons, tenants, an override and an open dialog."""
    rows = tuple(
        TenantShare(Tenant(name), 5.0, True, 2.0, 2.0, QuotaReason.FAIR_SHARE, None)
        for name in ("reports", "<script>alert(1)</script>")
    )
    said = TotalRateReport(10.0, 0.8, QuotaReason.AT_CAP, "at the cap of 10/s")
    view = QuotaView(round(guarded_tuner.now_s() * 1000), {})
    guarded_tuner.quotas.publish(view, QuotaStep(MutationMemory(), (said,), rows), MutationMemory(TotalRate(10.0)))
    show_lag(guarded_tuner)
    seat = open_page(guarded_tuner, "/brokers", width=width, dark=dark)
    page = seat.page
    assert seat.axe() == []
    give_token(page, OPERATE_TOKEN)
    expect(page.locator("#brokers canvas").first).to_be_visible()
    expect(page.locator("#replication tbody tr")).to_have_count(1)
    assert seat.axe() == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "wider than the screen"
    page.get_by_role("button", name="Override…", exact=True).first.click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert seat.axe() == []
    page.goto(f"{guarded_tuner.address}/controller")
    expect(page.locator("#tenants")).to_contain_text("<script>alert(1)</script>")
    assert seat.axe() == []
    page.get_by_role("link", name="<script>alert(1)</script>").click()
    expect(page.locator("#tenants tbody tr")).to_have_count(1)
    expect(page.get_by_role("search", name="Tenants").get_by_role("textbox")).to_have_value("<script>alert(1)</script>")
