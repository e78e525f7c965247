"""Reads the profiles topic: the profile of each broker, and the changes that `rheostat learn` has found.

The topic is compacted, so a reader reads it from the beginning. Any client with write access to the topic can write a profile. A
record is refused as a whole if one of its values cannot be a measurement. The reader does not judge the age of a profile
(tuner/core/forecast.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import structlog
from kafka import KafkaConsumer

from streaming.shared.contract import (
    STEP_S,
    STEPS_MAX,
    BrokerProfile,
    ChangeEvent,
    ContractError,
    LearnedCapacity,
    LoadForecast,
    decode_profile,
    profile_key,
)
from tuner.journal.topic_tail import ANSWER_MS, KAFKA_ERRORS, TopicTail
from tuner.runtime.observe.refused import RefusedRecords

log = structlog.get_logger("tuner")

# Maximum number of profiles and of events, more than any cluster has. A client with random names must not fill the memory.
PROFILES_MAX = 10_000
EVENTS_MAX = 10_000


class ProfilesReader:
    """The newest profile of each broker, and the newest event of each subject, of one cluster.

    If the topic cannot be read, no exception is raised: the profiles stay as they are and become too old.

    Attributes:
        profiles: by broker.
        refused: counts the records that are not a valid profile or event.
    """

    def __init__(
        self,
        consumer: KafkaConsumer,
        topic: str,
        cluster: str,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.profiles: dict[int, BrokerProfile] = {}
        self.refused = RefusedRecords(topic, "it is not used as a profile", monotonic=monotonic)
        self._events: dict[bytes, ChangeEvent] = {}
        self._tail = TopicTail(consumer, topic)
        self._cluster = cluster
        self._topic = topic
        self._is_begun = False
        self._error: str | None = None  # Error of the last read; each error is logged once.

    @property
    def events(self) -> tuple[ChangeEvent, ...]:
        """Changes and unusual values, the newest first."""
        return tuple(sorted(self._events.values(), key=lambda event: event.found_at_ms, reverse=True))

    def poll(self) -> int:
        """Reads new records; the first call reads the whole topic. Returns the number of records."""
        records = self._tail.poll(ANSWER_MS) if self._is_begun else self._tail.read_all()
        count = 0
        try:
            for record in records:
                count += 1
                self._add_record(record)
            self._is_begun, self._error = self._tail.topic_exists, None
        except KAFKA_ERRORS as error:
            if str(error) != self._error:
                log.warning("the profiles topic cannot be read; trying again", topic=self._topic, error=str(error))
            self._error = str(error)
        return count

    def _add_record(self, record: Any) -> None:
        key = record.key or b""
        if record.value is None:
            self._remove(key)
            return
        try:
            profile = decode_profile(record.value)
            if profile.cluster != self._cluster:
                return
            if key != profile_key(profile):
                raise ContractError("the key belongs to another broker or event")
            if isinstance(profile, BrokerProfile):
                _check(profile)
        except ContractError as error:
            self.refused.refuse(record, str(error))
            return
        if isinstance(profile, BrokerProfile):
            if profile.broker in self.profiles or len(self.profiles) < PROFILES_MAX:
                self.profiles[profile.broker] = profile
        elif key in self._events or len(self._events) < EVENTS_MAX:
            self._events[key] = profile

    def _remove(self, key: bytes) -> None:
        """Forgets the profile or event whose record was deleted."""
        if self._events.pop(key, None) is None:
            prefix = f"{self._cluster}|broker|".encode()
            known = {str(broker).encode(): broker for broker in self.profiles} if key.startswith(prefix) else {}
            self.profiles.pop(known.get(key.removeprefix(prefix), -1), None)


def _check(profile: BrokerProfile) -> None:
    """Checks that the profile can be a result of measurements.

    Raises:
        ContractError: naming the first field that cannot be a measurement.
    """
    if profile.start_ms % (STEP_S * 1000):
        raise ContractError("broker profile: start_ms is not the start of an hour")
    for name, values in _series(profile):
        if len(values) > STEPS_MAX:
            raise ContractError(f"broker profile: {name} has {len(values)} steps; a profile has at most {STEPS_MAX}")
        if any(value is not None and value < 0 for value in values):
            raise ContractError(f"broker profile: {name} has a value below 0")


def _series(profile: BrokerProfile) -> Iterator[tuple[str, Sequence[float | None]]]:
    """Yields the name and the values of each field that has numbers; none of them can be negative."""
    forecasts: dict[str, LoadForecast] = {
        "client_in": profile.client_in,
        "client_out": profile.client_out,
        "steady_in": profile.steady_in,
        "steady_out": profile.steady_out,
    }
    for name, forecast in forecasts.items():
        yield name, forecast.bytes_per_s
        yield f"{name}.error", forecast.error_bytes_per_s
    capacities: dict[str, LearnedCapacity | None] = {
        "capacity_in": profile.capacity_in,
        "capacity_out": profile.capacity_out,
    }
    for name, capacity in capacities.items():
        yield name, () if capacity is None else (capacity.bytes_per_s,)
    yield "quiet_p99_ms", profile.quiet_p99_ms
    yield "history_s", (profile.history_s,)
