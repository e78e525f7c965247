"""Finds recovering replicas: assigned replicas that have left the ISR, on a living broker with a working disk.

The collector measures the bytes that such a replica lacks, and the tuner decides how fast it may copy them. Reading all partitions
of a large cluster takes seconds, so a finder reads them only when the list of living brokers has changed. Between two such reads
it reads only the topics that have recovering replicas, and topics that another reader of all partitions has named (``note``).

A broker may leave and return repeatedly. For ``ABSENT_S_MAX`` after it has left, its replicas are still treated as recovering, so
that its restarts change no settings.

A replica may never come back, for example because its fetcher has failed. If the replicas of a broker gain no byte for
``STUCK_S_MIN``, they are *stuck* and no longer count as recovering, until one of them grows.

Invariant: a replica that a reassignment adds is not recovering. A finder runs in one thread, with a connection of its own; any
thread may read ``result`` and call ``note``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from streaming.shared import kafka_names
from streaming.shared.contract import TopicPartition
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka.tiered import is_tiered, with_copied_bytes
from streaming.shared.kafka.values import ClusterError, PartitionState
from streaming.shared.move_order import IsrStanding, move_class

# At most this many partitions with recovering replicas are reported: the least urgent partitions, because the more urgent
# partitions must not wait for a throttle. After the loss of a rack, a hundred thousand partitions may recover.
PARTITIONS_MAX = 10_000
CHECK_EVERY_S = 1.0
ABSENT_S_MAX = 60.0
MIN_IN_SYNC_S_MAX = 60.0  # After this time min.insync.replicas is read again.
MIN_IN_SYNC_DEFAULT = 1
STUCK_S_MIN = 600.0
PROGRESS_EVERY_S = 60.0  # Interval of the readings that show which brokers are stuck.
_TOPICS_PER_REQUEST = 200
_UNKNOWN = (frozenset[int](), 1 << 62)  # Partitions that lack an unknown number of bytes come last.
# The pause after a slow check is this multiple of its duration, so that a large cluster is not read all the time. The pause has an
# upper bound, because the rule about min.insync.replicas needs recent readings.
_REST_PER_CHECK = 10.0
_REST_S_MAX = 10.0


@dataclass(frozen=True, slots=True)
class RecoveringReplicas:
    """The recovering replicas that one check has found.

    Attributes:
        partitions: the partitions with recovering replicas (``PartitionState.recovering``), the most urgent first. If there are
            more than ``PARTITIONS_MAX``, only the least urgent of them.
        min_in_sync: min.insync.replicas of their topics.
        lacking_bytes: the bytes that the recovering replicas of a partition lacked when they were found, where this is known.
        left_out: the number of further, more urgent partitions.
        stuck: brokers whose replicas are out of sync and gain nothing; ``partitions`` does not have these replicas.
        number: grows by one with each check that has found further recovering replicas, or bytes that were unknown before.
    """

    partitions: tuple[PartitionState, ...] = ()
    min_in_sync: Mapping[str, int] = field(default_factory=dict)
    lacking_bytes: Mapping[TopicPartition, int] = field(default_factory=dict)
    left_out: int = 0
    stuck: frozenset[int] = frozenset()
    number: int = 0


class RecoveryFinder:
    """Looks for recovering replicas repeatedly; see the module docstring."""

    def __init__(
        self,
        client: ClusterClient,
        *,
        reads_details: bool = True,
        partitions_max: int = PARTITIONS_MAX,
        first_topics: Sequence[str] = (),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            client: a connection that no other thread uses.
            reads_details: whether ``result`` has min.insync.replicas and the lacking bytes.
            first_topics: topics whose partitions come first among partitions that are equally close to min.insync.replicas.
        """
        self.result = RecoveringReplicas()
        self._checked_at_s = float("-inf")  # When the last check without an error began.
        self.detail_error: ClusterError | None = None  # Why min.insync.replicas of some topics is unknown.
        self._client = client
        self._reads_details = reads_details
        self._partitions_max = partitions_max
        self._first_topics = tuple(first_topics)
        self._monotonic = monotonic
        self._noted: frozenset[str] = frozenset()
        self._brokers: frozenset[int] | None = None  # None if not read yet.
        self._seen_s: dict[int, float] = {}  # When each broker was last alive.
        self._min_in_sync: dict[str, int] = {}
        self._min_in_sync_at_s: dict[str, float] = {}
        self._tiered: set[str] = set()  # Topics that used remote storage when their minimum was read.
        # By partition: the recovering replicas on living brokers when the bytes were read, and the bytes.
        self._lacking: dict[TopicPartition, tuple[frozenset[int], int]] = {}
        # By broker: the bytes of its replicas outside the ISR, and since when their number has not changed.
        self._unchanged: dict[int, tuple[int, float]] = {}
        self._progress_at_s = float("-inf")
        # Topics with recovering replicas that are stuck, or beyond ``PARTITIONS_MAX``.
        self._unreported_topics = frozenset[str]()
        self._next_full_s = self._next_check_s = float("-inf")

    def note(self, states: Iterable[PartitionState]) -> None:
        """Notes the topics with replicas outside the ISR, from a reading of all partitions that was made for another purpose."""
        self._noted = frozenset(s.topic for s in states if len(s.isr) < len(s.replicas))

    def run(self, stop: threading.Event, on_error: Callable[[ClusterError | None], None]) -> None:
        """Checks once a second, or less often if a check takes long, until ``stop`` is set.

        Args:
            on_error: called after each check, with its error.
        """
        while not stop.wait(CHECK_EVERY_S):
            try:
                self.check()
            except ClusterError as error:
                on_error(error)
            except Exception as error:  # noqa: BLE001 - without its thread, the last result would stay for ever
                on_error(ClusterError(f"{type(error).__name__}: {error}"))
            else:
                on_error(self.detail_error)

    def check(self) -> None:
        """Updates ``result``, unless the last check took so long that a pause is due.

        Raises:
            ClusterError: the cluster does not answer, or a right is missing; ``result`` stays as it is.
        """
        began_s = self._monotonic()
        brokers = frozenset(endpoint.node for endpoint in self._client.brokers())
        self._seen_s |= dict.fromkeys(brokers, began_s)
        if brokers != self._brokers and began_s >= self._next_full_s:
            try:
                states = self._client.partitions()
                self._publish(states, brokers, began_s)
            finally:
                self._next_full_s = self._rest_until_s(began_s)
            self._brokers = brokers  # Set only after the read has succeeded, so that a failed read is repeated.
            # The broker that answered may not know yet that another broker has returned. So the next check reads these topics
            # again.
            self.note(states)
        elif began_s >= self._next_check_s:
            noted = self._noted
            if topics := {s.topic for s in self.result.partitions} | self._unreported_topics | noted:
                self._publish(self._client.partitions(topics), brokers, began_s)
                self._next_check_s = self._rest_until_s(began_s)
            if self._noted is noted:  # Another thread may have noted other topics meanwhile.
                self._noted = frozenset()
        self._checked_at_s = began_s

    @property
    def age_s(self) -> float:
        """Seconds since the last check without an error began; infinite before the first."""
        return self._monotonic() - self._checked_at_s

    def _rest_until_s(self, began_s: float) -> float:
        now_s = self._monotonic()
        return now_s + min(_REST_S_MAX, _REST_PER_CHECK * (now_s - began_s))

    def _publish(self, states: Sequence[PartitionState], brokers: frozenset[int], now_s: float) -> None:
        before = {(s.topic, s.partition): s.recovering for s in self.result.partitions}
        absent = {b for b, seen_s in self._seen_s.items() if b not in brokers and now_s - seen_s <= ABSENT_S_MAX}
        partitions = []
        for state in states:
            if len(state.isr) == len(state.replicas):  # True for nearly all partitions.
                continue
            recovering = find_recovering(state, brokers, absent.intersection(before.get(_key(state), ())))
            if recovering:
                partitions.append(replace(state, recovering=recovering))
        if partitions:
            adding = self._client.adding_replicas()
            partitions = [s for state in partitions if (s := _without(state, adding.get(_key(state), ()))).recovering]
        topics = frozenset(s.topic for s in partitions)
        stuck = self._find_stuck(partitions, brokers, now_s)
        partitions = [s for state in partitions if (s := _without(state, stuck)).recovering]
        if self._reads_details:
            self._read_min_in_sync({s.topic for s in partitions}, now_s)
        minimum = self._min_in_sync.get
        left_out = max(0, len(partitions) - self._partitions_max)
        if left_out:
            # Sorted without the sizes, because sizes are read only for the partitions that are reported.
            partitions.sort(key=lambda s: urgency(s, minimum(s.topic), 0, self._first_topics))
            partitions = partitions[left_out:]
        if self._reads_details:
            self._read_lacking(partitions, brokers)
        lacking = self._lacking
        partitions.sort(
            key=lambda s: urgency(s, minimum(s.topic), lacking.get(_key(s), _UNKNOWN)[1], self._first_topics)
        )
        reported = tuple(partitions)
        self._unreported_topics = topics.difference(s.topic for s in reported)
        last = self.result
        result = RecoveringReplicas(
            last.partitions if reported == last.partitions else reported,
            dict(self._min_in_sync),
            {key: lacks for key, (_, lacks) in self._lacking.items()},
            left_out,
            stuck,
            last.number,
        )
        if result != last:
            is_new = any(not set(s.recovering) <= set(before.get(_key(s), ())) for s in reported)
            # A broker that has just returned may not tell the size of its logs yet. Until they are known, nothing is throttled.
            is_new = is_new or bool(result.lacking_bytes.keys() - last.lacking_bytes.keys())
            self.result = replace(result, number=last.number + is_new)

    def _read_min_in_sync(self, topics: Collection[str], now_s: float) -> None:
        """Reads min.insync.replicas of topics where it is unknown or old. Topics that no longer recover are forgotten."""
        self._min_in_sync = {t: n for t, n in self._min_in_sync.items() if t in topics}
        self._min_in_sync_at_s = {t: at_s for t, at_s in self._min_in_sync_at_s.items() if t in topics}
        self.detail_error = None
        due = iter(
            sorted(t for t in topics if now_s - self._min_in_sync_at_s.get(t, float("-inf")) > MIN_IN_SYNC_S_MAX)
        )
        while chunk := list(islice(due, _TOPICS_PER_REQUEST)):
            try:
                configs = self._client.effective_topic_configs(
                    chunk, [kafka_names.MIN_IN_SYNC, kafka_names.REMOTE_STORAGE]
                )
            except ClusterError as error:
                # An unknown minimum counts as not reached, so nothing holds these replicas back.
                self.detail_error = error
                continue
            for topic in chunk:
                value = configs.get(topic, {}).get(kafka_names.MIN_IN_SYNC, MIN_IN_SYNC_DEFAULT)
                self._min_in_sync[topic], self._min_in_sync_at_s[topic] = int(value), now_s
                if is_tiered(configs.get(topic, {})):
                    self._tiered.add(topic)
                else:
                    self._tiered.discard(topic)

    def _find_stuck(
        self, partitions: Sequence[PartitionState], brokers: frozenset[int], now_s: float
    ) -> frozenset[int]:
        """Returns the brokers whose replicas outside the ISR have not grown for ``STUCK_S_MIN``."""
        by_broker: dict[int, list[TopicPartition]] = {}
        for state in partitions:
            for broker in brokers.intersection(state.recovering):
                by_broker.setdefault(broker, []).append(_key(state))
        if now_s - self._progress_at_s >= PROGRESS_EVERY_S:
            self._progress_at_s = now_s
            unchanged = {}
            for broker, sizes in self._client.log_sizes_by_broker(by_broker).items():
                if isinstance(sizes, ClusterError):
                    continue
                size = sum(sizes.get(key, 0) for key in by_broker[broker])
                known = self._unchanged.get(broker)
                unchanged[broker] = known if known is not None and known[0] == size else (size, now_s)
            self._unchanged = unchanged
        return frozenset(
            b for b, (_, since_s) in self._unchanged.items() if b in by_broker and now_s - since_s >= STUCK_S_MIN
        )

    def _read_lacking(self, partitions: Sequence[PartitionState], brokers: frozenset[int]) -> None:
        """Reads the lacking bytes of partitions whose recovering replicas are new, or whose broker has returned."""
        copying = {_key(s): brokers.intersection(s.recovering) for s in partitions}
        known = {key: self._lacking[key] for key in copying if key in self._lacking}
        due = {_key(s): s for s in partitions if not copying[_key(s)] <= known.get(_key(s), (frozenset[int](), 0))[0]}
        if due:
            hosted: dict[int, list[TopicPartition]] = {}
            for key, state in due.items():
                for broker in {state.leader, *copying[key]}:
                    hosted.setdefault(broker, []).append(key)
            log_sizes = self._client.log_sizes_by_broker(hosted)
            sizes = with_copied_bytes(self._client, log_sizes, due.values(), self._tiered).by_broker
            for key, state in due.items():
                lacks = _lacking_bytes(state, copying[key], sizes)
                if lacks is not None:
                    known[key] = (copying[key], lacks)
        self._lacking = {key: (replicas & copying[key], lacks) for key, (replicas, lacks) in known.items()}


