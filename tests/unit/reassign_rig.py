"""A simulated cluster that reassigns as Kafka does, and a plan executor that can be killed between any two actions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TypeVar

from streaming.shared.contract import BrokerSignal, ControllerSignal
from streaming.shared.kafka.cluster import ClusterError
from tuner.api.plan_status_store import PlanStatusStore
from tuner.control.reassignment.admission import OperatorLimits
from tuner.core.batch_limits import BatchLimits
from tuner.core.cordon_state import CordonState
from tuner.core.operator_orders import Orders
from tuner.core.outcome import Outcome, StepRefusal
from tuner.core.reassignment_plan import (
    CurrentAssignment,
    DesiredPlanState,
    OriginalTopic,
    Plan,
    PlanHead,
    PlanPartition,
    PlanThrottle,
    ReassignmentSnapshot,
    TopicPartition,
)
from tuner.core.throttle_state import ThrottleState
from tuner.core.vetoes import Veto
from tuner.journal.entries import Entry
from tuner.journal.kafka_journal import JournalError
from tuner.journal.plan_book import PlanBook
from tuner.journal.plan_records import encode_head, encode_parts, head_key, part_key, split_into_parts
from tuner.runtime.clock import Clock
from tuner.runtime.reassignment.executor import ExecutorConfig, ExecutorPorts, ReassignmentExecutor
from tuner.runtime.reassignment.recorder import ReassignmentRecorder

T = TypeVar("T")
START_S = 1_600_000_000.0


class Killed(BaseException):
    """The process of the tuner was killed between two actions."""


@dataclass
class Cluster:
    """A cluster whose steps end at ``finish``, if all remaining replicas are on live brokers."""

    partitions: dict[TopicPartition, CurrentAssignment]
    online: set[int]
    journal: Journal
    asked: list[tuple[TopicPartition, tuple[int, ...] | None]] = field(default_factory=list)
    under_way_most: int = 0
    refuses: dict[TopicPartition, str] = field(default_factory=dict)
    min_in_sync: dict[str, int] = field(default_factory=dict)
    silent: bool = False  # Executes requests without an answer.
    deaf: bool = False  # Neither executes nor answers requests.
    away: bool = False
    topic_ids: dict[str, str] = field(default_factory=dict)
    kill_after: int | None = None  # After this many requested partitions, also within a request.

    def read_snapshot(
        self,
        topics: Collection[str],  # noqa: ARG002 - the port's signature
        measured: Collection[TopicPartition] = (),  # noqa: ARG002 - the port's signature
        *,
        all_topics: bool = False,  # noqa: ARG002 - the port's signature
    ) -> ReassignmentSnapshot | ClusterError:
        if self.away:
            return ClusterError("nobody answers")
        return ReassignmentSnapshot(
            frozenset(self.online), dict(self.partitions), dict(self.min_in_sync), topic_ids=dict(self.topic_ids)
        )

    def request(self, replicas: Mapping[TopicPartition, tuple[int, ...] | None]) -> Outcome:
        outcome: Outcome = {}
        on_record = {key: a for plan in self.journal.recovered().plans for key, a in plan.requested.items()}
        for key, wanted in replicas.items():
            if self.kill_after == 0:
                raise Killed
            if self.kill_after is not None:
                self.kill_after -= 1
            assert key in on_record, "requested without a record"
            assert on_record[key].cancel_requested if wanted is None else on_record[key].replicas == wanted
            if key in self.refuses:
                outcome[key] = StepRefusal(self.refuses[key])
                continue
            if self.deaf:
                outcome[key] = StepRefusal("no answer", is_certain=False)
                continue
            self.reassign(key, wanted)
            self.asked.append((key, wanted))
            outcome[key] = StepRefusal("no answer", is_certain=False) if self.silent else None
        self.under_way_most = max(self.under_way_most, sum(p.is_reassigning for p in self.partitions.values()))
        return outcome

    def elect_preferred(self, partitions: Collection[TopicPartition]) -> Outcome:
        for key in partitions:
            now = self.partitions[key]
            assert now.replicas[0] in now.isr
            self.partitions[key] = replace(now, leader=now.replicas[0])
        return dict.fromkeys(partitions)

    def reassign(self, key: TopicPartition, wanted: tuple[int, ...] | None) -> None:
        """Changes the target replicas of a partition, as any tool may; None cancels its reassignment."""
        now = self.partitions[key]
        standing = tuple(b for b in now.replicas if b not in now.adding)
        if wanted is None:
            self.partitions[key] = CurrentAssignment(now.leader, standing, tuple(b for b in now.isr if b in standing))
            return
        adding = tuple(b for b in wanted if b not in standing)
        removing = tuple(b for b in standing if b not in wanted)
        if not adding and not removing:
            self.partitions[key] = replace(now, replicas=wanted, adding=(), removing=())
            return
        union = (*wanted, *(b for b in standing if b not in wanted))
        self.partitions[key] = CurrentAssignment(now.leader, union, now.isr, adding, removing)

    def finish(self, keys: Collection[TopicPartition] | None = None) -> None:
        for key, now in self.partitions.items():
            left = tuple(b for b in now.replicas if b not in now.removing)
            if now.is_reassigning and (keys is None or key in keys) and set(left) <= self.online:
                leader = now.leader if now.leader in left else left[0]
                self.partitions[key] = CurrentAssignment(leader, left, left)


@dataclass
class Journal:
    records: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    away: bool = False
    kills: int | None = None  # The tuner is killed after this many further writes.

    def write(
        self, entries: Sequence[Entry] = (), *, other_records: Mapping[bytes, bytes | None] | None = None
    ) -> None:
        if self.away:
            raise JournalError("the journal is away")
        self.entries += entries
        self.records += (other_records or {}).items()
        if self.kills is not None:
            self.kills -= 1
            if self.kills < 0:
                raise Killed

    def recovered(self) -> PlanBook:
        book = PlanBook("c")
        for key, value in self.records:
            book.apply(key, value)
        return book


@dataclass
class Given:
    latest: Orders = field(default_factory=Orders)


@dataclass
class Signals:
    brokers: dict[int, BrokerSignal] = field(default_factory=dict)
    controllers: dict[int, ControllerSignal] = field(default_factory=dict)


class AtOnce:
    """A caller that runs each call at once, in the same thread; ``Killed`` in a call ends the tuner."""

    def start(self, call: Callable[[], T], /) -> Future[T]:
        answer: Future[T] = Future()
        answer.set_result(call())
        return answer


class Rig:
    def __init__(
        self,
        partitions: Mapping[TopicPartition, CurrentAssignment],
        *,
        online: Collection[int] | None = None,
        bounds: OperatorLimits | None = None,
        dry_run: bool = False,
    ) -> None:
        self.journal = Journal()
        brokers = {b for p in partitions.values() for b in p.replicas} if online is None else set(online)
        self.cluster = Cluster(dict(partitions), brokers, self.journal)
        self.orders, self.signals = Given(), Signals()
        self.bounds = bounds or OperatorLimits()
        self.dry_run = dry_run
        self.now_s = START_S
        self.refused: str | None = None
        self.cordons = CordonState()
        self.vetoes: tuple[Veto, ...] = ()
        self.begin_anew()

    def begin_anew(self) -> None:
        """Starts a new process of the tuner, with the state of the journal."""
        self.journal.kills = self.cluster.kill_after = None
        self.status = PlanStatusStore("c")
        clock = Clock(self._now, self._now)
        ports = ExecutorPorts(
            actuator=self.cluster,
            caller=AtOnce(),
            orders=self.orders,
            signals=self.signals,
            throttle_state=ThrottleState,
            write_refusal=lambda: self.refused,
            observer=self.status,
            cordons=lambda: self.cordons,
            vetoes=lambda: self.vetoes,
        )
        config = ExecutorConfig(limits=self.bounds, dry_run=self.dry_run)
        recorder = ReassignmentRecorder(self.journal, "c", self.journal.recovered(), clock)
        self.loop = ReassignmentExecutor(ports, config, clock, recorder)

    def give(
        self,
        target: Mapping[TopicPartition, tuple[int, ...]],
        limits: BatchLimits | None = None,
        *,
        plan: str = "p",
        throttle: PlanThrottle | None = None,
        not_before_ms: int = 0,
        cordon: tuple[int, ...] = (),
    ) -> None:
        """Submits a plan, as `rheostat reassign start` does."""
        before = self.cluster.partitions
        many = Counter(topic for topic, _ in before)
        parts = {
            key: PlanPartition(
                replicas,
                before[key].replicas,
                1000.0,
                topic=OriginalTopic(self.cluster.topic_ids.get(key[0], ""), many[key[0]]),
            )
            for key, replicas in target.items()
        }
        numbered = list(split_into_parts(parts))
        for number, some in enumerate(numbered):
            self._from_people(part_key("c", plan, number), encode_parts(some))
        now_ms = round(self.now_s * 1000)
        self._say(
            PlanHead(
                plan, "kim@desk", now_ms, now_ms, len(numbered), limits=limits or BatchLimits(),
                throttle=throttle or PlanThrottle(), not_before_ms=not_before_ms, cordon=cordon,
            )
        )  # fmt: skip

    def say(self, wanted: DesiredPlanState | None, limits: BatchLimits | None = None, *, plan: str = "p") -> None:
        """Records an order for a plan.

        Args:
            wanted: the desired state; None: the order changes the limits only.
        """
        head = self.plan(plan).head
        now_ms = max(round(self.now_s * 1000), head.ordered_at_ms + 1)
        self._say(
            replace(
                head, desired=wanted or head.desired, limits=limits or head.limits, ordered_at_ms=now_ms, ordered_by="lee@desk",
                state_ordered_at_ms=head.state_ordered_at_ms if wanted is None else now_ms,
            )
        )  # fmt: skip

    def leave(self, *, plan: str = "p") -> None:
        """Cancels a plan without rollback."""
        head = self.plan(plan).head
        now_ms = max(round(self.now_s * 1000), head.ordered_at_ms + 1)
        self._say(
            replace(
                head,
                desired=DesiredPlanState.CANCELLING,
                no_rollback=True,
                ordered_at_ms=now_ms,
                state_ordered_at_ms=now_ms,
            )
        )

    def _say(self, head: PlanHead) -> None:
        self._from_people(head_key("c", head.id), encode_head(head))

    def _from_people(self, key: bytes, value: bytes) -> None:
        self.journal.records.append((key, value))
        self.loop.recorder.book.apply_operator_record(key, value)

    def plan(self, plan: str = "p") -> Plan:
        return next(p for p in self.loop.recorder.book.plans if p.id == plan)

    def cycle(self, *, finish: bool = True) -> None:
        """Runs one cycle: snapshot, decision, requests and their answers. Then all running steps end if ``finish``."""
        self.now_s += 1.0
        for _ in range(3):
            self.loop.tick()
        self.loop._due_s = float("-inf")
        if finish:
            self.cluster.finish()

    def until_ended(self, cycles_max: int = 200) -> None:
        for _ in range(cycles_max):
            if not self.loop.recorder.active_plans:
                return
            self.cycle()
        raise AssertionError(f"not ended: {self.loop.recorder.active_plans}, {self.cluster.partitions}")

    def replicas(self) -> dict[TopicPartition, tuple[int, ...]]:
        return {key: now.replicas for key, now in self.cluster.partitions.items()}

    def _now(self) -> float:
        return self.now_s


def still(*replicas: int, leader: int | None = None, isr: Sequence[int] | None = None) -> CurrentAssignment:
    return CurrentAssignment(
        replicas[0] if leader is None else leader, replicas, tuple(replicas if isr is None else isr)
    )
