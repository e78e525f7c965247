"""One round every few seconds: scrape every node, ask the cluster, publish one record a node.

Invariant: a node that does not answer costs its own record and nothing else. Each scrape runs in a thread of its own
with its own deadline. The Admin API is asked in one more thread, and not of brokers that answered nothing last time. A round
waits for all of them together no longer than ``timeout_s``; what has not come by then is left out of it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field

import structlog

from streaming.collector import jmx
from streaming.collector.admin import AdminFacts
from streaming.collector.facts import samples_by_node
from streaming.collector.settings import CollectorSettings
from streaming.contract import Role, Sample, Scrape
from streaming.kafka.cluster import ClusterClient, ClusterError

log = structlog.get_logger("collector")

Publish = Callable[[Scrape], None]
ASK_SILENT_EVERY = 12  # Rounds.


@dataclass(slots=True)
class Counts:
    """What happened since the start; logged once a minute."""

    rounds: int = 0
    records: int = 0
    scrape_failures: dict[int, int] = field(default_factory=dict)
    admin_failures: int = 0
    late_rounds: int = 0


class Collector:
    def __init__(
        self,
        settings: CollectorSettings,
        cluster: str,
        client: ClusterClient,
        publish: Publish,
        *,
        wall_clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.counts = Counts()
        self._settings = settings
        self._cluster = cluster
        self._client = client
        self._facts = AdminFacts(client)
        self._publish = publish
        self._wall_clock = wall_clock
        self._monotonic = monotonic
        self._brokers: dict[int, str] = {}  # id → host
        self._ever: set[int] = (
            set()
        )  # Every id that was a broker once: while it is fenced it is in no list, and still one.
        self._silent: set[int] = set()
        self._trouble: str | None = None
        self._under_way: dict[int, Future[list[Sample]]] = {}
        self._asking: Future[Mapping[int, list[Sample]]] | None = None
        self._asker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ask")
        # A thread a node, made when it is needed: one that hangs takes no other's place.
        self._pool = ThreadPoolExecutor(max_workers=1_000, thread_name_prefix="scrape")

    def run(self, stop: threading.Event) -> None:
        """Rounds at a fixed rate until ``stop``; a round that took too long is not caught up."""
        due = self._monotonic()
        while not stop.is_set():
            self.round()
            due += self._settings.interval_s
            now = self._monotonic()
            if due < now:
                self.counts.late_rounds += 1
                due = now
            stop.wait(due - now)
        self._asker.shutdown(wait=False, cancel_futures=True)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def round(self) -> None:
        """Scrapes and questions start together and share one deadline; whatever has not come by then is left out."""
        self.counts.rounds += 1
        ts_ms = int(self._wall_clock() * 1000)
        until_s = self._monotonic() + self._settings.timeout_s
        scrapes = self._start_scrapes()
        if self._asking is None or self._asking.done():  # While one still hangs there is no second one.
            self._asking = self._asker.submit(self._ask)
        facts: Mapping[int, list[Sample]] = {}
        try:
            facts = self._asking.result(timeout=self._settings.timeout_s)
            self._recovered()
        except TimeoutError:
            self._troubled(f"no answer within {self._settings.timeout_s:g} s")
        except (ClusterError, ValueError) as error:  # ValueError: a throttled-replica list in a form we do not know.
            self._troubled(str(error))
        self._collect(ts_ms, scrapes, facts, max(0.0, until_s - self._monotonic()))

    def _ask(self) -> Mapping[int, list[Sample]]:
        self._brokers = {e.node: e.host for e in self._client.brokers()}
        self._ever |= self._brokers.keys()
        # Not asked: a broker that gave neither its agent's answer nor the last one of ours. Now and then it is, all the same.
        again = self.counts.rounds % ASK_SILENT_EVERY == 0
        mute = set() if again else self._silent & self._facts.unanswered
        return samples_by_node(self._facts.ask([b for b in self._brokers if b not in mute]))

    def _collect(
        self,
        ts_ms: int,
        scrapes: Mapping[Future[list[Sample]], int],
        facts: Mapping[int, list[Sample]],
        timeout_s: float,
    ) -> None:
        waiting = set(scrapes.values())
        for node in (
            self._brokers.keys() - waiting
        ):  # No agent there: what the cluster says of it is still worth a record.
            self._emit(ts_ms, node, [], facts)
        try:
            for done in as_completed(scrapes, timeout=timeout_s):
                node = scrapes[done]
                waiting.discard(node)
                error = done.exception()
                if error is None:
                    self._silent.discard(node)
                    self._emit(ts_ms, node, done.result(), facts)
                else:
                    self._silence(ts_ms, node, str(error), facts)
        except TimeoutError:
            for node in waiting:
                self._silence(ts_ms, node, f"no answer within {self._settings.timeout_s:g} s", facts)

    def _start_scrapes(self) -> dict[Future[list[Sample]], int]:
        """One thread a node; a node whose last scrape still hangs gets no second one."""
        urls = self._urls()
        self._under_way = {node: scrape for node, scrape in self._under_way.items() if node in urls}
        for node, url in urls.items():
            before = self._under_way.get(node)
            if before is None or before.done():
                self._under_way[node] = self._pool.submit(jmx.scrape, url, self._settings.timeout_s)
        return {scrape: node for node, scrape in self._under_way.items()}

    def _urls(self) -> dict[int, str]:
        return self._settings.agent_urls(self._brokers)

    def _emit(self, ts_ms: int, node: int, samples: list[Sample], facts: Mapping[int, list[Sample]]) -> None:
        everything = tuple(samples + facts.get(node, []))
        if not everything:
            return
        role = Role.BROKER if node in self._ever else Role.CONTROLLER
        self._publish(Scrape(self._cluster, node, role, ts_ms, everything))
        self.counts.records += 1

    def _silence(self, ts_ms: int, node: int, reason: str, facts: Mapping[int, list[Sample]]) -> None:
        self.counts.scrape_failures[node] = self.counts.scrape_failures.get(node, 0) + 1
        if node not in self._silent:
            log.warning("node does not answer", node=node, url=self._urls().get(node), reason=reason)
            self._silent.add(node)
        self._emit(ts_ms, node, [], facts)

    def _troubled(self, why: str) -> None:
        self.counts.admin_failures += 1
        if why != self._trouble:
            self._trouble = why
            log.error("the cluster does not answer", error=why, do="rheostat doctor names what is missing")

    def _recovered(self) -> None:
        if self._trouble is not None:
            log.info("the cluster answers again")
            self._trouble = None
