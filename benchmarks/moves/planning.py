"""Measures the cost of planning a very large plan, and of `rheostat fetchers` for the same cluster, each in its own process.

The cluster has 200,000 partitions on 1,000 brokers; one replica of each moves. Planning reads the plan's JSON, and computes the
optimum, the first schedule of all slots, and the steps of every partition, as ``--dry-run`` does. For `rheostat fetchers` the JSON
output is computed. Figures are CPU seconds of the process after its imports and without the creation of the input, and its peak
memory, imports and input included.
"""

from __future__ import annotations

import gc
import json
import random
import resource
import sys
import time
from typing import Any

from rheostat.fetchers.report import analyse_fetchers, to_record
from streaming.shared.contract import Side
from tuner.control.reassignment.scheduler import schedule
from tuner.control.reassignment.scheduler_model import SchedulerConstraints, WaitingPartition, planned_partitions
from tuner.core.batch_limits import BatchLimits
from tuner.core.fetcher_load import FetchedPartition
from tuner.core.reassignment_steps import PartitionTransition, all_steps
from tuner.planning.fluid_bound import fluid_bound
from tuner.planning.plan_file import PlanFile
from tuner.runtime.gc_tuning import tune_gc

PARTITIONS, BROKERS, TOPICS = 200_000, 1_000, 2_000
_RATE_BYTES_PER_S = 100e6
_SLOTS = 5
_KIB = 1024


def planning(partitions: int = PARTITIONS, brokers: int = BROKERS) -> dict[str, Any]:
    rng = random.Random(7)
    ends = [rng.sample(range(brokers), 4) for _ in range(partitions)]
    sizes = [rng.lognormvariate(18, 1.5) for _ in range(partitions)]
    entries = [
        {"topic": f"topic-{i % TOPICS}", "partition": i // TOPICS, "replicas": [a, b, d]}
        for i, (a, b, _, d) in enumerate(ends)
    ]
    text = json.dumps({"version": 1, "partitions": entries})
    del entries
    began_s = _begun_s()
    plan = PlanFile(text, "plan.json")
    plan.check(range(brokers), {(target.topic, target.partition) for target in plan.targets})
    waiting = []
    for target, (a, b, c, _), size in zip(plan.targets, ends, sizes, strict=True):
        now = (a, b, c)
        way = PartitionTransition(target.topic, target.partition, now, target.replicas, a, frozenset(now), 2)
        waiting.append(WaitingPartition(way, size, size / 86_400))
    sides = [(b, side) for b in range(brokers) for side in Side]
    best = fluid_bound(planned_partitions(waiting), dict.fromkeys(sides, _RATE_BYTES_PER_S))
    terms = SchedulerConstraints(
        frozenset(range(brokers)),
        BatchLimits(),
        dict.fromkeys(sides, _SLOTS),
        brokers * _SLOTS,
        1_000,
        dict.fromkeys(sides, _RATE_BYTES_PER_S),
    )
    first = schedule(waiting, [], terms)
    steps = sum(len(all_steps(one.transition)) for one in waiting)
    return {
        "partitions": partitions,
        "cpu_s": time.process_time() - began_s,
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB / 1e6,
        "steps": steps,
        "first_request": len(first.starts),
        "optimum_s": best.time_s,
    }


def fetchers(partitions: int = PARTITIONS, brokers: int = BROKERS) -> dict[str, Any]:
    rng = random.Random(7)
    followed = []
    for i in range(partitions):
        leader, *others = rng.sample(range(brokers), 3)
        followed.append(
            FetchedPartition(f"topic-{i % TOPICS}", i // TOPICS, leader, tuple(others), rng.lognormvariate(8, 1.5))
        )
    began_s = _begun_s()
    report = analyse_fetchers("made up", followed, dict.fromkeys(range(brokers), 1), by_writes=True)
    size = len(json.dumps(to_record(report)))
    return {
        "partitions": partitions,
        "cpu_s": time.process_time() - began_s,
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB / 1e6,
        "json_mb": size / 1e6,
    }


def _begun_s() -> float:
    # As the command does; and the input that was made up is not the program's to look through.
    tune_gc()
    gc.collect()
    gc.freeze()
    return time.process_time()


if __name__ == "__main__":
    json.dump({"planning": planning, "fetchers": fetchers}[sys.argv[1]](), sys.stdout)
