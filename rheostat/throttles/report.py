"""Builds the report of `rheostat throttles`: each throttle with its owner, its age, its traffic, and how to remove it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from streaming.shared.contract import Side
from streaming.shared.kafka_names import LOG_DIR_RATE
from streaming.shared.throttle_settings import LIST_KEYS, RATE_KEYS
from streaming.shared.units import rate_text
from tuner.api.decisions import throttles_of
from tuner.control.throttle.audit import (
    AuditedList,
    AuditedLogDirRate,
    AuditedRate,
    RateSource,
    Serves,
    ThrottleSettings,
    audit_lists,
    audit_log_dir_rates,
    audit_rates,
)
from tuner.control.throttle.state import Memory
from tuner.core.operator_orders import Orders
from tuner.journal.entries import Entry

# Actions of journal entries after which a throttle has another value or another owner.
_LOG_DIR_CHANGES = frozenset({"set_log_dir", "restore_log_dir", "relinquish_log_dir"})
_CHANGES = _LOG_DIR_CHANGES | {"set", "start", "restore", "relinquish", "add_pairs", "remove_pairs"}
_CLEAR = "rheostat throttles clear"

Traffic = Mapping[tuple[int, Side | None], float]  # Bytes/s by broker and side; side None: between log directories.


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One throttle.

    Attributes:
        setting: Kafka's name of the setting.
        broker: the broker of a rate; None for a list, or for the cluster-wide default.
        topic: the topic of a list.
        side: leader or follower; None for the limit of copies between log directories.
        rate_bytes_per_s: the rate; None for a list.
        replicas: the number of listed replicas; None for a rate, or for a list of all replicas ("*").
        owner: the origin of its value: "rheostat", "operator" (an override), "other" (another tool or an operator), "broker file".
        serves: "moves", "recovery" (a replica that catches up), "absent" (a replica whose broker or disk is offline) or "nothing".
        since_ms: when the throttle was set or last changed, epoch ms; None if unknown.
        since_is_exact: whether ``since_ms`` is exact. If False, the throttle may be older.
        passing_bytes_per_s: the traffic that counts against a rate; None if not measured, or a list.
        removal: how to remove the throttle, or when it is removed.
    """

    kind: str
    setting: str
    broker: int | None
    topic: str | None
    side: str | None
    rate_bytes_per_s: int | None
    replicas: int | None
    owner: str
    serves: str
    since_ms: int | None
    since_is_exact: bool
    passing_bytes_per_s: float | None
    removal: str
    can_be_cleared: bool

    @property
    def name(self) -> str:
        if self.topic is not None:
            return f"topic {self.topic} {self.side} list"
        where = "all brokers" if self.broker is None else f"broker {self.broker}"
        return f"{where} {self.side or 'log directory'} throttle"

    @property
    def value_text(self) -> str:
        if self.rate_bytes_per_s is not None:
            return rate_text(self.rate_bytes_per_s)
        if self.replicas is None:
            return "all replicas"
        return f"{self.replicas} replica{'s' if self.replicas != 1 else ''}"


@dataclass(frozen=True, slots=True)
class ThrottleHistory:
    """The state and the orders of rheostat that concern throttles, besides the values in Kafka.

    Attributes:
        entries: the newest journal entries, oldest first.
        managed_log_dirs: brokers whose limit of copies between log directories rheostat manages.
    """

    memory: Memory
    orders: Orders
    entries: tuple[Entry, ...] = ()
    managed_log_dirs: frozenset[int] = frozenset()


def throttle_rows(
    settings: ThrottleSettings, history: ThrottleHistory, traffic: Traffic, now_ms: int
) -> list[AuditRow]:
    """Returns all throttles: first rates, then lists, then the limits of copies between log directories.

    Args:
        traffic: bytes/s that count against each rate.
    """
    changed_ms = _last_changes(history.entries)
    rates = [_rate_row(rate, history, changed_ms, traffic, now_ms) for rate in audit_rates(settings, history.memory)]
    lists = [_list_row(replicas, history, changed_ms) for replicas in audit_lists(settings, history.memory)]
    disks = [
        _log_dir_row(rate, changed_ms, traffic) for rate in audit_log_dir_rates(settings, history.managed_log_dirs)
    ]
    return rates + lists + disks


def report_json(cluster: str, rows: Iterable[AuditRow], now_ms: int) -> dict[str, Any]:
    return {"cluster": cluster, "now_ms": now_ms, "throttles": [asdict(row) for row in rows]}


def _rate_row(
    rate: AuditedRate,
    history: ThrottleHistory,
    changed_ms: Mapping[object, int],
    traffic: Traffic,
    now_ms: int,
) -> AuditRow:
    side = None if rate.broker is None else (rate.broker, rate.side)  # None means the cluster-wide default.
    owner, key = _rate_owner(rate, history.orders, now_ms), RATE_KEYS[rate.side]
    idle = history.memory.idle_rates_since.get(side) if side is not None else None
    idle_since_ms = idle.since_ms if idle is not None and idle.bytes_per_s == rate.bytes_per_s else None
    since_ms, is_exact = _since(idle_since_ms, changed_ms.get(side))
    return AuditRow(
        kind="rate",
        setting=key,
        broker=rate.broker,
        topic=None,
        side=rate.side.value,
        rate_bytes_per_s=rate.bytes_per_s,
        replicas=None,
        owner=owner,
        serves=rate.serves.value,
        since_ms=since_ms,
        since_is_exact=is_exact,
        passing_bytes_per_s=traffic.get(side) if side is not None else None,
        removal=_removal(owner, rate.serves, key, rate.broker),
        can_be_cleared=owner == "other" and rate.serves is Serves.NOTHING,
    )


