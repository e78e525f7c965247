"""What it costs to be looked at: the page's first view and its updates, and the API beside a tuner that works.

The tuner is the production loop of a large cluster, a process of its own (benchmarks/pages/large.py). Asked is over kept-alive
connections, a request every 20 ms on time whether or not the one before was answered, over all that can be read; the
answer's time counts from when the request was due. Cycles are timed by turns, with and without all that, and a browser's
events and updates count as load, too.

Bounds, at 1,000 brokers: the first view within 1 s from this machine, an update of 100 KB at most, p99 of 50 ms at 50 requests/s,
a cycle no more than a tenth longer.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import queue
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

BROKERS = 1_000
REQUESTS_PER_S = 50.0
VIEW_MS_MAX, UPDATE_KB_MAX, P99_MS_MAX, CYCLE_RATIO_MAX = 1_000.0, 100.0, 50.0, 1.10
_CONNECTIONS = 8
_VIEWS = 5
_OPENING = 3
PATHS = (
    "/api/v1/status", "/api/v1/moves", "/api/v1/brokers?moving=true&limit=20", "/api/v1/brokers/7", "/api/v1/tenants",
    "/api/v1/decisions?limit=20", "/api/v1/moves/partitions?limit=50", "/api/v1/history?broker=7&broker=9", "/page/now",
    "/page/moves", "/page/brokers", "/page/decisions", "/readyz",
)  # fmt: skip
# What the page asks for when a cycle has ended.
UPDATE = (
    "/api/v1/status", "/page/now", "/page/moves", "/page/plans", "/page/brokers", "/page/decisions", "/page/tenants",
)  # fmt: skip


class TooLong(Exception):
    """The benchmark has had its time."""


class Child:
    """The tuner's process."""

    def __init__(self, brokers: int, ends_at_s: float) -> None:
        """
        Args:
            ends_at_s: the moment, by time.monotonic(), after which nothing is waited for any more.
        """
        self._ends_at_s = ends_at_s
        self._said: queue.SimpleQueue[str] = queue.SimpleQueue()
        command = [sys.executable, "-m", "benchmarks.pages.large", str(brokers)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self._listen, daemon=True).start()
        try:
            self.port: int = self._next("the cluster is made")["port"]
        except BaseException:
            self.end()
            raise

    def cycles(self, count: int, *, paced: bool = True) -> Any:
        """
        Args:
            paced: one every five seconds, as a tuner does; otherwise one right after the other.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(f"{count} {'paced' if paced else 'at_once'}\n")
        self._process.stdin.flush()
        return self._next(f"{count} cycles end")

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.put(line)
        self._said.put("")

    def _next(self, what: str) -> Any:
        try:
            line = self._said.get(timeout=max(0.0, self._ends_at_s - time.monotonic()))
        except queue.Empty:
            raise TooLong(
                f"still waiting until {what}: this machine is busy with something else; --seconds allows more"
            ) from None
        if not line:
            raise RuntimeError("the tuner's process has ended; its complaint is above")
        return json.loads(line)

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Load:
    """Requests at a fixed pace; ``times_ms`` is how long each took from when it was due."""

    def __init__(self, port: int, per_s: float) -> None:
        self._port = port
        self._every_s = 1 / per_s
        self._due: queue.SimpleQueue[tuple[float, str] | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self.times_ms: list[tuple[str, float]] = []
        self.refused = 0
        self._threads = [threading.Thread(target=self._ask) for _ in range(_CONNECTIONS)]
        self._pace = threading.Thread(target=self._paced)

    def __enter__(self) -> Load:
        for thread in (*self._threads, self._pace):
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._pace.join()
        for _thread in self._threads:
            self._due.put(None)
        for thread in self._threads:
            thread.join()

    def _paced(self) -> None:
        due_s = time.perf_counter()
        for path in itertools.cycle(PATHS):
            due_s += self._every_s
            time.sleep(max(0.0, due_s - time.perf_counter()))
            if self._stop.is_set():
                return
            self._due.put((due_s, path))

    def _ask(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        while (next_one := self._due.get()) is not None:
            due_s, path = next_one
            try:
                connection.request("GET", path)
                answer = connection.getresponse()
                answer.read()
                self.refused += answer.status not in (200, 503)
            except (OSError, http.client.HTTPException):
                connection.close()  # The next request opens it anew.
                self.refused += 1
            self.times_ms.append((path, 1000 * (time.perf_counter() - due_s)))
        connection.close()


def update_kb(port: int, brokers: list[int]) -> float:
    """All that a page takes in after a cycle, with headers; the events themselves are a few bytes."""
    newest_ms = _json(port, f"/api/v1/history?broker={brokers[0]}")["times_ms"]
    since_ms = newest_ms[-2] if len(newest_ms) > 1 else 0
    charts = f"/api/v1/history?since_ms={since_ms}&" + "&".join(f"broker={broker}" for broker in brokers)
    return sum(_length(port, path) for path in (*UPDATE, charts)) / 1000


def first_view_ms(port: int) -> list[float] | None:
    """Until headline, cards and charts are there, in a browser that has nothing of the page yet; None: there is none."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        return None
    from playwright.sync_api import sync_playwright

    found = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"])
        for _ in range(_VIEWS + 1):
            context = browser.new_context()
            page = context.new_page()
            began_s = time.perf_counter()
            page.goto(f"http://127.0.0.1:{port}/", wait_until="commit")
            page.wait_for_selector("#headline")
            page.wait_for_selector("#brokers canvas")
            page.wait_for_selector("#decisions li")
            found.append(1000 * (time.perf_counter() - began_s))
            context.close()
        browser.close()
    return found[1:]  # The first one is the browser's own beginning.


