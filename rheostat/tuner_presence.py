"""Finds the tuners that run now, from the reports that each tuner writes to the journal topic every few seconds.

Only the last minutes of the topic are read, so a long journal does not delay the answer.

The brokers' clocks date the reports, and may differ from this machine's clock. Therefore, if a report seems too old or in the
future, the reader waits for the tuner's next report, which a running tuner writes within seconds.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from rheostat.config.settings import Settings
from rheostat.errors import CommandError
from streaming.shared.kafka import consumer
from streaming.shared.kafka.unpacking import unreadable_batches
from tuner.core.presence import ALIVE_S_MAX, REPORT_EVERY_S, TunerMode, TunerPresence
from tuner.journal.presence_records import presence_or_none, presence_prefix
from tuner.journal.topic_reader import UnreadableBatchError

_READ_BACK_S = 120.0  # This machine's clock may be ahead of the brokers' clocks by this time.
_NEXT_REPORT_S_MAX = REPORT_EVERY_S + 1.5
_READ_S_MAX = 10.0
_POLL_MS = 200
_CLOCK_NOISE_MS = 2000  # A report may seem to be this far in the future, because clocks are never exactly equal.
_ORDER = (TunerMode.ACTIVE, TunerMode.DRY_RUN, TunerMode.STARTING, TunerMode.STANDBY)


def read_tuners(settings: Settings, now_ms: int) -> tuple[TunerPresence, ...]:
    """Returns the running tuners of this cluster, an active one first.

    A killed tuner counts as running for ``ALIVE_S_MAX`` seconds. If clocks differ, the call waits up to ``_NEXT_REPORT_S_MAX``
    seconds for a new report.

    Args:
        now_ms: this machine's time.

    Raises:
        CommandError: the journal topic cannot be read.
    """
    topic = settings.topic_names().journal
    reader = consumer(settings.kafka, "rheostat-presence")
    try:
        if not reader.partitions_for_topic(topic):
            return ()
        with unreadable_batches(reader) as unreadable:
            tuners = _read(reader, TopicPartition(topic, 0), presence_prefix(settings.cluster), now_ms)
        if unreadable:
            raise CommandError(f"It is unknown whether a tuner runs: {UnreadableBatchError(unreadable[0])}.")
    except (KafkaError, RuntimeError, OSError) as error:
        raise CommandError(
            f"It is unknown whether a tuner runs: {topic} cannot be read ({type(error).__name__}: {error}). The command "
            f"needs the permission Read on Topic {topic}."
        ) from error
    finally:
        reader.close(timeout_ms=2000)
    return tuners


def running_tuners(tuners: Iterable[TunerPresence], now_ms: int) -> tuple[TunerPresence, ...]:
    """Returns the tuners that have reported within ``ALIVE_S_MAX`` seconds before ``now_ms``, an active one first."""
    return _sorted(t for t in tuners if _is_recent(t, now_ms))


def _is_recent(tuner: TunerPresence, now_ms: int) -> bool:
    return -_CLOCK_NOISE_MS <= now_ms - tuner.reported_at_ms <= ALIVE_S_MAX * 1000


def _sorted(tuners: Iterable[TunerPresence]) -> tuple[TunerPresence, ...]:
    """Sorts by mode. If two tuners report as active, the one that took over later comes first.

    The tuner that took over earlier was killed, or does not know yet that it was replaced.
    """

    def sort_key(tuner: TunerPresence) -> tuple[int, int, str]:
        since_ms = -tuner.since_ms if tuner.mode is TunerMode.ACTIVE else tuner.since_ms
        return _ORDER.index(tuner.mode), since_ms, tuner.holder

    return tuple(sorted(tuners, key=sort_key))


def active_tuner(tuners: Iterable[TunerPresence]) -> TunerPresence | None:
    """Returns the active tuner; None if no tuner is active. If two tuners report as active, returns the one that took over last."""
    active = [t for t in tuners if t.mode is TunerMode.ACTIVE]
    return max(active, key=lambda t: t.since_ms, default=None)


def _read(reader: KafkaConsumer, partition: TopicPartition, prefix: bytes, now_ms: int) -> tuple[TunerPresence, ...]:
    """Reads the newest report of each tuner; raises KafkaError, RuntimeError or OSError if the topic cannot be read."""
    reader.assign([partition])
    end = reader.end_offsets([partition])[partition]
    begin = reader.offsets_for_times({partition: now_ms - round(_READ_BACK_S * 1000)})[partition]
    if begin is None:
        return ()  # No recent record.
    reader.seek(partition, begin.offset)
    newest: dict[bytes, TunerPresence | None] = {}
    deadline_s = time.monotonic() + _READ_S_MAX
    while reader.position(partition) < end:
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"its end was not reached within {_READ_S_MAX:.0f} s")
        newest |= _reports(reader, partition, prefix)
    # A running tuner writes another report within seconds. If no report comes, the tuner counts as ended.
    in_doubt = {key for key, tuner in newest.items() if tuner is not None and not _is_recent(tuner, now_ms)}
    deadline_s = time.monotonic() + _NEXT_REPORT_S_MAX
    while in_doubt and time.monotonic() < deadline_s:
        reports = _reports(reader, partition, prefix)
        newest |= reports
        in_doubt -= reports.keys()
    return _sorted(tuner for key, tuner in newest.items() if tuner is not None and key not in in_doubt)


def _reports(reader: KafkaConsumer, partition: TopicPartition, prefix: bytes) -> dict[bytes, TunerPresence | None]:
    """Polls once, and returns the reports by key; None if the tuner has ended, or its report cannot be read."""
    return {
        record.key: presence_or_none(record.value, record.timestamp)
        for record in reader.poll(timeout_ms=_POLL_MS).get(partition, ())
        if record.key is not None and record.key.startswith(prefix)
    }
