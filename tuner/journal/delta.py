"""Computes the differences between two long values that are mostly equal: sequences, move signals and tenant signals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import is_
from typing import Any

from streaming.shared.contract import MoveSignal, MoveStep, TenantSignal
from tuner.core.cluster import BrokerSide
from tuner.journal.type_codec import SignalWithoutName, SignalWithoutSteps

_RUN_LENGTH = 256
# By side: how many of the previous signal's last steps stay, the steps that follow them, and the signal without its steps.
MoveSignalDeltas = Mapping[BrokerSide, tuple[int, tuple[MoveStep, ...], SignalWithoutSteps]]
TenantKey = tuple[int, str | None, str | None]  # Controller node, user, client-id.
TenantDeltas = Mapping[int, SignalWithoutName]  # By position among the tenants of the previous signals.


def diff_sequence(before: Sequence[Any], after: Sequence[Any]) -> tuple[list[int], list[tuple[int, Any]]]:
    """Returns the indexes that ``before`` loses, and the (index, item) pairs that ``after`` gains, both in order.

    Items are compared by identity. Both sequences are walked side by side.
    """
    ids_after = set(map(id, after))
    removed: list[int] = []
    inserted: list[tuple[int, Any]] = []
    i = j = 0
    while i < len(before) or j < len(after):
        # Most runs are equal: skip a whole run with one comparison.
        while len(run := before[i : i + _RUN_LENGTH]) > 0 and _is_same(run, after[j : j + _RUN_LENGTH]):
            i, j = i + len(run), j + len(run)
        # After a difference, compare about one run item by item.
        for _ in range(_RUN_LENGTH):
            if i < len(before) and j < len(after) and before[i] is after[j]:
                i, j = i + 1, j + 1
            elif i < len(before) and (j == len(after) or id(before[i]) not in ids_after):
                removed.append(i)
                i += 1
            elif j < len(after):
                inserted.append((j, after[j]))
                j += 1
            else:
                break
    return removed, inserted


def _is_same(left: Sequence[Any], right: Sequence[Any]) -> bool:
    return len(left) == len(right) and all(map(is_, left, right))


def diff_move_signals(
    before: Mapping[BrokerSide, MoveSignal], changed: Mapping[BrokerSide, MoveSignal]
) -> MoveSignalDeltas:
    """Returns the changed signals without the steps that they share with their predecessors.

    A move signal holds the last steps of its move. The next signal has the same steps without the oldest one, and one new step.
    """
    deltas: dict[BrokerSide, tuple[int, tuple[MoveStep, ...], SignalWithoutSteps]] = {}
    for side, signal in changed.items():
        old, steps = before.get(side), signal.steps
        kept = len(steps) - 1
        if old is None or kept <= 0 or steps[:kept] != old.steps[-kept:]:
            kept = 0
        deltas[side] = (kept, steps[kept:], SignalWithoutSteps(signal))
    return deltas


def restore_move_signals(
    before: Mapping[BrokerSide, MoveSignal], deltas: MoveSignalDeltas
) -> dict[BrokerSide, MoveSignal]:
    """Returns the signals that ``diff_move_signals`` was given."""
    return {
        side: replace(signal, steps=(*before[side].steps[-kept:], *steps) if kept else steps)
        for side, (kept, steps, signal) in deltas.items()
    }


def diff_tenants(
    before: Mapping[TenantKey, TenantSignal], after: Mapping[TenantKey, TenantSignal]
) -> tuple[list[TenantKey], dict[int, SignalWithoutName], dict[TenantKey, TenantSignal]] | None:
    """Returns the tenants that are gone, the changed signals by position among the remaining tenants, and the new tenants.

    A position identifies a tenant as well as its name does, and the name is most of a tenant signal's size. Returns None if the
    remaining tenants are in another order, because positions cannot describe that change.
    """
    remaining = [key for key in before if key in after]
    added = {key: signal for key, signal in after.items() if key not in before}
    if [*remaining, *added] != list(after):
        return None
    gone = [key for key in before if key not in after] if len(remaining) < len(before) else []
    updated = {
        position: SignalWithoutName(after[key])
        for position, key in enumerate(remaining)
        if after[key] is not before[key]
    }
    return gone, updated, added


def restore_tenants(before: Mapping[TenantKey, TenantSignal], deltas: TenantDeltas) -> dict[TenantKey, TenantSignal]:
    """Returns the updated signals of ``diff_tenants`` with their names."""
    keys = list(before)
    signals: dict[TenantKey, TenantSignal] = {}
    for position, signal in deltas.items():
        node, user, client_id = keys[position]
        signals[keys[position]] = replace(signal, node=node, user=user, client_id=client_id)
    return signals
