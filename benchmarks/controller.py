"""Compares mutation quotas that follow the controller's load with fixed ones, on a real cluster and in the simulation.

Every storm runs without quotas, with static quotas and with rheostat. Pressure is the worst ratio of a measurement to its
objective. Goodput is the number of partitions that all tenants create and delete per second after settling. Jain's index measures
how evenly equal tenants share it. The latency of a well-behaved tenant is relative to its latency without a storm.

Bounds for rheostat: p99 of the pressure ≤ 1 after settling; goodput ≥ 0.9 of the best static quota at the same pressure; Jain's
index ≥ 0.95; latency of a well-behaved tenant ≤ 1.5 × that without a storm; two writes per tenant and minute. With 1,000 tenants on
2,000 brokers: a cycle takes at most 100 ms, and shares are within 5 % of the max–min optimum.

``--plants N`` draws N controllers from the seed instead (controllers/plants.py). It compares rheostat with the best static quota of
each controller and with the max–min optimum, and reports distributions. The same bounds then hold for the medians.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.controllers import large, real, simulated
from benchmarks.controllers.distribution import measure_plants, missed_on_plants, print_plants
from benchmarks.controllers.figures import Row, missed
from rheostat.console.logs import set_up_logs

SEED = 2
KINDS = ("zookeeper", "kraft")
_COLUMNS = (
    "where",
    "policy",
    "pressure_p99",
    "queue_time_p99_ms",
    "well_behaved_create_p99_ms",
    "well_behaved_ratio",
    "goodput_partitions_per_s",
    "jain_index",
    "time_to_settle_s",
    "writes_per_tenant_min",
)


def measure(given: argparse.Namespace) -> dict[str, Any]:
    rows: list[Row] = []
    said: list[str] = []
    for kind in KINDS:
        found = simulated.measure(kind, given.seed)
        said += [f"simulated {kind}: {what}" for what in missed(found)]
        rows += found
    size = large.measure()
    said += large.missed(size)
    if not given.simulated:
        found = real.measure(given.statics, given.logs, late=not given.no_late)
        for policy in real.OURS:
            said += [f"real, {policy}: {what}" for what in missed(found, policy)]
        rows += found
    return {"seed": given.seed, "rows": rows, "large": size, "missed": said}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.controller", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON value")
    parser.add_argument("--seed", type=int, default=SEED, help="of the simulated worlds")
    parser.add_argument("--plants", type=int, metavar="N", help="draw N controllers instead of the chosen ones")
    parser.add_argument("--simulated", action="store_true", help="no real cluster: seven minutes, not an hour")
    parser.add_argument("--statics", type=int, default=5, help="how many static quotas are tried on the real cluster")
    parser.add_argument("--no-late", action="store_true", help="rheostat comes before the storm only")
    parser.add_argument("--logs", type=Path, help="where the real cluster's logs are kept")
    given = parser.parse_args(arguments)
    set_up_logs()
    if given.plants is not None:
        return _plants(given)
    found = measure(given)
    if given.json:
        sys.stdout.write(json.dumps(found, indent=2) + "\n")
    else:
        _print(found)
    for what in found["missed"]:
        sys.stderr.write(f"missed: {what}\n")
    return 1 if found["missed"] else 0


def _plants(given: argparse.Namespace) -> int:
    rows = measure_plants(given.seed, given.plants)
    failures = missed_on_plants(rows)
    if given.json:
        sys.stdout.write(json.dumps({"seed": given.seed, "rows": rows, "missed": failures}, indent=2) + "\n")
    else:
        sys.stdout.write(f"seed {given.seed}, {given.plants} drawn controllers\n")
        print_plants(rows)
    for failure in failures:
        sys.stderr.write(f"missed: {failure}\n")
    return 1 if failures else 0


def _print(found: dict[str, Any]) -> None:
    sys.stdout.write("".join(f"{name:>27}" for name in _COLUMNS) + "\n")
    for row in found["rows"]:
        sys.stdout.write("".join(f"{_cell(row[name]):>27}" for name in _COLUMNS) + "\n")
    sys.stdout.write(" ".join(f"{key} {value}" for key, value in found["large"].items()) + "\n")


def _cell(value: object) -> str:
    return "-" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
