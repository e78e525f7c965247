"""Describes the cordons of brokers for the API, the page and `rheostat status`: what is cordoned, and whose cordon it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from streaming.shared.cordons import BrokerCordon, CordonSource
from streaming.shared.kafka_names import ALL_LOG_DIRS
from streaming.shared.short_lists import join_names
from tuner.control.cordon.model import CordonMemory

_NAMED_MAX = 3
_OWNERS = {
    CordonSource.BROKER: "another tool",
    CordonSource.CLUSTER_DEFAULT: "another tool, for all brokers",
    CordonSource.FILE: "the broker's properties file",
}


def cordon_rows(brokers: Mapping[int, BrokerCordon], memory: CordonMemory) -> list[dict[str, Any]]:
    """Returns a row for each broker with cordoned log directories, as JSON values."""
    rows = []
    for broker, cordon in sorted(brokers.items()):
        if not cordon.cordoned:
            continue
        owned = memory.owned.get(broker)
        managed = [entry for entry in cordon.entries if owned is not None and entry in owned.directories]
        others = [entry for entry in cordon.entries if entry not in managed]
        rows.append(
            {
                "broker": broker,
                "whole_broker": cordon.is_broker_cordoned,
                "directories": list(cordon.cordoned),
                "managed": managed,
                "plan": owned.plan if owned is not None and managed else None,
                "externally_owned": others,
                "source": None if cordon.source is None else cordon.source.value,
                "text": _text(broker, cordon, managed, others, owned.plan if owned is not None else ""),
            }
        )
    return rows


def count_by_owner(brokers: Mapping[int, BrokerCordon], memory: CordonMemory) -> dict[tuple[int, str], int]:
    """Returns the numbers of cordoned log directories by broker and owner: "rheostat" or "external"."""
    counts: Counter[tuple[int, str]] = Counter()
    for broker, cordon in sorted(brokers.items()):
        owned = memory.owned.get(broker)
        managed = {*owned.directories}.intersection(cordon.entries) if owned is not None else set()
        for directory in cordon.cordoned:
            is_managed = directory in managed or ALL_LOG_DIRS in managed
            counts[broker, "rheostat" if is_managed else "external"] += 1
    return dict(counts)


def cordon_line(row: Mapping[str, Any]) -> str:
    """Returns a sentence about the cordons of one broker, from its row of ``cordon_rows``."""
    return str(row["text"])


def _text(broker: int, cordon: BrokerCordon, managed: list[str], others: list[str], plan: str) -> str:
    what = (
        f"Broker {broker} is cordoned" if cordon.is_broker_cordoned else f"Broker {broker} has cordoned log directories"
    )
    owner = _OWNERS[cordon.source] if cordon.source is not None else "another tool"
    parts = []
    if managed:
        parts.append(f"{_names(managed)} by rheostat for plan {plan}")
    if others:
        parts.append(f"{_names(others)} by {'another tool' if managed else owner}")
    return f"{what}: {'; '.join(parts)}."


def _names(directories: Iterable[str]) -> str:
    return join_names(("all directories" if name == "*" else name for name in directories), _NAMED_MAX)
