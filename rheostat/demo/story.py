"""Runs the demo in order: a reassignment stalls under a throttle that looks high enough, then the tuner rescues it.

Producers write 3 MB/s, and the operator sets a throttle of 4.5 MB/s. According to KIP-73's rule, "the throttle must be above
BytesInPerSec", the move would end. But it never ends: the leader's throttle also carries the in-sync follower, so steady-state
replication takes 3 × (1 in-sync + 1 adding replica) = 6 MB/s. If a busy machine slows the producers, the throttle is calculated
from their measured rate.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka.admin import NewTopic

from rheostat.console.logs import set_up_logs
from rheostat.console.output import out
from rheostat.console.rich_console import console_for
from rheostat.demo.chart import draw_rescue
from rheostat.demo.film import draw_film
from rheostat.demo.measured import wait_until_measured
from rheostat.demo.move import MoveWatch
from rheostat.demo.probe import LatencyProbe
from rheostat.demo.processes import DemoProcesses
from rheostat.demo.recording import make_recording
from rheostat.demo.rescue import POLL_S, add_decisions, add_optimum, rescue
from rheostat.demo.summary import DemoSummary
from rheostat.demo.view import DemoView
from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL
from rheostat.jvm.artifacts import resolve_artifacts
from rheostat.jvm.kafka_versions import check_kafka_version
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.load import ProducerLoad
from rheostat.lab.tools import reassign_partitions
from rheostat.line_chart import check_plot_path, write_plot
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.units import rate_text, size_text, span_text
from tuner.core.throttle_limits import MB

TOPIC = "orders"
PARTITIONS = 4
LEADER, FOLLOWER, DESTINATION = 1, 2, 3
BROKERS = 3
PRELOAD_BYTES = 120 * MB
PRELOAD_S_MAX = 60.0
WRITE_BYTES_PER_S = 3 * MB
RECORD_BYTES = 10_000
# The throttle divided by the producers' rate. Guides recommend such a value, but steady-state replication needs twice the rate.
THROTTLE_RATIO = 1.5
_FULL_RATE_RATIO = 0.9  # Producers count as running at full rate from this share of their target on.
MAX_RATE_BYTES_PER_S = 30 * MB

# A throttled replica fetches in bursts with a period of 11 s, Kafka's quota window, so the trend is measured over a whole period.
QUOTA_PERIOD_S = 11.0
# How long the producers are observed before the move, and the period over which their rate is measured.
BASELINE_S = 3.0
PRODUCERS_S_MAX = 20.0  # Longest wait until the producers reach their rate, which includes the start of their JVM.
WATCH_S = 25.0  # How long the stalled move is shown.
AFTER_S = 6.0  # How long the latency is measured after the move.
CYCLE_S = 2.0  # The tuner's cycle.


@dataclass(frozen=True, slots=True)
class _Scene:
    """The cluster, rheostat and the observers of one run."""

    lab: Lab
    processes: DemoProcesses
    view: DemoView
    watch: MoveWatch
    load: ProducerLoad
    probe: LatencyProbe


@dataclass(frozen=True, slots=True)
class _Stall:
    """The figures of the stalled move."""

    started_s: float  # Start of the reassignment (time.monotonic).
    write_bytes_per_s: float
    remaining_bytes: int | None  # At the end of the stall.


def run_demo(
    *, as_json: bool, keep: bool, plot: Path | None = None, film: Path | None = None, kafka: str | None = None
) -> int:
    """Runs the demo, prints its summary, and returns the exit code: 0 only if the rescue succeeded."""
    if plot is not None:
        check_plot_path(plot)
    if film is not None:
        check_plot_path(film, "--film")
    version = None if kafka is None else check_kafka_version(kafka)
    summary = DemoSummary(rate_bytes_per_s_max=MAX_RATE_BYTES_PER_S)
    began_s = time.monotonic()
    console = console_for(sys.stderr if as_json else sys.stdout)
    with DemoView(console) as view:
        artifacts = resolve_artifacts(view.print_line)
        view.show_activity("starting a Kafka cluster: one controller, three brokers")
        with Lab(LabSpec(brokers=BROKERS, kafka=version), artifacts=artifacts) as lab:
            view.print_line(f"a real Kafka cluster is up: 1 controller, 3 brokers, in {span_text(lab.start_s)}")
            processes = _run_story(lab, view, summary)
            summary.all_s = round(time.monotonic() - began_s, 1)
            summary.print_to(view)
            if as_json:
                out(json.dumps(summary.as_json(), indent=2))
            if plot is not None and summary.recording is not None:
                write_plot(plot, draw_rescue(summary.recording))
                view.print_line(f"the plot is written to {plot}")
            if film is not None and summary.recording is not None:
                write_plot(film, draw_film(summary.recording), "--film")
                view.print_line(f"the film is written to {film}")
            if keep:
                _keep_running(lab, processes, view)
    return EXIT_NOT_WELL if summary.faults() else EXIT_DONE


def _run_story(lab: Lab, view: DemoView, summary: DemoSummary) -> DemoProcesses:
    """Runs the steps in order: producers, stall, rescue."""
    with ExitStack() as stack:
        processes = DemoProcesses(lab, rate_bytes_per_s_max=MAX_RATE_BYTES_PER_S, cycle_s=CYCLE_S)
        # The demo's own log lines go to the log file of its processes, not to the screen.
        set_up_logs(stack.enter_context(processes.log.open("a")))
        stack.callback(processes.stop)
        view.print_line("rheostat starts to measure with its collector and Spark; its tuner does not run yet")
        processes.start_measuring()
        _fill(lab, view)
        wait_until_measured(processes, view, BROKERS)
        kafka = lab.kafka_settings()
        load = ProducerLoad(
            lab.artifacts,
            lab.bootstrap_servers,
            TOPIC,
            rate_bytes_per_s=WRITE_BYTES_PER_S,
            record_bytes=RECORD_BYTES,
        )
        stack.enter_context(load)
        probe = stack.enter_context(LatencyProbe(kafka, TOPIC, PARTITIONS))
        client = stack.enter_context(ClusterClient(kafka, "demo"))
        watch = MoveWatch(client, TOPIC, PARTITIONS, LEADER, DESTINATION)
        scene = _Scene(lab, processes, view, watch, load, probe)
        producers_s = time.monotonic()
        write_bytes_per_s = _wait_for_producers(scene, producers_s)
        stall = _show_stall(scene, write_bytes_per_s, summary)
        _show_rescue(scene, stall, producers_s, summary)
    return processes


def _wait_for_producers(scene: _Scene, began_s: float) -> float:
    """Waits until the producers write at their full rate, and returns the rate that they reach (bytes/s)."""
    scene.view.print_line(f"producers start with a target of {rate_text(WRITE_BYTES_PER_S)}")
    _watch(scene, began_s + BASELINE_S, "before the move")
    while time.monotonic() < began_s + PRODUCERS_S_MAX and not _at_full_rate(_newest_rate(scene.watch)):
        _watch(scene, time.monotonic() + POLL_S, "before the move: producers are starting")
    return _write_rate(_newest_rate(scene.watch), scene.view)


def _show_stall(scene: _Scene, write_bytes_per_s: float, summary: DemoSummary) -> _Stall:
    """Starts the throttled reassignment, and shows for ``WATCH_S`` that it makes no progress."""
    view, watch = scene.view, scene.watch
    throttle = throttle_of(write_bytes_per_s)
    started_s = _reassign(scene.lab, view, throttle)
    view.print_heading("The stall")
    view.print_line(
        f"the throttle, {rate_text(throttle)}, is above the {rate_text(write_bytes_per_s)} that producers write, as every guide "
        "recommends, so the move should end"
    )
    _watch(scene, started_s + WATCH_S, f"throttle {rate_text(throttle)}, producers {rate_text(write_bytes_per_s)}")
    scene.load.check()
    trend = watch.trend_bytes_per_s(time.monotonic() - QUOTA_PERIOD_S)
    measured_write = watch.write_bytes_per_s(started_s) or WRITE_BYTES_PER_S
    remaining = watch.samples[-1].remaining_bytes
    summary.trend_before_bytes_per_s = trend
    if trend is not None and remaining is not None:
        direction = "falls behind by" if trend > 0 else "gains"
        view.print_line(
            f"after {span_text(WATCH_S)}, {size_text(remaining)} remain; the move {direction} {rate_text(abs(trend))}"
        )
        if trend > 0:
            view.print_line(
                f"it never ends: the same throttle also carries the in-sync replica on broker {FOLLOWER}, so steady-state "
                f"replication takes 2 × {rate_text(measured_write)} = {rate_text(2 * measured_write)}"
            )
    return _Stall(started_s, measured_write, remaining)


def _show_rescue(scene: _Scene, stall: _Stall, producers_s: float, summary: DemoSummary) -> None:
    """Runs the tuner until the move has ended, and adds the figures to the summary.

    Args:
        producers_s: the start of the producers (``time.monotonic``); the latency "before" is measured from then on.
    """
    view, watch = scene.view, scene.watch
    view.print_heading("The rescue")
    tuner_s = time.monotonic()
    summary.stalled_before_s = round(tuner_s - stall.started_s, 1)
    ended_s = rescue(scene.processes, view, watch)
    if ended_s is not None:
        summary.completed = True
        summary.rescue_s = round(ended_s - tuner_s, 1)
        view.print_line("the move is complete", style="bold green")
    watch.take_sample()  # The last sample: no throttle is set now, and none is taken while the processes stop.
    after_s = time.monotonic()
    scene.processes.stop()
    summary.write_bytes_per_s = stall.write_bytes_per_s
    add_optimum(summary, float(stall.remaining_bytes or 0), stall.write_bytes_per_s)
    add_decisions(summary, scene.processes.settings, tuner_s)
    _watch(scene, after_s + AFTER_S, "after the move")
    summary.left = watch.throttle_settings()
    summary.throttle_keys_left = len(summary.left)
    summary.produce_p99_ms = {
        "before": scene.probe.p99_ms(producers_s, tuner_s),
        "during": scene.probe.p99_ms(tuner_s, after_s),  # Includes the second in which the new replicas join the ISR.
        "after": scene.probe.p99_ms(after_s, time.monotonic()),
    }
    found_s = None if summary.stall_detection_s is None else tuner_s + summary.stall_detection_s
    summary.recording = make_recording(
        watch.samples,
        scene.probe.latencies_s(),
        [
            (stall.started_s, "move starts"),
            (tuner_s, "tuner starts"),
            (found_s, "stall found"),
            (ended_s, "move complete"),
            (None if ended_s is None else after_s, "throttle removed"),
        ],
        began_s=producers_s,
        ended_s=after_s + AFTER_S,
        write_bytes_per_s=stall.write_bytes_per_s,
        steady_state_bytes_per_s=2 * stall.write_bytes_per_s,
    )
    scene.load.check()


def _fill(lab: Lab, view: DemoView) -> None:
    """Creates the topic and writes ``PRELOAD_BYTES`` into it."""
    replicas = {p: [LEADER, FOLLOWER] for p in range(PARTITIONS)}
    with lab.admin() as admin:
        admin.create_topics([NewTopic(TOPIC, num_partitions=-1, replication_factor=-1, replica_assignments=replicas)])
    view.show_activity(f"writing {size_text(PRELOAD_BYTES)} into topic {TOPIC}, on brokers {LEADER} and {FOLLOWER}")
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
    view.print_line(
        f"topic {TOPIC}: {PARTITIONS} partitions, {size_text(PRELOAD_BYTES)}, on brokers {LEADER} (leader) and {FOLLOWER}"
    )


def throttle_of(write_bytes_per_s: float) -> int:
    """Returns the operator's throttle (bytes/s), rounded to 0.1 MB/s."""
    return max(1, round(THROTTLE_RATIO * write_bytes_per_s / 100_000)) * 100_000


