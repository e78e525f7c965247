"""Explains the slowest second of a simulated run: the broker, the traffic that fills its link or disk, and the throttle's part."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from streaming.shared.units import rate_text, share_text, span_text
from tuner.simulation.latency import client_p99_ms
from tuner.simulation.load import link_factors
from tuner.simulation.numbers import Floats
from tuner.simulation.trace import Trace

_BURST_RATIO_MIN = 1.02  # Copied bytes ÷ throttle. Below this ratio, the copies count as within the throttle.


class LatencyCause(StrEnum):
    """Why the slowest second is slow."""

    WITHIN_OBJECTIVE = "within_objective"
    CLIENTS = "clients"  # Clients and in-sync replication exceed the objective without any copy.
    NO_THROTTLE = "no_throttle"
    BURST = "burst"  # The copies exceed their throttle in this second; at the throttle's rate the objective holds.
    THROTTLE = "throttle"  # The throttle allows more than clients leave.


@dataclass(frozen=True, slots=True)
class LatencyFacts:
    """The slowest second of a run while partitions move.

    Attributes:
        at_s: the second, in simulated time.
        p99_ms_at_throttle: the p99 of this second if the copies had not exceeded the throttle.
        resource: the fullest resource of this broker, such as "inbound link".
        other_bytes_per_s: clients and in-sync replication on this resource.
        throttle_bytes_per_s: ∞ if no throttle is set on this side.
        seconds_over: seconds in which at least one broker misses the objective.
    """

    cause: LatencyCause
    broker: int
    at_s: int
    p99_ms: float
    p99_ms_at_throttle: float
    objective_ms: float
    resource: str
    capacity_bytes_per_s: float
    utilisation: float
    copied_bytes_per_s: float
    other_bytes_per_s: float
    throttle_bytes_per_s: float
    quota_window_s: float
    seconds_over: int
    seconds: int


@dataclass(frozen=True, slots=True)
class _Resource:
    """One direction of a broker's link or disk in one second."""

    name: str
    capacity_bytes_per_s: float
    client_bytes_per_s: float
    copied_bytes_per_s: float
    throttle_bytes_per_s: float

    @property
    def utilisation_without_in_sync(self) -> float:
        """The utilisation by clients and copies alone, because the trace does not have in-sync replication."""
        return (self.client_bytes_per_s + self.copied_bytes_per_s) / self.capacity_bytes_per_s


def find_latency_facts(trace: Trace) -> LatencyFacts | None:
    """Returns the facts on the slowest second; None if nothing moved."""
    model, fetch = trace.world.latency, trace.world.fetch
    begin = int(trace.world.moves_begin_s)
    p99_ms = trace.p99_ms[begin : begin + math.ceil(trace.summary.duration_s)]
    if not p99_ms.size:
        return None
    # The table has a row for each second and a column for each broker.
    second, broker_index = divmod(int(p99_ms.argmax()), p99_ms.shape[1])
    at_s = begin + second
    utilisation = float(trace.utilisation[at_s, broker_index])
    resource = max(_resources(trace, at_s, broker_index), key=lambda candidate: candidate.utilisation_without_in_sync)
    other = max(0.0, utilisation * resource.capacity_bytes_per_s - resource.copied_bytes_per_s)
    copied_at_throttle = min(resource.copied_bytes_per_s, resource.throttle_bytes_per_s)
    facts = LatencyFacts(
        cause=LatencyCause.WITHIN_OBJECTIVE,  # Replaced below.
        broker=trace.world.brokers[broker_index].broker,
        at_s=at_s,
        p99_ms=float(p99_ms[second, broker_index]),
        p99_ms_at_throttle=_p99_ms(trace, (other + copied_at_throttle) / resource.capacity_bytes_per_s),
        objective_ms=model.objective_ms,
        resource=resource.name,
        capacity_bytes_per_s=resource.capacity_bytes_per_s,
        utilisation=utilisation,
        copied_bytes_per_s=resource.copied_bytes_per_s,
        other_bytes_per_s=other,
        throttle_bytes_per_s=resource.throttle_bytes_per_s,
        quota_window_s=fetch.quota_samples * fetch.quota_sample_s,
        seconds_over=int((p99_ms.max(axis=1) > model.objective_ms).sum()),
        seconds=len(p99_ms),
    )
    p99_ms_without_copies = _p99_ms(trace, other / resource.capacity_bytes_per_s)
    return _with_cause(facts, p99_ms_without_copies)


