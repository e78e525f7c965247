"""Invariants that hold after any fault, checked against the live cluster at the end (docs/explanation/architecture.md, Guarantees).

1 leave no trace      the settings of brokers and topics are those from before, except for changes by operators
2 yield to people     a value that an operator set over a managed one was never overwritten
3 stay inside         no rate was above the ceiling or below the minimum, except rates that operators set; and no throttle
                      was missing while a list still named its replicas
4 one hand            of all tuners only the newest holder of the lease changed anything
5 no news             no rate rose while signals were stale
6 write before acting every observed rate was recorded as managed before it was observed
  data                every acknowledged record can be read

Each check returns one sentence for each violation, and an empty list if there is none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any

from reading import Record
from watcher import Look

from tuner.core.cluster import BrokerSide, side_name
from tuner.journal.entries import decode_memory, decode_owned, holder_key, memory_key, owned_prefix

Configs = Mapping[tuple[str, str], Mapping[str, str]]  # (kind, name) → what is set there.

# Whoever looks and whoever records have the same clock here, but a look takes some milliseconds.
_CLOCK_MS = 5


@dataclass
class OperatorActions:
    """The operator's changes during a test: rates that were set, and throttles that were removed."""

    stood: set[int] = field(default_factory=set)  # Rates that people had set, at any time.
    final: dict[BrokerSide, tuple[float, int]] = field(default_factory=dict)  # Set over ours at (monotonic), to stay.
    removed: set[BrokerSide] = field(default_factory=set)
    removed_all: bool = False


def setting_differences(before: Configs, now: Configs) -> list[str]:
    found = []
    for key in sorted(before.keys() | now.keys()):
        was, stands = before.get(key, {}), now.get(key, {})
        for name in sorted(was.keys() | stands.keys()):
            if was.get(name) != stands.get(name):
                found.append(f"{key[0]} {key[1]}: {name} was {was.get(name)}, now it is {stands.get(name)}")
    return found


def overwritten_operator_rates(looks: Sequence[Look], people: OperatorActions) -> list[str]:
    found = []
    for side, (since_s, value) in people.final.items():
        first = next((i for i, look in enumerate(looks) if look.at_s > since_s and look.rates.get(side) == value), None)
        if first is None:
            found.append(f"{side_name(side)}: {value}, which a person set, was never seen")
            continue
        others = {look.rates[side] for look in looks[first:] if side in look.rates} - {value}
        if others:
            found.append(f"{side_name(side)}: a person set {value}, later {sorted(map(str, others))} stood there")
    return found


def rates_outside_limits(looks: Sequence[Look], people: OperatorActions, floor: int, ceiling: int) -> list[str]:
    found = set()
    for look in looks:
        for side, value in look.rates.items():
            if value is not None and value not in people.stood and not floor <= value <= ceiling:
                found.add(f"{side_name(side)}: {value} stood there, outside {floor} to {ceiling}")
    throttled: set[BrokerSide] = set()
    for look in looks:
        throttled |= {side for side, value in look.rates.items() if value is not None}
        for side in throttled & look.rates.keys():
            unlimited = look.moving and side[1] in look.listed and look.rates[side] is None
            if unlimited and side not in people.removed and not people.removed_all:
                found.add(f"{side_name(side)}: unlimited while its topic's list still counts replicas against it")
    return sorted(found)


def writes_without_lease(trace: Iterable[Mapping[str, Any]], records: Iterable[Record], cluster: str) -> list[str]:
    """Returns writes of a tuner without the lease, and differences between lease changes and the journal."""
    found: list[str] = []
    pids: list[int] = []
    for line in sorted(trace, key=lambda line: float(line["at_s"])):
        if line.get("done") == "commit holder" and pids[-1:] != [line["pid"]]:
            pids.append(line["pid"])
        elif line.get("step", "").startswith("alter") and pids[-1:] != [line["pid"]]:
            found.append(f"process {line['pid']} did '{line['step']}' while {pids[-1:] or 'nobody'} had the journal")
    named = [
        int(json.loads(r.value)["holder"].rpartition(":")[2])
        for r in records
        if r.key == holder_key(cluster) and r.value
    ]
    in_turn = [pid for pid, _ in groupby(named)]
    if in_turn != pids:
        found.append(f"the journal was held by {in_turn}, and taken over by {pids}")
    return found


def raises_with_stale_signals(
    looks: Sequence[Look], stale: Iterable[tuple[float, float]], age_s_max: float
) -> list[str]:
    """Returns rates that rose while signals were too old.

    Args:
        stale: spans without fresh signals, each from the last fresh one.
        age_s_max: at this age rates must no longer rise.
    """
    found = []
    for since_s, until_s in stale:
        within = [look for look in looks if since_s + age_s_max <= look.at_s <= until_s]
        for old, new in pairwise(within):
            for side in old.rates.keys() & new.rates.keys():
                was, stands = old.rates[side], new.rates[side]
                if was is not None and (stands is None or stands > was):
                    age_s = new.at_s - since_s
                    found.append(f"{side_name(side)}: from {was} to {stands}, with signals {age_s:.0f} s old")
    return found


def rates_without_record(
    looks: Sequence[Look], records: Iterable[Record], cluster: str, people: OperatorActions
) -> list[str]:
    """Returns rates that were observed before they were recorded, by the clock of the journal's broker."""
    recorded_ms: dict[tuple[BrokerSide, int], int] = {}
    for record in records:
        try:
            if record.value and record.key == memory_key(cluster):
                owned = dict(decode_memory(record.value).owned)
            elif record.value and record.key.startswith(owned_prefix(cluster)):
                owned = dict([decode_owned(record.value)])
            else:
                continue
        except ValueError:
            continue  # Of a client that is none of ours.
        for side, ours in owned.items():
            for rate in ours.possible_rates:
                if rate is not None:
                    recorded_ms.setdefault((side, rate), record.at_ms)
    found, seen = [], set()
    for look in looks:
        for side, rate in look.rates.items():
            if rate is None or rate in people.stood or (side, rate) in seen:
                continue
            seen.add((side, rate))
            at_ms = recorded_ms.get((side, rate))
            if at_ms is None or at_ms > look.at_ms + _CLOCK_MS:
                when = "never" if at_ms is None else f"{at_ms - look.at_ms} ms later"
                found.append(f"{side_name(side)}: {rate} stood there, and went on record {when}")
    return found
