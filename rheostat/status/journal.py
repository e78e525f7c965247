"""What the journal says now, for `rheostat status`: one reading of it, and the records that come after that for `--watch`.

Both take the records in through ``JournalFollower``, so both show the same entries, orders, plans and memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from kafka.errors import KafkaError

from rheostat.config.settings import Settings
from rheostat.errors import CommandError
from rheostat.tuner_presence import alive
from streaming.shared.kafka import consumer
from tuner.control.mutation_quota.state import MutationMemory
from tuner.control.throttle.state import Memory
from tuner.core.operator_orders import Orders
from tuner.core.presence import TunerPresence
from tuner.core.reassignment_plan import Plan
from tuner.journal.entries import Entry, decode_entry, entry_prefix
from tuner.journal.presence_records import presence_of, presence_prefix
from tuner.journal.replayed_state import ReplayedState
from tuner.journal.topic_reader import JournalError, JournalRecord, UnreadableBatchError, read_journal
from tuner.journal.unreadable import unreadable_texts

# How many records of each ring: "entry" for decisions, "steering" for steering ticks. The last decision of each throttle is
# found in the former.
RING_SIZES = {"entry": 1_000, "steering": 5}


class JournalState(NamedTuple):
    """What the journal says now.

    Attributes:
        entries: the newest by ring, the oldest first.
        orders: the newest of operators.
        plans: all on record; none while the journal was not read whole.
        memory: what the tuner remembers; None: not known.
        unreadable: records in force that this version cannot read, in words.
    """

    entries: Mapping[str, list[Entry]]
    orders: Orders = Orders()
    plans: tuple[Plan, ...] = ()
    memory: Memory | None = None
    unreadable: tuple[str, ...] = ()


class JournalFollower:
    """Takes in the journal's records one after the other.

    Attributes:
        is_whole: every record was taken in, from the beginning on. Until then memory and plans are not known.
    """

    def __init__(self, cluster: str, counts: Mapping[str, int] = RING_SIZES) -> None:
        """
        Args:
            counts: by ring, how many of the newest entries to keep.
        """
        self._prefixes = {entry_prefix(ring, cluster): ring for ring in counts}
        if "entry" in counts:
            self._prefixes[entry_prefix("plan-entry", cluster)] = "entry"  # Steps of plans are decisions, too.
        self._entries: dict[str, deque[Entry]] = {ring: deque(maxlen=count) for ring, count in counts.items()}
        self._presence = presence_prefix(cluster)
        self._tuners: dict[bytes, TunerPresence] = {}
        self._remembered = ReplayedState(cluster)
        self.is_whole = False

    def take(self, record: JournalRecord) -> None:
        if record.key.startswith(self._presence):
            self._tuners.pop(record.key, None)
            if (presence := presence_of(record.value, record.at_ms)) is not None:
                self._tuners[record.key] = presence
            return
        self._remembered.take(record.key, record.value, record.offset)
        ring = next((ring for prefix, ring in self._prefixes.items() if record.key.startswith(prefix)), None)
        if ring is not None and record.value is not None and (entry := decode_entry(record.value)) is not None:
            self._entries[ring].append(entry)

    def tuners(self, now_ms: int) -> tuple[TunerPresence, ...]:
        """The tuners that are alive, an acting one first."""
        return alive(self._tuners.values(), now_ms)

    @property
    def newest(self) -> JournalState:
        known = self._remembered
        return JournalState(
            {ring: sorted(some, key=lambda entry: (entry.at_ms, entry.seq)) for ring, some in self._entries.items()},
            known.orders,
            known.plans.known if self.is_whole else (),
            known.memory_if_known if self.is_whole else None,
            unreadable_texts(known.unreadable.values()),
        )

    @property
    def quotas(self) -> MutationMemory:
        """What the tuner remembers of mutation quotas."""
        return self._remembered.quotas


def read_journal_state(settings: Settings, counts: Mapping[str, int] = RING_SIZES) -> JournalFollower:
    """The whole journal, read once; nothing where no tuner has run and no operator has ordered anything yet.

    Raises:
        CommandError: the journal cannot be read.
    """
    topics, followed = settings.topic_names(), JournalFollower(settings.cluster, counts)
    reader = consumer(settings.kafka, "rheostat-status-journal", isolation_level="read_committed")
    try:
        for record in read_journal(reader, topics.journal):
            followed.take(record)
    except UnreadableBatchError as error:
        raise CommandError(f"The journal cannot be read: {error}.") from error
    except (JournalError, KafkaError) as error:
        raise CommandError(
            f"The journal cannot be read ({error}): it takes the right Read on Topics {topics.journal} and {topics.orders}."
        ) from error
    finally:
        reader.close(timeout_ms=2000)
    followed.is_whole = True
    return followed
