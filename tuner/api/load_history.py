"""Loads the decisions of earlier processes from the journal, so that the page shows them after a restart."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from streaming.shared.kafka import KafkaSettings, consumer
from streaming.shared.kafka.clients import READ_ONCE_WAIT_MS
from tuner.journal.entries import RINGS, Entry, entry_or_none, entry_prefix
from tuner.journal.topic_tail import KAFKA_ERRORS, TopicTail

log = structlog.get_logger("tuner")

_RECORDS = 3_000  # Read from the end of the journal.


def load_history(settings: KafkaSettings, topic: str, cluster: str, deliver: Callable[[Sequence[Entry]], None]) -> None:
    """Passes the newest journal entries to ``deliver``. A failure is only logged, as only the page depends on the entries."""
    prefixes = tuple(entry_prefix(ring, cluster) for ring in RINGS)
    entries: list[Entry] = []
    try:
        # An act is performed only after its entry is committed, so uncommitted entries are skipped.
        reader = consumer(
            settings, "rheostat-tuner-history", isolation_level="read_committed", fetch_max_wait_ms=READ_ONCE_WAIT_MS
        )
        try:
            for record in TopicTail(reader, topic).read_recent(_RECORDS):
                if record.value is not None and (record.key or b"").startswith(prefixes):
                    entry = entry_or_none(record.value)
                    entries += [entry] if entry is not None else []
        finally:
            reader.close(timeout_ms=2000)
    except KAFKA_ERRORS as error:
        log.warning(
            "earlier decisions cannot be read from the journal, so the status page shows only new decisions",
            error=str(error),
        )
        return
    deliver(entries)
