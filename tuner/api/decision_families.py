"""Prometheus metric families of decisions and their outcomes, and of operator orders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import Metric

from streaming.shared.contract import Side
from streaming.shared.metric_defs import TunerMetric
from streaming.shared.metric_page import Labels, metric_family
from tuner.api.series_limit import SERIES_MAX
from tuner.api.status_store import CycleResult
from tuner.control.throttle.decision import (
    NOT_THROTTLE_LIMITED,
    AddPairs,
    ClearLists,
    Decision,
    Reason,
    RemovePairs,
    action_of,
)
from tuner.core.cluster import BrokerSide
from tuner.core.operator_orders import Orders

# Reasons that need an operator: inputs are missing, or changing the throttle cannot help.
NEEDS_ATTENTION = frozenset(
    {
        Reason.SETTINGS_UNREADABLE,
        Reason.SIGNALS_MISSING,
        Reason.SIGNALS_STALE,
        Reason.SIGNALS_CONTRADICT,
        Reason.NO_LEADER,
        Reason.LIST_FULL,
        Reason.BROKER_DOWN,
        Reason.INFEASIBLE,
        Reason.NO_HEADROOM,
        Reason.DEADLINE_NOT_MET,
        Reason.LOAD_NOT_MEASURED,
        *NOT_THROTTLE_LIMITED,
    }
)


def decision_families(snapshot: CycleResult, now_ms: int, c: Labels) -> Iterator[Metric]:
    yield metric_family(TunerMetric.DECISIONS, {(*c, *key): float(n) for key, n in snapshot.decisions.items()})
    yield metric_family(TunerMetric.ACTUATIONS, {c: float(snapshot.actuations)})
    yield metric_family(TunerMetric.ACTUATION_FAILURES, {c: float(snapshot.failures)})
    yield metric_family(TunerMetric.THROTTLES_OWNED, {c: float(len(snapshot.memory.owned))})
    newest = last_decision_by_side(snapshot.decided)
    counted = Counter((action_of(decision), decision.reason.value) for decision in newest.values())
    yield metric_family(TunerMetric.SIDES, {(*c, *key): float(n) for key, n in counted.items()})
    attention = sorted((side, d.reason.value) for side, d in newest.items() if d.reason in NEEDS_ATTENTION)
    yield metric_family(
        TunerMetric.NEEDS_ATTENTION,
        {(*c, str(broker), side.value, reason): 1.0 for (broker, side), reason in attention[:SERIES_MAX]},
    )
    yield from _orders(snapshot, now_ms, c)


def last_decision_by_side(decided: tuple[Decision, ...]) -> dict[BrokerSide, Decision]:
    """Returns the last decision of the cycle about each side."""
    decisions: dict[BrokerSide, Decision] = {}
    for decision in decided:
        if isinstance(decision, ClearLists | AddPairs | RemovePairs):
            continue
        if decision.broker is not None and decision.side is not None:
            decisions[(decision.broker, decision.side)] = decision
    return decisions


def _orders(snapshot: CycleResult, now_ms: int, c: Labels) -> Iterator[Metric]:
    orders = snapshot.observation.orders if snapshot.observation is not None else Orders()
    yield metric_family(TunerMetric.PAUSED, {c: float(orders.pause is not None)})
    yield metric_family(TunerMetric.RELEASED, {c: float(orders.pause is not None and orders.pause.released)})
    active = {_labels(c, side): order for side, order in orders.overrides.items() if order.until_ms > now_ms}
    yield metric_family(TunerMetric.OVERRIDE_UNTIL, {side: order.until_ms / 1000 for side, order in active.items()})
    yield metric_family(TunerMetric.OVERRIDE_RATE, {side: float(order.bytes_per_s) for side, order in active.items()})
    owned_until_ms = snapshot.memory.externally_owned_until_ms
    yield metric_family(
        TunerMetric.EXTERNAL_CHANGE_HOLD_UNTIL,
        {_labels(c, side): until / 1000 for side, until in owned_until_ms.items() if until > now_ms},
    )


def _labels(c: Labels, side: tuple[int, Side]) -> Labels:
    return (*c, str(side[0]), side[1].value)
