"""What `rheostat fetchers` found and what it advises. Pure; also the JSON for machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL
from tuner.control.throttle.diagnosis.fetcher_choice import choose_fetcher_load, is_worthwhile
from tuner.control.throttle.diagnosis.fetcher_load import (
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
from tuner.core.fetchers import client_id, resize_steps


@dataclass(frozen=True, slots=True)
class FetchersReport:
    source: str
    by_writes: bool  # Loads are bytes/s; else they are partitions.
    fetchers: Fetchers  # As they are set now, of every broker that is alive.
    by_pair: Mapping[FetchPair, Sequence[FetchedReplica]]
    today: FetcherLoad
    all_of: tuple[FetcherLoad, ...]  # For 1, 2, 3 and so on, the same on all brokers.
    best: FetcherLoad
    collisions: tuple[TopicCollision, ...]
    notes: tuple[str, ...] = ()

    @property
    def pays(self) -> bool:
        """Another value than today's is clearly better."""
        return is_worthwhile(self.today, self.best)

    @property
    def steps(self) -> dict[int, tuple[int, ...]]:
        """What each broker would have to be set to, one after another."""
        if not self.pays or self.best.fetchers is None:
            return {}
        return {broker: resize_steps(n, self.best.fetchers) for broker, n in sorted(self.fetchers.items())}

    def exit_code(self) -> int:
        return EXIT_NOT_WELL if self.pays else EXIT_DONE


def report(
    source: str,
    partitions: Sequence[FetchedPartition],
    fetchers: Fetchers,
    *,
    by_writes: bool,
    thread_bytes_per_s_max: float | None = None,
    notes: tuple[str, ...] = (),
) -> FetchersReport:
    """
    Args:
        fetchers: num.replica.fetchers of each broker that is alive; what others follow is left out.
    """
    by_pair = {pair: those for pair, those in replicas_by_pair(partitions).items() if pair[0] in fetchers}
    today, all_of = estimate_load(by_pair, fetchers), estimate_loads(by_pair)
    return FetchersReport(
        source,
        by_writes,
        fetchers,
        by_pair,
        today,
        all_of,
        choose_fetcher_load(today, all_of, thread_bytes_per_s_max),
        find_topic_collisions(by_pair, fetchers),
        notes,
    )


# -- for machines --------------------------------------------------------------------------------------------------------


def as_record(made: FetchersReport) -> dict[str, Any]:
    """One JSON object; loads are bytes/s where ``load_unit`` says so, else partitions."""
    return {
        "source": made.source,
        "load_unit": "bytes_per_s" if made.by_writes else "partitions",
        "num_replica_fetchers": {str(broker): n for broker, n in sorted(made.fetchers.items())},
        "today": _outlook(made.today),
        "best": _outlook(made.best),
        "change_pays": made.pays,
        "steps": {str(broker): list(steps) for broker, steps in made.steps.items()},
        "by_fetchers": [_outlook(one) for one in made.all_of],
        "collisions": [
            {
                "topic": one.topic,
                "idle_threads": one.idle,
                "worst_pair": {"follower": one.follower, "leader": one.leader},
                "partitions": one.partitions,
                "threads": one.threads,
            }
            for one in made.collisions
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
                loads_by_thread(made.by_pair, made.fetchers).items()
            )
        ],
        "notes": list(made.notes),
    }


def _outlook(one: FetcherLoad) -> dict[str, Any]:
    return {
        "fetchers": one.fetchers,
        "load_max": one.load_max,
        "busiest": None if one.busiest is None else _cell(one.busiest),
        "partitions_max": one.partitions_max,
        "idle_threads": one.idle,
    }


def _cell(cell: FetcherThread) -> dict[str, Any]:
    follower, leader, thread = cell
    return {"follower": follower, "leader": leader, "client_id": client_id(thread, leader)}
