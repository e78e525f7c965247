"""Collects the data of `rheostat status`: the active tuner, moves and their expected end, stalls, decisions.

The data comes from the cluster, the signals and the journal, so the command works with or without a running tuner.

Terms:
    side           a broker in one role of replication, leader or follower; each side has its own throttle.
    steering tick  one adjustment of the throttles by the control loop, which runs every second.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rheostat.config.schedule import settings_now
from rheostat.config.settings import Settings
from rheostat.errors import CommandError, UnreachableError
from rheostat.metrics_cluster import metrics_client, metrics_consumer
from rheostat.reassign.plan_input import open_client
from rheostat.reassign.progress import measure_progress, partitions_to_measure
from rheostat.run.services import probe
from rheostat.status.active_tuner import tuner_json
from rheostat.status.cordons import read_cordon_rows
from rheostat.status.evaluation import StatusEvaluator, steps_of_active_tuner, steps_without_tuner
from rheostat.status.journal import RING_SIZES, JournalState, read_journal_state
from rheostat.status.lease_holders import read_lease_holders
from rheostat.status.log_dirs import read_log_dirs
from rheostat.status.readings import FurtherReadings
from rheostat.status.signal_history import SignalHistory
from rheostat.tuner_presence import read_tuners
from streaming.shared.contract import Side
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, Unreachable
from tuner.api import views
from tuner.api.broker_views import brokers_json
from tuner.api.decision_rows import decision_json
from tuner.api.decisions import DecisionFilter, DecisionStore, EventRow, throttles_of
from tuner.api.latency_limits import latency_limit_json
from tuner.api.status_snapshot import StatusSnapshot
from tuner.api.views import orders_json
from tuner.control.throttle.decision import NOT_THROTTLE_LIMITED, Reason
from tuner.control.throttle.plan_moves import list_requested_moves
from tuner.control.throttle.rescue_rate import min_draining_bytes_per_s
from tuner.core.cluster import BrokerSide, LiveCluster
from tuner.core.freshness import fresh_signals
from tuner.core.plan_progress import UNKNOWN, Progress
from tuner.core.presence import TunerMode
from tuner.core.reassignment_plan import Plan
from tuner.journal.entries import Entry
from tuner.runtime.observe.cluster_reader import ClusterReader
from tuner.runtime.observe.signals_reader import SignalCache
from tuner.runtime.reassignment.actuator import KafkaReassignmentActuator
from tuner.settings.schedule_periods import find_period

DECISIONS_SHOWN = 10
# A change of the throttle cannot help a move whose last decision has one of these reasons.
_UNFIXABLE_REASONS = {Reason.INFEASIBLE, Reason.DEADLINE_NOT_MET, *NOT_THROTTLE_LIMITED}
# Tuners in these modes detect stalls, so the command shows the stalls that they have recorded, besides its own.
_EVALUATING_MODES = {TunerMode.ACTIVE, TunerMode.DRY_RUN}
_RATE_CHANGES = {"set", "start", "restore"}  # Actions of journal entries that change a throttle.
# Fields that are the same as in the API status.
_API_STATUS_FIELDS = (
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
    """Reads the cluster, the journal and the signals once, and returns the status.

    Raises:
        UnreachableError: the cluster does not answer.
        CommandError: the cluster refuses a request, for example because a right is missing.
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
            raise CommandError(f"The cluster's settings cannot be read: {live.reason}.")
        journal = read_journal_state(settings).state
        signals = _read_signals(settings)
        try:
            fresh = fresh_signals(signals.brokers, round(time.time() * 1000), settings.tuner.signal_age_s_max)
            log_dirs = read_log_dirs(client, live.brokers, fresh, journal.log_dirs.owned)
            cordons = read_cordon_rows(client, live.brokers, journal.cordons)
        except ClusterError as error:
            raise CommandError(str(error)) from error
        with metrics_client(client, settings) as metrics:
            leases = read_lease_holders(metrics, settings.metrics_cluster, settings.topic_names())
    signals.merge_steps(_last_change_at_ms(journal))
    now_ms = round(time.time() * 1000)
    plans = plans_progress(settings, journal.plans, now_ms)
    # read_tuners waits for a new report if needed: with differing clocks only a new report proves that a tuner runs.
    tuners = read_tuners(settings, now_ms)
    readings = FurtherReadings(tuners=tuners, leases=leases, plans=plans, log_dirs=log_dirs, cordons=cordons)
    return status_json(settings, live, signals, journal, now_ms, readings)


def _last_change_at_ms(journal: JournalState) -> int:
    """Returns when a throttle was last changed (epoch ms); 0 if never."""
    entries = [entry for ring in journal.entries.values() for entry in ring]
    # An entry of the kind "decision" records that nothing had to be written.
    changes = [e for e in entries if e.action in _RATE_CHANGES and e.kind != "decision" and not e.dry_run]
    return max((e.at_ms for e in changes), default=0)


