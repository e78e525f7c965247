"""Profiles: what the process `learn` has learned about brokers and tenants from the history, as plain values.

There is one record per broker, and one per event, in a compacted topic. Values come from a topic that others may write to, so a
reader checks ranges and ages before a profile changes a decision.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from streaming.shared.contract.bounds import LimitedItems, NodeId, Number, Text, TimestampMs

STEP_S = 3600
STEPS_MAX = 8 * 24
HORIZONS_H = (1, 4, 12, 24, 168)  # The horizons for which a forecast's error is known.

Steps = Annotated[tuple[Number | None, ...], LimitedItems]


@dataclass(frozen=True, slots=True)
class LoadForecast:
    """Mean bytes/s of each coming hour.

    Attributes:
        bytes_per_s: by step, from ``BrokerProfile.start_ms`` on; None if not known.
        error_bytes_per_s: mean absolute error of earlier forecasts, by horizon (``HORIZONS_H``); None if not measured yet.
        model: the model with the highest weight. A forecast is a weighted mean of several models.
    """

    bytes_per_s: Steps = ()
    error_bytes_per_s: Steps = ()
    model: Text = ""


@dataclass(frozen=True, slots=True)
class LearnedCapacity:
    """The highest rate of clients and replication together in one direction of a broker while its latency was normal.

    Attributes:
        bytes_per_s: mean of the busiest half-minute.
        seen_at_ms: time of that half-minute; epoch.
    """

    bytes_per_s: Number
    seen_at_ms: TimestampMs


@dataclass(frozen=True, slots=True)
class BrokerProfile:
    """The learned loads, latency and capacities of one broker.

    Attributes:
        made_at_ms: when the profile was computed; epoch.
        start_ms: start of the first step of all series; a multiple of ``STEP_S``.
        history_s: how much history of this broker was read.
        steady_in: replication without reassignments, as follower; ``steady_out``: as leader.
        quiet_p99_ms: the p99 of the broker's clients while no broker copies, by step.
    """

    cluster: Text
    broker: NodeId
    made_at_ms: TimestampMs
    start_ms: TimestampMs
    history_s: Number
    client_in: LoadForecast = LoadForecast()
    client_out: LoadForecast = LoadForecast()
    steady_in: LoadForecast = LoadForecast()
    steady_out: LoadForecast = LoadForecast()
    quiet_p99_ms: Steps = ()
    capacity_in: LearnedCapacity | None = None
    capacity_out: LearnedCapacity | None = None

    def step_at(self, at_ms: int) -> int | None:
        """Returns the step of a time (epoch); None if the time is before the first step or after the last possible step."""
        step = (at_ms - self.start_ms) // (STEP_S * 1000)
        return step if 0 <= step < STEPS_MAX else None


class ChangedMeasure(StrEnum):
    REPLICATION_LAG = "replication_lag"  # In messages, for replicas in normal replication.
    CLIENT_LATENCY = "client_latency"  # Produce p99, ms, while no broker copies.
    MUTATION_RATE = "mutation_rate"  # Partitions/s that a tenant creates and deletes.


@dataclass(frozen=True, slots=True)
class ChangeEvent:
    """A lasting change of a measure (a change point), or a value that is unusual for the hour. No decision depends on events.

    Attributes:
        is_unusual: True for one unusual value; False for a lasting change.
        broker: the broker; None if the event is about a tenant.
        before: the usual value before.
        after: the value since then.
        since_ms: start of the period in which it changed; epoch.
    """

    cluster: Text
    measure: ChangedMeasure
    is_unusual: bool
    before: Number
    after: Number
    since_ms: TimestampMs
    found_at_ms: TimestampMs
    broker: NodeId | None = None
    user: Text | None = None
    client_id: Text | None = None


Profile = BrokerProfile | ChangeEvent
