"""The page's files: what is vendored is what is named, nothing comes from elsewhere, and the parts are what was seen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from api_rig import READ_TOKEN, Rig, many_brokers
from tuner_cases import NOW_MS

import tuner.api

PAGE = Path(tuner.api.__file__).parent / "page"
STATIC = PAGE / "static"
SHELL = (PAGE / "templates" / "shell.html").read_text(encoding="utf-8")
PARTS = ["now", "moves", "plans", "brokers", "decisions", "tenants"]


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


def test_every_link_of_the_shell_is_served_locally(rig: Rig) -> None:
    shell = rig.get("/", None)
    assert shell.status_code == 200
    asked = re.findall(r'(?:src|href)="([^"#]+)"', shell.text)
    assert len(asked) >= 8
    for path in asked:
        answer = rig.get(path, None)
        assert answer.status_code == 200, path
        assert answer.headers["cache-control"] == "public, max-age=86400"
        assert answer.content


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
    assert "lab" not in re.sub(r"label", "", rig.get("/", None).text)


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


def test_page_of_an_acting_tuner_has_no_banner(rig: Rig) -> None:
    assert 'class="banner"' not in rig.get("/page/now").text
