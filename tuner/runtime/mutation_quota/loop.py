"""The mutation quotas' own small loop: read what stands, decide, put on record, write; and with the next look see that it stands.

Intuition: the controller is asked for something just when it is busiest. So nothing here waits for an answer: a call is under way
or it is not, and between its beginning and its end the throttles have their seconds. The look with which a cycle begins also
tells what came of the last one's writes.

    read (beside) → decide, on record → write (beside) → answered

Invariant: a quota that is not yet seen to stand as written may still stand as before; both are ours until it is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any, Protocol

import structlog

from streaming.shared.contract import BrokerSignal, ControllerSignal, TenantSignal
from streaming.shared.contract.quotas import QuotaEntity
from streaming.shared.kafka.cluster import ClusterError
from tuner.control.mutation_quota.decision import RestoreQuota, SetQuota, TotalRateReport
from tuner.control.mutation_quota.model import MutationLimits, MutationPolicy, QuotaView, with_broker_window
from tuner.control.mutation_quota.operator_orders import step_with_orders
from tuner.control.mutation_quota.ownership import intend, settle
from tuner.control.mutation_quota.policy import QuotaStep
from tuner.control.mutation_quota.state import MutationMemory
from tuner.core.cluster import ClusterUnreadable
from tuner.core.controller import cluster_wide_measures
from tuner.core.outcome import Failure
from tuner.core.quota_window import QuotaWindow
from tuner.journal.input_log import InputLog
from tuner.journal.kafka_journal import JournalError
from tuner.journal.quota_records import QuotaWrite, requested_per_s
from tuner.runtime.background_call import BackgroundCaller, Call, answer_of
from tuner.runtime.clock import Clock
from tuner.runtime.mutation_quota.actuator import Outcome, QuotaActuator
from tuner.runtime.mutation_quota.recorder import MutationQuotaRecorder
from tuner.runtime.ports import CurrentOrders

log = structlog.get_logger("tuner")

# A broker shows a change within a second or so, also in a storm; one that is not there by then was not taken.
SHOWN_S_MAX = 20.0
_POLL_S = 0.05


class ControllerSignals(Protocol):
    @property
    def brokers(self) -> Mapping[int, BrokerSignal]: ...

    @property
    def controllers(self) -> Mapping[int, ControllerSignal]: ...

    @property
    def tenants(self) -> Mapping[Any, TenantSignal]: ...


class QuotaWatcher(Protocol):
    def publish(self, view: QuotaView, made: QuotaStep, memory: MutationMemory) -> None: ...

    def record_failures(self, count: int) -> None:
        """So many writes did, now."""

    def cycle_failed(self) -> None:
        """Nothing is shared out for a while."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationQuotaPorts:
    """Everything that the controller reads from and writes to.

    Attributes:
        refusal: why nothing may be written now, asked before each write; None: writes are allowed.
        inputs: records what each cycle saw; None: nothing is recorded.
        windows: the brokers' quota windows (controller.quota.window.*); None: the policy sets them.
        create_probe_p90_ms: latency of topic creations (p90); None: the objective does not limit it.
    """

    quotas: QuotaActuator
    caller: BackgroundCaller
    signals: ControllerSignals
    orders: CurrentOrders
    refusal: Callable[[], Failure | None]
    observer: QuotaWatcher
    inputs: InputLog | None = None
    windows: Callable[[], Set[QuotaWindow]] | None = None
    create_probe_p90_ms: Callable[[], float | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationQuotaConfig:
    """What the operator set.

    Attributes:
        policy: how quotas are shared; None: quotas are no longer configured, and the controller restores managed ones.
        dry_run: the controller decides and records, and writes nothing to Kafka.
    """

    policy: MutationPolicy | None
    cycle_s: float
    dry_run: bool = False


class MutationQuotaController:
    """Shares the controllers' capacity for creating and deleting topics among tenants, by their KIP-599 quotas."""

    def __init__(
        self,
        ports: MutationQuotaPorts,
        config: MutationQuotaConfig,
        clock: Clock,
        recorder: MutationQuotaRecorder,
    ) -> None:
        self.recorder = recorder
        self._quotas = ports.quotas
        self._caller = ports.caller
        self._signals = ports.signals
        self._orders = ports.orders
        self._refusal = ports.refusal
        self._observer = ports.observer
        self._inputs = ports.inputs
        self._windows = ports.windows
        self._create_probe_p90_ms = ports.create_probe_p90_ms
        self._policy = policy = config.policy
        self._age_s_max = (policy.limits if policy is not None else MutationLimits()).hold_age_s
        self._cycle_s = config.cycle_s
        self._dry_run = config.dry_run
        self._clock = clock
        self._due_s = float("-inf")
        self._reading: Call[dict[QuotaEntity, float] | ClusterError] | None = None
        self._writing: Call[Outcome] | None = None
        self._may = False  # Of what is being written, as far as it was asked.
        self._asked: dict[QuotaEntity, QuotaWrite] = {}
        # When a write ended last. Whoever was the tuner before may have died in one just now.
        self._asked_at_s = clock.monotonic_s()
        self._unseen: dict[QuotaEntity, tuple[QuotaWrite, float]] = {}  # QuotaWrite, and since when it is waited for.

    def next_due_s(self) -> float:
        busy = self._reading is not None or self._writing is not None
        return self._clock.monotonic_s() + _POLL_S if busy else self._due_s

    def tick(self) -> None:
        """Goes on where something is due or has been answered; never waits."""
        try:
            if self._reading is not None:
                if self._reading.done():
                    reading, self._reading = self._reading, None
                    self._cycle(answer_of(reading))
            elif self._writing is not None:
                if self._writing.done():
                    writing, self._writing = self._writing, None
                    outcome = answer_of(writing)
                    self._answered(
                        dict.fromkeys(self._asked, str(outcome)) if isinstance(outcome, ClusterError) else outcome
                    )
                elif self._may:
                    # Keeps the proof young for the requests that follow; their port sees what came of it.
                    self._may = self._refusal() is None
            elif self._clock.monotonic_s() >= self._due_s:
                self._due_s = self._clock.monotonic_s() + self._cycle_s
                self._reading = self._caller.start(self._quotas.read)
        except JournalError as error:
            log.error("the journal takes no record, so no quota is changed", error=str(error))
        except Exception:
            self._observer.cycle_failed()  # What was told last is not how it is.
            raise

    def _cycle(self, answer: dict[QuotaEntity, float] | ClusterError) -> None:
        now_ms = self._clock.now_ms()
        quotas = ClusterUnreadable(str(answer)) if isinstance(answer, ClusterError) else answer
        signals = self._signals
        view = QuotaView(
            now_ms,
            quotas,
            dict(signals.controllers),
            tuple(signals.tenants.values()),
            cluster_wide_measures(
                signals.controllers,
                signals.brokers,
                now_ms,
                self._age_s_max,
                self._create_probe_p90_ms() if self._create_probe_p90_ms is not None else None,
            ),
        )
        memory, seen = self.recorder.memory, dict[QuotaEntity, Failure | None]()
        if not isinstance(quotas, ClusterUnreadable):
            memory, seen = self._looked_back(quotas, memory)
        orders, policy = self._orders.latest, self._policy
        if policy is not None and self._windows is not None:
            policy = with_broker_window(policy, self._windows())
        made = step_with_orders(view, memory, policy, orders)
        if self._inputs is not None:
            self._inputs.record_quota_cycle(view, orders, policy, memory, made.memory, made.decisions)
        # Who only looks on cannot tell what a tuner that acts writes from what people do.
        memory = replace(made.memory, quotas_were_read=False) if self._dry_run else made.memory
        there, changes = list[QuotaWrite](), list[QuotaWrite]()
        for decision in made.decisions:
            if not isinstance(decision, SetQuota | RestoreQuota):
                continue
            if decision.entity in self._unseen and decision.entity not in seen:
                continue
            if self._is_there(decision):
                there.append(decision)
                memory = settle(memory, decision)
            elif not self.recorder.is_paused(decision.entity):
                changes.append(decision)
                memory = memory if self._dry_run else intend(memory, decision)
        self.recorder.record(made.decisions, [*there, *changes], memory, _inputs(made))
        self._came_out(seen)
        self._observer.publish(view, made, memory)
        if changes and not self._dry_run:
            self._write(changes)

    def _is_there(self, decision: QuotaWrite) -> bool:
        """What is to be put back stands already, as what we asked for was refused, and nothing that was asked for can still come:
        there is nothing to ask Kafka for, which may refuse that as well."""
        back = isinstance(decision, RestoreQuota) and decision.current_per_s == decision.value_per_s
        return back and self._clock.monotonic_s() - self._asked_at_s > SHOWN_S_MAX

    def _looked_back(
        self, quotas: Mapping[QuotaEntity, float], memory: MutationMemory
    ) -> tuple[MutationMemory, dict[QuotaEntity, Failure | None]]:
        """What stands as written is settled; what is not there in time was not taken. The rest is still waited for."""
        seen: dict[QuotaEntity, Failure | None] = {}
        for entity, (change, since_s) in self._unseen.items():
            asked, found = requested_per_s(change), quotas.get(entity)
            if found == asked:
                memory, seen[entity] = settle(memory, change), None
            elif self._clock.monotonic_s() - since_s > SHOWN_S_MAX:
                seen[entity] = f"{_said(asked)} was written, {_said(found)} stands there"
        return memory, seen

    def _came_out(self, seen: Mapping[QuotaEntity, Failure | None]) -> None:
        """What has been seen is waited for no more; that comes after the record of it, or nobody would look for it again."""
        for entity, failure in seen.items():
            del self._unseen[entity]
            if failure is None:
                self.recorder.succeed(entity)
        self._failed({entity: failure for entity, failure in seen.items() if failure is not None})

    def _write(self, changes: list[QuotaWrite]) -> None:
        refused = self._refusal()
        if refused is not None:
            self._failed({change.entity: refused for change in changes})
            return
        self._asked, self._may = {change.entity: change for change in changes}, True
        rates = {entity: requested_per_s(change) for entity, change in self._asked.items()}
        self._writing = self._caller.start(lambda: self._quotas.write(rates))

    def _answered(self, outcome: Outcome) -> None:
        """Where Kafka did not take it, or nobody knows, what may stand there stays as it was put on record."""
        failures = {entity: failure for entity, failure in outcome.items() if failure is not None}
        now_s = self._asked_at_s = self._clock.monotonic_s()
        self._unseen |= {e: (change, now_s) for e, change in self._asked.items() if e not in failures}
        self._asked = {}
        self._failed(failures)

    def _failed(self, failures: Mapping[QuotaEntity, Failure]) -> None:
        self._observer.record_failures(len(failures))
        self.recorder.failed(failures)


def _inputs(made: QuotaStep) -> dict[str, Any]:
    total = next((d for d in made.decisions if isinstance(d, TotalRateReport)), None)
    if total is None:
        return {}
    return {"total_per_s": total.rate_per_s, "pressure": total.pressure, "total_reason": total.reason.value}


def _said(rate: float | None) -> str:
    return "nothing" if rate is None else f"{rate:g}/s"
