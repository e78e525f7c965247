"""Draws controllers with their tenants and objectives, each from its number and a seed.

The worlds of simulated.py were chosen, and the constants of the quotas were set on them. Drawn controllers show whether the quotas
suit other controllers. The ranges are those of real ones: a ZooKeeper controller takes milliseconds for each partition; a KRaft
controller takes about a millisecond for each topic, brokers forward one request at a time, and the slowest node applies a limited
number of partitions per second. Kafka before 4.2 does not show how busy its controller is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from benchmarks.controllers.controller_queue import OtherWork, QueueModel
from benchmarks.controllers.queue_run import QueueWorld, TenantSpec
from benchmarks.controllers.queue_signals import EVERY_S, WINDOW_S, Delivery
from tuner.control.mutation_quota.max_min_share import Claim, share_max_min
from tuner.core.controller import ControllerObjective
from tuner.core.controller_cost import ControllerCost

SETTLED_S = 300.0
DURATION_S = 780.0
_AFTER_S = WINDOW_S + 10.0  # From the end of other work until signals are free of it: its backlog is served first.
_STREAM = 29  # Random stream of the drawn controllers.
_TENANTS = (2, 1_000)
_FIRST_STORM_S = (30.0, 60.0)
# All requests of the storms and of the quiet tenants together: a run takes time for each of them.
_STORM_REQUESTS_PER_S, _QUIET_REQUESTS_PER_S = 50.0, 8.0
_CLIENT_REQUESTS_PER_S = 8.0
_PARTITIONS_PER_TOPIC = (1, 1, 2, 4, 10, 50)


class ControllerKind(StrEnum):
    ZOOKEEPER = "zookeeper"
    KRAFT = "kraft"


@dataclass(frozen=True, slots=True)
class ControllerPlant:
    """A drawn controller.

    Attributes:
        capacity_per_s: partitions/s that the objective allows, roughly: without the effect of random arrivals.
    """

    kind: ControllerKind
    world: QueueWorld
    objective: ControllerObjective
    storms: tuple[TenantSpec, ...]
    quiet: tuple[TenantSpec, ...]
    capacity_per_s: float
    topic_ms: float
    partition_ms: float

    @property
    def partition_total_ms(self) -> float:
        """Returns the controller's time for one partition of the storms, with its part of the cost of its topic, in ms."""
        demand = sum(map(demand_per_s, self.storms))
        topics = sum(demand_per_s(spec) / spec.partitions_per_topic for spec in self.storms)
        return self.partition_ms + self.topic_ms * topics / demand

    def facts(self) -> dict[str, Any]:
        """Returns what the tables say about the plant."""
        world = self.world
        return {
            "kind": self.kind,
            "tenants": len(world.tenants),
            "storms": len(self.storms),
            "capacity_per_s": self.capacity_per_s,
            "every_s": EVERY_S * world.delivery.every,
            "disturbed": bool(world.model.other_work or world.fail_overs_at_s or world.delivery.silences),
        }

    def counts(self, at_s: float) -> bool:
        """Returns whether quotas are responsible for the pressure: no other work or fail-over is part of the signals' window."""
        times = [(work.at_s, work.until_s) for work in self.world.model.other_work]
        times += [(over_s, over_s) for over_s in self.world.fail_overs_at_s]
        return not any(from_s <= at_s <= until_s + _AFTER_S for from_s, until_s in times)

    def shares_per_s(self, total_per_s: float, from_s: float, until_s: float) -> dict[str, float]:
        """Returns the max–min shares of the storms that are active, of a total that the quiet tenants use first."""
        active = [spec for spec in self.storms if spec.at_s <= until_s and spec.until_s > from_s]
        remaining = max(0.0, total_per_s - sum(map(demand_per_s, self.quiet)))
        shares = share_max_min(remaining, [Claim(demand_per_s(spec)) for spec in active]).shares
        return {spec.client_id: share for spec, share in zip(active, shares, strict=True)}


