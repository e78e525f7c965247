"""Compares forecasts of a broker's client load one period ahead (5 s and 60 s) on stored traces.

The bound is the better of two free forecasts: the last value, and the value a day before. A model is useful on a trace if its error
is at least 5 % lower. There are two errors: the mean absolute error, and the pinball loss of the 90 % quantile, which matters for a
throttle that has to leave bandwidth. Every model gets the same running quantile of its own errors. Parameters are chosen on the
first half of a trace, and errors are measured on the second half.

With ``--horizons`` only the forecasts of `rheostat learn`, 1 hour to 7 days ahead, are measured (forecasts/horizons.py).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

from benchmarks.forecasts.horizons import BOUND_H, measure_horizons, public_series, series_of_traces
from benchmarks.forecasts.models import MB, MODELS, Forecast, settings
from benchmarks.forecasts.traces import HISTORY_PERIOD_S, LoadTrace, stored

PAYS_BELOW = 0.95
BASELINES = ("last value", "daily naive")
QUANTILE = 0.9
CHOSEN_ON = 0.5
QUANTILE_STEP = 0.02  # Of the mean error, a value.


def errors(model: Forecast, values: list[float]) -> tuple[list[float], list[float]]:
    """Returns absolute error and pinball loss of every value in MB/s; the model forecasts each value before it sees it."""
    absolute, pinball = [], []
    above = mean = 0.0
    for value in values:
        point = model.next()
        error = value - point
        over = error - above
        absolute.append(abs(error))
        pinball.append(max(QUANTILE * over, (QUANTILE - 1) * over))
        mean += (abs(error) - mean) * 0.01
        above += QUANTILE_STEP * mean * (QUANTILE if over > 0 else QUANTILE - 1)
        model.tell(value)
    return absolute, pinball


def backtest(trace: LoadTrace, name: str) -> dict[str, Any]:
    values = [value / MB for value in trace.bytes_per_s]
    split = round(CHOSEN_ON * len(values))
    maker = MODELS[name][0]
    tried = settings(name)
    chosen = tried[0]
    if len(tried) > 1:
        chosen = min(tried, key=lambda s: _mean(errors(maker(trace.period_s, **s), values[:split])[0][split // 5 :]))
    began_s = time.process_time()
    absolute, pinball = errors(maker(trace.period_s, **chosen), values)
    return {
        "model": name,
        "settings": chosen,
        "mae_mb_per_s": round(_mean(absolute[split:]), 4),
        "pinball_mb_per_s": round(_mean(pinball[split:]), 4),
        "us_per_value": round((time.process_time() - began_s) / len(values) * 1e6, 1),
    }


def measure(traces: list[LoadTrace]) -> dict[str, Any]:
    found: list[dict[str, Any]] = []
    for trace in traces:
        results = [backtest(trace, name) for name in MODELS]
        best = {
            key: min(r[key] for r in results if r["model"] in BASELINES) for key in ("mae_mb_per_s", "pinball_mb_per_s")
        }
        for result in results:
            result["mae_ratio"] = round(result["mae_mb_per_s"] / best["mae_mb_per_s"], 3)
            result["pinball_ratio"] = round(result["pinball_mb_per_s"] / best["pinball_mb_per_s"], 3)
            result["pays"] = result["mae_ratio"] < PAYS_BELOW and result["pinball_ratio"] < PAYS_BELOW
        found.append(
            {"trace": trace.name, "period_s": trace.period_s, "values": len(trace.bytes_per_s), "models": results}
        )
    pays: dict[str, list[str]] = {name: [] for name in MODELS}
    for trace, one in zip(traces, found, strict=True):
        for result in one["models"]:
            if result["pays"]:
                pays[result["model"]].append(f"{trace.name} {trace.period_s} s")
    return {"traces": found, "pays": pays}


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def print_horizons(rows: list[dict[str, Any]]) -> None:
    print(f"\n{'':14} {'ahead':>6} {'error':>9} {'÷ persistence':>14} {'÷ best expert':>14}  best expert")
    for row in rows:
        verdict = "" if row["is_met"] is None else "  bounds kept" if row["is_met"] else "  BOUND MISSED"
        print(
            f"{row['series']:14} {row['horizon_h']:4} h {row['error']:9.3f} {row['ratio_to_persistence']:14.2f} "
            f"{row['ratio_to_best_expert']:14.2f}  {row['best_expert']}{verdict}"
        )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--horizons", action="store_true", help=f"only hours and days ahead; judged at {BOUND_H} hours")
    options = parser.parse_args(arguments)
    traces = stored()
    if not traces:
        print("no traces: make them with python -m benchmarks.forecasts.traces", file=sys.stderr)
        return 2
    short = [] if options.horizons else [trace for trace in traces if trace.period_s != HISTORY_PERIOD_S]
    found = measure(short)
    found["horizons"] = measure_horizons(series_of_traces(traces) + public_series())
    is_met = all(row["is_met"] is not False for row in found["horizons"])
    if options.json:
        print(json.dumps(found))
        return 0 if is_met else 1
    for one in found["traces"]:
        print(f"\n{one['trace']}, one value every {one['period_s']} s, {one['values']} values")
        print(f"{'':34} {'MAE MB/s':>9} {'ratio':>6} {'pinball':>9} {'ratio':>6} {'µs':>6}")
        for r in one["models"]:
            print(
                f"{r['model']:34} {r['mae_mb_per_s']:9.3f} {r['mae_ratio']:6.2f} {r['pinball_mb_per_s']:9.3f} "
                f"{r['pinball_ratio']:6.2f} {r['us_per_value']:6.0f}{'  pays' if r['pays'] else ''}"
            )
    for name, where in found["pays"].items():
        if short and name not in BASELINES:
            print(f"{name} pays on {len(where)} of {len(found['traces'])}: {', '.join(where) or 'none'}")
    print_horizons(found["horizons"])
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
