"""One cycle: observe → decide → journal → actuate → journal.

The ports are handed in; there is no arithmetic and no judgement here, only the order of things:

    a decision to act is on record, with its inputs, before the first write; what came of it after the last
    the memory of what is ours is on record before it becomes true
    where the journal does not take a record, nothing is done: an act nobody can trace would be one nobody can undo

Between two cycles, ``tick`` carries on with the changes of rate that are under way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Protocol, TypeVar

import structlog

from streaming.contract import BrokerSignal, MoveSignal, Side
from tuner.actuate.slewing import Slewing
from tuner.actuate.throttles import Failure, Throttles
from tuner.decide.ownership import let_go
from tuner.decide.policy import decide, intend, intend_put_back, narrow, narrow_to_live, settle
from tuner.journal.entries import Entry, entry_of
from tuner.journal.kafka_journal import JournalError
from tuner.model.cluster import BrokerSide, LiveCluster, NotSeen, Observation
from tuner.model.decision import ClearLists, Decision, Hold, LetGo, PutBackRate, Reason, SetRate, action_of
from tuner.model.limits import Limits, StallLimits
from tuner.model.memory import Memory
from tuner.plan.slew import slew

log = structlog.get_logger("tuner")

FULL_LOOK_EVERY = 6
ENDINGS_PER_CYCLE = 50  # Each takes some ten milliseconds of the journal; the rest comes with the next look.
RETRY_S_MIN, RETRY_S_MAX = 4.0, 300.0  # The first retry is the next cycle.
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
        self._pauses: dict[tuple[object, ...], tuple[float, float]] = {}  # Subject → (until, how long), of failed acts.
        self._recovered = False
        self._saved: Memory | None = None

    def cycle(self) -> tuple[Decision, ...]:
        observation = self._observe()
        if not self._recovered and isinstance(observation.live, LiveCluster):
            self.memory = narrow_to_live(self.memory, observation.live)
            self._recovered = True
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
                    self._pauses.pop(_subject(decision), None)
                    continue
                self._back_off(decision)
                self._remember(narrow(self.memory, side, ended.may_stand) if ended.may_stand else self.memory)
                if ended.theirs and side in self.memory.owned:
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
        changes = [d for d in decisions if isinstance(d, SetRate) and not self._pausing(d)]
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
        for decision in decisions:
            if isinstance(decision, LetGo):
                self._slewing.drop((decision.broker, decision.side))
        endings = [d for d in decisions if isinstance(d, ClearLists | PutBackRate)]
        if endings and isinstance(observation.live, LiveCluster):
            self._end(endings[:ENDINGS_PER_CYCLE], observation.live)

    def _end(self, endings: Sequence[ClearLists | PutBackRate], decided_on: LiveCluster) -> None:
        """Carries endings out, if they still are what they were decided to be: a new move may have begun since the look."""
        live = self._live.look(full=False)
        if isinstance(live, NotSeen) or live.moves:
            return
        lists_went = True
        for decision in endings:
            if self._pausing(decision):
                lists_went &= not isinstance(decision, ClearLists)
                continue
            if isinstance(decision, ClearLists):
                same = live.lists.get(decision.topic) == decided_on.lists.get(decision.topic)
                lists_went &= same and self._act(decision, self._clear)
                continue
            side = (decision.broker, decision.side)
            self._slewing.drop(side)
            setting = live.rates.get(side)
            # Somebody was quicker; and while a list still stands, so do the rates: its replicas would be unlimited.
            if lists_went and setting is not None and setting.bytes_per_s == decision.live_bytes_per_s:
                self._act(decision, self._put_back)

    def _stop_blind_changes(self, decisions: tuple[Decision, ...]) -> None:
        """A change under way stops when it is no longer seen what it does: old news never raises a throttle."""
        blind = [d for d in decisions if isinstance(d, Hold) and d.reason in _BLIND]
        sides = {(d.broker, d.side) for d in blind}
        for side in self._slewing.busy:
            if side not in sides and (None, None) not in sides:
                continue
            stopped = self._slewing.drop(side, "stopped on the way: what it does is not seen any more")
            if stopped is not None:
                log.warning(f"not done: {stopped.decision.text.split(':')[0]}: {stopped.failure}")
                self._watcher.acted(stopped.decision, stopped.failure)
                self._journal.append(self._entry("outcome", stopped.decision, failure=stopped.failure))
                self._remember(narrow(self.memory, side, stopped.may_stand))

    def _pausing(self, decision: Decision) -> bool:
        until_s, _ = self._pauses.get(_subject(decision), (0.0, 0.0))
        return self._monotonic() < until_s

    def _back_off(self, decision: Decision) -> None:
        """What failed is tried again, later each time: a right that is missing is not there five seconds later."""
        _, before_s = self._pauses.get(_subject(decision), (0.0, 0.0))
        pause_s = min(RETRY_S_MAX, max(RETRY_S_MIN, 2 * before_s))
        self._pauses[_subject(decision)] = (self._monotonic() + pause_s, pause_s)

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
            self._pauses.pop(_subject(decision), None)
        else:
            log.error(f"not done: {decision.text}: {failure}")
            self._back_off(decision)
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

    def _concerned(self, decision: Hold | SetRate, observation: Observation) -> list[int]:
        """The destinations that a decision is about."""
        live = observation.live
        onto = {decision.broker}
        if decision.side is Side.LEADER and isinstance(live, LiveCluster):
            onto = {d for move in live.moves if move.leader == decision.broker for d in move.destinations}
        return sorted(d for d in onto if d is not None and d in self.memory.stalls)

    def _inputs(self, decision: Hold | SetRate, observation: Observation) -> dict[str, Any]:
        """What the decision stood on, as far as it is about this side."""
        if decision.broker is None or decision.side is None:
            return {}
        signal = observation.moves.get((decision.broker, decision.side))
        broker = observation.brokers.get(decision.broker)
        return {
            "move": asdict(signal) if signal is not None else None,
            "broker": asdict(broker) if broker is not None else None,
            "stalls": {str(d): asdict(self.memory.stalls[d]) for d in self._concerned(decision, observation)},
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