def demand_per_s(spec: TenantSpec) -> float:
    """Returns the partitions/s that a tenant creates and deletes without a quota."""
    working = 0.5 if spec.pause_every_s else 1.0
    return working * spec.requests_per_s * spec.topics_per_request * spec.partitions_per_topic


def draw_controller(seed: int, number: int) -> ControllerPlant:
    """Returns a plant; the same arguments give the same one."""
    rng = np.random.default_rng([seed, number, _STREAM])
    kind = ControllerKind(rng.choice([ControllerKind.ZOOKEEPER, *[ControllerKind.KRAFT] * 3]))
    model = _model(rng, kind)
    count = round(_log_uniform(rng, *_TENANTS))
    storm_count = min(count - 1, round(_log_uniform(rng, 1, 20)))
    partitions = [int(rng.choice(_PARTITIONS_PER_TOPIC)) for _ in range(storm_count)]
    objective = _objective(rng, kind, model)
    capacity = _capacity_per_s(model, objective, partitions)
    storms = _storms(rng, partitions, capacity * _log_uniform(rng, 1.5, 20))
    quiet = _quiet(rng, count - storm_count, capacity * float(rng.uniform(0.02, 0.3)))
    if objective.forwarding_busy_ratio_max is not None:
        at_rest = sum(spec.requests_per_s for spec in quiet) * model.answer_s / model.brokers
        objective = replace(objective, forwarding_busy_ratio_max=at_rest + objective.forwarding_busy_ratio_max)
    world = QueueWorld(
        seed=int(rng.integers(1 << 30)),
        model=replace(model, other_work=_other_work(rng)),
        tenants=(*storms, *quiet),
        duration_s=DURATION_S,
        fail_overs_at_s=(float(rng.uniform(200, 500)),) if rng.random() < 0.2 else (),
        delivery=_delivery(rng),
        probes=objective.create_probe_p90_ms_max is not None,
    )
    cost = model.cost
    return ControllerPlant(
        kind, world, objective, storms, quiet, capacity, topic_ms=cost.per_topic_ms, partition_ms=cost.per_partition_ms
    )


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _model(rng: np.random.Generator, kind: ControllerKind) -> QueueModel:
    if kind is ControllerKind.ZOOKEEPER:
        cost = ControllerCost(per_topic_ms=_log_uniform(rng, 0.1, 10), per_partition_ms=_log_uniform(rng, 1, 10))
        return QueueModel(
            cost, answer_s=_log_uniform(rng, 0.02, 0.1), shows_idle_ratio=False, other_events_per_s=_events_per_s(rng)
        )
    return QueueModel(
        ControllerCost(per_topic_ms=_log_uniform(rng, 0.3, 3), per_partition_ms=_log_uniform(rng, 0.02, 0.2)),
        answer_s=_log_uniform(rng, 0.01, 0.08),
        brokers=round(_log_uniform(rng, 3, 30)),
        apply_ms=1_000 / _log_uniform(rng, 20, 2_000),
        shows_idle_ratio=bool(rng.random() < 0.7),
        other_events_per_s=_events_per_s(rng),
    )


def _events_per_s(rng: np.random.Generator) -> float:
    return _log_uniform(rng, 5, 200)


def _objective(rng: np.random.Generator, kind: ControllerKind, model: QueueModel) -> ControllerObjective:
    """Returns limits as operators set them; the limit of the forwarding ratio is the part beside the quiet tenants'."""
    objective = ControllerObjective(
        idle_ratio_min=float(rng.uniform(0.3, 0.9)) if model.shows_idle_ratio else None,
        queue_ms_max=_log_uniform(rng, 50, 500),
        create_ms_max=1_000 * model.answer_s * float(rng.uniform(1.2, 3.0)) if rng.random() < 0.2 else None,
        burst_ms_max=_log_uniform(rng, 1_000, 10_000),
    )
    if kind is ControllerKind.ZOOKEEPER:
        return objective
    return replace(
        objective,
        apply_lag_ms_max=_log_uniform(rng, 700, 3_000) if rng.random() < 0.7 else None,
        # Below the time of one commit, the latency of the probe says little about the rate.
        create_probe_p90_ms_max=1_000 * model.answer_s * float(rng.uniform(1.05, 2.5)) if rng.random() < 0.5 else None,
        forwarding_busy_ratio_max=float(rng.uniform(0.03, 0.2)) if rng.random() < 0.5 else None,
    )


