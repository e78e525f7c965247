"""The page's files: vendored files match their list, nothing is loaded from other hosts, and the parts show the cycle."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from api_rig import READ_TOKEN, WELL, Rig, entry, many_brokers
from metrics_rig import replication_signal
from tuner_cases import NOW_MS, TARGET, live, move_signal

import tuner.api
from streaming.shared.contract import Side
from tuner.api import page_texts
from tuner.api.page_routes import html_with_code
from tuner.api.page_shells import VIEWS
from tuner.api.status_store import STANDBY_REASON
from tuner.control.mutation_quota.decision import QuotaReason, TenantShare
from tuner.control.mutation_quota.entity import Tenant
from tuner.control.mutation_quota.model import QuotaView
from tuner.control.mutation_quota.policy import QuotaStep
from tuner.control.mutation_quota.state import MutationMemory
from tuner.control.throttle.state import Memory
from tuner.core.cluster import ClusterUnreadable, Observation
from tuner.core.controller import ControllerObjective
from tuner.core.operator_orders import Orders, Pause
from tuner.core.throttle_limits import MB

PAGE = Path(tuner.api.__file__).parent / "page"
STATIC = PAGE / "static"
SHELL = "".join(path.read_text(encoding="utf-8") for path in (PAGE / "templates").glob("*.html"))
PARTS = ["now", "idle", "moves", "plans", "brokers", "replication", "decisions", "decision/7", "controller", "tenants"]


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    made.cycle()
    return made


def test_vendored_files_have_version_and_licence() -> None:
    vendored = {path.name for path in (STATIC / "vendor").glob("*.min.*")}
    assert vendored == {"htmx-2.0.11.min.js", "uplot-1.6.32.iife.min.js", "uplot-1.6.32.min.css"}
    said = (STATIC / "vendor" / "README.md").read_text(encoding="utf-8")
    for name in vendored:
        assert f"/static/vendor/{name}" in SHELL
        assert f"`{name}`" in said
    assert 'version:"2.0.11"' in (STATIC / "vendor" / "htmx-2.0.11.min.js").read_text(encoding="utf-8")
    assert "1.6.32" in (STATIC / "vendor" / "uplot-1.6.32.iife.min.js").read_text(encoding="utf-8")[:400]
    assert "Zero-Clause BSD" in (STATIC / "vendor" / "htmx-LICENSE.txt").read_text(encoding="utf-8")
    assert "MIT License" in (STATIC / "vendor" / "uplot-LICENSE.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("address", [*(view.address for view in VIEWS), "/decisions/7"])
def test_every_link_of_a_view_is_served_locally(rig: Rig, address: str) -> None:
    shell = rig.get(address, None)
    assert shell.status_code == 200
    asked = re.findall(r'(?:src|href)="([^"#]+)"', shell.text)
    files = [path for path in asked if path.startswith("/static/")]
    assert len(files) >= 6
    for path in files:
        answer = rig.get(path, None)
        assert answer.status_code == 200, path
        assert answer.headers["cache-control"] == "public, max-age=86400"
        assert answer.content
    assert set(asked) - set(files) == {"/runbook", *(view.address for view in VIEWS)}
    assert rig.get("/runbook", None).status_code == 200


def test_shell_links_the_api_description_only_without_tokens(rig: Rig) -> None:
    """A browser that follows a link sends no token, so the link would lead to a 401."""
    link = '<a href="/api/v1/openapi.json">'
    open_rig = Rig(tokens=False)
    assert link in open_rig.get("/", None).text
    assert open_rig.get("/api/v1/openapi.json", None).status_code == 200
    shell = rig.get("/", None).text
    assert link not in shell
    assert "API description: <code>/api/v1/openapi.json</code>, with the token" in shell
    assert rig.get("/api/v1/openapi.json", None).status_code == 401
    assert rig.get("/api/v1/openapi.json").status_code == 200


def test_page_has_no_inline_script_or_style() -> None:
    for path in (PAGE / "templates").glob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"<script(?![^>]*\bsrc=)", text), path
        assert not re.search(r"\bstyle=|\bon[a-z]+=|<style|javascript:|\|\s*safe\b", text), path
    for path in STATIC.glob("*.js"):
        text = path.read_text(encoding="utf-8")
        assert "innerHTML" not in text, path
        assert "https://" not in text, path


def test_shell_without_token_has_no_cluster_data(rig: Rig) -> None:
    assert "lab" not in re.sub(r"label|available", "", rig.get("/", None).text)


@pytest.mark.parametrize(
    "path", ["/static/../server.py", "/static/%2e%2e/shapes.py", "/static/vendor", "/static/nothing.js"]
)
def test_only_static_files_are_served(rig: Rig, path: str) -> None:
    assert rig.get(path, None).status_code == 404


@pytest.mark.parametrize("part", PARTS)
def test_page_part_needs_a_token(rig: Rig, part: str) -> None:
    assert rig.get(f"/page/{part}", None).status_code == 401
    assert rig.get(f"/page/{part}", READ_TOKEN).status_code == 200


@pytest.mark.parametrize("part", PARTS)
def test_page_part_answers_before_first_cycle_and_on_standby(part: str) -> None:
    rig = Rig()
    assert rig.get(f"/page/{part}").status_code == 200
    rig.cycle()
    rig.board.become_standby()
    assert rig.get(f"/page/{part}").status_code == 200


def test_page_of_thousand_brokers_has_twelve_cards_and_small_updates(rig: Rig) -> None:
    cluster, seen = many_brokers(1000)
    rig.cycle(cluster=cluster, **seen)
    cards = rig.get("/page/brokers").text
    assert cards.count("<article") == 12
    assert "1 to 12 of 1000, the busiest first." in cards
    assert "997 to 1000 of 1000" in rig.get("/page/brokers?offset=5000").text
    sizes = [len(rig.get(f"/page/{part}").content) for part in PARTS]
    charts = rig.get(f"/api/v1/history?since_ms={NOW_MS - 1}&" + "&".join(f"broker={b}" for b in range(1, 13)))
    assert sum(sizes) + len(charts.content) + len(rig.get("/api/v1/status").content) <= 100_000


def test_parts_find_plans_and_tenants_by_any_part_of_their_name(rig: Rig) -> None:
    name = "<b>\u202e利用者" + "ß" * 240
    shares = tuple(
        TenantShare(Tenant(user), 5.0, True, 2.0, 2.0, QuotaReason.FAIR_SHARE, None) for user in ("reports", name)
    )
    step = QuotaStep(MutationMemory(), (), shares)
    rig.quotas.publish(QuotaView(NOW_MS, {}), step, MutationMemory())
    found = rig.get(f"/page/tenants?find={quote('利用')}").text
    assert found.count("<tr") == 2
    assert f'href="/controller?find={quote(name)}"' in found
    assert "reports" not in found
    assert "No tenant has a user or client-id with “nothing”." in rig.get("/page/tenants?find=nothing").text
    assert rig.get(f"/page/tenants?find={'x' * 513}").status_code == 422
    assert "No active plan has a name with “&lt;b&gt;”." in rig.get("/page/plans?find=%3Cb%3E").text


@pytest.mark.parametrize(
    "query", ["brokers?find=x", "brokers?find=12345678901", "brokers?offset=-1", "decisions?broker=1x"]
)
def test_invalid_page_parameter_is_refused(rig: Rig, query: str) -> None:
    assert rig.get(f"/page/{query}").status_code == 422


@pytest.mark.parametrize(
    ("by_default", "hint"),
    [(True, "write dry_run: false under tuner:"), (False, "set tuner.dry_run: false, leave out --dry-run")],
)
def test_page_in_a_dry_run_says_how_to_act(by_default: bool, hint: str) -> None:
    rig = Rig(dry_run=True, dry_run_by_default=by_default)
    rig.cycle()
    assert hint in rig.get("/page/now").text
    assert rig.get("/api/v1/status").json()["dry_run_by_default"] is by_default
    assert rig.get("/status").json()["dry_run_by_default"] is by_default


def mode_on_page(rig: Rig) -> str:
    """Returns the text of the mode line without its markup."""
    found = re.search(r'<p class="mode[^>]*>(.*?)</p>', rig.get("/page/now").text)
    assert found is not None
    return re.sub(r"<[^>]+>", "", found[1])


def test_mode_line_names_rescue_and_steering(rig: Rig) -> None:
    assert mode_on_page(rig) == (
        "Rescue. The tuner raises the throttle of a stalled move, up to 50.0 MB/s, and throttles only its own plans, because no "
        "latency objective is set."
    )
    rig.board.limits = replace(rig.board.limits, closed_loop=True)
    rig.cycle()
    assert mode_on_page(rig) == (
        "Steering. The tuner adjusts throttles every second, up to 50.0 MB/s, to keep the produce latency within 30 ms."
    )
    assert 'class="mode warn"' not in rig.get("/page/now").text


def test_mode_line_of_pause_or_release_says_nothing_changes(rig: Rig) -> None:
    rig.cycle(orders=Orders(5, Pause(NOW_MS, "kim")))
    assert mode_on_page(rig) == "Paused. The tuner changes nothing until an operator resumes it."
    rig.cycle(orders=Orders(6, Pause(NOW_MS, "kim", released=True)))
    assert mode_on_page(rig).startswith("Released. The tuner restores the settings that it manages, and then changes")


def test_page_of_a_tuner_that_cannot_act_says_why(rig: Rig) -> None:
    rig.board.become_standby()
    assert mode_on_page(rig).startswith("Standby. This tuner changes nothing, because another tuner")
    now = rig.get("/page/now").text
    assert STANDBY_REASON not in now.lower()
    assert "headline" not in now
    rig.board.become_standby("the journal topic is missing")
    rig.clock.now_s += 1.0
    assert mode_on_page(rig).startswith("Starting. This tuner cannot act yet")
    assert "The journal topic is missing." in rig.get("/page/now").text


def test_paused_dry_run_has_the_mode_dry_run() -> None:
    rig = Rig(dry_run=True)
    rig.cycle(orders=Orders(5, Pause(NOW_MS, "kim")))
    assert mode_on_page(rig).startswith("Dry run. The tuner decides, but changes nothing")
    assert ">paused</span>" in rig.get("/page/now").text


@pytest.mark.parametrize("part", ["moves", "plans", "brokers", "replication", "controller", "tenants"])
def test_empty_part_says_what_the_tuner_waits_for(part: str) -> None:
    rig = Rig()
    rig.quotas.objective = ControllerObjective()
    assert "The tuner waits for the end of its first cycle" in rig.get(f"/page/{part}").text
    rig.observers.record_cycle(Observation(NOW_MS, ClusterUnreadable("away")), Memory(), ())
    assert (
        "The tuner waits until the cluster can be read. <code>rheostat doctor</code>" in rig.get(f"/page/{part}").text
    )
    rig.board.become_standby()
    assert "This tuner is not active." in rig.get(f"/page/{part}").text


def test_moves_without_signals_say_that_the_tuner_waits_for_one(rig: Rig) -> None:
    rig.cycle(memory=Memory(), signals=[], brokers=[])
    assert "1 partition moves, and the tuner waits for a signal about the progress." in rig.get("/page/moves").text
    rig.cycle(cluster=live(moves=()), memory=Memory())
    assert "No partition moves. The tuner waits for a reassignment" in rig.get("/page/moves").text


def test_replication_part_without_lag_says_why_it_is_empty(rig: Rig) -> None:
    assert "has no signal about replication lag" in rig.get("/page/replication").text
    in_step = [replace(replication_signal(b, NOW_MS), lag_sum_messages=0.0) for b in (3, 4)]
    rig.cycle(replication=in_step)
    assert "No replica lags. Each of the 2 brokers that report their lag" in rig.get("/page/replication").text


def test_replication_part_shows_lagging_followers_first(rig: Rig) -> None:
    slow = replace(replication_signal(4, NOW_MS), lag_sum_messages=70_000.0, trend=None)
    rig.cycle(replication=[replication_signal(3, NOW_MS), slow])
    text = " ".join(re.sub("<[^>]+>", " ", rig.get("/page/replication").text).split())
    assert text.index("4 70,000") < text.index("3 5,000 24 s +120 messages/s, fit 97 % +15 messages/s, fit 80 %")
    assert "0 from broker 1: 5,000 messages, copies 12.0 MB/s orders-7: 4,800 messages" in text
    found = rig.get("/api/v1/replication?limit=1").json()
    assert (found["total"], found["next_offset"], found["followers"][0]["broker"]) == (2, 1, 4)
    assert found["followers"][0]["threads"][0]["fetched_bytes_per_s"] == 12_000_000
    assert found["followers"][0]["trend_5min"]["slope_messages_per_s"] == 15


def test_tenants_part_says_why_it_is_empty(rig: Rig) -> None:
    assert "because <code>tuner.mutation_quota</code> is not set" in rig.get("/page/tenants").text
    rig.quotas.objective = ControllerObjective()
    rig.cycle()
    assert "waits for the first cycle of the mutation quota controller" in rig.get("/page/tenants").text
    rig.quotas.cycle_failed()
    assert "is suspended after an error" in rig.get("/page/tenants").text


def test_page_with_several_moves_shows_the_end_of_each(rig: Rig) -> None:
    slow = move_signal(*TARGET, slope=-2 * MB)
    rig.cycle(memory=Memory(), signals=[slow])
    assert "done in about" in rig.get("/page/now").text
    assert "ends in" not in rig.get("/page/moves").text
    rig.cycle(memory=Memory(), signals=[slow, move_signal(4, Side.FOLLOWER, slope=-1 * MB)])
    assert "ends in" in rig.get("/page/moves").text


@pytest.mark.parametrize(
    ("kind", "action", "reason", "meaning"),
    [
        ("decision", "hold", "progressing", "there is no objective, and the move makes progress"),
        ("decision", "hold", "paused", "an operator ordered a pause"),
        (
            "decision",
            "hold_quota",
            "preserved",
            "the quota was set before rheostat managed quotas, and `tuner.mutation_quota.existing_quotas` is `preserve`",
        ),
        (
            "quotas",
            "set_quota",
            "fair_share",
            "the tenant needs more than its share of the total rate; the share follows from the tenant's weight",
        ),
        (
            "decision",
            "total",
            "at_minimum",
            "the controller exceeds its objective or nearly exceeds it, but the total rate is already at its minimum",
        ),
        ("concurrency", "concurrency", "initial", "the side has just begun to copy"),
        ("steps", "reassign", "replicas", "the replicas of the partition differ from the plan's target"),
        (
            "step-outcomes",
            "reassign",
            "not_accepted",
            "the controller refused steps, or gave no answer about them",
        ),
    ],
)
def test_reason_meaning_comes_from_the_catalogue_of_its_controller(
    kind: str, action: str, reason: str, meaning: str | None
) -> None:
    assert page_texts.reason_meaning(kind, action, reason) == meaning


def test_decision_has_its_reason_in_words_and_as_code(rig: Rig) -> None:
    rig.observers.decisions.add([entry("decision", WELL)])
    page = rig.get("/page/decisions").text
    assert 'There is no objective, and the move makes progress. <code class="code">progressing</code>' in page
    assert '<code class="code">progressing</code>' in rig.get("/page/brokers").text


def test_names_of_runbook_sections_become_links() -> None:
    text = html_with_code("see SignalsStale in the runbook, `SignalsStale in the runbook`, <b> in the runbook")
    assert text == (
        'see <a href="/runbook#signalsstale">SignalsStale</a> in the runbook, <code>SignalsStale in the runbook</code>, '
        "&lt;b&gt; in the runbook"
    )
