"""Every query of every panel returns data from a real Prometheus that scrapes the real metrics pages.

The values are invented, because no single cluster has all of these states at once. The tuner's status store behind its HTTP
server and the counters of collector and stream are real. test_panels_of_labs.py uses running labs.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from lab_parts import until
from panels_kit import ROOT, SCRAPE_S, filled_in, prometheus, queries

from streaming.metrics_server import serve
from streaming.shared.metric_defs import TunerMetric
from tuner.api.api_state import ApiState
from tuner.api.observers import Observers
from tuner.api.server import HttpServer, make_app

sys.path.insert(0, str(ROOT / "tests" / "unit"))

from metrics_rig import CLUSTER, Everything


@pytest.fixture
def told() -> Iterator[tuple[Everything, dict[str, int]]]:
    """The metrics pages of all processes, and their ports."""
    everything = Everything(time.time)
    registries = everything.registries()
    with ExitStack() as stack:
        ports = {}
        for part in ("collect", "stream", "learn"):
            server = serve(registries[part], "127.0.0.1", 0)
            stack.callback(server.close)
            ports[part] = server.port
        app = make_app(ApiState(Observers(everything.board), everything.quotas), registries["tune"], 5.0, time.time)
        tuner = HttpServer(app, "127.0.0.1", 0)
        tuner.start()
        stack.callback(tuner.stop)
        yield everything, ports | {"tune": tuner.port}


def test_every_panel_query_returns_data(told: tuple[Everything, dict[str, int]], tmp_path: Path) -> None:
    everything, ports = told
    everything.beat()
    with prometheus(tmp_path, ports) as asked:
        until(lambda: len(asked.ask("up == 1")) == 4, 20, "all four are scraped")
        pause = threading.Event()
        for _ in range(8):
            everything.beat()
            pause.wait(2 * SCRAPE_S)

        def without_data() -> set[str]:
            everything.beat()
            return {where for where, expr in queries() if not asked.ask(filled_in(expr, CLUSTER))}

        # On a busy machine a page may be scraped too late for a moment, and none of its metrics has a value then.
        empty = without_data()
        for _ in range(2):
            pause.wait(2 * SCRAPE_S)
            empty &= without_data()
        # Where a move stalls there is no end of everything, and where nothing stalls no stall.
        everything.has_end = True
        everything.beat()
        until(lambda: asked.ask(f"{TunerMetric.EXPECTED_END.name} > 0"), 20, "the end is scraped")
        until(
            lambda: not empty & without_data(),
            30,
            lambda: f"every query has data: {empty & without_data()}",
            every_s=1.0,
        )
        # An answer is this cluster's: of another there is none, but for counts, whose nothing is 0, and the list of clusters.
        elsewhere = [
            where
            for where, expr in queries()
            if "or vector(0)" not in expr and "$cluster" in expr and asked.ask(filled_in(expr, "another"))
        ]
        assert elsewhere == []