def _newest_rate(watch: MoveWatch) -> float | None:
    return watch.write_bytes_per_s(time.monotonic() - BASELINE_S)


def _at_full_rate(bytes_per_s: float | None) -> bool:
    return bytes_per_s is not None and bytes_per_s >= _FULL_RATE_RATIO * WRITE_BYTES_PER_S


def _write_rate(measured_bytes_per_s: float | None, view: DemoView) -> float:
    """Returns the producers' rate: the target, or the measured rate if a busy machine slows them."""
    if measured_bytes_per_s is None or measured_bytes_per_s <= 0 or _at_full_rate(measured_bytes_per_s):
        return WRITE_BYTES_PER_S
    view.print_line(f"this machine is busy: the producers write {rate_text(measured_bytes_per_s)}")
    return measured_bytes_per_s


def _reassign(lab: Lab, view: DemoView, throttle_bytes_per_s: int) -> float:
    """Starts the reassignment like an operator, and returns the time of its start (``time.monotonic``)."""
    target = {(TOPIC, p): [LEADER, DESTINATION] for p in range(PARTITIONS)}
    reassign_partitions(
        lab.artifacts, lab.bootstrap_servers, target, "--execute", "--throttle", str(throttle_bytes_per_s)
    )
    view.print_line(
        f"the operator starts the move: kafka-reassign-partitions --execute --throttle {throttle_bytes_per_s} "
        f"(broker {FOLLOWER} → broker {DESTINATION})"
    )
    return time.monotonic()


