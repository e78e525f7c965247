"""What a collector and a stream report about their work, by the state of their lease."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from rheostat.run import collect_service
from streaming import runner
from streaming.shared.heartbeat import Heartbeat

WAITS = "waits for an answer of the coordinator of its consumer group"


@dataclass
class LeaseState:
    is_standby: bool = False
    is_hung: bool = False

    def stands_by(self) -> bool:
        return self.is_standby

    def hangs(self) -> bool:
        return self.is_hung


@pytest.mark.parametrize(
    ("measures", "is_standby", "status", "is_ready"),
    [
        (True, False, "measures", True),
        (False, True, "on standby: another collector has the lease", True),
        (False, False, WAITS, False),
    ],
)
def test_collector_is_ready_if_it_measures_or_another_one_does(
    measures: bool, is_standby: bool, status: str, is_ready: bool
) -> None:
    heartbeat, lease = Heartbeat(), LeaseState(is_standby)
    collect_service._report_step(lease, heartbeat, 60.0, measures=measures)  # type: ignore[arg-type]
    assert (heartbeat.status, heartbeat.is_ready) == (status, is_ready)


@pytest.mark.parametrize(
    ("is_standby", "is_warm", "reported"),
    [
        (True, True, ("on standby: another stream has the lease", True)),
        (True, False, (None, False)),
        (False, True, (WAITS, False)),
        (False, False, (WAITS, False)),
    ],
)
def test_stream_is_ready_on_a_warm_standby_only(is_standby: bool, is_warm: bool, reported: tuple[Any, bool]) -> None:
    reports = list[tuple[Any, bool]]()
    listener = runner.ProgressListener(alive=lambda *report: reports.append(report))
    lease: Any = LeaseState(is_standby)
    runner._report_wait(lease, listener, is_warm=is_warm)
    assert reports == [reported]


def test_work_whose_lease_hangs_reports_no_step() -> None:
    now_s = [0.0]
    heartbeat, lease = Heartbeat(lambda: now_s[0]), LeaseState(is_standby=True, is_hung=True)
    heartbeat.beat(60.0, "measures", ready=True)
    now_s[0] = 61.0
    collect_service._report_step(lease, heartbeat, 60.0, measures=True)  # type: ignore[arg-type]
    assert heartbeat.fault() is not None
    reports = list[Any]()
    hung: Any = lease
    runner._report_wait(hung, runner.ProgressListener(alive=lambda *report: reports.append(report)), is_warm=True)
    assert reports == []
