"""Measures the latency of producers while a returned broker gets its leaders back: by Kafka's own election, and by rheostat's.

Three brokers run on this machine. All partitions prefer broker 3, which is killed. Clients then write 300 MB that it has to copy
when it returns. Kafka looks for preferred leaders every second (``leader.imbalance.check.interval.seconds``). rheostat's controller
has the latency of a probing client as its signal, and three times the p99 before the loss of the broker as its limit. Each run
has a new cluster.

Kafka gives the leaders back within seconds, and rheostat within minutes. Both are compared over the same time: the first two
minutes after the broker is listed again. ``whole_p99_ms`` covers all of a run, until the broker leads all its partitions.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import structlog
from kafka.admin import NewTopic

from benchmarks.links.watch import say
from benchmarks.moves.writing import Writer
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.load import ProducerLoad
from streaming.shared.contract import BrokerSignal
from streaming.shared.kafka.reassignments import ReassignmentClient
from tuner.api.leadership_status_store import LeadershipStatusStore
from tuner.control.leadership.policy import LeadershipLimits
from tuner.control.throttle.objective import Objective
from tuner.core.cluster import LiveCluster, Observation
from tuner.core.operator_orders import Orders
from tuner.journal.entries import Entry
from tuner.runtime.background_call import ThreadCaller
from tuner.runtime.clock import Clock
from tuner.runtime.leadership.loop import LeadershipController, LeadershipPorts

KAFKA, RHEOSTAT = "kafka", "rheostat"
TOPIC, PARTITIONS, RETURNING = "orders", 40, 3
MISSED_BYTES = 300_000_000
LOAD_BYTES_PER_S = 1_000_000.0
LIMIT_RATIO, LIMIT_MS_MIN = (
    3.0,
    100.0,
)  # The latency limit, of the p99 before: it varies with all that the machine does.
QUIET_S, SIGNAL_S, WORST_S = 60.0, 10.0, 10.0
COMPARED_S = 120.0  # From the return of the broker on; the same time for both.
STEP_S_MAX, ELECTIONS_S_MAX = 120.0, 1_200.0
_POLL_S = 0.5
_LARGE_BATCHES = ("batch.size=100000", "linger.ms=5")


def measure(policy: str) -> dict[str, Any]:
    """Returns the figures of one run.

    Args:
        policy: ``KAFKA`` or ``RHEOSTAT``: the program that elects.
    """
    settings = {
        "auto.leader.rebalance.enable": str(policy == KAFKA).lower(),
        "leader.imbalance.check.interval.seconds": "1",
    }
    with (
        Lab(LabSpec(brokers=3, settings=settings)) as lab,
        ReassignmentClient(lab.kafka_settings(), "bench") as client,
    ):
        replicas = {p: [RETURNING, 1 + p % 2] for p in range(PARTITIONS)}
        with lab.admin() as admin:
            admin.create_topics([NewTopic(TOPIC, replica_assignments=replicas)])
        writer = Writer(lab.bootstrap_servers, [TOPIC], PARTITIONS)
        try:
            with ProducerLoad(lab.artifacts, lab.bootstrap_servers, TOPIC, rate_bytes_per_s=LOAD_BYTES_PER_S):
                time.sleep(QUIET_S)
                now_s = time.monotonic()
                quiet_p99_ms = _p99(writer.latencies_ms(now_s - QUIET_S / 2, now_s))
                figures = _measure_return(policy, lab, client, writer, max(LIMIT_MS_MIN, LIMIT_RATIO * quiet_p99_ms))
                return figures | {"quiet_p99_ms": quiet_p99_ms}
        finally:
            writer.stop()


def _measure_return(
    policy: str, lab: Lab, client: ReassignmentClient, writer: Writer, limit_ms: float
) -> dict[str, Any]:
    lab.nodes[RETURNING].kill()
    _wait(lambda: _led(client) == 0, STEP_S_MAX, "the other brokers lead")
    with ProducerLoad(
        lab.artifacts, lab.bootstrap_servers, TOPIC, rate_bytes_per_s=None, record_bytes=10_000, total_bytes=MISSED_BYTES,
        properties=_LARGE_BATCHES,
    ) as load:  # fmt: skip
        load.wait(STEP_S_MAX)
    lab.start_again(RETURNING)
    _wait(lambda: RETURNING in {e.node for e in client.brokers()}, STEP_S_MAX, "the broker has returned")
    began_s = time.monotonic()
    with ReassignmentClient(lab.kafka_settings(), "bench-elections") as background:
        loop = _controller(client, background, writer, limit_ms) if policy == RHEOSTAT else None

        def all_are_back() -> bool:
            if loop is not None:
                loop.tick()
            return _led(client) == PARTITIONS

        _wait(all_are_back, ELECTIONS_S_MAX, "all leaders are back")
    elections_s = time.monotonic() - began_s
    # Both runs last until the end of the compared time, and until their last records are acknowledged.
    time.sleep(max(COMPARED_S - elections_s, 0.0) + WORST_S)
    starts = began_s + np.arange(0.0, COMPARED_S - WORST_S + 1.0, WORST_S / 2)
    return {
        "elections_s": elections_s,
        "p99_ms": _p99(writer.latencies_ms(began_s, began_s + COMPARED_S)),
        "worst_p99_ms": max(_p99(writer.latencies_ms(s, s + WORST_S)) for s in starts),
        "whole_p99_ms": _p99(writer.latencies_ms(began_s, began_s + max(COMPARED_S, elections_s))),
    }


def _controller(
    client: ReassignmentClient, background: ReassignmentClient, writer: Writer, limit_ms: float
) -> LeadershipController:
    """Returns rheostat's controller, with the latency of the probe as its only signal.

    Args:
        background: used only by the controller's own thread.
    """

    def latest() -> Observation:
        now_s, now_ms = time.monotonic(), round(1000 * time.time())
        signal = BrokerSignal(
            "lab", RETURNING, now_ms, now_ms, 6, 1.0,
            client_in_bytes_per_s=LOAD_BYTES_PER_S, produce_p99_ms=_p99(writer.latencies_ms(now_s - SIGNAL_S, now_s)),
        )  # fmt: skip
        brokers = frozenset(endpoint.node for endpoint in client.brokers())
        return Observation(now_ms, LiveCluster(brokers), broker_signals={RETURNING: signal}, move_signals={})

    ports = LeadershipPorts(
        api=background,
        caller=ThreadCaller(),
        latest=latest,
        orders=Orders,
        vetoes=tuple,
        journal=_say_intents,
        write_refusal=lambda: None,
        observer=LeadershipStatusStore("lab"),
    )
    limits = LeadershipLimits(acts=True, objective=Objective(latency_ms=limit_ms), signal_age_s_max=30.0)
    return LeadershipController(ports, limits, Clock(time.time, time.monotonic), dry_run=False)


def _say_intents(entries: list[Entry]) -> None:
    for entry in entries:
        if entry.kind == "intent":
            say(entry.text)


def _led(client: ReassignmentClient) -> int:
    return sum(state.leader == RETURNING for state in client.partitions([TOPIC]))


def _p99(latencies_ms: list[float]) -> float:
    return float(np.percentile(latencies_ms, 99)) if latencies_ms else 0.0


def _wait(is_done: Callable[[], bool], longest_s: float, what: str) -> None:
    until_s = time.monotonic() + longest_s
    while not is_done():
        if time.monotonic() > until_s:
            raise TimeoutError(f"not within {longest_s:.0f} s: {what}")
        time.sleep(_POLL_S)


def _line(policy: str, row: dict[str, Any]) -> str:
    return (
        f"{policy:8}  p99 of two minutes {row['p99_ms']:.1f} ms, their worst ten seconds {row['worst_p99_ms']:.1f} ms, "
        f"whole run {row['whole_p99_ms']:.1f} ms, before {row['quiet_p99_ms']:.1f} ms; "
        f"all leaders after {row['elections_s']:.0f} s"
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.elections", description=__doc__)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    # The controller logs its decisions; the output has nothing but the figures.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    rows = {}
    for policy in (KAFKA, RHEOSTAT):
        rows[policy] = measure(policy)
        say(_line(policy, rows[policy]))
    ratio = {key: rows[RHEOSTAT][key] / rows[KAFKA][key] for key in ("p99_ms", "worst_p99_ms")}
    say(f"rheostat ÷ Kafka: p99 of two minutes {ratio['p99_ms']:.2f}, worst ten seconds {ratio['worst_p99_ms']:.2f}")
    if options.json:
        print(json.dumps({"policies": rows, "ratio": ratio}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
