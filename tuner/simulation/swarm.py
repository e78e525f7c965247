"""Thousands of small worlds in which everything goes wrong, and what must hold in each of them whatever happens.

A run is drawn whole from its seed: a move of half a minute, how the tuner is set up, and what befalls it: it is killed and
started again, its journal takes nothing, its clock is set, people write throttles or give orders, brokers go, signals stop.

    stay inside      a rate we write lies between floor and ceiling, or stood there before
    write before     a rate we write was on record as ours
    yield            what a person wrote over ours is not touched any more
    no good news     without fresh signals no rate rises
    exact lists      a pair we list belongs to what moves, has a rate, and was on record as ours; one we take off is ours
    leave no trace   in the end what stood before stands, or what a person wrote

Invariant: the same seed is the same run, so that a failure can be looked at again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from streaming.contract import Side
from streaming.throttles import Pair, TopicThrottle
from tuner.actuate.slewing import Slewing
from tuner.actuate.throttles import CONFIRM_S_MAX, Failure
from tuner.decide.freshness import age_s
from tuner.journal.entries import Entry, decode_memory, encode_memory
from tuner.journal.kafka_journal import JournalError
from tuner.loop import Loop
from tuner.model.cluster import BrokerSide
from tuner.model.limits import MB, Limits, StallLimits
from tuner.model.memory import Memory, Owned
from tuner.model.objectives import LawLimits, Objective
from tuner.model.orders import Orders, Pause
from tuner.simulation.policy import EPOCH_MS, Desk, Hand, capacities
from tuner.simulation.ports import MemoryJournal, SilentWatcher, SimulatedThrottles, moves_of
from tuner.simulation.run import run
from tuner.simulation.world import (
    BrokerLoss,
    BrokerSpec,
    ClientLoad,
    ControllerStorm,
    Disturbance,
    LeaderMove,
    LoadStep,
    OperatorWrite,
    PartitionSpec,
    SignalOutage,
    StartRate,
    TopicLists,
    World,
)
from tuner.steering import Steering

SETTLE_S = 120.0  # The last mishap is over a minute before.
_TICK_MS = 500
_CYCLE_S = 5.0
_SHOWN_S = 1.0  # A person's write has been shown by then.
_ROUND = 1.001


@dataclass(frozen=True, slots=True)
class Mishaps:
    """What befalls the tuner, as the world's disturbances befall the cluster."""

    killed_at_s: tuple[float, ...] = ()
    dead_s: float = 5.0  # Each time, before it is started again.
    mute_s: tuple[float, float] = (0.0, 0.0)  # From, until: the journal takes no record.
    clock_set_at_s: float = float("inf")
    clock_by_s: float = 0.0
    paused_s: tuple[float, float] = (0.0, 0.0)
    released: bool = False  # The pause is a release.
    swept_at_s: float = float("inf")  # A tool takes every rate away, and the lists: --verify of a move of its own.


@dataclass(frozen=True, slots=True)
class Drawn:
    world: World
    mishaps: Mishaps
    limits: Limits
    objective: Objective | None

    def describe(self) -> str:
        steers = f"objective {self.objective.latency_ms:.0f} ms" if self.objective is not None else "rescue only"
        return f"{self.world.describe()}\n  {steers}, {self.mishaps}"


