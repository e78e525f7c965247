"""Decides when a broker that was down gets its leaders back: after it has caught up, and one group of partitions at a time.

While a broker is down, other replicas lead its partitions. Kafka's own election (``auto.leader.rebalance.enable``) gives the broker
the leadership of all partitions whose replica is in sync, all at once, even while the broker still copies hundreds of other
partitions. The broker then serves producers, followers and its own copies together, and the latency of producers rises.

The tuner instead elects leaders on one broker at a time, in groups of partitions. The next group waits until

1. all replicas of the broker have been in sync for ``CAUGHT_UP_S``,
2. the signals show the effect of the last group, and
3. the latency of the broker's producers is below ``LATENCY_AIM`` × its limit, and the request handlers are idle enough.

An election changes no setting, so the tuner has nothing to own or to restore.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from streaming.shared.contract import BrokerSignal
from streaming.shared.units import count_text
from tuner.control.leadership.decision import ElectLeaders, HoldElection, LeadershipDecision, LeadershipReason
from tuner.control.leadership.survey import GROUP_MAX, LeaderSurvey
from tuner.control.throttle.diagnosis.bottleneck import BUSY_IDLE_RATIO
from tuner.control.throttle.objective import Objective
from tuner.control.throttle.steering.latency_baseline import produce_p99_ms
from tuner.control.throttle.steering.latency_ratio import latency_ratio
from tuner.control.throttle.steering.present_latency import PresentLatency, update_latency
from tuner.core.broker_baseline import BrokerBaseline
from tuner.core.freshness import Freshness, freshness
from tuner.core.vetoes import Veto, vetoes_text

# In the first minute after its return, single replicas of a broker may leave the ISR again.
CAUGHT_UP_S = 60.0
# Size of a group ÷ number of partitions whose preferred leader is the broker. So a group adds about a tenth of the usual load.
GROUP_SHARE = 0.1
# A window of signals takes 10 s to end. The first requests to a new leader are slower, because clients look for the new leader.
SETTLE_S = 30.0
# Highest produce latency at which another group is elected ÷ its limit.
LATENCY_AIM = 0.6


@dataclass(frozen=True, slots=True)
class LeadershipLimits:
    """The settings of the operator.

    Attributes:
        acts: False: decisions are only reported.
        objective: has the highest p99 of produce requests; None: the latency of producers is not considered.
        signal_age_s_max: older signals do not count.
    """

    acts: bool
    objective: Objective | None
    signal_age_s_max: float


@dataclass(frozen=True, slots=True)
class LeadershipView:
    """The inputs of one decision.

    Attributes:
        electing: living brokers with ``auto.leader.rebalance.enable``; None: the settings of a broker cannot be read.
        brokers: living brokers.
        pause: the operator who has paused the tuner; None: the tuner is not paused.
        vetoes: the external checks that veto now.
    """

    now_ms: int
    survey: LeaderSurvey
    electing: Collection[int] | None
    brokers: frozenset[int]
    signals: Mapping[int, BrokerSignal] = field(default_factory=dict)
    baselines: Mapping[int, BrokerBaseline] = field(default_factory=dict)
    pause: str | None = None
    vetoes: tuple[Veto, ...] = ()


@dataclass(frozen=True, slots=True)
class BrokerLatency:
    """The latency of a broker's producers, and when the newest signal behind it was measured; epoch."""

    sampled_at_ms: int
    present: PresentLatency


@dataclass(frozen=True, slots=True)
class LeadershipMemory:
    """The state of one leadership term of the tuner.

    Attributes:
        broker: the broker on which the last group was elected.
        elected_at_ms: when the last group was elected; 0: never.
        caught_up_since_ms: for each broker that waits for leaders, since when all of its replicas have been in sync.
        latencies: the latency of each broker that waits for leaders.
    """

    broker: int | None = None
    elected_at_ms: int = 0
    caught_up_since_ms: Mapping[int, int] = field(default_factory=dict)
    latencies: Mapping[int, BrokerLatency] = field(default_factory=dict)


def decide_election(
    view: LeadershipView, memory: LeadershipMemory, limits: LeadershipLimits
) -> tuple[LeadershipMemory, LeadershipDecision]:
    """Returns the next state and the decision. An election enters the state only through ``record_election``."""
    reason = LeadershipReason
    if view.electing is None:
        text = "the settings of a broker cannot be read, so no leader is elected"
        return memory, HoldElection(None, reason.PARTITIONS_UNREADABLE, text)
    memory = _observe(view, view.survey, memory)
    count = view.survey.displaced_count
    if count == 0:
        return memory, HoldElection(
            None,
            reason.LEADERS_IN_PLACE,
            "each partition has its preferred leader, or its preferred replica is not in sync",
        )
    if view.electing:
        return memory, HoldElection(None, reason.KAFKA_ELECTS, _kafka_elects_text(view.electing, count))
    if view.pause is not None:
        return memory, HoldElection(None, reason.PAUSED, f"paused by {view.pause}: no leader is elected")
    waiting = view.survey.displaced
    ready = [b for b in waiting if (view.now_ms - memory.caught_up_since_ms.get(b, view.now_ms)) / 1000 >= CAUGHT_UP_S]
    if not ready:
        return memory, _hold_until_caught_up(view.survey, max(waiting, key=lambda b: (waiting[b], -b)))
    # A broker that has got a group gets all its leaders before another broker gets any.
    broker = memory.broker if memory.broker in ready else max(ready, key=lambda b: (waiting[b], -b))
    assert broker is not None
    return memory, _decide_group(view, view.survey, memory, limits, broker)


