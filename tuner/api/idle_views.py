"""The outlook of the view *Now*: what the tuner knows while nothing moves, and why it does not know the rest.

Each row is one fact in a sentence, with its source. A value that is not known is shown as unknown, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from streaming.shared.contract import BrokerProfile, BrokerSignal
from streaming.shared.units import rate_text, size_text, span_text
from tuner.api import mutation_texts
from tuner.api.sentences import brokers_text, moment
from tuner.api.status_snapshot import StatusSnapshot
from tuner.api.status_store import StatusStore
from tuner.api.week_store import WeekStore
from tuner.control.throttle.objective import Capacity, Objective
from tuner.core.cluster import Observation
from tuner.core.forecast import why_unusable
from tuner.core.freshness import age_s
from tuner.core.latency_limit import WHEN_MEASURED
from tuner.core.throttle_limits import ThrottleLimits
from tuner.planning.copy_forecast import TOLD_CAPACITY_RATIO
from tuner.planning.quiet_hours import WINDOW_H, find_quiet_hours

CAPACITY_ROWS_MAX = 12
FETCHER_ROWS_MAX = 8
_SOURCES_MAX = 6
# An idle quota window lets so many seconds of its rate pass at once, so the tuner does not throttle a copy that is smaller than
# that (control/throttle/recovery.py).
_UNTHROTTLED_S = 12


class Fact(NamedTuple):
    """One row of the outlook.

    Attributes:
        text: a sentence, in which backticks mark code.
        command: a command that shows or changes more; empty if there is none.
    """

    name: str
    text: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class OutlookInputs:
    """What the outlook depends on besides the cycle.

    Attributes:
        mutations: the values of ``/api/v1/mutations``.
    """

    store: StatusStore
    weeks: WeekStore
    mutations: Mapping[str, Any]


def is_idle(snapshot: StatusSnapshot, *, has_plans: bool) -> bool:
    """Returns whether nothing moves, nothing recovers and no plan is active."""
    live = snapshot.cycle.result.live
    return live is not None and not live.moves and not live.recoveries and not has_plans


def facts(snapshot: StatusSnapshot, inputs: OutlookInputs) -> list[Fact]:
    """Returns the rows of the outlook in the order in which they are shown."""
    observation = snapshot.observation
    now_ms = observation.now_ms if observation is not None else inputs.store.now_ms()
    return [
        Fact("Objective", _objective_text(snapshot, inputs.store)),
        _quiet_fact(snapshot, inputs.weeks, now_ms),
        Fact("If a broker returned now", _return_text(snapshot, inputs)),
        Fact("Replication lag", _lag_text(observation)),
        Fact("Topics created and deleted", _mutation_text(inputs.mutations)),
        _orphan_fact(snapshot),
    ]


def capacity_rows(snapshot: StatusSnapshot, inputs: OutlookInputs) -> list[dict[str, Any]]:
    """Returns a row for each of the busiest brokers: capacity with its source and age, and the part that clients use now."""
    observation = snapshot.observation
    signals = observation.broker_signals if observation is not None else {}
    now_ms = observation.now_ms if observation is not None else inputs.store.now_ms()
    busiest = sorted(snapshot.brokers, key=lambda broker: (-_client_load(signals.get(broker)), broker))
    rows = []
    for broker in busiest[:CAPACITY_ROWS_MAX]:
        signal = signals.get(broker)
        capacity, source = known_capacity(inputs, broker, signal, now_ms)
        rows.append(
            {
                "broker": broker,
                "in_bytes_per_s": capacity.in_bytes_per_s if capacity is not None else None,
                "out_bytes_per_s": capacity.out_bytes_per_s if capacity is not None else None,
                "source": source,
                "client_in_bytes_per_s": signal.client_in_bytes_per_s if signal is not None else None,
                "client_out_bytes_per_s": signal.client_out_bytes_per_s if signal is not None else None,
                "age_s": age_s(signal, now_ms) if signal is not None else None,
            }
        )
    return rows


def known_capacity(
    inputs: OutlookInputs, broker: int, signal: BrokerSignal | None, now_ms: int
) -> tuple[Capacity | None, str]:
    """Returns the capacity of a broker with its source and age; without one, the reason.

    A capacity that earlier moves have proven is preferred to the speed of the link, as the disks may be slower than the link.
    """
    store = inputs.store
    if (configured := store.capacity_by_broker.get(broker, store.capacity)) is not None:
        return configured, "tuner.capacity"
    speed = signal.link_speed_bytes_per_s if signal is not None else None
    profile: BrokerProfile | None = inputs.weeks.profiles.get(broker)
    learned = [] if profile is None else [c for c in (profile.capacity_in, profile.capacity_out) if c is not None]
    if len(learned) == 2:
        oldest_s = max(0.0, (now_ms - min(capacity.seen_at_ms for capacity in learned)) / 1000)
        text = f"learned, last measured {span_text(oldest_s)} ago"
        if speed is not None:
            text += f"; the speed of the link is {rate_text(speed)}"
        return Capacity(learned[0].bytes_per_s, learned[1].bytes_per_s), text
    if speed is not None:
        return Capacity(speed, speed), "speed of the link, from the metrics of the machine; disks may be slower"
    if profile is None:
        return None, "unknown, because `rheostat learn` has published no profile, and `tuner.capacity` is not set"
    return None, "unknown, because it is learned during moves, and no move has been measured long enough"


def fetcher_rows(snapshot: StatusSnapshot) -> tuple[list[dict[str, Any]], str]:
    """Returns the fetcher threads of each follower by source broker, the most unequal first, and a sentence about them."""
    observation, live = snapshot.observation, snapshot.cycle.result.live
    signals = observation.replication_signals if observation is not None else {}
    fetchers = live.fetchers if live is not None else {}
    rows = []
    for broker, signal in signals.items():
        by_source: dict[int, list[int]] = {}
        for thread in signal.threads:
            if thread.partitions is not None:
                by_source.setdefault(thread.source, []).append(round(thread.partitions))
        if by_source:
            cells = [_thread_cell(source, counts, fetchers.get(broker)) for source, counts in sorted(by_source.items())]
            cells.sort(key=lambda cell: (-cell["excess"], cell["source"]))
            excess = sum(cell["excess"] for cell in cells)
            rows.append({"follower": broker, "sources": cells[:_SOURCES_MAX], "excess": excess})
    if not rows:
        return [], (
            "unknown, because no signal about fetcher threads has arrived. This signal needs the metric "
            "`FetcherLagMetrics` of JMX agents."
        )
    rows.sort(key=lambda row: (-row["excess"], row["follower"]))
    colliding = sum(row["excess"] for row in rows)
    return rows[:FETCHER_ROWS_MAX], (
        f"{colliding} partitions share a thread although another thread of the same pair of brokers has fewer. "
        "`rheostat fetchers` names the topics."
        if colliding
        else "Each pair of brokers spreads its partitions evenly over its threads."
    )


def _thread_cell(source: int, counts: list[int], fetchers: int | None) -> dict[str, Any]:
    """Returns the partitions of each thread of one pair, and how many of them are above an even share."""
    threads = max(fetchers or 1, len(counts))
    even = -(-sum(counts) // threads)  # Rounded up.
    counts = sorted([*counts, *[0] * (threads - len(counts))], reverse=True)
    return {"source": source, "counts": counts, "excess": sum(max(0, count - even) for count in counts)}


def _objective_text(snapshot: StatusSnapshot, store: StatusStore) -> str:
    objective: Objective | None = snapshot.objective
    if objective is None or not store.limits.closed_loop:
        return (
            "none, because `tuner.objective` is off. The tuner raises the throttle of a stalled move, and does not follow "
            "latency."
        )
    rules = store.schedule.rules if store.schedule is not None else ()
    by_rule = f", changed by rule {' and '.join(rules)} of `tuner.schedule`" if rules else ""
    if objective.latency_ms is not None:
        return (
            f"produce latency (p99) within {objective.latency_ms:g} ms, mode {objective.mode.value}; source: "
            f"`tuner.objective.latency_ms`{by_rule}."
        )
    text = (
        f"produce latency (p99) at most {objective.tolerance:.0%} above the latency without copies, mode {objective.mode.value}; "
        f"source: `tuner.objective.tolerance`{by_rule}."
    )
    limits = snapshot.latency_limits
    if not limits:
        return (
            f"{text} The limit of each broker is unknown, because its latency without copies has not been measured yet."
        )
    lowest, highest = (pick(limit.p99_ms_max for limit in limits.values()) for pick in (min, max))
    sources = sorted({WHEN_MEASURED[limit.source] for limit in limits.values() if limit.source in WHEN_MEASURED})
    span = f"{lowest:.0f} ms" if round(lowest) == round(highest) else f"{lowest:.0f} to {highest:.0f} ms"
    return f"{text} The limit is {span} on {len(limits)} brokers, from their latency {' or '.join(sources)}."


def _quiet_fact(snapshot: StatusSnapshot, weeks: WeekStore, now_ms: int) -> Fact:
    name, command = "Best start of a plan", "rheostat plan estimate PLAN.json --start best"
    reasons = {broker: why_unusable(weeks.profiles.get(broker), now_ms) for broker in snapshot.brokers}
    usable = [weeks.profiles[broker] for broker, reason in reasons.items() if reason is None]
    quiet = find_quiet_hours(usable, now_ms)
    if quiet is None:
        why = "no broker is known" if not reasons else _most_common(reasons)
        return Fact(name, f"unknown, because there is no forecast of the load: {why}.", command)
    loads = (
        f"{rate_text(quiet.client_bytes_per_s_now)} in the next {WINDOW_H} hours, "
        f"{rate_text(quiet.client_bytes_per_s_max)} at the busiest time"
    )
    if quiet.is_now:
        when = "now: no hour of the next day is forecast to be clearly quieter"
    else:
        when = f"{moment(quiet.start_ms)[:16]} UTC, the quietest {WINDOW_H} hours of the next day"
        loads = f"{rate_text(quiet.client_bytes_per_s)} in these hours, {loads}"
    text = f"{when}. Forecast of the load of all clients: {loads}."
    if len(usable) < len(reasons):
        text += f" {len(reasons) - len(usable)} of {len(reasons)} brokers have no forecast, and are left out."
    return Fact(name, text, command)


def _most_common(reasons: Mapping[int, str | None]) -> str:
    texts = [reason for reason in reasons.values() if reason is not None]
    reason = max(dict.fromkeys(texts), key=texts.count)
    brokers = [broker for broker, text in reasons.items() if text == reason]
    return f"{'' if len(brokers) == 1 else 'each of '}{brokers_text(sorted(brokers))} {reason}"


def _return_text(snapshot: StatusSnapshot, inputs: OutlookInputs) -> str:
    limits: ThrottleLimits = inputs.store.limits
    if snapshot.orders.pause is not None:
        return "the tuner would change nothing, because it is paused. Kafka copies without a limit."
    if not limits.throttles_recoveries:
        if limits.reports_recoveries:
            return (
                "the tuner would report the recovery and change nothing, because `tuner.recovery` is `watch`. Kafka copies "
                "without a limit."
            )
        return "the tuner would ignore the recovery, because `tuner.recovery` is `off`. Kafka copies without a limit."
    acts = "without the dry run the tuner would throttle" if snapshot.dry_run else "the tuner would throttle"
    return (
        f"{acts} its copies, at {rate_text(limits.rate_bytes_per_s_min)} to {rate_text(limits.rate_bytes_per_s_max)} on each side, "
        f"as the clients' latency permits. {_headroom_text(snapshot, inputs)} Two groups copy without a limit: partitions below "
        f"min.insync.replicas, and a broker that lacks less than {size_text(_UNTHROTTLED_S * limits.rate_bytes_per_s_min)}."
    )


def _headroom_text(snapshot: StatusSnapshot, inputs: OutlookInputs) -> str:
    """Returns a text about the broker with the least inbound headroom: the capacity that clients and replication do not use."""
    observation = snapshot.observation
    if observation is None:
        return "The bandwidth that clients leave is unknown, because no cycle has ended yet."
    left: dict[int, float] = {}
    for broker, signal in observation.broker_signals.items():
        capacity, _ = known_capacity(inputs, broker, signal, observation.now_ms)
        if capacity is not None and signal.client_in_bytes_per_s is not None:
            used = signal.client_in_bytes_per_s + (signal.replication_in_bytes_per_s or 0.0)
            left[broker] = max(0.0, TOLD_CAPACITY_RATIO * capacity.in_bytes_per_s - used)
    if not left:
        return "The bandwidth that clients leave is unknown, because no broker has a known capacity."
    broker = min(left, key=lambda each: (left[each], each))
    return f"Clients and replication leave {rate_text(left[broker])} of what broker {broker} can receive, the least of all brokers."


def _lag_text(observation: Observation | None) -> str:
    signals = observation.replication_signals if observation is not None else {}
    known = {broker: signal for broker, signal in signals.items() if signal.lag_sum_messages is not None}
    if not known:
        return "unknown, because no broker reports the lag of its replicas (JMX metric `FetcherLagMetrics`)."
    worst = max(known, key=lambda broker: (known[broker].lag_sum_messages or 0.0, -broker))
    messages = known[worst].lag_sum_messages or 0.0
    if messages < 1:
        return f"none on the {len(known)} brokers that report it."
    behind = f", {span_text(lag_s)} behind" if (lag_s := known[worst].lag_max_s) is not None else ""
    return f"largest on broker {worst}: {messages:,.0f} messages{behind}. {len(known)} brokers report their lag."


def _mutation_text(mutations: Mapping[str, Any]) -> str:
    if mutations["unknown_reason"] is not None:
        return f"unknown. {mutations['unknown_reason']}"
    rate = mutations["mutations"]
    per_s = f"{mutation_texts.plain(rate['per_s'])} partitions/s" if rate is not None else "partitions/s unknown"
    return f"{per_s}. {mutation_texts.load_sentence(mutations)}".strip()


def _orphan_fact(snapshot: StatusSnapshot) -> Fact:
    result, name = snapshot.cycle.result, "Orphaned throttles"
    if result.live is None:
        return Fact(name, "unknown, because the cluster cannot be read.", "rheostat doctor")
    count = result.orphaned_settings()
    if not count:
        return Fact(name, "none: moves need every throttle that is set.")
    settings = "1 setting serves" if count == 1 else f"{count} settings serve"
    return Fact(name, f"{settings} no move, and slow the recovery of replicas.", "rheostat throttles clear")


def _client_load(signal: BrokerSignal | None) -> float:
    if signal is None:
        return 0.0
    return (signal.client_in_bytes_per_s or 0.0) + (signal.client_out_bytes_per_s or 0.0)
