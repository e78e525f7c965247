"""`rheostat status`: what stands, what moves, what was decided last. Read from the cluster, with or without a daemon."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from kafka.errors import KafkaError
from rich.console import Console
from rich.table import Table

from rheostat.errors import CommandError, UnreachableError
from rheostat.services import probe
from rheostat.settings import Settings
from rheostat.status_look import Onlooker, coming
from streaming.contract import Side
from streaming.kafka import consumer
from streaming.kafka.cluster import ClusterClient, ClusterError, Unreachable
from tuner.api import views
from tuner.api.broker_views import broker_rows
from tuner.api.sentences import moment, override_lines
from tuner.api.views import orders_json
from tuner.decide.plan_moves import moves_under_way
from tuner.decide.rescue_rate import floor_bytes_per_s
from tuner.journal.entries import Entry, decode_entry, entry_prefix
from tuner.journal.kafka_journal import JournalError
from tuner.journal.reading import read_records
from tuner.journal.remembered import Remembered
from tuner.model.cluster import LiveCluster
from tuner.model.decision import ELSEWHERE, Reason
from tuner.model.limits import MB
from tuner.model.memory import Memory
from tuner.model.orders import Orders
from tuner.model.reassigning import Plan
from tuner.observe.live import LiveReader
from tuner.observe.signals import NewestSignals, SignalReader
from tuner.plan.move_time import SideLoad

DECISIONS = 10
TURNS = 5  # Seconds of the law.
_STUCK = {Reason.INFEASIBLE, Reason.DEADLINE_NOT_MET, *ELSEWHERE}
_SIGNAL_BACKLOG = 400
# Of the page's own status.
_AS_ON_THE_PAGE = (
    "headline", "moving_partitions", "done_ratio", "eta_s", "stalled_brokers", "infeasible", "brokers_alive", "throttles",
    "produce_p99_ms_max", "produce_p99_ms_max_broker", "objective", "rate_bytes_per_s_max", "rate_bytes_per_s_min",
    "signals_age_s_min",
)  # fmt: skip


def gather(settings: Settings) -> dict[str, Any]:
    """
    Raises:
        UnreachableError: the cluster does not answer.
        CommandError: it answers, but a right is missing.
    """
    probe(settings)
    with ClusterClient(settings.kafka, "rheostat-status") as client:
        try:
            client.brokers()
            live = LiveReader(client).look(full=True)
        except Unreachable as error:
            raise UnreachableError(str(error)) from error
        except ClusterError as error:
            raise CommandError(str(error)) from error
        if not isinstance(live, LiveCluster):
            raise CommandError(f"The cluster's settings cannot be read: {live.reason}")
    newest = _newest(settings, {"entry": DECISIONS, "turn": TURNS})
    return status_json(settings, live, _signals(settings), newest, round(time.time() * 1000))


def status_json(
    settings: Settings,
    live: LiveCluster,
    signals: NewestSignals | None,
    newest: Newest,
    now_ms: int,
    onlooker: Onlooker | None = None,
) -> dict[str, Any]:
    """All that is shown, as values; the keys of ``rheostat status --json``.

    Args:
        onlooker: who has looked before; None: nobody has.
    """
    look = (onlooker or Onlooker(settings)).look(
        live, signals, newest.orders, newest.memory, now_ms, moves_under_way(newest.plans)
    )
    entries, turns = newest.entries["entry"], newest.entries["turn"]
    page = views.status(look)
    sides = {
        row["broker"]: {side["side"]: side for side in row["sides"]} for row in broker_rows(look, list(live.brokers))
    }
    return {
        "cluster": settings.cluster,
        "now_ms": now_ms,
        **{key: page[key] for key in _AS_ON_THE_PAGE},
        "throttles_ours": page["throttles_ours"] if newest.memory is not None else None,
        **orders_json(newest.orders, now_ms),
        "next": coming(look, entries, turns, remembers=newest.memory is not None),
        "onto": [views.move_row(look, broker) for broker in views.moves(look)],
        "brokers": [
            {
                "broker": broker,
                **{
                    f"{side}_rate_bytes_per_s": setting.bytes_per_s
                    if (setting := live.rates.get((broker, side))) is not None
                    else None
                    for side in Side
                },
                "leader_throttled_bytes_per_s": seen.leader_throttled_bytes_per_s if seen is not None else None,
                "follower_throttled_bytes_per_s": seen.follower_throttled_bytes_per_s if seen is not None else None,
                "produce_p99_ms": seen.produce_p99_ms if seen is not None else None,
                "sampled_at_ms": seen.sampled_at_ms if seen is not None else None,
                **{
                    f"{side}_keep_up_bytes_per_s": move.keep_up_bytes_per_s if move is not None else None
                    for side in Side
                    for move in (signals.moves.get((broker, side)) if signals is not None else None,)
                },
                **{f"{side}_floor_bytes_per_s": _floor(sides[broker][side], settings) for side in Side},
                **{f"{side}_infeasible": sides[broker][side]["infeasible"] for side in Side},
            }
            for broker in sorted(live.brokers)
            for seen in (signals.brokers.get(broker) if signals is not None else None,)
        ],
        "moves": [
            {"topic": m.topic, "partition": m.partition, "leader": m.leader, "adding": m.adding, "removing": m.removing}
            for m in live.moves
        ],
        "remaining_bytes": {
            str(broker): signal.remaining_bytes
            for (broker, side), signal in sorted(signals.moves.items() if signals is not None else ())
            if side is Side.FOLLOWER and signal.moving_partitions
        },
        "throttled_topics": sorted(live.lists),
        "plans": [
            {
                "plan": p.id,
                "wanted": p.head.wanted.value,
                "partitions": len(p.parts),
                "under_way": len(p.asked),
                "said": p.state.said,
            }
            for p in newest.plans
            if p.active
        ],
        "unreadable_records": list(newest.unreadable),
        "last_decisions": [
            {
                "at_ms": e.at_ms,
                "kind": e.kind,
                "broker": e.decision.get("broker"),
                "side": e.decision.get("side"),
                "action": e.action,
                "reason": e.reason,
                "text": e.text,
                "failure": e.failure,
            }
            for e in entries
        ],
        "last_turns": [{"at_ms": e.at_ms, "rates": e.decision.get("rates"), "text": e.text} for e in turns],
    }


def stuck(status: dict[str, Any]) -> list[str]:
    """What the newest decision about each throttle says cannot be helped by turning it; empty while nothing moves."""
    newest = {(d["broker"], d["side"]): d for d in status["last_decisions"] if status["moves"]}
    return [d["text"] for d in newest.values() if d["reason"] in _STUCK or d["failure"]]


def last_entries(settings: Settings, count: int = DECISIONS, ring: str = "entry") -> list[Entry]:
    """The newest entries of the journal, oldest first; none while there is no journal.

    Args:
        ring: "entry" for decisions, "turn" for the seconds of the law.

    Raises:
        CommandError: there is one, and it cannot be read.
    """
    return _newest(settings, {ring: count}).entries[ring]


def _floor(side: Mapping[str, Any], settings: Settings) -> float | None:
    """By the settings: what the law means, which may be less where clients leave less, is not known from outside."""
    keep_up = side["keep_up_bytes_per_s"]
    return None if keep_up is None else floor_bytes_per_s(SideLoad(0.0, keep_up), settings.tuner.limits())


class Newest(NamedTuple):
    """What the journal says now: the newest entries by ring, oldest first, what people have ordered, their plans, and what the
    tuner remembers (None: not known)."""

    entries: Mapping[str, list[Entry]]
    orders: Orders = Orders()
    plans: tuple[Plan, ...] = ()
    memory: Memory | None = None
    unreadable: tuple[str, ...] = ()  # Records in force that this version cannot read, in words.


def _newest(settings: Settings, counts: Mapping[str, int]) -> Newest:
    """So many of each ring."""
    reader = consumer(settings.kafka, "rheostat-status-journal", isolation_level="read_committed")
    prefixes = {entry_prefix(ring, settings.cluster): ring for ring in counts}
    topic = settings.topic_names().journal
    found: dict[str, list[Entry]] = {ring: [] for ring in counts}
    remembered = Remembered(settings.cluster)
    try:
        # No daemon has run here yet; what stands in the cluster is still worth showing.
        if not reader.partitions_for_topic(topic):
            return Newest(found, memory=Memory())
        for record in read_records(reader, topic):
            remembered.take(*record)
            ring = next((ring for prefix, ring in prefixes.items() if record.key.startswith(prefix)), None)
            if ring is not None and record.value is not None and (entry := decode_entry(record.value)) is not None:
                found[ring].append(entry)
    except (JournalError, KafkaError) as error:
        raise CommandError(
            f"The journal cannot be read ({error}): it takes the right Read on Topic {topic}."
        ) from error
    finally:
        reader.close(timeout_ms=2000)
    newest = {ring: sorted(found[ring], key=lambda e: e.seq)[-count:] for ring, count in counts.items()}
    return Newest(
        newest, remembered.orders, remembered.plans.known, remembered.known_memory,
        tuple(each.text() for each in remembered.unreadable.values()),
    )  # fmt: skip


def _signals(settings: Settings) -> SignalReader | None:
    reader = consumer(settings.kafka, "rheostat-status-signals")
    try:
        signals = SignalReader(reader, settings.topic_names().signals, settings.cluster)
        signals.rewind(_SIGNAL_BACKLOG)
        return signals
    finally:
        reader.close(timeout_ms=2000)


def show(status: dict[str, Any], console: Console) -> None:
    brokers = Table(title=f"Brokers of {status['cluster']}", title_justify="left")
    for column in ("broker", "leader throttle", "used", "follower throttle", "used", "produce p99"):
        brokers.add_column(column, justify="right")
    for b in status["brokers"]:
        brokers.add_row(
            str(b["broker"]), _rate(b["leader_rate_bytes_per_s"]), _rate(b["leader_throttled_bytes_per_s"]),
            _rate(b["follower_rate_bytes_per_s"]), _rate(b["follower_throttled_bytes_per_s"]),
            "–" if b["produce_p99_ms"] is None else f"{b['produce_p99_ms']:.0f} ms",
        )  # fmt: skip
    console.print(brokers)
    if status["moves"]:
        onto = sorted({broker for move in status["moves"] for broker in move["adding"]})
        console.print(f"{len(status['moves'])} partitions are moving onto {', '.join(map(str, onto))}.")
        for broker, remaining in status["remaining_bytes"].items():
            if remaining is not None:
                console.print(f"  broker {broker}: {remaining / MB:.0f} MB remain")
    else:
        console.print("Nothing is moving.")
    for plan in status.get("plans", ()):
        console.print(
            f"Plan {plan['plan']}: {plan['wanted']}, {plan['partitions']} partitions, {plan['under_way']} under way; more with "
            "`rheostat reassign status`.", soft_wrap=True,
        )  # fmt: skip
        for line in plan["said"]:
            console.print(f"  {line}", soft_wrap=True)
    for line in ordered(status):
        console.print(line)
    if unreadable := status.get("unreadable_records"):
        console.print(
            f"Records of the journal that cannot be read: {len(unreadable)}; `rheostat journal check` says what follows from each.",
            soft_wrap=True,
        )  # fmt: skip
    if status["last_decisions"]:
        console.print("Last decisions:")
        for entry in status["last_decisions"]:
            failure = f" FAILED: {entry['failure']}" if entry["failure"] else ""
            console.print(f"  {_at(entry)} {entry['kind']}: {entry['text']}{failure}")
    if status["last_turns"]:
        console.print("Last seconds of the law:")
        for turn in status["last_turns"]:
            console.print(f"  {_at(turn)} {turn['text']}")


def ordered(status: Mapping[str, Any]) -> list[str]:
    """What people have ordered, a line each."""
    pause = status.get("paused")
    lines = (
        [f"{'Released' if pause['released'] else 'Paused'} by {pause['by']}, until `rheostat resume`."] if pause else []
    )
    return lines + [line for _, line in override_lines(status.get("overrides", ()))]


def _at(entry: Mapping[str, Any]) -> str:
    return moment(entry["at_ms"]).removesuffix(" UTC")


def _rate(bytes_per_s: float | None) -> str:
    return "–" if bytes_per_s is None else f"{bytes_per_s / MB:.1f} MB/s"
