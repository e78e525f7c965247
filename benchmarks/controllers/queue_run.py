"""Runs storms at the simulated controller with quotas from rheostat's policy, with fixed quotas, or without quotas.

If the model has brokers, each of them forwards one request at a time: further requests through it wait in its line
(forwarding_line.py).

Invariant: two runs with the same world and the same dealer are equal. The random request times come from the world's seed.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from benchmarks.controllers.controller_queue import EVERYBODY_ELSE, ControllerQueue, QueueModel
from benchmarks.controllers.forwarding_line import ForwardingLines
from benchmarks.controllers.queue_signals import EVERY_S, FEEL_EVERY_S, ControllerStream, Delivery
from streaming.shared.contract import ControllerSignal, TenantSignal
from tuner.control.mutation_quota.decision import RestoreQuota, SetQuota, TotalRateReport
from tuner.control.mutation_quota.entity import DEFAULT, QuotaEntity
from tuner.control.mutation_quota.model import MutationPolicy, QuotaView
from tuner.control.mutation_quota.ownership import note_confirmed_write, note_pending_write
from tuner.control.mutation_quota.policy import step
from tuner.control.mutation_quota.state import MutationMemory
from tuner.core.controller import ClusterWideMeasures

EPOCH_MS = 1_600_000_000_000
_SHOWN_S = 0.3  # From a write to its effect.
_CHECK_EVERY_S = 0.1
# From the answer to the next request of a client that was told to wait so long: the way there and back, and its own business.
_RETURN_S_MIN, _RETURN_S_MAX = 0.001, 0.1


@dataclass(frozen=True, slots=True)
class TenantSpec:
    client_id: str
    requests_per_s: float
    topics_per_request: int = 1
    partitions_per_topic: int = 4
    at_s: float = 0.0
    until_s: float = float("inf")
    honours: bool = True  # Waits for the throttle time of a refusal; otherwise retries at once.
    at_random: bool = False  # Comes so often on average: half as long apart, or half as long again.
    pause_every_s: float = 0.0  # Works for so long, and rests for as long; 0: never rests.
    deletes: bool = False  # Deletes in every second request what it has created in the one before.


@dataclass(frozen=True, slots=True)
class QueueWorld:
    """A controller and its tenants.

    Attributes:
        probes: rheostat's probe runs. Through brokers it takes part of their lines.
    """

    seed: int
    model: QueueModel
    tenants: tuple[TenantSpec, ...]
    duration_s: float
    fail_overs_at_s: tuple[float, ...] = ()
    delivery: Delivery = field(default_factory=Delivery)
    probes: bool = True


class QuotaDealer(Protocol):
    """Sets the quotas of a run."""

    def deal(self, now_s: float, stream: ControllerStream, quotas: dict[str, float]) -> dict[str, float]:
        """Returns the quotas to write, by client-id. It is called every five seconds."""
        ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """Quotas that an operator sets once."""

    quotas: dict[str, float] = field(default_factory=dict)

    def deal(self, now_s: float, stream: ControllerStream, quotas: dict[str, float]) -> dict[str, float]:  # noqa: ARG002 - the policy's shape
        return {} if quotas == self.quotas else dict(self.quotas)


@dataclass(slots=True)
class Law:
    policy: MutationPolicy
    memory: MutationMemory = field(default_factory=MutationMemory)
    said: list[tuple[float, TotalRateReport]] = field(default_factory=list)

    def deal(self, now_s: float, stream: ControllerStream, quotas: dict[str, float]) -> dict[str, float]:
        controllers: dict[int, ControllerSignal] = {}
        tenants: tuple[TenantSignal, ...] = ()
        beside = ClusterWideMeasures()
        if stream.newest is not None:
            signal, tenants, beside = stream.newest
            controllers[signal.node] = signal
        stands = {_entity(client_id): rate for client_id, rate in quotas.items()}
        view = QuotaView(EPOCH_MS + round(now_s * 1000), stands, controllers, tenants, beside)
        made = step(view, self.memory, self.policy)
        self.memory, written = made.memory, {}
        for decision in made.decisions:
            if isinstance(decision, TotalRateReport):
                self.said.append((now_s, decision))
            if isinstance(decision, SetQuota):
                self.memory = note_confirmed_write(note_pending_write(self.memory, decision), decision)
                client_id = decision.entity.client_id
                written[client_id if isinstance(client_id, str) else EVERYBODY_ELSE] = decision.setpoint_per_s
            assert not isinstance(decision, RestoreQuota), "nobody is away for an hour here"
        return written


def _entity(client_id: str) -> QuotaEntity:
    return QuotaEntity(client_id=DEFAULT if client_id == EVERYBODY_ELSE else client_id)


@dataclass(slots=True)
class QueueOutcome:
    """The result of a run, over time."""

    waits_s: list[tuple[float, float]] = field(default_factory=list)  # Time, and wait of an event that arrives then.
    # By client-id, of what passed, from when it was first asked for.
    took_s: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    partitions: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    writes: dict[str, list[float]] = field(default_factory=dict)
    busy: list[tuple[float, float]] = field(default_factory=list)  # Of each five seconds.
    quotas: list[tuple[float, float]] = field(default_factory=list)  # What they add up to.


@dataclass(slots=True)
class _Client:
    spec: TenantSpec
    refused: int = 0
    since_s: float = 0.0  # When what was refused was asked for first.
    answered: int = 0  # Requests that were admitted in full.

    def next_s(self, now_s: float, throttle_s: float, rng: np.random.Generator) -> float:
        every_s = 1 / self.spec.requests_per_s
        if self.refused and self.spec.honours:
            return now_s + throttle_s + float(rng.uniform(_RETURN_S_MIN, _RETURN_S_MAX))
        next_s = now_s + (float(rng.uniform(0.5, 1.5)) * every_s if self.spec.at_random else every_s)
        rest = self.spec.pause_every_s
        if rest and int((next_s - self.spec.at_s) // rest) % 2 == 1:
            return self.spec.at_s + ((next_s - self.spec.at_s) // rest + 1) * rest
        return next_s


def run_queue(world: QueueWorld, hand: QuotaDealer) -> QueueOutcome:
    return _Run(world, hand).outcome()


class _Run:
    """One run: the requests in order of time, and every tenth of a second the tuner's side."""

    def __init__(self, world: QueueWorld, hand: QuotaDealer) -> None:
        self._world, self._hand = world, hand
        self._rng = np.random.default_rng(world.seed)
        self._queue = ControllerQueue(world.model)
        self._stream = ControllerStream(self._queue, EPOCH_MS, world.delivery)
        self._felt = QueueOutcome()
        self._queue.write(hand.deal(0.0, self._stream, {}))
        self._clients = [_Client(spec) for spec in world.tenants]
        self._due = [(client.spec.at_s, index) for index, client in enumerate(self._clients)]
        heapq.heapify(self._due)
        self._lines = ForwardingLines(world.model.brokers)
        self._probe, self._probes, self._probe_free_at_s = len(self._clients), 0, 0.0

    def outcome(self) -> QueueOutcome:
        world, queue, stream, felt = self._world, self._queue, self._stream, self._felt
        pending: list[tuple[float, dict[str, float]]] = []
        overs = sorted(world.fail_overs_at_s)
        ticks = round(world.duration_s / _CHECK_EVERY_S)
        every, feels_every = round(EVERY_S / _CHECK_EVERY_S), round(FEEL_EVERY_S / _CHECK_EVERY_S)
        for tick in range(1, ticks + 1):
            until_s = tick * _CHECK_EVERY_S
            self._requests_until(until_s)
            queue.advance(until_s)
            felt.waits_s.append((until_s, queue.wait_s(until_s)))
            if tick % feels_every == 0 and world.probes:
                self._send_probe(until_s)
            while pending and pending[0][0] <= until_s:
                queue.write(pending.pop(0)[1])
            if overs and overs[0] <= until_s:
                overs.pop(0)
                queue.fail_over(until_s)
                stream.fail_over()
            stream.arrive(until_s)
            if tick % every == 0:
                felt.busy.append((until_s, queue.counted.busy_s / EVERY_S))
                stream.scrape(until_s)
                written = self._hand.deal(until_s, stream, dict(queue.quotas))
                if written:
                    pending.append((until_s + _SHOWN_S, written))
                for client_id in written:
                    felt.writes.setdefault(client_id, []).append(until_s)
                felt.quotas.append((until_s, sum(queue.quotas.values())))
        return felt

    def _requests_until(self, until_s: float) -> None:
        due, clients, lines = self._due, self._clients, self._lines
        while due and due[0][0] <= until_s:
            at_s, index = heapq.heappop(due)
            if index < 0:  # A broker is ready for the next request in its line.
                index, asked_s = lines.next_waiting(~index)
                self._begin(index, at_s, asked_s)
            elif at_s < clients[index].spec.until_s:
                self._arrive(index, at_s)

    def _arrive(self, index: int, at_s: float) -> None:
        ready_s = self._lines.join(self._broker(index), (index, at_s), at_s)
        if ready_s is None:
            self._begin(index, at_s, at_s)
        elif ready_s > 0:
            heapq.heappush(self._due, (ready_s, ~self._broker(index)))

    def _broker(self, index: int) -> int:
        """Returns the broker of a client; the probe uses the brokers in turn."""
        return self._lines.broker_of(self._probes if index == self._probe else index)

    def _begin(self, index: int, at_s: float, asked_s: float) -> None:
        """Sends a request from its broker to the controller.

        Args:
            asked_s: when the client sent it to the broker.
        """
        if index == self._probe:
            answer_s = at_s + self._queue.felt_s(at_s)
            self._stream.feel(asked_s, answer_s - asked_s, self._broker(index))
            self._probe_free_at_s = answer_s
        else:
            answer_s = self._ask(self._clients[index], index, at_s, asked_s)
        if self._lines.occupy(self._broker(index), answer_s):
            heapq.heappush(self._due, (answer_s, ~self._broker(index)))

    def _send_probe(self, now_s: float) -> None:
        """Sends the probe's next request, unless its last one still waits."""
        if not self._lines.brokers:
            self._stream.feel(now_s, self._queue.felt_s(now_s))
        elif self._probe_free_at_s <= now_s:
            self._probes += 1
            self._probe_free_at_s = float("inf")
            self._arrive(self._probe, now_s)

    def _ask(self, client: _Client, index: int, at_s: float, asked_s: float) -> float:
        """Makes one request of a client, schedules its next one, and returns the time of the answer."""
        spec, queue = client.spec, self._queue
        topics = client.refused or spec.topics_per_request
        client.since_s = client.since_s if client.refused else asked_s
        deletes = spec.deletes and client.answered % 2 == 1
        answered = queue.ask(at_s, spec.client_id, topics, spec.partitions_per_topic, deletes=deletes)
        answer_s = at_s + (answered.took_s if answered.topics or not self._lines.brokers else queue.felt_s(at_s))
        client.refused = topics - answered.topics
        client.answered += not client.refused
        partitions = answered.topics * spec.partitions_per_topic
        self._stream.done(at_s, spec.client_id, partitions)
        if answered.topics:
            self._felt.took_s.setdefault(spec.client_id, []).append((asked_s, answer_s - client.since_s))
            self._felt.partitions.setdefault(spec.client_id, []).append((at_s, partitions))
        next_s = client.next_s(at_s, answered.throttle_s, self._rng)
        if self._lines.brokers:  # A client sends its next request after the answer.
            next_s = max(next_s, answer_s + _RETURN_S_MIN)
            queue.counted.forwarded_s += answer_s - at_s
        heapq.heappush(self._due, (next_s, index))
        return answer_s


def alone(world: QueueWorld, client_id: str) -> QueueWorld:
    """Returns the same world with this tenant only."""
    return replace(world, tenants=tuple(spec for spec in world.tenants if spec.client_id == client_id))