def latency_sentences(facts: LatencyFacts) -> list[str]:
    """Returns sentences for operators: how slow the slowest broker is and for how long, then why."""
    is_within = facts.cause is LatencyCause.WITHIN_OBJECTIVE
    bound = f"the objective of {facts.objective_ms:.0f} ms"
    over = f"above {bound}; {facts.seconds_over} of {facts.seconds} seconds miss it"
    other = f" and other traffic of {rate_text(facts.other_bytes_per_s)}" if facts.other_bytes_per_s >= 1 else ""
    return [
        f"Broker {facts.broker} is the slowest: after {span_text(facts.at_s)} its p99 is {facts.p99_ms:.0f} ms, "
        f"{f'within {bound}' if is_within else over}.",
        f"In that second, copies of {rate_text(facts.copied_bytes_per_s)}{other} use {share_text(facts.utilisation)} of its "
        f"{facts.resource}.",
        *_reason_sentences(facts),
    ]


def _reason_sentences(facts: LatencyFacts) -> list[str]:
    throttle = rate_text(facts.throttle_bytes_per_s) if math.isfinite(facts.throttle_bytes_per_s) else "none"
    match facts.cause:
        case LatencyCause.WITHIN_OBJECTIVE:
            return []
        case LatencyCause.CLIENTS:
            return ["The other traffic alone misses the objective, so no throttle can meet it."]
        case LatencyCause.NO_THROTTLE:
            return ["No throttle limits the copies."]
        case LatencyCause.BURST:
            return [
                f"Kafka averages the throttle of {throttle} over {facts.quota_window_s:.0f} s, so single seconds can exceed it.",
                f"At {throttle} this second's p99 would be {facts.p99_ms_at_throttle:.0f} ms.",
            ]
        case LatencyCause.THROTTLE:
            return [f"The throttle of {throttle} allows more than the other traffic leaves free within the objective."]


def _with_cause(facts: LatencyFacts, p99_ms_without_copies: float) -> LatencyFacts:
    exceeds_throttle = facts.copied_bytes_per_s > _BURST_RATIO_MIN * facts.throttle_bytes_per_s
    if facts.p99_ms <= facts.objective_ms:
        cause = LatencyCause.WITHIN_OBJECTIVE
    elif p99_ms_without_copies > facts.objective_ms:
        cause = LatencyCause.CLIENTS
    elif not math.isfinite(facts.throttle_bytes_per_s):
        cause = LatencyCause.NO_THROTTLE
    elif exceeds_throttle and facts.p99_ms_at_throttle <= facts.objective_ms:
        cause = LatencyCause.BURST
    else:
        cause = LatencyCause.THROTTLE
    return replace(facts, cause=cause)


def _resources(trace: Trace, at_s: int, index: int) -> list[_Resource]:
    """Returns both directions of the link and the disk of a broker in a second. In-sync replication is not in the trace."""
    spec = trace.world.brokers[index]
    link_share = float(link_factors(trace.world)[at_s, index])

    def value(series: Floats) -> float:
        return float(series[at_s, index])

    client_in, client_out = value(trace.client_in_bytes_per_s), value(trace.client_out_bytes_per_s)
    copied_in, copied_out = value(trace.catch_up_in_bytes_per_s), value(trace.catch_up_out_bytes_per_s)
    follower, leader = value(trace.follower_rate_bytes_per_s), value(trace.leader_rate_bytes_per_s)
    return [
        _Resource("inbound link", link_share * spec.link_in_bytes_per_s, client_in, copied_in, follower),
        _Resource("outbound link", link_share * spec.link_out_bytes_per_s, client_out, copied_out, leader),
        _Resource("disk's write rate", spec.disk_write_bytes_per_s, client_in, copied_in, follower),
        _Resource("disk's read rate", spec.disk_read_bytes_per_s, 0.0, copied_out, leader),
    ]


def _p99_ms(trace: Trace, utilisation: float) -> float:
    return float(client_p99_ms(np.array(utilisation), trace.world.latency))
