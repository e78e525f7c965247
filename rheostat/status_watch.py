"""`rheostat status --watch`: what the status page shows, in a terminal: how far, how fast, since when, why.

It looks at the cluster, the signals and the journal by itself, so it works beside a tuner, without one, and where the tuner's
port cannot be reached. What cannot be seen for a moment is said, and the picture before it stays.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from kafka import KafkaConsumer
from rich.console import Console, Group
from rich.live import Live

from rheostat.errors import EXIT_DONE
from rheostat.reassign.given import client_of
from rheostat.reassign.record import following
from rheostat.services import probe, stop_on_signals
from rheostat.settings import Settings
from rheostat.status import RECORDS, TURNS, Newest, status_json
from rheostat.status_look import Onlooker, Recalled
from rheostat.status_picture import REFRESH_S, Course, picture
from rheostat.status_plans import Plans
from rheostat.status_tenants import Tenants
from rheostat.terminal import console_of
from rheostat.tuner_presence import alive
from streaming.kafka import consumer
from streaming.kafka.cluster import ClusterClient, ClusterError
from streaming.kafka.quotas import QuotaClient
from tuner.actuate.reassignments import KafkaReassignments
from tuner.journal.entries import Entry, decode_entry, entry_prefix
from tuner.journal.order_records import decode_orders, orders_key
from tuner.journal.orders_topic import belongs
from tuner.journal.presence_records import decode_presence, presence_prefix
from tuner.journal.reading import JournalError, read_all
from tuner.model.cluster import LiveCluster
from tuner.model.mutation_memory import MutationMemory
from tuner.model.orders import Orders
from tuner.model.presence import TunerPresence
from tuner.observe.live import LiveReader
from tuner.observe.signals import TROUBLE, SignalReader, SignalTail

_FULL_EVERY = 15
_SIGNAL_BACKLOG = 400
_JOURNAL_BACKLOG = 2_000


class Followed:
    """The journal's newest, as it comes."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        rings = {"entry": "entry", "plan-entry": "entry", "turn": "turn"}  # Steps of plans are decisions, too.
        self._prefixes = {entry_prefix(ring, cluster): kind for ring, kind in rings.items()}
        self._entries: dict[str, deque[Entry]] = {"entry": deque(maxlen=RECORDS), "turn": deque(maxlen=TURNS)}
        self._presence = presence_prefix(cluster)
        self._tuners: dict[bytes, TunerPresence] = {}
        self._orders = Orders()
        self._recalled = Recalled(cluster)
        self._whole = False

    def take_all(self, records: Iterable[tuple[bytes, bytes | None]]) -> None:
        """From the beginning on: what holds until something else is said, as what is remembered and what is ordered. The newest
        records come once more after that, which does it no harm, and the entries with them."""
        for key, value in records:
            self._take_what_holds(key, value)
        self._whole = True

    def take(self, key: bytes, value: bytes | None, at_ms: int = 0) -> None:
        """
        Args:
            at_ms: the record's timestamp.
        """
        if key.startswith(self._presence):
            self._take_presence(key, value, at_ms)
            return
        self._take_what_holds(key, value)
        if value is None:
            return
        ring = next((ring for prefix, ring in self._prefixes.items() if key.startswith(prefix)), None)
        if ring is not None and (entry := decode_entry(value)) is not None:
            self._entries[ring].append(entry)

    def _take_what_holds(self, key: bytes, value: bytes | None) -> None:
        self._recalled.take(key, value)
        if value is not None and key == orders_key(self._cluster):
            try:
                self._orders = decode_orders(value)
            except ValueError:
                return  # Of another version: `rheostat status` says so; here what was known stays.

    def _take_presence(self, key: bytes, value: bytes | None, at_ms: int) -> None:
        self._tuners.pop(key, None)
        if value is not None:
            with suppress(ValueError):  # Of another version: that tuner is not known here.
                self._tuners[key] = decode_presence(value, at_ms)

    def tuners(self, now_ms: int) -> tuple[TunerPresence, ...]:
        """Those that are alive, an acting one first."""
        return alive(self._tuners.values(), now_ms)

    @property
    def newest(self) -> Newest:
        memory = self._recalled.memory if self._whole else None
        return Newest({ring: list(entries) for ring, entries in self._entries.items()}, self._orders, memory=memory)

    @property
    def quotas(self) -> MutationMemory:
        return self._recalled.quotas


