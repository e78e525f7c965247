"""The executor of plans, in a small loop of its own: look, see what has ended, put on record, ask for what comes next.

Intuition: a plan is a person's word on record, and how far it is the cluster tells. So there is nothing to hand from one life
to the next: look again, and go on. Nothing here waits for an answer: a call is under way or it is not, and between its
beginning and its end the throttles have their seconds.

    look, what has ended, what comes next (beside) → on record → announced, throttled → stop, ask, elect (beside) → answered

Invariant: a step that may be under way is on record. What Kafka has refused is none; what it has not answered may be one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Protocol

import structlog

from streaming.contract import BrokerSignal, ControllerSignal
from streaming.kafka.cluster import ClusterError
from tuner.actuate.one_call import Call, Caller, answer_of
from tuner.actuate.reassignments import Outcome, Reassignments, Refusal
from tuner.actuate.throttles import Failure
from tuner.announcing import Announcing
from tuner.decide.announced import BEGUN_BY_SOMEBODY, moves_of
from tuner.decide.reassign_figures import Figures, measured
from tuner.decide.reassign_pace import Bounds, Measures, Throttling
from tuner.decide.reassign_parts import Recent
from tuner.decide.reassign_turn import PlanTurn, Remembered, Terms, Turn, turn
from tuner.journal.kafka_journal import JournalError
from tuner.model.cluster import BrokerSide
from tuner.model.orders import Orders
from tuner.model.partition_limits import PartitionLimits
from tuner.model.reassigning import ClusterLook, Key, Plan, Wanted
from tuner.plan.batches import BatchLimits
from tuner.plan.reassignment_steps import StepReason
from tuner.reassign_dry_run import EVERY_S as WOULD_DO_EVERY_S
from tuner.reassign_dry_run import WouldDo
from tuner.reassign_ledger import ReassignLedger

log = structlog.get_logger("tuner")

CYCLE_S_MIN = 1.0  # A step of a small partition takes as long.
# A look at a large plan takes seconds of the processor, which the throttles need as well: it may have a fifth of it.
REST_PER_LOOK = 4.0
MEASURE_EVERY_S = 15.0
ANNOUNCED_S_MAX = 10.0  # At least two cycles of the tuner; what it has not seen to by then is not begun.
_POLL_S = 0.05


class OrdersGiven(Protocol):
    @property
    def latest(self) -> Orders: ...


class PlanSignals(Protocol):
    @property
    def brokers(self) -> Mapping[int, BrokerSignal]: ...

    @property
    def controllers(self) -> Mapping[int, ControllerSignal]: ...


class PlanWatcher(Protocol):
    """Is told of everything; metrics and status."""

    def planned(self, plans: tuple[PlanTurn, ...], limits: BatchLimits, figures: Figures, at_ms: int) -> None: ...

    def blind(self, why: str) -> None: ...

    def stands_by(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Found:
    """What came of a look."""

    plans: tuple[Plan, ...]  # As they were on record before it.
    look: ClusterLook
    figures: Figures
    made: Turn
    paused: str | None  # As was said when it began.


@dataclass(frozen=True, slots=True)
class _Asking:
    """What is being asked for, in this order."""

    stops: tuple[Key, ...]
    steps: Mapping[Key, tuple[int, ...]]
    elections: tuple[Key, ...]


class Reassigning:
    def __init__(
        self,
        *,
        reassignments: Reassignments,
        caller: Caller,
        orders: OrdersGiven,
        signals: PlanSignals,
        throttling: Callable[[], Throttling],
        ledger: ReassignLedger,
        refusal: Callable[[], Failure | None],
        watcher: PlanWatcher,
        bounds: Bounds,
        wall_clock: Callable[[], float],
        monotonic: Callable[[], float],
        announcing: Announcing | None = None,
        announced_s_max: float = ANNOUNCED_S_MAX,
        dry_run: bool = False,
    ) -> None:
        """
        Args:
            dry_run: nothing is asked for, and nothing goes on record: it only says what it would begin.
            announcing: to whom steps are announced, and waited for until they are throttled; None: nobody throttles them.
            refusal: why nothing may be written now, asked before each write; None: it may.
            throttling: what every side carries now, and may be given at most.
            bounds: the operator's, over all plans together.
        """
        self.ledger = ledger
        self._reassignments = reassignments
        self._caller = caller
        self._orders = orders
        self._signals = signals
        self._throttling = throttling
        self._refusal = refusal
        self._watcher = watcher
        self._bounds = bounds
        self._wall_clock = wall_clock
        self._monotonic = monotonic
        self._due_s = float("-inf")
        self._looking: tuple[Call[_Found | ClusterError], float] | None = None  # And since when.
        self._would_do = WouldDo() if dry_run else None
        self._announcing = announcing
        self._announced_s_max = announced_s_max
        self._announced: tuple[Turn, float] | None = None  # What waits for its throttle, and since when.
        self._asking: Call[Outcome] | None = None
        self._asked: _Asking = _Asking((), {}, ())
        self._withheld: Mapping[Key, Refusal] = {}  # Of what is asked, what is not, as it would not be throttled.
        self._memory = Remembered()
        self._figures = Figures()
        self._measure_due_s = float("-inf")
        self._unsettled: frozenset[Key] = frozenset()
        self._under_way: frozenset[Key] = frozenset()
        self._measures_whole = False
        self._blind: str | None = None
        self.pending_bytes: Mapping[
            BrokerSide, float
        ] = {}  # What no step under way copies yet; nothing without a plan.

    def next_due_s(self) -> float:
        busy = self._looking is not None or self._announced is not None or self._asking is not None
        return self._monotonic() + _POLL_S if busy else self._due_s

    def tick(self) -> None:
        """Goes on where something is due or has been answered; never waits."""
        try:
            if self._looking is not None:
                looking, since_s = self._looking
                if looking.done():
                    self._looking = None
                    now_s = self._monotonic()
                    self._due_s = now_s + max(CYCLE_S_MIN, REST_PER_LOOK * (now_s - since_s))
                    if self._would_do is not None:
                        self._due_s = now_s + WOULD_DO_EVERY_S
                    self._cycle(answer_of(looking))
            elif self._announced is not None:
                self._go_on(*self._announced)
            elif self._asking is not None:
                if self._asking.done():
                    asking, self._asking = self._asking, None
                    self._answered(answer_of(asking))
            elif self._monotonic() >= self._due_s:
                self._look()
        except JournalError as error:
            log.error("the journal takes no record, so no step of a plan is asked for", error=str(error))
        except BaseException:
            # Whatever it is, nobody asks for these steps any more, hurries for them, or tells how they are.
            self._unannounce()
            self.pending_bytes = {}
            self._watcher.stands_by()
            raise

    def _look(self) -> None:
        if self._would_do is None:
            self.ledger.forget_headless()
        plans, now_s = self.ledger.active, self._monotonic()
        if not plans:
            self._due_s = now_s + CYCLE_S_MIN
            self._memory, self._figures, self.pending_bytes = Remembered(), Figures(), {}
            self._watcher.stands_by()
            return
        # Partition limits count what every broker has, of whatever topic.
        topics = None if self._bounds.partitions != PartitionLimits() else {t for plan in plans for t, _ in plan.parts}
        self._measures_whole = now_s >= self._measure_due_s
        to_measure = self._unsettled if self._measures_whole else self._under_way
        known, memory, whole = self._figures, self._memory, self._measures_whole
        terms = Terms(
            round(self._wall_clock() * 1000), self._bounds, _paused(self._orders.latest), self.ledger.resting,
            self.ledger.refused,
        )  # fmt: skip
        measures = Measures(
            known,
            self._throttling(),
            dict(self._signals.brokers),
            dict(self._signals.controllers),
            len(self._asked.steps) - len(self._withheld),
        )

        def find() -> _Found | ClusterError:
            look = self._reassignments.look(topics, to_measure)
            if isinstance(look, ClusterError):
                return look
            figures = measured(known, look, terms.now_ms, whole=whole)
            return _Found(
                plans, look, figures, turn(plans, look, replace(measures, figures=figures), memory, terms), terms.paused
            )

        # Of a large plan to decide takes as long as to look.
        self._looking = (self._caller.start(find), now_s)

    def _cycle(self, found: _Found | ClusterError) -> None:
        if isinstance(found, ClusterError):
            if str(found) != self._blind:
                log.error("plans wait", why=str(found))
            self._blind = str(found)
            if self._would_do is None:  # Nobody waits for a dry run.
                self._watcher.blind(str(found))
            return
        self._blind = None
        made, self._figures = found.made, found.figures
        if _paused(self._orders.latest) != found.paused:
            return  # It was said during the look: the next one heeds it.
        if self._would_do is not None:
            self._would_do.say(made)
            return
        if self._measures_whole and found.look.log_bytes:
            self._measure_due_s = self._monotonic() + MEASURE_EVERY_S
        self.ledger.record(found.plans, made, _why(found.look, made))
        self._watcher.planned(made.plans, made.limits, self._figures, round(self._wall_clock() * 1000))
        self._memory, self.pending_bytes = made.memory, made.begun.pending_bytes
        self._unsettled = frozenset(key for each in made.plans for key in (*each.parts.ready, *each.parts.running))
        self._under_way = frozenset(key for each in made.plans for key in each.plan.asked)
        moves = moves_of((step for each in made.plans for step in each.starts), found.look)
        if self._announcing is None or not moves:
            self._ask(made)
            return
        if any(each.cancels for each in made.plans):
            # Whoever cancels waits for nobody's throttle.
            self._ask(made, {(m.topic, m.partition): "not begun yet: what is stopped goes first" for m in moves})
            return
        self._announcing.begin(moves)
        self._announced = (made, self._monotonic())

    def _go_on(self, made: Turn, since_s: float) -> None:
        """Once all that was announced is throttled."""
        assert self._announcing is not None
        withheld = self._announcing.withheld
        if withheld is None and self._monotonic() - since_s < self._announced_s_max:
            return
        announced = [(move.topic, move.partition) for move in self._announcing.moves]
        self._announced = None
        if withheld is None:
            withheld = dict.fromkeys(announced, f"not begun: not throttled within {self._announced_s_max:.0f} s")
        # Producers that are refused wait for this: it is throttled where that can be, and begins all the same.
        urgent = {
            (step.topic, step.partition)
            for each in made.plans
            for step in each.starts
            if step.reason is StepReason.MIN_IN_SYNC
        }
        withheld = {key: why for key, why in withheld.items() if key not in urgent or why == BEGUN_BY_SOMEBODY}
        words = {plan.id: plan.head.wanted for plan in self.ledger.active}
        said = {
            (step.topic, step.partition): "not begun, as something else was said meanwhile"
            for each in made.plans
            for step in each.starts
            if _paused(self._orders.latest) is not None or words.get(each.plan.id) is not each.plan.head.wanted
        }
        self._ask(made, {**withheld, **said})

    def _unannounce(self) -> None:
        if self._announcing is not None:
            self._announcing.end()

    def _ask(self, made: Turn, withheld: Mapping[Key, str] = MappingProxyType({})) -> None:
        paused = _paused(self._orders.latest) is not None
        stops = () if paused else tuple(key for each in made.plans for key in each.cancels)
        steps = {(s.topic, s.partition): s.replicas for each in made.plans for s in each.starts}
        may_elect = [] if paused else [p for p in made.plans if p.plan.head.wanted is not Wanted.CANCELLING]
        elections = tuple(key for each in may_elect for key in each.parts.to_elect if key not in self.ledger.resting)
        self._asked, self._withheld = _Asking(stops, steps, elections), {}
        if not (stops or steps or elections):
            self._unannounce()
            return
        self._withheld = {key: Refusal(why) for key, why in withheld.items() if key in steps}
        allowed = {key: replicas for key, replicas in steps.items() if key not in self._withheld}
        if not (stops or allowed or elections):
            self._answered({})
            return
        refused = self._refusal()
        if refused is not None:
            self._answered(dict.fromkeys([*stops, *steps, *elections], Refusal(refused)))
            return
        port, asked = self._reassignments, self._asked

        def act() -> Outcome:
            outcome = port.ask(dict.fromkeys(asked.stops)) if asked.stops else {}
            outcome |= port.ask(allowed) if allowed else {}
            return outcome | (port.elect(asked.elections) if asked.elections else {})

        self._asking = self._caller.start(act)

    def _answered(self, answer: Outcome | ClusterError) -> None:
        self._unannounce()  # By now what has begun is told by the cluster.
        asked = self._asked
        keys = [*asked.stops, *asked.steps, *asked.elections]
        outcome = (
            answer if not isinstance(answer, ClusterError) else dict.fromkeys(keys, Refusal(str(answer), known=False))
        )
        failures = {key: refusal for key, refusal in outcome.items() if refusal is not None} | dict(self._withheld)
        none_under_way = {key for key, refusal in failures.items() if refusal.known and key in asked.steps}
        plans = self.ledger.active
        after = [_without(plan, none_under_way) for plan in plans]
        recent = dict(self._memory.plans)
        for plan in plans:
            known = recent.get(plan.id, Recent())
            tried = {key for key in asked.steps if key in plan.parts}
            taken = tried - failures.keys()
            recent[plan.id] = replace(known, taken=known.taken | taken, refused=not taken if tried else known.refused)
        self._memory = replace(self._memory, plans=recent)
        self.ledger.taken(key for key in keys if key not in failures)
        self.ledger.failed(plans, after, failures)


def _without(plan: Plan, keys: set[Key]) -> Plan:
    if not keys & plan.asked.keys():
        return plan
    return replace(plan, asked={key: a for key, a in plan.asked.items() if key not in keys})


def _why(look: ClusterLook, made: Turn) -> dict[str, object]:
    """What the steps of a turn stood on, as it goes on record; how many at a time has entries of its own, when it changes."""
    held = {by.value: count for by, count in made.begun.refill.held.items()}
    return {"online": sorted(look.online), "held": held}


def _paused(orders: Orders) -> str | None:
    if orders.pause is None:
        return None
    word = "released" if orders.pause.released else "paused"
    return f"rheostat is {word} by {orders.pause.by}, until `rheostat resume`"
