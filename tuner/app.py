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
from dataclasses import replace
from functools import partial
from importlib.metadata import version

import structlog
from kafka.errors import KafkaError
from prometheus_client.registry import Collector
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    sleep_using_event,
    stop_when_event_set,
    wait_exponential_jitter,
)

from streaming.contract import Topics
from streaming.kafka import KafkaSettings, consumer, producer
from streaming.kafka.cluster import ClusterClient, ClusterError
from streaming.kafka.quotas import QuotaClient
from streaming.kafka.reassignments import ReassignmentClient
from streaming.topics import ensure_topics
from tuner.actuate.fenced import PROOF_S_MAX, FencedThrottles, refusal
from tuner.actuate.one_call import ThreadCaller
from tuner.actuate.quotas import DryRunQuotas, KafkaQuotas
from tuner.actuate.reassignments import KafkaReassignments
from tuner.actuate.slewing import Slewing
from tuner.actuate.throttles import DryRunThrottles, KafkaThrottles, Throttles
from tuner.announcing import Announcing
from tuner.api.auth import AccessError, Role, Tokens, token
from tuner.api.before import tell_of_before
from tuner.api.board import STANDING_BY, Board
from tuner.api.http_settings import HttpSettings
from tuner.api.metrics import registry_of
from tuner.api.orders_api import KafkaDesk
from tuner.api.plan_board import PlanBoard
from tuner.api.quota_board import QuotaBoard
from tuner.api.server import HttpServer, make_app
from tuner.api.watched import Watched
from tuner.decide.mutation_orders import recalled
from tuner.decide.reassign_pace import Bounds
from tuner.interpreter import answer_soon, calm_the_collector
from tuner.journal.in_force import InForce
from tuner.journal.inputs import InputLog
from tuner.journal.journal_topic import JournalTopic
from tuner.journal.kafka_journal import JournalError, JournalUnreadable, KafkaJournal
from tuner.lease import HEARTBEAT_S, SESSION_S, Lease, group_of
from tuner.loop import LOOK_EVERY_S, Loop
from tuner.model.limits import StallLimits
from tuner.model.memory import Memory
from tuner.model.mutation import ControllerObjective
from tuner.model.partition_limits import PartitionLimits
from tuner.mutation_ledger import MutationLedger
from tuner.mutation_loop import MutationLoop
from tuner.observe.live import LiveReader
from tuner.observe.orders import OrdersReader
from tuner.observe.signals import SignalReader
from tuner.reassign_ledger import ReassignLedger
from tuner.reassigning import ANNOUNCED_S_MAX, Reassigning
from tuner.reloads import NoReloads, Reloads, shown_from_now_on
from tuner.settings import TunerSettings
from tuner.steering import Steering, writes_max

log = structlog.get_logger("tuner")

_TICK_S_MIN = 0.02
_RETRY_S_MAX = 30.0
_STAND_BY_S = 0.5
_TAKE_OVER_PAUSE_S = 2.0


class PortError(Exception):
    """The HTTP port cannot be had."""


