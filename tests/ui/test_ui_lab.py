"""The page with rheostat on a real cluster: a stalled move, a pause, its rescue and its end."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from kafka.admin import NewTopic
from playwright.sync_api import Browser, Error, Page, expect
from ui_kit import OPERATE_TOKEN, Seat, check_views

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.load import ProducerLoad
from rheostat.lab.node import free_ports
from rheostat.lab.tools import reassign_partitions
from rheostat.run.supervisor import Supervisor, children_for
from streaming.shared.kafka.cluster import ClusterClient

THROTTLE = 4_500_000


def until(what: str, probe: Callable[[], bool], supervisor: Supervisor, limit_s: float) -> None:
    deadline_s = time.monotonic() + limit_s
    while not probe():
        supervisor.check()
        assert time.monotonic() < deadline_s, what
        time.sleep(0.3)  # Between two looks at what is waited for.


def _look_at_the_history(page: Page, port: int, supervisor: Supervisor) -> None:
    """Checks that the history of the broker, after a restart of all processes, has what the earlier tuner did."""

    def has_begun() -> bool:
        try:
            page.goto(f"http://127.0.0.1:{port}/brokers/1?last=1h")
            expect(page.locator("#history-marks")).to_contain_text("fail-over", timeout=8_000)
        except (Error, AssertionError):
            return False  # Nothing listens on the port yet, or the new tuner waits for its lease.
        return True

    until("the new tuner is in the journal, and the page shows it", has_begun, supervisor, 240)
    marks = page.locator("#history-marks")
    expect(marks).to_contain_text("is paused, by order of operate token", timeout=30_000)
    expect(marks).to_contain_text("the move onto broker 3 has stalled")
    rates = page.evaluate("brokerHistory.answer().throttles.leader.bytes_per_s")
    assert rates[0] == THROTTLE
    assert max(rate for rate in rates if rate is not None) > THROTTLE
    assert rates[-1] is None
    marks.get_by_role("listitem").filter(has_text="has stalled").get_by_role("link").first.click()
    expect(page.locator("#decision")).to_contain_text("Values that would change this decision", timeout=30_000)
    expect(page.locator("#decision")).to_contain_text("The rate at which the backlog of the move onto broker 3 shrinks")


@pytest.mark.campaign
@pytest.mark.timeout(1800)
def test_operator_watches_a_real_rescue_and_pauses_it(browser: Browser) -> None:
    port = free_ports(1)[0]
    with Lab(LabSpec(brokers=3)) as lab, ClusterClient(lab.kafka_settings(), "test") as client:
        with lab.admin() as admin:
            layout = {p: [1, 2] for p in range(4)}
            admin.create_topics(
                [NewTopic("orders", num_partitions=-1, replication_factor=-1, replica_assignments=layout)]
            )
        with ProducerLoad(
            lab.artifacts,
            lab.bootstrap_servers,
            "orders",
            rate_bytes_per_s=None,
            record_bytes=100_000,
            total_bytes=150_000_000,
        ) as load:
            load.wait(300)
        config = lab.home / "rheostat.yaml"
        http = {"port": port, "operate_token": OPERATE_TOKEN}
        config.write_text(lab_config(lab, http=http))
        with ProducerLoad(
            lab.artifacts, lab.bootstrap_servers, "orders", rate_bytes_per_s=3_000_000, record_bytes=10_000
        ):
            target = {("orders", p): [1, 3] for p in range(4)}
            reassign_partitions(lab.artifacts, lab.bootstrap_servers, target, "--execute", "--throttle", str(THROTTLE))
            log = lab.home / "logs" / "rheostat.log"
            supervisor = Supervisor(children_for(config, dry_run=False), log_to=log)
            try:
                supervisor.check()
                seat: Seat | None = None

                def opened() -> bool:
                    nonlocal seat
                    try:
                        seat = Seat(browser, f"http://127.0.0.1:{port}")
                    except Exception:  # noqa: BLE001 - whatever a browser says of a port where nobody listens yet
                        return False
                    return True

                until("the page is served", opened, supervisor, 180)
                assert seat is not None
                page = seat.page
                page.get_by_role("textbox", name="Token").fill(OPERATE_TOKEN)
                page.get_by_role("button", name="Use token").click()
                headline = page.locator("#headline")

                def shows(text: str) -> Callable[[], bool]:
                    return lambda: text in (page.locator("#main").text_content() or "")

                until("it moves", shows("4 partitions are moving onto broker 3"), supervisor, 420)
                watch = [
                    sys.executable,
                    "-m",
                    "rheostat",
                    "status",
                    "--watch",
                    "--duration",
                    "3",
                    "--config",
                    str(config),
                ]
                told = subprocess.run(watch, capture_output=True, text=True, timeout=60, check=True).stdout
                assert "lab: 4 partitions are moving onto broker 3" in told
                assert "onto broker 3" in told
                page.get_by_role("button", name="Pause…").click()
                page.get_by_role("dialog").get_by_role("button", name="Pause", exact=True).click()
                expect(page.locator("#said")).to_have_text("Pause: acknowledged.", timeout=30_000)
                expect(page.locator("#now")).to_contain_text("Paused by operate token over HTTP from 127.0.0.1")
                page.get_by_role("button", name="Resume…").click()
                page.get_by_role("dialog").get_by_role("button", name="Resume", exact=True).click()
                expect(page.locator("#said")).to_have_text("Resume: acknowledged.", timeout=30_000)
                until("the stall is found and answered", shows("stalled_below_steady_state"), supervisor, 300)
                check_views(seat, f"http://127.0.0.1:{port}", {"/": "stalled_below_steady_state"})
                page.goto(f"http://127.0.0.1:{port}/brokers?find=1")
                expect(page.locator("#chart-1-leader canvas")).to_be_visible()
                box = page.locator("#chart-1-leader .u-over").bounding_box()
                assert box is not None
                page.locator("#chart-1-leader .u-over").click(position={"x": box["width"] - 2, "y": 20})
                expect(page.locator("#decision")).to_contain_text(re.compile("[Bb]roker 1,? leader"))
                assert seat.axe() == []
                page.goto(f"http://127.0.0.1:{port}/")
                until("the move ends", lambda: not client.reassignments(), supervisor, 300)
                until("the page says so", lambda: headline.text_content() == "Nothing is moving.", supervisor, 30)
                until("and that all is taken back", shows("move_ended"), supervisor, 60)
                assert [said for said in seat.wrong if "401" not in said] == []
                assert OPERATE_TOKEN not in log.read_text(errors="replace")
                supervisor.stop()
                supervisor = Supervisor(children_for(config, dry_run=False), log_to=log)
                _look_at_the_history(page, port, supervisor)
                assert seat.axe() == []
                seat.close()
            finally:
                supervisor.stop()
