"""`rheostat pause | resume | override | release`: a person's word to the tuner, through the orders' topic.

It works with a running tuner, which heeds it within a cycle, and without one: then the next that starts heeds it. Only
``release`` does not wait for that; it becomes a tuner itself for as long as it takes, unless another acts.
"""

from __future__ import annotations

import getpass
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import kafka.errors

from rheostat.config.settings import Settings
from rheostat.errors import BadInputError, CommandError, NotAcknowledgedError, UnreachableError
from rheostat.orders.acknowledgement import unacknowledged_text
from rheostat.run.services import probe, run_tune
from rheostat.tuner_presence import acting_tuner, read_tuners
from streaming.shared.contract import Side
from streaming.shared.kafka import consumer
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, Unreachable
from streaming.shared.throttle_settings import RATE_KEYS
from streaming.shared.topics import ensure_topics
from streaming.shared.units import rate_text
from tuner.api.orders_api import (
    KafkaOrderService,
    OrderChange,
    OrderNotRecorded,
    end_override_change,
    override_change,
    pause_change,
    release_change,
    resume_change,
)
from tuner.api.sentences import moment
from tuner.control.mutation_quota.state import MutationMemory
from tuner.control.throttle.state import Memory
from tuner.core.cluster import BrokerSide, side_name
from tuner.core.operator_orders import Orders
from tuner.core.presence import TunerMode
from tuner.journal.kafka_journal import JournalError, KafkaJournal
from tuner.settings.http import HttpSettings

ACKNOWLEDGED_S_MAX = 15.0
RELEASED_S_MAX = 90.0  # Without anything having been put back: a large cluster's brokers are, in batches, for minutes.
_POLL_S = 0.5


def operator_text(now_ms: int) -> str:
    return f"{_user()}, {moment(now_ms)}"


def _user() -> str:
    return f"{getpass.getuser()}@{socket.gethostname()}"


def pause(orders: Orders, now_ms: int) -> Orders:
    return pause_change(_user())(orders, now_ms)


def resume(orders: Orders, now_ms: int) -> Orders:
    return resume_change(_user())(orders, now_ms)


def release(orders: Orders, now_ms: int) -> Orders:
    return release_change(_user())(orders, now_ms)


def override(sides: Mapping[BrokerSide, int], for_s: float) -> OrderChange:
    return override_change(sides, for_s, _user())


def end_override(broker: int, side: Side | None = None) -> OrderChange:
    return end_override_change(broker, _user(), side)


def checked_rate(settings: Settings, rate_bytes_per_s: float) -> int:
    """The rate of an override, in whole bytes/s.

    The ceiling is the one of the tuner that acts; without one, that of the settings.

    Raises:
        BadInputError: it is above the ceiling, or less than the byte a second that is the least Kafka can hold to.
        CommandError: whether a tuner acts cannot be read.
    """
    tuner = acting_tuner(read_tuners(settings, round(time.time() * 1000)))
    most = settings.tuner.rate_bytes_per_s_max if tuner is None else tuner.rate_bytes_per_s_max
    where = "in the settings" if tuner is None else f"in the settings of the tuner that acts, {tuner.holder}"
    if round(rate_bytes_per_s) < 1:
        raise BadInputError("--rate: expected at least 1 B/s: a throttle of 0 stops what moves; cancel it instead")
    if rate_bytes_per_s > most:
        raise BadInputError(
            f"--rate {rate_text(rate_bytes_per_s)} is above tuner.rate_bytes_per_s_max ({rate_text(most)}), which is never "
            f"exceeded: give less, or raise it {where}"
        )
    return round(rate_bytes_per_s)


