"""Snapshots behind API responses are freed when outdated, and responses take precedence over the metrics page."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import pytest
from api_rig import Rig
from prometheus_client import CollectorRegistry
from tuner_cases import move_signal

from streaming.shared.contract import Side
from streaming.shared.metric_page import render_page
from tuner.api import api_state as module
from tuner.api.api_state import ApiState

WAIT_S_MAX = 10.0


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.fixture
def desktop(rig: Rig) -> ApiState:
    return ApiState(rig.observers, rig.quotas, rig.plans)


def test_status_names_the_pages_of_other_clusters(rig: Rig) -> None:
    state = ApiState(rig.observers, rig.quotas, rig.plans, other_pages=[("west", "https://west.example/")])
    rig.cycle()
    assert state.status("read")["other_clusters"] == [{"cluster": "west", "page": "https://west.example/"}]
    assert ApiState(rig.observers, rig.quotas, rig.plans).status("read")["other_clusters"] == []


def test_snapshot_is_freed_by_next_cycle(rig: Rig, desktop: ApiState) -> None:
    rig.cycle()
    held = weakref.ref(desktop.snapshot())
    gc.collect()
    assert held() is not None
    assert desktop.snapshot() is held()
    rig.cycle()
    gc.collect()
    assert held() is None


def test_yielder_without_pending_response_does_not_wait(desktop: ApiState, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.time, "sleep", lambda _: pytest.fail("nothing is waited for"))
    desktop.make_yielder()()


def test_yielder_waits_for_pending_response(rig: Rig, desktop: ApiState, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.cycle()
    monkeypatch.setattr(module, "_YIELD_S_MAX", WAIT_S_MAX)
    made: list[str] = []
    gives_way = threading.Event()

    def beside() -> None:
        give_way = desktop.make_yielder()
        gives_way.set()
        give_way()
        made.append("page")

    other = threading.Thread(target=beside, daemon=True)

    def make() -> bytes:
        other.start()
        assert gives_way.wait(WAIT_S_MAX)
        other.join(0.05)  # Without giving way it has ended by then.
        made.append("answer")
        return b"{}"

    desktop.cached_response(make, "application/json")
    other.join(WAIT_S_MAX)
    assert made == ["answer", "page"]


def test_yielder_wait_is_bounded_and_ends_with_failed_response(
    desktop: ApiState, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make() -> bytes:
        give_way, began_s = desktop.make_yielder(), time.perf_counter()
        give_way()
        assert time.perf_counter() - began_s >= 0.1
        # The wait is for all of a page, and not for each of its metrics.
        monkeypatch.setattr(module.time, "sleep", lambda _: pytest.fail("nothing is waited for"))
        give_way()
        raise ValueError("as a view may")

    with pytest.raises(ValueError, match="as a view may"):
        desktop.cached_response(make, "application/json")
    desktop.make_yielder()()


def test_snapshot_made_during_notification_is_kept(rig: Rig, desktop: ApiState) -> None:
    made: list[object] = []
    rig.observers.on_new_cycle(lambda: made.append(desktop.snapshot()))
    other = ApiState(rig.observers, rig.quotas, rig.plans)
    rig.observers.on_new_cycle(lambda: made.append(other.snapshot()))
    rig.observers._on_new_cycle.reverse()  # As if a thread of the server's had been quicker than the loop's.
    rig.cycle()
    assert [desktop.snapshot(), other.snapshot()] == made[::-1]
    assert other.snapshot() is made[0]


def test_new_version_comes_with_its_history(rig: Rig) -> None:
    rig.cycle()
    peaks, versions = [], []
    rig.observers.on_new_cycle(lambda: versions.append(rig.observers.version))
    rig.observers.on_new_cycle(lambda: peaks.append(dict(rig.observers.history.peaks().by_broker)))
    rig.cycle(signals=[move_signal(3, Side.FOLLOWER, remaining=9e12)])
    assert versions == [2]
    assert peaks[0][3].remaining_bytes == 9e12


def test_metrics_page_yields_to_api_responses(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.cycle()
    asked: list[int] = []
    monkeypatch.setattr(ApiState, "make_yielder", lambda _: lambda: asked.append(1))
    assert rig.get("/metrics").status_code == 200
    assert len(asked) > 10


def test_metrics_page_yields_before_each_metric(rig: Rig) -> None:
    rig.cycle()
    told: list[int] = []
    text = render_page(rig.registry, lambda: told.append(1)).decode()
    assert len(told) == text.count("# TYPE") > 10
    assert render_page(CollectorRegistry(), lambda: told.append(1)) == b""
