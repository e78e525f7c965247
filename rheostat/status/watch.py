"""Runs `rheostat status --watch`: shows the content of the status page in a terminal, refreshed every 2 s.

The command reads the cluster, the signals and the journal itself, so it works with or without a tuner. If one of these sources
cannot be read, the screen says so and keeps its last content.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import count
from typing import Any

from kafka import KafkaConsumer
from rich.console import Console, Group
from rich.live import Live

from rheostat.config.settings import Settings
from rheostat.console.rich_console import console_for
from rheostat.errors import EXIT_DONE
from rheostat.metrics_cluster import metrics_client, metrics_consumer
from rheostat.reassign.plan_input import open_client
from rheostat.run.services import probe, stop_on_signals
from rheostat.status.cordons import read_cordon_rows
from rheostat.status.evaluation import StatusEvaluator
from rheostat.status.journal import JournalFollower, JournalState
from rheostat.status.lease_holders import read_lease_holders
from rheostat.status.log_dirs import copying_brokers, read_log_dirs
from rheostat.status.plans import PlansPane
from rheostat.status.readings import FurtherReadings
from rheostat.status.report import status_json
from rheostat.status.screen import REFRESH_S, RateHistory, render_screen
from rheostat.status.tenants import TenantsPane
from streaming.shared.contract import Topics
from streaming.shared.kafka import consumer
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.kafka.quotas import QuotaClient
from tuner.core.cluster import LiveCluster
from tuner.journal.topic_reader import JournalError, is_in_its_topic, journal_record_of, read_journal
from tuner.journal.topic_tail import KAFKA_ERRORS, TopicTail
from tuner.runtime.observe.cluster_reader import ClusterReader
from tuner.runtime.observe.signals_reader import SignalReader
from tuner.runtime.reassignment.actuator import KafkaReassignmentActuator

_FULL_READ_EVERY = 15  # In refreshes; the refreshes in between read only values that change often.
_JOURNAL_BACKLOG = 2_000  # Records per topic, if the journal cannot be read completely.
_FROM_THE_BEGINNING = {0: 0}  # Next offset by partition; the journal and orders topics have one partition.


class _Connections:
    """The cluster connections of one watch; ``stack`` closes them."""

    def __init__(self, settings: Settings, stack: ExitStack) -> None:
        def open_consumer(name: str, **options: Any) -> KafkaConsumer:
            opened = consumer(settings.kafka, f"rheostat-watch-{name}", **options)
            stack.callback(opened.close, timeout_ms=2000)
            return opened

        self.client = stack.enter_context(ClusterClient(settings.kafka, "rheostat-watch"))
        self.metrics_client = stack.enter_context(metrics_client(self.client, settings))
        self.cluster = ClusterReader(self.client)
        signal_consumer = metrics_consumer(settings, "rheostat-watch-signals")
        stack.callback(signal_consumer.close, timeout_ms=2000)
        self.signals = SignalReader(signal_consumer, settings.topic_names().signals, settings.cluster)
        self.journal_consumer = open_consumer("journal", isolation_level="read_committed")
        self.order_consumer = open_consumer("orders", isolation_level="read_committed")
        self.reassignments = KafkaReassignmentActuator(stack.enter_context(open_client(settings)))
        self.quotas = QuotaClient(settings.kafka, "rheostat-watch-quotas")
        stack.callback(self.quotas.close)


def watch(settings: Settings, duration_s: float | None = None) -> int:
    """Shows the status until Ctrl-C, or for ``duration_s`` seconds, and returns the exit code.

    Raises:
        UnreachableError: the cluster does not answer at the start.
    """
    probe(settings)
    topics, console = settings.topic_names(), console_for(sys.stdout)
    rates, evaluator = RateHistory(), StatusEvaluator(settings)
    tenants: dict[str, Any] | None = None
    status: dict[str, Any] | None = None
    plan_lines: list[str] = []
    leases: dict[str, Any] = {}
    with ExitStack() as stack:
        connections = _Connections(settings, stack)
        cluster, signals = connections.cluster, connections.signals
        plans_pane = PlansPane(connections.reassignments)
        tenants_pane = TenantsPane(settings, connections.quotas.mutation_quotas)
        stop = stop_on_signals()
        display = stack.enter_context(Live(console=console, auto_refresh=False)) if console.is_terminal else None
        signals.rewind()
        until_s = None if duration_s is None else time.monotonic() + duration_s
        journal, tails, incomplete_text = start_following(
            settings.cluster, topics, connections.journal_consumer, connections.order_consumer
        )
        trouble = incomplete_text
        cordons: list[dict[str, Any]] = []
        for refresh in count():
            if stop.is_set():
                break
            is_full = refresh % _FULL_READ_EVERY == 0
            live = _read_cluster(cluster, full=is_full)
            if isinstance(live, str):
                trouble = live
            else:
                now_ms, state = round(time.time() * 1000), journal.state
                plan_lines = plans_pane.lines(state.plans if journal.is_complete else None)
                tuners, plans = journal.tuners(now_ms), plans_pane.progress
                log_dirs = _read_log_dirs(connections.client, signals, state, live)
                if is_full:
                    leases = read_lease_holders(connections.metrics_client, settings.metrics_cluster, topics)
                    cordons = _read_cordons(connections.client, state, live)
                readings = FurtherReadings(
                    tuners=tuners, leases=leases, plans=plans, log_dirs=log_dirs, cordons=cordons
                )
                status = status_json(settings, live, signals, state, now_ms, readings, evaluator)
                tenants = tenants_pane.evaluate(signals, journal.quotas, state.orders, now_ms, cluster.quota_windows)
                rates.add(status)
            screen = render_screen(status, rates, trouble, plan_lines, tenants)
            _show(screen, display, console)
            if until_s is not None and time.monotonic() >= until_s:
                break
            stop.wait(REFRESH_S)
            signals.poll()
            now_ms = round(time.time() * 1000)
            signals.forget_old(now_ms)
            trouble = _join(follow_new_records(journal, tails, topics.journal, now_ms), incomplete_text)
    return EXIT_DONE


def _join(*sentences: str | None) -> str | None:
    return " ".join(text for text in sentences if text is not None) or None


def _read_cluster(cluster: ClusterReader, *, full: bool) -> LiveCluster | str:
    """Reads the cluster; returns a sentence for the operator if that fails."""
    try:
        live = cluster.snapshot(full=full)
    except ClusterError as error:
        return f"The cluster cannot be read now: {error}"
    return live if isinstance(live, LiveCluster) else f"The cluster cannot be read now: {live.reason}"


def _read_log_dirs(
    client: ClusterClient, signals: SignalReader, state: JournalState, live: LiveCluster
) -> list[dict[str, Any]]:
    """Returns the copies between log directories on the brokers that copy according to their signals or to the journal.

    Asking all brokers for all of their partitions at each refresh would load the cluster too much.
    """
    managed = state.log_dirs.owned
    try:
        return read_log_dirs(client, copying_brokers(signals.brokers, managed) & live.brokers, signals.brokers, managed)
    except ClusterError:
        return []  # The next refresh reads the cluster again, and reports an error.


def _read_cordons(client: ClusterClient, state: JournalState, live: LiveCluster) -> list[dict[str, Any]]:
    """Returns the cordoned log directories of the brokers that answer."""
    try:
        return read_cordon_rows(client, live.brokers, state.cordons)
    except ClusterError:
        return []  # The next refresh reads the cluster again, and reports an error.


def start_following(
    cluster: str, topics: Topics, journal_consumer: KafkaConsumer, order_consumer: KafkaConsumer
) -> tuple[JournalFollower, tuple[TopicTail, TopicTail], str | None]:
    """Reads the whole journal. If that fails, reads only the newest records, so the tuner's state and plans stay unknown.

    Args:
        journal_consumer: reads both topics at first, then follows the journal topic.
        order_consumer: follows the orders topic.

    Returns:
        The journal's state, the tails that follow both topics from there on, and a sentence for the operator if the read was
        incomplete.
    """
    journal, ends = JournalFollower(cluster), dict[str, dict[int, int]]()
    try:
        for record in read_journal(journal_consumer, topics.journal, ends=ends):
            journal.apply(record)
    except (JournalError, *KAFKA_ERRORS) as error:
        journal = JournalFollower(cluster)
        tails = TopicTail(journal_consumer, topics.journal), TopicTail(order_consumer, topics.orders)
        trouble = f"The tuner's state cannot be read, so the next steps are incomplete: {error}"
        newest = (record for tail in tails for record in tail.read_recent(_JOURNAL_BACKLOG))
        return journal, tails, _join(_add(journal, newest, topics.journal), trouble)
    journal.is_complete = True
    # A topic that is created later is read from its beginning.
    return (
        journal,
        (
            TopicTail(journal_consumer, topics.journal, ends.get(topics.journal, _FROM_THE_BEGINNING)),
            TopicTail(order_consumer, topics.orders, ends.get(topics.orders, _FROM_THE_BEGINNING)),
        ),
        None,
    )


def follow_new_records(
    journal: JournalFollower, tails: Sequence[TopicTail], journal_topic: str, now_ms: int
) -> str | None:
    """Adds the new records to ``journal``. Returns a sentence for the operator if they cannot be read now.

    Args:
        now_ms: this machine's time; it replaces the time in the records, because the brokers' clocks may differ.
    """
    return _add(journal, (record for tail in tails for record in tail.poll()), journal_topic, now_ms)


def _add(journal: JournalFollower, records: Iterator[Any], journal_topic: str, at_ms: int | None = None) -> str | None:
    """Adds the records, with ``at_ms`` as their time if it is given; returns a sentence if they cannot be read."""
    try:
        for record in map(journal_record_of, records):
            if is_in_its_topic(record, journal_topic):
                journal.apply(record if at_ms is None else record._replace(at_ms=at_ms))
    except KAFKA_ERRORS as error:
        return f"The journal cannot be read now: {error}"
    return None


def _show(screen: Group, display: Live | None, console: Console) -> None:
    if display is not None:
        display.update(screen, refresh=True)
    else:
        console.print(screen)
        console.file.flush()
