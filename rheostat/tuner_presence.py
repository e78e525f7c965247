"""The tuners that run now, as each reports itself into the journal's topic.

Only the last seconds of that topic are read, so the answer takes no longer with a journal of months.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from rheostat.errors import CommandError
from rheostat.settings import Settings
from streaming.kafka import consumer
from streaming.kafka.unpacking import refused_batches
from tuner.journal.presence_records import presence_of, presence_prefix
from tuner.journal.reading import UnreadableBatchError
from tuner.model.presence import ALIVE_S_MAX, TunerMode, TunerPresence

_READ_BACK_S = 2 * ALIVE_S_MAX  # Clocks of this machine and of the brokers may differ by as much as a tuner's life.
_READ_S_MAX = 10.0
_POLL_MS = 200
_ORDER = (TunerMode.ACTING, TunerMode.DRY_RUN, TunerMode.STARTING, TunerMode.STANDBY)


def read_tuners(settings: Settings, now_ms: int) -> tuple[TunerPresence, ...]:
    """The tuners of this cluster that are alive, an acting one first.

    A tuner that was killed counts as alive for ``ALIVE_S_MAX`` seconds.

    Args:
        now_ms: this machine's clock.

    Raises:
        CommandError: the journal's topic cannot be read.
    """
    topic = settings.topic_names().journal
    reader = consumer(settings.kafka, "rheostat-presence")
    try:
        if not reader.partitions_for_topic(topic):
            return ()
        with refused_batches(reader) as refused:
            found = _read(reader, TopicPartition(topic, 0), presence_prefix(settings.cluster), now_ms)
        if refused:
            raise CommandError(f"Whether a tuner runs is not known: {UnreadableBatchError(refused[0])}.")
    except (KafkaError, RuntimeError, OSError) as error:
        raise CommandError(
            f"Whether a tuner runs cannot be read from {topic} ({type(error).__name__}: {error}): it takes the right Read on "
            f"Topic {topic}."
        ) from error
    finally:
        reader.close(timeout_ms=2000)
    return alive(found, now_ms)


def alive(tuners: Iterable[TunerPresence], now_ms: int) -> tuple[TunerPresence, ...]:
    """Those that have reported within ``ALIVE_S_MAX`` seconds before ``now_ms``; acting, dry run, starting, standby."""
    living = (t for t in tuners if now_ms - t.reported_at_ms <= ALIVE_S_MAX * 1000)
    return tuple(sorted(living, key=lambda t: (_ORDER.index(t.mode), t.since_ms, t.holder)))


def acting_tuner(tuners: Iterable[TunerPresence]) -> TunerPresence | None:
    """The tuner that acts, the one that took over last if two reports overlap; None if none does."""
    acting = [t for t in tuners if t.mode is TunerMode.ACTING]
    return max(acting, key=lambda t: t.since_ms, default=None)


def _read(reader: KafkaConsumer, partition: TopicPartition, prefix: bytes, now_ms: int) -> list[TunerPresence]:
    """Raises KafkaError, RuntimeError or OSError if the topic cannot be read to its end."""
    reader.assign([partition])
    end = reader.end_offsets([partition])[partition]
    begin = reader.offsets_for_times({partition: now_ms - round(_READ_BACK_S * 1000)})[partition]
    if begin is None:
        return []  # Nothing was written of late.
    reader.seek(partition, begin.offset)
    newest: dict[bytes, TunerPresence | None] = {}
    deadline_s = time.monotonic() + _READ_S_MAX
    while reader.position(partition) < end:
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"its end was not reached within {_READ_S_MAX:.0f} s")
        for record in reader.poll(timeout_ms=_POLL_MS).get(partition, ()):
            if record.key is not None and record.key.startswith(prefix):
                newest[record.key] = presence_of(record.value, record.timestamp)
    return [presence for presence in newest.values() if presence is not None]