def current_rates(settings: Settings, broker: int) -> dict[BrokerSide, int | None]:
    """The throttles that hold on a broker now, bytes/s; None where there is none.

    Raises:
        BadInputError: there is no such broker now.
        UnreachableError, CommandError: the brokers or the rates cannot be read.
    """
    probe(settings)
    with ClusterClient(settings.kafka, "rheostat-orders") as client:
        try:
            brokers = sorted(endpoint.node for endpoint in client.brokers())
            if broker not in brokers:
                raise BadInputError(f"--broker {broker}: not alive here; alive are {', '.join(map(str, brokers))}")
            configs = client.broker_configs([broker], RATE_KEYS.values())[broker]
            if isinstance(configs, ClusterError):
                raise configs
        except Unreachable as error:
            raise UnreachableError(str(error)) from error
        except ClusterError as error:
            raise CommandError(str(error)) from error
    return {(broker, side): int(configs[key].value) if key in configs else None for side, key in RATE_KEYS.items()}


def submit(settings: Settings, change: OrderChange) -> Orders:
    """Puts the orders, changed, on record.

    Raises:
        UnreachableError, CommandError: the topic cannot be read or written.
    """
    probe(settings)
    topics = settings.topic_names()
    with ClusterClient(settings.kafka, "rheostat-orders") as client:
        try:
            ensure_topics(client, topics, [topics.orders])
        except Unreachable as error:
            raise UnreachableError(str(error)) from error
        except ClusterError as error:
            raise CommandError(str(error)) from error
    order_service = KafkaOrderService(
        settings.kafka, topics.orders, settings.cluster, lambda: read_orders(settings).orders, time.time
    )
    try:
        return order_service.submit(change)
    except OrderNotRecorded as error:
        raise CommandError(f"{str(error)[:1].upper()}{str(error)[1:]}.") from error


class KnownOrders(NamedTuple):
    """What is ordered, and what the tuner remembers."""

    orders: Orders = Orders()
    memory: Memory = Memory()
    quotas: MutationMemory = MutationMemory()
    held: str = ""  # What is on record as set by a tuner of this name, in words.
    elsewhere: Mapping[str, str] = {}  # The same of other names of the cluster.
    blocked: str | None = None  # Why no tuner may begin to act by this record, and what to do; None: one may.


def read_orders(settings: Settings, brokers: Collection[int] | None = None) -> KnownOrders:
    """
    Args:
        brokers: that are alive: what other names have on others hinders nobody. None: all may be.

    Raises:
        CommandError: the journal cannot be read.
    """
    reader = consumer(settings.kafka, "rheostat-orders", isolation_level="read_committed")
    try:
        return _read(reader, settings, brokers)
    except JournalError as error:
        raise CommandError(str(error)) from error
    finally:
        reader.close(timeout_ms=2000)


def _read(reader: kafka.KafkaConsumer, settings: Settings, brokers: Collection[int] | None) -> KnownOrders:
    journal = KafkaJournal.read_only(settings.topic_names().journal, settings.cluster)
    memory = journal.recover(reader)
    return KnownOrders(
        journal.orders,
        memory,
        journal.quotas,
        journal.holdings,
        journal.cluster_aliases.holdings_by_name(brokers),
        journal.blocked,
    )


def wrong_cluster_name(settings: Settings) -> str | None:
    """What the settings' ``cluster`` may be a mistake for, in words: a name that has something on record, where theirs has nothing.

    Raises:
        UnreachableError, CommandError: the journal cannot be read.
    """
    probe(settings)
    known = read_orders(settings)
    if known.held or not known.elsewhere:
        return None
    name, what = next(iter(known.elsewhere.items()))
    return (
        f"cluster: {settings.cluster!r} has nothing on record on this Kafka cluster, {name!r} has {what}, and until that is "
        f"ended only a tuner of that name acts: give `cluster: {name}` in the settings"
    )