def draw(seed: int) -> Drawn:
    rng = np.random.default_rng([seed, 7])

    def sometimes(share: float) -> bool:
        return bool(rng.random() < share)

    # What a draw of its own decides leaves the worlds as they are that do not ask for it.
    own = np.random.default_rng([seed, 11])
    unthrottled, sweeps = bool(own.random() < 0.3), bool(own.random() < 0.3)
    swept_at_s = float(own.uniform(6, 25))
    moving = int(rng.integers(1, 4))
    start = int(rng.choice([3_100_000, 6_200_000, 12_300_000, 70_000_000]))
    size = start * float(rng.uniform(10.0, 30.0)) / moving
    write = float(rng.choice([0.0, 0.3e6, 1.0e6]))
    partitions = tuple(
        PartitionSpec("t", i, size, write, ((1, 2), (2, 1))[i % 2], (3,), ((2,), (1,))[i % 2]) for i in range(moving)
    )
    if unthrottled:
        partitions = tuple(replace(p, size_bytes=60e6 * float(own.uniform(10.0, 30.0)) / moving) for p in partitions)
    leaders = {p.replicas[0] for p in partitions}
    sides: list[BrokerSide] = [*((b, Side.LEADER) for b in sorted(leaders)), (3, Side.FOLLOWER)]
    disturbances: list[Disturbance] = []
    if sometimes(0.4):
        broker, side = sides[int(rng.integers(len(sides)))]
        disturbances.append(
            OperatorWrite(float(rng.uniform(5, 50)), broker, side, int(rng.integers(4_000_000, 30_000_000)))
        )
    if sometimes(0.25):
        at_s = float(rng.uniform(2, 30))
        disturbances.append(BrokerLoss(at_s, at_s + float(rng.uniform(3, 25)), int(rng.integers(1, 4))))
    if sometimes(0.3):
        at_s = float(rng.uniform(2, 30))
        who = (1, 2, 3) if sometimes(0.5) else (int(rng.integers(1, 4)),)
        disturbances.append(SignalOutage(at_s, at_s + float(rng.uniform(10, 60)), who))
    if sometimes(0.2):
        at_s = float(rng.uniform(2, 30))
        disturbances.append(ControllerStorm(at_s, at_s + 10.0, float(rng.uniform(200, 900))))
    if sometimes(0.2):
        disturbances.append(LeaderMove(float(rng.uniform(3, 25)), "t", 0, 2))
    if sometimes(0.3):
        at_s = float(rng.uniform(2, 30))
        disturbances.append(LoadStep(at_s, at_s + 20.0, (1, 2, 3), float(rng.uniform(1.2, 2.2))))
    world = World(
        seed=seed,
        brokers=tuple(BrokerSpec(b, 125e6, 125e6, 400e6, 400e6) for b in (1, 2, 3)),
        partitions=partitions,
        loads=tuple(ClientLoad(b, 40e6, 40e6, noise_ratio=0.1) for b in (1, 2, 3)),
        lists=()
        if unthrottled
        else (
            TopicLists("t", ",".join(f"{i}:1,{i}:2" for i in range(moving)), ",".join(f"{i}:3" for i in range(moving))),
        ),
        rates=() if unthrottled else tuple(StartRate(b, side, start) for b, side in sides),
        disturbances=tuple(disturbances),
        duration_s_max=240.0,
        tick_ms=_TICK_MS,
    )
    paused_at_s = float(rng.uniform(5, 40))
    mute_at_s = float(rng.uniform(2, 40))
    mishaps = Mishaps(
        killed_at_s=tuple(sorted(float(t) for t in rng.uniform(1, 60, int(rng.integers(0, 4))))),
        dead_s=float(rng.uniform(0.5, 20)),
        mute_s=(mute_at_s, mute_at_s + float(rng.uniform(1, 15))) if sometimes(0.2) else (0.0, 0.0),
        clock_set_at_s=float(rng.uniform(3, 40)) if sometimes(0.1) else float("inf"),
        clock_by_s=float(rng.choice([-3600.0, -20.0, -3.0, 20.0, 3600.0])),
        paused_s=(paused_at_s, paused_at_s + float(rng.uniform(5, 30))) if sometimes(0.25) else (0.0, 0.0),
        released=sometimes(0.5),
        # What a person wrote would be swept away with the rest, and nobody could be asked for it.
        swept_at_s=swept_at_s
        if sweeps and not any(isinstance(d, OperatorWrite) for d in disturbances)
        else float("inf"),
    )
    limits = Limits(rate_bytes_per_s_max=60 * MB, rate_bytes_per_s_min=5 * MB)
    return Drawn(world, mishaps, limits, Objective(50.0) if sometimes(0.7) or unthrottled else None)


@dataclass(slots=True)
class Findings:
    """What did not hold, in words, in the order in which it was seen."""

    said: list[str] = field(default_factory=list)

    def note(self, now_s: float, what: str) -> None:
        self.said.append(f"{now_s:7.2f} s  {what}")


