"""Runs every benchmark, one after another."""

from __future__ import annotations

import sys

from benchmarks import footprint

if __name__ == "__main__":
    sys.exit(footprint.main(sys.argv[1:]))
