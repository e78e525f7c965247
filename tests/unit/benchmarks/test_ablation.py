"""The ablation of the control law: each neutral value takes something out, and is compared on the same plants."""

from __future__ import annotations

import json

import pytest

from benchmarks.ablation import NEUTRAL, main
from tuner.control.throttle.objective import ControlLimits


@pytest.mark.parametrize("name", NEUTRAL)
def test_neutral_value_differs_from_the_constant(name: str) -> None:
    assert getattr(ControlLimits(), name) != NEUTRAL[name]


def test_ablation_reports_the_whole_law_first_and_each_removal_on_the_same_plants(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--plants", "1", "--seed", "9", "--constant", "forecast_spreads", "--json"]) == 0
    whole, without = json.loads(capsys.readouterr().out)
    assert (whole["without"], without["without"], without["neutral"]) == (None, "forecast_spreads", 0.0)
    assert without["ratio_mean"] < whole["ratio_mean"], "the forecast above the mean load costs time"
