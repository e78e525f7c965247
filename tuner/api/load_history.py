"""The decisions of before this process acted, from the journal: who looks after a restart at three in the morning asks of those."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from streaming.shared.kafka import KafkaSettings, consumer
from tuner.journal.entries import RINGS, Entry, decode_entry, entry_prefix
from tuner.journal.topic_tail import KAFKA_ERRORS, TopicTail

log = structlog.get_logger("tuner")

_RECORDS = 3_000


def load_history(settings: KafkaSettings, topic: str, cluster: str, tell: Callable[[Sequence[Entry]], None]) -> None:
    """Reads the newest records of the journal. Whatever fails, only the page knows less: so it is said, and that is all."""
    prefixes = tuple(entry_prefix(ring, cluster) for ring in RINGS)
    found: list[Entry] = []
    try:
        # What was not committed was not done.
        reader = consumer(settings, "rheostat-tuner-before", isolation_level="read_committed")
        try:
            for record in TopicTail(reader, topic).read_recent(_RECORDS):
                if record.value is not None and (record.key or b"").startswith(prefixes):
                    entry = decode_entry(record.value)
                    found += [entry] if entry is not None else []
        finally:
            reader.close(timeout_ms=2000)
    except KAFKA_ERRORS as error:
        log.warning("the decisions of before cannot be read, so the page begins with those to come", error=str(error))
        return
    tell(found)