class TokensError(PortError):
    """Tokens or certificates of tuner.http cannot be used."""


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
    wall_clock: Callable[[], float] = time.time,
    monotonic: Callable[[], float] = time.monotonic,
) -> None:
    """Runs until ``stop`` is set. A cluster that is away is waited for, with back-off. Of several tuners of a cluster one acts
    and the others stand by; one in a dry run looks on, beside them.

    Args:
        reloads: other settings, asked for in between; None: there will be none.

    Raises:
        PortError: the HTTP port cannot be had.
        TokensError: tokens or certificates cannot be used.
        JournalError: the journal holds a memory this version cannot read.
    """
    calm_the_collector()
    answer_soon()
    with ExitStack() as stack:
        board = Board(
            cluster, settings.limits(), dry_run=settings.dry_run, wall_clock=wall_clock,
            objective=settings.objective.objective() if settings.objective is not None else None,
            capacity=settings.capacity.of_most() if settings.capacity is not None else None,
            capacity_by_broker=settings.capacity.by_broker() if settings.capacity is not None else None,
            partition_limits=partition_limits,
            partitions_named_max=settings.metrics.partitions_named_max,
        )  # fmt: skip
        policy = settings.mutation_policy(partition_limits)
        quota_board = QuotaBoard(cluster, policy.objective if policy is not None else None)
        watched, http = Watched(board), settings.http
        plan_board = PlanBoard(cluster)
        registry = registry_of(board, quota_board, own, plan_board)
        try:
            app = make_app(
                board, quota_board, registry, settings.cycle_s, wall_clock,
                watched=watched,
                plans=plan_board,
                tokens=_tokens(http, monotonic),
                desk=KafkaDesk(kafka, topics.journal, cluster, watched.orders, wall_clock),
                tls=http.tls_certfile is not None,
            )  # fmt: skip
            server = HttpServer(app, http.host, http.port, tls=_certificate(http), on_stop=watched.hub.end)
        except AccessError as error:
            raise TokensError(str(error)) from error
        except OSError as error:
            raise PortError(f"{http.host}:{http.port}: {error}") from error
        server.start()
        stack.callback(_named("http server", server.stop))
        if on_started is not None:
            on_started(server)

        client = ClusterClient(kafka, "rheostat-tuner")
        stack.callback(_named("admin client", client.close))
        if not _until_reachable(lambda: _prepare(client, topics), stop):
            return
        signal_consumer = consumer(kafka, "rheostat-tuner-signals")
        stack.callback(_named("signals consumer", lambda: signal_consumer.close(timeout_ms=5000)))
        signals = SignalReader(signal_consumer, topics.signals, cluster)
        order_consumer = consumer(kafka, "rheostat-tuner-orders")
        stack.callback(_named("orders consumer", lambda: order_consumer.close(timeout_ms=5000)))
        orders = OrdersReader(order_consumer, topics.journal, cluster)
        lease: Lease | None = None
        if not settings.dry_run:
            member = partial(
                consumer, kafka, "rheostat-tuner-lease", group_id=group_of(cluster), auto_offset_reset="latest",
                session_timeout_ms=round(SESSION_S * 1000), heartbeat_interval_ms=round(HEARTBEAT_S * 1000),
            )  # fmt: skip
            lease = Lease(member, topics.journal, group_of(cluster))
            stack.callback(_named("lease", lease.leave))
            journal_topic = JournalTopic(client, topics, on_back=_named("lease", lease.leave))
        log.info("tuner started", cluster=cluster, dry_run=settings.dry_run, http_port=server.port)
        while not stop.is_set():
            if lease is not None and not _until_held(lease, journal_topic, client, board, stop):
                break
            if reloads is not None and reloads.waiting():
                settings, partition_limits = reloads.take()
                shown_from_now_on(settings, partition_limits, board, quota_board)
            fenced = lease is not None
            extra = {"transactional_id": group_of(cluster), "retry_backoff_ms": 20} if fenced else {}
            try:
                journal_producer = producer(kafka, "rheostat-tuner-journal", linger_ms=0, **extra)
            except KafkaError as error:
                _wait_for(f"the journal has no producer: {type(error).__name__}: {error}", client, board, stop)
                continue
            holder = f"{socket.gethostname()}:{os.getpid()}"
            inputs = InputLog(
                _in_force(settings),
                run=f"{holder}:{wall_clock():.3f}",
                program=version("rheostat"),
                wall_clock=wall_clock,
            )
            journal = KafkaJournal(
                journal_producer, topics.journal, cluster,
                holder=holder, fenced=fenced, monotonic=monotonic, inputs=inputs,
            )  # fmt: skip
            with ExitStack() as term:
                term.callback(_named("journal", journal.close))
                if fenced and not _taken_over(journal, client, board, stop):
                    continue
                orders.begin()
                memory = _recovered(journal, kafka, client, board, stop)
                if memory is None:
                    continue
                orders.latest = journal.orders
                before = partial(tell_of_before, kafka, topics.journal, cluster, watched.begin_with)
                threading.Thread(target=before, name="decisions of before", daemon=True).start()
                throttles: Throttles = KafkaThrottles(client)
                throttles = FencedThrottles(throttles, journal) if fenced else DryRunThrottles(throttles)
                live = LiveReader(client)
                loop = Loop(
                    live=live,
                    signals=signals,
                    throttles=throttles,
                    slewing=Slewing(throttles),
                    steering=_steering(settings, throttles, inputs),
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
                )
                log.info(
                    "acting" if fenced else "looking on", holder=holder, owned=len(memory.owned),
                    rate_bytes_per_s_max=settings.rate_bytes_per_s_max, steers=settings.objective is not None,
                )  # fmt: skip
                mutations = _mutations(
                    cluster, kafka, settings, partition_limits, journal, watched, inputs, live, signals, orders,
                    quota_board, term, wall_clock, monotonic,
                )  # fmt: skip
                plans = _plans(
                    cluster, kafka, settings, partition_limits, loop, journal, watched, plan_board, signals, orders, term,
                    wall_clock, monotonic,
                )  # fmt: skip
                _serve(
                    loop, mutations, plans, board, journal, lease, client, settings.cycle_s, stop, monotonic,
                    reloads or NoReloads(),
                )  # fmt: skip
                quota_board.stands_by()
                plan_board.stands_by()
                if journal.lost and lease is not None:
                    _named("lease", lease.leave)()
        log.info("tuner stopped")