def _watch(scene: _Scene, until_s: float, activity: str) -> None:
    """Shows the move until a time, and checks that rheostat's processes still run."""
    while time.monotonic() < until_s:
        scene.processes.check()
        scene.watch.show(scene.view, activity)
        threading.Event().wait(POLL_S)


def _keep_running(lab: Lab, processes: DemoProcesses, view: DemoView) -> None:
    """Keeps the cluster and rheostat running until Ctrl-C, and prints commands to try."""
    view.print_heading("The cluster and rheostat run until Ctrl-C. Commands to try:")
    rheostat, config, back = f"{sys.executable} -m rheostat", lab.home / "rheostat.yaml", lab.home / "back.json"
    back.write_text(json.dumps(_plan_back()))
    view.print_line(f"the status page, in a browser: {processes.page}")
    view.print_line(f"{rheostat} status --config {config}")
    view.print_line(f"{rheostat} doctor --config {config}")
    view.print_line(
        "a move of your own, which moves the topic back, one partition at a time; the status page shows it:"
    )
    view.print_line(f"{rheostat} reassign start {back} --partition-movements 1 --config {config}")
    view.print_line(f"bootstrap servers for any other client: {lab.bootstrap_servers}")
    view.print_line(f"logs: {lab.home / 'logs'}")
    with processes.log.open("a") as log_file:
        set_up_logs(log_file)
        try:
            processes.start_measuring()
            processes.start_tuner()
            while True:  # Short waits, because an endless wait would miss a signal that arrives just before it.
                processes.restart_ended()
                threading.Event().wait(POLL_S)
        except KeyboardInterrupt:
            view.print_line("stopping")
        finally:
            processes.stop()


def _plan_back() -> dict[str, Any]:
    """Returns the plan that moves the topic back, in the format of `kafka-reassign-partitions`."""
    entries = [{"topic": TOPIC, "partition": p, "replicas": [LEADER, FOLLOWER]} for p in range(PARTITIONS)]
    return {"version": 1, "partitions": entries}
