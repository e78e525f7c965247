"""Sends operator orders (`rheostat pause`, `resume`, `override`, `release`) to the tuner through the orders topic.

A running tuner applies an order within a cycle; if no tuner runs, the next tuner that starts applies it. Only ``release`` does not
wait for a tuner: if no tuner is active, the command itself acts as a tuner until all settings are restored.
"""

from __future__ import annotations

import getpass
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import kafka.errors

from rheostat.config.settings import Settings
from rheostat.errors import BadInputError, CommandError, NotAcknowledgedError, UnreachableError
from rheostat.orders.acknowledgement import unacknowledged_text
from rheostat.run.services import probe, run_tune
from rheostat.tuner_presence import active_tuner, read_tuners
from streaming.shared.contract import Side
from streaming.shared.kafka import consumer
from streaming.shared.kafka.clients import READ_ONCE_WAIT_MS
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, Unreachable
from streaming.shared.throttle_settings import RATE_KEYS
from streaming.shared.topics import ensure_topics
from streaming.shared.units import rate_text
from tuner.api.orders_api import (
    KafkaOrderService,
    OrderChange,
    OrderNotRecorded,
    begin_trial_change,
    cleared_change,
    end_override_change,
    end_trial_change,
    override_change,
    pause_change,
    release_change,
    resume_change,
)
from tuner.api.sentences import moment
from tuner.control.cordon.model import CordonMemory
from tuner.control.log_dir.model import LogDirMemory
from tuner.control.log_dir.policy import log_dir_name
from tuner.control.mutation_quota.state import MutationMemory
from tuner.control.throttle.state import Memory
from tuner.core.cluster import BrokerSide, side_name
from tuner.core.operator_orders import Orders, QuotaTrialKind
from tuner.core.presence import TunerMode
from tuner.journal.kafka_journal import JournalError, KafkaJournal
from tuner.settings.http import HttpSettings

ACKNOWLEDGED_S_MAX = 15.0
# Longest time without progress; the whole release may take minutes, since the tuner restores brokers in batches.
RELEASED_S_MAX = 90.0
_POLL_S = 0.5


def operator_text(now_ms: int) -> str:
    """Returns who gives an order, and when: ``user@host, time``."""
    return f"{_operator()}, {moment(now_ms)}"


def _operator() -> str:
    return f"{getpass.getuser()}@{socket.gethostname()}"


# -- order changes for ``submit`` ----------------------------------------------------------------------------------------


def pause(orders: Orders, now_ms: int) -> Orders:
    return pause_change(_operator())(orders, now_ms)


def resume(orders: Orders, now_ms: int) -> Orders:
    return resume_change(_operator())(orders, now_ms)


def release(orders: Orders, now_ms: int) -> Orders:
    return release_change(_operator())(orders, now_ms)


def override(rates: Mapping[BrokerSide, int], duration_s: float) -> OrderChange:
    return override_change(rates, duration_s, _operator())


def end_override(broker: int, side: Side | None = None) -> OrderChange:
    return end_override_change(broker, _operator(), side)


def clear(settings: Sequence[str]) -> OrderChange:
    """Returns the change that records the removal of throttles; ``settings`` has a text for each."""
    return cleared_change(settings, _operator())


def begin_trial(kind: QuotaTrialKind, for_s: float) -> OrderChange:
    """Returns the change that records the start of a trial; ``for_s`` is the longest time that the trial can take."""
    return begin_trial_change(kind, for_s, _operator())


def end_trial(kind: QuotaTrialKind, total_per_s: float | None = None) -> OrderChange:
    """Returns the change that records the end of a trial; ``total_per_s`` is the total rate that a calibration has measured."""
    return end_trial_change(kind, _operator(), total_per_s)


# -- checks, writes and reads --------------------------------------------------------------------------------------------


def check_rate(settings: Settings, rate_bytes_per_s: float) -> int:
    """Returns the rate of an override, in whole bytes/s.

    Raises:
        BadInputError: the rate is below 1 byte/s, or above the active tuner's maximum; without an active tuner, the maximum in
            the settings file counts.
        CommandError: the journal topic, where tuners report themselves, cannot be read.
    """
    tuner = active_tuner(read_tuners(settings, round(time.time() * 1000)))
    # An order precedes the schedule, so the highest ceiling of any time bounds it.
    max_rate = settings.tuner.highest_ceiling_bytes_per_s
    if tuner is not None:
        max_rate = max(tuner.rate_bytes_per_s_max, tuner.highest_ceiling_bytes_per_s or 0.0)
    place = "in the settings" if tuner is None else f"in the settings of the active tuner, {tuner.holder}"
    if round(rate_bytes_per_s) < 1:
        raise BadInputError(
            "--throttle: expected at least 1 B/s. A throttle of 0 stops the move: cancel the move instead."
        )
    if rate_bytes_per_s > max_rate:
        raise BadInputError(
            f"--throttle {rate_text(rate_bytes_per_s)} is above tuner.rate_bytes_per_s_max ({rate_text(max_rate)}), which no "
            f"override may exceed: give a lower rate, or raise the maximum {place}."
        )
    return round(rate_bytes_per_s)


