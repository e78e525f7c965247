"""One cycle: observe → decide → journal → actuate → journal.

The ports are handed in; there is no arithmetic and no judgement here, only the order of things:

    a decision to act is on record, with its inputs, before the first write; what came of it after the last
    the memory of what is ours is on record before it becomes true
    where the journal does not take a record, nothing is done: an act nobody can trace would be one nobody can undo

Between two cycles, ``tick`` carries on with the changes of rate that are under way, and asks the law, once a second, for
those that follow the clients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import structlog

from streaming.contract import BrokerSignal, MoveSignal
from tuner.actuate.slewing import Ended, Slewing
from tuner.actuate.throttles import Failure, Throttles
from tuner.decide.ownership import let_go
from tuner.decide.policy import decide, intend, intend_put_back, narrow, narrow_to_live, settle
from tuner.decide.urgency import recovering, stalled_ends
from tuner.journal.inputs import InputLog
from tuner.journal.kafka_journal import JournalError
from tuner.ledger import Journal, Ledger
from tuner.listing import Listing
from tuner.model.cluster import BrokerSide, LiveCluster, NotSeen, Observation
from tuner.model.decision import ClearLists, Decision, Hold, LetGo, PutBackRate, Reason, SetRate, Steer
from tuner.model.limits import Limits, StallLimits
from tuner.model.memory import Memory
from tuner.model.orders import Orders
from tuner.plan.slew import slew
from tuner.steering import Refused, Steering

log = structlog.get_logger("tuner")

FULL_LOOK_EVERY = 6
ENDINGS_PER_CYCLE = 50  # Each takes some ten milliseconds of the journal; the rest comes with the next look.
_BLIND = {
    Reason.CLUSTER_NOT_SEEN,
    Reason.SETTINGS_UNREADABLE,
    Reason.SIGNALS_MISSING,
    Reason.SIGNALS_STALE,
    Reason.SIGNALS_CONTRADICT,
    Reason.BROKER_DOWN,
    Reason.PAUSED,
    Reason.RELEASED,
}
# What the law steers stays with it, but may only sink.
_HELD = {Reason.SIGNALS_MISSING, Reason.SIGNALS_STALE, Reason.SIGNALS_CONTRADICT}

D = TypeVar("D", bound=ClearLists | PutBackRate)


class Signals(Protocol):
    @property
    def brokers(self) -> Mapping[int, BrokerSignal]: ...

    @property
    def moves(self) -> Mapping[BrokerSide, MoveSignal]: ...

    def poll(self) -> int: ...

    def forget_old(self, now_ms: int) -> None: ...


class OrdersGiven(Protocol):
    @property
    def latest(self) -> Orders: ...

    def follow(self) -> None: ...


class Live(Protocol):
    def look(self, *, full: bool) -> LiveCluster | NotSeen: ...


class Watcher(Protocol):
    """Is told of everything; the status page, the metrics."""

    def observed(self, observation: Observation, memory: Memory, decisions: tuple[Decision, ...]) -> None: ...

    def acted(self, decision: Decision, failure: Failure | None) -> None: ...


class Loop:
    """``steering`` is None where the tuner only rescues."""

    def __init__(
        self,
        *,
        live: Live,
        signals: Signals,
        throttles: Throttles,
        slewing: Slewing,
        steering: Steering | None,
        orders: OrdersGiven,
        journal: Journal,
        watcher: Watcher,
        memory: Memory,
        limits: Limits,
        stall_limits: StallLimits,
        wall_clock: Callable[[], float],
        monotonic: Callable[[], float],
        writes_per_s_max: float,
        dry_run: bool,
        inputs: InputLog | None = None,
    ) -> None:
        self.ledger = Ledger(
            journal, memory, limits, wall_clock=wall_clock, monotonic=monotonic, dry_run=dry_run, inputs=inputs
        )
        self._live = live
        self._signals = signals
        self._throttles = throttles
        self._slewing = slewing
        self._steering = steering
        self._orders = orders
        self._watcher = watcher
        self._limits = limits
        self._stall_limits = stall_limits
        self._wall_clock = wall_clock
        self._monotonic = monotonic
        self._writes_per_s_max = writes_per_s_max
        self._dry_run = dry_run
        self._cycles = 0
        self._recovered = False
        self._doubted: set[int | None] = set()  # Brokers whose signals the law does without until the next cycle.
        self._listing = Listing(throttles, self.ledger, watcher, wall_clock=wall_clock)

    @property
    def memory(self) -> Memory:
        return self.ledger.memory

    def cycle(self) -> tuple[Decision, ...]:
        observation = self._observe()
        if not self._recovered and isinstance(observation.live, LiveCluster):
            self.ledger.memory = narrow_to_live(self.memory, observation.live)
            self._recovered = True
        memory, decisions = decide(observation, self.memory, self._limits, self._stall_limits)
        seen = isinstance(observation.live, LiveCluster)
        if not seen:  # Told at once: the journal is likely to be away with the rest of the cluster, and waited for.
            self._watcher.observed(observation, self.memory, decisions)
        try:
            self.ledger.note(decisions, observation, memory)
            if not self._dry_run:
                self._carry_out(decisions, observation)
            self._steer(decisions, observation)
        except JournalError as error:
            log.error("the journal takes no record, so nothing is done", error=str(error))
        if seen:
            self._watcher.observed(observation, self.memory, decisions)
        return decisions

    def tick(self) -> None:
        """The steps that are due of the changes under way, and the law's next second."""
        now_s = self._monotonic()
        for ended in self._slewing.step(now_s):
            self._ended(ended)
        if self._steering is not None and (due_s := self._steering.next_due_s()) is not None and due_s <= now_s:
            try:
                self._turn(self._steering)
            except JournalError as error:
                log.error("the journal takes no record, so nothing is done", error=str(error))

    def next_due_s(self) -> float | None:
        due = [self._slewing.next_due_s(), self._steering.next_due_s() if self._steering is not None else None]
        return min((at_s for at_s in due if at_s is not None), default=None)

    # -- between two cycles -------------------------------------------------------------------------------------------

    def _ended(self, ended: Ended) -> None:
        ledger, decision, failure = self.ledger, ended.decision, ended.failure
        side = (decision.broker, decision.side)
        what = decision.text.split(":")[0]
        if failure is None:
            log.info(f"done: {what}", broker=decision.broker, side=decision.side)
        else:
            log.error(f"not done: {what}: {failure}", broker=decision.broker, side=decision.side)
        self._watcher.acted(decision, failure)
        if failure is None:
            ledger.went_well(decision)
        else:
            ledger.back_off(decision)
        try:
            if failure is None:
                memory = settle(self.memory, decision)
            else:
                memory = narrow(self.memory, side, ended.may_stand) if ended.may_stand else self.memory
            ledger.record([ledger.outcome(decision, failure)], memory)
            if ended.theirs and not self._may_be_swept(ended.found):
                self._let_go(side, ended.found)
        except JournalError as error:
            # What may stand there stays on record as the whole ramp, which is true, only less exact.
            log.error("the journal takes no outcome", error=str(error))

    def _turn(self, steering: Steering) -> None:
        """One second of the law: what it wants is checked, on record, and written."""
        self._signals.poll()
        brokers: Mapping[int, BrokerSignal] = self._signals.brokers
        if self._doubted:
            brokers = {broker: signal for broker, signal in brokers.items() if broker not in self._doubted}
        changes = steering.turn(self._monotonic(), round(self._wall_clock() * 1000), brokers, self._signals.moves)
        if self._dry_run or not changes:
            return
        refused = steering.refused(changes)
        for each in refused:
            if not each.late:
                self._not_steered(steering, each)
        no = {(each.decision.broker, each.decision.side) for each in refused}
        free = [change for change in changes if (change.broker, change.side) not in no]
        if not free:
            return
        memory = self.memory
        for change in free:
            memory = intend(memory, change, [change.wanted_bytes_per_s])
        self.ledger.record_owned([self.ledger.turn(free)], memory, [(change.broker, change.side) for change in free])
        free = steering.still_free(free)
        answers = steering.write(free)
        for change in free:
            failure = answers[(change.broker, change.side)]
            if failure is not None:
                self._not_steered(steering, Refused(change, failure))
                continue
            self._watcher.acted(change, None)
            self.ledger.went_well(change)

    def _not_steered(self, steering: Steering, refused: Refused) -> None:
        """A side that could not be written rests until it is worth another try; one that somebody changed is theirs."""
        decision, side = refused.decision, (refused.decision.broker, refused.decision.side)
        if refused.theirs and self._may_be_swept(refused.found):
            steering.drop(side)
            return
        log.error(f"not done: {decision.text.split(':')[0]}: {refused.failure}", broker=side[0], side=side[1])
        steering.drop(side)
        self.ledger.back_off(decision)
        self._watcher.acted(decision, refused.failure)
        self.ledger.record([self.ledger.outcome(decision, refused.failure)])
        if refused.theirs:
            self._let_go(side, refused.found)

    def _may_be_swept(self, found: int | None) -> bool:
        """Whether a tool may have swept all of it away, which only a look at everything can tell."""
        return found is None and self._limits.throttles_moves

    def _let_go(self, side: BrokerSide, found: int | None) -> None:
        if side in self.memory.owned:
            memory, changed = let_go(side, found, self.memory, round(self._wall_clock() * 1000), self._limits)
            self.ledger.record([self.ledger.decision(changed)], memory)
            self.ledger.tell(changed)

    # -- steps of a cycle ---------------------------------------------------------------------------------------------

    def _observe(self) -> Observation:
        self._signals.poll()
        self._orders.follow()
        now_ms = round(self._wall_clock() * 1000)
        self._signals.forget_old(now_ms)
        ending = self.memory.idle_looks > 0 and bool(self.memory.seen or self.memory.owned)
        live = self._live.look(full=ending or self._cycles % FULL_LOOK_EVERY == 0)
        self._cycles += 1
        return Observation(
            now_ms,
            live,
            dict(self._signals.brokers),
            dict(self._signals.moves),
            busy=self._slewing.busy,
            courses=self._steering.courses if self._steering is not None else {},
            orders=self._orders.latest,
        )

    def _steer(self, decisions: Sequence[Decision], observation: Observation) -> None:
        """Hands the law what it may turn until the next cycle."""
        if self._steering is None:
            return
        free = {
            (d.broker, d.side): (d.live_bytes_per_s, d.own)
            for d in decisions
            if isinstance(d, Steer) and not self.ledger.pausing(d)
        }
        live = observation.live if isinstance(observation.live, LiveCluster) else LiveCluster(frozenset())
        self._doubted = {d.broker for d in decisions if isinstance(d, Hold) and d.reason is Reason.SIGNALS_CONTRADICT}
        ours = self.memory.owned.keys() | observation.courses.keys()
        held = {
            (d.broker, d.side): (live.rates[(d.broker, d.side)].bytes_per_s, live.rates[(d.broker, d.side)].own)
            for d in decisions
            if isinstance(d, Hold) and d.reason in _HELD and d.broker is not None and d.side is not None
            if (d.broker, d.side) in ours and (d.broker, d.side) in live.rates
        }
        self._steering.steer(
            free,
            held,
            live.quota_samples,
            self._monotonic(),
            stalled=stalled_ends(live, self.memory),
            recovering=recovering(live, observation.brokers),
        )

    def _carry_out(self, decisions: tuple[Decision, ...], observation: Observation) -> None:
        self._stop_blind_changes(decisions)
        self._listing.carry_out(decisions)
        changes = [d for d in decisions if isinstance(d, SetRate) and not self.ledger.pausing(d)]
        together = len(changes) + len(self._slewing.busy)
        memory, ramps = self.memory, []
        for change in changes:
            steps = slew(
                change.live_bytes_per_s,
                change.wanted_bytes_per_s,
                sides=together,
                writes_per_s_max=self._writes_per_s_max,
            )
            memory = intend(memory, change, [s.rate_bytes_per_s for s in steps])
            ramps.append((change, steps))
        if changes:
            self.ledger.record([self.ledger.intent(change, observation) for change in changes], memory)
        for change, steps in ramps:
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
        if isinstance(live, NotSeen):
            return
        # Only what a person has released is taken back while something moves.
        endings = [e for e in endings if not live.moves or e.reason is Reason.RELEASED]
        lists_went = not self.memory.listed
        for decision in endings:
            if self.ledger.pausing(decision):
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
                memory = narrow(self.memory, side, stopped.may_stand)
                self.ledger.record([self.ledger.outcome(stopped.decision, stopped.failure)], memory)

    def _clear(self, decision: ClearLists) -> Failure | None:
        return self._throttles.clear_lists(decision.topic, decision.sides)

    def _put_back(self, decision: PutBackRate) -> Failure | None:
        wanted = {(decision.broker, decision.side): decision.value_bytes_per_s}
        refused = next(iter(self._throttles.write_rates(wanted).values()))
        return refused if refused is not None else next(iter(self._throttles.confirm_rates(wanted).values()))

    def _act(self, decision: D, write: Callable[[D], Failure | None]) -> bool:
        """On record, done, on record again; whether it went well."""
        memory = intend_put_back(self.memory, decision) if isinstance(decision, PutBackRate) else self.memory
        self.ledger.record([self.ledger.intent(decision)], memory)
        failure = write(decision)
        self._watcher.acted(decision, failure)
        if failure is None:
            self.ledger.went_well(decision)
        else:
            log.error(f"not done: {decision.text}: {failure}")
            self.ledger.back_off(decision)
        memory = settle(self.memory, decision) if failure is None else self.memory
        self.ledger.record([self.ledger.outcome(decision, failure)], memory)
        return failure is None
