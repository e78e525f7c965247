"""Acting on the page: the slider of an override, the command beside each button, a token that expires, the link to Grafana."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from ui_kit import OPERATE_TOKEN, READ_TOKEN, TOKENS, Seat

from benchmarks.pages.tuner import SimulatedTuner
from tuner.api.auth import Tokens

GRAFANA = "https://grafana.example.org/"


@pytest.fixture
def page(browser: Browser, guarded_tuner: SimulatedTuner) -> Iterator[Page]:
    """The brokers for an operator."""
    seat = Seat(browser, guarded_tuner.address, "/brokers")
    enter(seat.page, OPERATE_TOKEN)
    expect(seat.page.locator("#brokers canvas").first).to_be_visible()
    yield seat.page
    seat.close()
    assert [said for said in seat.wrong if "401" not in said and "404" not in said] == []


def enter(page: Page, secret: str) -> None:
    page.get_by_role("textbox", name="Token").fill(secret)
    page.get_by_role("button", name="Use token").click()


def open_override(page: Page) -> None:
    page.get_by_role("button", name="Override broker 4").click()
    expect(page.locator("#override-eta")).to_contain_text("At this rate the copies of broker 4 take about")


def test_slider_shows_the_end_for_each_rate(page: Page) -> None:
    open_override(page)
    dialog, eta = page.locator("#order"), page.locator("#override-eta")
    slider = dialog.get_by_role("slider", name="From the minimum rate to the ceiling")
    dialog.get_by_label("Side").select_option("follower")
    slider.fill("1000")
    assert float(dialog.get_by_label("Rate, MB/s").input_value()) == page.evaluate(
        "Number(document.querySelector('#order [name=rate]').max)"
    )
    fast = eta.inner_text()
    slider.fill("300")
    expect(eta).not_to_have_text(fast)
    expect(eta).to_have_text(
        re.compile(
            r"^You set the follower throttle of broker 4 to [\d.]+ MB/s for 30 min\. Now: follower [\d.]+ MB/s\."
        )
    )
    expect(slider).to_have_attribute("aria-valuetext", re.compile(r"MB/s\. You set"))
    dialog.get_by_label("Rate, MB/s").fill("0.001")
    expect(eta).to_contain_text(
        re.compile(r"never end: the replication of new writes alone uses [\d.]+ MB/s|take about \d+ d")
    )
    dialog.get_by_label("Broker", exact=True).fill("99")
    page.keyboard.press("Tab")
    expect(eta).to_contain_text("The tuner has no measurements of this broker's copies.")


def test_dialog_shows_the_command_of_its_order(page: Page) -> None:
    open_override(page)
    dialog, command = page.locator("#order"), page.locator("#order-command")
    dialog.get_by_label("Rate, MB/s").fill("20")
    dialog.get_by_label("Side").select_option("leader")
    dialog.get_by_label("For, minutes").fill("45")
    expect(command).to_have_text("rheostat override --broker 4 --side leader --throttle 20MB/s --for 45m")
    page.keyboard.press("Escape")
    for name in ("pause", "release"):
        page.locator(f"header [data-order={name}]").click()
        expect(command).to_have_text(f"rheostat {name}")
        page.keyboard.press("Escape")


def test_expired_token_keeps_what_was_entered(page: Page, guarded_tuner: SimulatedTuner) -> None:
    open_override(page)
    dialog = page.locator("#order")
    dialog.get_by_label("Rate, MB/s").fill("20")
    dialog.get_by_label("For, minutes").fill("7")
    page.evaluate("sessionStorage.setItem('rheostat-token', 'expired-0123456789abcdef')")
    dialog.get_by_role("button", name="Override", exact=True).click()
    expect(page.locator("#token .wrong")).to_contain_text(
        "The tuner refuses this token: this token is unknown to the tuner."
    )
    enter(page, OPERATE_TOKEN)
    expect(dialog.locator(".wrong")).to_contain_text(
        "Enter another one, then press Override again. Your entries stay here."
    )
    assert dialog.get_by_label("Rate, MB/s").input_value() == "20"
    assert dialog.get_by_label("For, minutes").input_value() == "7"
    dialog.get_by_role("button", name="Override", exact=True).click()
    expect(page.locator("#said")).to_contain_text("Override: recorded")
    guarded_tuner.advance(6)
    expect(page.locator("#said")).to_have_text("Override: acknowledged.")
    (order,) = {order.bytes_per_s for order in guarded_tuner.orders.latest.overrides.values()}
    assert order == 20_000_000


def test_views_link_to_their_grafana_dashboard(browser: Browser) -> None:
    with SimulatedTuner("broker-add", tokens=Tokens(TOKENS), grafana_url=GRAFANA) as tuner:
        tuner.advance(20)
        seat = Seat(browser, tuner.address, "/brokers?find=4")
        page = seat.page
        enter(page, READ_TOKEN)
        link = page.get_by_role("link", name="Grafana")
        base = "https://grafana.example.org/d"
        recent = "var-cluster=broker-add&from=now-1h&to=now"
        expect(link).to_have_attribute("href", f"{base}/rheostat-replication?{recent}&var-broker=4")
        page.goto(f"{tuner.address}/")
        expect(link).to_have_attribute("href", f"{base}/rheostat-overview?{recent}")
        page.get_by_role("search", name="Decisions").get_by_role("textbox", name="Broker").fill("3")
        page.keyboard.press("Tab")
        expect(link).to_have_attribute("href", f"{base}/rheostat-overview?{recent}&var-broker=3")
        page.goto(f"{tuner.address}/decisions/{1_700_000_000_000 * 2000}")
        expect(link).to_have_attribute(
            "href", re.compile("/rheostat-reassignments.*&from=1699998200000&to=1700001800000$")
        )
        assert [said for said in seat.wrong if "401" not in said] == []
        seat.close()


def test_page_without_grafana_has_no_link(page: Page) -> None:
    expect(page.locator("#link")).to_have_text("Live")
    expect(page.locator("#grafana")).to_be_hidden()