def _rate_owner(rate: AuditedRate, orders: Orders, now_ms: int) -> str:
    override = orders.overrides.get((rate.broker, rate.side)) if rate.broker is not None else None
    if override is not None and now_ms < override.until_ms:
        return "operator"
    if rate.managed:
        return "rheostat"
    return "broker file" if rate.source is RateSource.FILE else "other"


def _list_row(audited: AuditedList, history: ThrottleHistory, changed_ms: Mapping[object, int]) -> AuditRow:
    owner, key, topic = "rheostat" if audited.managed else "other", LIST_KEYS[audited.side], audited.topic
    since_ms, is_exact = _since(history.memory.idle_lists_since_ms.get(topic), changed_ms.get(topic))
    return AuditRow(
        kind="list",
        setting=key,
        broker=None,
        topic=topic,
        side=audited.side.value,
        rate_bytes_per_s=None,
        replicas=None if audited.replicas.all_replicas else len(audited.replicas.pairs),
        owner=owner,
        serves=audited.serves.value,
        since_ms=since_ms,
        since_is_exact=is_exact,
        passing_bytes_per_s=None,
        removal=_removal(owner, audited.serves, key, None, topic),
        # A list that rheostat manages in part stays.
        can_be_cleared=owner == "other" and audited.managed_entries == 0 and audited.serves is Serves.NOTHING,
    )


def _log_dir_row(rate: AuditedLogDirRate, changed_ms: Mapping[object, int], traffic: Traffic) -> AuditRow:
    owner = "broker file" if rate.source is RateSource.FILE else "other"
    if rate.managed:
        owner = "rheostat"
    since_ms, is_exact = _since(None, changed_ms.get((rate.broker, None)))
    return AuditRow(
        kind="log_dir_rate",
        setting=LOG_DIR_RATE,
        broker=rate.broker,
        topic=None,
        side=None,
        rate_bytes_per_s=rate.bytes_per_s,
        replicas=None,
        owner=owner,
        serves=rate.serves.value,
        since_ms=since_ms,
        since_is_exact=is_exact,
        passing_bytes_per_s=traffic.get((rate.broker, None)) if rate.broker is not None else None,
        removal=_removal(owner, rate.serves, LOG_DIR_RATE, rate.broker),
        can_be_cleared=owner == "other" and rate.serves is Serves.NOTHING,
    )


def _removal(owner: str, serves: Serves, key: str, broker: int | None, topic: str | None = None) -> str:
    """Returns how to remove a throttle, or when rheostat removes it."""
    if owner == "broker file":
        return f"remove {key} from server.properties of broker {broker}, and restart the broker"
    if owner == "operator":
        return "it ends with the override, or with `rheostat override --clear`"
    if owner == "rheostat":
        return "rheostat restores the earlier value when the move has ended; `rheostat release` does it now"
    if serves is Serves.MOVES:
        return "wait until the move has ended"
    if serves is Serves.RECOVERY:
        return f"wait until the replica is in sync; to let it catch up faster: `{_delete_command(key, broker, topic)}`"
    if serves is Serves.ABSENT:
        command = _delete_command(key, broker, topic)
        return (
            f"wait until the broker is back and its replicas are in sync; to let them catch up without it: `{command}`"
        )
    return f"`{_CLEAR}`"


def _delete_command(key: str, broker: int | None, topic: str | None) -> str:
    """Returns the command of Kafka that removes a setting of a topic, of a broker, or of all brokers."""
    entity = "--entity-type brokers --entity-default"
    if topic is not None:
        entity = f"--entity-type topics --entity-name {shlex.quote(topic)}"
    elif broker is not None:
        entity = f"--entity-type brokers --entity-name {broker}"
    return f"kafka-configs --bootstrap-server $BOOTSTRAP --alter {entity} --delete-config {key}"


def _last_changes(entries: Iterable[Entry]) -> dict[object, int]:
    """Returns the time (epoch ms) of the last recorded change: by side for rates, by topic for lists.

    The key of a limit of copies between log directories is the broker with None as its side.
    """
    changed_ms: dict[object, int] = {}
    for entry in entries:
        if entry.dry_run or entry.failure is not None or entry.action not in _CHANGES:
            continue
        for broker, side in throttles_of(entry):
            if broker is not None and side is not None:
                changed_ms[broker, Side(side)] = entry.at_ms
            elif broker is not None and entry.action in _LOG_DIR_CHANGES:
                changed_ms[broker, None] = entry.at_ms
        for topic, *_ in entry.decision.get("topics", ()):
            changed_ms[topic] = entry.at_ms
    return changed_ms


def _since(idle_since_ms: int | None, recorded_ms: int | None) -> tuple[int | None, bool]:
    """Returns when a throttle was last changed (epoch ms), and whether this time is exact.

    Args:
        idle_since_ms: the first idle cycle in which a tuner saw the throttle; the throttle may be older.
        recorded_ms: the throttle's last change in the journal.
    """
    if recorded_ms is not None and recorded_ms >= (idle_since_ms or 0):
        return recorded_ms, True
    return idle_since_ms, False
