"""Why the slowest second of a simulated run is slow: four seconds of two brokers, every number by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from rheostat.simulate.latency_facts import LatencyCause, find_latency_facts, latency_sentences
from tuner.simulation.latency import client_p99_ms
from tuner.simulation.numbers import Floats
from tuner.simulation.trace import RunSummary, Trace
from tuner.simulation.world import BrokerSpec, LinkStep, World

# Broker 2 writes to a disk of 100 MB/s; its link and all of broker 1 have plenty. Objective: 50 ms, so 90 % of the disk.
BROKERS = (BrokerSpec(1, 1e9, 1e9, 1e9, 1e9), BrokerSpec(2, 1e9, 1e9, 100e6, 1e9))
SUMMARY = RunSummary(True, 3.0, 2.0, 2.0, 0.0, 0.0, 1.0, 0.0, 0.0, 100e6)


def trace_of(copied: list[float], clients: list[float], throttle: float) -> Trace:
    """Returns a run in which these MB/s reach broker 2."""

    def series(values: Floats | float) -> Floats:
        return np.stack([np.zeros(4), np.broadcast_to(values, 4)], axis=1) * 1e6

    copies, produced = np.array(copied), np.array(clients)
    utilisation = (series(copies) + series(produced)) / 100e6
    world = World(seed=1, brokers=BROKERS, partitions=(), duration_s_max=4.0)
    nothing, free = np.zeros((4, 2)), np.full((4, 2), math.inf)
    return Trace(
        world, "by hand", SUMMARY, utilisation=utilisation, p99_ms=client_p99_ms(utilisation, world.latency),
        client_in_bytes_per_s=series(produced), client_out_bytes_per_s=nothing, catch_up_in_bytes_per_s=series(copies),
        catch_up_out_bytes_per_s=nothing, leader_rate_bytes_per_s=free,
        follower_rate_bytes_per_s=np.where(np.arange(2) == 1, throttle * 1e6, math.inf) * np.ones((4, 1)),
        remaining_bytes=np.zeros(4),
    )  # fmt: skip


CALM = [10.0, 10.0, 10.0, 0.0]


@pytest.mark.parametrize(
    ("copied", "clients", "throttle", "cause"),
    [
        ([50.0, 60.0, 50.0, 0.0], CALM, 50.0, LatencyCause.WITHIN_OBJECTIVE),
        ([50.0, 85.0, 50.0, 0.0], CALM, 50.0, LatencyCause.BURST),
        ([85.0, 86.0, 85.0, 0.0], CALM, 85.0, LatencyCause.THROTTLE),
        ([50.0, 85.0, 50.0, 0.0], CALM, math.inf, LatencyCause.NO_THROTTLE),
        ([1.0, 1.0, 1.0, 0.0], [10.0, 95.0, 10.0, 10.0], 50.0, LatencyCause.CLIENTS),
    ],
)
def test_cause_of_the_slowest_second(
    copied: list[float], clients: list[float], throttle: float, cause: LatencyCause
) -> None:
    facts = find_latency_facts(trace_of(copied, clients, throttle))
    assert facts is not None
    assert (facts.cause, facts.broker, facts.at_s, facts.resource) == (cause, 2, 1, "disk's write rate")


def test_sentences_explain_a_burst() -> None:
    facts = find_latency_facts(trace_of([50.0, 85.0, 50.0, 0.0], CALM, 50.0))
    assert facts is not None
    assert latency_sentences(facts) == [
        "Broker 2 is the slowest: after 1.0 s its p99 is 100 ms, above the objective of 50 ms; 1 of 3 seconds miss it.",
        "In that second, copies of 85.0 MB/s and other traffic of 10.0 MB/s use 95.0 % of its disk's write rate.",
        "Kafka averages the throttle of 50.0 MB/s over 11 s, so single seconds can exceed it.",
        "At 50.0 MB/s this second's p99 would be 12 ms.",
    ]


def test_sentences_of_a_calm_run_name_no_reason() -> None:
    facts = find_latency_facts(trace_of([50.0, 60.0, 50.0, 0.0], [0.0] * 4, 50.0))
    assert facts is not None
    assert latency_sentences(facts) == [
        "Broker 2 is the slowest: after 1.0 s its p99 is 12 ms, within the objective of 50 ms.",
        "In that second, copies of 60.0 MB/s use 60.0 % of its disk's write rate.",
    ]


def test_seconds_after_the_moves_do_not_count() -> None:
    facts = find_latency_facts(trace_of([50.0, 60.0, 50.0, 0.0], [0.0, 0.0, 0.0, 99.0], 50.0))
    assert facts is not None
    assert (facts.at_s, facts.seconds, facts.seconds_over) == (1, 3, 0)


def test_slowed_link_counts_as_the_fullest_resource() -> None:
    trace = trace_of([50.0, 60.0, 50.0, 0.0], CALM, 50.0)
    world = replace(trace.world, disturbances=(LinkStep(0.0, 4.0, (2,), 0.05),))
    facts = find_latency_facts(replace(trace, world=world))
    assert facts is not None
    assert (facts.resource, facts.capacity_bytes_per_s) == ("inbound link", pytest.approx(50e6))


def test_run_without_seconds_has_no_facts() -> None:
    trace = trace_of([0.0] * 4, [0.0] * 4, 50.0)
    assert find_latency_facts(replace(trace, summary=replace(SUMMARY, duration_s=0.0))) is None
