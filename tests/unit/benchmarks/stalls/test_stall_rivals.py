"""Every rival stall detector alarms on a plain stall and is silent on a healthy move."""

from __future__ import annotations

from typing import Any

import pytest
from tuner_cases import traced

from benchmarks.stalls.rivals import RIVALS, Rival
from benchmarks.stalls.traces import Sampled, Trace
from tuner.core.throttle_limits import MB

EXPECTED = 10 * MB
SETTINGS = [(rival, settings) for rival in RIVALS for settings in rival.settings()]
NAMED = [f"{rival.name} {settings}" for rival, settings in SETTINGS]


def looked_at(shares: list[float], remaining_bytes: float = 1e6 * MB) -> Sampled:
    """A trace of 5 s steps: shares of the expected 10 MB/s, while clients write 2 MB/s."""
    steps = traced([2 * MB + s * EXPECTED for s in shares], write_bytes_per_s=2 * MB, remaining_bytes=remaining_bytes)
    return Sampled(Trace("plain", "made", None, ()), tuple(steps), (EXPECTED,) * len(steps))


def test_rivals_are_the_seven_detectors() -> None:
    assert [rival.name for rival in RIVALS] == [
        "Theil–Sen slope", "EWMA slope", "Mann–Kendall", "Burrow's rules", "river PageHinkley", "river ADWIN", "river KSWIN",
    ]  # fmt: skip
    assert len(SETTINGS) == 9 + 9 + 8 + 5 + 12 + 9 + 4


@pytest.mark.parametrize(("rival", "settings"), SETTINGS, ids=NAMED)
def test_rival_raises_no_alarm_for_a_healthy_move(rival: Rival, settings: dict[str, Any]) -> None:
    healthy = [1.0, 1.1, 0.9, 1.05, 0.95] * 24  # Ten minutes.
    assert not any(rival.alarms(looked_at(healthy), **settings))


@pytest.mark.parametrize(("rival", "settings"), SETTINGS, ids=NAMED)
def test_sudden_stop_raises_one_alarm_and_none_before(rival: Rival, settings: dict[str, Any]) -> None:
    """Five healthy minutes, then five minutes in which the remaining bytes grow by new writes."""
    alarms = rival.alarms(looked_at([1.0, 1.1, 0.9, 1.05, 0.95] * 12 + [-0.2] * 60), **settings)
    assert len(alarms) == 120
    assert not any(alarms[:60])
    # A window of twelve stretches compares three with three, of which no Kolmogorov–Smirnov test is surer than 0.1. It stays in
    # the grid, so that figures compare with older ones; the tuning never has a reason to choose it.
    able = settings.get("window") != 12
    assert any(alarms[60:]) is able
    assert alarms[-1] is able, "it stands for as long as the stall does"


@pytest.mark.parametrize(("rival", "settings"), SETTINGS, ids=NAMED)
def test_rival_raises_no_alarm_near_the_end(rival: Rival, settings: dict[str, Any]) -> None:
    """Only recent writes remain."""
    assert not any(rival.alarms(looked_at([1.0] * 20 + [0.0] * 60, remaining_bytes=1_000.5 * MB), **settings))
