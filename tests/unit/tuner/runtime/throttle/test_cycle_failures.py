"""Tests that a failing cycle changes nothing, is reported and counted, and does not end the tuner."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

import pytest
import structlog
from loop_rig import Rig
from tuner_cases import SOURCE, TARGET

from tuner.api.metrics import make_registry
from tuner.api.quota_status_store import QuotaStatusStore
from tuner.api.status_store import FAILURES_IN_A_ROW_MAX, StatusStore
from tuner.control.throttle.objective import Objective
from tuner.core.throttle_limits import MB
from tuner.runtime.leadership_term import Controllers, run

CYCLE_S = 5.0


class Term:
    """A rig's loop, run as a term runs it, on a clock that each wait moves on."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.board = StatusStore(
            "c", rig.limits, dry_run=False, wall_clock=lambda: rig.now_ms / 1000 + rig.now_s,
        )  # fmt: skip
        self.board.become_active()
        rig.loop._observer = self.board  # type: ignore[assignment]
        rig.loop._list_writer._observer = self.board  # type: ignore[assignment]
        rig.loop._ramp_outcomes._observer = self.board  # type: ignore[assignment]
        self.told: list[dict[str, Any]] = []

    def lasts(self, seconds: float, before_each: Callable[[float], None] = lambda _: None) -> None:
        until_s = self.rig.now_s + seconds

        def acts() -> bool:
            before_each(self.rig.now_s)
            return self.rig.now_s < until_s

        with structlog.testing.capture_logs() as told:
            run(
                Controllers(self.rig.loop), self.board,
                cycle_s=CYCLE_S, stop=cast(threading.Event, self), clock=self.rig.clock, may_act=acts,
            )  # fmt: skip
        self.told += told

    def is_set(self) -> bool:
        return False

    def wait(self, timeout_s: float) -> bool:
        self.rig.now_s += max(timeout_s, 0.25)
        return False

    @property
    def rates(self) -> tuple[int | None, int | None]:
        return self.rig.throttles.rates.get(SOURCE), self.rig.throttles.rates.get(TARGET)


def metric(board: StatusStore, name: str, **labels: str) -> float | None:
    return make_registry(board, QuotaStatusStore("c", None)).get_sample_value(name, {"cluster": "c", **labels})


@pytest.fixture(params=["decide", "write"])
def broken(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[Exception | None]:
    """A cycle that raises the exception in the list, in its decision or while it writes; None: it goes well."""
    import tuner.runtime.throttle.loop as module

    error: list[Exception | None] = [None]
    target: Any = module if request.param == "decide" else module.ThrottleController
    name = "decide" if request.param == "decide" else "_stop_changes"
    real = getattr(target, name)

    def failing(*args: Any) -> Any:
        if error[0] is not None:
            raise error[0]
        return real(*args)

    monkeypatch.setattr(target, name, failing)
    return error


def test_failing_cycles_change_nothing_until_one_succeeds(broken: list[Exception | None]) -> None:
    rig = Rig()
    term = Term(rig)
    broken[0] = OverflowError("int too large to convert to float")
    term.lasts(4 * CYCLE_S)
    assert term.rates == (10 * MB, 10 * MB)
    ready, why = term.board.ready()
    assert not ready
    assert (
        "failures in a row: a cycle of the throttle controller failed, so no throttle is changed until a cycle succeeds: "
        "OverflowError: int too large" in why
    )
    failures = metric(term.board, "rheostat_cycle_failures_total", controller="throttles")
    assert failures is not None
    assert failures >= FAILURES_IN_A_ROW_MAX
    assert term.board.silent_s() <= CYCLE_S, "a liveness probe must not end it"
    assert [line["event"] for line in term.told if line["log_level"] == "error"] == [
        "a cycle of the throttle controller failed, so no throttle is changed until a cycle succeeds"
    ], "the same error is logged once a minute"
    broken[0] = None
    term.lasts(20 * CYCLE_S)
    assert term.rates > (40 * MB, 40 * MB), "it rescues the stalled move"
    assert "failed" not in term.board.ready()[1]


def test_single_failed_cycle_is_reported_and_tuner_stays_ready(broken: list[Exception | None]) -> None:
    term = Term(Rig())
    term.lasts(0.2)
    broken[0] = ValueError("x")
    term.lasts(CYCLE_S - 0.5)
    ready, why = term.board.ready()
    assert "1 failure in a row: a cycle of the throttle controller failed" in why
    assert ready


def test_ramp_stops_when_cycle_fails(broken: list[Exception | None]) -> None:
    rig = Rig()
    term = Term(rig)
    term.lasts(CYCLE_S - 0.5)
    assert rig.loop._ramps.busy
    broken[0] = ValueError("x")
    term.lasts(CYCLE_S)
    stood = term.rates
    assert rig.loop._ramps.busy == frozenset()
    assert (10 * MB, 10 * MB) < stood < (50 * MB, 50 * MB)
    assert {e.failure for e in rig.journal.entries if e.kind == "outcome"} == {"interrupted: a cycle failed"}
    term.lasts(60.0)
    assert term.rates == stood


def test_steering_changes_nothing_while_cycles_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(objective=Objective(50.0))
    term = Term(rig)
    term.lasts(2 * CYCLE_S)
    assert rig.loop._steering_tick is not None
    assert rig.loop._steering_tick.next_due_s() is not None
    monkeypatch.setattr("tuner.runtime.throttle.loop.decide", lambda *_: 1 / 0)
    term.lasts(CYCLE_S + 1.0)
    assert rig.loop._steering_tick.next_due_s() is None


def test_failed_tick_stops_ramps_until_next_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    term = Term(rig)
    tries: list[float] = []

    def failing(_: object, now_s: float) -> None:
        if rig.loop._ramps.busy:
            tries.append(now_s)
            raise TypeError("a bug")

    monkeypatch.setattr(
        "tuner.runtime.throttle.ramp_executor.RampExecutor.step", lambda self, now_s: failing(self, now_s) or []
    )
    term.lasts(4 * CYCLE_S)
    assert 1 <= len(tries) <= 5, "once a cycle at most"
    assert "a change of a throttle failed" in term.board.ready()[1]
    assert term.rates == (10 * MB, 10 * MB)
