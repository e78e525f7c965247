"""What answers are made of: held no longer than it is new, and made before what nobody waits for."""

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


def test_a_look_is_let_go_of_as_the_next_cycle_comes(rig: Rig, desktop: ApiState) -> None:
    rig.cycle()
    held = weakref.ref(desktop.snapshot())
    gc.collect()
    assert held() is not None
    assert desktop.snapshot() is held()
    rig.cycle()
    gc.collect()
    assert held() is None


def test_nobody_gives_way_while_no_answer_is_made(desktop: ApiState, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.time, "sleep", lambda _: pytest.fail("nothing is waited for"))
    desktop.make_yielder()()


def test_who_gives_way_waits_for_the_answer_that_is_made(
    rig: Rig, desktop: ApiState, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_patience_has_an_end_and_an_answer_that_fails_is_made_no_more(
    desktop: ApiState, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make() -> bytes:
        give_way, began_s = desktop.make_yielder(), time.perf_counter()
        give_way()
        assert time.perf_counter() - began_s >= 0.1
        slept_s = time.perf_counter()
        give_way()
        assert time.perf_counter() - slept_s < 0.05, "it is for all of a page, and not for each of its metrics"
        raise ValueError("as a view may")

    with pytest.raises(ValueError, match="as a view may"):
        desktop.cached_response(make, "application/json")
    monkeypatch.setattr(module.time, "sleep", lambda _: pytest.fail("nothing is waited for"))
    desktop.make_yielder()()


def test_a_look_that_was_made_since_is_kept(rig: Rig, desktop: ApiState) -> None:
    made: list[object] = []
    rig.observers.on_new_cycle(lambda: made.append(desktop.snapshot()))
    other = ApiState(rig.observers, rig.quotas, rig.plans)
    rig.observers.on_new_cycle(lambda: made.append(other.snapshot()))
    rig.observers._on_new_cycle.reverse()  # As if a thread of the server's had been quicker than the loop's.
    rig.cycle()
    assert [desktop.snapshot(), other.snapshot()] == made[::-1]
    assert other.snapshot() is made[0]


def test_who_sees_a_new_version_sees_the_history_that_goes_with_it(rig: Rig) -> None:
    rig.cycle()
    peaks, versions = [], []
    rig.observers.on_new_cycle(lambda: versions.append(rig.observers.version))
    rig.observers.on_new_cycle(lambda: peaks.append(dict(rig.observers.history.peaks().by_broker)))
    rig.cycle(signals=[move_signal(3, Side.FOLLOWER, remaining=9e12)])
    assert versions == [2]
    assert peaks[0][3].remaining_bytes == 9e12


def test_the_page_of_a_tuner_gives_way_to_its_answers(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.cycle()
    asked: list[int] = []
    monkeypatch.setattr(ApiState, "make_yielder", lambda _: lambda: asked.append(1))
    assert rig.get("/metrics").status_code == 200
    assert len(asked) > 10


def test_a_page_of_metrics_gives_way_before_each_of_them(rig: Rig) -> None:
    rig.cycle()
    told: list[int] = []
    text = render_page(rig.registry, lambda: told.append(1)).decode()
    assert len(told) == text.count("# TYPE") > 10
    assert render_page(CollectorRegistry(), lambda: told.append(1)) == b""
