"""Elects preferred leaders after a broker has returned, one group of partitions at a time. Requests run in the background.

Reading all partitions of a large cluster takes a second. So this controller reads the partitions only in three cases:

- some partitions lack their preferred leader;
- a live broker has replicas that catch up;
- the live brokers, their numbers of leaders or the reassignments have changed since the last reading.

An election is journaled before it is requested. The next reading shows its effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from streaming.shared.contract import TopicPartition
from streaming.shared.kafka.leader_elections import BrokerConfigs, electing_brokers
from streaming.shared.kafka.reassignments import Outcome
from streaming.shared.kafka.values import PartitionState
from tuner.control.leadership.decision import (
    ElectLeaders,
    HoldElection,
    LeadershipDecision,
    LeadershipReason,
    election_action,
)
from tuner.control.leadership.policy import (
    LeadershipLimits,
    LeadershipMemory,
    LeadershipView,
    decide_election,
    record_election,
)
from tuner.control.leadership.survey import LeaderSurvey, survey_leaders
from tuner.core.backoff import Backoff
from tuner.core.cluster import LiveCluster, Observation
from tuner.core.operator_orders import Orders
from tuner.core.vetoes import Veto
from tuner.journal.entries import Entry
from tuner.journal.input_log import InputLog
from tuner.journal.kafka_journal import JournalError
from tuner.runtime.background_call import BackgroundCaller, Call, result_or_error
from tuner.runtime.clock import Clock

log = structlog.get_logger("tuner")

EVERY_S = 15.0
_SETTINGS_AGE_S_MAX = 600.0  # auto.leader.rebalance.enable cannot change without a restart of the broker.
_POLL_S = 0.5
_NAMED_MAX = 20  # Partitions that a journal entry names.


class LeadershipApi(BrokerConfigs, Protocol):
    """The calls to Kafka. Only the background thread makes them."""

    def partitions(self) -> Sequence[PartitionState]: ...

    def elect_preferred(self, partitions: Iterable[TopicPartition]) -> Outcome: ...


class LeadershipObserver(Protocol):
    def record_election(self, survey: LeaderSurvey | None, decision: LeadershipDecision) -> None:
        """Publishes a decision; the survey is None if the partitions cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipPorts:
    """Everything that the controller reads from and writes to.

    Attributes:
        latest: returns the observation of the last throttle cycle; None if no cycle has ended.
        write_refusal: returns why nothing may be written now; None if writes are allowed.
        vetoes: returns the external checks that veto now.
        inputs: records the inputs of each decision; None if nothing is recorded.
    """

    api: LeadershipApi
    caller: BackgroundCaller
    latest: Callable[[], Observation | None]
    orders: Callable[[], Orders]
    vetoes: Callable[[], tuple[Veto, ...]]
    journal: Callable[[list[Entry]], None]
    write_refusal: Callable[[], str | None]
    observer: LeadershipObserver
    inputs: InputLog | None = None


@dataclass(frozen=True, slots=True)
class _Reading:
    """The result of a reading in the background thread.

    Attributes:
        electing: brokers for which Kafka itself elects preferred leaders; None if their settings cannot be read.
    """

    observation: Observation
    brokers: frozenset[int]
    survey: LeaderSurvey
    electing: frozenset[int] | None


