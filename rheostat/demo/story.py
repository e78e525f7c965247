"""The story, in order. Numbers that make it: see KIP-73's rule "the throttle must be above BytesInPerSec".

Producers write 3 MB/s, the operator throttles at 4.5 MB/s, so by that rule the move ends. It never does: the leader's
quota also carries the in-sync follower, so keeping up takes 3 × (1 in sync + 1 adding) = 6 MB/s. Where a busy machine lets
producers write less, the operator goes by what they do write, and the story is the same.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from contextlib import ExitStack
from typing import Any

from kafka.admin import NewTopic

from rheostat.console.logs import set_up_logs
from rheostat.console.output import out
from rheostat.console.rich_console import console_for
from rheostat.demo.measured import wait_until_measured
from rheostat.demo.move import MoveWatch
from rheostat.demo.probe import LatencyProbe
from rheostat.demo.processes import DemoProcesses
from rheostat.demo.rescue import LOOK_S, judge_decisions, judge_optimum, rescue
from rheostat.demo.summary import DemoSummary
from rheostat.demo.view import DemoView
from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL
from rheostat.jvm.artifacts import resolve_artifacts
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.load import ProducerLoad
from rheostat.lab.tools import reassign_partitions
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.units import rate_text, size_text
from tuner.core.throttle_limits import MB

TOPIC = "orders"
PARTITIONS = 4
LEADER, FOLLOWER, DESTINATION = 1, 2, 3
BROKERS = 3
PRELOAD_BYTES = 120 * MB
PRELOAD_S_MAX = 60.0
WRITE_BYTES_PER_S = 3 * MB
RECORD_BYTES = 10_000
THROTTLE_RATIO = 1.5  # Of what producers write: as every guide advises, and less than the 2 that it takes.
_NEARLY = 0.9
CEILING_BYTES_PER_S = 30 * MB

# The quota lets clumps pass in an 11 s rhythm; the first holds a burst, the trend is judged over the last one, which is whole.
QUOTA_PERIOD_S = 11.0
WATCH_S = 25.0
BASELINE_S = 3.0
PRODUCERS_S_MAX = 20.0  # Until they write what they were told; a JVM starts first.
AFTER_S = 6.0
CYCLE_S = 2.0


def run_demo(*, as_json: bool, keep: bool) -> int:
    """Tells the story; 0 only when all of it held."""
    summary = DemoSummary(rate_bytes_per_s_max=CEILING_BYTES_PER_S)
    began = time.monotonic()
    console = console_for(sys.stderr if as_json else sys.stdout)
    with DemoView(console) as view:
        artifacts = resolve_artifacts(view.say)
        view.now("starting a Kafka cluster: one controller, three brokers")
        with Lab(LabSpec(brokers=BROKERS), artifacts=artifacts) as lab:
            view.say(f"a real Kafka cluster is up: 1 controller, 3 brokers, in {lab.start_s:.1f} s")
            parts = _tell(lab, view, summary)
            summary.all_s = round(time.monotonic() - began, 1)
            summary.tell(view)
            if as_json:
                out(json.dumps(summary.as_json(), indent=2))
            if keep:
                _stay(lab, parts, view)
    return EXIT_NOT_WELL if summary.faults() else EXIT_DONE


def _tell(lab: Lab, view: DemoView, summary: DemoSummary) -> DemoProcesses:
    with ExitStack() as stack:
        parts = DemoProcesses(lab, rate_bytes_per_s_max=CEILING_BYTES_PER_S, cycle_s=CYCLE_S)
        # Our own lines go where the children's go, not onto the screen.
        set_up_logs(stack.enter_context(parts.log.open("a")))
        stack.callback(parts.stop)
        view.say("rheostat starts to measure: collector and Spark; its tuner, which acts, does not run yet")
        parts.measure()
        _fill(lab, view)
        wait_until_measured(parts, view, BROKERS)
        kafka = lab.kafka_settings()
        load = stack.enter_context(
            ProducerLoad(
                lab.artifacts,
                lab.bootstrap_servers,
                TOPIC,
                rate_bytes_per_s=WRITE_BYTES_PER_S,
                record_bytes=RECORD_BYTES,
            )
        )
        probe = stack.enter_context(LatencyProbe(kafka, TOPIC, PARTITIONS))
        client = stack.enter_context(ClusterClient(kafka, "demo"))
        watch = MoveWatch(client, TOPIC, PARTITIONS, LEADER, DESTINATION)
        view.say(f"producers begin: they are to write {rate_text(WRITE_BYTES_PER_S)}")
        quiet_s = time.monotonic()
        _watch(parts, watch, view, quiet_s + BASELINE_S, "before the move")
        while time.monotonic() < quiet_s + PRODUCERS_S_MAX and not _at_full_rate(_newest_rate(watch)):
            _watch(parts, watch, view, time.monotonic() + LOOK_S, "before the move: producers get going")
        written = _written(_newest_rate(watch), view)
        throttle = throttle_of(written)

        started_s = _reassign(lab, view, throttle)
        view.head("The stall")
        view.say(
            f"the throttle, {rate_text(throttle)}, is above the {rate_text(written)} that producers write, as every guide "
            "asks: so it should end"
        )
        stall = f"throttle {rate_text(throttle)}, producers {rate_text(written)}"
        _watch(parts, watch, view, started_s + WATCH_S, stall)
        load.check()
        trend = watch.trend_bytes_per_s(time.monotonic() - QUOTA_PERIOD_S)
        write = watch.write_bytes_per_s(started_s) or WRITE_BYTES_PER_S
        before = watch.looks[-1]
        summary.trend_before_bytes_per_s = trend
        if trend is not None and before.remaining_bytes is not None:
            word = "falls behind by" if trend > 0 else "gains"
            view.say(
                f"after {WATCH_S:.0f} s: {size_text(before.remaining_bytes)} remain; the move {word} {rate_text(abs(trend))}"
            )
            if trend > 0:
                view.say(
                    f"it never ends: the same throttle also carries the replica on broker {FOLLOWER}, which is in sync, so to keep "
                    f"up takes 2 × {rate_text(write)} = {rate_text(2 * write)}"
                )

        view.head("The rescue")
        tuner_s = time.monotonic()
        summary.stalled_before_s = round(tuner_s - started_s, 1)
        ended_s = rescue(parts, view, watch)
        if ended_s is not None:
            summary.completed = True
            summary.rescue_s = round(ended_s - tuner_s, 1)
            view.say("the move is complete", style="bold green")
        after_s = time.monotonic()
        parts.stop()
        summary.write_bytes_per_s = write
        judge_optimum(summary, float(before.remaining_bytes or 0), write)
        judge_decisions(summary, parts.settings, tuner_s)
        _watch(parts, watch, view, after_s + AFTER_S, "the quiet after")
        summary.left = watch.throttle_keys()
        summary.throttle_keys_left = len(summary.left)
        summary.produce_p99_ms = {
            "before": probe.p99_ms(quiet_s, tuner_s),
            "during": probe.p99_ms(tuner_s, ended_s or after_s),
            "after": probe.p99_ms(after_s, time.monotonic()),
        }
        load.check()
    return parts


def _fill(lab: Lab, view: DemoView) -> None:
    replicas = {p: [LEADER, FOLLOWER] for p in range(PARTITIONS)}
    with lab.admin() as admin:
        admin.create_topics([NewTopic(TOPIC, num_partitions=-1, replication_factor=-1, replica_assignments=replicas)])
    view.now(f"writing {size_text(PRELOAD_BYTES)} into topic {TOPIC}, on brokers {LEADER} and {FOLLOWER}")
    with ProducerLoad(
        lab.artifacts,
        lab.bootstrap_servers,
        TOPIC,
        rate_bytes_per_s=None,
        record_bytes=100_000,
        total_bytes=PRELOAD_BYTES,
        properties=("batch.size=800000", "linger.ms=5"),
    ) as preload:
        preload.wait(PRELOAD_S_MAX)
    view.say(
        f"topic {TOPIC}: {PARTITIONS} partitions, {size_text(PRELOAD_BYTES)}, on brokers {LEADER} (leader) and {FOLLOWER}"
    )


def throttle_of(write_bytes_per_s: float) -> int:
    """In whole tenths of a MB/s."""
    return max(1, round(THROTTLE_RATIO * write_bytes_per_s / 100_000)) * 100_000


def _newest_rate(watch: MoveWatch) -> float | None:
    return watch.write_bytes_per_s(time.monotonic() - BASELINE_S)


def _at_full_rate(found_bytes_per_s: float | None) -> bool:
    return found_bytes_per_s is not None and found_bytes_per_s >= _NEARLY * WRITE_BYTES_PER_S


def _written(found_bytes_per_s: float | None, view: DemoView) -> float:
    """What producers do write; they may be held back by a busy machine, and never write more."""
    if found_bytes_per_s is None or found_bytes_per_s <= 0 or _at_full_rate(found_bytes_per_s):
        return WRITE_BYTES_PER_S
    view.say(f"this machine is busy: they write {rate_text(found_bytes_per_s)}")
    return found_bytes_per_s


def _reassign(lab: Lab, view: DemoView, throttle_bytes_per_s: int) -> float:
    target = {(TOPIC, p): [LEADER, DESTINATION] for p in range(PARTITIONS)}
    reassign_partitions(
        lab.artifacts, lab.bootstrap_servers, target, "--execute", "--throttle", str(throttle_bytes_per_s)
    )
    view.say(
        f"the operator moves it: kafka-reassign-partitions --execute --throttle {throttle_bytes_per_s} "
        f"(broker {FOLLOWER} → broker {DESTINATION})"
    )
    return time.monotonic()


def _watch(parts: DemoProcesses, watch: MoveWatch, view: DemoView, until_s: float, what: str) -> None:
    while time.monotonic() < until_s:
        parts.look()
        watch.show(view, what)
        threading.Event().wait(LOOK_S)


def _stay(lab: Lab, parts: DemoProcesses, view: DemoView) -> None:
    """rheostat runs on as well: whoever starts a move of their own sees what it makes of it."""
    view.head("The cluster and rheostat stay up until Ctrl-C. To look around:")
    rheostat, config, back = f"{sys.executable} -m rheostat", lab.home / "rheostat.yaml", lab.home / "back.json"
    back.write_text(json.dumps(_plan_back()))
    view.say(f"the status page, in a browser: {parts.page}")
    view.say(f"{rheostat} status --config {config}")
    view.say(f"{rheostat} doctor --config {config}")
    view.say("a move of your own, back to where the topic was, one partition after the other; the page shows it:")
    view.say(f"{rheostat} reassign {back} --partition-movements 1 --config {config}")
    view.say(f"bootstrap servers for any other client: {lab.bootstrap_servers}")
    view.say(f"logs: {lab.home / 'logs'}")
    with parts.log.open("a") as out:
        set_up_logs(out)
        try:
            parts.measure()
            parts.act()
            while True:  # Not one endless wait: a signal that comes just before it would wake nobody.
                parts.steady_state()
                threading.Event().wait(LOOK_S)
        except KeyboardInterrupt:
            view.say("going down")
        finally:
            parts.stop()


def _plan_back() -> dict[str, Any]:
    """As `kafka-reassign-partitions` takes it, too."""
    entries = [{"topic": TOPIC, "partition": p, "replicas": [LEADER, FOLLOWER]} for p in range(PARTITIONS)]
    return {"version": 1, "partitions": entries}
