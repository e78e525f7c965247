"""Analyses the load of fetcher threads, recommends a number of threads, and converts the report to JSON. Does no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL
from streaming.shared.fetcher_threads import client_id
from tuner.core.fetcher_choice import choose_fetcher_load, is_worthwhile
from tuner.core.fetcher_load import (
    FetchedPartition,
    FetchedReplica,
    FetcherLoad,
    Fetchers,
    FetcherThread,
    FetchPair,
    TopicCollision,
    estimate_load,
    estimate_loads,
    find_topic_collisions,
    loads_by_thread,
    replicas_by_pair,
)
from tuner.core.fetchers import resize_steps


@dataclass(frozen=True, slots=True)
class FetchersReport:
    """The load of all threads with the current number of threads, and with other numbers.

    Attributes:
        source: the origin of the figures, as text for the operator.
        by_writes: whether loads are bytes/s. If False, loads are numbers of partitions.
        fetchers: the current setting of each broker that is alive.
        by_pair: the partitions that each follower copies from each leader.
        candidates: the load with 1, 2, 3 and more threads, with the same number on all brokers.
        best: the current load, or the candidate that is best for the busiest thread.
        collisions: topics whose partitions share threads while other threads are idle, the worst topic first.
        notes: sentences for the operator.
    """

    source: str
    by_writes: bool
    fetchers: Fetchers
    by_pair: Mapping[FetchPair, Sequence[FetchedReplica]]
    current: FetcherLoad
    candidates: tuple[FetcherLoad, ...]
    best: FetcherLoad
    collisions: tuple[TopicCollision, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_worthwhile(self) -> bool:
        """Whether the best value is clearly better than the current value."""
        return is_worthwhile(self.current, self.best)

    @property
    def steps(self) -> dict[int, tuple[int, ...]]:
        """The values to set on each broker, one after another, to reach the best value."""
        if not self.is_worthwhile or self.best.fetchers is None:
            return {}
        return {broker: resize_steps(n, self.best.fetchers) for broker, n in sorted(self.fetchers.items())}

    def exit_code(self) -> int:
        return EXIT_NOT_WELL if self.is_worthwhile else EXIT_DONE


def analyse_fetchers(
    source: str,
    partitions: Sequence[FetchedPartition],
    fetchers: Fetchers,
    *,
    by_writes: bool,
    thread_bytes_per_s_max: float | None = None,
    notes: tuple[str, ...] = (),
) -> FetchersReport:
    """Returns the report.

    Args:
        fetchers: num.replica.fetchers of each broker that is alive; followers on other brokers are left out.
        by_writes: whether the loads of the partitions are bytes/s.
        thread_bytes_per_s_max: the highest rate of one thread; None if not known.
    """
    by_pair = {
        (follower, leader): replicas
        for (follower, leader), replicas in replicas_by_pair(partitions).items()
        if follower in fetchers
    }
    current, candidates = estimate_load(by_pair, fetchers), estimate_loads(by_pair)
    return FetchersReport(
        source=source,
        by_writes=by_writes,
        fetchers=fetchers,
        by_pair=by_pair,
        current=current,
        candidates=candidates,
        best=choose_fetcher_load(current, candidates, thread_bytes_per_s_max),
        collisions=find_topic_collisions(by_pair, fetchers),
        notes=notes,
    )


# -- JSON ----------------------------------------------------------------------------------------------------------------


def to_record(report: FetchersReport) -> dict[str, Any]:
    """Returns the report as a JSON object; its key ``load_unit`` has the unit of all loads."""
    return {
        "source": report.source,
        "load_unit": "bytes_per_s" if report.by_writes else "partitions",
        "num_replica_fetchers": {str(broker): n for broker, n in sorted(report.fetchers.items())},
        "current": _load_record(report.current),
        "best": _load_record(report.best),
        "change_is_worthwhile": report.is_worthwhile,
        "steps": {str(broker): list(steps) for broker, steps in report.steps.items()},
        "by_fetchers": [_load_record(candidate) for candidate in report.candidates],
        "collisions": [
            {
                "topic": collision.topic,
                "idle_threads": collision.idle,
                "worst_pair": {"follower": collision.follower, "leader": collision.leader},
                "partitions": collision.partitions,
                "threads": collision.threads,
            }
            for collision in report.collisions
        ],
        "cells": [
            {
                "follower": follower,
                "leader": leader,
                "thread": thread,
                "client_id": client_id(thread, leader),
                "load": load,
                "partitions": count,
            }
            for (follower, leader, thread), (load, count) in sorted(
                loads_by_thread(report.by_pair, report.fetchers).items()
            )
        ],
        "notes": list(report.notes),
    }


def _load_record(load: FetcherLoad) -> dict[str, Any]:
    return {
        "fetchers": load.fetchers,
        "load_max": load.load_max,
        "busiest": None if load.busiest is None else _thread_record(load.busiest),
        "partitions_max": load.partitions_max,
        "idle_threads": load.idle,
    }


def _thread_record(fetcher_thread: FetcherThread) -> dict[str, Any]:
    follower, leader, thread = fetcher_thread
    return {"follower": follower, "leader": leader, "client_id": client_id(thread, leader)}
