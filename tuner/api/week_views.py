"""The week of a broker as JSON: history, copies, forecast with its error, baseline and objective, capacity, changes.

Invariant: a value that is not known is None, never 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from streaming.shared.contract import (
    STEP_S,
    BrokerProfile,
    ChangeEvent,
    LearnedCapacity,
    LoadForecast,
)
from tuner.api import week_texts
from tuner.api.latency_limits import latency_limit_json, link_limit_json
from tuner.api.status_snapshot import StatusSnapshot
from tuner.api.week_store import PERIOD_MS, WEEK_COLUMNS, BrokerWeek, WeekStore
from tuner.control.throttle.objective import Capacity
from tuner.core.broker_baseline import BrokerBaseline
from tuner.core.forecast import forecast_error

_HOUR_MS = STEP_S * 1000
_WEEK_H = 7 * 24
EVENTS_MAX = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class WeekInputs:
    """The inputs for the week of one broker.

    Attributes:
        week: None if the history has no period of this broker.
        profile: what `rheostat learn` has published about the broker; None if there is nothing.
        capacity: the broker's capacity in the settings; None if not set.
    """

    broker: int
    now_ms: int
    week: BrokerWeek | None
    is_history_empty: bool
    profile: BrokerProfile | None
    events: Sequence[ChangeEvent]
    capacity: Capacity | None


def week_inputs(store: WeekStore, broker: int, now_ms: int, capacity: Capacity | None) -> WeekInputs:
    return WeekInputs(
        broker=broker,
        now_ms=now_ms,
        week=store.week(broker, now_ms),
        is_history_empty=store.is_empty,
        profile=store.profiles.get(broker),
        events=[event for event in store.events if event.broker == broker][:EVENTS_MAX],
        capacity=capacity,
    )


def week_json(snapshot: StatusSnapshot, inputs: WeekInputs) -> dict[str, Any]:
    """Returns the week of one broker as JSON values."""
    week, profile = inputs.week, inputs.profile
    speed = _link_speed(snapshot, inputs.broker)
    columns = week.columns if week is not None else {name: [] for name in WEEK_COLUMNS}
    return {
        "broker": inputs.broker,
        "now_ms": inputs.now_ms,
        "waits_for": week_texts.waits_for(inputs.broker, is_history_empty=inputs.is_history_empty)
        if week is None
        else None,
        "period_s": PERIOD_MS // 1000,
        "start_ms": week.start_ms if week is not None else None,
        **columns,
        "copies": _copies(week) if week is not None else [],
        "forecast": _forecast_json(profile) if profile is not None else None,
        "forecast_text": week_texts.forecast_text(profile, inputs.now_ms),
        "baseline": _baseline_json(snapshot, inputs),
        "latency_limit": latency_limit_json(snapshot.latency_limits.get(inputs.broker)),
        "capacity_in": _capacity_json(inputs, "in", speed),
        "capacity_out": _capacity_json(inputs, "out", speed),
        "capacity_text": week_texts.capacity_text(profile, inputs.capacity, speed, inputs.now_ms),
        "link_limit": link_limit_json(inputs.broker, snapshot.observation),
        "rate_bytes_per_s_max": snapshot.cycle.result.limits.rate_bytes_per_s_max,
        "events": [_event_json(event) for event in inputs.events],
    }


def _copies(week: BrokerWeek) -> list[dict[str, int]]:
    """Returns the time ranges in which the broker copied replicas; consecutive periods form one range."""
    copies: list[dict[str, int]] = []
    for number, copied in enumerate(week.copied):
        if not copied:
            continue
        start_ms = week.start_ms + number * PERIOD_MS
        if copies and copies[-1]["end_ms"] == start_ms:
            copies[-1]["end_ms"] += PERIOD_MS
        else:
            copies.append({"start_ms": start_ms, "end_ms": start_ms + PERIOD_MS})
    return copies


def _forecast_json(profile: BrokerProfile) -> dict[str, Any]:
    made_s = max(0.0, (profile.made_at_ms - profile.start_ms) / 1000)
    return {
        "made_at_ms": profile.made_at_ms,
        "history_s": profile.history_s,
        "step_s": STEP_S,
        "start_ms": profile.start_ms,
        "client_in": _load_json(profile.client_in, made_s),
        "client_out": _load_json(profile.client_out, made_s),
        "steady_in": _load_json(profile.steady_in, made_s),
        "steady_out": _load_json(profile.steady_out, made_s),
    }


def _load_json(forecast: LoadForecast, made_s: float) -> dict[str, Any]:
    """
    Args:
        made_s: time from the start of the forecast's first step until the forecast was made.
    """
    aheads_s = [max(0.0, step * STEP_S - made_s) for step in range(len(forecast.bytes_per_s))]
    return {
        "bytes_per_s": [_whole(value) for value in forecast.bytes_per_s],
        "error_bytes_per_s": [_whole(forecast_error(forecast, ahead_s)) for ahead_s in aheads_s],
        "model": forecast.model,
    }


def _baseline_json(snapshot: StatusSnapshot, inputs: WeekInputs) -> dict[str, Any] | None:
    """Returns the usual latency without copies, and the objective that follows from it, by hour, from the first period on.

    The profile begins at the present hour. An earlier hour gets the profile's value for the same hour of the week.
    """
    profile, objective = inputs.profile, snapshot.objective
    if profile is None or not profile.quiet_p99_ms:
        return None
    first_ms = inputs.week.start_ms if inputs.week is not None else profile.start_ms
    hours_before = max(0, -((first_ms - profile.start_ms) // _HOUR_MS))
    known = profile.quiet_p99_ms
    values: list[float | None] = []
    for hour in range(-hours_before, len(known)):
        step = hour if hour >= 0 else hour + _WEEK_H
        values.append(known[step] if 0 <= step < len(known) else None)
    limits = [
        objective.latency_limit(BrokerBaseline(p99_ms=value), 0.0)
        if objective is not None and value is not None
        else None
        for value in values
    ]
    return {
        "step_s": STEP_S,
        "start_ms": profile.start_ms - hours_before * _HOUR_MS,
        "p99_ms": [None if value is None else round(value, 2) for value in values],
        "p99_ms_max": [None if limit is None else round(limit.p99_ms_max, 2) for limit in limits],
    }


def _link_speed(snapshot: StatusSnapshot, broker: int) -> float | None:
    """Returns the speed (bytes/s) of the broker's link, from the metrics of its machine; None if not known."""
    signals = snapshot.observation.broker_signals if snapshot.observation is not None else {}
    return signals[broker].link_speed_bytes_per_s if broker in signals else None


