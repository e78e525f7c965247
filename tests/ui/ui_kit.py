"""Opens the page in a browser with given permissions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Error, Page, expect

from benchmarks.pages.tuner import SimulatedTuner
from tuner.api.auth import ApiRole, make_token
from tuner.api.page_shells import VIEWS

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
AXE = (Path(__file__).parent / "vendor" / "axe-4.14.1.min.js").read_text(encoding="utf-8")
READ_TOKEN = "read-0123456789abcdef"
OPERATE_TOKEN = "operate-0123456789abcdef"
WAIT_MS_MAX = 30_000  # The page itself needs less than a second; a busy machine needs more.
# Chromium breaks off what is under way when an interface of the machine comes or goes, as containers of other tests make them; the
# page asks again by itself.
_CUT_OFF = "net::ERR_NETWORK_CHANGED"
_OF_WHAT_WAS_CUT_OFF = ("htmx:afterRequest, ", "htmx:sendError, ")  # Said of the same request, after it.
TOKENS = (make_token(READ_TOKEN, "grafana", ApiRole.READ), make_token(OPERATE_TOKEN, "kim", ApiRole.OPERATE))


def take_picture(page: Page, name: str) -> None:
    """Writes a picture of the page for the documents, if `make screenshots` asks for it."""
    if os.environ.get("RHEOSTAT_SCREENSHOTS"):
        IMAGES.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=IMAGES / f"{name}.png")


class Seat:
    """One page and its errors: scripts, content policy, and requests to other hosts."""

    def __init__(
        self,
        browser: Browser,
        address: str,
        path: str = "",
        *,
        width: int = 1280,
        height: int = 900,
        dark: bool = False,
    ) -> None:
        self._context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
        )
        self.page: Page = self._context.new_page()
        self.page.set_default_timeout(WAIT_MS_MAX)
        self.wrong: list[str] = []
        self.page.on("pageerror", lambda error: self.wrong.append(f"script: {error}"))
        self._cut_off = False
        self.page.on("console", self._complains)
        self.page.on(
            "request", lambda asked: None if asked.url.startswith(address) else self.wrong.append(f"asks {asked.url}")
        )
        try:
            self.page.goto(f"{address}{path}")
        except Error as error:
            if _CUT_OFF not in error.message:
                raise
            self.page.goto(f"{address}{path}")

    def _complains(self, said: ConsoleMessage) -> None:
        if said.type != "error":
            return
        if _CUT_OFF in said.text:
            self._cut_off = True
        elif not (self._cut_off and said.text.startswith(_OF_WHAT_WAS_CUT_OFF)):
            self.wrong.append(said.text)

    def axe(self) -> list[str]:
        """Returns axe-core's serious and critical findings."""
        self.page.evaluate(AXE)
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{each['id']} ({each['impact']}): {each['nodes'][0]['html']}"
            for each in found["violations"]
            if each["impact"] in ("serious", "critical")
        ]

    def close(self) -> None:
        self._context.close()


OpenPage = Callable[..., Seat]


@contextmanager
def open_pages(browser: Browser, *expected: str) -> Iterator[OpenPage]:
    """Yields a function that opens pages of a tuner; at the end none may have had an error.

    Args:
        expected: an error with one of these texts is part of the test.
    """
    seats: list[Seat] = []

    def opened(tuner: SimulatedTuner, path: str = "", **how: Any) -> Seat:
        seats.append(Seat(browser, tuner.address, path, **how))
        return seats[-1]

    yield opened
    for seat in seats:
        seat.close()
        assert [said for said in seat.wrong if not any(text in said for text in expected)] == []


def check_views(seat: Seat, address: str, texts: Mapping[str, str]) -> None:
    """Opens each view, and checks that its parts are filled, that axe finds nothing, and that it fits the screen.

    Args:
        texts: by address of a view, a text that it has to show.
    """
    for view in VIEWS:
        seat.page.goto(f"{address}{view.address}")
        for part in view.parts:
            if part != "idle":  # Empty while anything moves.
                expect(seat.page.locator(f"#{part}")).not_to_be_empty(timeout=30_000)
        expect(seat.page.locator("#main")).to_contain_text(texts.get(view.address, ""), timeout=30_000)
        assert seat.axe() == [], view.title
        assert seat.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{view.title} is too wide"
