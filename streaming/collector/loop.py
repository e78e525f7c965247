"""One round every few seconds: scrape every node, ask the cluster, publish one record a node.

Intuition: a round is a plan of scrapes spread over its beginning (rounds.py), one asking of the Admin API beside them, and
a join: a node's record goes out once its own scrape has ended and the cluster has answered, or its time is up. This thread
plans, joins and publishes; a bounded number of others wait for agents.

Invariants:
- A node that does not answer costs its own record, and one slot for ``timeout_s``; for twice as long when it is asked first. The
  first scrape of a JVM that has just started takes longer than later ones, so it is tried again before it counts as failed.
- A node that hung last time may only take the slots kept for such nodes, so however many hang, three quarters of the slots serve
  those that answer.
- Each record carries the time at which its own scrape began; a record without a scrape that at which the cluster was asked.
- The Admin API is asked in a thread of its own, and not of brokers that answered nothing last time. What has not come within
  ``timeout_s`` is left out of the round, and never taken for the answer of a later one.
- When something begins to move a round begins, and soon another: rates take two, and whoever steers waits for them. Then
  rounds go on at their rate from there, so that steps are as long as ever.
- The sweep over all topics has a thread and a connection of its own; nothing waits for it.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import structlog

from streaming.collector import jmx
from streaming.collector.admin import AdminFacts, FullScan
from streaming.collector.counts import Counts
from streaming.collector.exposition import Reading
from streaming.collector.facts import TopicPartition, followed_by_node, lag_samples, samples_by_node
from streaming.collector.jmx import AgentAccessError, Cause, ScrapeError
from streaming.collector.rounds import Patience, plan
from streaming.collector.settings import CollectorSettings
from streaming.shared.contract import NodeRole, Sample, Scrape
from streaming.shared.kafka.cluster import ClusterClient, ClusterError

log = structlog.get_logger("collector")

Publish = Callable[[Scrape], None]
ASK_SILENT_EVERY = 12  # Rounds.
_ROUND_SHARE = 0.98  # Of the interval: after it a round takes no more answers, so that the next begins in time.
_WATCH_EVERY_S = 1.0
_AGAIN_S = 2.5  # After the first round that sees something move; a default round's scrapes are over by then.
_NO_SLOT = "its turn did not come in the round"


@dataclass(frozen=True, slots=True)
class Facts:
    """What the cluster said in one round."""

    ts_ms: int
    samples: Mapping[int, list[Sample]] = field(default_factory=dict)
    followed: Mapping[int, list[TopicPartition]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scraped:
    """One scrape of one node that has ended, with what it gave or why it gave nothing."""

    node: int
    ts_ms: int
    took_s: float
    reading: Reading | None
    cause: Cause | None = None
    why: str = ""


@dataclass(slots=True)
class _Round:
    """One round under way."""

    until_s: float
    facts_until_s: float
    facts: Facts | None = None  # None while they may still come.
    waiting: set[int] = field(default_factory=set)  # Scrapes that were begun, or will be.
    held: list[Scraped] = field(default_factory=list)  # Ended, and waiting for the facts.
    reached: set[int] = field(default_factory=set)


class Collector:
    """
    Args:
        client: asked once a round; nobody else may use it meanwhile.
        sweep_client: the same cluster over another connection.
    """

    def __init__(
        self,
        settings: CollectorSettings,
        cluster: str,
        client: ClusterClient,
        sweep_client: ClusterClient,
        publish: Publish,
        *,
        counts: Counts | None = None,
        wall_clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.counts = counts if counts is not None else Counts()
        self._settings = settings
        self._cluster = cluster
        self._client = client
        self._sweep = FullScan(sweep_client)
        self._facts = AdminFacts(client, lambda: self._sweep.swept)
        self._publish = publish
        self._wall_clock = wall_clock
        self._monotonic = monotonic
        self._brokers: dict[int, str] = {}  # id → host
        # Every id that was a broker once: while it is fenced it is in no list, and still one.
        self._ever: set[int] = set()
        self._silent: set[int] = set()
        self._asked: set[int] = set()  # Nodes that have been asked before.
        self._missed: set[int] = set()
        self._patience = Patience()
        self._trouble: dict[str, str] = {}  # What has trouble, the round or the sweep → which.
        self._files = settings.access_files()
        self._stamp = self._files.stamp()
        self._access = self._files.load()
        self._under_way: dict[int, Future[None]] = {}
        self._asking: Future[None] | Future[bool] | None = None
        self._events: queue.SimpleQueue[tuple[int, Scraped | Facts | Exception]] = queue.SimpleQueue()
        kept = max(1, settings.scrapes_at_once // 4)
        self._asker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ask")
        self._pool = ThreadPoolExecutor(settings.scrapes_at_once - kept, thread_name_prefix="scrape")
        self._slow_pool = ThreadPoolExecutor(kept, thread_name_prefix="scrape-slow")

    def run(self, stop: threading.Event) -> None:
        """Rounds at a fixed rate until ``stop``; a round that took too long is not caught up."""
        sweeper = threading.Thread(target=self._sweeps, args=(stop,), name="sweep", daemon=True)
        sweeper.start()
        interval_s = self._settings.interval_s
        due = self._monotonic()
        while not stop.is_set():
            self.round()
            step_s = min(interval_s, _AGAIN_S) if self._facts.began else interval_s
            due += step_s
            now = self._monotonic()
            if due < now:
                self.counts.late_rounds += step_s == interval_s
                due = now
            if self._begins(stop, due):
                due = self._monotonic()
        for pool in (self._asker, self._pool, self._slow_pool):
            pool.shutdown(wait=False, cancel_futures=True)
        sweeper.join(timeout=self._settings.timeout_s)

    def round(self) -> None:
        """Plans, then takes what comes until every node has its record or the round is over."""
        number = self.counts.rounds = self.counts.rounds + 1
        began_s = self._monotonic()
        settings = self._settings
        this = _Round(
            began_s + max(settings.interval_s * _ROUND_SHARE, settings.timeout_s), began_s + settings.timeout_s
        )
        self._refresh_access()
        urls = settings.agent_urls(self._brokers)
        self._forget_gone(urls)
        free = [node for node in urls if node not in self._under_way or self._under_way[node].done()]
        starts = deque(plan(free, number, settings.spread_s_fitting(len(urls)), self._patience, self._missed))
        this.waiting = {start.node for start in starts}
        asked_ms = self._now_ms()
        if self._asking is None or self._asking.done():  # While one still hangs there is no second one.
            self._asking = self._asker.submit(self._ask, number, asked_ms)
        while this.waiting or this.facts is None:
            now = self._monotonic()
            while starts and began_s + starts[0].at_s <= now:
                start = starts.popleft()
                pool = self._slow_pool if start.slow else self._pool
                args = (number, start.node, urls[start.node], this.until_s, start.node not in self._asked)
                self._asked.add(start.node)
                self._under_way[start.node] = pool.submit(self._scrape, *args)
            if this.facts is None and now >= this.facts_until_s:
                self._troubled("round", f"no answer within {settings.timeout_s:g} s (collector.timeout_s)")
                self._have_facts(this, Facts(asked_ms))
                continue
            if now >= this.until_s:
                break
            wake = min(
                this.until_s,
                began_s + starts[0].at_s if starts else this.until_s,
                this.facts_until_s if this.facts is None else this.until_s,
            )
            try:
                self._take(this, number, *self._events.get(timeout=max(0.0, wake - now)))
            except queue.Empty:
                continue
        self._close(this, asked_ms)
        self.counts.round_s = self._monotonic() - began_s

    def _begins(self, stop: threading.Event, due_s: float) -> bool:
        """Waits for the next round; True: something has begun to move, and it is not to be waited for."""
        while not stop.wait(max(0.0, min(_WATCH_EVERY_S, due_s - self._monotonic()))):
            left_s = due_s - self._monotonic()
            if left_s <= _WATCH_EVERY_S:
                stop.wait(max(0.0, left_s))
                return False
            if self._asking is not None and not self._asking.done():
                continue
            self._asking = asked = self._asker.submit(self._facts.has_begun)
            try:
                if asked.result(min(left_s, self._settings.timeout_s)):
                    return True
            except (ClusterError, ValueError, TimeoutError):
                continue  # A round says what is wrong.
        return False

    # -- what comes ---------------------------------------------------------------------------------------------------

    def _take(self, this: _Round, number: int, of_round: int, event: Scraped | Facts | Exception) -> None:
        if isinstance(event, Scraped):
            # One of an earlier round that ends only now counts for its node, but its record would come too late.
            self._judge(event)
            if of_round == number and event.node in this.waiting:
                this.waiting.discard(event.node)
                this.reached.add(event.node)
                if this.facts is None:
                    this.held.append(event)
                else:
                    self._emit(event.node, event, this.facts)
        elif of_round == number and this.facts is None:
            if isinstance(event, Facts):
                self._recovered("round")
                self._have_facts(this, event)
            else:
                self._troubled("round", str(event))
                self._have_facts(this, Facts(self._now_ms()))

    def _have_facts(self, this: _Round, facts: Facts) -> None:
        this.facts = facts
        held, this.held = this.held, []
        for scraped in held:
            self._emit(scraped.node, scraped, facts)
        # No agent there, or not its turn: what the cluster says of it is still worth a record.
        for node in facts.samples.keys() - this.waiting - this.reached:
            this.reached.add(node)
            self._emit(node, None, facts)

    def _close(self, this: _Round, asked_ms: int) -> None:
        """The nodes whose scrape has not ended: their slot never came, or the whole timeout did not fit any more."""
        facts = this.facts or Facts(asked_ms)
        late = False
        self._missed = set()
        for node in this.waiting:
            under_way = self._under_way.get(node)
            if under_way is None or under_way.cancel():
                self._missed.add(node)
                if not self._patience.hanging(node):  # Of those that hang it was to be expected.
                    self._silence(node, Cause.NOT_REACHED, _NO_SLOT)
                    late = True
            self._emit(node, None, facts)
        self.counts.late_rounds += late

    def _judge(self, scraped: Scraped) -> None:
        node = scraped.node
        if scraped.cause is not Cause.NOT_REACHED:
            self.counts.scrape_took(scraped.took_s)
        if scraped.cause is Cause.TIMEOUT:
            self._patience.hung(node, self.counts.rounds)
        elif scraped.cause is not Cause.NOT_REACHED:
            self._patience.moved(node)
        if scraped.cause is None:
            self._silent.discard(node)
            self.counts.scraped_at_s[node] = scraped.ts_ms / 1000
        else:
            self._silence(node, scraped.cause, scraped.why)

    def _emit(self, node: int, scraped: Scraped | None, facts: Facts) -> None:
        samples: list[Sample] = []
        if scraped is not None and scraped.reading is not None:
            reading = scraped.reading
            samples = reading.samples + lag_samples(reading.lags, reading.samples, facts.followed.get(node, ()))
        everything = tuple(samples + facts.samples.get(node, []))
        if not everything:
            return
        role = NodeRole.BROKER if node in self._ever else NodeRole.CONTROLLER
        ts_ms = scraped.ts_ms if scraped is not None and scraped.reading is not None else facts.ts_ms
        self._publish(Scrape(self._cluster, node, role, ts_ms, everything))
        self.counts.records += 1

    # -- other threads ------------------------------------------------------------------------------------------------

    def _scrape(self, number: int, node: int, url: str, until_s: float, asks_again: bool) -> None:
        """
        Args:
            asks_again: whether an answer that does not come in time is asked for once more, in this round.
        """
        began_s, ts_ms = self._monotonic(), self._now_ms()
        if began_s >= until_s:
            self._events.put((number, Scraped(node, ts_ms, 0.0, None, Cause.NOT_REACHED, _NO_SLOT)))
            return
        reading, cause, why = None, None, ""
        try:
            reading = jmx.read(url, self._settings.timeout_s, self._access)
        except ScrapeError as error:
            if asks_again and error.cause is Cause.TIMEOUT:
                self._scrape(number, node, url, until_s, asks_again=False)
                return
            cause, why = error.cause, str(error)
        except Exception as error:  # noqa: BLE001 - in a thread nobody would hear of it
            cause, why = Cause.OURS, f"{type(error).__name__}: {error}"
        self._events.put((number, Scraped(node, ts_ms, self._monotonic() - began_s, reading, cause, why)))

    def _ask(self, number: int, ts_ms: int) -> None:
        try:
            self._brokers = {e.node: e.host for e in self._client.brokers()}
            self._ever |= self._brokers.keys()
            # Not asked: a broker that gave neither its agent's answer nor the last one of ours. Now and then it is, all the same.
            again = number % ASK_SILENT_EVERY == 0
            mute = set() if again else self._silent & self._facts.unanswered
            answers = self._facts.ask([b for b in self._brokers if b not in mute])
            self._events.put((number, Facts(ts_ms, samples_by_node(answers), followed_by_node(answers))))
        except (ClusterError, ValueError) as error:  # ValueError: a throttled-replica list in a form we do not know.
            self._events.put((number, error))

    def _sweeps(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                took_s = self._sweep.once(stop)
                if took_s is not None:
                    self.counts.sweeps += 1
                    self.counts.full_scan_interval_s = took_s
                    self._recovered("sweep")
            except (ClusterError, ValueError) as error:
                self._troubled("sweep", str(error))
            except Exception as error:  # noqa: BLE001 - without this thread no list of a topic would be seen any more
                self._troubled("sweep", f"{type(error).__name__}: {error}")
            stop.wait(self._settings.full_scan_interval_s)

    # -- who is there -------------------------------------------------------------------------------------------------

    def _refresh_access(self) -> None:
        stamp = self._files.stamp()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._access = self._files.load()
            self.counts.access_good = True
            log.info("certificates or password have changed and are in use")
        except AgentAccessError as error:
            self.counts.access_good = False
            log.error(
                "certificates or password have changed and cannot be used; going on with the old ones", error=str(error)
            )

    def _forget_gone(self, urls: Mapping[int, str]) -> None:
        self._under_way = {node: scrape for node, scrape in self._under_way.items() if not scrape.done()}
        self._patience.forget_all_but(urls)
        self._silent &= urls.keys()
        self._asked &= urls.keys()
        self.counts.forget_all_but(urls)

    def _silence(self, node: int, cause: Cause, why: str) -> None:
        self.counts.failed(node, cause)
        if node not in self._silent and cause is not Cause.NOT_REACHED:
            url = self._settings.agent_urls(self._brokers).get(node)
            log.warning("node does not answer", node=node, url=url, reason=why)
            self._silent.add(node)

    def _troubled(self, what: str, why: str) -> None:
        self.counts.admin_failures += 1
        if why != self._trouble.get(what):
            self._trouble[what] = why
            log.error(
                "the cluster does not answer", asked_in=what, error=why, do="rheostat doctor names what is missing"
            )

    def _recovered(self, what: str) -> None:
        if self._trouble.pop(what, None) is not None:
            log.info("the cluster answers again", asked_in=what)

    def _now_ms(self) -> int:
        return int(self._wall_clock() * 1000)