def _capacity_json(inputs: WeekInputs, direction: str, link_speed_bytes_per_s: float | None) -> dict[str, Any] | None:
    """Returns the capacity of one direction: the value in the settings, else the learned value, else the speed of the link."""
    if inputs.capacity is not None:
        configured = inputs.capacity.in_bytes_per_s if direction == "in" else inputs.capacity.out_bytes_per_s
        return {"bytes_per_s": configured, "source": "settings", "seen_at_ms": None}
    learned: LearnedCapacity | None = None
    if inputs.profile is not None:
        learned = inputs.profile.capacity_in if direction == "in" else inputs.profile.capacity_out
    if learned is not None:
        return {"bytes_per_s": learned.bytes_per_s, "source": "learned", "seen_at_ms": learned.seen_at_ms}
    if link_speed_bytes_per_s is not None:
        return {"bytes_per_s": link_speed_bytes_per_s, "source": "link", "seen_at_ms": None}
    return None


def _event_json(event: ChangeEvent) -> dict[str, Any]:
    return {
        "measure": event.measure.value,
        "is_unusual": event.is_unusual,
        "before": event.before,
        "after": event.after,
        "since_ms": event.since_ms,
        "found_at_ms": event.found_at_ms,
        "text": week_texts.event_text(event),
    }


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