def watch(settings: Settings, wait_s: float | None = None) -> int:
    """Until Ctrl-C, or for ``wait_s``.

    Raises:
        UnreachableError: the cluster does not answer at the start.
    """
    probe(settings)
    topics, console = settings.topic_names(), console_of(sys.stdout)
    followed, course, onlooker = Followed(settings.cluster), Course(), Onlooker(settings)
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
        tails, looks = (SignalTail(journal, topics.journal), SignalTail(ordering, topics.orders)), LiveReader(client)
        plans = Plans(
            stack.enter_context(following(settings)), KafkaReassignments(stack.enter_context(client_of(settings)))
        )
        quotas = QuotaClient(settings.kafka, "rheostat-watch-quotas")
        stack.callback(quotas.close)
        held = Tenants(settings, quotas.mutation_quotas)
        stop = stop_on_signals()
        shown = stack.enter_context(Live(console=console, auto_refresh=False)) if console.is_terminal else None
        signals.rewind(_SIGNAL_BACKLOG)
        until_s = None if wait_s is None else time.monotonic() + wait_s
        number, unread = 0, _read(followed, journal, (topics.journal, topics.orders))
        # Whatever the first says, the second looks back: what people have ordered is told from its first picture on.
        trouble = _joined(_followed(followed, tails, first=True), unread)
        while not stop.is_set():
            live = _look(looks, full=number % _FULL_EVERY == 0)
            if isinstance(live, LiveCluster):
                now_ms, newest = round(time.time() * 1000), followed.newest
                lines, tuners = plans.told(), followed.tuners(now_ms)
                status = status_json(
                    settings, live, signals, newest, now_ms, onlooker, tuners=tuners, plans=plans.progress
                )
                tenants = held.told(signals, followed.quotas, newest.orders, now_ms, looks.quota_windows)
                course.take(status)
            else:
                trouble = live
            _show(picture(status, course, objective_ms(settings), trouble, lines, tenants), shown, console)
            if until_s is not None and time.monotonic() >= until_s:
                break
            stop.wait(REFRESH_S)
            number += 1
            signals.poll()
            signals.forget_old(round(time.time() * 1000))
            trouble = _joined(_followed(followed, tails), unread)
    return EXIT_DONE


def _joined(*said: str | None) -> str | None:
    return " ".join(text for text in said if text is not None) or None


def objective_ms(settings: Settings) -> float | None:
    return settings.tuner.objective.latency_ms if settings.tuner.objective is not None else None


def _look(looks: LiveReader, *, full: bool) -> LiveCluster | str:
    """Or what is to be said instead."""
    try:
        found = looks.look(full=full)
    except ClusterError as error:
        return f"The cluster is not seen now: {error}"
    return found if isinstance(found, LiveCluster) else f"The cluster is not seen now: {found.reason}"


def _read(followed: Followed, journal: KafkaConsumer, topics: Sequence[str]) -> str | None:
    """All that is on record, once, for what the tuner remembers; what is to be said where it cannot be read."""
    try:
        # Where no tuner has run yet there is nothing to remember.
        there = [topic for topic in topics if journal.partitions_for_topic(topic)]
        records = ((topic, *record) for topic in there for record in read_all(journal, topic))
        followed.take_all((key, value) for topic, key, value in records if belongs(topic, key))
    except (JournalError, *TROUBLE) as error:
        return f"What the tuner remembers is not known here, so neither is all that is next: {error}"
    return None


def _followed(followed: Followed, tails: Sequence[SignalTail], *, first: bool = False) -> str | None:
    """What is to be said where the journal cannot be read for a moment."""
    try:
        for tail in tails:
            for record in tail.rewound(_JOURNAL_BACKLOG) if first else tail.new():
                if belongs(record.topic, record.key or b""):
                    followed.take(record.key or b"", record.value, record.timestamp)
    except TROUBLE as error:
        return f"The journal cannot be read now: {error}"
    return None


def _show(made: Group, shown: Live | None, console: Console) -> None:
    if shown is not None:
        shown.update(made, refresh=True)
    else:
        console.print(made)
        console.file.flush()