def plans_progress(settings: Settings, plans: Sequence[Plan], now_ms: int) -> dict[str, Progress]:
    """Reads the partitions of each active plan, and returns the progress by plan."""
    active = [plan for plan in plans if plan.is_active]
    if not active:
        return {}
    with open_client(settings) as client:
        reassignments = KafkaReassignmentActuator(client)
        progress: dict[str, Progress] = {}
        for plan in active:
            snapshot = reassignments.read_snapshot({topic for topic, _ in plan.partitions}, partitions_to_measure(plan))
            # If the progress of a plan is unknown, the status shows no expected end.
            progress[plan.id] = (
                UNKNOWN if isinstance(snapshot, ClusterError) else measure_progress(plan, snapshot, now_ms).progress
            )
        return progress


def status_json(
    settings: Settings,
    live: LiveCluster,
    signals: SignalCache | None,
    journal: JournalState,
    now_ms: int,
    readings: FurtherReadings,
    evaluator: StatusEvaluator | None = None,
) -> dict[str, Any]:
    """Returns the status as JSON values, with the keys of ``rheostat status --json``.

    Args:
        evaluator: keeps stalls and peaks between calls; None if this is the only call.
    """
    schedule = find_period(settings.tuner, now_ms) if settings.tuner.schedule else None
    evaluator = evaluator or StatusEvaluator(settings)
    settings = settings_now(settings, now_ms)
    evaluator.use(settings.tuner)
    tuner = tuner_json(readings.tuners, settings.tuner.rate_bytes_per_s_max)
    steering_ticks = journal.entries["steering"]
    decisions = DecisionStore(entries_max=RING_SIZES["entry"])
    decisions.load_history(journal.entries["entry"])
    throttle_decisions = _last_decisions(decisions, live)
    newest_rows, _ = decisions.page(DecisionFilter(), DECISIONS_SHOWN)
    snapshot = evaluator.evaluate(
        live,
        signals,
        journal.orders,
        journal.memory,
        now_ms,
        list_requested_moves(journal.plans),
        rate_bytes_per_s_max=tuner["rate_bytes_per_s_max"],
        stalled_since_ms=_stalled_by_decision(throttle_decisions) if tuner["state"] in _EVALUATING_MODES else None,
    )
    api_status = views.status_json(snapshot, readings.plans)
    api_sides = {
        row["broker"]: {side["side"]: side for side in row["sides"]}
        for row in brokers_json(snapshot, list(live.brokers))
    }
    if tuner["state"] == TunerMode.ACTIVE:
        next_steps = steps_of_active_tuner(
            snapshot, decisions, steering_ticks, is_memory_known=journal.memory is not None
        )
    else:
        next_steps = steps_without_tuner(snapshot, tuner["state"])
    return {
        "cluster": settings.cluster,
        "now_ms": now_ms,
        "tuner": tuner,
        **readings.leases,
        "schedule": views.schedule_json(schedule),
        **{key: api_status[key] for key in _API_STATUS_FIELDS},
        "throttles_managed": api_status["throttles_managed"] if journal.memory is not None else None,
        **orders_json(journal.orders, now_ms),
        "next": next_steps,
        "destinations": [views.move_json(snapshot, broker) for broker in views.destinations_by_urgency(snapshot)],
        "brokers": [
            _broker_json(settings, snapshot, live, signals, broker, api_sides[broker])
            for broker in sorted(live.brokers)
        ],
        "moves": [
            {"topic": m.topic, "partition": m.partition, "leader": m.leader, "adding": m.adding, "removing": m.removing}
            for m in live.moves
        ],
        "remaining_bytes_by_broker": _remaining_bytes(signals),
        "throttled_topics": sorted(live.lists),
        "log_dirs": list(readings.log_dirs),
        "cordons": list(readings.cordons),
        "plans": [_plan_json(plan) for plan in journal.plans if plan.is_active],
        "unreadable_records": list(journal.unreadable),
        "throttle_decisions": throttle_decisions,
        "last_decisions": [_shown_decision_json(row) for row in reversed(newest_rows)],
        "last_steering_ticks": [
            {"at_ms": e.at_ms, "rates": e.decision.get("rates"), "text": e.text} for e in steering_ticks
        ],
    }


