"""The story, in order. Numbers that make it: see KIP-73's rule "the throttle must be above BytesInPerSec".

Producers write 3 MB/s, the operator throttles at 4.5 MB/s, so by that rule the move ends. It never does: the leader's
quota also carries the in-sync follower, so keeping up takes 3 × (1 in sync + 1 adding) = 6 MB/s.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from kafka.admin import NewTopic
from rich.console import Console

from rheostat.demo.move import MoveWatch
from rheostat.demo.probe import LatencyProbe
from rheostat.demo.summary import Summary
from rheostat.demo.view import View
from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL, CommandError
from rheostat.jvm.artifacts import resolve_artifacts
from rheostat.lab import Lab, LabSpec, Load
from rheostat.lab.keeper import lab_config
from rheostat.lab.node import free_ports
from rheostat.lab.tools import reassign_partitions
from rheostat.logs import set_up_logs
from rheostat.settings import Settings, load_settings
from rheostat.status import last_entries
from rheostat.supervisor import Supervisor, children_for
from streaming.kafka.cluster import ClusterClient
from tuner.model.limits import MB
from tuner.plan.move_time import SideLoad, fluid_optimum_s

TOPIC = "orders"
PARTITIONS = 4
LEADER, FOLLOWER, DESTINATION = 1, 2, 3
PRELOAD_BYTES = 240 * MB
PRELOAD_S_MAX = 150.0
WRITE_BYTES_PER_S = 3 * MB
RECORD_BYTES = 10_000
THROTTLE_BYTES_PER_S = 4_500_000
CEILING_BYTES_PER_S = 30 * MB

# The quota lets clumps pass in an 11 s rhythm; the first holds a burst, the trend is judged over what follows.
QUOTA_PERIOD_S = 11.0
WATCH_S = 27.0
BASELINE_S = 6.0
AFTER_S = 6.0
RESCUE_S_MAX = 150.0
_LOOK_S = 0.5


def run_demo(*, as_json: bool, keep: bool) -> int:
    """Tells the story; 0 only when all of it held."""
    summary = Summary(rate_bytes_per_s_max=CEILING_BYTES_PER_S)
    began = time.monotonic()
    console = Console(stderr=as_json)
    with View(console) as view:
        artifacts = resolve_artifacts(view.say)
        view.now("starting a Kafka cluster: one controller, three brokers")
        with Lab(LabSpec(brokers=3), artifacts=artifacts) as lab:
            view.say(f"a real Kafka cluster is up: 1 controller, 3 brokers, in {lab.start_s:.1f} s")
            _tell(lab, view, summary)
            summary.all_s = round(time.monotonic() - began, 1)
            summary.tell(view)
            if as_json:
                sys.stdout.write(json.dumps(summary.as_json(), indent=2) + "\n")
                sys.stdout.flush()
            if keep:
                _stay(lab, view)
    return EXIT_NOT_WELL if summary.faults() else EXIT_DONE


def _tell(lab: Lab, view: View, summary: Summary) -> None:
    with ExitStack() as stack:
        _fill(lab, view)
        kafka = lab.kafka_settings()
        load = stack.enter_context(
            Load(
                lab.artifacts, lab.bootstrap_servers, TOPIC,
                rate_bytes_per_s=WRITE_BYTES_PER_S, record_bytes=RECORD_BYTES,
            )
        )  # fmt: skip
        probe = stack.enter_context(LatencyProbe(kafka, TOPIC, PARTITIONS))
        client = stack.enter_context(ClusterClient(kafka, "demo"))
        watch = MoveWatch(client, TOPIC, PARTITIONS, LEADER, DESTINATION)
        view.say(f"producers write {WRITE_BYTES_PER_S / MB:.0f} MB/s")
        _watch(watch, view, BASELINE_S, "the quiet before")

        started_s = _reassign(lab, view)
        view.head("The stall")
        _watch(
            watch,
            view,
            WATCH_S,
            f"throttle {THROTTLE_BYTES_PER_S / MB:.1f} MB/s, producers {WRITE_BYTES_PER_S / MB:.0f} MB/s",
        )
        load.check()
        # The first window lets a burst through, whatever the throttle; the trend is what comes after it.
        trend = watch.trend_bytes_per_s(started_s + QUOTA_PERIOD_S)
        write = watch.write_bytes_per_s(started_s) or WRITE_BYTES_PER_S
        before = watch.looks[-1]
        summary.trend_before_bytes_per_s = trend
        if trend is not None and before.remaining_bytes is not None:
            word = "falls behind by" if trend > 0 else "gains"
            view.say(
                f"after {WATCH_S:.0f} s: {before.remaining_bytes / MB:.0f} MB remain; the move {word} {abs(trend) / MB:.1f} MB/s"
            )

        view.head("The rescue")
        tuner_s = time.monotonic()
        summary.stalled_before_s = round(tuner_s - started_s, 1)
        settings, ended_s = _rescue(lab, view, watch, stack)
        if ended_s is not None:
            summary.completed = True
            summary.rescue_s = round(ended_s - tuner_s, 1)
            view.say("the move is complete", style="bold green")
        _optimum(summary, float(before.remaining_bytes or 0), write)
        _judge_decisions(summary, settings, tuner_s)
        after_s = time.monotonic()
        _watch(watch, view, AFTER_S, "the quiet after")
        summary.left = watch.throttle_keys()
        summary.throttle_keys_left = len(summary.left)
        summary.produce_p99_ms = {
            "before": probe.p99_ms(started_s - BASELINE_S, tuner_s),
            "during": probe.p99_ms(tuner_s, ended_s or after_s),
            "after": probe.p99_ms(after_s, time.monotonic()),
        }
        load.check()


def _fill(lab: Lab, view: View) -> None:
    replicas = {p: [LEADER, FOLLOWER] for p in range(PARTITIONS)}
    with lab.admin() as admin:
        admin.create_topics([NewTopic(TOPIC, num_partitions=-1, replication_factor=-1, replica_assignments=replicas)])
    view.now(f"writing {PRELOAD_BYTES / MB:.0f} MB into topic {TOPIC}, on brokers {LEADER} and {FOLLOWER}")
    with Load(
        lab.artifacts, lab.bootstrap_servers, TOPIC,
        rate_bytes_per_s=None, record_bytes=100_000, total_bytes=PRELOAD_BYTES, properties=("batch.size=800000", "linger.ms=5"),
    ) as preload:  # fmt: skip
        preload.wait(PRELOAD_S_MAX)
    view.say(
        f"topic {TOPIC}: {PARTITIONS} partitions, {PRELOAD_BYTES / MB:.0f} MB, on brokers {LEADER} (leader) and {FOLLOWER}"
    )


def _reassign(lab: Lab, view: View) -> float:
    target = {(TOPIC, p): [LEADER, DESTINATION] for p in range(PARTITIONS)}
    reassign_partitions(
        lab.artifacts, lab.bootstrap_servers, target, "--execute", "--throttle", str(THROTTLE_BYTES_PER_S)
    )
    view.say(
        f"the operator moves it: kafka-reassign-partitions --execute --throttle {THROTTLE_BYTES_PER_S} "
        f"(broker {FOLLOWER} → broker {DESTINATION})"
    )
    return time.monotonic()


def _watch(watch: MoveWatch, view: View, for_s: float, what: str) -> None:
    until = time.monotonic() + for_s
    while time.monotonic() < until:
        _line(watch, view, what)
        threading.Event().wait(_LOOK_S)


def _line(watch: MoveWatch, view: View, what: str) -> bool:
    """Shows the move; whether it still runs."""
    look = watch.look()
    remains = "unknown" if look.remaining_bytes is None else f"{look.remaining_bytes / MB:.0f} MB remain"
    view.now(f"{what}: {remains}" if look.moving else what)
    return look.moving


def _rescue(lab: Lab, view: View, watch: MoveWatch, stack: ExitStack) -> tuple[Settings, float | None]:
    """Starts rheostat as a user would and waits; when the move ended, or None."""
    port = free_ports(1)[0]
    config = lab.home / "rheostat.yaml"
    tuner: dict[str, Any] = {"rate_bytes_per_s_max": CEILING_BYTES_PER_S, "http": {"port": port}}
    config.write_text(lab_config(lab, **tuner))
    log = lab.home / "logs" / "rheostat.log"
    set_up_logs(stack.enter_context(log.open("a")))  # Our own lines go where the children's go, not onto the screen.
    supervisor = Supervisor(children_for(config, dry_run=False), log_to=log)
    stack.callback(supervisor.stop)
    view.say("rheostat starts: collector, Spark, tuner")
    until = time.monotonic() + RESCUE_S_MAX
    told: set[tuple[int, str]] = set()
    ended_s: float | None = None
    while time.monotonic() < until:
        supervisor.look()
        what = _decisions(port, view, told)
        moving = _line(watch, view, what)
        if not moving and ended_s is None:
            ended_s = time.monotonic()
            view.say("the last replica has joined; the throttle goes back", style="green")
        if ended_s is not None and not watch.throttle_keys():
            break
        if restarts := [child.name for child in supervisor.children if child.restarts]:
            raise CommandError(f"{', '.join(restarts)} ended by itself: {_tail(log)}")
        threading.Event().wait(_LOOK_S)
    _decisions(port, view, told)
    supervisor.stop()
    return load_settings(config), ended_s


def _decisions(port: int, view: View, told: set[tuple[int, str]]) -> str:
    """Prints the tuner's new decisions; one phrase on where it stands."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=2) as answer:
            status = json.loads(answer.read())
    except (OSError, ValueError):
        return "rheostat is starting"
    for decision in status["last_decisions"]:
        key = (decision["at_ms"], decision["text"])
        if key in told:
            continue
        told.add(key)
        if decision["action"] != "hold":
            view.say(decision["text"], style="bold cyan")
        elif decision["reason"] in ("watching", "rate_is_changing"):
            continue
        else:
            view.say(decision["text"], style="dim")
    rates = {(t["broker"], t["side"]): t["rate_bytes_per_s_live"] / MB for t in status["throttles"]}
    leader, follower = rates.get((LEADER, "leader")), rates.get((DESTINATION, "follower"))
    if leader is None or follower is None:
        return "rheostat watches"
    return f"throttles: broker {LEADER} leader {leader:.1f}, broker {DESTINATION} follower {follower:.1f} MB/s"


