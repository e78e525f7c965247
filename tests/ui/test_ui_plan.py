"""The page during a plan of `rheostat reassign` on a real cluster, from its first to its last step, with screenshots."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import NewTopic
from playwright.sync_api import Browser, expect
from ui_kit import OPERATE_TOKEN, Seat, check_views, take_picture

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.load import ProducerLoad
from rheostat.lab.node import free_ports
from rheostat.run.supervisor import Supervisor, children_for

RHEOSTAT = [sys.executable, "-m", "rheostat"]
PARTITIONS, MEGABYTES = 12, 120
# Some eighty seconds, so that there is something to see.
CEILING_BYTES_PER_S = 1_500_000
STEERED = {
    "rate_bytes_per_s_max": CEILING_BYTES_PER_S,
    "rate_bytes_per_s_min": 300_000,
    "objective": {"latency_ms": 2_000},  # On few and shared cores latency says more about the machine than about moves.
    "capacity": {"in_bytes_per_s": 60_000_000, "out_bytes_per_s": 60_000_000},
}
# The view Now: wide ones down to the decisions, a phone's down to the moves.
SEATS = {
    "page-wide-light": (1280, 1000, False), "page-wide-dark": (1280, 1000, True),
    "page-phone-light": (390, 1300, False), "page-phone-dark": (390, 1300, True),
}  # fmt: skip


class Parts:
    """rheostat beside a lab, as a user starts it."""

    def __init__(self, lab: Lab) -> None:
        self.config = lab.home / "rheostat.yaml"
        self.port = free_ports(1)[0]
        self.config.write_text(lab_config(lab, http={"port": self.port, "operate_token": OPERATE_TOKEN}, **STEERED))
        self.log = lab.home / "logs" / "rheostat.log"
        self.supervisor = Supervisor(children_for(self.config, dry_run=False), log_to=self.log)

    def asked(self, path: str) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", headers={"Authorization": f"Bearer {OPERATE_TOKEN}"}
        )
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                return json.loads(answer.read())
        except OSError:
            return None

    def until(self, what: str, probe: Callable[[], object], limit_s: float) -> None:
        deadline_s = time.monotonic() + limit_s
        while not probe():
            self.supervisor.check()
            if time.monotonic() > deadline_s:
                tail = self.log.read_text(errors="replace").splitlines()[-10:]
                pytest.fail("\n".join([f"not within {limit_s:.0f} s: {what}", *tail]))
            time.sleep(0.3)  # Between two looks at what is waited for.

    def plans(self) -> list[Any]:
        found = self.asked("/api/v1/plans")
        return list(found["plans"]) if found is not None else []


@contextmanager
def measured(lab: Lab) -> Iterator[Parts]:
    """Starts rheostat and waits until it has signals of its brokers."""
    parts = Parts(lab)
    try:
        parts.until("rheostat is ready", lambda: (s := parts.asked("/api/v1/status")) and s["ready"], 420)
        yield parts
    finally:
        parts.supervisor.stop()


def sat(browser: Browser, port: int, width: int, height: int, dark: bool, headline: str = "Nothing is moving.") -> Seat:
    seat = Seat(browser, f"http://127.0.0.1:{port}", width=width, height=height, dark=dark)
    seat.page.get_by_role("textbox", name="Token").fill(OPERATE_TOKEN)
    seat.page.get_by_role("button", name="Use token").click()
    expect(seat.page.locator("#headline")).to_contain_text(headline, timeout=30_000)
    return seat


@pytest.mark.campaign
@pytest.mark.timeout(1200)
def test_page_follows_a_plan_from_first_to_last_step(browser: Browser, tmp_path: Path) -> None:
    target = {p: [1, 3] if p % 2 else [3, 2] for p in range(PARTITIONS)}
    plan = tmp_path / "plan.json"
    entries = [{"topic": "orders", "partition": p, "replicas": replicas} for p, replicas in target.items()]
    plan.write_text(json.dumps({"version": 1, "partitions": entries}))
    with Lab(LabSpec(brokers=3)) as lab:
        with lab.admin() as admin:
            layout = {p: [1, 2] if p % 2 else [2, 1] for p in range(PARTITIONS)}
            admin.create_topics(
                [NewTopic("orders", num_partitions=-1, replication_factor=-1, replica_assignments=layout)]
            )
        with ProducerLoad(
            lab.artifacts, lab.bootstrap_servers, "orders", rate_bytes_per_s=None, record_bytes=100_000,
            total_bytes=MEGABYTES * 1_000_000, properties=("batch.size=800000", "linger.ms=5"),
        ) as load:  # fmt: skip
            load.wait(300)
        with (
            ProducerLoad(lab.artifacts, lab.bootstrap_servers, "orders", rate_bytes_per_s=150_000, record_bytes=5_000),
            measured(lab) as parts,
        ):
            seats = {name: sat(browser, parts.port, *how) for name, how in SEATS.items()}
            page = seats["page-wide-light"].page
            plans = sat(browser, parts.port, 1280, 1000, False)
            plans.page.get_by_role("link", name="Moves and plans").click()
            expect(plans.page.locator("#plans")).to_contain_text("No plan is active")
            given = subprocess.run(
                [*RHEOSTAT, "reassign", "start", plan, "-c", parts.config, "--measure-for", "0", "--yes", "--detach", "--partition-movements", "6"],
                capture_output=True, text=True, timeout=90, check=False,
            )  # fmt: skip
            assert f"is on record: {PARTITIONS} partitions." in given.stdout + given.stderr

            def well_under_way() -> bool:
                found = parts.plans()
                return bool(found) and (found[0]["done_ratio"] or 0) > 0.3 and found[0]["eta_s"] is not None

            parts.until("a third of it is copied, and when it ends is known", well_under_way, 180)
            shown = plans.page.locator("#plans")
            expect(page.locator("#headline")).to_contain_text("done in about", timeout=20_000)
            expect(shown).to_contain_text(f"of {PARTITIONS} partitions have arrived")
            expect(shown).to_contain_text("at most 6 at a time")
            expect(shown).to_contain_text("copies onto 3")
            expect(page.locator("#headline")).to_contain_text("moving onto broker 3", timeout=20_000)
            for name, seat in seats.items():
                expect(seat.page.locator("#decisions li").first).to_be_visible(timeout=30_000)
                assert seat.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "wider than the screen"
                take_picture(seat.page, name)
            brokers = sat(browser, parts.port, 1280, 1000, False, headline="done in about")
            brokers.page.get_by_role("link", name="Brokers", exact=True).click()
            expect(brokers.page.locator("#brokers canvas").first).to_be_visible(timeout=30_000)
            take_picture(brokers.page, "page-brokers")
            take_picture(plans.page, "page-plans")
            assert plans.axe() == []
            check_views(
                brokers,
                f"http://127.0.0.1:{parts.port}",
                {"/": "moving onto broker 3", "/moves": "at most 6 at a time"},
            )
            parts.until("the plan has ended", lambda: parts.asked("/api/v1/plans") and not parts.plans(), 240)
            expect(shown).to_contain_text("No plan is active", timeout=30_000)
            expect(page.locator("#headline")).to_have_text("Nothing is moving.", timeout=30_000)
            parts.until("all is taken back", lambda: (s := parts.asked("/api/v1/status")) and s["throttles"] == 0, 90)
            finished = plans.page.locator("#plan-history")
            expect(finished).to_contain_text(f"{PARTITIONS} of {PARTITIONS}", timeout=60_000)
            finished.get_by_role("link").first.click()
            expect(plans.page.locator("#plan")).to_contain_text("Expected at the submission")
            expect(plans.page.locator("#plan")).to_contain_text("the plan took")
            expect(plans.page.locator("#partitions tbody tr")).to_have_count(PARTITIONS)
            expect(plans.page.locator("#partitions")).not_to_contain_text("waiting")
            plans.page.set_viewport_size({"width": 1280, "height": 1300})
            take_picture(plans.page, "page-plan")
            assert plans.axe() == []
            brokers.page.goto(f"http://127.0.0.1:{parts.port}/brokers/3?last=1h")
            expect(brokers.page.locator("#history-marks li").first).to_be_visible(timeout=30_000)
            assert brokers.axe() == []
            for seat in (*seats.values(), plans, brokers):
                seat.close()
                assert [said for said in seat.wrong if "401" not in said] == []