def _recovered(
    journal: KafkaJournal, kafka: KafkaSettings, client: ClusterClient, board: Board, stop: threading.Event
) -> Memory | None:
    try:
        return _recover(journal, kafka)
    except JournalUnreadable:
        raise
    except JournalError as error:
        _wait_for(str(error), client, board, stop)
        return None
    except KafkaError as error:
        _wait_for(f"the journal has no reader: {type(error).__name__}: {error}", client, board, stop)
        return None


def _taken_over(journal: KafkaJournal, client: ClusterClient, board: Board, stop: threading.Event) -> bool:
    try:
        journal.take_over()
    except JournalError as error:
        _wait_for(str(error), client, board, stop)
        return False
    return True


def _wait_for(why: str, client: ClusterClient, board: Board, stop: threading.Event) -> None:
    log.error("cannot act yet; trying again", error=why)
    board.stands_by(_away(client) or why)
    stop.wait(_TAKE_OVER_PAUSE_S)


def _mutations(
    cluster: str,
    kafka: KafkaSettings,
    settings: TunerSettings,
    partition_limits: PartitionLimits | None,
    journal: KafkaJournal,
    watched: Watched,
    inputs: InputLog,
    live: LiveReader,
    signals: SignalReader,
    orders: OrdersReader,
    board: QuotaBoard,
    term: ExitStack,
    wall_clock: Callable[[], float],
    monotonic: Callable[[], float],
) -> MutationLoop | None:
    """None: no mutation quotas are asked for, and none of ours stands. Its client has a name of its own, as Kafka counts and
    pauses by it."""
    policy = settings.mutation_policy(partition_limits)
    if policy is None and not journal.quotas.owned:
        return None
    client = QuotaClient(kafka, "rheostat-tuner-quotas")
    term.callback(_named("quota client", client.close))
    quotas = KafkaQuotas(client)
    term.callback(quotas.end)
    dry_run, asked = settings.dry_run, settings.mutation_quota
    window_said = asked is not None and not asked.model_fields_set.isdisjoint(("quota_samples", "quota_window_s"))
    memory = recalled(journal.quotas, round(wall_clock() * 1000))
    # Who only looks on owns nothing: what a tuner that acts writes is not somebody's change of it.
    memory = replace(memory, owned={}) if dry_run else memory
    return MutationLoop(
        quotas=DryRunQuotas(quotas) if dry_run else quotas,
        caller=ThreadCaller(),
        signals=signals,
        orders=orders,
        ledger=MutationLedger(
            watched.on_record(journal.write),
            cluster,
            memory,
            wall_clock=wall_clock,
            monotonic=monotonic,
            dry_run=dry_run,
        ),
        refusal=partial(refusal, journal),
        watcher=board,
        policy=policy,
        cycle_s=asked.cycle_s if asked is not None else settings.cycle_s,
        wall_clock=wall_clock,
        monotonic=monotonic,
        dry_run=dry_run,
        inputs=inputs,
        windows=None if window_said else lambda: live.quota_windows,
    )


