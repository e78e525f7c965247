"""Builds the readers of Kafka. Readers of signals, history, orders and the lease live as long as the process.

The reader of recovering replicas lives for one leadership term.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

from kafka import KafkaConsumer

from streaming.shared.contract import Topics
from streaming.shared.kafka import KafkaSettings, consumer
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka.recovery import RecoveryFinder
from streaming.shared.kafka.unpacking import UnreadableBatch
from streaming.shared.lease import ASSIGNORS, Lease, create_lease_consumer, lease_group
from streaming.shared.teardown import named_teardown
from tuner.api.status_store import StatusStore
from tuner.api.week_store import WeekStore
from tuner.runtime.clock import Clock
from tuner.runtime.observe.background_reader import POLL_RECORDS_MAX, BackgroundReader
from tuner.runtime.observe.history_follower import history_follower
from tuner.runtime.observe.journal_follower import journal_follower
from tuner.runtime.observe.orders_reader import OrdersReader
from tuner.runtime.observe.profiles_follower import profiles_follower
from tuner.runtime.observe.profiles_reader import ProfilesReader
from tuner.runtime.observe.recovery_watch import RecoveryWatch
from tuner.runtime.observe.signals_connection import SignalsConnection
from tuner.runtime.observe.signals_reader import SignalReader
from tuner.wiring.status import StatusStores

# These consumers commit nothing, so they may close fast. A stopping tuner closes its clients one after the other. If no broker
# answers, that takes 14 s: lease 5, journal 2, recorder of the inputs 5, and these two consumers 1 each.
_CLOSE_MS = 1_000
_JOURNAL_RECORDS_MAX = 200  # Entries of the journal that one poll may unpack; an entry has about a kilobyte.


def signal_reader(
    cleanups: ExitStack,
    cluster: str,
    kafka: KafkaSettings,
    watched_kafka: KafkaSettings,
    topics: Topics,
    status: StatusStore,
    clock: Clock,
) -> SignalReader:
    """Returns a reader of the signals topic; ``status`` counts the records that it refuses.

    Args:
        kafka: the metrics cluster. If it is another cluster than the watched one, the tuner does not wait for it.
        watched_kafka: the watched cluster.
    """
    in_background = kafka != watched_kafka
    create_consumer = partial(consumer, kafka, "rheostat-tuner-signals")
    client = None
    if not in_background:
        client = create_consumer()
        cleanups.callback(named_teardown("signals consumer", partial(client.close, timeout_ms=_CLOSE_MS)))
    signals = SignalReader(client, topics.signals, cluster, monotonic=clock.monotonic_s)
    if in_background:
        connection = SignalsConnection(create_consumer, signals.attach)
        connection.start()
        cleanups.callback(named_teardown("signals consumer", connection.stop))
    status.refused["signals"] = lambda: signals.refused.count
    return signals


def follow_profiles(
    cleanups: ExitStack,
    cluster: str,
    kafka: KafkaSettings,
    topics: Topics,
    status: StatusStore,
    signals: SignalReader,
    weeks: WeekStore,
) -> None:
    """Starts the thread that passes the profiles and events of `rheostat learn` to ``signals`` and ``weeks``."""

    def hand_over(reader: ProfilesReader) -> None:
        signals.profiles = weeks.profiles = dict(reader.profiles)
        weeks.events = reader.events
        status.refused["profiles"] = lambda: reader.refused.count

    # "earliest": if the topic was deleted and created again, all its records are new.
    create_consumer = partial(consumer, kafka, "rheostat-tuner-profiles", auto_offset_reset="earliest")
    reader = profiles_follower(create_consumer, topics.profiles, cluster, hand_over)
    reader.start()
    cleanups.callback(named_teardown("profiles reader", reader.stop))


def history_readers(
    cleanups: ExitStack,
    kafka: KafkaSettings,
    watched_kafka: KafkaSettings,
    topics: Topics,
    stores: StatusStores,
    clock: Clock,
) -> None:
    """Starts the threads that fill the history of brokers and the history of the journal. Each begins with its first request.

    Args:
        kafka: the metrics cluster, which has the history topic.
        watched_kafka: the watched cluster, which has the journal.
    """
    # "earliest": if a topic was deleted and created again, all its records are new.
    week_consumer = partial(
        consumer, kafka, "rheostat-tuner-week", auto_offset_reset="earliest", max_poll_records=POLL_RECORDS_MAX
    )
    # An act is performed only after its entry is committed, so uncommitted entries are skipped.
    journal_consumer = partial(
        consumer,
        watched_kafka,
        "rheostat-tuner-journal-history",
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        max_poll_records=_JOURNAL_RECORDS_MAX,
    )
    readers: tuple[BackgroundReader, ...] = (
        history_follower(week_consumer, topics.history, stores.weeks, clock),
        journal_follower(journal_consumer, topics.journal, stores.journal),
    )
    for reader in readers:
        reader.start()
        cleanups.callback(named_teardown("history reader", reader.stop))


def recovery_finder(cleanups: ExitStack, kafka: KafkaSettings, first_topics: Sequence[str]) -> RecoveryFinder:
    """Returns a finder of recovering replicas with a connection of its own.

    Args:
        first_topics: the topics that the operator wants to recover first.
    """
    client = ClusterClient(kafka, "rheostat-tuner-recovery")
    cleanups.callback(named_teardown("recovery client", client.close))
    return RecoveryFinder(client, first_topics=first_topics)


def recovery_watch(cleanups: ExitStack, finder: RecoveryFinder) -> RecoveryWatch:
    """Returns a running watch for recovering replicas."""
    watch = RecoveryWatch(finder)
    watch.start()
    cleanups.callback(named_teardown("recovery watch", watch.stop))
    return watch


def orders_reader(
    cleanups: ExitStack,
    cluster: str,
    kafka: KafkaSettings,
    topics: Topics,
    status: StatusStore,
    clock: Clock,
    *,
    dry_run: bool,
) -> OrdersReader:
    """Returns a reader of operator orders; ``status`` counts the records that it refuses.

    Args:
        dry_run: whether the tuner runs dry. If it does, the reader also follows the plans in the journal, because another tuner
            executes them.
    """
    unreadable_batches: list[UnreadableBatch] = []
    # "earliest": if the topic was deleted and created again, all its records are new.
    client = consumer(
        kafka, "rheostat-tuner-orders", on_unreadable_batch=unreadable_batches.append, auto_offset_reset="earliest"
    )
    cleanups.callback(named_teardown("orders consumer", lambda: client.close(timeout_ms=_CLOSE_MS)))
    journal: tuple[KafkaConsumer, str] | None = None
    if dry_run:
        plans_client = consumer(kafka, "rheostat-tuner-plan-records")
        cleanups.callback(named_teardown("plans consumer", lambda: plans_client.close(timeout_ms=_CLOSE_MS)))
        journal = plans_client, topics.journal
    orders = OrdersReader(
        client,
        topics.orders,
        cluster,
        journal,
        unreadable_batches=unreadable_batches,
        monotonic=clock.monotonic_s,
    )
    status.refused["orders"] = lambda: orders.refused.count
    return orders


def leadership_lease(cleanups: ExitStack, cluster: str, kafka: KafkaSettings, topics: Topics) -> Lease:
    """Returns this tuner's lease, which it has not acquired yet.

    All tuners of the cluster are members of one consumer group. The member to which Kafka assigns the journal topic's partition has
    the lease.
    """
    group = lease_group(cluster)
    create_consumer = partial(create_lease_consumer, kafka, "rheostat-tuner-lease", group, ASSIGNORS)
    lease = Lease(create_consumer, topics.journal, group)
    cleanups.callback(named_teardown("lease", lease.leave))
    return lease
