"""A throttle is raised fourfold and lowered to a quarter on real brokers: the copy must neither burst nor stop.

There are two pairs of brokers with their own quotas, one for each method of changing the rate. A response is the 1 MiB of one
partition, two fifths of a second's budget at the lower rate. With larger responses even a constant throttle pauses for two to
three seconds, and the effect of the step could not be told apart.

A leader counts whole fetches, but a follower stores whole batches and discards the incomplete rest. The batches here are small,
so that counted bytes are stored bytes.

At such rates a second holds two fetches, and chance decides which second they fall into. A narrowly missed bound is therefore
measured twice more, and the median of the three counts.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from kafka import TopicPartition
from kafka.admin import NewTopic
from lab_parts import MakeLab
from step_kit import Growth, Hand, Ramp, Response, drive, steered

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.load import ProducerLoad
from streaming.shared.contract import Side
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.throttle_settings import LIST_KEYS, RATE_KEYS
from tuner.core.throttle_limits import MB
from tuner.runtime.throttle.actuator import KafkaThrottles

LAB = LabSpec(brokers=4)
PARTITIONS = 1
LOW, HIGH = round(2.5 * MB), 10 * MB
BEFORE, UP, DOWN = (LOW, 16.0), (HIGH, 24.0), (LOW, 20.0)  # Two windows each, and a little.
PRELOAD_BYTES = 420 * MB


UP_PEAK_MAX = 2.0  # × the new rate, in any second.
UP_SILENCE_S_MAX, DOWN_SILENCE_S_MAX = 2.0, 3.5
BY_A_HAIR = 1.25
MORE = 2


@dataclass(frozen=True, slots=True)
class Pair:
    topic: str
    source: int
    target: int
    by_law: bool


RESCUE, STEERED = Pair("rescue", 1, 2, by_law=False), Pair("steered", 3, 4, by_law=True)


def filled(lab: Lab, pairs: Sequence[Pair]) -> None:
    with lab.admin() as admin:
        admin.create_topics(
            [NewTopic(p.topic, replica_assignments={i: [p.source] for i in range(PARTITIONS)}) for p in pairs]
        )
    with ExitStack() as stack:
        loads = [
            stack.enter_context(
                ProducerLoad(
                    lab.artifacts, lab.bootstrap_servers, p.topic, rate_bytes_per_s=None, record_bytes=10_000,
                    total_bytes=PRELOAD_BYTES, properties=("batch.size=65536", "linger.ms=5"),
                )
            )
            for p in pairs
        ]  # fmt: skip
        for load in loads:
            load.wait(120)


def start_copy(lab: Lab, client: ClusterClient, pair: Pair) -> None:
    """Starts a copy of the topic, throttled to LOW on both sides."""
    rates = {pair.source: {RATE_KEYS[Side.LEADER]: str(LOW)}, pair.target: {RATE_KEYS[Side.FOLLOWER]: str(LOW)}}
    assert set(client.alter_broker_configs(rates).values()) == {None}
    listed = {
        LIST_KEYS[Side.LEADER]: ",".join(f"{i}:{pair.source}" for i in range(PARTITIONS)),
        LIST_KEYS[Side.FOLLOWER]: ",".join(f"{i}:{pair.target}" for i in range(PARTITIONS)),
    }
    assert client.alter_topic_configs({pair.topic: listed}) == {pair.topic: None}
    with lab.admin() as admin:
        admin.alter_partition_reassignments(
            {TopicPartition(pair.topic, i): [pair.source, pair.target] for i in range(PARTITIONS)}
        )


def measured_responses(lab: Lab, pair: Pair) -> list[Response]:
    """Runs a copy through the three phases; returns the responses before, up and down."""
    home = lab.nodes[pair.target].home / "data"
    with (
        ClusterClient(lab.kafka_settings(), f"step-{pair.topic}") as client,
        Growth([home / f"{pair.topic}-{i}" for i in range(PARTITIONS)]) as growth,
    ):
        throttles = KafkaThrottles(client)
        start_copy(lab, client, pair)
        hand: Hand
        if pair.by_law:
            hand = steered(throttles, growth, pair.source, pair.target, LOW)
        else:
            hand = Ramp(throttles, pair.source, pair.target, LOW)
        spans = drive(hand, (BEFORE, UP, DOWN))
        assert {s.topic for s in client.reassignments()} >= {pair.topic}, "the copy ended before the steps did"
        return [growth.response(*span) for span in spans]


@pytest.fixture(scope="module")
def responses(lab: Lab) -> dict[str, list[Response]]:
    pairs = (RESCUE, STEERED)
    filled(lab, pairs)
    with ThreadPoolExecutor(len(pairs)) as pool:
        return dict(
            zip((p.topic for p in pairs), pool.map(lambda pair: measured_responses(lab, pair), pairs), strict=True)
        )


def relative_to_bounds(up: Response, down: Response) -> list[float]:
    """Returns each bounded figure relative to its bound."""
    return [
        up.peak_bytes / (UP_PEAK_MAX * HIGH),
        up.silence_s / UP_SILENCE_S_MAX,
        down.silence_s / DOWN_SILENCE_S_MAX,
    ]


def told(name: str, round_: Sequence[Response]) -> str:
    phases = (("before", BEFORE), ("× 4 up", UP), ("÷ 4 down", DOWN))
    lines = [
        response.told(f"{name}, {phase}", rate) for response, (phase, (rate, _)) in zip(round_, phases, strict=True)
    ]
    return "\n".join(lines)


def measured_on_new_brokers(make_lab: MakeLab, pair: Pair) -> list[Response]:
    """Repeats the measurement on new brokers.

    An idle quota lets its whole window pass at once when the next copy begins, and the echoes would disturb the measurement.
    """
    lab = make_lab(LAB)
    filled(lab, [pair])
    return measured_responses(lab, pair)


@pytest.mark.campaign
@pytest.mark.timeout(600)
@pytest.mark.parametrize("pair", [pytest.param(RESCUE, id="rescue"), pytest.param(STEERED, id="law")])
def test_rate_step_causes_no_burst_and_no_silence(
    responses: dict[str, list[Response]], make_lab: MakeLab, pair: Pair
) -> None:
    rounds = [responses[pair.topic]]
    if 1.0 < max(relative_to_bounds(*rounds[0][1:])) <= BY_A_HAIR:
        rounds += [measured_on_new_brokers(make_lab, pair) for _ in range(MORE)]
    figures = "\n".join(told(pair.topic, each) for each in rounds)
    sys.stdout.write(f"\n{figures}\n")

    def median(of: Callable[[Response], float], phase: int) -> float:
        return statistics.median(of(each[phase]) for each in rounds)

    assert median(lambda up: up.peak_bytes, 1) <= UP_PEAK_MAX * HIGH, figures
    assert median(lambda up: up.silence_s, 1) <= UP_SILENCE_S_MAX, figures
    assert median(lambda down: down.silence_s, 2) <= DOWN_SILENCE_S_MAX, figures
