"""`rheostat status`: what stands, what moves, what was decided last. Read from the cluster, with or without a daemon."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from kafka.errors import KafkaError
from rich.console import Console
from rich.table import Table

from rheostat.errors import CommandError, UnreachableError
from rheostat.services import probe
from rheostat.settings import Settings
from streaming.contract import Side
from streaming.kafka import consumer
from streaming.kafka.cluster import ClusterClient, ClusterError, Unreachable
from tuner.journal.entries import Entry, decode_entry, entry_prefix
from tuner.journal.kafka_journal import JournalError, read_all
from tuner.model.cluster import LiveCluster
from tuner.model.decision import Reason
from tuner.model.limits import MB
from tuner.observe.live import LiveReader
from tuner.observe.signals import SignalReader

DECISIONS = 10
TURNS = 5  # Seconds of the law.
_STUCK = {Reason.INFEASIBLE, Reason.STALLED_UNTHROTTLED, Reason.STALLED_NOT_THROTTLE_BOUND}
_SIGNAL_BACKLOG = 400


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
    signals = _signals(settings)
    newest = _newest(settings, {"entry": DECISIONS, "turn": TURNS})
    return {
        "cluster": settings.cluster,
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
            for e in newest["entry"]
        ],
        "last_turns": [{"at_ms": e.at_ms, "rates": e.decision.get("rates"), "text": e.text} for e in newest["turn"]],
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
    return _newest(settings, {ring: count})[ring]


def _newest(settings: Settings, counts: Mapping[str, int]) -> dict[str, list[Entry]]:
    """So many of each ring."""
    reader = consumer(settings.kafka, "rheostat-status-journal", isolation_level="read_committed")
    prefixes = {entry_prefix(ring, settings.cluster): ring for ring in counts}
    topic = settings.topic_names().journal
    found: dict[str, list[Entry]] = {ring: [] for ring in counts}
    try:
        # No daemon has run here yet; what stands in the cluster is still worth showing.
        if not reader.partitions_for_topic(topic):
            return found
        for key, value in read_all(reader, topic):
            ring = next((ring for prefix, ring in prefixes.items() if key.startswith(prefix)), None)
            if ring is not None and value is not None and (entry := decode_entry(value)) is not None:
                found[ring].append(entry)
    except (JournalError, KafkaError) as error:
        raise CommandError(
            f"The journal cannot be read ({error}): it takes the right Read on Topic {topic}."
        ) from error
    finally:
        reader.close(timeout_ms=2000)
    return {ring: sorted(found[ring], key=lambda e: e.seq)[-count:] for ring, count in counts.items()}


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
    if status["last_decisions"]:
        console.print("Last decisions:")
        for entry in status["last_decisions"]:
            failure = f" FAILED: {entry['failure']}" if entry["failure"] else ""
            console.print(f"  {_at(entry)} {entry['kind']}: {entry['text']}{failure}", highlight=False)
    if status["last_turns"]:
        console.print("Last seconds of the law:")
        for turn in status["last_turns"]:
            console.print(f"  {_at(turn)} {turn['text']}", highlight=False)


def _at(entry: Mapping[str, Any]) -> str:
    return datetime.fromtimestamp(entry["at_ms"] / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _rate(bytes_per_s: float | None) -> str:
    return "–" if bytes_per_s is None else f"{bytes_per_s / MB:.1f} MB/s"
