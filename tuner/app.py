"""The composition root: builds the tuner's clients and controllers, and closes them in reverse order.

The order of construction is the order of dependencies. Each part is registered for closing right after it is built, so that a
failure halfway closes everything that exists.

    run_tuner    the process: HTTP server, readers, lease; then one leadership term after another
    _run_terms   waits for the lease and takes up changed settings between two terms
    _run_term    the journal and the controllers of one term
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version

import structlog
from kafka.errors import KafkaError
from prometheus_client.registry import Collector

from streaming.shared.contract import Topics
from streaming.shared.kafka import KafkaSettings, producer
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.lease import Lease, lease_group
from streaming.shared.teardown import named_teardown
from streaming.shared.thread_watch import ThreadWatch
from tuner.api.api_state import OtherPages
from tuner.api.health import TunerHealth
from tuner.api.load_history import load_history
from tuner.api.orders_api import KafkaOrderService
from tuner.api.plan_service import PlanService
from tuner.api.server import HttpServer
from tuner.core.partition_limits import PartitionLimits
from tuner.core.presence import TunerPresence
from tuner.journal.input_log import InputLog
from tuner.journal.journal_topic import JournalTopic
from tuner.journal.kafka_journal import JournalError, KafkaJournal
from tuner.journal.outbox import Outbox
from tuner.journal.read_ahead import ReadAhead
from tuner.journal.term_entries import begin_term_entry, settings_in_force
from tuner.journal.transactions import transactional_settings
from tuner.runtime.clock import Clock
from tuner.runtime.external.webhooks import Webhooks
from tuner.runtime.gc_tuning import shorten_gil_switch, tune_gc
from tuner.runtime.leadership_term import Controllers, serve
from tuner.runtime.observe.cluster_reader import ClusterReader
from tuner.runtime.observe.orders_reader import OrdersReader
from tuner.runtime.observe.signals_reader import SignalReader
from tuner.runtime.presence import PresenceReporter, current_presence
from tuner.runtime.reload import NoReloads, Reloads, show_settings
from tuner.runtime.standby import Standby, journal_reader
from tuner.settings.schedule_periods import SettingsSchedule
from tuner.settings.tuner import TunerSettings
from tuner.wiring.context import TermContext
from tuner.wiring.cordon import cordon_controller
from tuner.wiring.cruise_control import cruise_control_controller
from tuner.wiring.external import tuner_webhooks, veto_watch
from tuner.wiring.http import PortError, http_server
from tuner.wiring.leadership import leadership_controller
from tuner.wiring.log_dir import log_dir_controller
from tuner.wiring.mutation_quota import mutation_quota_controller
from tuner.wiring.readers import (
    follow_profiles,
    history_readers,
    leadership_lease,
    orders_reader,
    recovery_finder,
    recovery_watch,
    signal_reader,
)
from tuner.wiring.reassignment import reassignment_executor
from tuner.wiring.replication_lag import lag_monitor
from tuner.wiring.schedule import schedule_follower
from tuner.wiring.status import StatusStores, status_stores
from tuner.wiring.steering import settings_snapshot
from tuner.wiring.throttle import throttle_controller

log = structlog.get_logger("tuner")


@dataclass(frozen=True, slots=True, kw_only=True)
class TunerHooks:
    """Connections between ``run_tuner`` and its caller.

    Attributes:
        process_metrics: metrics of the process itself.
        on_started: called once the HTTP server answers, with the health of the tuner.
        reloads: settings that change while the tuner runs.
        threads: names threads that have ended by an exception; None if such threads are not reported.
        plan_service: previews and records plans for the status page; None if the page refuses plans.
    """

    process_metrics: Collector | None = None
    on_started: Callable[[HttpServer, TunerHealth], None] = lambda *_: None
    reloads: Reloads = field(default_factory=NoReloads)
    threads: ThreadWatch | None = None
    plan_service: PlanService | None = None


@dataclass(slots=True)
class _Settings:
    """The settings of the file; a reload replaces them between two leadership terms.

    Attributes:
        schedule: returns the settings in force, which the rules of the file's schedule change.
    """

    schedule: SettingsSchedule
    partition_limits: PartitionLimits | None


def _holder_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


@dataclass(frozen=True, slots=True)
class _Process:
    """The parts that live as long as the process.

    Attributes:
        leadership: the lease, and the watch over the journal's topic; None in a dry run, which needs no lease.
        holder: the name of this tuner in the lease and in the journal: its host and process id.
        outbox: events that a term could not write into the journal; the next term writes them.
    """

    cluster: str
    kafka: KafkaSettings
    topics: Topics
    clock: Clock
    stop: threading.Event
    status: StatusStores
    client: ClusterClient
    standby: Standby
    signals: SignalReader
    orders: OrdersReader
    webhooks: Webhooks
    leadership: tuple[Lease, JournalTopic] | None
    holder: str = field(default_factory=_holder_name)
    outbox: Outbox = field(default_factory=Outbox)

    @property
    def lease(self) -> Lease | None:
        return self.leadership[0] if self.leadership is not None else None

    def leave_group(self) -> None:
        """Gives up the lease, if there is one."""
        if self.leadership is not None:
            named_teardown("lease", self.leadership[0].leave)()


def run_tuner(
    cluster: str,
    kafka: KafkaSettings,
    topics: Topics,
    settings: TunerSettings,
    stop: threading.Event,
    *,
    metrics_kafka: KafkaSettings | None = None,
    other_pages: OtherPages = (),
    partition_limits: PartitionLimits | None = None,
    hooks: TunerHooks | None = None,
    clock: Clock | None = None,
) -> None:
    """Runs until ``stop`` is set. While the cluster does not answer, it tries again with increasing pauses.

    One tuner of a cluster holds the lease and acts; the others stand by. A tuner in a dry run needs no lease.

    Args:
        metrics_kafka: the connection to the metrics cluster, which has signals, history and profiles; None means ``kafka``.
        other_pages: name and status page of each other cluster.

    Raises:
        PortError: the server cannot listen on its port.
        CredentialsError: the tokens or the certificate cannot be used.
        JournalError: this version cannot read the journal.
    """
    tune_gc()
    shorten_gil_switch()
    hooks, clock = hooks or TunerHooks(), clock or Clock()
    current = _Settings(SettingsSchedule(settings), partition_limits)
    with ExitStack() as cleanups:
        status = status_stores(cluster, settings, partition_limits, hooks.threads, clock)
        show_settings(current.schedule.at(clock.now_ms()), partition_limits, status.throttles, status.quotas)
        server = http_server(
            settings.http,
            status,
            hooks.process_metrics,
            KafkaOrderService(kafka, topics.orders, cluster, status.observers.orders, clock.wall_s),
            plan_service=hooks.plan_service,
            other_pages=other_pages,
            cycle_s=settings.cycle_s,
            clock=clock,
        )
        server.start()
        cleanups.callback(named_teardown("http server", server.stop))
        hooks.on_started(server, TunerHealth(status.throttles, settings.cycle_s))

        client = ClusterClient(kafka, "rheostat-tuner")
        cleanups.callback(named_teardown("admin client", client.close))
        standby = Standby(client, status.throttles, stop)
        signals_kafka = metrics_kafka or kafka
        if not standby.wait_for_topics(topics, acts=not settings.dry_run, has_signals=signals_kafka == kafka):
            return
        signals = standby.try_until_connected(
            partial(signal_reader, cleanups, cluster, signals_kafka, kafka, topics, status.throttles, clock)
        )
        if signals is None:
            return
        follow_profiles(cleanups, cluster, signals_kafka, topics, status.throttles, signals, status.weeks)
        status.observers.on_new_cycle(lambda: status.mutations.update(signals, clock.now_ms()))
        history_readers(cleanups, signals_kafka, kafka, topics, status, clock)
        orders = orders_reader(cleanups, cluster, kafka, topics, status.throttles, clock, dry_run=settings.dry_run)
        leadership: tuple[Lease, JournalTopic] | None = None
        if not settings.dry_run:
            lease = leadership_lease(cleanups, cluster, kafka, topics)
            leadership = (lease, JournalTopic(client, topics, on_recreated=named_teardown("lease", lease.leave)))
        webhooks = tuner_webhooks(cleanups, cluster, status)
        process = _Process(
            cluster, kafka, topics, clock, stop, status, client, standby, signals, orders, webhooks, leadership
        )
        reporter = _presence_reporter(process, current, settings.http.address(server.port))
        reporter.start()
        cleanups.callback(named_teardown("presence", reporter.stop))
        log.info("tuner started", cluster=cluster, dry_run=settings.dry_run, http_port=server.port)
        _run_terms(process, current, hooks.reloads)
        log.info("tuner stopped")


def _presence_reporter(process: _Process, current: _Settings, page: str) -> PresenceReporter:
    since_ms = process.clock.now_ms()

    def presence() -> TunerPresence:
        return current_presence(
            process.status.throttles,
            current.schedule.at(process.clock.now_ms()).settings,
            holder=process.holder,
            version=version("rheostat"),
            page=page,
            since_ms=since_ms,
        )

    return PresenceReporter(
        partial(producer, process.kafka, "rheostat-tuner-presence", linger_ms=0),
        process.topics.journal,
        process.cluster,
        process.holder,
        presence,
        process.clock,
    )


def _run_terms(process: _Process, current: _Settings, reloads: Reloads) -> None:
    """Runs one leadership term after another until the process stops."""
    read_ahead: ReadAhead | None = None

    def show_period() -> None:
        """Makes the status of a standby follow the schedule."""
        period = current.schedule.at(process.clock.now_ms())
        show_settings(period, current.partition_limits, process.status.throttles, process.status.quotas)

    while not process.stop.is_set():
        if process.leadership is not None:
            lease, journal_topic = process.leadership
            if read_ahead is None:
                make_consumer = partial(journal_reader, process.kafka)
                topic_ids, journal = process.client.topic_ids, process.topics.journal
                read_ahead = ReadAhead(make_consumer, journal, process.cluster, topic_ids, process.outbox.times_ms)
            if not process.standby.wait_for_lease(lease, journal_topic, read_ahead, show_period):
                break
        if reloads.waiting():
            settings, current.partition_limits = reloads.take()
            current.schedule = SettingsSchedule(settings)
        if _run_term(process, current, read_ahead, reloads):
            read_ahead = None  # The read-ahead was made before this term, so it lacks the records of this term.


def _run_term(process: _Process, current: _Settings, read_ahead: ReadAhead | None, reloads: Reloads) -> bool:
    """Takes over the journal and runs the controllers until the term ends.

    Args:
        read_ahead: the part of the journal that this tuner read while it stood by; None if nothing was read.

    Returns:
        Whether the whole journal was read, so that ``read_ahead`` is out of date.
    """
    period = current.schedule.at(process.clock.now_ms())
    settings, standby, orders, status = period.settings, process.standby, process.orders, process.status
    show_settings(period, current.partition_limits, status.throttles, status.quotas)
    lease = process.lease
    inputs = InputLog(
        settings_snapshot(settings),
        run=f"{process.holder}:{process.clock.wall_s():.3f}",
        program=version("rheostat"),
        wall_clock=process.clock.wall_s,
    )
    try:
        journal = _journal(process, inputs)
    except KafkaError as error:
        standby.pause(f"the journal has no producer: {type(error).__name__}: {error}")
        return False
    with ExitStack() as cleanups:
        cleanups.callback(named_teardown("journal", journal.close))
        if lease is not None and not standby.take_over(journal):
            return False
        memory = standby.recover_memory(journal, process.kafka, process.outbox, read_ahead, process.leave_group)
        if memory is None:
            return False
        orders.begin(journal.orders_next_offsets, journal.next_offsets)
        if lease is not None and not standby.ensure_only_tuner(journal, lease, process.kafka):
            return True
        orders.set_earlier_orders(journal.orders, journal.superseded_orders, journal.orders_history)
        _start_loading_history(process)
        process.webhooks.configure(settings.webhooks, dry_run=settings.dry_run)
        context = _term_context(process, period.settings, current, journal, inputs, cleanups)
        in_force = settings_in_force(settings.limits(), settings.control_objective())
        term = begin_term_entry(
            process.holder, version("rheostat"), in_force, process.clock.now_ms(), dry_run=settings.dry_run
        )
        process.outbox.entries.append(term)
        throttles = throttle_controller(context, process.client, memory)
        log.info(
            "active" if lease is not None else "dry run: the tuner decides, but writes nothing",
            holder=process.holder,
            owned=len(memory.owned),
            rate_bytes_per_s_max=settings.rate_bytes_per_s_max,
            has_objective=settings.objective is not None,
        )
        quotas = mutation_quota_controller(context, status.quotas)
        cordons = cordon_controller(context, status.cordons)
        plans = reassignment_executor(context, status.plans, throttles, cordons)
        log_dirs = log_dir_controller(context, status.log_dirs)
        cruise_control = cruise_control_controller(context, status.cruise_control, throttles)
        lag = lag_monitor(context, status.lag)
        leadership = leadership_controller(context, status.leadership)
        controllers = Controllers(throttles, quotas, plans, log_dirs, lag, cordons, cruise_control, leadership)
        serve(
            controllers,
            status.throttles,
            journal=journal,
            lease=lease,
            reloads=reloads,
            cluster_error=standby.cluster_error,
            orders_error=orders.unreadable,
            follow_schedule=schedule_follower(context, current.schedule, period, controllers, status),
            cycle_s=settings.cycle_s,
            stop=process.stop,
            clock=process.clock,
        )
        status.quotas.clear()
        status.plans.clear()
        status.log_dirs.clear()
        status.cordons.clear()
        status.lag.clear()
        status.cruise_control.clear()
        status.leadership.clear()
        if journal.lost:
            process.leave_group()
    return True


def _journal(process: _Process, inputs: InputLog) -> KafkaJournal:
    """Returns a journal that is not read yet. With a lease, a transactional producer fences off earlier leaders.

    Raises:
        KafkaError: the producer cannot be created.
    """
    lease = process.lease
    is_fenced = lease is not None
    transactional = transactional_settings(lease_group(process.cluster)) if is_fenced else {}
    return KafkaJournal(
        producer(process.kafka, "rheostat-tuner-journal", linger_ms=0, **transactional),
        process.topics.journal,
        process.cluster,
        holder=process.holder,
        fenced=is_fenced,
        monotonic=process.clock.monotonic_s,
        inputs=inputs,
        group_silent_s=lease.silent_s if lease is not None else lambda: 0.0,
    )


def _start_loading_history(process: _Process) -> None:
    """Reads decisions of earlier terms for the API, in a thread of its own."""
    add_entries = process.status.observers.load_history
    load = partial(load_history, process.kafka, process.topics.journal, process.cluster, add_entries)
    threading.Thread(target=load, name="earlier decisions", daemon=True).start()


def _term_context(
    process: _Process,
    settings: TunerSettings,
    current: _Settings,
    journal: KafkaJournal,
    inputs: InputLog,
    cleanups: ExitStack,
) -> TermContext:
    finder = recovery_finder(cleanups, process.kafka, settings.first_topics) if settings.recovery != "off" else None
    live = ClusterReader(process.client, finder.note if finder is not None else None)
    process.status.throttles.read_internal = lambda: live.internal
    return TermContext(
        process.cluster,
        process.kafka,
        process.topics,
        settings,
        current.schedule.file_settings,
        current.partition_limits,
        live=live,
        signals=process.signals,
        orders=process.orders,
        journal=journal,
        inputs=inputs,
        observers=process.status.observers,
        outbox=process.outbox,
        cleanups=cleanups,
        clock=process.clock,
        recoveries=recovery_watch(cleanups, finder) if finder is not None else None,
        vetoes=veto_watch(cleanups, settings, process.status.external, process.clock),
    )


__all__ = ["JournalError", "PortError", "TunerHooks", "run_tuner"]
