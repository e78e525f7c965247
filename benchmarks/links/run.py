"""One run of one policy: the same reassignment with Kafka's own tool, its duration and its effect on clients.

All processes of rheostat run in every run; where rheostat may not act, its tuner is in a dry run. T* is that of the same run: the
free bandwidth is measured before the move.
"""

from __future__ import annotations

import datetime
import time
from contextlib import ExitStack
from dataclasses import asdict

from kafka import TopicPartition

from benchmarks.links.lab import AFTER, BROKERS, BURST, MOVED, NEW, PARTITIONS, SOURCE, BenchLab
from benchmarks.links.net import LOAD
from benchmarks.links.score import Latency, Policy, Row, load_told, optimum_s, ratios, throttle_bytes_per_s
from benchmarks.links.size import Scenario, Size
from benchmarks.links.watch import Aside, Processors, Watch, awaited, say
from rheostat.lab.load import ProducerLoad
from rheostat.lab.tools import reassign_partitions
from tuner.simulation.client_phases import ClientPhase, ClientPhases

SETTLE_S, IDLE_S, AFTER_S = 10.0, 25.0, 15.0
LEFT_S_MAX = 45.0
_READY_S_MAX = 120.0
_TARGET = {(MOVED, p): AFTER for p in range(PARTITIONS)}