def _plans(
    cluster: str,
    kafka: KafkaSettings,
    settings: TunerSettings,
    partition_limits: PartitionLimits | None,
    loop: Loop,
    journal: KafkaJournal,
    watched: Watched,
    board: PlanBoard,
    signals: SignalReader,
    orders: OrdersReader,
    term: ExitStack,
    wall_clock: Callable[[], float],
    monotonic: Callable[[], float],
) -> Reassigning | None:
    """None: this tuner executes no plans. One in a dry run only says what it would begin."""
    orders.plans = None
    if not settings.reassign.enabled:
        return None
    orders.plans, orders.plans_whole = journal.plans, settings.dry_run
    for plan, why in journal.plans.unread.items():
        log.error(
            "a plan on record is not carried out: run the version of rheostat that wrote it", plan=plan, error=why
        )
    client = ReassignmentClient(kafka, "rheostat-tuner-plans")
    term.callback(_named("plans client", client.close))
    reassignments = KafkaReassignments(
        client, proved=lambda: not journal.lost and journal.proved_s_ago() <= PROOF_S_MAX
    )  # fmt: skip
    term.callback(reassignments.end)
    if settings.dry_run:
        reassignments.end()  # So that nothing can be asked for, whoever asks.
    announcing = Announcing()
    plans = Reassigning(
        reassignments=reassignments,
        caller=ThreadCaller(),
        orders=orders,
        signals=signals,
        throttling=lambda: loop.throttling,
        ledger=ReassignLedger(
            watched.on_record(journal.write), cluster, journal.plans, wall_clock=wall_clock, monotonic=monotonic
        ),
        refusal=partial(refusal, journal),
        watcher=board,
        bounds=Bounds(
            settings.reassign.limits(), settings.reassign.pace(), partition_limits or PartitionLimits(),
            settings.mutation_quota.objective.objective() if settings.mutation_quota is not None else ControllerObjective(),
        ),
        wall_clock=wall_clock,
        monotonic=monotonic,
        announcing=announcing if settings.limits().throttles_moves and not settings.dry_run else None,
        announced_s_max=max(ANNOUNCED_S_MAX, 2 * settings.cycle_s),
        dry_run=settings.dry_run,
    )  # fmt: skip
    loop.heed_plans(lambda: plans.pending_bytes, announcing)
    return plans


def _serve(
    loop: Loop,
    mutations: MutationLoop | None,
    plans: Reassigning | None,
    board: Board,
    journal: KafkaJournal,
    lease: Lease | None,
    client: ClusterClient,
    cycle_s: float,
    stop: threading.Event,
    monotonic: Callable[[], float],
    reloads: Reloads,
) -> None:
    """One term: until the lease or the journal is lost, other settings are waiting, or ``stop`` is set."""
    board.acts()
    _run(
        loop,
        mutations,
        plans,
        board,
        cycle_s,
        stop,
        monotonic,
        lambda: not journal.lost and (lease is None or lease.held()) and not reloads.waiting(),
    )
    board.stands_by("other settings are being taken up" if reloads.waiting() else None)
    if not stop.is_set() and not reloads.waiting():
        board.stands_by(_away(client))
        log.warning("another tuner has the lease, or it is not known who has: acting no more", holder=journal.holder)


def _away(client: ClusterClient) -> str | None:
    """Why nothing can be done, where the cluster does not answer at all."""
    try:
        client.brokers()
    except ClusterError as error:
        return f"the cluster is not seen: {error}"
    return None


def _until_held(
    lease: Lease, journal_topic: JournalTopic, client: ClusterClient, board: Board, stop: threading.Event
) -> bool:
    """Stands by until it is this tuner's turn (True), or ``stop`` is set (False); says whether cluster and journal are there."""
    said: str | None = None
    while not stop.is_set():
        if lease.held(_STAND_BY_S):
            return True
        waits_for = _away(client) or journal_topic.gone() or STANDING_BY
        board.stands_by(waits_for)
        if said is None or (said == STANDING_BY) != (waits_for == STANDING_BY):
            log.info(waits_for)
        said = waits_for
    return False


