"""Prometheus metric families of decisions and their outcomes, and of operator orders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import Metric

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
        Reason.QUOTA_WINDOW_UNSUPPORTED,
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


def decision_families(result: CycleResult, now_ms: int, labels: Labels) -> Iterator[Metric]:
    yield metric_family(TunerMetric.DECISIONS, {(*labels, *key): float(n) for key, n in result.decision_counts.items()})
    yield metric_family(TunerMetric.ACTUATIONS, {labels: float(result.actuations)})
    yield metric_family(TunerMetric.ACTUATION_FAILURES, {labels: float(result.failures)})
    yield metric_family(TunerMetric.THROTTLES_OWNED, {labels: float(len(result.memory.owned))})
    last_decisions = last_decision_by_side(result.cycle_decisions)
    counts = Counter((action_of(decision), decision.reason.value) for decision in last_decisions.values())
    yield metric_family(TunerMetric.SIDES, {(*labels, *key): float(n) for key, n in counts.items()})
    needing_attention = sorted(
        (side, d.reason.value) for side, d in last_decisions.items() if d.reason in NEEDS_ATTENTION
    )
    yield metric_family(
        TunerMetric.NEEDS_ATTENTION,
        {(*labels, str(broker), side.value, reason): 1.0 for (broker, side), reason in needing_attention[:SERIES_MAX]},
    )
    yield from _order_families(result, now_ms, labels)


def last_decision_by_side(decisions: tuple[Decision, ...]) -> dict[BrokerSide, Decision]:
    """Returns the last decision of the cycle about each side."""
    by_side: dict[BrokerSide, Decision] = {}
    for decision in decisions:
        if isinstance(decision, ClearLists | AddPairs | RemovePairs):
            continue
        if decision.broker is not None and decision.side is not None:
            by_side[(decision.broker, decision.side)] = decision
    return by_side


def _order_families(result: CycleResult, now_ms: int, labels: Labels) -> Iterator[Metric]:
    orders = result.observation.orders if result.observation is not None else Orders()
    yield metric_family(TunerMetric.PAUSED, {labels: float(orders.pause is not None)})
    yield metric_family(TunerMetric.RELEASED, {labels: float(orders.pause is not None and orders.pause.released)})
    overrides = {side: order for side, order in orders.overrides.items() if order.until_ms > now_ms}
    yield metric_family(
        TunerMetric.OVERRIDE_UNTIL, {side_labels(labels, side): o.until_ms / 1000 for side, o in overrides.items()}
    )
    yield metric_family(
        TunerMetric.OVERRIDE_RATE, {side_labels(labels, side): float(o.bytes_per_s) for side, o in overrides.items()}
    )
    owned_until_ms = result.memory.externally_owned_until_ms
    yield metric_family(
        TunerMetric.EXTERNAL_CHANGE_HOLD_UNTIL,
        {side_labels(labels, side): until / 1000 for side, until in owned_until_ms.items() if until > now_ms},
    )


def side_labels(labels: Labels, side: BrokerSide) -> Labels:
    """Returns the labels with the broker and the side appended."""
    return (*labels, str(side[0]), side[1].value)
