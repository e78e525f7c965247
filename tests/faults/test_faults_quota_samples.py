"""Brokers whose quota samples last two seconds: the tuner says that it only rescues, and the rescue is right."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from lab_parts import rheostat as program
from stage import BROKER_SETTINGS, CEILING, SOURCE, THROTTLE, MakeStage

from rheostat.lab.cluster import LabSpec
from tuner.core.cluster import LiveCluster
from tuner.runtime.observe.cluster_reader import ClusterReader

SAMPLES, SAMPLE_S = 6, 2
LAB = LabSpec(
    brokers=4,
    heap_mb=320,
    broker_settings={
        **BROKER_SETTINGS,
        "replication.quota.window.num": str(SAMPLES),
        "replication.quota.window.size.seconds": str(SAMPLE_S),
    },
)
Tell = Callable[[str, object], None]

pytestmark = pytest.mark.timeout(600)


def test_longer_quota_samples_are_named_and_stalled_moves_rescued(make_stage: MakeStage, record_property: Tell) -> None:
    stage = make_stage("samples", stalled=True)
    live = ClusterReader(stage.client).snapshot(full=True)
    assert isinstance(live, LiveCluster)
    assert set(live.quota_samples.values()) == {SAMPLES}
    assert live.quota_sample_s == dict.fromkeys(stage.brokers, SAMPLE_S)
    doctor = program("doctor", "--config", stage.config, "--json", timeout_s=150.0)
    (finding,) = [f for f in json.loads(doctor.stdout) if f["check"] == "quota samples"]
    assert finding["verdict"] == "advice"
    assert "broker 1: 2 s" in finding["found"]

    tuner = stage.start_tuner()
    stage.move()
    stage.until("the tuner says so", lambda: tuner.decided("quota_window_unsupported"), 120)
    stage.wait_until_raised(120.0)
    stage.until("it says why", lambda: tuner.decided("stalled_throttle_bound", "stalled_below_steady_state"), 30)
    steps: list[int] = []

    def has_ended() -> bool:
        steps.append(stage.rate(SOURCE))
        return not stage.moving()

    stage.until("the move ends", has_ended, 120)
    rising = list(dict.fromkeys(rate for rate in steps if rate > THROTTLE))
    assert rising == sorted(rising)
    assert max(rising) <= CEILING
    stage.end()
    assert not tuner.decided("follows_clients"), "the control law has not steered"
    record_property("told", f"named, and raised to {max(rising) / 1e6:.2f} MB/s as without an objective")
