"""Runs plans on real brokers: 200 partitions of mixed size move under rheostat's throttles, with rheostat's executor and rivals.

Four brokers run on one machine. Before every run an operator's rates are set on both sides of every broker; rheostat always runs
and controls them, with the same latency objective. The executor of a run makes the throttled-replica lists: rheostat its own, and
rivals as kafka-reassign-partitions does, with all partitions of a batch before it begins. So executors differ only in what they
begin and when. Each run moves back what the previous one moved; by symmetry every broker has the same load.

Clients constantly write to the largest topic, at a quarter of the throttle. A throttle counts all listed partitions, in sync or
not, so an executor with many moves at once spends much of it on steady-state replication. Retention keeps that topic at its initial
size. T* is the time of the busiest side at this throttle without writes; no executor can reach it.

One client in its own process writes numbered records to all other topics. Its latency is from ``send`` to the acknowledgement of
all in-sync replicas. At the end every acknowledged record must be readable.

Fetch sizes are scaled with the throttle: a response of Kafka's 10 MiB would take 3.5 s of it, and with the usual 50 MB/s it takes
0.2 s. So are followers' waits: here a copy ends every 0.4 s, in production every few minutes, and a producer to a partition that
was just copied waits for the current fetch, which does not contain it. Shorter waits cost more CPU than they gain
(performance.md). Batches fit into one fetch of a partition: of a larger batch the leader sends and counts the beginning, which the
follower discards.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.admin import NewTopic

from benchmarks.heaps import WARM_HEAP_MB, WARM_JAVA_OPTIONS
from benchmarks.links.watch import Processors, awaited, config_writes, fetched, say
from benchmarks.memory import in_memory
from benchmarks.moves.behind import NICE, Behind
from benchmarks.moves.clients import ClientWatch
from benchmarks.moves.watch import Course, Key, PlanWatch, calm_of_looks
from benchmarks.moves.worlds import FOUR_BROKERS as BROKERS
from benchmarks.moves.worlds import FOUR_PARTITIONS_EACH as PARTITIONS_EACH
from benchmarks.moves.worlds import ends
from benchmarks.moves.writing import NUMBER_BYTES, Writer
from rheostat.config.settings import load_settings
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.load import ProducerLoad
from rheostat.lab.node import free_ports
from rheostat.reassign.plan_store import has_settings_to_restore
from rheostat.run.supervisor import Supervisor, children_for
from streaming.shared.contract import Side
from streaming.shared.kafka.reassignments import ReassignmentClient
from streaming.shared.throttle_settings import ThrottledReplicas, TopicThrottle
from tuner.core.cluster import LiveCluster
from tuner.runtime.observe.cluster_reader import ClusterReader
from tuner.runtime.throttle.actuator import KafkaThrottles
from tuner.simulation.client_phases import ClientPhases, nearest_rank

MB = 1_000_000
CAPACITY_BYTES_PER_S = 12.5 * MB
RATE_BYTES_PER_S = 3.0 * MB  # The operator's throttle, and rheostat's maximum rate.
# For every executor: about twice the clients' p99 without moves, on the machine of performance.md.
OBJECTIVE_MS = 15
MEGABYTES_OF = {"sand": 0.25, "gravel": 0.5, "stones": 1.0, "rocks": 3.0, "boulders": 12.0}  # Of each partition.
OURS = "rheostat reassign"
JUDGED = ("move_s", "p99_ms")
POLICIES = (OURS, "all at once", "batches of 50", "batches of 5")
# Runs before the measurement, until the brokers' code is compiled; code that runs a few times a second is compiled late.
WARMS_UP = (OURS, "batches of 50", *(2 * (OURS, "batches of 5")))
LOADED, LOAD_BYTES_PER_S = "boulders", 0.25 * RATE_BYTES_PER_S * BROKERS
NUMBERED = [topic for topic in MEGABYTES_OF if topic != LOADED]
_KEPT = {"retention.bytes": str(round(MEGABYTES_OF[LOADED] * MB)), "segment.bytes": "2000000"}
_FETCHES = {
    "replica.fetch.max.bytes": "104858",
    "replica.fetch.response.max.bytes": "1048576",
    "replica.fetch.wait.max.ms": "100",
    "replica.fetch.backoff.ms": "100",
}
# Alone in its batch, for which it is too large; with 72 bytes around it, five make up a partition's share of a fetch but for
# 98 bytes.
_RECORD_BYTES = 20_880
_LOOK_S = 0.5
_BEFORE_S, _AFTER_S = 10.0, 10.0
_FILL_S_MAX, _RUN_S_MAX, _READY_S_MAX, _LEFT_S_MAX, _ASKED_S_MAX = 240.0, 400.0, 120.0, 60.0, 60.0

Row = dict[str, Any]
Target = dict[tuple[str, int], tuple[int, ...]]


def target(*, back: bool) -> Target:
    return {
        (topic, p): tuple(b + 1 for b in ends(p)[0 if back else 1])
        for topic in MEGABYTES_OF
        for p in range(PARTITIONS_EACH)
    }


class Bench:
    def __init__(
        self,
        lab: Lab,
        client: ReassignmentClient,
        writer: Writer,
        config: Path,
        behind: Behind,
        rheostat: Supervisor,
        metrics_url: str,
    ) -> None:
        self._lab = lab
        self._metrics_url = metrics_url
        self._client = client
        self._writer = writer
        self._clients = ClientWatch(writer, [lab.nodes[b].jmx_url for b in range(1, BROKERS + 1)])
        self._config = config
        self._behind = behind
        self._rheostat = rheostat
        self._settings = load_settings(config)
        self._back = False
        self._begin: dict[str, Callable[[Target], None]] = {
            OURS: self._ours,
            "all at once": lambda goal: self._batches(goal, len(goal)),
            "batches of 50": lambda goal: self._batches(goal, 50),
            "batches of 5": lambda goal: self._batches(goal, 5),
        }

    def run(self, policy: str) -> Row:
        goal = target(back=self._back)
        self._back = not self._back
        # Before every run: Java starts and ends threads of its compilers, and a part of rheostat's that died is started again.
        self._behind.put(part.process.pid for part in self._rheostat.children if part.process is not None)
        brokers = [node.process.pid for node in self._lab.nodes.values() if node.process is not None]
        compilers = self._behind.put_compilers(brokers)
        assert len(compilers) >= BROKERS, "no compiler was found: Java calls its threads something else"
        marks = [self._clients.mark()]
        _pause(_BEFORE_S)
        marks.append(self._clients.mark())
        self._rate(round(RATE_BYTES_PER_S))
        courses = self._courses(goal)
        best_s = self._optimum_s(courses)
        idle_ms = self._writer.latencies_ms(marks[0].at_s, time.monotonic())
        with (
            ReassignmentClient(self._lab.kafka_settings(), "benchmark-watch") as own_client,
            self._watch(courses, own_client) as watch,
        ):
            writes = config_writes(self._metrics_url)
            marks.append(self._clients.mark())
            processors, began_s = Processors(), time.monotonic()
            self._begin[policy](goal)
            awaited(f"{policy} has ended", lambda: self._is_done(goal), _RUN_S_MAX, every_s=_LOOK_S)
            ended_s = time.monotonic()
            ours, machine = processors.shares(ended_s - began_s)
        writes = config_writes(self._metrics_url) - writes
        marks.append(self._clients.mark())
        _pause(1.0)
        during_ms = self._writer.latencies_ms(began_s, ended_s)
        awaited("lists are taken back", self._is_quiet, _LEFT_S_MAX, every_s=1.0)
        # Else this run's end would come into the next one.
        awaited("nothing is the tuner's", lambda: not has_settings_to_restore(self._settings), _LEFT_S_MAX, every_s=1.0)
        marks.append(self._clients.mark())
        _pause(_AFTER_S)
        marks.append(self._clients.mark())
        _pause(1.0)  # For the acknowledgements of the last records.
        phases = ClientPhases(*(self._clients.phase(marks[i], marks[i + 1]) for i in (0, 2, 4)))
        calm = calm_of_looks(watch.looks, courses, BROKERS, writes=writes, move_s=ended_s - began_s)
        row = {
            "policy": policy,
            "move_s": round(ended_s - began_s, 1),
            "optimum_s": round(best_s, 1),
            "p99_ms": round(_p99(during_ms), 1),
            "median_ms": round(statistics.median(during_ms), 1),
            "idle_p99_ms": round(_p99(idle_ms), 1),
            "records": len(during_ms),
            "cpu_share": round(ours, 2),
            "machine_share": round(machine, 2),
            **{name: None if value is None else round(value, 3) for name, value in asdict(calm).items()},
            **phases.flat(),
        }
        say(f"{policy}: {row}")
        self._rate(None)
        return row

    def _watch(self, courses: Mapping[Key, Course], own_client: ReassignmentClient) -> PlanWatch:
        reader = ClusterReader(own_client)
        folders = {broker: self._lab.nodes[broker].log_dirs[0] for broker in range(1, BROKERS + 1)}
        return PlanWatch(courses, lambda: reader.snapshot(full=False), folders)

    def _courses(self, goal: Target) -> dict[Key, Course]:
        """Returns the leader and the new replica of each partition of the plan, which has not begun."""
        states = {(s.topic, s.partition): s for s in self._client.partitions(list(MEGABYTES_OF))}
        courses = {}
        for key, replicas in goal.items():
            (new,) = set(replicas) - set(states[key].replicas)
            courses[key] = Course(leader=states[key].leader, new=new)
        return courses

    def _rate(self, bytes_per_s: int | None) -> None:
        """Sets the throttle rate on every broker, as an operator does."""
        rates = {(b, side): bytes_per_s for b in range(1, BROKERS + 1) for side in Side}
        answers = KafkaThrottles(self._client).write_rates(rates)
        assert not any(answers.values()), answers

    def _list(self, goal: Target) -> dict[str, TopicThrottle]:
        """Sets the lists of all partitions that are about to begin, as kafka-reassign-partitions does."""
        states = {(s.topic, s.partition): s for s in self._client.partitions(list(MEGABYTES_OF))}
        lists = {}
        for topic in MEGABYTES_OF:
            stand = {
                (p, b) for (t, p), state in states.items() if t == topic and (t, p) in goal for b in state.replicas
            }
            come = {(p, b) for (t, p), replicas in goal.items() if t == topic for b in replicas} - stand
            lists[topic] = TopicThrottle(
                ThrottledReplicas(pairs=frozenset(stand)), ThrottledReplicas(pairs=frozenset(come))
            )
        lists = {topic: each for topic, each in lists.items() if each}
        answers = KafkaThrottles(self._client).add_pairs(lists)
        assert not any(answers.values()), answers
        return lists

    def _optimum_s(self, courses: Mapping[Key, Course]) -> float:
        """Returns the time of the busiest side at the operator's rate without writes."""
        sizes = self._client.log_sizes(range(1, BROKERS + 1), courses)
        takes: dict[tuple[int, Side], int] = {}
        for key, course in courses.items():
            held = sizes[course.leader]
            assert isinstance(held, dict), held
            for side in ((course.leader, Side.LEADER), (course.new, Side.FOLLOWER)):
                takes[side] = takes.get(side, 0) + held[key]
        return max(takes.values()) / RATE_BYTES_PER_S

    def _ours(self, goal: Target) -> None:
        file = self._lab.home / "plan.json"
        entries = [{"topic": t, "partition": p, "replicas": list(replicas)} for (t, p), replicas in goal.items()]
        file.write_text(json.dumps({"version": 1, "partitions": entries}))
        rheostat = ["nice", "-n", str(NICE), sys.executable, "-m", "rheostat"]
        command = [*rheostat, "reassign", "start", str(file), "-c", str(self._config)]
        with subprocess.Popen(
            [*command, "--measure-for", "0", "--yes", "--detach"], stdout=subprocess.DEVNULL
        ) as asking:
            try:
                self._behind.put([asking.pid])
                assert asking.wait(_ASKED_S_MAX) == 0, f"{command} has ended with {asking.returncode}"
            finally:
                asking.kill()

    def _batches(self, goal: Target, size: int) -> None:
        keys = list(goal)
        for i in range(0, len(keys), size):
            asked = {key: goal[key] for key in keys[i : i + size]}
            lists = self._list(asked)
            found = self._client.alter_reassignments(asked, allow_replication_factor_change=False)
            assert not any(found.values()), found
            awaited("a batch has ended", lambda: not self._client.reassignments(), _RUN_S_MAX, every_s=_LOOK_S)
            # As its --verify does.
            KafkaThrottles(self._client).remove_pairs(lists)

    def _is_done(self, goal: Target) -> bool:
        if self._client.reassignments():
            return False
        states = self._client.partitions(list(MEGABYTES_OF))
        return all(tuple(state.replicas) == goal[state.topic, state.partition] for state in states)

    def _is_quiet(self) -> bool:
        live = ClusterReader(self._client).snapshot(full=True)
        if isinstance(live, LiveCluster) and live.lists:
            say(f"left on lists: {live.lists}, rates {live.rates}")
        return isinstance(live, LiveCluster) and not live.lists

    def unreadable(self) -> int:
        """Returns the number of acknowledged records that cannot be read; records acknowledged during the check do not count."""
        promised = self._writer.promised()
        found: set[int] = set()
        parts = [TopicPartition(topic, p) for topic in NUMBERED for p in range(PARTITIONS_EACH)]
        consumer = KafkaConsumer(bootstrap_servers=self._lab.bootstrap_servers, auto_offset_reset="earliest")
        try:
            consumer.assign(parts)
            ends_at = consumer.end_offsets(parts)
            # What it was filled with comes first, and need not be read.
            starts_at = consumer.offsets_for_times(dict.fromkeys(parts, self._began_ms))
            for part in parts:
                first = starts_at.get(part)
                consumer.seek(part, ends_at[part] if first is None else first.offset)
            while any(consumer.position(part) < ends_at[part] for part in parts):
                for records in consumer.poll(timeout_ms=1_000).values():
                    found |= {int.from_bytes(record.value[:NUMBER_BYTES], "big") for record in records}
        finally:
            consumer.close()
        return len(promised - found)

    _began_ms = 0

    def filled_at(self, at_ms: int) -> None:
        self._began_ms = at_ms