def _broker_json(
    settings: Settings,
    snapshot: StatusSnapshot,
    live: LiveCluster,
    signals: SignalCache | None,
    broker: int,
    sides: Mapping[Side, Mapping[str, Any]],
) -> dict[str, Any]:
    """Returns one broker: for each side its current rate, traffic, steady-state replication and minimum rate.

    Args:
        sides: the broker's sides as in the API.
    """
    signal = signals.brokers.get(broker) if signals is not None else None
    rates = {side: live.rates.get((broker, side)) for side in Side}
    moves = {side: signals.moves.get((broker, side)) if signals is not None else None for side in Side}
    return {
        "broker": broker,
        **{
            f"{side}_current_rate_bytes_per_s": None if rate is None else rate.bytes_per_s
            for side, rate in rates.items()
        },
        "leader_throttled_bytes_per_s": signal.leader_throttled_bytes_per_s if signal is not None else None,
        "follower_throttled_bytes_per_s": signal.follower_throttled_bytes_per_s if signal is not None else None,
        "produce_p99_ms": signal.produce_p99_ms if signal is not None else None,
        "latency_limit": latency_limit_json(snapshot.latency_limits.get(broker)),
        "sampled_at_ms": signal.sampled_at_ms if signal is not None else None,
        **{
            f"{side}_steady_state_bytes_per_s": None if move is None else move.steady_state_bytes_per_s
            for side, move in moves.items()
        },
        **{f"{side}_min_rate_bytes_per_s": _min_rate(sides[side], settings) for side in Side},
        **{f"{side}_infeasible": sides[side]["infeasible"] for side in Side},
    }


def _plan_json(plan: Plan) -> dict[str, Any]:
    return {
        "plan": plan.id,
        "desired": plan.head.desired.value,
        "partitions": len(plan.partitions),
        "moving": len(plan.requested),
        "blockers": plan.state.blockers,
    }


def _remaining_bytes(signals: SignalCache | None) -> dict[str, float | None]:
    """Returns the remaining bytes by destination broker."""
    if signals is None:
        return {}
    return {
        str(broker): signal.remaining_bytes
        for (broker, side), signal in sorted(signals.moves.items())
        if side is Side.FOLLOWER and signal.moving_partitions
    }


def _moving_sides(live: LiveCluster) -> list[BrokerSide]:
    """Returns the sides that take part in a move."""
    followers = {(broker, Side.FOLLOWER) for move in live.moves for broker in move.adding}
    return sorted(followers | {(move.leader, Side.LEADER) for move in live.moves if move.leader >= 0})


def _last_decisions(decisions: DecisionStore, live: LiveCluster) -> list[dict[str, Any]]:
    """Returns the last decision about each side that takes part in a move, if that decision is among the newest records."""
    last_rows: dict[tuple[int | None, str | None], EventRow] = {}
    rows, _ = decisions.page(DecisionFilter(), RING_SIZES["entry"])
    for row in rows:  # The newest first.
        for act in row.acts:
            for side in throttles_of(act.entry):
                last_rows.setdefault(side, row)
    moving = [(broker, side.value) for broker, side in _moving_sides(live)]
    return [_shown_decision_json(last_rows[side]) for side in moving if side in last_rows]


def _stalled_by_decision(by_throttle: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    """Returns the destinations that the tuner's last decision calls stalled, with the time of that decision (epoch ms)."""
    decisions = [row for row in by_throttle if row["side"] == Side.FOLLOWER.value and row["broker"] is not None]
    return {row["broker"]: row["at_ms"] for row in decisions if row["reason"].startswith("stalled_")}


def _shown_decision_json(row: EventRow) -> dict[str, Any]:
    """Returns the fields of a decision that the status shows."""
    decision = decision_json(row, inputs_max=0)
    names = ("at_ms", "kind", "broker", "side", "rates", "action", "reason", "text", "outcome", "failure", "dry_run")
    return {name: decision[name] for name in names}


def unfixable_by_throttle(status: dict[str, Any]) -> list[str]:
    """Returns the texts of last decisions that failed, or after which no throttle change helps the move; empty without moves.

    One decision may concern several throttles; its text is returned once.
    """
    decisions = {row["text"]: row for row in status["throttle_decisions"]}
    return [text for text, row in decisions.items() if row["reason"] in _UNFIXABLE_REASONS or row["failure"]]


def needs_a_tuner(status: dict[str, Any]) -> bool:
    """Returns whether a move has stalled or can never end while no tuner acts."""
    return status["tuner"]["state"] != TunerMode.ACTIVE and bool(status["stalled_brokers"] or status["infeasible"])


def last_entries(settings: Settings, count: int = DECISIONS_SHOWN, ring: str = "entry") -> list[Entry]:
    """Returns the newest journal entries, oldest first; empty if there is no journal.

    Args:
        ring: "entry" for decisions, "steering" for steering ticks.

    Raises:
        CommandError: the journal cannot be read.
    """
    return read_journal_state(settings, {ring: count}).state.entries[ring]


def _min_rate(side: Mapping[str, Any], settings: Settings) -> float | None:
    """Returns the minimum rate according to the settings; the value that the tuner uses may be lower, and is unknown here."""
    steady_state = side["steady_state_bytes_per_s"]
    return None if steady_state is None else min_draining_bytes_per_s(steady_state, settings.tuner.limits())


def _read_signals(settings: Settings) -> SignalHistory:
    reader = metrics_consumer(settings, "rheostat-status-signals")
    try:
        signals = SignalHistory(reader, settings.topic_names().signals, settings.cluster)
        signals.includes_recoveries = settings.tuner.recovery == "act"
        signals.rewind()
        return signals
    finally:
        reader.close(timeout_ms=2000)