class Run:
    def __init__(self, lab: BenchLab, policy: Policy, scenario: Scenario) -> None:
        self._lab = lab
        self._policy = policy
        self._scenario = scenario
        self._inside = ExitStack()
        self._burst_said = ""  # By its producer, when it was over.

    def measured(self) -> Row:
        lab = self._lab
        lab.move_back()
        with self._inside as inside:
            lab.links.limit(lab.size.link_mbit_per_s)
            inside.callback(lab.links.unlimit)
            inside.callback(lab.tuner(acts=self._policy.acts, is_auto=self._policy.is_auto).stop)
            awaited("rheostat is ready", lab.is_ready, _READY_S_MAX)
            if self._policy.acts:
                lab.forget()
            lab.pause(SETTLE_S)
            return self._row()

    def _row(self) -> Row:
        lab, size, policy, scenario = self._lab, self._lab.size, self._policy, self._scenario
        idle, idle_out, before = self._idle()
        free = lab.capacity_bytes_per_s - idle_out
        throttle = self._throttle(free)
        moved = lab.size_bytes(SOURCE)
        best_s = optimum_s(moved, stretches(free, size, scenario))
        assert best_s is not None, "the links are too narrow for this load"
        drops, writes, sent = lab.links.dropped(SOURCE), lab.config_writes(), self._sent_bytes()
        processors, watch = Processors(), Watch()
        began_s, ended_s = self._move(throttle, scenario.longest * best_s, watch)
        ours, machine = processors.shares(ended_s - began_s)
        p99_ms = lab.broker_p99_ms()
        during, sent = lab.latency(began_s, ended_s), self._sent_bytes() - sent
        writes = lab.config_writes() - writes
        completed = not lab.client.reassignments()
        left = lab.size_bytes(SOURCE) - lab.size_bytes(NEW)
        dropped = lab.links.dropped(SOURCE) - drops
        keys_left = self._put_back(completed)
        clients = ClientPhases(
            before=before,
            during=_phase(during, sent / (ended_s - began_s)),
            after=self._after() if completed else None,
        )
        row = {
            "scenario": scenario.name,
            "policy": policy.name,
            "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "completed": completed,
            "move_s": round(ended_s - began_s, 1),
            "optimum_s": round(best_s, 1),
            "ratio_to_optimum": round((ended_s - began_s) / best_s, 3) if completed else None,
            "left_MB": round(left / 1e6, 1),
            "longest": scenario.longest,
            "produce_latency_ratio": ratios(idle, during),
            "idle": _rounded(idle),
            "during": _rounded(during),
            "clients": clients.flat(),
            "burst": load_told(self._burst_said),
            "broker_p99_ms": p99_ms,  # As the source told it when the move ended.
            "throttle_bytes_per_s": throttle,
            "link_mbit_per_s": size.link_mbit_per_s,
            "capacity_bytes_per_s": round(lab.capacity_bytes_per_s),
            "free_bytes_per_s": round(free),
            "moved_bytes": moved,
            "in_sync_bytes_per_s": round(size.moved_bytes_per_s),
            "brokers": BROKERS,
            "config_writes": writes if policy.acts else 0,  # A dry run counts the writes that it would make.
            "cpu_share": round(ours, 2),
            "machine_share": round(machine, 2),
            "packets_dropped": dropped,
            "keys_left": keys_left,
            "seconds": watch.told(began_s),
        }
        said = f"{row['ratio_to_optimum']} × T*" if completed else f"not done, {row['left_MB']} MB left"
        say(
            f"{scenario.name}, {policy.name}: {row['move_s']} s, {said}, latency × {row['produce_latency_ratio']}, processors "
            f"{ours:.0%} of {machine:.0%}"
        )
        return row

    def _idle(self) -> tuple[Latency, float, ClientPhase]:
        """Returns the clients' latency, their outbound bytes/s at the source, and both as a phase, before the move."""
        lab = self._lab
        began_s, before = time.monotonic(), lab.links.passed()
        lab.pause(IDLE_S)
        span_s, now = time.monotonic() - began_s, lab.links.passed()
        found = lab.latency(began_s, began_s + span_s)
        sent_bytes = now[LOAD].out_bytes - before[LOAD].out_bytes
        return found, (now[SOURCE].out_bytes - before[SOURCE].out_bytes) / span_s, _phase(found, sent_bytes / span_s)

    def _after(self) -> ClientPhase:
        """Returns the clients after the move, when its settings have been removed."""
        began_s, sent = time.monotonic(), self._sent_bytes()
        self._lab.pause(AFTER_S)
        span_s = time.monotonic() - began_s
        return _phase(self._lab.latency(began_s, began_s + span_s), (self._sent_bytes() - sent) / span_s)

    def _sent_bytes(self) -> int:
        """Returns the bytes that all clients have sent, with headers."""
        return self._lab.links.passed()[LOAD].out_bytes

    def _throttle(self, free_bytes_per_s: float) -> int | None:
        in_sync = self._lab.size.moved_bytes_per_s
        if self._policy.throttle_share is None:
            return None
        if self._scenario.of_steady_state is not None:
            return round(self._scenario.of_steady_state * (in_sync + self._lab.size.moved_bytes_per_s))
        return throttle_bytes_per_s(self._policy.throttle_share, free_bytes_per_s, in_sync)

    def _move(self, throttle: int | None, longest_s: float, watch: Watch) -> tuple[float, float]:
        """Runs the move, and returns the times of its start and of its end or of the timeout."""
        lab = self._lab
        options = ["--execute", *(["--throttle", str(throttle)] if throttle is not None else [])]
        tool = Aside(lambda: reassign_partitions(lab.lab.artifacts, lab.lab.bootstrap_servers, _TARGET, *options))
        awaited("the move begins", lambda: bool(lab.client.reassignments()) or tool.failed(), 30, every_s=0.05)
        began_s = time.monotonic()
        steps = list(self._scenario.steps)
        burst = ExitStack()
        self._inside.callback(burst.close)
        next_look_s = began_s
        while True:
            now_s = time.monotonic()
            if steps and now_s - began_s >= steps[0].at_s:
                step = steps.pop(0)
                burst.close()
                if step.on:
                    load = burst.enter_context(lab.load(BURST, lab.size.burst_bytes_per_s))
                    burst.callback(self._heard, load)
            if now_s >= next_look_s:
                next_look_s += 1.0
                passed = lab.links.passed()
                watch.saw(now_s, passed[SOURCE].out_bytes, passed[NEW].in_bytes, lab.leader_rate())
            if not lab.client.reassignments() or now_s - began_s > longest_s:
                burst.close()
                tool.join()
                return began_s, now_s
            lab.pause(0.1)

    def _heard(self, burst: ProducerLoad) -> None:
        self._burst_said = burst.output()

    def _put_back(self, completed: bool) -> int:
        """Returns the number of remaining throttle settings; rheostat removes them where it acts, otherwise the operator's tool."""
        lab = self._lab
        if not completed:
            with lab.lab.admin() as admin:
                admin.alter_partition_reassignments({TopicPartition(MOVED, p): None for p in range(PARTITIONS)})
        if not self._policy.acts or not completed:
            reassign_partitions(lab.lab.artifacts, lab.lab.bootstrap_servers, _TARGET, "--verify")
            return lab.keys_left()
        deadline = time.monotonic() + LEFT_S_MAX
        while (left := lab.keys_left()) and time.monotonic() < deadline:
            lab.pause(0.5)
        return left


def stretches(free_bytes_per_s: float, size: Size, scenario: Scenario) -> list[tuple[float, float]]:
    """Returns start times and the free bandwidth from then on, minus the write rate of the moving topic."""
    steady = free_bytes_per_s - size.moved_bytes_per_s
    return [(0.0, steady), *((s.at_s, steady - (size.burst_bytes_per_s if s.on else 0.0)) for s in scenario.steps)]


def _phase(found: Latency, bytes_per_s: float) -> ClientPhase:
    return ClientPhase(bytes_per_s=bytes_per_s, p50_ms=found.p50_ms, p99_ms=found.p99_ms)


def _rounded(found: Latency) -> dict[str, float]:
    return {key: round(value, 2) for key, value in asdict(found).items()}