class SwarmJournal(MemoryJournal):
    """Takes nothing for a while; gives back what a tuner that starts would read."""

    def __init__(self) -> None:
        super().__init__()
        self.mute = False
        self.saw_a_move = False
        self.ours_when: dict[float, frozenset[BrokerSide]] = {}  # When a person wrote: what was ours.

    def write(
        self,
        entries: Sequence[Entry] = (),
        *,
        memory: Memory | None = None,
        owned: Mapping[BrokerSide, Owned] | None = None,
        seen: Mapping[str, Mapping[int, frozenset[int]]] | None = None,
        listed: Mapping[str, TopicThrottle] | None = None,
    ) -> None:
        if self.mute:
            raise JournalError("the brokers of the journal do not answer")
        super().write(entries, memory=memory, owned=owned, seen=seen, listed=listed)
        self.saw_a_move |= bool(self.memory.seen)

    def recovered(self) -> Memory:
        return decode_memory(encode_memory(self.memory))


class WatchedThrottles(SimulatedThrottles):
    """The simulated port, with an eye on everything that we write."""

    def __init__(self, desk: Desk, drawn: Drawn, journal: SwarmJournal, findings: Findings) -> None:
        super().__init__(desk.cluster)
        self._desk = desk
        self._drawn = drawn
        self._journal = journal
        self._findings = findings
        self._written_at_s: dict[BrokerSide, list[float]] = {}
        self._before = {(s.broker, s.side): s.rate_bytes_per_s for s in drawn.world.rates}

    def write_rates(self, rates: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, Failure | None]:
        for side, rate in rates.items():
            for what in self._unwell(side, rate):
                self._findings.note(self._desk.cluster.now_s, f"broker {side[0]} {side[1]} → {rate}: {what}")
            self._written_at_s.setdefault(side, []).append(self._desk.cluster.now_s)
        return super().write_rates(rates)

    def add_pairs(self, pairs: Mapping[str, TopicThrottle]) -> dict[str, Failure | None]:
        cluster, now_s = self._desk.cluster, self._desk.cluster.now_s
        moving = {(m.topic, m.partition): m for m in moves_of(cluster)}
        for topic, side, (partition, broker) in _each(pairs):
            move = moving.get((topic, partition))
            if move is None or broker not in move.replicas or (broker in move.adding) is (side is Side.LEADER):
                self._findings.note(now_s, f"{topic}-{partition} on broker {broker}: listed, and no part of a move")
            if cluster.controller.expected((broker, side), now_s + CONFIRM_S_MAX) is None:
                self._findings.note(now_s, f"{topic}-{partition} on broker {broker} {side}: listed without a rate")
            if (partition, broker) not in self._journal.memory.listed.get(topic, TopicThrottle()).of(side).pairs:
                self._findings.note(now_s, f"{topic}-{partition} on broker {broker}: listed, and not on record as ours")
        return super().add_pairs(pairs)

    def remove_pairs(self, pairs: Mapping[str, TopicThrottle]) -> dict[str, Failure | None]:
        for topic, side, pair in _each(pairs):
            if pair not in self._journal.memory.listed.get(topic, TopicThrottle()).of(side).pairs:
                self._findings.note(self._desk.cluster.now_s, f"{topic} {pair}: taken off, and not ours")
        return super().remove_pairs(pairs)

    def _unwell(self, side: BrokerSide, rate: int | None) -> list[str]:
        now_s, limits = self._desk.cluster.now_s, self._drawn.limits
        stands, before = self._desk.cluster.controller.rates.get(side), self._before.get(side)
        ours = self._journal.memory.owned.get(side)
        found = []
        put_back = rate == before or (ours is not None and rate == ours.before_bytes_per_s)
        if rate is not None and not put_back:
            # Up from below the floor it goes step by step.
            least = min(rate for rate in (limits.rate_bytes_per_s_min, before, stands) if rate is not None)
            if not least / _ROUND <= rate <= max(limits.rate_bytes_per_s_max, stands or 0) * _ROUND:
                found.append(f"not within {least} and {limits.rate_bytes_per_s_max:.0f}")
            if ours is None or rate not in ours.may_stand:
                found.append("not on record as ours")
            signal = self._desk.signals.moves.get(side)
            wall_ms = EPOCH_MS + round(now_s * 1000)
            blind = signal is None or age_s(signal, wall_ms) > limits.signal_age_s_max + _CYCLE_S
            if blind and stands is not None and rate > stands * _ROUND and now_s < self._drawn.mishaps.clock_set_at_s:
                found.append(f"raised from {stands} without fresh signals")
        for person in _persons(self._drawn.world):
            if (person.broker, person.side) == side and now_s > person.at_s + _SHOWN_S and self.overwrote(person):
                found.append(f"a person had written {person.rate_bytes_per_s} over ours")
        return found

    def overwrote(self, person: OperatorWrite) -> bool:
        """Whether a person wrote over ours, and not in the very moment in which we wrote: Kafka has no compare-and-set."""
        fate, now_s = self._drawn.mishaps, self._desk.cluster.now_s
        if fate.clock_by_s > 0 and now_s >= fate.clock_set_at_s:
            return False  # By that clock the time for which a person's value is left alone may be over.
        side = (person.broker, person.side)
        ours = side in self._journal.ours_when.get(person.at_s, frozenset())
        return ours and not any(
            abs(at_s - person.at_s) <= 2 * _TICK_MS / 1000 for at_s in self._written_at_s.get(side, ())
        )


