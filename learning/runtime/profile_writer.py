"""Writes profiles and events into the profiles topic: only records that differ from the topic's present records."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import kafka.errors
import structlog

from learning.runtime.learn_counts import LearnCounts
from learning.runtime.topic_follower import KAFKA_ERRORS
from streaming.shared.contract.learned_encoding import encode_profile, profile_key
from streaming.shared.contract.profiles import Profile

log = structlog.get_logger("learn")

_FLUSH_S_MAX, _FLUSH_STEP_S = 30.0, 1.0


class ProfileWriter:
    """Keeps the profiles topic equal to the newest profiles and events, and deletes the cluster's other records.

    Two processes that read the same history write the same records, so a second process does no harm.
    """

    def __init__(self, producer: Any, topic: str, cluster: str, counts: LearnCounts) -> None:
        self._producer = producer
        self._topic = topic
        self._prefix = f"{cluster}|".encode()
        self._counts = counts
        self._current: dict[bytes, int] = {}  # Checksum by key.

    def register(self, record: Any) -> None:
        """Registers a record that is already in the topic."""
        if not record.key or not record.key.startswith(self._prefix):
            return
        if record.value is None:
            self._current.pop(record.key, None)
        else:
            self._current[record.key] = zlib.crc32(record.value)

    def write(self, profiles: Iterable[Profile], stop: threading.Event) -> bool:
        """Writes the records by which ``profiles`` differ from the topic. Returns whether Kafka accepted all of them.

        The next call sends the rest. Returns early once ``stop`` is set.
        """
        values: dict[bytes, bytes | None] = dict.fromkeys(self._current)
        values |= {profile_key(profile): encode_profile(profile) for profile in profiles}
        checksums = {key: None if value is None else zlib.crc32(value) for key, value in values.items()}
        changed = {key: values[key] for key, checksum in checksums.items() if self._current.get(key) != checksum}
        accepted = self._send(changed, stop)
        for key in accepted:
            checksum = checksums[key]
            if checksum is None:
                self._current.pop(key, None)
            else:
                self._current[key] = checksum
        self._counts.written += len(accepted)
        self._counts.failed += len(changed) - len(accepted)
        return len(accepted) == len(changed)

    def _send(self, records: Mapping[bytes, bytes | None], stop: threading.Event) -> list[bytes]:
        """Returns the keys of the records that Kafka has accepted."""
        sent = {}
        try:
            for key, value in records.items():
                if stop.is_set():
                    break
                sent[key] = self._producer.send(self._topic, key=key, value=value)
            self._flush(stop)
        except KAFKA_ERRORS as error:
            log.warning(
                "Kafka did not accept the records of learned values; they will be sent again",
                topic=self._topic,
                error=str(error),
            )
        accepted = [key for key, future in sent.items() if future.succeeded()]
        refused = next((future.exception for future in sent.values() if future.failed()), None)
        if isinstance(refused, kafka.errors.KafkaError):
            log.warning(
                "Kafka did not accept a record of learned values; it will be sent again",
                topic=self._topic,
                error=str(refused),
            )
        return accepted

    def _flush(self, stop: threading.Event) -> None:
        """Waits until Kafka has acknowledged all records. Raises a time-out after ``_FLUSH_S_MAX``, or once ``stop`` is set."""
        until_s = time.monotonic() + _FLUSH_S_MAX
        while True:
            try:
                self._producer.flush(timeout=_FLUSH_STEP_S)
                return
            except kafka.errors.KafkaTimeoutError:
                if stop.is_set() or time.monotonic() >= until_s:
                    raise
