"""The benchmark of page and API ends in time, and reports exceeded bounds."""

from __future__ import annotations

import re
import time
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
from api_rig import Rig, entry

from benchmarks import page
from benchmarks.page import ROUNDS_MIN, Pair, cycle_figures, main, measure, verdicts
from benchmarks.pages.child import Child, TooLong
from benchmarks.pages.load import PATHS, SCRAPED, Load

WELL = {"first_view_ms": 490, "update_kb": 45.0, "p99_ms": 45.0, "cycle_ratio": 1.09}


def broken(**changes: float | None) -> list[str]:
    return [name for name, _, figure, bound in verdicts(WELL | changes) if figure is not None and figure > bound]


def test_value_beyond_a_bound_is_reported() -> None:
    assert broken() == []
    assert broken(first_view_ms=501) == ["first view"]
    assert broken(first_view_ms=None) == []
    assert broken(update_kb=50.1) == ["update"]
    assert broken(p99_ms=50.1) == ["API p99"]
    assert broken(cycle_ratio=1.101) == ["cycle, watched ÷ alone"]


def test_ratio_is_independent_of_machine_speed() -> None:
    """The machine gets twice as fast with each pair; the ratio of means would reflect only the last, disturbed pair."""
    pairs = [Pair({"wall_ms": s, "cpu_ms": s}, {"wall_ms": 1.05 * s, "cpu_ms": 1.02 * s}) for s in (800, 400, 200, 100)]
    pairs.append(Pair({"wall_ms": 100, "cpu_ms": 100}, {"wall_ms": 400, "cpu_ms": 300}))  # In the middle of a change.
    found = cycle_figures(pairs)
    assert (found["pairs"], found["cycle_ratio"], found["cycle_cpu_ratio"]) == (5, 1.05, 1.02)
    assert found["cycle_ratio_quartiles"] == [1.05, 1.05]


class Paced:
    """A fake tuner process: each cycle takes a second of a simulated clock."""

    port = 0

    def __init__(self) -> None:
        self.now_s = 0.0
        self.did: list[str] = []
        self.loaded = False

    def cycles(self, count: int, *, paced: bool = True) -> Any:
        self.now_s += count if paced else 0.0
        self.did += ["watched" if self.loaded else "alone"] * (count if paced else 0)
        return {"cycles": [{"wall_ms": 100.0, "cpu_ms": 50.0}] * count, "others_cpu_ms": 10.0}

    def end(self) -> None:
        self.did.append("end")


@pytest.mark.parametrize(("seconds", "pairs"), [(100.0, 5), (11.0, 4), (0.5, ROUNDS_MIN)])
def test_pairs_alternate_within_the_time_limit(seconds: float, pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    child = Paced()

    class Loaded:
        refused = 0

        def __init__(self, *_: object) -> None:
            self.times_ms = [("/readyz", 1.0)]
            self.scrapes_ms = [70.0]

        def __enter__(self) -> Loaded:
            child.loaded = True
            return self

        def __exit__(self, *_: object) -> None:
            child.loaded = False

    monkeypatch.setattr(page, "time", SimpleNamespace(monotonic=lambda: child.now_s))
    monkeypatch.setattr(page, "Child", lambda *_: child)
    monkeypatch.setattr(page, "Load", Loaded)
    monkeypatch.setattr(page, "first_view_ms", lambda *_: None)
    monkeypatch.setattr(page, "update_kb", lambda *_: 1.0)
    monkeypatch.setattr(page, "_json", lambda *_: {"brokers": [{"broker": 1}]})
    found = measure(20, 5, seconds)
    assert (found["pairs"], found["scrape_ms"]) == (pairs, 70.0)
    assert child.did == [*(["alone", "watched", "watched", "alone"] * 3)[: 2 * pairs], "end"]


def test_every_readable_path_is_requested() -> None:
    """The event stream is left out, because it never ends; it is open while the first view is measured."""
    described = Rig().app.openapi()["paths"]
    readable = {path for path, does in described.items() if "get" in does} - {"/api/v1/events"}
    assert len(readable) > 10
    paths = [urlsplit(path).path for path in PATHS]
    for path in readable:
        wanted = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path))
        assert any(re.fullmatch(wanted, one) for one in paths), path
    assert SCRAPED == "/metrics"
    assert len(set(PATHS)) == len(PATHS)


def test_requested_paths_exist() -> None:
    rig = Rig()
    rig.cycle()
    rig.observers.decisions.add([entry("intent")])
    newest = rig.get("/api/v1/decisions?limit=1").json()["decisions"][0]["id"]
    # This small cluster has no broker 7 and no plan.
    may_lack = ("/api/v1/brokers/7", "/page/broker/7", "/api/v1/plan-history/")
    for path in (*PATHS, SCRAPED):
        there = (200, 404) if path.startswith(may_lack) else (200,)
        assert rig.get(path.format(id=newest)).status_code in there, path


def test_benchmarked_tuner_has_moves_and_decisions() -> None:
    child = Child(20, time.monotonic() + 60.0)
    try:
        told = child.cycles(3, paced=False)
        with Load(child.port, 50.0) as load:
            child.cycles(1)
    finally:
        child.end()
    assert len(told["cycles"]) == 3
    assert all(cycle["cpu_ms"] > 0.0 for cycle in told["cycles"])
    assert load.refused == 0
    assert {path for path, _ in load.times_ms} == set(PATHS)
    assert load.scrapes_ms


def test_slow_machine_is_reported_and_waits_are_bounded(
    capsys: pytest.CaptureFixture[str],
) -> None:
    began_s = time.monotonic()
    with pytest.raises(TooLong, match="the cluster is made"):
        measure(20, 1, seconds=0.0)
    assert time.monotonic() - began_s < 60
    assert main(["--brokers", "20", "--seconds", "0"]) == 1
    assert "not done after 0 s" in capsys.readouterr().err