class SwarmHand:
    """The production loop in the hands of fate."""

    def __init__(self, desk: Desk, drawn: Drawn, findings: Findings) -> None:
        self._desk, self._drawn = desk, drawn
        self.journal = SwarmJournal()
        self.throttles = WatchedThrottles(desk, drawn, self.journal, findings)
        self._orders = Given()
        self._next_cycle_s = 0.0
        self._deaths = list(drawn.mishaps.killed_at_s)
        self._back_at_s = 0.0
        self._swept = 0  # Of the two parts of a sweep.
        self._persons = list(_persons(drawn.world))
        self.loop: Loop | None = self._born()

    def act(self) -> None:
        now_s, fate = self._desk.cluster.now_s, self._drawn.mishaps
        while self._persons and self._persons[0].at_s <= now_s:
            self.journal.ours_when[self._persons.pop(0).at_s] = frozenset(self.journal.memory.owned)
        if self._desk.cluster.moves_ended_s is None:
            self._sweep(now_s)
        self.journal.mute = fate.mute_s[0] <= now_s < fate.mute_s[1]
        self._orders.latest = _orders(fate, now_s)
        if self._deaths and now_s >= self._deaths[0]:
            self._deaths.pop(0)
            self.loop, self._back_at_s = None, now_s + fate.dead_s
        if self.loop is None:
            if now_s < self._back_at_s:
                return
            self.loop = self._born()
        if now_s >= self._next_cycle_s:
            self._next_cycle_s = now_s + _CYCLE_S
            self.loop.cycle()
        due_s = self.loop.next_due_s()
        if due_s is not None and due_s <= now_s:
            self.loop.tick()

    def _sweep(self, now_s: float) -> None:
        """The rates first and then the lists, as the tool does it."""
        cluster, at_s = self._desk.cluster, self._drawn.mishaps.swept_at_s
        if self._swept < 1 and now_s >= at_s:
            self._swept = 1
            for side in list(cluster.controller.rates):
                cluster.controller.write(now_s, side, None)
        if self._swept == 1 and now_s >= at_s + _SHOWN_S:
            self._swept = 2
            for topic in list(cluster.lists):
                cluster.set_lists(topic, TopicThrottle())

    def _born(self) -> Loop:
        desk, drawn = self._desk, self._drawn
        known = capacities(drawn.world)
        law_limits = LawLimits(
            rate_bytes_per_s_min=drawn.limits.rate_bytes_per_s_min,
            rate_bytes_per_s_max=drawn.limits.rate_bytes_per_s_max,
        )
        steering = None
        if drawn.objective is not None:
            steering = Steering(self.throttles, drawn.objective, known.__getitem__, law_limits, writes_per_s_max=50.0)
        return Loop(
            live=desk.live,
            signals=desk.signals,
            throttles=self.throttles,
            slewing=Slewing(self.throttles),
            steering=steering,
            orders=self._orders,
            journal=self.journal,
            watcher=SilentWatcher(),
            memory=self.journal.recovered(),
            limits=replace(drawn.limits, steers=steering is not None, throttles_moves=steering is not None),
            stall_limits=StallLimits(),
            wall_clock=self._wall_clock,
            monotonic=lambda: desk.cluster.now_s,
            writes_per_s_max=50.0,
            dry_run=False,
        )

    def _wall_clock(self) -> float:
        now_s, fate = self._desk.cluster.now_s, self._drawn.mishaps
        return EPOCH_MS / 1000 + now_s + (fate.clock_by_s if now_s >= fate.clock_set_at_s else 0.0)


