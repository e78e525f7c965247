"""Runs every benchmark, one after another; the one on real links last, as it takes longest and needs root."""

from __future__ import annotations

import sys

from benchmarks import cluster, collector, control, controller, footprint, forecast, pipeline, scale, stall

if __name__ == "__main__":
    sys.exit(
        max(
            benchmark.main(sys.argv[1:])
            for benchmark in (footprint, collector, pipeline, stall, control, forecast, scale, controller, cluster)
        )
    )
