"""Brokers for JSON and for the page: each with its two throttles, their traffic, steady-state replication, and the reason.

Invariants: a value that was not measured is None, never 0; all values of a response come from one cycle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streaming.shared.contract import BrokerSignal, Side
from tuner.api.latency_limits import latency_limit_json, link_limit_json
from tuner.api.min_rate import current_min_rate_bytes_per_s
from tuner.api.status_snapshot import StatusSnapshot
from tuner.core.cluster import BrokerSide
from tuner.core.freshness import age_s


def brokers_json(snapshot: StatusSnapshot, brokers: Sequence[int]) -> list[dict[str, Any]]:
    result, observation = snapshot.cycle.result, snapshot.observation
    signals = observation.broker_signals if observation is not None else {}
    now_ms = observation.now_ms if observation is not None else 0
    rows = []
    for broker in brokers:
        signal = signals.get(broker)
        rows.append(
            {
                "broker": broker,
                "alive": result.live is not None and broker in result.live.brokers,
                "sides": [_side(snapshot, (broker, side), signal, now_ms) for side in Side],
                "produce_p99_ms": signal.produce_p99_ms if signal is not None else None,
                "latency_limit": latency_limit_json(snapshot.latency_limits.get(broker)),
                "link_limit": link_limit_json(broker, observation),
                "client_in_bytes_per_s": signal.client_in_bytes_per_s if signal is not None else None,
                "client_out_bytes_per_s": signal.client_out_bytes_per_s if signal is not None else None,
                "under_min_isr_partitions": signal.under_min_isr_partitions if signal is not None else None,
                "completeness": signal.completeness if signal is not None else None,
                "age_s": age_s(signal, now_ms) if signal is not None else None,
                "sampled_at_ms": signal.sampled_at_ms if signal is not None else None,
            }
        )
    return rows


def broker_json(snapshot: StatusSnapshot, broker: int) -> dict[str, Any]:
    """Returns one broker, with the bytes that each side still has to copy."""
    remaining = {
        side.value: load.remaining_bytes if (load := snapshot.loads.get((broker, side))) is not None else None
        for side in Side
    }
    return {**brokers_json(snapshot, [broker])[0], "remaining_bytes": remaining}


def _side(snapshot: StatusSnapshot, side: BrokerSide, signal: BrokerSignal | None, now_ms: int) -> dict[str, Any]:
    result, observation = snapshot.cycle.result, snapshot.observation
    setting, load, decision = snapshot.rates.get(side), snapshot.loads.get(side), snapshot.last_decisions.get(side)
    setpoint = observation.setpoints.get(side) if observation is not None else None
    externally_owned_until_ms = result.memory.externally_owned_until_ms.get(side)
    order = snapshot.orders.overrides.get(side)
    throttled = None
    if signal is not None:
        leads = side[1] is Side.LEADER
        throttled = signal.leader_throttled_bytes_per_s if leads else signal.follower_throttled_bytes_per_s
    return {
        "side": side[1].value,
        "current_rate_bytes_per_s": setting.bytes_per_s if setting is not None else None,
        "setpoint_bytes_per_s": result.setpoints.get(side),
        "throttled_bytes_per_s": throttled,
        "throttled_by": signal.throttled_by if signal is not None else None,
        "steady_state_bytes_per_s": load.steady_state_bytes_per_s if load is not None else None,
        "min_rate_bytes_per_s": current_min_rate_bytes_per_s(load.steady_state_bytes_per_s, setpoint, result.limits)
        if load is not None
        else None,
        "managed": side in result.memory.owned,
        "externally_owned_until_ms": externally_owned_until_ms
        if externally_owned_until_ms is not None and externally_owned_until_ms > now_ms
        else None,
        "overridden_until_ms": order.until_ms if order is not None and order.until_ms > now_ms else None,
        "infeasible": side in snapshot.infeasible,
        "no_headroom": setpoint.no_headroom if setpoint is not None else None,
        "changing": observation is not None and side in observation.ramping,
        "reason": decision.reason.value if decision is not None else None,
        "text": decision.text if decision is not None else None,
    }