@dataclass(slots=True)
class Given:
    latest: Orders = field(default_factory=Orders)

    def follow(self) -> None:
        pass


@dataclass(slots=True)
class SwarmPolicy:
    drawn: Drawn
    findings: Findings
    name: str = "rheostat"
    hand: SwarmHand | None = None
    desk: Desk | None = None

    def take(self, desk: Desk) -> Hand:
        self.desk, self.hand = desk, SwarmHand(desk, self.drawn, self.findings)
        return self.hand


def findings_of(seed: int) -> list[str]:
    """Runs one world; what did not hold in it."""
    drawn, findings = draw(seed), Findings()
    policy = SwarmPolicy(drawn, findings)
    run(drawn.world, policy, settle_s=SETTLE_S)
    assert policy.desk is not None
    assert policy.hand is not None
    cluster = policy.desk.cluster
    # A move that a throttle below W, a pause, or a person's value keeps from ending has no end to look at; and a throttle that
    # came and went with nobody there to see its move looks like one that stood before.
    ended = cluster.moves_ended_s is not None and cluster.now_s >= cluster.moves_ended_s + SETTLE_S
    if ended and policy.hand.journal.saw_a_move:
        for what in _left_behind(drawn, policy.hand, policy.desk):
            findings.note(cluster.now_s, what)
    return findings.said


def _left_behind(drawn: Drawn, hand: SwarmHand, desk: Desk) -> list[str]:
    found = []
    rates = desk.cluster.controller.rates
    persons = {(p.broker, p.side): p for p in _persons(drawn.world)}
    for side, rate in rates.items():
        # What a person wrote may stand; where it was theirs alone it may also have gone with the move.
        if side not in persons or persons[side].rate_bytes_per_s != rate:
            found.append(f"broker {side[0]} {side[1]}: {rate} is left behind")
    for side, person in persons.items():
        if hand.throttles.overwrote(person) and rates.get(side) != person.rate_bytes_per_s:
            found.append(f"broker {side[0]} {side[1]}: a person's {person.rate_bytes_per_s} is gone")
    for topic, lists in desk.cluster.lists.items():
        if lists.leader or lists.follower:
            found.append(f"topic {topic}: its lists are left behind")
    found += [f"topic {topic}: its lists are still said to be ours" for topic in hand.journal.memory.listed]
    found += [f"broker {b} {side}: still said to be ours" for b, side in hand.journal.memory.owned]
    return found


def _each(pairs: Mapping[str, TopicThrottle]) -> Iterator[tuple[str, Side, Pair]]:
    for topic, throttle in pairs.items():
        for side in Side:
            for pair in throttle.of(side).pairs:
                yield topic, side, pair


def _orders(fate: Mishaps, now_s: float) -> Orders:
    from_s, until_s = fate.paused_s
    from_ms, until_ms = (EPOCH_MS + round(t * 1000) for t in fate.paused_s)
    if not until_s or now_s < from_s:
        return Orders()
    if now_s < until_s:
        return Orders(from_ms, pause=Pause(from_ms, "swarm", released=fate.released))
    # What somebody changed stays theirs: the orders are over, and nobody has asked to take it up again.
    return Orders(until_ms)


def _persons(world: World) -> tuple[OperatorWrite, ...]:
    return tuple(sorted((d for d in world.disturbances if isinstance(d, OperatorWrite)), key=lambda d: d.at_s))
