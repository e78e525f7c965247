"""Runs every benchmark, one after another."""

from __future__ import annotations

import sys

from benchmarks import collector, control, footprint, forecast, pipeline, scale, stall

if __name__ == "__main__":
    sys.exit(
        max(
            benchmark.main(sys.argv[1:])
            for benchmark in (footprint, collector, pipeline, stall, control, forecast, scale)
        )
    )