def current_rates(settings: Settings, broker: int) -> dict[BrokerSide, int | None]:
    """Returns both throttles of a broker (bytes/s); None if no throttle is set.

    Raises:
        BadInputError: no such broker is alive.
        UnreachableError, CommandError: the brokers or the rates cannot be read.
    """
    probe(settings)
    with ClusterClient(settings.kafka, "rheostat-orders") as client:
        try:
            brokers = sorted(endpoint.node for endpoint in client.brokers())
            if broker not in brokers:
                raise BadInputError(f"--broker {broker} is not alive; alive are {', '.join(map(str, brokers))}")
            configs = client.broker_configs([broker], RATE_KEYS.values())[broker]
            if isinstance(configs, ClusterError):
                raise configs
        except Unreachable as error:
            raise UnreachableError(str(error)) from error
        except ClusterError as error:
            raise CommandError(str(error)) from error
    return {(broker, side): int(configs[key].value) if key in configs else None for side, key in RATE_KEYS.items()}


def submit(settings: Settings, change: OrderChange) -> Orders:
    """Writes the changed orders to the orders topic, and returns them.

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


class RecordedOrders(NamedTuple):
    """The newest orders, and the tuner's state in the journal.

    Attributes:
        memory: the tuner's state for throttles.
        quotas: the tuner's state for mutation quotas.
        log_dirs: the tuner's state for log directory throttles.
        cordons: the tuner's state for cordons.
        holdings: the settings that tuners of this cluster name manage, in words; empty means they manage no settings.
        holdings_by_alias: the settings that tuners of other cluster names manage on this Kafka cluster, in words, by name.
        blocked: why no tuner may become active with this journal, and what to do; None if a tuner may become active.
    """

    orders: Orders = Orders()
    memory: Memory = Memory()
    quotas: MutationMemory = MutationMemory()
    log_dirs: LogDirMemory = LogDirMemory()
    cordons: CordonMemory = CordonMemory()
    holdings: str = ""
    holdings_by_alias: Mapping[str, str] = {}
    blocked: str | None = None


def read_orders(settings: Settings, brokers: Collection[int] | None = None) -> RecordedOrders:
    """Reads the newest orders and the tuner's state.

    Args:
        brokers: the brokers that are alive: settings that other cluster names manage on brokers outside this list are left out.
            None means that no settings are left out.

    Raises:
        CommandError: the journal cannot be read.
    """
    reader = consumer(
        settings.kafka, "rheostat-orders", isolation_level="read_committed", fetch_max_wait_ms=READ_ONCE_WAIT_MS
    )
    try:
        return _read(reader, settings, brokers)
    except JournalError as error:
        raise CommandError(str(error)) from error
    finally:
        reader.close(timeout_ms=2000)


def _read(reader: kafka.KafkaConsumer, settings: Settings, brokers: Collection[int] | None) -> RecordedOrders:
    journal = KafkaJournal.read_only(settings.topic_names().journal, settings.cluster)
    memory = journal.recover(reader)
    return RecordedOrders(
        orders=journal.orders,
        memory=memory,
        quotas=journal.quotas,
        log_dirs=journal.log_dirs,
        cordons=journal.cordons,
        holdings=journal.holdings,
        holdings_by_alias=journal.cluster_aliases.holdings_by_name(brokers),
        blocked=journal.blocked,
    )


def wrong_cluster_name(settings: Settings) -> str | None:
    """Returns a sentence with the cluster name that the settings should probably have; None if their name is plausible.

    The name in the settings is probably wrong if only tuners of another name manage settings on this Kafka cluster.

    Raises:
        UnreachableError, CommandError: the journal cannot be read.
    """
    probe(settings)
    recorded = read_orders(settings)
    if recorded.holdings or not recorded.holdings_by_alias:
        return None
    name, holdings = next(iter(recorded.holdings_by_alias.items()))
    return (
        f"cluster: the journal has no settings managed under the name {settings.cluster!r} on this Kafka cluster. The name "
        f"{name!r} has {holdings}; until that is restored, only a tuner with that name acts: give `cluster: {name}` in the settings"
    )


def wait_until_acknowledged(settings: Settings, orders: Orders, timeout_s: float = ACKNOWLEDGED_S_MAX) -> bool:
    """Waits until a tuner has recorded that it follows these orders; returns whether one has.

    Args:
        timeout_s: the longest wait. If no running tuner can follow orders, the function does not wait.

    Raises:
        CommandError: the journal cannot be read.
    """
    tuners = read_tuners(settings, round(time.time() * 1000))
    if all(tuner.mode is TunerMode.DRY_RUN for tuner in tuners):  # Also if no tuner runs.
        timeout_s = 0.0

    def is_acknowledged() -> bool:
        recorded = read_orders(settings)
        memory, quotas = recorded.memory, recorded.quotas
        # The quota controller acknowledges separately, but only an acknowledgement about managed quotas matters.
        return memory.orders_at_ms >= orders.at_ms and (not quotas.owned or quotas.orders_at_ms >= orders.at_ms)

    return _wait_until(is_acknowledged, timeout_s)


def why_not_acknowledged(settings: Settings) -> str:
    """Returns sentences that say why no tuner has acknowledged an order.

    Raises:
        CommandError: the journal cannot be read.
    """
    if (mistake := wrong_cluster_name(settings)) is not None:
        return f"{mistake[:1].upper()}{mistake[1:]}."
    return unacknowledged_text(read_tuners(settings, round(time.time() * 1000)))


def release_all(settings: Settings, orders: Orders, timeout_s: float = RELEASED_S_MAX) -> list[str]:
    """Waits until a tuner has restored every managed setting, and acts as that tuner if no other is active.

    Args:
        timeout_s: the longest wait without progress.

    Returns:
        A line for each setting that is not restored.

    Raises:
        NotAcknowledgedError: no tuner has acknowledged the order within that time.
        CommandError: no setting could be restored.
    """
    # The tuner runs without its HTTP server, because only the service's user may be able to read the files with tokens and keys.
    tuner_settings = settings.tuner.model_copy(update={"dry_run": False, "http": HttpSettings(port=0)})
    stop = threading.Event()
    errors: list[Exception] = []

    def run_tuner() -> None:
        try:
            run_tune(settings.model_copy(update={"tuner": tuner_settings}), stop)
        except Exception as error:  # noqa: BLE001 - raised again below
            errors.append(error)

    thread = threading.Thread(target=run_tuner, name="release", daemon=True)
    thread.start()

    def count_remaining() -> int:
        """Returns how many settings are not restored, plus one if the order is not acknowledged; 0 after an error ends the wait."""
        if errors:
            return 0
        recorded = read_orders(settings)
        if recorded.blocked is not None and active_tuner(read_tuners(settings, round(time.time() * 1000))) is None:
            errors.append(CommandError(recorded.blocked))
            return 0
        memory, quotas = recorded.memory, recorded.quotas
        list_entries = sum(len(throttle.for_side(side).pairs) for throttle in memory.listed.values() for side in Side)
        is_unacknowledged = memory.orders_at_ms < orders.at_ms
        owned = len(memory.owned) + len(quotas.owned) + len(recorded.log_dirs.owned) + len(recorded.cordons.brokers)
        return owned + list_entries + int(is_unacknowledged)

    try:
        wait_until_released(count_remaining, timeout_s)
    finally:
        stop.set()
        thread.join(timeout=30)
    if errors:
        raise CommandError(f"No setting could be restored: {errors[0]}") from errors[0]
    recorded = read_orders(settings)
    if recorded.memory.orders_at_ms < orders.at_ms:
        raise NotAcknowledgedError(
            f"The release is recorded, but it is unknown which settings are restored yet. {why_not_acknowledged(settings)}"
        )
    return _remaining_lines(recorded)


def _remaining_lines(recorded: RecordedOrders) -> list[str]:
    """Returns a line for each setting that rheostat still manages."""
    memory, quotas = recorded.memory, recorded.quotas
    rate_lines = [
        f"{side_name(side)}: {rate_text(owned.setpoint_bytes_per_s)} is not restored"
        for side, owned in sorted(memory.owned.items())
    ]
    list_lines = [f"topic {topic}: its lists of throttled replicas are not restored" for topic in sorted(memory.listed)]
    quota_lines = [f"{entity}: {owned.setpoint_per_s:g}/s is not restored" for entity, owned in quotas.owned.items()]
    log_dir_lines = [
        f"{log_dir_name(broker)}: {rate_text(owned.setpoint_bytes_per_s)} is not restored"
        for broker, owned in sorted(recorded.log_dirs.owned.items())
    ]
    cordon_lines = [
        f"broker {broker}: its cordon is not lifted"
        if recorded.cordons.owned[broker].is_written
        else f"broker {broker}: a request to cordon this broker got no answer; if the request still takes effect, the tuner lifts "
        "the cordon"
        for broker in recorded.cordons.brokers
    ]
    return rate_lines + list_lines + quota_lines + log_dir_lines + cordon_lines


def wait_until_released(
    count_remaining: Callable[[], int],
    timeout_s: float,
    *,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] | None = None,
) -> None:
    """Waits until no setting remains, or until their number has not fallen for ``timeout_s``."""
    sleep = sleep or threading.Event().wait
    fewest, since_s = count_remaining(), monotonic()
    while fewest and monotonic() - since_s <= timeout_s:
        sleep(_POLL_S)
        if (remaining := count_remaining()) < fewest:
            fewest, since_s = remaining, monotonic()


def _wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        threading.Event().wait(_POLL_S)
    return True