def wait_until_acknowledged(settings: Settings, orders: Orders, timeout_s: float = ACKNOWLEDGED_S_MAX) -> bool:
    """Whether a tuner has put on record that it knows these orders.

    Args:
        timeout_s: the longest wait; where no tuner runs that could follow orders there is none.

    Raises:
        CommandError: the journal cannot be read.
    """
    tuners = read_tuners(settings, round(time.time() * 1000))
    if all(tuner.mode is TunerMode.DRY_RUN for tuner in tuners):
        timeout_s = 0.0

    def done() -> bool:
        _, memory, quotas, *_ = read_orders(settings)
        return memory.orders_at_ms >= orders.at_ms and (not quotas.owned or quotas.orders_at_ms >= orders.at_ms)

    return _until(done, timeout_s)


def why_not_acknowledged(settings: Settings) -> str:
    """Why no tuner has acknowledged an order, in words.

    Raises:
        CommandError: the journal cannot be read.
    """
    if (other := wrong_cluster_name(settings)) is not None:
        return f"{other[:1].upper()}{other[1:]}."
    return unacknowledged_text(read_tuners(settings, round(time.time() * 1000)))


def release_all(settings: Settings, orders: Orders, timeout_s: float = RELEASED_S_MAX) -> list[str]:
    """Sees ``release`` through, with the tuner that acts or as one; what is still ours after it, in words.

    Args:
        timeout_s: as long as something has been put back within it, it is waited for the rest.

    Raises:
        NotAcknowledgedError: no tuner has taken up the order within that time.
        CommandError: nothing could be taken back.
    """
    quiet = settings.tuner.model_copy(
        update={"dry_run": False, "http": HttpSettings(port=0)}  # Tokens and keys may be for the daemon's eyes alone.
    )
    stop = threading.Event()
    failed: list[Exception] = []

    def act() -> None:
        try:
            run_tune(settings.model_copy(update={"tuner": quiet}), stop)
        except Exception as error:  # noqa: BLE001 - told to the person who waits for it
            failed.append(error)

    hand = threading.Thread(target=act, name="release", daemon=True)
    hand.start()

    def left() -> int:
        """How much is ours; one more where nobody has acknowledged the order yet. None where none can be taken back."""
        known = read_orders(settings)
        if known.blocked is not None and acting_tuner(read_tuners(settings, round(time.time() * 1000))) is None:
            failed.append(CommandError(known.blocked))
        memory, quotas = known.memory, known.quotas
        pairs = sum(len(each.for_side(side).pairs) for each in memory.listed.values() for side in Side)
        ours = len(memory.owned) + pairs + len(quotas.owned)
        return 0 if failed else ours + (memory.orders_at_ms < orders.at_ms)

    try:
        wait_until_released(left, timeout_s)
    finally:
        stop.set()
        hand.join(timeout=30)
    if failed:
        raise CommandError(f"Nothing could be taken back: {failed[0]}") from failed[0]
    _, memory, quotas, *_ = read_orders(settings)
    if memory.orders_at_ms < orders.at_ms:
        raise NotAcknowledgedError(
            f"The release is on record, and what is still set is not known. {why_not_acknowledged(settings)}"
        )
    rates = [
        f"{side_name(side)}: {rate_text(o.setpoint_bytes_per_s)} is still ours"
        for side, o in sorted(memory.owned.items())
    ]
    lists = [f"topic {topic}: entries of ours are still on its lists" for topic in sorted(memory.listed)]
    still = [f"{entity}: {owned.setpoint_per_s:g}/s is still ours" for entity, owned in quotas.owned.items()]
    return rates + lists + still


def wait_until_released(
    left: Callable[[], int],
    timeout_s: float,
    *,
    monotonic: Callable[[], float] = time.monotonic,
    pause: Callable[[float], object] | None = None,
) -> None:
    """Returns as well when it has become no less for so long."""
    pause = pause or threading.Event().wait
    least, since_s = left(), monotonic()
    while least and monotonic() - since_s <= timeout_s:
        pause(_POLL_S)
        if (now := left()) < least:
            least, since_s = now, monotonic()


def _until(probe_: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not probe_():
        if time.monotonic() > deadline:
            return False
        threading.Event().wait(_POLL_S)
    return True
