"""The forecast backtest: no model sees a value before its forecast, and the errors have their usual definitions."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from benchmarks.forecast import backtest, errors, measure
from benchmarks.forecasts.models import MODELS, DailyNaive, Holt, LastValue, settings
from benchmarks.forecasts.traces import LoadTrace, read, stored


class Spy:
    """Always forecasts 10, and records its calls."""

    def __init__(self) -> None:
        self.did: list[str | float] = []

    def next(self) -> float:
        self.did.append("asked")
        return 10.0

    def tell(self, value: float) -> None:
        self.did.append(value)


def test_each_forecast_precedes_its_value() -> None:
    spy = Spy()
    absolute, _ = errors(spy, [12.0, 9.0])
    assert spy.did == ["asked", 12.0, "asked", 9.0]
    assert absolute == [2.0, 1.0]


def test_pinball_loss_weighs_underestimates_nine_times() -> None:
    _, under = errors(Spy(), [20.0])
    _, over = errors(Spy(), [0.0])
    assert (under, over) == ([pytest.approx(9.0)], [pytest.approx(1.0)])


def told(model: LastValue | DailyNaive | Holt, values: list[float]) -> list[float]:
    found = []
    for value in values:
        found.append(model.next())
        model.tell(value)
    return found


def test_simple_models_give_the_expected_forecasts() -> None:
    assert told(LastValue(60), [3.0, 5.0, 4.0]) == [0.0, 3.0, 5.0]
    # A day of four values: the last value until a day has passed, then the value of the day before.
    assert told(DailyNaive(21_600), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) == [0.0, 1.0, 2.0, 3.0, 1.0, 2.0]
    assert told(Holt(60, alpha=0.5, beta=0.0), [4.0, 8.0, 8.0]) == [0.0, 4.0, 6.0]
    assert told(Holt(60, alpha=1.0, beta=1.0), [1.0, 2.0, 3.0, 4.0]) == [0.0, 1.0, 3.0, 4.0]


@pytest.mark.parametrize("name", MODELS)
def test_every_model_forecasts_a_constant_load_in_the_end(name: str) -> None:
    constant = LoadTrace("constant", 3_600, (20e6,) * 240)
    assert backtest(constant, name)["mae_mb_per_s"] < 0.1
    assert settings(name)


def test_model_pays_only_if_it_beats_both_baselines() -> None:
    saw = LoadTrace("saw", 21_600, tuple(1e6 * (10 + 7 * (i % 4) + 5 * (i * 7919 % 13)) for i in range(400)))
    found = measure([saw])
    ratios = {r["model"]: r["mae_ratio"] for r in found["traces"][0]["models"]}
    assert min(ratios["last value"], ratios["daily naive"]) == 1.0
    assert found["pays"]["last value"] == found["pays"]["daily naive"] == []


def test_stored_traces_exist_and_are_small() -> None:
    traces = stored()
    assert {(t.name, t.period_s) for t in traces} == {
        (name, period_s) for name in ("web", "launches", "batch", "noisy") for period_s in (5, 60, 600)
    }
    assert all(len(t.bytes_per_s) in (21_600, 14_400, 5_040) and min(t.bytes_per_s) >= 0 for t in traces)


@pytest.mark.parametrize(("name", "text"), [("web_60s", "1\nno\n"), ("web_sixty", "1\n2\n")])
def test_file_without_trace_is_refused_by_name(name: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / f"{name}.csv.gz"
    file.write_bytes(gzip.compress(text.encode()))
    with pytest.raises(ValueError, match=rf"^{name}\.csv\.gz.*Expected NAME_PERIODs"):
        read(file)
