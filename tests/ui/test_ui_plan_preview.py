"""A plan is previewed and started on the page of a real tuner, on real brokers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka.admin import NewTopic
from playwright.sync_api import Browser, Page, expect
from ui_kit import OPERATE_TOKEN, READ_TOKEN, Seat, take_picture

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.node import free_ports
from streaming.shared.kafka import producer

PARTITIONS = 4
_START_S_MAX = 60.0
# A broker that does not exist, and a partition that does not exist.
FAULTY = {"version": 1, "partitions": [{"topic": "orders", "partition": 9, "replicas": [1, 99]}]}


def plan_text(replicas: list[int]) -> str:
    rows = [{"topic": "orders", "partition": number, "replicas": replicas} for number in range(PARTITIONS)]
    return json.dumps({"version": 1, "partitions": rows})


@contextmanager
def tuner_of(lab: Lab) -> Iterator[str]:
    """Runs a tuner without collector and stream, and yields the address of its page once it acts."""
    config, port = lab.home / "rheostat.yaml", free_ports(1)[0]
    config.write_text(lab_config(lab, http={"port": port, "read_token": READ_TOKEN, "operate_token": OPERATE_TOKEN}))
    log = lab.home / "logs" / "tune.log"
    with log.open("w") as out:
        command = [sys.executable, "-m", "rheostat", "tune", "--config", str(config)]
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        address = f"http://127.0.0.1:{port}"
        deadline_s = time.monotonic() + _START_S_MAX
        while not (status(address) or {}).get("last_cycle_at_ms"):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline_s, log.read_text()
            time.sleep(0.2)  # Between two looks at what is waited for.
        yield address
    finally:
        process.terminate()
        process.wait(30)


def status(address: str, path: str = "status") -> Any:
    request = urllib.request.Request(f"{address}/api/v1/{path}", headers={"Authorization": f"Bearer {READ_TOKEN}"})
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return json.loads(answer.read())
    except OSError:
        return None


def sit(browser: Browser, address: str, token: str, **how: Any) -> Seat:
    seat = Seat(browser, address, "/moves", **how)
    seat.page.get_by_role("textbox", name="Token").fill(token)
    seat.page.get_by_role("button", name="Use token").click()
    expect(seat.page.locator("#link")).to_have_text("Live", timeout=20_000)
    return seat


def preview(page: Page, plan: str, start: str = "now", at: str | None = None) -> None:
    form = page.locator("#plan-asked")
    form.locator("textarea").fill(plan)
    form.locator("[name=start]").select_option(start)
    if at is not None:
        form.locator("[name=at]").fill(at)
    form.get_by_role("button", name="Preview").click()
    expect(form.get_by_role("button", name="Preview")).to_be_enabled(timeout=30_000)


@pytest.mark.campaign
@pytest.mark.timeout(240)
def test_page_answers_what_a_plan_does_now_or_at_22(browser: Browser) -> None:
    with Lab(LabSpec(brokers=3)) as lab:
        with lab.admin() as admin:
            layout = {number: [1, 2] for number in range(PARTITIONS)}
            admin.create_topics([NewTopic("orders", -1, -1, replica_assignments=layout)])
        writer = producer(lab.kafka_settings(), "test-bytes")
        for record in range(20):
            writer.send("orders", value=os.urandom(900_000), partition=record % PARTITIONS)
        writer.flush(timeout=30)
        writer.close(timeout=5)
        with tuner_of(lab) as address:
            _check_preview(browser, address)
            _check_refusals(browser, address)
            _check_start(browser, address)


def _check_preview(browser: Browser, address: str) -> None:
    """A reader sees the forecasts, and no button."""
    seat = sit(browser, address, READ_TOKEN)
    page = seat.page
    preview(page, plan_text([3, 2]), "at", "22:00")
    ends = page.get_by_role("region", name="When the plan ends").locator("tbody tr")
    expect(ends.nth(0)).to_have_text(re.compile(r"^\s*now\s*\d{4}-.* UTC.*\d s\d{4}-.* UTC"))
    expect(ends.nth(1)).to_have_text(re.compile(r"^\s*your start\s*\d{4}-\d\d-\d\d 22:00:00 UTC"))
    placement = page.get_by_role("region", name="Placement before and after")
    expect(placement.locator("tbody tr")).to_have_count(PARTITIONS)
    expect(placement.locator("tbody ins").first).to_have_text("3")
    expect(placement.locator("tbody del").first).to_have_text("1")
    load = page.get_by_role("region", name="Load by broker").locator("tbody tr")
    expect(load.nth(0)).to_have_text(re.compile(r"^\s*1.*MB\s*\d+ → \d+"))
    expect(page.locator("#preview")).to_contain_text("At most 30.0 MB/s for each leader and follower throttle")
    expect(page.locator("#plan-command")).to_have_text(
        re.compile(r"^rheostat reassign start plan.json --at \d{4}-\d\d-\d\dT22:00\+00:00$")
    )
    expect(page.get_by_role("button", name="Start this plan…")).to_be_hidden()
    assert seat.axe() == []
    page.locator("#preview-title").scroll_into_view_if_needed()
    page.locator("#preview").scroll_into_view_if_needed()
    take_picture(page, "page-preview")
    seat.close()
    phone = sit(browser, address, READ_TOKEN, width=390, dark=True)
    preview(phone.page, plan_text([3, 2]))
    expect(phone.page.locator("#preview .headline")).to_contain_text("from now on")
    assert phone.axe() == []
    assert phone.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "wider than the screen"
    phone.close()


def _check_refusals(browser: Browser, address: str) -> None:
    seat = sit(browser, address, OPERATE_TOKEN)
    page = seat.page
    for plan, why in (
        (json.dumps(FAULTY), "there is no partition orders-9"),
        ("{", "The plan"),
        (plan_text([1, 2]), f"Nothing to move: all {PARTITIONS} partitions of the plan already have"),
        (plan_text([1, 2, 3]), "2 replicas now and 3 in the plan"),
    ):
        preview(page, plan)
        expect(page.locator("#preview .wrong").first).to_contain_text(why)
        expect(page.get_by_role("button", name="Start this plan…")).to_have_count(0)
        expect(page.locator("#plan-asked textarea")).to_have_value(plan)
    seat.close()


def _check_start(browser: Browser, address: str) -> None:
    """The plan that was previewed starts, whatever the field says by then."""
    seat = sit(browser, address, OPERATE_TOKEN)
    page = seat.page
    preview(page, plan_text([3, 2]))
    page.locator("#plan-asked textarea").fill("{}")
    page.get_by_role("button", name="Start this plan…").click()
    dialog = page.locator("#order")
    expect(dialog).to_contain_text(f"The tuner moves {PARTITIONS} partitions")
    expect(page.locator("#order-command")).to_have_text("rheostat reassign start plan.json")
    dialog.get_by_role("button", name="Start the plan", exact=True).click()
    expect(page.locator("#said")).to_contain_text(
        re.compile(r"Plan \S+ is on record, and starts within a cycle"), timeout=30_000
    )
    plan = re.search(r"Plan (\S+) is on record", page.locator("#said").inner_text())
    assert plan is not None
    # The partitions are empty, so the plan may end before the page shows it; the decisions keep it.
    deadline_s = time.monotonic() + 60
    while not any("orders-0" in row["text"] for row in status(address, "decisions?limit=200")["decisions"]):
        assert time.monotonic() < deadline_s, "no step of the plan began"
        time.sleep(0.3)  # Between two looks at what is waited for.
    assert [said for said in seat.wrong if "401" not in said] == []
    seat.close()
