"""Runs all benchmarks in turn. Those on limited links come last, as they take longest and need root."""

from __future__ import annotations

import sys

from benchmarks import (
    cluster,
    collector,
    control,
    controller,
    creation,
    eta,
    footprint,
    forecast,
    history,
    learn,
    metrics_page,
    move,
    page,
    pipeline,
    recovery,
    scale,
    stall,
)

BENCHMARKS = (
    footprint,
    collector,
    pipeline,
    history,
    stall,
    control,
    forecast,
    eta,
    learn,
    scale,
    move,
    metrics_page,
    page,
    controller,
    creation,
    cluster,
    recovery,
)

if __name__ == "__main__":
    sys.exit(max(benchmark.main(sys.argv[1:]) for benchmark in BENCHMARKS))
