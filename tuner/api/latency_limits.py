"""Computes each broker's latency limit and link limit, for the API, the page and the metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streaming.shared.contract import Side
from tuner.control.throttle.objective import Objective
from tuner.core.cluster import Observation
from tuner.core.latency_limit import LatencyLimit
from tuner.core.link_limit import LinkSource


def latency_limits(objective: Objective | None, observation: Observation | None) -> Mapping[int, LatencyLimit]:
    """Returns the latency limit of each broker that the control law uses now, or would use; unknown limits are absent."""
    if objective is None or observation is None:
        return {}
    steered = {
        broker: setpoint.latency_limit
        for (broker, _), setpoint in observation.setpoints.items()
        if setpoint.latency_limit is not None
    }
    known = {b: objective.latency_limit(observation.baselines.get(b), 0.0) for b in observation.broker_signals}
    return {broker: limit for broker, limit in known.items() if limit is not None} | steered


def latency_limit_json(limit: LatencyLimit | None) -> dict[str, Any] | None:
    if limit is None:
        return None
    return {"p99_ms_max": limit.p99_ms_max, "source": limit.source.value, "baseline_ms": limit.baseline_ms}


def link_limit_json(broker: int, observation: Observation | None) -> dict[str, Any] | None:
    """Returns the rate to which the control law limits each direction of a broker; None if the control law controls no throttle of
    this broker, or knows no limit."""
    setpoints = observation.setpoints if observation is not None else {}
    found_limits = {side: setpoints[broker, side].link_limit for side in Side if (broker, side) in setpoints}
    limits = {side: limit for side, limit in found_limits.items() if limit is not None}
    if not limits:
        return None
    sources = {limit.source for limit in limits.values()}
    return {
        "in_bytes_per_s": limits[Side.FOLLOWER].bytes_per_s if Side.FOLLOWER in limits else None,
        "out_bytes_per_s": limits[Side.LEADER].bytes_per_s if Side.LEADER in limits else None,
        # Directions with different sources: the latency of the clients limits at least one of them.
        "source": sources.pop().value if len(sources) == 1 else LinkSource.LEARNED.value,
    }