def _capacity_per_s(model: QueueModel, objective: ControllerObjective, partitions: Sequence[int]) -> float:
    """Returns the partitions/s at which the first limit is reached.

    Args:
        partitions: per topic, of each storm.
    """
    per_topic = sum(partitions) / len(partitions)
    busy_max = 1 - objective.idle_ratio_min if objective.idle_ratio_min is not None else 0.9
    found = [busy_max * per_topic / model.cost.work_s(1, per_topic)]
    if model.apply_ms and objective.apply_lag_ms_max is not None:
        found.append(1_000 / model.apply_ms)
    if objective.forwarding_busy_ratio_max is not None:
        found.append(objective.forwarding_busy_ratio_max * model.brokers / model.answer_s * per_topic)
    return min(found)


def _storms(rng: np.random.Generator, partitions: Sequence[int], demand_per_s: float) -> tuple[TenantSpec, ...]:
    """Returns storms with unequal demands; the first begins early, and half of the others come and go."""
    parts = rng.lognormal(0.0, 0.7, len(partitions))
    requests_max = min(_CLIENT_REQUESTS_PER_S, _STORM_REQUESTS_PER_S / len(partitions))
    storms = []
    for i, per_topic in enumerate(partitions):
        demand = demand_per_s * float(parts[i] / parts.sum())
        topics = max(1, math.ceil(demand / per_topic / requests_max), round(_log_uniform(rng, 0.6, 50)))
        comes_and_goes = i > 0 and bool(rng.random() < 0.5)
        at_s = float(rng.uniform(60, 550)) if comes_and_goes else float(rng.uniform(*_FIRST_STORM_S))
        storms.append(
            TenantSpec(
                f"storm-{i}",
                requests_per_s=demand / per_topic / topics,
                topics_per_request=topics,
                partitions_per_topic=per_topic,
                at_s=at_s,
                until_s=at_s + float(rng.uniform(100, 400)) if comes_and_goes else math.inf,
                honours=bool(rng.random() < 0.5),
                at_random=bool(rng.random() < 0.5),
                pause_every_s=float(rng.uniform(15, 60)) if i > 0 and rng.random() < 0.2 else 0.0,
                deletes=bool(rng.random() < 0.5),
            )
        )
    return tuple(storms)


def _quiet(rng: np.random.Generator, count: int, demand_per_s: float) -> tuple[TenantSpec, ...]:
    """Returns tenants that create single topics at random times."""
    each = demand_per_s / count
    requests_max = min(2.0, _QUIET_REQUESTS_PER_S / count)
    return tuple(
        TenantSpec(
            f"quiet-{i}",
            requests_per_s=float(np.clip(each / per_topic, 0.2 / count, requests_max)),
            partitions_per_topic=per_topic,
            at_s=float(rng.uniform(0.0, 20.0)),
            at_random=True,
        )
        for i in range(count)
        for per_topic in [int(rng.choice([1, 1, 2, 4]))]
    )


def _other_work(rng: np.random.Generator) -> tuple[OtherWork, ...]:
    """Returns a time in which the controller has much other work, as after a restart of a broker, or none."""
    if rng.random() >= 0.25:
        return ()
    at_s = float(rng.uniform(150, 550))
    lag_s = float(rng.choice([0.0, 1.0, 5.0]))
    return (OtherWork(at_s, at_s + float(rng.uniform(20, 90)), float(rng.uniform(0.3, 0.95)), lag_s),)


def _delivery(rng: np.random.Generator) -> Delivery:
    silences: tuple[tuple[float, float], ...] = ()
    if rng.random() < 0.15:
        at_s = float(rng.uniform(250, 500))
        silences = ((at_s, at_s + float(rng.uniform(30, 180))),)
    return Delivery(every=int(rng.choice([1, 1, 1, 2])), late_s=float(rng.uniform(0.5, 6.0)), silences=silences)