def find_recovering(state: PartitionState, brokers: Collection[int], absent: Collection[int] = ()) -> tuple[int, ...]:
    """Returns the recovering replicas of a partition; none without a leader, because nothing can be copied then.

    Args:
        brokers: the brokers that are alive.
        absent: brokers that left less than ``ABSENT_S_MAX`` ago, and whose replica of this partition was recovering.
    """
    if state.leader < 0:
        return ()
    return tuple(
        b for b in state.replicas if b not in state.isr and ((b in brokers and b not in state.offline) or b in absent)
    )


def urgency(
    state: PartitionState, min_in_sync: int | None, lacking_bytes: int, first_topics: Sequence[str] = ()
) -> tuple[IsrStanding, int, int, str, int]:
    """Returns the sort key of a recovering partition, the most urgent first: the order of ``move_order``, then the fewest bytes."""
    standing, rank = move_class(state.topic, len(state.isr), len(state.replicas), min_in_sync, first_topics)
    return standing, rank, lacking_bytes, state.topic, state.partition


def _key(state: PartitionState) -> TopicPartition:
    return state.topic, state.partition


def _lacking_bytes(
    state: PartitionState, replicas: Collection[int], sizes: Mapping[int, Mapping[TopicPartition, int] | ClusterError]
) -> int | None:
    """Returns the bytes that these replicas lack; None if a size is unknown."""
    key, led = _key(state), sizes.get(state.leader)
    if led is None or isinstance(led, ClusterError) or key not in led:
        return None
    lacking = 0
    for broker in replicas:
        own = sizes.get(broker)
        if own is None or isinstance(own, ClusterError):
            return None
        lacking += max(0, led[key] - own.get(key, 0))
    return lacking


def _without(state: PartitionState, brokers: Collection[int]) -> PartitionState:
    """Returns the partition without its recovering replicas on these brokers."""
    if not brokers:
        return state
    return replace(state, recovering=tuple(b for b in state.recovering if b not in brokers))
