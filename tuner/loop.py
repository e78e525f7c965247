"""One cycle: observe → decide → journal → actuate → journal.

The ports are handed in; there is no arithmetic and no judgement here, only the order of things:

    a decision to act is on record, with its inputs, before the first write; what came of it after the last
    the memory of what is ours is on record before it becomes true
    where the journal does not take a record, nothing is done: an act nobody can trace would be one nobody can undo

Between two cycles, ``tick`` carries on with the changes of rate that are under way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any, Protocol, TypeVar

import structlog

from streaming.contract import BrokerSignal, MoveSignal
from tuner.actuate.slewing import Slewing
from tuner.actuate.throttles import Failure, Throttles
from tuner.decide.ownership import let_go
from tuner.decide.policy import decide, intend, intend_put_back, settle
from tuner.journal.entries import Entry, entry_of
from tuner.journal.kafka_journal import JournalError
from tuner.model.cluster import BrokerSide, LiveCluster, NotSeen, Observation
from tuner.model.decision import ClearLists, Decision, Hold, LetGo, PutBackRate, Reason, SetRate, action_of
from tuner.model.limits import Limits, StallLimits
from tuner.model.memory import Memory
from tuner.plan.slew import slew

log = structlog.get_logger("tuner")

FULL_LOOK_EVERY = 6
_BLIND = {
    Reason.CLUSTER_NOT_SEEN,
    Reason.SETTINGS_UNREADABLE,
    Reason.SIGNALS_MISSING,
    Reason.SIGNALS_STALE,
    Reason.BROKER_DOWN,
}

D = TypeVar("D", ClearLists, PutBackRate)


class Signals(Protocol):
    @property
    def brokers(self) -> Mapping[int, BrokerSignal]: ...

    @property
    def moves(self) -> Mapping[BrokerSide, MoveSignal]: ...

    def poll(self) -> int: ...

    def forget_old(self, now_ms: int) -> None: ...


class Live(Protocol):
    def look(self, *, full: bool) -> LiveCluster | NotSeen: ...


class Journal(Protocol):
    def append(self, entry: Entry) -> None: ...

    def save(self, memory: Memory) -> None: ...


class Watcher(Protocol):
    """Is told of everything; the status page, the metrics."""

    def observed(self, observation: Observation, memory: Memory, decisions: tuple[Decision, ...]) -> None: ...

    def acted(self, decision: Decision, failure: Failure | None) -> None: ...


class Loop:
    def __init__(
        self,
        *,
        live: Live,
        signals: Signals,
        throttles: Throttles,
        slewing: Slewing,
        journal: Journal,
        watcher: Watcher,
        memory: Memory,
        limits: Limits,
        stall_limits: StallLimits,
        wall_clock: Callable[[], float],
        monotonic: Callable[[], float],
        writes_per_s_max: float,
        dry_run: bool,
    ) -> None:
        self.memory = memory
        self._live = live
        self._signals = signals
        self._throttles = throttles
        self._slewing = slewing
        self._journal = journal
        self._watcher = watcher
        self._limits = limits
        self._stall_limits = stall_limits
        self._wall_clock = wall_clock
        self._monotonic = monotonic
        self._writes_per_s_max = writes_per_s_max
        self._dry_run = dry_run
        self._cycles = 0
        self._said: dict[tuple[object, ...], Reason] = {}
        self._saved: Memory | None = None

    def cycle(self) -> tuple[Decision, ...]:
        observation = self._observe()
        memory, decisions = decide(observation, self.memory, self._limits, self._stall_limits)
        try:
            self._remember(memory)
            self._note(decisions, observation)
            if not self._dry_run:
                self._carry_out(decisions, observation)
        except JournalError as error:
            log.error("the journal takes no record, so nothing is done", error=str(error))
        self._watcher.observed(observation, self.memory, decisions)
        return decisions

    def tick(self) -> None:
        """The steps that are due of the changes under way."""
        for ended in self._slewing.step(self._monotonic()):
            decision, failure = ended.decision, ended.failure
            side = (decision.broker, decision.side)
            what = decision.text.split(":")[0]
            if failure is None:
                log.info(f"done: {what}", broker=decision.broker, side=decision.side)
            else:
                log.error(f"not done: {what}: {failure}", broker=decision.broker, side=decision.side)
            self._watcher.acted(decision, failure)
            try:
                self._journal.append(self._entry("outcome", decision, failure=failure))
                if failure is None:
                    self._remember(settle(self.memory, decision))
                elif ended.theirs and side in self.memory.owned:
                    now_ms = round(self._wall_clock() * 1000)
                    memory, changed = let_go(side, ended.found, self.memory, now_ms, self._limits)
                    self._remember(memory)
                    self._tell(changed)
                    self._journal.append(self._entry("decision", changed))
            except JournalError as error:
                # What may stand there stays on record as the whole ramp, which is true, only less exact.
                log.error("the journal takes no outcome", error=str(error))

    def next_due_s(self) -> float | None:
        return self._slewing.next_due_s()

    # -- steps of a cycle ---------------------------------------------------------------------------------------------

    def _observe(self) -> Observation:
        self._signals.poll()
        now_ms = round(self._wall_clock() * 1000)
        self._signals.forget_old(now_ms)
        ending = self.memory.idle_looks > 0 and bool(self.memory.seen or self.memory.owned)
        live = self._live.look(full=ending or self._cycles % FULL_LOOK_EVERY == 0)
        self._cycles += 1
        return Observation(
            now_ms, live, dict(self._signals.brokers), dict(self._signals.moves), busy=self._slewing.busy
        )

    def _carry_out(self, decisions: tuple[Decision, ...], observation: Observation) -> None:
        self._stop_blind_changes(decisions)
        changes = [d for d in decisions if isinstance(d, SetRate)]
        together = len(changes) + len(self._slewing.busy)
        for change in changes:
            steps = slew(
                change.live_bytes_per_s,
                change.wanted_bytes_per_s,
                sides=together,
                writes_per_s_max=self._writes_per_s_max,
            )
            self._journal.append(self._entry("intent", change, inputs=self._inputs(change, observation)))
            self._remember(intend(self.memory, change, [s.rate_bytes_per_s for s in steps]))
            self._slewing.start(change, steps, self._monotonic())
        lists_went = True
        for decision in decisions:
            match decision:
                case LetGo(broker=broker, side=side):
                    self._slewing.drop((broker, side))
                case ClearLists():
                    lists_went &= self._act(decision, self._clear)
                case PutBackRate(broker=broker, side=side):
                    self._slewing.drop((broker, side))
                    # While a list still stands, so do the rates: without them its replicas would be unlimited. Tried again.
                    if lists_went:
                        self._act(decision, self._put_back)
                case _:
                    pass

    def _stop_blind_changes(self, decisions: tuple[Decision, ...]) -> None:
        """A change under way stops when it is no longer seen what it does: old news never raises a throttle."""
        blind = [d for d in decisions if isinstance(d, Hold) and d.reason in _BLIND]
        sides = {(d.broker, d.side) for d in blind}
        for side in self._slewing.busy:
            if side in sides or (None, None) in sides:
                stopped = self._slewing.drop(side)
                if stopped is not None:
                    failure = "stopped on the way: what it does is not seen any more"
                    log.warning(f"not done: {stopped.text.split(':')[0]}: {failure}")
                    self._watcher.acted(stopped, failure)
                    self._journal.append(self._entry("outcome", stopped, failure=failure))

    def _clear(self, decision: ClearLists) -> Failure | None:
        return self._throttles.clear_lists(decision.topic, decision.sides)

    def _put_back(self, decision: PutBackRate) -> Failure | None:
        wanted = {(decision.broker, decision.side): decision.value_bytes_per_s}
        refused = next(iter(self._throttles.write_rates(wanted).values()))
        return refused if refused is not None else next(iter(self._throttles.confirm_rates(wanted).values()))

    def _act(self, decision: D, write: Callable[[D], Failure | None]) -> bool:
        """On record, done, on record again; whether it went well."""
        self._journal.append(self._entry("intent", decision))
        if isinstance(decision, PutBackRate):
            self._remember(intend_put_back(self.memory, decision))
        failure = write(decision)
        self._watcher.acted(decision, failure)
        self._journal.append(self._entry("outcome", decision, failure=failure))
        if failure is None:
            self._remember(settle(self.memory, decision))
        else:
            log.error(f"not done: {decision.text}: {failure}")
        return failure is None

    def _remember(self, memory: Memory) -> None:
        """On record first, then ours. What is measured anew after a restart is not worth a record.

        A dry run owns nothing and puts nothing back, so it must not write over what a real run has on record.
        """
        if not self._dry_run and (self._saved is None or _kept(memory) != _kept(self._saved)):
            self._journal.save(memory)
            self._saved = memory
        self.memory = memory

    def _note(self, decisions: tuple[Decision, ...], observation: Observation) -> None:
        """A line for people for each decision, and a record of those that nothing follows; what only repeats is neither."""
        said: dict[tuple[object, ...], Reason] = {}
        for decision in decisions:
            subject = _subject(decision)
            repeats = self._said.get(subject) is decision.reason
            # A real act is told each time it is tried; a dry run would say it every cycle, as nothing comes of it.
            if not (repeats and (isinstance(decision, Hold) or self._dry_run)):
                if isinstance(decision, Hold | LetGo):
                    inputs = self._inputs(decision, observation) if isinstance(decision, Hold) else None
                    self._journal.append(self._entry("decision", decision, inputs=inputs))
                elif self._dry_run:
                    inputs = self._inputs(decision, observation) if isinstance(decision, SetRate) else None
                    self._journal.append(self._entry("intent", decision, inputs=inputs))
                self._tell(decision)
            said[subject] = decision.reason
        self._said = said

    def _tell(self, decision: Decision) -> None:
        log.info(decision.text, action=action_of(decision), reason=decision.reason.value, dry_run=self._dry_run)

    def _entry(
        self, kind: str, decision: Decision, *, inputs: Mapping[str, Any] | None = None, failure: Failure | None = None
    ) -> Entry:
        at_ms = round(self._wall_clock() * 1000)
        return entry_of(kind, decision, at_ms, inputs=inputs, failure=failure, dry_run=self._dry_run)

    def _inputs(self, decision: Hold | SetRate, observation: Observation) -> dict[str, Any]:
        """What the decision stood on, as far as it is about this side."""
        if decision.broker is None or decision.side is None:
            return {}
        signal = observation.moves.get((decision.broker, decision.side))
        broker = observation.brokers.get(decision.broker)
        return {
            "move": asdict(signal) if signal is not None else None,
            "broker": asdict(broker) if broker is not None else None,
            "stalls": {str(d): asdict(state) for d, state in self.memory.stalls.items()},
            "limits": asdict(self._limits),
        }


def _kept(memory: Memory) -> Memory:
    """The part that is on record: without what is measured anew after a restart."""
    return replace(memory, stalls={}, idle_looks=0)


def _subject(decision: Decision) -> tuple[object, ...]:
    """What a decision is about, so that the next one about it can be told from a repetition."""
    if isinstance(decision, ClearLists):
        return ("lists", decision.topic)
    return (decision.broker, decision.side, decision.reason if decision.broker is None else None)
