"""The composition root: the one place that builds the tuner's clients, and takes them down again, last in first out.

One straight line on purpose: the order of construction is the order in which things depend on each other, and a reader
sees it whole. Each teardown is registered on the line after its construction, so a failure halfway takes down what stands.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from importlib.metadata import version

import structlog
from kafka import KafkaConsumer
from kafka.errors import KafkaError
from prometheus_client.registry import Collector

from streaming.shared.contract import Topics
from streaming.shared.kafka import KafkaSettings, consumer, producer
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka.unpacking import RefusedBatch
from streaming.shared.teardown import named_teardown
from streaming.shared.thread_watch import ThreadWatch
from tuner.api.load_history import tell_of_before
from tuner.api.metrics import registry_of
from tuner.api.observers import Observers
from tuner.api.orders_api import KafkaOrderService
from tuner.api.plan_status_store import PlanStatusStore
from tuner.api.quota_status_store import QuotaStatusStore
from tuner.api.server import HttpServer
from tuner.api.status_store import StatusStore
from tuner.core.partition_limits import PartitionLimits
from tuner.core.presence import TunerPresence
from tuner.core.throttle_limits import StallLimits
from tuner.journal.input_log import InputLog
from tuner.journal.journal_topic import JournalTopic
from tuner.journal.kafka_journal import JournalError, KafkaJournal
from tuner.journal.outbox import Outbox
from tuner.journal.read_ahead import ReadAhead
from tuner.journal.transactions import transactional
from tuner.runtime.fencing import FencedThrottles
from tuner.runtime.gc_tuning import answer_soon, calm_the_collector
from tuner.runtime.leadership_term import serve
from tuner.runtime.lease import ASSIGNORS, HEARTBEAT_S, SESSION_S, Lease, group_of
from tuner.runtime.observe.cluster_reader import LiveReader
from tuner.runtime.observe.orders_reader import OrdersReader
from tuner.runtime.observe.signals_reader import SignalReader
from tuner.runtime.presence import PresenceReporter, presence_of
from tuner.runtime.reload import NoReloads, Reloads, shown_from_now_on
from tuner.runtime.standby import Standby, journal_reader
from tuner.runtime.throttle.actuator import DryRunThrottles, KafkaThrottles, Throttles
from tuner.runtime.throttle.loop import ThrottleController
from tuner.runtime.throttle.ramp_executor import RampExecutor
from tuner.settings.tuner import TunerSettings
from tuner.wiring.context import TermContext
from tuner.wiring.http import PortError, TokensError, door
from tuner.wiring.mutation_quota import mutations_of
from tuner.wiring.reassignment import plans_of
from tuner.wiring.steering import in_force, steering_of

log = structlog.get_logger("tuner")

# They have nothing to hand in. Whoever stops a tuner waits for all its ends one after the other: with lease (5 s), journal (2 s)
# and its inputs (5 s), where brokers do not answer, that is 14 s.
_READER_CLOSE_MS = 1_000


def run_tuner(
    cluster: str,
    kafka: KafkaSettings,
    topics: Topics,
    settings: TunerSettings,
    stop: threading.Event,
    *,
    partition_limits: PartitionLimits | None = None,
    own: Collector | None = None,
    on_started: Callable[[HttpServer], None] | None = None,
    reloads: Reloads | None = None,
    threads: ThreadWatch | None = None,
    wall_clock: Callable[[], float] = time.time,
    monotonic: Callable[[], float] = time.monotonic,
) -> None:
    """Runs until ``stop`` is set. A cluster that is away is waited for, with back-off. Of several tuners of a cluster one acts
    and the others stand by; one in a dry run looks on, beside them.

    Args:
        reloads: other settings, asked for in between; None: there will be none.
        threads: notices threads that end by an error; None: none are told.

    Raises:
        PortError: the HTTP port cannot be had.
        TokensError: tokens or certificates cannot be used.
        JournalError: the journal holds a memory this version cannot read.
    """
    calm_the_collector()
    answer_soon()
    with ExitStack() as stack:
        board = StatusStore(
            cluster,
            settings.limits(),
            dry_run=settings.dry_run,
            dry_run_by_default=settings.dry_run_by_default,
            wall_clock=wall_clock,
            objective=settings.objective.objective() if settings.objective is not None else None,
            capacity=settings.capacity.of_most() if settings.capacity is not None else None,
            capacity_by_broker=settings.capacity.by_broker() if settings.capacity is not None else None,
            partition_limits=partition_limits,
            partitions_named_max=settings.metrics.partitions_named_max,
        )
        board.threads = threads or board.threads
        policy = settings.mutation_policy(partition_limits)
        quota_board = QuotaStatusStore(cluster, policy.objective if policy is not None else None)
        watched = Observers(board)
        plan_board = PlanStatusStore(cluster)
        server = door(
            settings.http,
            board,
            quota_board,
            plan_board,
            watched,
            registry_of(board, quota_board, own, plan_board),
            KafkaOrderService(kafka, topics.orders, cluster, watched.orders, wall_clock),
            cycle_s=settings.cycle_s,
            wall_clock=wall_clock,
            monotonic=monotonic,
        )
        server.start()
        stack.callback(named_teardown("http server", server.stop))
        if on_started is not None:
            on_started(server)

        client = ClusterClient(kafka, "rheostat-tuner")
        stack.callback(named_teardown("admin client", client.close))
        standing_by = Standby(client, board, stop)
        if not standing_by.until_topics(topics, acts=not settings.dry_run):
            return
        signal_consumer = consumer(kafka, "rheostat-tuner-signals")
        stack.callback(named_teardown("signals consumer", lambda: signal_consumer.close(timeout_ms=_READER_CLOSE_MS)))
        signals = SignalReader(signal_consumer, topics.signals, cluster, monotonic=monotonic)
        board.refused["signals"] = lambda: signals.refused.count
        # Where the topic was made anew, all of it is news.
        refused_batches: list[RefusedBatch] = []
        order_consumer = consumer(
            kafka, "rheostat-tuner-orders", on_refused=refused_batches.append, auto_offset_reset="earliest"
        )
        stack.callback(named_teardown("orders consumer", lambda: order_consumer.close(timeout_ms=_READER_CLOSE_MS)))
        plans_consumer: KafkaConsumer | None = None
        if settings.dry_run:
            plans_consumer = consumer(kafka, "rheostat-tuner-plans-seen")
            stack.callback(named_teardown("plans consumer", partial(plans_consumer.close, timeout_ms=_READER_CLOSE_MS)))
        orders = OrdersReader(
            order_consumer,
            topics.orders,
            cluster,
            (plans_consumer, topics.journal) if plans_consumer is not None else None,
            refused_batches=refused_batches,
            monotonic=monotonic,
        )
        board.refused["orders"] = lambda: orders.refused.count
        lease: Lease | None = None
        if not settings.dry_run:
            member = partial(
                consumer,
                kafka,
                "rheostat-tuner-lease",
                group_id=group_of(cluster),
                auto_offset_reset="latest",
                session_timeout_ms=round(SESSION_S * 1000),
                heartbeat_interval_ms=round(HEARTBEAT_S * 1000),
                partition_assignment_strategy=ASSIGNORS,
            )
            lease = Lease(member, topics.journal, group_of(cluster))
            stack.callback(named_teardown("lease", lease.leave))
            journal_topic = JournalTopic(client, topics, on_back=named_teardown("lease", lease.leave))
        holder = f"{socket.gethostname()}:{os.getpid()}"
        since_ms = round(wall_clock() * 1000)
        page = settings.http.address(server.port)

        def presence() -> TunerPresence:
            return presence_of(
                board, settings, holder=holder, version=version("rheostat"), page=page, since_ms=since_ms
            )

        reporter = PresenceReporter(
            partial(producer, kafka, "rheostat-tuner-presence", linger_ms=0),
            topics.journal,
            cluster,
            holder,
            presence,
            wall_clock=wall_clock,
            monotonic=monotonic,
        )
        reporter.start()
        stack.callback(named_teardown("presence", reporter.stop))
        log.info("tuner started", cluster=cluster, dry_run=settings.dry_run, http_port=server.port)
        owed = Outbox()
        ahead: ReadAhead | None = None
        while not stop.is_set():
            if lease is not None:
                if ahead is None:
                    reader = partial(journal_reader, kafka)
                    ahead = ReadAhead(reader, topics.journal, cluster, client.topic_ids, owed.times_ms)
                if not standing_by.until_held(lease, journal_topic, ahead):
                    break
            if reloads is not None and reloads.waiting():
                settings, partition_limits = reloads.take()
                shown_from_now_on(settings, partition_limits, board, quota_board)
            fenced = lease is not None
            extra = transactional(group_of(cluster)) if fenced else {}
            try:
                journal_producer = producer(kafka, "rheostat-tuner-journal", linger_ms=0, **extra)
            except KafkaError as error:
                standing_by.wait_for(f"the journal has no producer: {type(error).__name__}: {error}")
                continue
            inputs = InputLog(
                in_force(settings),
                run=f"{holder}:{wall_clock():.3f}",
                program=version("rheostat"),
                wall_clock=wall_clock,
            )
            journal = KafkaJournal(
                journal_producer,
                topics.journal,
                cluster,
                holder=holder,
                fenced=fenced,
                monotonic=monotonic,
                inputs=inputs,
                group_silent_s=lease.silent_s if lease is not None else lambda: 0.0,
            )
            with ExitStack() as term:
                term.callback(named_teardown("journal", journal.close))
                if fenced and not standing_by.taken_over(journal):
                    continue
                leave = named_teardown("lease", lease.leave) if lease is not None else lambda: None
                memory = standing_by.recovered(journal, kafka, owed, ahead, leave)
                if memory is None:
                    continue
                ahead = None  # What this term does is in no memory of before.
                orders.begin(journal.orders_read_to, journal.read_to)
                if lease is not None and not standing_by.is_the_only_hand(journal, lease, kafka):
                    continue
                orders.begin_with(journal.orders, journal.overtaken, journal.given)
                before = partial(tell_of_before, kafka, topics.journal, cluster, watched.begin_with)
                threading.Thread(target=before, name="decisions of before", daemon=True).start()
                throttles: Throttles = KafkaThrottles(client)
                throttles = FencedThrottles(throttles, journal) if fenced else DryRunThrottles(throttles)
                live = LiveReader(client)
                loop = ThrottleController(
                    live=live,
                    signals=signals,
                    throttles=throttles,
                    slewing=RampExecutor(throttles, writes_per_s_max=settings.config_writes_per_s_max),
                    steering=steering_of(settings, throttles, inputs),
                    orders=orders,
                    journal=watched.on_record(journal.write),
                    watcher=watched,
                    memory=memory,
                    limits=settings.limits(),
                    stall_limits=StallLimits(),
                    wall_clock=wall_clock,
                    monotonic=monotonic,
                    writes_per_s_max=settings.config_writes_per_s_max,
                    dry_run=settings.dry_run,
                    inputs=inputs,
                    owed=owed,
                    processor_s=time.process_time,
                )
                log.info(
                    "acting" if fenced else "looking on",
                    holder=holder,
                    owned=len(memory.owned),
                    rate_bytes_per_s_max=settings.rate_bytes_per_s_max,
                    steers=settings.objective is not None,
                )
                means = TermContext(
                    cluster,
                    kafka,
                    topics,
                    settings,
                    partition_limits,
                    live=live,
                    signals=signals,
                    orders=orders,
                    journal=journal,
                    inputs=inputs,
                    watched=watched,
                    owed=owed,
                    ends=term,
                    wall_clock=wall_clock,
                    monotonic=monotonic,
                )
                mutations = mutations_of(means, quota_board)
                plans = plans_of(means, plan_board, loop)
                serve(
                    loop,
                    mutations,
                    plans,
                    board,
                    journal=journal,
                    lease=lease,
                    reloads=reloads or NoReloads(),
                    away=standing_by.away,
                    unheard=orders.unreadable,
                    cycle_s=settings.cycle_s,
                    stop=stop,
                    monotonic=monotonic,
                )
                quota_board.stands_by()
                plan_board.stands_by()
                if journal.lost and lease is not None:
                    named_teardown("lease", lease.leave)()
        log.info("tuner stopped")


__all__ = ["JournalError", "PortError", "TokensError", "run_tuner"]
