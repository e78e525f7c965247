"""Measures the status page (first view, updates), the API, and their effect on the tuner's cycles.

The tuner is the production controller of a large cluster in its own process (benchmarks/pages/large.py). Requests to all read
routes go over kept-alive connections, one every 20 ms whether or not the previous one was answered; latency counts from the due
time. /metrics is scraped every five seconds.

Cycles are timed in adjacent pairs, one with and one without load, in alternating order: the speed of a machine may double from one
second to the next, so only neighbours are compared, and the result is the median of their ratios. The events and updates of a
browser are part of the load. As many pairs are timed as there is time for, at most ``--rounds``.

The first view and the update are those of the slowest and the largest view of the page.

Bounds, at 1,000 brokers: first view within 0.5 s on this machine, an update of at most 50 KB, p99 of 50 ms at 50 requests/s, and a
cycle at most a tenth longer.
"""

from __future__ import annotations

import argparse
import http.client
import json
import shutil
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.pages.child import Child, TooLong
from benchmarks.pages.load import Load
from tuner.api.page_shells import VIEWS

if TYPE_CHECKING:
    from playwright.sync_api import Browser

BROKERS = 1_000
REQUESTS_PER_S = 50.0
VIEW_MS_MAX, UPDATE_KB_MAX, P99_MS_MAX, CYCLE_RATIO_MAX = 500.0, 50.0, 50.0, 1.10
_VIEWS = 5
_OPENING = 3
ROUNDS_MIN = 3
# By view: the elements that have to be visible.
SHOWN = {
    "/": ("#headline", "#decisions li"),
    "/brokers": ("#brokers canvas",),
}


def update_kb(port: int, brokers: list[int]) -> float:
    """Returns the size of everything that the largest view loads after a cycle, headers included; the events are a few bytes."""
    newest_ms = _json(port, f"/api/v1/history?broker={brokers[0]}")["times_ms"]
    since_ms = newest_ms[-2] if len(newest_ms) > 1 else 0
    charts = f"/api/v1/history?since_ms={since_ms}&" + "&".join(f"broker={broker}" for broker in brokers)
    status = _length(port, "/api/v1/status")
    by_view = {view.address: status + sum(_length(port, f"/page/{part}") for part in view.parts) for view in VIEWS}
    by_view["/brokers"] += _length(port, charts)
    past = f"/brokers/{brokers[0]}"
    by_view[past] = status + _length(port, f"/api/v1{past}/history") + _length(port, f"/page/broker/{brokers[0]}")
    return max(by_view.values()) / 1000


def first_view_ms(port: int, ends_at_s: float) -> list[float] | None:
    """Returns the times until the slower of two views is visible in a browser with an empty cache; None: there is no browser.

    The views are Now with the headline and the decisions, and Brokers with the charts.

    Raises:
        TooLong: they are not visible at ``ends_at_s``, by time.monotonic().
    """
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        return None
    from playwright.sync_api import TimeoutError as NotThere
    from playwright.sync_api import sync_playwright

    found = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"])
        for _ in range(_VIEWS + 1):
            try:
                found.append(max(_shown_ms(browser, port, address, ends_at_s) for address in SHOWN))
            except NotThere as error:
                raise TooLong(f"the page is not shown: {error}") from error
        browser.close()
    return found[1:]  # The first one is the browser's own beginning.


def _shown_ms(browser: Browser, port: int, address: str, ends_at_s: float) -> float:
    """Returns the time until one view is visible."""
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(max(1.0, 1000 * (ends_at_s - time.monotonic())))
    began_s = time.perf_counter()
    page.goto(f"http://127.0.0.1:{port}{address}", wait_until="commit")
    for part in SHOWN[address]:
        page.wait_for_selector(part)
    took_ms = 1000 * (time.perf_counter() - began_s)
    context.close()
    return took_ms


