"""Runs all benchmarks in turn. The benchmark on limited links comes last, as it takes longest and needs root."""

from __future__ import annotations

import sys

from benchmarks import (
    cluster,
    collector,
    control,
    controller,
    footprint,
    forecast,
    metrics_page,
    move,
    page,
    pipeline,
    scale,
    stall,
)

BENCHMARKS = (
    footprint,
    collector,
    pipeline,
    stall,
    control,
    forecast,
    scale,
    move,
    metrics_page,
    page,
    controller,
    cluster,
)

if __name__ == "__main__":
    sys.exit(max(benchmark.main(sys.argv[1:]) for benchmark in BENCHMARKS))
