"""The sentences about the week of a broker: why data are missing, the forecast, the capacity, the changes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from streaming.shared.contract import (
    HORIZONS_H,
    BrokerProfile,
    ChangedMeasure,
    ChangeEvent,
    LearnedCapacity,
    LoadForecast,
)
from streaming.shared.units import rate_text, span_text, three_digits
from tuner.api.sentences import moment
from tuner.control.throttle.objective import Capacity
from tuner.core.forecast import PROFILE_AGE_S_MAX

_ERROR_HORIZON_H = 12
_MEASURES = {
    ChangedMeasure.REPLICATION_LAG: ("replication lag without moves", "messages"),
    ChangedMeasure.CLIENT_LATENCY: ("produce latency (p99) without copies", "ms"),
    ChangedMeasure.MUTATION_RATE: ("mutation rate", "partitions/s"),
}


def waits_for(broker: int, *, is_history_empty: bool) -> str:
    """Returns why a broker has no history, and when its history begins."""
    if is_history_empty:
        return (
            "The history is empty. It begins about ten minutes after the stream starts, and has a value for each period of ten "
            "minutes."
        )
    return (
        f"The history of the last week has no values of broker {broker}. They begin about ten minutes after the first signal of "
        "the broker."
    )


def forecast_text(profile: BrokerProfile | None, now_ms: int) -> str:
    """Returns the age of the forecast, its models and their errors. Without a forecast, returns why there is none yet."""
    if profile is None:
        return "No forecast: `rheostat learn` has not published a profile of this broker yet."
    age_s = max(0.0, (now_ms - profile.made_at_ms) / 1000)
    text = f"Forecast made {span_text(age_s)} ago from {span_text(profile.history_s)} of history"
    parts = [_model_text(name, load) for name, load in (("in", profile.client_in), ("out", profile.client_out))]
    text = ". ".join([text, *(part for part in parts if part is not None)])
    if age_s > PROFILE_AGE_S_MAX:
        return f"{text}. It is too old, so the tuner and plans do not use it: check `rheostat learn`."
    return f"{text}."


def _model_text(direction: str, forecast: LoadForecast) -> str | None:
    if not any(value is not None for value in forecast.bytes_per_s):
        return None
    name = forecast.model.replace("_", " ") or "not named"
    text = f"Client bytes {direction}: the model with the most weight is {name}"
    errors = dict(zip(HORIZONS_H, forecast.error_bytes_per_s, strict=False))
    error = errors.get(_ERROR_HORIZON_H)
    if error is None:
        return f"{text}, and its error is not measured yet"
    return f"{text}, and a forecast {_ERROR_HORIZON_H} h ahead was wrong by {rate_text(error)} on average"


def capacity_text(
    profile: BrokerProfile | None, configured: Capacity | None, link_speed_bytes_per_s: float | None, now_ms: int
) -> str:
    """Returns the capacity of both directions with its source and age."""
    if configured is not None:
        in_text, out_text = rate_text(configured.in_bytes_per_s), rate_text(configured.out_bytes_per_s)
        return f"Capacity by tuner.capacity: {in_text} in, {out_text} out."
    learned = {"in": profile.capacity_in, "out": profile.capacity_out} if profile is not None else {}
    learned_texts = [
        _learned_text(name, capacity, now_ms) for name, capacity in learned.items() if capacity is not None
    ]
    if not learned_texts and link_speed_bytes_per_s is not None:
        return (
            f"Speed of the link, from the metrics of the machine: {rate_text(link_speed_bytes_per_s)}. Disks may be slower; the "
            "tuner learns their limit during moves, from the latency of clients."
        )
    link = "" if link_speed_bytes_per_s is None else f" The speed of the link is {rate_text(link_speed_bytes_per_s)}."
    if not learned_texts:
        return (
            "Capacity: not learned from the history yet. The tuner learns it during moves, from the latency of clients."
        )
    return (
        f"Learned capacity, the highest traffic of clients and replication together with usual latency: "
        f"{', '.join(learned_texts)}.{link}"
    )


def _learned_text(direction: str, capacity: LearnedCapacity, now_ms: int) -> str:
    age_s = max(0.0, (now_ms - capacity.seen_at_ms) / 1000)
    return f"{rate_text(capacity.bytes_per_s)} {direction} (seen {span_text(age_s)} ago)"


def tenant_event_texts(events: Iterable[ChangeEvent], count_max: int) -> list[str]:
    """Returns the sentences of the first events that are about tenants."""
    return [event_text(event) for event in islice((e for e in events if e.broker is None), count_max)]


def event_text(event: ChangeEvent) -> str:
    """Returns the event as a sentence: the measure that changed, its earlier and its new value, and since when."""
    name, unit = _MEASURES[event.measure]
    subject = f"Broker {event.broker}" if event.broker is not None else _tenant_text(event)
    before, after = three_digits(event.before), three_digits(event.after)
    if event.is_unusual:
        return f"{subject}: unusual {name} at {moment(event.since_ms)}: {after} {unit}, instead of the usual {before} {unit}."
    return f"{subject}: {name} has changed from {before} to {after} {unit} since {moment(event.since_ms)}."


def _tenant_text(event: ChangeEvent) -> str:
    names = [f"user {event.user}" if event.user else "", f"client-id {event.client_id}" if event.client_id else ""]
    return f"Tenant {', '.join(name for name in names if name) or 'without a name'}"