@contextmanager
def bench() -> Iterator[Bench]:
    spec = LabSpec(
        brokers=BROKERS,
        heap_mb=WARM_HEAP_MB,
        java_options=WARM_JAVA_OPTIONS,
        settings={"log.retention.check.interval.ms": "5000"},
        broker_settings=_FETCHES,
        folder=in_memory(),
    )
    with Behind() as behind, Lab(spec) as lab, ReassignmentClient(lab.kafka_settings(), "benchmark") as client:
        before = target(back=True)
        with lab.admin() as admin:
            admin.create_topics(
                [
                    NewTopic(
                        topic,
                        -1,
                        -1,
                        replica_assignments={p: list(before[topic, p]) for p in range(PARTITIONS_EACH)},
                        topic_configs=_KEPT if topic == LOADED else None,
                    )
                    for topic in MEGABYTES_OF
                ]
            )
        for topic, megabytes in MEGABYTES_OF.items():
            total = round(megabytes * PARTITIONS_EACH * MB)
            with ProducerLoad(
                lab.artifacts,
                lab.bootstrap_servers,
                topic,
                rate_bytes_per_s=None,
                record_bytes=_RECORD_BYTES,
                total_bytes=total,
            ) as load:
                load.wait(_FILL_S_MAX)
        say("the topics are filled")
        port = free_ports(1)[0]
        config, status = lab.home / "rheostat.yaml", f"http://127.0.0.1:{port}/status"
        capacity = round(CAPACITY_BYTES_PER_S)
        config.write_text(
            lab_config(
                lab,
                http={"port": port},
                rate_bytes_per_s_max=round(RATE_BYTES_PER_S),
                rate_bytes_per_s_min=round(RATE_BYTES_PER_S / 10),
                objective={"latency_ms": OBJECTIVE_MS},
                capacity={"in_bytes_per_s": capacity, "out_bytes_per_s": capacity},
            )
        )
        log = lab.home / "logs" / "rheostat.log"
        parts = children_for(config, dry_run=False)
        for part in parts:
            part.nice = max(NICE, part.nice)
        supervisor = Supervisor(parts, log_to=log)
        filled_ms = round(time.time() * 1000)
        writer = Writer(lab.bootstrap_servers, NUMBERED, PARTITIONS_EACH)
        load = ProducerLoad(
            lab.artifacts,
            lab.bootstrap_servers,
            LOADED,
            rate_bytes_per_s=LOAD_BYTES_PER_S,
            record_bytes=_RECORD_BYTES,
        )
        try:
            load.__enter__()
            supervisor.check()
            awaited("rheostat is ready", lambda: (fetched(status) or {}).get("ready"), _READY_S_MAX)
            awaited("signals are made", lambda: "first batch" in log.read_text(errors="replace"), _READY_S_MAX)
            _pause(30.0)
            made = Bench(lab, client, writer, config, behind, supervisor, f"http://127.0.0.1:{port}/metrics")
            made.filled_at(filled_ms)
            yield made
        finally:
            supervisor.stop()
            load.__exit__(None, None, None)
            writer.stop()


