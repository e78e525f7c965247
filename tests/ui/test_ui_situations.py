"""The four views on a real cluster: an idle week, a storm, a recovery, and a fail-over to a standby."""

from __future__ import annotations

import json
import re
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from ui_kit import Seat, check_views

sys.path.insert(0, str(Path(__file__).parents[1] / "integration"))
sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

from lab_parts import RHEOSTAT, until
from lab_parts import running as process
from story_kit import ETL, Running, make_topic, running, storm
from test_recovery_live import ACT, has_nothing_left, is_in_sync, return_with_empty_disk
from week_cases import broker_profile, history_week

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.load import ProducerLoad
from rheostat.lab.node import free_ports
from streaming.shared.contract import Topics, encode_history, encode_profile, history_key, profile_key
from streaming.shared.kafka import producer
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.topics import ensure_topics
from tuner.core.throttle_limits import MB

TOPICS = Topics.with_prefix("rheostat")
BROKERS = (1, 2, 3)
PARTITIONS, MEGABYTES = 6, 900
# The copies of a broker take more than a minute, in which the views are looked at.
SETTINGS = {**ACT, "rate_bytes_per_s_max": 5 * MB}
LOUD = replace(ETL, requests_per_s=40, connections=8, honours=True)


def fill_week(lab: Lab) -> None:
    """Writes the week that the stream and `rheostat learn` would have written."""
    now_ms = round(time.time() * 1000)
    sender = producer(lab.kafka_settings(), "test-week")
    for period in history_week("lab", BROKERS, now_ms):
        sender.send(TOPICS.history, key=history_key(period), value=encode_history(period))
    for broker in BROKERS:
        profile = broker_profile("lab", broker, now_ms)
        sender.send(TOPICS.profiles, key=profile_key(profile), value=encode_profile(profile))
    sender.flush(timeout=30)
    sender.close(timeout=5)


def answer_of(port: int, path: str) -> Any:
    """Returns the JSON of an answer; None while the tuner does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return json.loads(answer.read())
    except OSError:
        return None


@contextmanager
def seats_at(browser: Browser, port: int) -> Iterator[tuple[str, list[Seat]]]:
    """Opens the page on a wide screen and on a dark phone; at the end none may have had an error."""
    address = f"http://127.0.0.1:{port}"
    seats = [Seat(browser, address), Seat(browser, address, width=390, height=844, dark=True)]
    yield address, seats
    for seat in seats:
        seat.close()
        assert seat.wrong == []


def check_days(page: Page, address: str) -> None:
    """Checks the week and the history of one broker."""
    page.goto(f"{address}/brokers#week-3")
    expect(page.locator("#week-latency canvas")).to_be_visible(timeout=30_000)
    expect(page.locator("#week-facts")).to_contain_text("Forecast made")
    page.goto(f"{address}/brokers/3?last=7d")
    expect(page.locator("#history-latency canvas")).to_be_visible(timeout=30_000)
    # While the tuner still reads the weeks before, the chart has no value.
    expect(page.locator("#history-latency")).to_have_attribute(
        "aria-label", re.compile(r"highest [0-9.]+ ms to [0-9.]+ ms"), timeout=60_000
    )


def fail_over(parts: Running, browser: Browser, lab: Lab) -> None:
    """Starts a standby, kills the active tuner, and checks the page of the new one."""
    port = free_ports(1)[0]
    config = lab.home / "standby.yaml"
    config.write_text(lab_config(lab, http={"port": port}, **SETTINGS))
    with process(*RHEOSTAT, "tune", "--config", config, log=lab.home / "logs" / "standby.log"):
        parts.until("the standby answers", lambda: answer_of(port, "/api/v1/status"), 90)
        with seats_at(browser, port) as (address, seats):
            for seat in seats:
                check_views(seat, address, {"/": "Standby"})
            tuner = next(child for child in parts.supervisor.children if child.name == "tune")
            assert tuner.process is not None
            tuner.process.kill()

            def acts() -> bool:
                status = answer_of(port, "/api/v1/status")
                return bool(status and status["active"] and status["ready"])

            # Not by ``parts.until``, whose supervisor would start another tuner.
            until(acts, 60, "the standby acts")
            for seat in seats:
                check_views(seat, address, {"/": "Nothing is moving."})
            page = seats[0].page
            page.goto(f"{address}/brokers/3?last=6h")
            marks = page.locator("#history-marks")
            expect(marks).to_contain_text("fail-over", timeout=30_000)
            expect(marks).to_contain_text("Broker 3 follower throttle: 1.00 MB/s, where no rate was set")
            expect(marks).to_contain_text(re.compile("throttle, follower.* MB/s.* MB/s.*removed"))
            assert seats[0].axe() == []


@pytest.mark.campaign
@pytest.mark.timeout(1200)
def test_views_tell_an_idle_week_a_storm_a_recovery_and_a_fail_over(browser: Browser) -> None:
    replicas = {p: [1 + (p + i) % 3 for i in range(3)] for p in range(PARTITIONS)}
    with Lab(LabSpec(brokers=len(BROKERS))) as lab, ClusterClient(lab.kafka_settings(), "test") as client:
        ensure_topics(client, TOPICS)
        fill_week(lab)
        make_topic(lab, "orders", replicas, MEGABYTES)
        with (
            ProducerLoad(lab.artifacts, lab.bootstrap_servers, "orders", rate_bytes_per_s=200_000, record_bytes=10_000),
            running(lab, **SETTINGS) as parts,
        ):
            parts.until("rheostat is ready", lambda: (s := parts.status()) and s["ready"], 420)
            with seats_at(browser, parts.port) as (address, seats):
                for seat in seats:
                    check_views(
                        seat, address, {"/": "Nothing is moving.", "/controller": "Partitions created and deleted"}
                    )
                    check_days(seat.page, address)
                    assert seat.axe() == []
                with storm(lab, LOUD):
                    parts.until("the storm", lambda: answer_of(parts.port, "/api/v1/mutations")["storm"], 150)
                    for seat in seats:
                        check_views(seat, address, {"/": "overload the controller", "/controller": "Storm since"})
                parts.until("it is over", lambda: answer_of(parts.port, "/api/v1/mutations")["storm"] is None, 180)
                return_with_empty_disk(lab, parts, client, 3)
                parts.until("it recovers", lambda: parts.decided("recovery_throttled"), 120)
                for seat in seats:
                    check_views(seat, address, {"/": "Broker 3 recovers", "/brokers": "Broker 3"})
                assert not is_in_sync(client, "orders"), "it was in sync before the views were looked at"
                parts.until("it is in sync", lambda: is_in_sync(client, "orders"), 300)
                parts.until("nothing is left", lambda: has_nothing_left(client), 90)
            fail_over(parts, browser, lab)