class LeadershipController:
    """Reads the leaders, decides, and elects. One thread calls all methods."""

    def __init__(self, ports: LeadershipPorts, limits: LeadershipLimits, clock: Clock, *, dry_run: bool) -> None:
        self._ports, self._limits, self._clock, self._dry_run = ports, limits, clock, dry_run
        self._memory = LeadershipMemory()
        self._backoff: Backoff[int] = Backoff(clock.monotonic_s)  # Pauses after failed elections, by broker.
        self._last: tuple[int | None, LeadershipReason] | None = None
        self._due_s = float("-inf")
        self._reading: Call[_Reading] | None = None
        self._election: tuple[Call[Outcome], ElectLeaders] | None = None
        # Living brokers, their numbers of leaders, and reassignments at the last reading.
        self._state_read: object = None
        self._is_settled = False  # In the last reading no broker waited for leaders or caught up.
        self._electing: frozenset[int] | None = None
        self._electing_read_s = float("-inf")
        self._electing_of: frozenset[int] = frozenset()

    def next_due_s(self) -> float:
        """Returns the monotonic time of the next ``tick``, in seconds."""
        is_busy = self._reading is not None or self._election is not None
        return self._clock.monotonic_s() + _POLL_S if is_busy else self._due_s

    def tick(self) -> None:
        """Continues with an answer, or reads if it is due. Never waits."""
        if self._reading is not None:
            if self._reading.done():
                reading, self._reading = self._reading, None
                self._decide(reading)
        elif self._election is not None:
            if self._election[0].done():
                election, self._election = self._election, None
                self._finish(*election)
        elif self._clock.monotonic_s() >= self._due_s:
            self._due_s = self._clock.monotonic_s() + EVERY_S
            self._start_reading()

    def _start_reading(self) -> None:
        observation = self._ports.latest()
        live = observation.live if observation is not None else None
        if observation is None or not isinstance(live, LiveCluster):
            return
        leaders = {b: signal.leaders for b, signal in observation.broker_signals.items()}
        state = (live.brokers, leaders, {(move.topic, move.partition) for move in live.moves})
        if self._is_settled and state == self._state_read:
            return
        self._state_read = state
        self._reading = self._ports.caller.start(lambda: self._read(observation, live))

    def _read(self, observation: Observation, live: LiveCluster) -> _Reading:
        """Runs in the background thread."""
        adding = {(move.topic, move.partition): move.adding for move in live.moves}
        survey = survey_leaders(self._ports.api.partitions(), adding)
        now_s = self._clock.monotonic_s()
        if survey.displaced and (
            self._electing is None
            or live.brokers != self._electing_of
            or now_s - self._electing_read_s > _SETTINGS_AGE_S_MAX
        ):
            self._electing = electing_brokers(self._ports.api, live.brokers)
            self._electing_read_s, self._electing_of = now_s, live.brokers
        return _Reading(observation, live.brokers, survey, self._electing if survey.displaced else frozenset())

    def _decide(self, call: Call[_Reading]) -> None:
        reading = result_or_error(call)
        if not isinstance(reading, _Reading):
            self._is_settled = False
            text = f"the partitions cannot be read, so no leader is elected: {reading}"
            self._report(None, HoldElection(None, LeadershipReason.PARTITIONS_UNREADABLE, text))
            return
        # A replica that is not in sync yet can be elected only later. The numbers of leaders do not change when it is in sync.
        catches_up = not reading.brokers.isdisjoint(reading.survey.out_of_sync)
        self._is_settled = not reading.survey.displaced and not catches_up
        pause, vetoes = self._ports.orders().pause, self._ports.vetoes()
        view = LeadershipView(
            self._clock.now_ms(),
            reading.survey,
            reading.electing,
            reading.brokers,
            reading.observation.broker_signals,
            reading.observation.baselines,
            pause=pause.by if pause is not None else None,
            vetoes=vetoes,
        )
        before = self._memory
        self._memory, decision = decide_election(view, before, self._limits)
        if self._ports.inputs is not None:
            self._ports.inputs.record_election(view, self._limits, before, self._memory, decision)
        is_new = (decision.broker, decision.reason) != self._last
        is_paused = isinstance(decision, ElectLeaders) and self._backoff.is_paused(decision.broker)
        if not is_paused:
            self._report(reading.survey, decision)
        inputs = _inputs(view, reading.survey, decision)
        if isinstance(decision, HoldElection):
            if is_new and decision.reason is not LeadershipReason.LEADERS_IN_PLACE:
                self._write("decision", decision, inputs)
        elif self._dry_run:
            if is_new:
                self._write("intent", decision, inputs)
        elif not is_paused:
            self._elect(decision, inputs)

    def _elect(self, decision: ElectLeaders, inputs: Mapping[str, Any]) -> None:
        if (refusal := self._ports.write_refusal()) is not None:
            log.warning("no preferred leader is elected", broker=decision.broker, why=refusal)
        elif self._write("intent", decision, inputs):
            api, partitions = self._ports.api, decision.partitions
            self._election = (self._ports.caller.start(lambda: api.elect_preferred(partitions)), decision)

    def _finish(self, call: Call[Outcome], decision: ElectLeaders) -> None:
        outcome = result_or_error(call)
        failure = None
        if not isinstance(outcome, dict):
            failure = str(outcome)
        elif refused := {key: error for key, error in outcome.items() if error is not None}:
            (topic, partition), error = next(iter(refused.items()))
            failure = f"{len(refused)} of {len(outcome)} leaders were not elected; {topic}-{partition}: {error}"
        self._memory = record_election(self._memory, decision.broker, self._clock.now_ms())
        if failure is None:
            self._backoff.succeed(decision.broker)
        else:
            self._backoff.fail(decision.broker)
            log.error("preferred leaders were not elected", broker=decision.broker, why=failure)
        self._write("outcome", decision, {}, failure)

    def _report(self, survey: LeaderSurvey | None, decision: LeadershipDecision) -> None:
        subject = (decision.broker, decision.reason)
        if subject != self._last or isinstance(decision, ElectLeaders):
            log.info(
                decision.text, action=election_action(decision), reason=decision.reason.value, dry_run=self._dry_run
            )
        self._last = subject
        self._ports.observer.record_election(survey, decision)

    def _write(
        self, kind: str, decision: LeadershipDecision, inputs: Mapping[str, Any], failure: str | None = None
    ) -> bool:
        """Writes a journal entry. Returns whether the journal has it."""
        entry = Entry(
            self._clock.now_ms(),
            kind,
            action=election_action(decision),
            reason=decision.reason.value,
            text=decision.text,
            decision={"broker": decision.broker},
            inputs=inputs,
            failure=failure,
            dry_run=self._dry_run,
        )
        try:
            self._ports.journal([entry])
        except JournalError as error:
            log.error("the journal accepts no record, so no preferred leader is elected", error=str(error))
            return False
        return True


def _inputs(view: LeadershipView, survey: LeaderSurvey, decision: LeadershipDecision) -> dict[str, Any]:
    """Returns the inputs of the decision, for the journal."""
    broker = decision.broker
    inputs: dict[str, Any] = {"partitions_without_preferred_leader": survey.displaced_count}
    if broker is not None:
        inputs["waiting"] = survey.displaced.get(broker, 0)
        inputs["out_of_sync"] = survey.out_of_sync.get(broker, 0)
        if (signal := view.signals.get(broker)) is not None:
            inputs["produce_p99_ms"] = signal.produce_p99_ms
            inputs["request_handler_idle_ratio"] = signal.request_handler_idle_ratio
    if isinstance(decision, ElectLeaders):
        inputs["partitions"] = [f"{topic}-{partition}" for topic, partition in decision.partitions[:_NAMED_MAX]]
        inputs["group"] = len(decision.partitions)
    if view.vetoes:
        inputs["vetoes"] = {veto.name: veto.cause for veto in view.vetoes}
    return inputs
