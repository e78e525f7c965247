"""Measures how long a topic with 5,000 to 30,000 partitions takes to be created and deleted, as in the appendix of KIP-578.

For each size a new cluster of one controller and one broker creates one topic with one replica of each partition. So the broker
hosts as many partitions as each of the KIP's three brokers. A request makes at most 10,000 records in Kafka's metadata, one of the
topic and one of each partition, so larger topics grow in steps.

Three times are measured:

- until the controller has answered all requests;
- until the broker has created all log directories;
- after the deletion of the topic, until the broker has given up its log directories.

An exponent above 1 between the smallest and the largest size means that the time grows faster than the number of partitions. The
table also has the estimate of `rheostat quotas plan`, which covers only the controller. A size is left out if the broker would need
more memory maps (vm.max_map_count) or open files (ulimit -n) than this machine allows.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.links.watch import say
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.quotas.plan import QuotaPlanOptions, estimate_creation
from streaming.shared.kafka.cluster import ClusterError
from streaming.shared.kafka.topic_mutations import TopicMutationClient
from tuner.core.token_bucket import MutationQuota
from tuner.planning.quota_time import Creation

SIZES = (5_000, 10_000, 20_000, 30_000)
STEP = 5_000
HEAP_MB = 2_000
JAVA_OPTIONS = ("-XX:-UseSerialGC", "-XX:+UseG1GC", "-XX:TieredStopAtLevel=4")
BROKER = 1
TOPIC = "large"
WAIT_S_MAX = 400.0
_REQUEST_S_MAX = 120.0
_POLL_S = 0.1
_MAPS_PER_PARTITION = 2  # Offset index and time index of the active segment.
_MAPS_OF_THE_JVM = 2_000
_FILES_OF_THE_JVM = 1_000  # Each partition needs one more, the log of its active segment.


def measure(sizes: Sequence[int] = SIZES) -> dict[str, Any]:
    maps_max = int(Path("/proc/sys/vm/max_map_count").read_text())
    files_max = _raise_open_files(max(sizes) + _FILES_OF_THE_JVM)
    possible = [
        size
        for size in sizes
        if size * _MAPS_PER_PARTITION + _MAPS_OF_THE_JVM <= maps_max and size + _FILES_OF_THE_JVM <= files_max
    ]
    rows = []
    for size in possible:
        rows.append(_measure_size(size))
        say(_line(rows[-1]))
    return {
        "sizes": rows,
        "left_out": sorted(set(sizes) - set(possible)),
        "exponent": {key: exponent(rows, key) for key in ("controller_s", "log_dirs_s", "deletion_s")},
    }


def _raise_open_files(count: int) -> int:
    """Raises the number of files that this process and its brokers may open, as far as the system allows; returns the limit."""
    limit, limit_max = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit >= count:
        return limit
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, max(count, limit_max)))
    except (ValueError, OSError):  # Only root may exceed the hard limit.
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit_max, limit_max))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def exponent(rows: Sequence[dict[str, Any]], key: str) -> float | None:
    """Returns e where the time grows as partitions to the power of e, from the smallest to the largest size; None for one size."""
    if len(rows) < 2:
        return None
    first, last = rows[0], rows[-1]
    return math.log(last[key] / first[key]) / math.log(last["partitions"] / first["partitions"])


def _measure_size(partitions: int) -> dict[str, Any]:
    spec = LabSpec(brokers=1, heap_mb=HEAP_MB, java_options=JAVA_OPTIONS)
    with Lab(spec) as lab:
        data = lab.nodes[BROKER].log_dirs[0]
        settings = lab.kafka_settings().model_copy(update={"request_timeout_s": _REQUEST_S_MAX})
        with TopicMutationClient(settings, "bench") as client:
            began_s = time.monotonic()
            _check(client.create_through(BROKER, TOPIC, min(STEP, partitions), 1, {}))
            for count in range(2 * STEP, partitions + STEP, STEP):
                _check(client.add_partitions_through(BROKER, TOPIC, min(count, partitions)))
            controller_s = time.monotonic() - began_s
            _wait(lambda: _log_dirs(data) >= partitions, "all log directories exist")
            log_dirs_s = time.monotonic() - began_s
            began_s = time.monotonic()
            _check(client.delete_through(BROKER, TOPIC))
            # The broker renames them at once, and removes them a minute later.
            _wait(lambda: _log_dirs(data) == 0, "the broker has given up all log directories")
            deletion_s = time.monotonic() - began_s
    return {
        "partitions": partitions,
        "controller_s": controller_s,
        "log_dirs_s": log_dirs_s,
        "deletion_s": deletion_s,
        "plan_s": plan_s(partitions),
    }


def plan_s(partitions: int) -> float:
    """Returns the estimate of `rheostat quotas plan` for this creation without a quota."""
    topics = max(1, math.ceil(partitions / STEP))
    options = QuotaPlanOptions(Creation(topics, partitions // topics), MutationQuota(float(partitions)))
    return estimate_creation(options).without_quota.done_s


def _log_dirs(data: Path) -> int:
    """Returns the number of log directories of the topic that are not being deleted."""
    return sum(path.name.startswith(f"{TOPIC}-") and not path.name.endswith("-delete") for path in data.iterdir())


def _wait(is_done: Callable[[], bool], what: str) -> None:
    until_s = time.monotonic() + WAIT_S_MAX
    while not is_done():
        if time.monotonic() > until_s:
            raise TimeoutError(f"not within {WAIT_S_MAX:.0f} s: {what}")
        time.sleep(_POLL_S)


def _check(error: ClusterError | None) -> None:
    if error is not None:
        raise error


def _line(row: dict[str, Any]) -> str:
    return (
        f"{row['partitions']:6d} partitions: controller {row['controller_s']:6.1f} s (plan {row['plan_s']:.1f} s), "
        f"log directories {row['log_dirs_s']:6.1f} s, deletion {row['deletion_s']:6.1f} s"
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.creation", description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), metavar="PARTITIONS")
    options = parser.parse_args(arguments)
    figures = measure(options.sizes)
    if options.json:
        print(json.dumps(figures))
        return 0
    for row in figures["sizes"]:
        print(_line(row))
    print(f"exponents: {figures['exponent']}; left out: {figures['left_out']}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
