"""`rheostat status --watch`: what the status page shows, in a terminal: how far, how fast, since when, why.

It looks at the cluster, the signals and the journal by itself, so it works beside a tuner, without one, and where the tuner's
port cannot be reached. What cannot be seen for a moment is said, and the picture before it stays.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from kafka import KafkaConsumer
from rich.console import Console, Group
from rich.live import Live

from rheostat.config.settings import Settings
from rheostat.console.rich_console import console_for
from rheostat.errors import EXIT_DONE
from rheostat.reassign.plan_input import open_client
from rheostat.run.services import probe, stop_on_signals
from rheostat.status.evaluation import StatusEvaluator
from rheostat.status.journal import JournalFollower
from rheostat.status.plans import PlansPane
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

_FULL_EVERY = 15
_SIGNAL_BACKLOG = 400
_JOURNAL_BACKLOG = 2_000  # Records of each topic, where the journal cannot be read whole.
_FROM_THE_BEGINNING = {0: 0}


def watch(settings: Settings, wait_s: float | None = None) -> int:
    """Until Ctrl-C, or for ``wait_s``.

    Raises:
        UnreachableError: the cluster does not answer at the start.
    """
    probe(settings)
    topics, console = settings.topic_names(), console_for(sys.stdout)
    course, onlooker = RateHistory(), StatusEvaluator(settings)
    tenants: dict[str, Any] | None = None
    status: dict[str, Any] | None = None
    lines: list[str] = []
    with ExitStack() as stack:
        client = stack.enter_context(ClusterClient(settings.kafka, "rheostat-watch"))
        reading = consumer(settings.kafka, "rheostat-watch-signals")
        stack.callback(reading.close, timeout_ms=2000)
        signals = SignalReader(reading, topics.signals, settings.cluster)
        journal = consumer(settings.kafka, "rheostat-watch-journal", isolation_level="read_committed")
        stack.callback(journal.close, timeout_ms=2000)
        ordering = consumer(settings.kafka, "rheostat-watch-orders", isolation_level="read_committed")
        stack.callback(ordering.close, timeout_ms=2000)
        looks, plans = (
            ClusterReader(client),
            PlansPane(KafkaReassignmentActuator(stack.enter_context(open_client(settings)))),
        )
        quotas = QuotaClient(settings.kafka, "rheostat-watch-quotas")
        stack.callback(quotas.close)
        held = TenantsPane(settings, quotas.mutation_quotas)
        stop = stop_on_signals()
        shown = stack.enter_context(Live(console=console, auto_refresh=False)) if console.is_terminal else None
        signals.rewind(_SIGNAL_BACKLOG)
        until_s = None if wait_s is None else time.monotonic() + wait_s
        number, (followed, tails, unread) = 0, start_following(settings.cluster, topics, journal, ordering)
        trouble = unread
        while not stop.is_set():
            live = _look(looks, full=number % _FULL_EVERY == 0)
            if isinstance(live, LiveCluster):
                now_ms, newest = round(time.time() * 1000), followed.newest
                lines = plans.told(newest.plans if followed.is_whole else None)
                tuners = followed.tuners(now_ms)
                status = status_json(
                    settings, live, signals, newest, now_ms, onlooker, tuners=tuners, plans=plans.progress
                )
                tenants = held.told(signals, followed.quotas, newest.orders, now_ms, looks.quota_windows)
                course.take(status)
            else:
                trouble = live
            _show(render_screen(status, course, objective_ms(settings), trouble, lines, tenants), shown, console)
            if until_s is not None and time.monotonic() >= until_s:
                break
            stop.wait(REFRESH_S)
            number += 1
            signals.poll()
            now_ms = round(time.time() * 1000)
            signals.forget_old(now_ms)
            trouble = _joined(follow_new_records(followed, tails, topics.journal, now_ms), unread)
    return EXIT_DONE


def _joined(*said: str | None) -> str | None:
    return " ".join(text for text in said if text is not None) or None


def objective_ms(settings: Settings) -> float | None:
    return settings.tuner.objective.latency_ms if settings.tuner.objective is not None else None


def _look(looks: ClusterReader, *, full: bool) -> LiveCluster | str:
    """Or what is to be said instead."""
    try:
        found = looks.snapshot(full=full)
    except ClusterError as error:
        return f"The cluster is not seen now: {error}"
    return found if isinstance(found, LiveCluster) else f"The cluster is not seen now: {found.reason}"


def start_following(
    cluster: str, topics: Topics, journal: KafkaConsumer, ordering: KafkaConsumer
) -> tuple[JournalFollower, tuple[TopicTail, TopicTail], str | None]:
    """Reads the journal whole. Where that fails it reads the newest records only, so that memory and plans are not known.

    Args:
        journal: reads both topics at first, and follows the journal's after that.
        ordering: follows the orders' topic.

    Returns:
        What was read, what follows both topics from there on, and what to say to the operator where not all could be read.
    """
    followed, ends = JournalFollower(cluster), dict[str, dict[int, int]]()
    try:
        for record in read_journal(journal, topics.journal, ends=ends):
            followed.take(record)
    except (JournalError, *KAFKA_ERRORS) as error:
        followed = JournalFollower(cluster)
        tails = TopicTail(journal, topics.journal), TopicTail(ordering, topics.orders)
        trouble = f"What the tuner remembers is not known here, so neither is all that is next: {error}"
        newest = (record for tail in tails for record in tail.read_recent(_JOURNAL_BACKLOG))
        return followed, tails, _joined(_take_all(followed, newest, topics.journal), trouble)
    followed.is_whole = True
    # All records of a topic that is made later are new.
    return (
        followed,
        (
            TopicTail(journal, topics.journal, ends.get(topics.journal, _FROM_THE_BEGINNING)),
            TopicTail(ordering, topics.orders, ends.get(topics.orders, _FROM_THE_BEGINNING)),
        ),
        None,
    )


def follow_new_records(followed: JournalFollower, tails: Sequence[TopicTail], journal: str, now_ms: int) -> str | None:
    """Takes in what has come since. Returns what to say where the journal cannot be read for a moment.

    Args:
        now_ms: by the clock that tells how old a tuner's report is. The records are dated by it, as the brokers' clock may differ.
    """
    return _take_all(followed, (record for tail in tails for record in tail.poll()), journal, now_ms)


def _take_all(followed: JournalFollower, records: Iterator[Any], journal: str, at_ms: int | None = None) -> str | None:
    """Takes in the records, as written at ``at_ms`` if that is given."""
    try:
        for record in map(journal_record_of, records):
            if is_in_its_topic(record, journal):
                followed.take(record if at_ms is None else record._replace(at_ms=at_ms))
    except KAFKA_ERRORS as error:
        return f"The journal cannot be read now: {error}"
    return None


def _show(made: Group, shown: Live | None, console: Console) -> None:
    if shown is not None:
        shown.update(made, refresh=True)
    else:
        console.print(made)
        console.file.flush()
