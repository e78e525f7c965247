"""A heartbeat tells that the work goes on until a step takes longer than announced."""

from __future__ import annotations

from streaming.shared.heartbeat import START_S_MAX, Heartbeat


class ManualClock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_heartbeat_start_may_take_long() -> None:
    clock = ManualClock()
    heartbeat = Heartbeat(clock)
    clock.now_s += START_S_MAX
    assert heartbeat.fault() is None
    clock.now_s += 1
    assert heartbeat.fault() is not None


def test_heartbeat_late_step_is_a_fault_until_next_step() -> None:
    clock = ManualClock()
    heartbeat = Heartbeat(clock)
    heartbeat.beat(10.0)
    clock.now_s += 12.0
    assert heartbeat.fault() == "no step of the work has ended for 12 s, and 10 s are allowed"
    heartbeat.beat(10.0)
    assert heartbeat.fault() is None


def test_heartbeat_once_ready_stays_ready_and_keeps_its_status() -> None:
    heartbeat = Heartbeat()
    assert (heartbeat.is_ready, heartbeat.status) == (False, "starting")
    heartbeat.beat(10.0, "waits for the cluster")
    assert (heartbeat.is_ready, heartbeat.status) == (False, "waits for the cluster")
    heartbeat.beat(10.0, ready=True)
    heartbeat.beat(10.0)
    assert (heartbeat.is_ready, heartbeat.status) == (True, "ready")