def _optimum(summary: Summary, remaining_bytes: float, write_bytes_per_s: float) -> None:
    loads = [SideLoad(remaining_bytes, 2 * write_bytes_per_s), SideLoad(remaining_bytes, write_bytes_per_s)]
    best = fluid_optimum_s(loads, CEILING_BYTES_PER_S)
    if best:
        summary.optimum_s = round(best, 1)
        summary.ratio_to_optimum = round(summary.rescue_s / best, 2) if summary.rescue_s is not None else None


def _judge_decisions(summary: Summary, settings: Settings, tuner_s: float) -> None:
    """From the journal, which is what an operator would look at afterwards."""
    started_ms = (time.time() - (time.monotonic() - tuner_s)) * 1000
    for entry in last_entries(settings, count=1000):
        at_s = round((entry.at_ms - started_ms) / 1000, 1)
        summary.decisions.append(
            {"at_s": at_s, "kind": entry.kind, "action": entry.action, "reason": entry.reason, "text": entry.text}
        )
        if summary.cause is None and entry.action == "set" and entry.reason.startswith("stalled"):
            summary.cause, summary.stall_detection_s = entry.reason, at_s


def _tail(log: Path) -> str:
    return " | ".join(log.read_text(errors="replace").strip().splitlines()[-3:])


def _stay(lab: Lab, view: View) -> None:
    view.head("The cluster stays up until Ctrl-C. To look around:")
    rheostat = f"{sys.executable} -m rheostat"
    view.say(f"{rheostat} status --config {lab.home / 'rheostat.yaml'}")
    view.say(f"{rheostat} doctor --config {lab.home / 'rheostat.yaml'}")
    view.say(f"bootstrap servers for any other client: {lab.bootstrap_servers}")
    view.say(f"logs: {lab.home / 'logs'}")
    try:
        while True:  # Not one endless wait: a signal that comes just before it would wake nobody.
            threading.Event().wait(_LOOK_S)
    except KeyboardInterrupt:
        view.say("going down")