def measure(brokers: int, rounds: int, seconds: float) -> dict[str, Any]:
    """Returns all figures.

    Args:
        rounds: maximum number of pairs of cycles.

    Raises:
        TooLong: ``seconds`` do not suffice for ``ROUNDS_MIN`` pairs.
    """
    ends_at_s = time.monotonic() + seconds
    child = Child(brokers, ends_at_s)
    try:
        child.cycles(_OPENING, paced=False)
        shown = [row["broker"] for row in _json(child.port, "/api/v1/brokers?limit=12")["brokers"]]
        views = first_view_ms(child.port, ends_at_s)
        update = update_kb(child.port, shown)
        asked = Asked()
        pairs: list[Pair] = []
        took_s = 0.0
        while len(pairs) < rounds and (
            len(pairs) < min(ROUNDS_MIN, rounds) or time.monotonic() + 2 * took_s < ends_at_s
        ):
            began_s = time.monotonic()
            pairs.append(_pair(child, asked, watched_first=len(pairs) % 2 == 1))
            took_s = time.monotonic() - began_s
    finally:
        child.end()
    spent = sorted(took for _, took in asked.times_ms)
    return {
        "brokers": brokers,
        "first_view_ms": None if views is None else round(statistics.median(views)),
        "update_kb": round(update, 1),
        "requests": len(spent),
        "refused": asked.refused,
        "p50_ms": round(spent[len(spent) // 2], 1),
        "p99_ms": round(spent[int(0.99 * len(spent))], 1),
        "scrape_ms": round(statistics.median(asked.scrapes_ms), 1),
        "request_cpu_ms": round(asked.answering_ms / len(spent), 2),
        **cycle_figures(pairs),
        "slowest": dict(_slowest(asked.times_ms)),
    }


@dataclass(slots=True)
class Asked:
    """The results of all requests."""

    times_ms: list[tuple[str, float]] = field(default_factory=list)
    scrapes_ms: list[float] = field(default_factory=list)
    refused: int = 0
    answering_ms: float = 0.0  # CPU of all threads but the loop's.


class Pair(NamedTuple):
    """Two adjacent cycles: the time of each by the clock, and the CPU time of its thread, in ms."""

    alone: dict[str, float]
    watched: dict[str, float]

    def ratio(self, of: str) -> float:
        return self.watched[of] / self.alone[of]


def _pair(child: Child, asked: Asked, *, watched_first: bool) -> Pair:
    alone = None if watched_first else child.cycles(1)
    with Load(child.port, REQUESTS_PER_S) as load:
        told = child.cycles(1)
    asked.times_ms += load.times_ms
    asked.scrapes_ms += load.scrapes_ms
    asked.refused += load.refused
    asked.answering_ms += told["others_cpu_ms"]
    alone = alone or child.cycles(1)
    return Pair(alone["cycles"][0], told["cycles"][0])


def cycle_figures(pairs: Sequence[Pair]) -> dict[str, Any]:
    """Returns medians; a ratio is the median of the ratios of neighbours."""
    ratios = sorted(pair.ratio("wall_ms") for pair in pairs)
    return {
        "pairs": len(pairs),
        "cycle_ms": round(statistics.median(pair.alone["wall_ms"] for pair in pairs), 1),
        "cycle_watched_ms": round(statistics.median(pair.watched["wall_ms"] for pair in pairs), 1),
        "cycle_ratio": round(statistics.median(ratios), 3),
        "cycle_ratio_quartiles": [round(ratios[len(ratios) // 4], 3), round(ratios[(3 * len(ratios)) // 4], 3)],
        "cycle_cpu_ms": round(statistics.median(pair.alone["cpu_ms"] for pair in pairs), 1),
        "cycle_cpu_ratio": round(statistics.median(pair.ratio("cpu_ms") for pair in pairs), 3),
    }


def verdicts(found: dict[str, Any]) -> list[tuple[str, str, float | None, float]]:
    """Returns name, unit, figure and bound; the figure is None if it could not be measured."""
    return [
        ("first view", "ms", found["first_view_ms"], VIEW_MS_MAX),
        ("update", "KB", found["update_kb"], UPDATE_KB_MAX),
        ("API p99", "ms", found["p99_ms"], P99_MS_MAX),
        ("cycle, watched ÷ alone", "", found["cycle_ratio"], CYCLE_RATIO_MAX),
    ]


def _slowest(times_ms: list[tuple[str, float]]) -> Iterator[tuple[str, float]]:
    """Yields the p99 of each path, the slowest first."""
    by_path: dict[str, list[float]] = {}
    for path, took in times_ms:
        by_path.setdefault(path, []).append(took)
    ranked = sorted(((sorted(all_)[int(0.99 * len(all_))], path) for path, all_ in by_path.items()), reverse=True)
    yield from ((path, round(took, 1)) for took, path in ranked[:5])


def _json(port: int, path: str) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path)
    found = json.loads(connection.getresponse().read())
    connection.close()
    return found


def _length(port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path)
    answer = connection.getresponse()
    length = len(answer.read()) + sum(len(name) + len(value) + 4 for name, value in answer.getheaders())
    connection.close()
    return length


def main(arguments: list[str]) -> int:
    """Returns the exit code: 1 if a bound is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout, nothing else there")
    parser.add_argument("--brokers", type=int, default=BROKERS)
    parser.add_argument(
        "--rounds", type=int, default=10, help="pairs of cycles at most, one alone and one watched; ten seconds each"
    )
    parser.add_argument(
        "--seconds", type=float, default=140.0, help="so long at most; fewer pairs where that is too short"
    )
    given = parser.parse_args(arguments)
    try:
        found = measure(given.brokers, given.rounds, given.seconds)
    except TooLong as error:
        print(f"benchmarks.page: not done after {given.seconds:g} s: {error}", file=sys.stderr)
        return 1
    rows = verdicts(found)
    well = all(figure is None or figure <= bound for _, _, figure, bound in rows) and not found["refused"]
    if given.json:
        print(json.dumps({"benchmark": "page", **found, "well": well}))
        return 0 if well else 1
    print(
        f"the page and the API at {found['brokers']:,} brokers, {REQUESTS_PER_S:g} requests/s, {found['requests']} requests"
    )
    for name, unit, figure, bound in rows:
        shown = (
            "not measured: no Chromium" if figure is None else f"{figure:g} {unit} ({figure / bound:.0%} of the bound)"
        )
        print(f"  {name:24} {shown:44} bound {bound:g} {unit}")
    low, high = found["cycle_ratio_quartiles"]
    print(
        f"  a cycle with its seconds of the law: {found['cycle_ms']:g} ms alone, {found['cycle_watched_ms']:g} watched; its CPU "
        f"{found['cycle_cpu_ms']:g} ms"
    )
    print(
        f"  of {found['pairs']} pairs half are between {low:g} and {high:g}; by CPU, watched ÷ alone {found['cycle_cpu_ratio']:g}"
    )
    print(
        f"  p50 {found['p50_ms']:g} ms; a scrape of /metrics beside it {found['scrape_ms']:g} ms; slowest by p99: "
        + ", ".join(f"{path} {ms:g} ms" for path, ms in found["slowest"].items())
    )
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