def measure(brokers: int, rounds: int, cycles: int, seconds: float) -> dict[str, Any]:
    """
    Raises:
        TooLong: it is not done after ``seconds``.
    """
    child = Child(brokers, time.monotonic() + seconds)
    try:
        child.cycles(_OPENING, paced=False)
        shown = [row["broker"] for row in _json(child.port, "/api/v1/brokers?limit=12")["brokers"]]
        views = first_view_ms(child.port)
        update = update_kb(child.port, shown)
        alone: list[dict[str, float]] = []
        watched: list[dict[str, float]] = []
        times_ms: list[tuple[str, float]] = []
        refused, answering_ms = 0, 0.0
        for _ in range(rounds):
            alone += child.cycles(cycles)["cycles"]
            with Load(child.port, REQUESTS_PER_S) as load:
                told = child.cycles(cycles)
            watched += told["cycles"]
            answering_ms += told["others_cpu_ms"]
            times_ms += load.times_ms
            refused += load.refused
    finally:
        child.end()
    spent = sorted(took for _, took in times_ms)
    return {
        "brokers": brokers,
        "first_view_ms": None if views is None else round(statistics.median(views)),
        "update_kb": round(update, 1),
        "requests": len(spent),
        "refused": refused,
        "p50_ms": round(spent[len(spent) // 2], 1),
        "p99_ms": round(spent[int(0.99 * len(spent))], 1),
        "request_cpu_ms": round(answering_ms / len(spent), 2),
        "cycle_ms": round(statistics.median(each["wall_ms"] for each in alone), 1),
        "cycle_watched_ms": round(statistics.median(each["wall_ms"] for each in watched), 1),
        "cycle_cpu_ms": round(statistics.median(each["cpu_ms"] for each in alone), 1),
        "cycle_watched_cpu_ms": round(statistics.median(each["cpu_ms"] for each in watched), 1),
        "slowest": dict(_slowest(times_ms)),
    }


def verdicts(found: dict[str, Any]) -> list[tuple[str, str, float | None, float]]:
    """Name, unit, figure, bound; no figure where it could not be measured."""
    return [
        ("first view", "ms", found["first_view_ms"], VIEW_MS_MAX),
        ("update", "KB", found["update_kb"], UPDATE_KB_MAX),
        ("API p99", "ms", found["p99_ms"], P99_MS_MAX),
        ("cycle, watched ÷ alone", "", round(found["cycle_watched_ms"] / found["cycle_ms"], 3), CYCLE_RATIO_MAX),
    ]


def _slowest(times_ms: list[tuple[str, float]]) -> Iterator[tuple[str, float]]:
    """The p99 of each path, the slowest first."""
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
    """Exit code 1 when a bound is broken."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout, nothing else there")
    parser.add_argument("--brokers", type=int, default=BROKERS)
    parser.add_argument("--rounds", type=int, default=3, help="alone and watched by turns, so often")
    parser.add_argument("--cycles", type=int, default=4, help="in each turn; one takes five seconds")
    parser.add_argument("--seconds", type=float, default=300.0, help="so long at most; about 150 are needed")
    given = parser.parse_args(arguments)
    try:
        found = measure(given.brokers, given.rounds, given.cycles, given.seconds)
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
    cycles = f"{found['cycle_ms']:g} ms alone, {found['cycle_watched_ms']:g} watched"
    print(
        f"  a cycle with its seconds of the law: {cycles}; its CPU {found['cycle_cpu_ms']:g} and {found['cycle_watched_cpu_ms']:g}"
    )
    print(
        f"  p50 {found['p50_ms']:g} ms; slowest by p99: {', '.join(f'{p} {ms:g} ms' for p, ms in found['slowest'].items())}"
    )
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