def _run(
    loop: Loop,
    mutations: MutationLoop | None,
    plans: Reassigning | None,
    board: Board,
    cycle_s: float,
    stop: threading.Event,
    monotonic: Callable[[], float],
    may_act: Callable[[], bool],
) -> None:
    due_s = monotonic()
    was_ready = False
    while not stop.is_set() and may_act():
        now_s = monotonic()
        if (come := loop.cycle_is_due()) or now_s >= due_s:
            loop.cycle()
            board.cycle_s = monotonic() - now_s
            ready, why = board.ready()
            if ready != was_ready:
                log.info("ready: cluster and fresh signals are seen" if ready else "not ready", why=why)
                was_ready = ready
            due_s = max((now_s if come else due_s) + cycle_s, monotonic())
        loop.tick()
        next_s = min(due_s, loop.next_due_s() or due_s, now_s + LOOK_EVERY_S if loop.awaits else due_s)
        if mutations is not None:
            mutations.tick()
            next_s = min(next_s, mutations.next_due_s())
        if plans is not None:
            try:
                plans.tick()
                next_s = min(next_s, plans.next_due_s())
            except Exception as error:  # whatever it is, the throttles have their seconds
                why = "no plan goes on until this tuner is started anew"
                log.exception(why)
                board.no_plans_why, plans = f"{why}: {type(error).__name__}: {error}", None
        stop.wait(max(_TICK_S_MIN, next_s - monotonic()))


def _steering(settings: TunerSettings, throttles: Throttles, inputs: InputLog) -> Steering | None:
    if settings.objective is None or settings.capacity is None:
        return None
    return Steering(
        throttles,
        settings.objective.objective(),
        settings.capacity.of,
        settings.law_limits(),
        writes_per_s_max=settings.config_writes_per_s_max,
        inputs=inputs,
    )


def _in_force(settings: TunerSettings) -> InForce:
    """What is on record with the inputs."""
    return InForce(
        settings.limits(),
        StallLimits(),
        settings.objective.objective() if settings.objective is not None else None,
        settings.law_limits() if settings.objective is not None else None,
        writes_max(settings.config_writes_per_s_max),
        settings.dry_run,
    )


def _tokens(http: HttpSettings, monotonic: Callable[[], float]) -> Tokens:
    """
    Raises:
        AccessError: the file of tokens cannot be used.
    """
    given = ((http.read_token, "read token", Role.READ), (http.operate_token, "operate token", Role.OPERATE))
    found = [token(secret.get_secret_value(), name, role) for secret, name, role in given if secret is not None]
    if not http.is_local and http.tls_certfile is None:
        log.warning("tokens cross the network as they are: set tuner.http.tls_certfile and tls_keyfile", host=http.host)
    return Tokens(found, http.tokens_file, monotonic=monotonic)


def _certificate(http: HttpSettings) -> tuple[str, str] | None:
    if http.tls_certfile is None or http.tls_keyfile is None:
        return None
    return http.tls_certfile, http.tls_keyfile


def _prepare(client: ClusterClient, topics: Topics) -> None:
    for complaint in ensure_topics(client, topics):
        log.warning(complaint)


def _recover(journal: KafkaJournal, kafka: KafkaSettings) -> Memory:
    # What a predecessor did not commit it did not do.
    reader = consumer(kafka, "rheostat-tuner-recovery", isolation_level="read_committed")
    try:
        memory = journal.recover(reader)
    finally:
        reader.close(timeout_ms=5000)
    for (broker, side), owned in memory.owned.items():
        log.info(
            "ours from before", broker=broker, side=side.value,
            wanted_bytes_per_s=owned.wanted_bytes_per_s, before_bytes_per_s=owned.before_bytes_per_s,
        )  # fmt: skip
    return memory


def _until_reachable(attempt: Callable[[], None], stop: threading.Event) -> bool:
    """Tries until it works (True) or ``stop`` is set (False)."""

    def say(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        wait_s = state.next_action.sleep if state.next_action is not None else 0.0
        log.error("the cluster does not answer; trying again", error=str(error), in_s=round(wait_s, 1))

    retrying = Retrying(
        retry=retry_if_exception_type(ClusterError),
        wait=wait_exponential_jitter(initial=1, max=_RETRY_S_MAX),
        stop=stop_when_event_set(stop),
        sleep=sleep_using_event(stop),
        before_sleep=say,
        reraise=True,
    )
    try:
        retrying(attempt)
    except ClusterError:
        return False
    return True


def _named(name: str, teardown: Callable[[], object]) -> Callable[[], None]:
    """A teardown that says its name when it fails, and lets the others go on."""

    def run() -> None:
        try:
            teardown()
        except Exception as error:  # noqa: BLE001 - whatever it is, the remaining teardowns must still run
            log.warning("could not be taken down", what=name, error=str(error))

    return run


__all__ = ["JournalError", "PortError", "TokensError", "run_tuner"]
