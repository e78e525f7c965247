"""The environment of one fault test: a topic that moves under a throttle, a tuner that controls it, and all observers.

    with Stage(lab, "name", folder) as stage:
        tuner = stage.start_tuner()
        stage.move()
        ...                       # the fault
        stage.end()               # the move ends, earlier settings are restored, and the invariants hold

The brokers are 1 to 4. Broker 1 leads all partitions, which move from 1 to 4; 2 and 3 keep their replicas. The throttle is set
far too low, as by ``kafka-reassign-partitions --execute --throttle``; the tuner may raise it to five times as much.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import kafka.errors
import psutil
import pytest
from invariants import (
    Configs,
    OperatorActions,
    overwritten_operator_rates,
    raises_with_stale_signals,
    rates_outside_limits,
    rates_without_record,
    setting_differences,
    writes_without_lease,
)
from kafka.admin import ConfigResource, ConfigResourceType, MemberToRemove, NewTopic
from kafka.structs import TopicPartition
from lab_parts import rheostat, until, wait_for_metadata
from meter import MIN_ISR, Meter
from reading import Record, read
from tuner_process import Tuner
from watcher import Watcher, rates_of
from writer import BULK_BYTES, Writer

from rheostat.lab.cluster import Lab
from rheostat.lab.keeper import lab_config
from rheostat.run.process import stop
from streaming.shared.contract import Side, Topics
from streaming.shared.kafka import KafkaSettings
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.lease import lease_group
from streaming.shared.throttle_settings import LIST_KEYS, RATE_KEYS
from streaming.shared.topics import ensure_topics
from tuner.core.cluster import BrokerSide

T = TypeVar("T")

THROTTLE = 300_000
FLOOR = 200_000
CEILING = 1_500_000
MEGABYTES = 20
STAYING = (2, 3)
SOURCE, TARGET = (1, Side.LEADER), (4, Side.FOLLOWER)
REPLICAS, WANTED = (1, *STAYING), (4, *STAYING)
SIGNAL_AGE_S_MAX = 8.0
CYCLE_S = 1.0
TAKE_OVER_S_MAX = 15.0
# Slow enough that a few MB last, on brokers that would else copy a megabyte per partition and fetch.
BROKER_SETTINGS = {
    "replica.fetch.max.bytes": "100000",
    "replica.fetch.response.max.bytes": "200000",
    "message.max.bytes": "20000000",
    "unclean.leader.election.enable": "false",
}
_DYNAMIC = ("DYNAMIC_BROKER_CONFIG", "DYNAMIC_DEFAULT_BROKER_CONFIG", "DYNAMIC_TOPIC_CONFIG")


class Stage:
    def __init__(
        self, lab: Lab, name: str, folder: Path, *, steers: bool = True, megabytes: float = MEGABYTES,
        tuner_kafka: KafkaSettings | None = None, journal_on: int | None = None, stalled: bool | None = None,
        http: Mapping[str, Any] | None = None, recovery: str = "watch",
        bulk_bytes: int = BULK_BYTES,
    ) -> None:  # fmt: skip
        self.lab, self.name, self.folder = lab, name, folder
        self.topic = f"orders-{name}"
        self.cluster = f"lab-{name}"
        self.topics = Topics.with_prefix(f"rheostat-{name}")
        self.kafka = lab.kafka_settings()
        self.brokers = tuple(sorted(node.node_id for node in lab.brokers))
        self.people = OperatorActions(stood={THROTTLE})
        self.tuners: list[Tuner] = []
        self._next: Tuner | None = None
        self._deleted: list[Record] = []
        self._steers = steers
        self._megabytes = megabytes
        self._bulk_bytes = bulk_bytes
        self._tuner_kafka = tuner_kafka
        self._journal_on = journal_on
        self._http = http
        self._recovery = recovery
        self._stalled = not steers if stalled is None else stalled
        self._expected: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)

    # -- life ---------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Stage:
        self.client = ClusterClient(self.kafka, "faults")
        if self._journal_on is not None:
            self.create(
                self.topics.journal,
                {0: (self._journal_on,)},
                **{"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"},
            )
        ensure_topics(self.client, self.topics)
        self.create(self.topic, {0: REPLICAS, 1: REPLICAS}, **{"min.insync.replicas": str(MIN_ISR)})
        self.config = self.folder / f"{self.name}.yaml"
        self.config.write_text(self._config())
        wait_for_metadata(self.lab)
        self.before = self.snapshot()
        self.writer = Writer(self.kafka, self.topic, self._megabytes, self._bulk_bytes)
        self.watcher = Watcher(self.kafka, self.topic, self.brokers)
        self.meter = Meter(self.kafka, self.cluster, self.topics, stalled=self._stalled)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Removes everything, so that the next test finds a healthy cluster without settings."""
        for tuner in [*self.tuners, *filter(None, [self._next])]:
            tuner.process.send_signal(signal.SIGCONT)
            stop(tuner.process, grace_s=0.0)
        for each in (self.watcher, self.meter):
            each.stop()
        self.restart_nodes()
        self.writer.stop()
        self._wipe()
        with self.lab.admin() as admin:
            ours = [t for t in admin.list_topics() if self.name in t]
            admin.delete_topics(ours, raise_errors=False)
        self.client.close()

    def _config(self) -> str:
        steered = {
            "objective": {"latency_ms": 5_000},
            "capacity": {"in_bytes_per_s": 60_000_000, "out_bytes_per_s": 60_000_000},
        }
        body = json.loads(
            lab_config(
                self.lab,
                rate_bytes_per_s_max=CEILING,
                rate_bytes_per_s_min=FLOOR,
                cycle_s=CYCLE_S,
                recovery=self._recovery,
                signal_age_s_max=SIGNAL_AGE_S_MAX,
                **(steered if self._steers else {}),
                **({"http": dict(self._http)} if self._http is not None else {}),
            )
        )
        body |= {"cluster": self.cluster, "topics": {"prefix": f"rheostat-{self.name}"}}
        if self._tuner_kafka is not None:
            secret = self._tuner_kafka.sasl_password
            body["kafka"] = self._tuner_kafka.model_dump(mode="json", exclude_none=True)
            body["kafka"]["sasl_password"] = secret.get_secret_value() if secret is not None else None
        return json.dumps(body)

    # -- the tuner ----------------------------------------------------------------------------------------------------

    def start_tuner(self, spares: Collection[str] | None = None) -> Tuner:
        """Starts a tuner.

        Args:
            spares: the tuner dies at the first point that is not in this list; None: it lives.
        """
        tuner, self._next = self._next or Tuner(self.folder, self.config), None
        tuner.begin(spares)
        self.tuners.append(tuner)
        return tuner

    def preload_next_tuner(self) -> None:
        """Loads the program of the next tuner in advance, because that takes longer than most of its work."""
        self._next = Tuner(self.folder, self.config)

    def start_two(self) -> tuple[Tuner, Tuner]:
        """Returns the active tuner and the standby."""
        one = self.start_tuner()
        self.until("the first tuner acts", one.acts, 45)
        other = self.start_tuner()
        # Whoever joins makes the group deal again; the lease may change hands, and does so at most once.
        self.until("the second tuner stands by or acts", lambda: other.stands_by() or other.acts(), 45)
        self.until("exactly one tuner acts", lambda: one.acts() != other.acts(), 20)
        return (one, other) if one.acts() else (other, one)

    def free_lease_of_killed_tuner(self) -> None:
        """Frees the lease of a killed tuner at once; otherwise each kill would cost the session timeout of 8 s."""
        with self.lab.admin() as admin:
            group = lease_group(self.cluster)
            members = admin.describe_groups([group])[group]["members"]
            admin.remove_group_members(group, [MemberToRemove(m["member_id"]) for m in members])

    # -- the move -----------------------------------------------------------------------------------------------------

    def create(self, topic: str, replicas: Mapping[int, tuple[int, ...]], **configs: str) -> None:
        assignment = {p: list(brokers) for p, brokers in replicas.items()}
        with self.lab.admin() as admin:
            admin.create_topics([NewTopic(topic, -1, -1, replica_assignments=assignment, topic_configs=configs)])

    def move(self, topic: str | None = None, *, throttled: bool = True, wanted: tuple[int, ...] = WANTED) -> None:
        """Moves both partitions from 1 to 4 like kafka-reassign-partitions: rates, lists, then the move."""
        topic = topic or self.topic
        if throttled:
            keys = {key: str(THROTTLE) for key in RATE_KEYS.values()}
            assert set(self.client.alter_broker_configs(dict.fromkeys(self.brokers, keys)).values()) == {None}
            lists = {
                LIST_KEYS[Side.LEADER]: ",".join(f"{p}:{b}" for p in (0, 1) for b in REPLICAS),
                LIST_KEYS[Side.FOLLOWER]: ",".join(f"{p}:{b}" for p in (0, 1) for b in wanted if b not in REPLICAS),
            }
            assert self.client.alter_topic_configs({topic: lists}) == {topic: None}
        self.reassign({(topic, p): wanted for p in (0, 1)})

    def reassign(self, wanted: Mapping[tuple[str, int], tuple[int, ...] | None]) -> None:
        """Requests these replicas; None cancels the partition's move."""
        target = {TopicPartition(t, p): None if r is None else list(r) for (t, p), r in wanted.items()}
        with self.lab.admin() as admin:
            admin.alter_partition_reassignments(target)

    def cancel(self) -> None:
        self.reassign({(m.topic, m.partition): None for m in self.client.reassignments() if m.topic == self.topic})

    def moving(self) -> bool:
        return any(m.topic == self.topic for m in self.client.reassignments())

    # -- people -------------------------------------------------------------------------------------------------------

    def operator_sets_rate(self, side: BrokerSide, rate: int) -> None:
        """An operator overwrites the current rate permanently."""
        self.people.stood.add(rate)
        self.people.final[side] = (time.monotonic(), rate)
        self._expected["broker", str(side[0])][RATE_KEYS[side[1]]] = str(rate)
        assert self.client.alter_broker_configs({side[0]: {RATE_KEYS[side[1]]: str(rate)}}) == {side[0]: None}

    def operator_resumes(self, side: BrokerSide) -> None:
        """The operator returns the rate to rheostat, so that it is removed with the move's throttle."""
        del self.people.final[side]
        del self._expected["broker", str(side[0])][RATE_KEYS[side[1]]]
        done = rheostat("resume", "--config", self.config)
        assert done.returncode == 0, done.stderr

    def tool_clears_rates_and_lists(self) -> float:
        """Removes rates and lists like ``--verify`` after a finished move; returns the monotonic time."""
        self.people.removed_all = True
        gone = dict.fromkeys(RATE_KEYS.values())
        assert set(self.client.alter_broker_configs(dict.fromkeys(self.brokers, gone)).values()) == {None}
        assert self.client.alter_topic_configs({self.topic: dict.fromkeys(LIST_KEYS.values())}) == {self.topic: None}
        return time.monotonic()

    # -- looking ------------------------------------------------------------------------------------------------------

    def rates(self) -> dict[BrokerSide, int]:
        return {side: rate for side, rate in rates_of(self.client, self.brokers).items() if rate is not None}

    def rate(self, side: BrokerSide) -> int:
        return self.rates().get(side, 0)

    def until(self, what: str, probe: Callable[[], T], timeout_s: float) -> T:
        """Like lab_parts.until; errors of the cluster count as no result yet."""

        def look() -> T | None:
            try:
                return probe()
            except (ClusterError, kafka.errors.KafkaError):
                return None

        found = self._told(partial(until, is_bound=True), look, timeout_s, what)
        assert found is not None
        return found

    def _told(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Calls ``call``; a failure contains the logs of all tuners and the changed settings."""
        try:
            return call(*arguments)
        except pytest.fail.Exception as error:
            logs = [f"{tuner.log.name}:\n{tuner.log_tail()}" for tuner in self.tuners]
            raise AssertionError("\n".join([str(error), *self._differs(), *logs])) from error

    def _differs(self) -> list[str]:
        try:
            return setting_differences(self.before, self.snapshot())
        except kafka.errors.KafkaError as error:
            return [f"what stands cannot be seen: {type(error).__name__}: {error}"]

    def wait_until_raised(self, timeout_s: float = 45.0) -> None:
        """Waits until the tuner has raised the throttle."""
        self.until("the tuner raises the throttle", lambda: self.rate(SOURCE) > 1.5 * THROTTLE, timeout_s)

    def delete(self, topic: str) -> None:
        with self.lab.admin() as admin:
            admin.delete_topics([topic])
        self.until("the topic is deleted", lambda: not self.client.partitions([topic]), 20)

    def delete_journal(self) -> None:
        """Deletes the journal while all tuners are suspended, so that the final checks know all earlier records."""
        for tuner in self.tuners:
            tuner.process.send_signal(signal.SIGSTOP)
        self._deleted += read(self.kafka, self.topics.journal)
        self.delete(self.topics.journal)
        for tuner in self.tuners:
            tuner.process.send_signal(signal.SIGCONT)

    def snapshot(self) -> Configs:
        """Returns the dynamic settings of the brokers, and of topics that do not belong to rheostat."""
        with self.lab.admin() as admin:
            topics = [t for t in admin.list_topics() if not t.startswith(("rheostat-", "__"))]
            asked = [ConfigResource(ConfigResourceType.BROKER, str(b)) for b in self.brokers]
            asked += [ConfigResource(ConfigResourceType.TOPIC, t) for t in topics]
            answers = admin.describe_configs(asked)
        found = {}
        for kind, by_name in answers.items():
            for name, configs in by_name.items():
                values = {k: c["value"] for k, c in configs.items() if c["config_source"] in _DYNAMIC}
                found[kind, name] = values
        return found

    def journal(self) -> list[Record]:
        """Returns every record that was ever in the journal."""
        return [*self._deleted, *read(self.kafka, self.topics.journal)]

    # -- the end ------------------------------------------------------------------------------------------------------

    def end(self, timeout_s: float = 90.0) -> str:
        """Waits for the end of the move, stops the tuners and checks all invariants; returns a summary."""
        self.until("the move ends", lambda: not self.moving(), timeout_s)
        self._told(until, lambda: not self.left(), 40, "what stood before stands again")
        tuners = [tuner for tuner in self.tuners if tuner.alive()]
        for tuner in tuners:
            tuner.process.send_signal(signal.SIGTERM)
        for tuner in tuners:
            try:
                assert tuner.process.wait(timeout=40) == 0, tuner.said()[-2000:]
            except subprocess.TimeoutExpired:
                pytest.fail(f"it does not end:\n{tuner.log_tail()}")
        assert self.left() == []
        self.watcher.stop()
        self.meter.stop()
        self.writer.stop()
        self.check()
        return f"{len(self.watcher.looks)} looks, {len(self.writer.acknowledged)} records"

    def left(self) -> list[str]:
        """Returns settings that differ from those before the test, except for the operator's changes."""
        wanted = {key: {**values, **self._expected.get(key, {})} for key, values in self.before.items()}
        now = self.snapshot()
        return setting_differences({key: values for key, values in wanted.items() if key in now}, now)

    def check(self) -> None:
        """Checks invariants 2 to 6 and the data; ``end`` has waited for the first."""
        looks, people = self.watcher.looks, self.people
        assert looks, "nobody looked"
        journal = self.journal()
        trace = [line for tuner in self.tuners for line in tuner.steps()]
        broken = {
            "2 yield to people": overwritten_operator_rates(looks, people),
            "3 stay inside": rates_outside_limits(looks, people, FLOOR, CEILING),
            "4 one hand": writes_without_lease(trace, journal, self.cluster),
            "5 no news is not good news": raises_with_stale_signals(
                looks, self.meter.stale, SIGNAL_AGE_S_MAX + 2 * CYCLE_S
            ),
            "6 write before you act": rates_without_record(looks, journal, self.cluster, people),
        }
        assert not any(broken.values()), json.dumps({k: v[:10] for k, v in broken.items() if v}, indent=2)
        if self.topic in {state.topic for state in self.client.partitions()}:
            missing = self.writer.missing()
            assert not missing, f"{len(missing)} acknowledged records cannot be read: {sorted(missing)[:10]} ..."

    def return_with_empty_disk(self, broker: int) -> None:
        """Kills a broker, removes its data, and starts it once the cluster has noticed that it is away."""
        node = self.lab.nodes[broker]
        node.kill()
        for folder in node.log_dirs:
            shutil.rmtree(folder)
        node.prepare(self.lab.cluster_id)
        self.until("the broker is away", lambda: broker not in {e.node for e in self.client.brokers()}, 60)
        self.lab.start_again(broker)

    # -- the cluster's nodes ------------------------------------------------------------------------------------------

    def restart_nodes(self) -> None:
        """Resumes or restarts every node, and waits for all brokers."""
        for node in self.lab.nodes.values():
            if node.process is not None and node.alive():
                if psutil.Process(node.process.pid).status() == psutil.STATUS_STOPPED:
                    node.process.send_signal(signal.SIGCONT)
            else:
                self.lab.start_again(node.node_id)
        self.until("all brokers are registered", lambda: len(self.client.brokers()) == len(self.brokers), 60)

    def _wipe(self) -> None:
        if self.moving():
            self.cancel()
        self.client.alter_broker_configs(dict.fromkeys(self.brokers, dict.fromkeys(RATE_KEYS.values())))


MakeStage = Callable[..., Stage]
