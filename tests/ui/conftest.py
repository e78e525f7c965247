"""A browser for the tests of the page: the system's Chromium, headless, shared by all of them."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator

import pytest
import structlog
from playwright.sync_api import Browser, expect, sync_playwright
from ui_kit import TOKENS, WAIT_MS_MAX, OpenPage, open_pages

from benchmarks.pages.tuner import SimulatedTuner
from tuner.api.auth import Tokens

expect.set_options(timeout=WAIT_MS_MAX)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.configure(**before)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Ends with each module, because it runs an event loop in the tests' own thread."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        # As root, as in a container, Chromium has no sandbox; all that it opens is this machine's own page.
        made = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield made
        made.close()


@pytest.fixture
def open_tuner() -> Iterator[SimulatedTuner]:
    """A tuner during a rescued move, without tokens, as on the same machine."""
    with SimulatedTuner("infeasible-throttle", steers=False) as tuner:
        tuner.advance(50)
        yield tuner


@pytest.fixture
def guarded_tuner() -> Iterator[SimulatedTuner]:
    """A tuner during a steered move, with tokens."""
    with SimulatedTuner("broker-add", tokens=Tokens(TOKENS)) as tuner:
        tuner.advance(240)
        yield tuner


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Opens pages; at the end none may have had an error."""
    with open_pages(browser) as opened:
        yield opened