def measure(policies: Sequence[str] = POLICIES, rounds: int = 1) -> tuple[list[Row], int]:
    """Returns a row for each policy and round, and the number of acknowledged records that could not be read at the end.

    Every round begins with another policy, so that no policy always comes first or always moves in the same direction.
    """
    with bench() as made:
        for policy in WARMS_UP:
            say(f"warms up: {made.run(policy)}")
        rows = [made.run(policies[(i + turn) % len(policies)]) for turn in range(rounds) for i in range(len(policies))]
        return rows, made.unreadable()


def of_rounds(rows: Sequence[Row]) -> list[Row]:
    """Returns for each policy the medians of its rounds, and the ranges of the figures that have a bound."""
    found = []
    for policy in dict.fromkeys(row["policy"] for row in rows):
        own = [row for row in rows if row["policy"] == policy]
        values = {key: [row[key] for row in own if row[key] is not None] for key in own[0] if key != "policy"}
        middle = {key: statistics.median(each) if each else None for key, each in values.items()}
        ranges = {f"{key}_range": [min(values[key]), max(values[key])] for key in JUDGED}
        found.append({"policy": policy, "rounds": len(own)} | middle | ranges)
    return found


def _p99(values_ms: list[float]) -> float:
    return nearest_rank(sorted(values_ms), 0.99)


def _pause(lasts_s: float) -> None:
    threading.Event().wait(lasts_s)


if __name__ == "__main__":
    found, lost = measure(sys.argv[1:] or POLICIES)
    print(json.dumps({"rows": found, "unreadable": lost}))
