"""Reads the journal for `rheostat status`: once, or continuously for `--watch`.

Both ways pass the records through ``JournalFollower``, so both show the same entries, orders, plans and memory.

A steering tick is one adjustment of the throttles by the control loop, which runs every second while client latency matters.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from kafka.errors import KafkaError

from rheostat.config.settings import Settings
from rheostat.errors import CommandError
from rheostat.tuner_presence import running_tuners
from streaming.shared.kafka import consumer
from streaming.shared.kafka.clients import READ_ONCE_WAIT_MS
from tuner.control.cordon.model import CordonMemory
from tuner.control.log_dir.model import LogDirMemory
from tuner.control.mutation_quota.state import MutationMemory
from tuner.control.throttle.state import Memory
from tuner.core.operator_orders import Orders
from tuner.core.presence import TunerPresence
from tuner.core.reassignment_plan import Plan
from tuner.journal.entries import Entry, entry_or_none, entry_prefix
from tuner.journal.presence_records import presence_or_none, presence_prefix
from tuner.journal.replayed_state import ReplayedState
from tuner.journal.topic_reader import JournalError, JournalRecord, UnreadableBatchError, read_journal
from tuner.journal.unreadable import unreadable_texts

# The newest entries to keep, by ring of the journal (a fixed number of keys that the tuner overwrites in turn).
RING_SIZES = {
    "entry": 1_000,  # Decisions. The number is high, because the status shows the last decision of each throttle.
    "steering": 5,  # Steering ticks.
}


class JournalState(NamedTuple):
    """The state of the journal.

    Attributes:
        entries: the newest entries by ring, oldest first.
        orders: the newest operator orders.
        plans: all recorded plans; empty if the journal was not read completely.
        memory: the tuner's memory, such as the throttles that it manages; None if unknown.
        log_dirs: the log directory throttles that the tuner manages.
        cordons: the cordons that the tuner manages.
        unreadable: a text for each valid record that this version cannot read.
    """

    entries: Mapping[str, list[Entry]]
    orders: Orders = Orders()
    plans: tuple[Plan, ...] = ()
    memory: Memory | None = None
    unreadable: tuple[str, ...] = ()
    log_dirs: LogDirMemory = LogDirMemory()
    cordons: CordonMemory = CordonMemory()


class JournalFollower:
    """Builds the state of the journal from its records.

    Attributes:
        is_complete: whether all records from the beginning of both topics were read. Until then, the tuner's memory and plans are
            unknown.
    """

    def __init__(self, cluster: str, counts: Mapping[str, int] = RING_SIZES) -> None:
        """
        Args:
            counts: the number of newest entries to keep, by ring.
        """
        self._rings_by_prefix = {entry_prefix(ring, cluster): ring for ring in counts}
        if "entry" in counts:
            # The steps of plans have a ring of their own; the status shows them among the decisions.
            self._rings_by_prefix[entry_prefix("plan-entry", cluster)] = "entry"
        self._entries: dict[str, deque[Entry]] = {ring: deque(maxlen=count) for ring, count in counts.items()}
        self._presence_prefix = presence_prefix(cluster)
        self._tuners: dict[bytes, TunerPresence] = {}
        self._replayed = ReplayedState(cluster)
        self.is_complete = False

    def apply(self, record: JournalRecord) -> None:
        """Adds the next record of the journal or orders topic."""
        if record.key.startswith(self._presence_prefix):
            self._tuners.pop(record.key, None)
            if (presence := presence_or_none(record.value, record.at_ms)) is not None:
                self._tuners[record.key] = presence
            return
        self._replayed.apply(record.key, record.value, record.offset)
        ring = next((ring for prefix, ring in self._rings_by_prefix.items() if record.key.startswith(prefix)), None)
        if ring is not None and record.value is not None and (entry := entry_or_none(record.value)) is not None:
            self._entries[ring].append(entry)

    def tuners(self, now_ms: int) -> tuple[TunerPresence, ...]:
        """Returns the running tuners, an active one first."""
        return running_tuners(self._tuners.values(), now_ms)

    @property
    def state(self) -> JournalState:
        """The state after all records that were taken so far."""
        replayed = self._replayed
        return JournalState(
            entries={ring: sorted(entries, key=lambda e: (e.at_ms, e.seq)) for ring, entries in self._entries.items()},
            orders=replayed.orders,
            plans=replayed.plans.known_plans if self.is_complete else (),
            memory=replayed.memory_if_known if self.is_complete else None,
            unreadable=unreadable_texts(replayed.unreadable.values()),
            log_dirs=replayed.log_dirs,
            cordons=replayed.cordons,
        )

    @property
    def quotas(self) -> MutationMemory:
        """The tuner's state for mutation quotas."""
        return self._replayed.quotas


def read_journal_state(settings: Settings, counts: Mapping[str, int] = RING_SIZES) -> JournalFollower:
    """Reads the whole journal once. The result is empty if no tuner has run and no order was given yet.

    Raises:
        CommandError: the journal cannot be read.
    """
    topics, follower = settings.topic_names(), JournalFollower(settings.cluster, counts)
    reader = consumer(
        settings.kafka,
        "rheostat-status-journal",
        isolation_level="read_committed",
        fetch_max_wait_ms=READ_ONCE_WAIT_MS,
    )
    try:
        for record in read_journal(reader, topics.journal):
            follower.apply(record)
    except UnreadableBatchError as error:
        raise CommandError(f"The journal cannot be read: {error}.") from error
    except (JournalError, KafkaError) as error:
        raise CommandError(
            f"The journal cannot be read ({error}): the command needs the permission Read on Topics {topics.journal} and "
            f"{topics.orders}."
        ) from error
    finally:
        reader.close(timeout_ms=2000)
    follower.is_complete = True
    return follower
