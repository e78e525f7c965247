"""Describes the changes of operator orders since the last record, in sentences for the journal and the log.

The tuner reads orders as a state. The difference between two states tells which order an operator has given or withdrawn, and which
order has expired. No decision depends on the sentences.
"""

from __future__ import annotations

from typing import NamedTuple

from streaming.shared.contract import Side
from streaming.shared.short_lists import join_names
from streaming.shared.units import rate_text
from tuner.core.cluster import BrokerSide, side_name
from tuner.core.operator_orders import ClearedThrottles, Orders, Override, QuotaTrial, QuotaTrialKind

_CLEARED_NAMED_MAX = 20


class OrderEvent(NamedTuple):
    """One change of the orders, as a sentence; with broker and side if it concerns one throttle."""

    text: str
    broker: int | None = None
    side: Side | None = None


def list_order_events(before: Orders, after: Orders, recorded_ms: int, now_ms: int) -> list[OrderEvent]:
    """Returns the events between two states of the orders, in order; empty if they are equal.

    Args:
        recorded_ms: the time of the last record. An override that expired earlier has its event already.
    """
    if before == after:
        return []
    by = after.by or "an operator"
    events = []
    if after.pause is not None and after.pause != before.pause:
        what = "rheostat releases all managed settings" if after.pause.released else "rheostat is paused"
        events.append(OrderEvent(f"{what}, by order of {after.pause.by}"))
    elif before.pause is not None and after.pause is None:
        events.append(OrderEvent(f"rheostat resumes, by order of {by}: the pause of {before.pause.by} is over"))
    elif after.resumed_at_ms > before.resumed_at_ms:
        events.append(
            OrderEvent(f"rheostat again manages the throttles that other tools had changed, by order of {by}")
        )
    if after.cleared is not None and after.cleared != before.cleared:
        events.append(OrderEvent(_cleared_text(after.cleared)))
    events += [
        OrderEvent(_trial_text(trial, before.trials.get(kind)))
        for kind, trial in sorted(after.trials.items())
        if trial != before.trials.get(kind)
    ]
    for side in sorted({*before.overrides, *after.overrides}):
        old, new = before.overrides.get(side), after.overrides.get(side)
        if new is not None and new != old:
            events.append(_side_event(side, f"{rate_text(new.bytes_per_s)} by order of {new.by}"))
        elif new is None and old is not None and old.until_ms > now_ms:
            events.append(_side_event(side, f"{_order_text(old)} is withdrawn, by order of {by}"))
        elif new is None and old is not None and old.until_ms > recorded_ms:
            events.append(_expiry_event(side, old))
    return events


def _trial_text(trial: QuotaTrial, before: QuotaTrial | None) -> str:
    is_end = before is not None and before.at_ms == trial.at_ms
    match trial.kind, is_end:
        case QuotaTrialKind.CALIBRATE, False:
            text = "began to create and delete temporary topics, to measure the controller"
        case QuotaTrialKind.CALIBRATE, True:
            found = "no rate" if trial.total_per_s is None else f"a total of {trial.total_per_s:g} partitions/s"
            text = f"ended the measurement of the controller and found {found}"
        case QuotaTrialKind.MEASURE, False:
            text = "set an unlimited mutation quota for a while, so that Kafka counts the mutations of each tenant"
        case _:
            text = "removed the unlimited mutation quota again"
    return f"{trial.by} {text} (`rheostat quotas {trial.kind}`)"


def _cleared_text(cleared: ClearedThrottles) -> str:
    names = join_names(cleared.settings, _CLEARED_NAMED_MAX)
    return f"{cleared.by} removed throttles that no move and no recovery used (`rheostat throttles clear`): {names}"


def list_expired_orders(orders: Orders, recorded_ms: int, now_ms: int) -> list[OrderEvent]:
    """Returns an event for each override that has expired since ``recorded_ms``."""
    return [
        _expiry_event(side, order)
        for side, order in sorted(orders.overrides.items())
        if recorded_ms < order.until_ms <= now_ms
    ]


def _expiry_event(side: BrokerSide, order: Override) -> OrderEvent:
    return _side_event(side, f"{_order_text(order)} has expired")


def _order_text(order: Override) -> str:
    return f"the order of {order.by} for {rate_text(order.bytes_per_s)}"


def _side_event(side: BrokerSide, text: str) -> OrderEvent:
    return OrderEvent(f"{side_name(side)}: {text}", *side)
