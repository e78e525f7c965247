"""The runbook page that the tuner serves: every link of an alert or panel leads to one of its sections."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import urldefrag, urlsplit

import pytest
import yaml
from fastapi.testclient import TestClient

from dashboards import runbook_page
from dashboards.runbook_page import PAGE, RUNBOOK_AT, SOURCE
from rheostat.config.resources import conf_file
from rheostat.config.settings import load_settings
from tuner.api.api_state import ApiState
from tuner.api.auth import ApiRole, Tokens, make_token
from tuner.api.metrics import make_registry
from tuner.api.observers import Observers
from tuner.api.quota_status_store import QuotaStatusStore
from tuner.api.server import make_app
from tuner.api.status_store import StatusStore
from tuner.core.throttle_limits import ThrottleLimits

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def served() -> TestClient:
    """A tuner that requires a token; it serves the runbook without."""
    board, quotas = (
        StatusStore("lab", ThrottleLimits(1e8), dry_run=True, wall_clock=lambda: 0.0),
        QuotaStatusStore("lab"),
    )
    tokens = Tokens((make_token("read-0123456789abcdef", "kim", ApiRole.READ),))
    app = make_app(ApiState(Observers(board), quotas), make_registry(board, quotas), 5.0, lambda: 0.0, tokens=tokens)
    return TestClient(app, base_url="http://127.0.0.1")


def links() -> set[str]:
    """Returns the links of alerts and panels with their variables replaced."""
    rules = [
        yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "dashboards/rules").glob("*.yaml"))
    ]
    every = [rule for file in rules for group in file["groups"] for rule in group["rules"]]
    found = {rule["annotations"]["runbook_url"] for rule in every if "alert" in rule}
    for path in sorted((ROOT / "dashboards").glob("*.json")):
        board = json.loads(path.read_text(encoding="utf-8"))
        (at,) = [v["query"] for v in board["templating"]["list"] if v["name"] == "runbook"]
        found |= {
            link["url"].replace("${runbook}", at) for panel in board["panels"] for link in panel.get("links") or ()
        }
    return found


LINKS = sorted(links())


def test_committed_runbook_page_is_current(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert runbook_page.main(["--check"]) == 0
    stale = tmp_path / "runbook.html"
    stale.write_text("old", encoding="utf-8")
    assert runbook_page.main(["--check"], stale) == 1
    assert capsys.readouterr().err == (
        f"{stale} is not current: run `python -m dashboards.runbook_page` and commit the result\n"
    )
    assert runbook_page.main([], stale) == 0
    assert stale.read_bytes() == PAGE.read_bytes()


def test_runbook_address_matches_the_shipped_settings() -> None:
    http = load_settings(conf_file("rheostat.yaml"), {}).tuner.http
    assert (http.host, http.tls_certfile) == ("127.0.0.1", None)
    assert f"http://localhost:{http.port}/runbook" == RUNBOOK_AT


@pytest.mark.parametrize("link", LINKS)
def test_runbook_url_leads_to_one_section(served: TestClient, link: str) -> None:
    address, section = urldefrag(link)
    answer = served.get(urlsplit(address).path, headers={"host": urlsplit(address).netloc})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert section
    assert answer.text.count(f' id="{section}"') == 1


def test_runbook_page_is_served_without_a_token(served: TestClient) -> None:
    assert served.get("/status").status_code == 401
    assert served.get("/runbook").status_code == 200


def test_runbook_urls_cover_every_alert() -> None:
    headings = re.findall(r"^## (\w+)$", SOURCE.read_text(encoding="utf-8"), re.M)
    assert {urldefrag(link)[1] for link in LINKS} == {heading.lower() for heading in headings}


def test_runbook_links_resolve(served: TestClient) -> None:
    text = served.get("/runbook").text
    hrefs = set(re.findall(r'(?:href|src)="([^"]+)"', text))
    assert len(hrefs) > 5
    for href in hrefs:
        if href.startswith("#"):
            assert f' id="{href[1:]}"' in text, href
        else:
            assert served.get(href).status_code == 200, href


def test_runbook_mentions_other_files_by_path() -> None:
    page = runbook_page.rendered(
        "# R\n\nSee [what it needs](../how-to/troubleshoot.md#x), [A](#one).\n\n## One\n\n`<b>` & <i>\n"
    )
    assert 'See what it needs (<code>docs/how-to/troubleshoot.md#x</code>), <a href="#one">A</a>.' in page
    assert '<h2 id="one">One</h2>' in page
    assert "<code>&lt;b&gt;</code> &amp; &lt;i&gt;" in page, "what looks like HTML stays text"
    for path in re.findall(r"\(<code>([^<#]+)[^<]*</code>\)", PAGE.read_text(encoding="utf-8")):
        assert "/" not in path or (ROOT / path).exists(), path