def _decide_group(
    view: LeadershipView,
    survey: LeaderSurvey,
    memory: LeadershipMemory,
    limits: LeadershipLimits,
    broker: int,
) -> LeadershipDecision:
    reason, waiting = LeadershipReason, count_text(survey.displaced[broker], "partition")
    state = f"broker {broker} waits for the leadership of {waiting}"
    signal = view.signals.get(broker)
    if signal is None or freshness(signal, view.now_ms, limits.signal_age_s_max) is not Freshness.FRESH:
        return HoldElection(broker, reason.LOAD_NOT_MEASURED, f"{state}: the broker has no fresh signal")
    if memory.elected_at_ms <= view.now_ms and signal.sampled_at_ms - memory.elected_at_ms < SETTLE_S * 1000:
        return HoldElection(broker, reason.SETTLING, f"{state}: the effect of the last elections is not measured yet")
    ratio = _latency_ratio(signal, memory.latencies.get(broker), view.baselines.get(broker), limits.objective)
    if ratio is None:
        return HoldElection(broker, reason.LOAD_NOT_MEASURED, f"{state}: its produce latency is not measured")
    clients = f"its produce latency is {ratio:.0%} of the objective" if ratio > 0 else "its producers hardly write"
    if ratio > LATENCY_AIM:
        return HoldElection(broker, reason.CLIENTS_WAIT, f"{state}: {clients}, and has to be below {LATENCY_AIM:.0%}")
    idle_ratio = signal.request_handler_idle_ratio
    if idle_ratio is not None and idle_ratio < BUSY_IDLE_RATIO:
        text = f"{state}: its request handlers are idle only {idle_ratio:.0%} of the time"
        return HoldElection(broker, reason.HANDLERS_BUSY, text)
    if view.vetoes:
        return HoldElection(broker, reason.VETOED, f"{state}: {vetoes_text(view.vetoes)}")
    size = min(GROUP_MAX, max(1, math.ceil(GROUP_SHARE * survey.preferred.get(broker, 0))))
    group = survey.next_partitions[broker][:size]
    part = f"{len(group)} of {waiting}"
    text = f"broker {broker} has caught up, and {clients}: it gets the leadership of {part}"
    if not limits.acts:
        return HoldElection(broker, reason.WATCHED, f"{text}; not done, as tuner.leadership is watch")
    return ElectLeaders(broker, group, reason.CAUGHT_UP, text)


def record_election(memory: LeadershipMemory, broker: int, now_ms: int) -> LeadershipMemory:
    """Returns the state after an election, also after one that failed: the next group waits in both cases."""
    return replace(memory, broker=broker, elected_at_ms=now_ms)


def _observe(view: LeadershipView, survey: LeaderSurvey, memory: LeadershipMemory) -> LeadershipMemory:
    """Returns the state after a reading of the partitions."""
    in_sync = [b for b in survey.displaced if b in view.brokers and not survey.out_of_sync.get(b)]
    since = {b: min(view.now_ms, memory.caught_up_since_ms.get(b, view.now_ms)) for b in in_sync}
    latencies = {
        b: _update_latency(memory.latencies.get(b), signal, view.baselines.get(b))
        for b in survey.displaced
        if (signal := view.signals.get(b)) is not None
    }
    return replace(memory, caught_up_since_ms=since, latencies=latencies)


def _update_latency(
    known: BrokerLatency | None, signal: BrokerSignal, baseline: BrokerBaseline | None
) -> BrokerLatency:
    if known is not None and signal.sampled_at_ms <= known.sampled_at_ms:
        return known
    present = known.present if known is not None else PresentLatency()
    elapsed_s = (signal.sampled_at_ms - known.sampled_at_ms) / 1000 if known is not None else SETTLE_S
    p99_ms = produce_p99_ms(signal)
    return BrokerLatency(
        signal.sampled_at_ms, update_latency(present, signal.produce_mean_ms, p99_ms, elapsed_s, baseline)
    )


def _latency_ratio(
    signal: BrokerSignal, latency: BrokerLatency | None, baseline: BrokerBaseline | None, objective: Objective | None
) -> float | None:
    if objective is None:
        return 0.0
    present = latency.present if latency is not None else PresentLatency()
    return latency_ratio(present, signal, objective.latency_limit(baseline, present.low_p99_ms))


def _hold_until_caught_up(survey: LeaderSurvey, broker: int) -> HoldElection:
    waiting = survey.displaced[broker]
    missing = survey.out_of_sync.get(broker, 0)
    state = f"broker {broker} waits for the leadership of {count_text(waiting, 'partition')}"
    if missing:
        text = f"{state}: {missing} of its replicas are not in sync yet"
        return HoldElection(broker, LeadershipReason.CATCHES_UP, text)
    text = f"{state}: its replicas have to be in sync for {CAUGHT_UP_S:.0f} s"
    return HoldElection(broker, LeadershipReason.JUST_CAUGHT_UP, text)


def _kafka_elects_text(electing: Collection[int], count: int) -> str:
    names = ", ".join(map(str, sorted(electing)[:3])) + (" and others" if len(electing) > 3 else "")
    return (
        f"not led by the preferred replica: {count_text(count, 'partition')}; Kafka elects preferred leaders itself "
        f"(auto.leader.rebalance.enable is true on broker {names})"
    )
