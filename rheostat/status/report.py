"""`rheostat status`: does a tuner act, what moves and when it ends, what has stalled, what was decided and why.

Read from the cluster, the signals and the journal, with or without a tuner.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rheostat.config.settings import Settings
from rheostat.errors import CommandError, UnreachableError
from rheostat.reassign.plan_input import open_client
from rheostat.reassign.progress import measure_progress, partitions_to_measure
from rheostat.run.services import probe
from rheostat.status.active_tuner import tuner_json
from rheostat.status.evaluation import StatusEvaluator, steps_of_acting_tuner, steps_without_tuner
from rheostat.status.journal import RING_SIZES, JournalState, read_journal_state
from rheostat.status.signal_history import SignalHistory
from rheostat.tuner_presence import read_tuners
from streaming.shared.contract import Side
from streaming.shared.kafka import consumer
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, Unreachable
from tuner.api import views
from tuner.api.broker_views import brokers_json
from tuner.api.decision_rows import decision_json
from tuner.api.decisions import DecisionFilter, DecisionStore, EventRow, throttles_of
from tuner.api.views import orders_json
from tuner.control.throttle.decision import NOT_THROTTLE_LIMITED, Reason
from tuner.control.throttle.plan_moves import list_requested_moves
from tuner.control.throttle.rescue_rate import min_draining_bytes_per_s
from tuner.core.cluster import BrokerSide, LiveCluster
from tuner.core.drain_time import SideLoad
from tuner.core.plan_progress import UNKNOWN, Progress
from tuner.core.presence import TunerMode, TunerPresence
from tuner.core.reassignment_plan import Plan
from tuner.journal.entries import Entry
from tuner.runtime.observe.cluster_reader import ClusterReader
from tuner.runtime.observe.signals_reader import SignalCache
from tuner.runtime.reassignment.actuator import KafkaReassignmentActuator

DECISIONS_SHOWN = 10
_STUCK = {Reason.INFEASIBLE, Reason.DEADLINE_NOT_MET, *NOT_THROTTLE_LIMITED}
_SIGNAL_BACKLOG = 400
_JUDGES = {TunerMode.ACTING, TunerMode.DRY_RUN}
_CHANGES = {"set", "start", "restore"}
# Of the page's own status.
_AS_ON_THE_PAGE = (
    "headline",
    "moving_partitions",
    "done_ratio",
    "eta_s",
    "ends_at_ms",
    "stalled_brokers",
    "infeasible",
    "brokers_alive",
    "throttles",
    "produce_p99_ms_max",
    "produce_p99_ms_max_broker",
    "objective",
    "rate_bytes_per_s_max",
    "rate_bytes_per_s_min",
    "signals_age_s_min",
)


def read_status(settings: Settings) -> dict[str, Any]:
    """
    Raises:
        UnreachableError: the cluster does not answer.
        CommandError: it answers, but a right is missing.
    """
    probe(settings)
    with ClusterClient(settings.kafka, "rheostat-status") as client:
        try:
            client.brokers()
            live = ClusterReader(client).snapshot(full=True)
        except Unreachable as error:
            raise UnreachableError(str(error)) from error
        except ClusterError as error:
            raise CommandError(str(error)) from error
        if not isinstance(live, LiveCluster):
            raise CommandError(f"The cluster's settings cannot be read: {live.reason}")
    followed = read_journal_state(settings)
    newest = followed.newest
    signals = _signals(settings)
    signals.join(_changed_at_ms(newest))
    now_ms = round(time.time() * 1000)
    plans = plans_progress(settings, newest.plans, now_ms)
    # Not the tuners of that one reading: where clocks differ, only a tuner's next report shows that it runs.
    return status_json(settings, live, signals, newest, now_ms, tuners=read_tuners(settings, now_ms), plans=plans)


def _changed_at_ms(newest: JournalState) -> int:
    """When a throttle was changed last."""
    entries = [entry for some in newest.entries.values() for entry in some if entry.action in _CHANGES]
    return max((e.at_ms for e in entries if e.kind != "decision" and not e.dry_run), default=0)


def plans_progress(settings: Settings, plans: Sequence[Plan], now_ms: int) -> dict[str, Progress]:
    """Returns how far the plans are that have not ended, from one look at the partitions of each."""
    active = [plan for plan in plans if plan.is_active]
    if not active:
        return {}
    with open_client(settings) as client:
        port, found = KafkaReassignmentActuator(client), {}
        for plan in active:
            look = port.read_snapshot({topic for topic, _ in plan.partitions}, partitions_to_measure(plan))
            # How far it is is not known; then no end is told.
            found[plan.id] = (
                UNKNOWN if isinstance(look, ClusterError) else measure_progress(plan, look, now_ms).progress
            )
        return found


def status_json(
    settings: Settings,
    live: LiveCluster,
    signals: SignalCache | None,
    newest: JournalState,
    now_ms: int,
    onlooker: StatusEvaluator | None = None,
    *,
    tuners: Sequence[TunerPresence] = (),
    plans: Mapping[str, Progress] | None = None,
) -> dict[str, Any]:
    """All that is shown, as values; the keys of ``rheostat status --json``.

    Args:
        onlooker: who has looked before; None: this is the first look.
        tuners: those that are alive, an acting one first.
        plans: how far the plans are that have not ended.
    """
    tuner = tuner_json(tuners, settings.tuner.rate_bytes_per_s_max)
    entries, turns = newest.entries["entry"], newest.entries["steering"]
    decisions = DecisionStore(rows_max=RING_SIZES["entry"])
    decisions.load_history(entries)
    by_throttle = _by_throttle(decisions, live)
    look = (onlooker or StatusEvaluator(settings)).look(
        live,
        signals,
        newest.orders,
        newest.memory,
        now_ms,
        list_requested_moves(newest.plans),
        rate_bytes_per_s_max=tuner["rate_bytes_per_s_max"],
        stalled_since_ms=_judged_stalled(by_throttle) if tuner["state"] in _JUDGES else None,
    )
    page = views.status_json(look, plans)
    sides = {
        row["broker"]: {side["side"]: side for side in row["sides"]} for row in brokers_json(look, list(live.brokers))
    }
    return {
        "cluster": settings.cluster,
        "now_ms": now_ms,
        "tuner": tuner,
        **{key: page[key] for key in _AS_ON_THE_PAGE},
        "throttles_managed": page["throttles_managed"] if newest.memory is not None else None,
        **orders_json(newest.orders, now_ms),
        "next": steps_of_acting_tuner(look, decisions, turns, remembers=newest.memory is not None)
        if tuner["acting"]
        else steps_without_tuner(look, tuner["state"]),
        "destinations": [views.move_json(look, broker) for broker in views.destinations_by_urgency(look)],
        "brokers": [
            {
                "broker": broker,
                **{
                    f"{side}_current_rate_bytes_per_s": setting.bytes_per_s
                    if (setting := live.rates.get((broker, side))) is not None
                    else None
                    for side in Side
                },
                "leader_throttled_bytes_per_s": seen.leader_throttled_bytes_per_s if seen is not None else None,
                "follower_throttled_bytes_per_s": seen.follower_throttled_bytes_per_s if seen is not None else None,
                "produce_p99_ms": seen.produce_p99_ms if seen is not None else None,
                "sampled_at_ms": seen.sampled_at_ms if seen is not None else None,
                **{
                    f"{side}_steady_state_bytes_per_s": move.steady_state_bytes_per_s if move is not None else None
                    for side in Side
                    for move in (signals.moves.get((broker, side)) if signals is not None else None,)
                },
                **{f"{side}_min_rate_bytes_per_s": _floor(sides[broker][side], settings) for side in Side},
                **{f"{side}_infeasible": sides[broker][side]["infeasible"] for side in Side},
            }
            for broker in sorted(live.brokers)
            for seen in (signals.brokers.get(broker) if signals is not None else None,)
        ],
        "moves": [
            {"topic": m.topic, "partition": m.partition, "leader": m.leader, "adding": m.adding, "removing": m.removing}
            for m in live.moves
        ],
        "remaining_bytes_by_broker": {
            str(broker): signal.remaining_bytes
            for (broker, side), signal in sorted(signals.moves.items() if signals is not None else ())
            if side is Side.FOLLOWER and signal.moving_partitions
        },
        "throttled_topics": sorted(live.lists),
        "plans": [
            {
                "plan": p.id,
                "desired": p.head.desired.value,
                "partitions": len(p.partitions),
                "moving": len(p.requested),
                "blockers": p.state.blockers,
            }
            for p in newest.plans
            if p.is_active
        ],
        "unreadable_records": list(newest.unreadable),
        "throttle_decisions": by_throttle,
        "last_decisions": [_decision(row) for row in reversed(decisions.page(DecisionFilter(), DECISIONS_SHOWN)[0])],
        "last_steering_ticks": [{"at_ms": e.at_ms, "rates": e.decision.get("rates"), "text": e.text} for e in turns],
    }


def _sides_of(live: LiveCluster) -> list[BrokerSide]:
    """The sides that take part in a move."""
    found = {(broker, Side.FOLLOWER) for move in live.moves for broker in move.adding}
    return sorted(found | {(move.leader, Side.LEADER) for move in live.moves if move.leader >= 0})


def _by_throttle(decisions: DecisionStore, live: LiveCluster) -> list[dict[str, Any]]:
    """The last decision about each side that takes part in a move, as far as it is among the newest records."""
    newest: dict[tuple[int | None, str | None], EventRow] = {}
    for row in decisions.page(DecisionFilter(), RING_SIZES["entry"])[0]:
        for act in row.acts:
            for side in throttles_of(act.entry):
                newest.setdefault(side, row)
    taking_part = [(broker, side.value) for broker, side in _sides_of(live)]
    return [_decision(newest[side]) for side in taking_part if side in newest]


def _judged_stalled(by_throttle: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    """The destinations whose last decision calls the move onto them stalled, and when that was decided."""
    followers = [each for each in by_throttle if each["side"] == Side.FOLLOWER.value and each["broker"] is not None]
    return {each["broker"]: each["at_ms"] for each in followers if each["reason"].startswith("stalled_")}


def _decision(row: EventRow) -> dict[str, Any]:
    told = decision_json(row, inputs=False)
    names = ("at_ms", "kind", "broker", "side", "rates", "action", "reason", "text", "outcome", "failure", "dry_run")
    return {name: told[name] for name in names}


def unfixable_by_throttle(status: dict[str, Any]) -> list[str]:
    """What the last decision about each throttle of a move says cannot be helped by turning it; empty while nothing moves."""
    last = {d["text"]: d for d in status["throttle_decisions"]}
    return [d["text"] for d in last.values() if d["reason"] in _STUCK or d["failure"]]


def needs_a_tuner(status: dict[str, Any]) -> bool:
    """Whether something stalls, or can never end, and no tuner acts."""
    return not status["tuner"]["acting"] and bool(status["stalled_brokers"] or status["infeasible"])


def last_entries(settings: Settings, count: int = DECISIONS_SHOWN, ring: str = "entry") -> list[Entry]:
    """The newest entries of the journal, oldest first; none while there is no journal.

    Args:
        ring: "entry" for decisions, "steering" for steering ticks.

    Raises:
        CommandError: there is one, and it cannot be read.
    """
    return read_journal_state(settings, {ring: count}).newest.entries[ring]


def _floor(side: Mapping[str, Any], settings: Settings) -> float | None:
    """By the settings: what the law means, which may be less where clients leave less, is not known from outside."""
    steady_state = side["steady_state_bytes_per_s"]
    return (
        None if steady_state is None else min_draining_bytes_per_s(SideLoad(0.0, steady_state), settings.tuner.limits())
    )


def _signals(settings: Settings) -> SignalHistory:
    reader = consumer(settings.kafka, "rheostat-status-signals")
    try:
        signals = SignalHistory(reader, settings.topic_names().signals, settings.cluster)
        signals.rewind(_SIGNAL_BACKLOG)
        return signals
    finally:
        reader.close(timeout_ms=2000)
