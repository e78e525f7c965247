"""Runs the collector's rounds: scrapes every node, reads the cluster, and publishes one record per node.

A round starts the planned scrapes (rounds.py) and one reading of the Admin API. A node's record is published once its scrape has
ended and the Admin API has answered, or at the deadline. The thread that calls ``run`` plans the rounds and publishes the records;
worker threads wait for the agents.

Vocabulary:
    slot    a worker thread for scrapes; ``scrapes_at_once`` is their number.
    facts   the answers of the Admin API, as samples by node.

Invariants:
- A node that does not answer delays only its own record, and occupies one slot for ``timeout_s``. The first scrape of a node is
  repeated once after a timeout, because the agent of a JVM that has just started is slow.
- Nodes whose last scrape timed out share a quarter of the slots, so the remaining slots always serve the nodes that answer.
- A record carries the start time of its scrape; a record without scrape carries the time of the Admin API request.
- The Admin API is read in its own thread. Brokers that did not answer last time are skipped. An answer after ``timeout_s`` is
  dropped; no later round uses it.
- When a move or a recovery begins, a round starts at once and another 2.5 s later, because rates need two rounds. Then rounds
  continue at the usual interval.
- The full scan of all topics has its own thread and connection; nothing waits for it. The same holds for the search for recovering
  replicas.
- While another collector of the cluster has the lease, this collector scrapes and publishes nothing. It keeps its list of brokers
  and the result of the full scan up to date, so that it can scrape at once when it gets the lease.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain

import structlog

from streaming.collector import jmx
from streaming.collector.admin import AdminReader, FullScan
from streaming.collector.counts import Counts
from streaming.collector.exposition import Reading
from streaming.collector.facts import adding_by_node, followed_by_node, samples_by_node
from streaming.collector.jmx import AgentAccessError, Cause, ScrapeError
from streaming.collector.lag_history import LagHistory
from streaming.collector.lags import LaggingReplica, LeaderLog, lag_samples, lagging_replicas, sum_samples
from streaming.collector.rounds import ScrapeStart, TimeoutBackoff, plan_round
from streaming.collector.settings import CollectorSettings
from streaming.shared.contract import NodeRole, Sample, Scrape, TopicPartition
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, PartitionState
from streaming.shared.kafka.recovery import RecoveryFinder

log = structlog.get_logger("collector")

Publish = Callable[[Scrape], None]
ASK_SILENT_EVERY = 12  # Rounds after which brokers that did not answer are asked again.
# Share of the interval after which a round accepts no more answers, so that the next round starts in time.
_ROUND_SHARE = 0.98
_WATCH_EVERY_S = 1.0  # Interval of the requests that check whether a move has begun.
_SECOND_ROUND_S = 2.5  # Wait after the first round that sees a move; by then the scrapes of a default round have ended.
_LEASE_POLL_S = 0.2
_NO_SLOT = "no scrape slot became free in the round; raise collector.scrapes_at_once"


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The cluster's answers in one round, by node."""

    ts_ms: int
    samples: Mapping[int, list[Sample]] = field(default_factory=dict)
    followed: Mapping[int, list[TopicPartition]] = field(default_factory=dict)
    adding: Mapping[int, Collection[TopicPartition]] = field(default_factory=dict)
    leader_logs: Mapping[TopicPartition, LeaderLog] = field(default_factory=dict)
    are_known: bool = True  # False if the Admin API has not answered.


@dataclass(frozen=True, slots=True)
class ScrapeResult:
    """A finished scrape of one node: its reading, or the cause of its failure."""

    node: int
    ts_ms: int
    took_s: float
    reading: Reading | None
    cause: Cause | None = None
    why: str = ""


@dataclass(slots=True)
class _Round:
    """State of the round in progress."""

    number: int
    started_s: float
    until_s: float  # Deadline of the scrapes.
    facts_until_s: float  # Deadline of the Admin API's answer.
    asked_ms: int  # Time of the Admin API request.
    starts: deque[ScrapeStart]  # Scrapes still to be started.
    waiting: set[int]  # Nodes whose scrape has not ended.
    facts: ClusterFacts | None = None  # None until the Admin API has answered or its deadline has passed.
    held: list[ScrapeResult] = field(default_factory=list)  # Finished scrapes that wait for the facts.
    handled: set[int] = field(default_factory=set)  # Nodes whose record is published or held.

    def next_event_s(self) -> float:
        """Returns the time of the next start or deadline."""
        times_s = [self.until_s]
        if self.starts:
            times_s.append(self.started_s + self.starts[0].at_s)
        if self.facts is None:
            times_s.append(self.facts_until_s)
        return min(times_s)


@dataclass(frozen=True, slots=True)
class CollectorConnections:
    """The connections of a collector to one cluster. No other thread may use them.

    Attributes:
        rounds: the connection for the readings of the rounds.
        full_scan: the connection for the full scan.
        recovery: the connection for the search for recovering replicas; None if recoveries are not measured.
    """

    rounds: ClusterClient
    full_scan: ClusterClient
    recovery: ClusterClient | None = None


class Collector:
    """Collects the metrics of one cluster in rounds; ``run`` blocks until it is stopped."""

    def __init__(
        self,
        settings: CollectorSettings,
        cluster: str,
        connections: CollectorConnections,
        publish: Publish,
        *,
        window_s: float,
        counts: Counts | None = None,
        may_act: Callable[[], bool] = lambda: True,
        wall_clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            window_s: length of the stream's windows.
            may_act: returns whether this collector has the lease; any thread may call it.
        """
        self.counts = counts if counts is not None else Counts()
        self._settings = settings
        self._log = log.bind(cluster=cluster)
        self._cluster = cluster
        self._client = connections.rounds
        recovery = connections.recovery
        self._finder = RecoveryFinder(recovery, reads_details=False) if recovery is not None else None
        self._full_scan = FullScan(connections.full_scan, self._finder)
        self._admin = AdminReader(self._client, lambda: self._full_scan.result, self._recovering_partitions)
        self._publish = publish
        self._may_act = may_act
        self._wall_clock = wall_clock
        self._monotonic = monotonic
        self._brokers: dict[int, str] = {}  # Host by broker id.
        self._broker_ids: set[int] = set()  # Every id that was ever a broker; a fenced broker is in no list.
        self._failing: set[int] = set()  # Nodes whose last scrape failed.
        self._scraped_before: set[int] = set()
        # Replicas that lagged in the last round, by node; the next round reads their leaders' logs.
        self._lagging: dict[int, list[LaggingReplica]] = {}
        self._lag_history = LagHistory(window_s, settings.interval_s)
        self._missed: set[int] = set()  # Nodes that got no slot in the last round.
        self._backoff = TimeoutBackoff()
        self._cluster_errors: dict[str, str] = {}  # The last error of the round and of the full scan.
        self._access_files = settings.access_files()
        self._access_stamp = self._access_files.stamp()
        self._access = self._access_files.load()
        self._scrapes: dict[int, Future[None]] = {}
        self._admin_request: Future[None] | Future[bool] | None = None  # The last request to the Admin API.
        self._events: queue.SimpleQueue[tuple[int, ScrapeResult | ClusterFacts | Exception]] = queue.SimpleQueue()
        slow_slots = max(1, settings.scrapes_at_once // 4)
        self._admin_pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ask")
        self._pool = ThreadPoolExecutor(settings.scrapes_at_once - slow_slots, thread_name_prefix="scrape")
        self._slow_pool = ThreadPoolExecutor(slow_slots, thread_name_prefix="scrape-slow")

    def run(self, stop: threading.Event, on_step: Callable[[], None] = lambda: None) -> None:
        """Runs rounds at a fixed rate until ``stop``. After a round that took too long, the next round starts at once.

        Args:
            on_step: called after each round, and again and again while this collector is on standby.
        """
        scanner = threading.Thread(target=self._run_full_scans, args=(stop,), name="full-scan", daemon=True)
        scanner.start()
        if self._finder is not None:
            report = self._report_recovery_look
            threading.Thread(target=self._finder.run, args=(stop, report), name="recovery-finder", daemon=True).start()
        interval_s = self._settings.interval_s
        due = self._monotonic()
        while not stop.is_set():
            self.counts.active = self._may_act()
            if not self.counts.active:
                self._stand_by(stop, on_step)
                due = self._monotonic()
                continue
            self.round()
            on_step()
            step_s = min(interval_s, _SECOND_ROUND_S) if self._admin.move_began else interval_s
            due += step_s
            now = self._monotonic()
            if due < now:
                # A round may take longer than the short step after the begin of a move, so it does not count as late then.
                if step_s == interval_s:
                    self.counts.late_rounds += 1
                due = now
            if self._wait_for_round(stop, due):
                due = self._monotonic()
        for pool in (self._admin_pool, self._pool, self._slow_pool):
            pool.shutdown(wait=False, cancel_futures=True)
        scanner.join(timeout=self._settings.timeout_s)

    def _stand_by(self, stop: threading.Event, on_step: Callable[[], None]) -> None:
        """Returns when this collector may act, or ``stop`` is set. Meanwhile it keeps its list of brokers up to date."""
        self.counts.scraped_at_s.clear()  # Old times would make the nodes look like nodes that do not answer.
        asked_s = float("-inf")
        while not self._may_act() and not stop.wait(_LEASE_POLL_S):
            on_step()
            is_answered = self._admin_request is None or self._admin_request.done()
            if is_answered and self._monotonic() - asked_s >= self._settings.interval_s:
                asked_s = self._monotonic()
                self._admin_request = self._admin_pool.submit(self._read_brokers)

    def round(self) -> None:
        """Runs one round. Returns when every node has its record, or at the round's deadline."""
        self.counts.rounds += 1
        started_s = self._monotonic()
        self._reload_access()
        urls = self._settings.agent_urls(self._brokers)
        self._forget_removed(urls)
        round_ = self._plan(started_s, urls)
        # Only one request is sent at a time, even if the last request hangs.
        if self._admin_request is None or self._admin_request.done():
            self._admin_request = self._admin_pool.submit(
                self._read_cluster, round_.number, round_.asked_ms, list(chain.from_iterable(self._lagging.values()))
            )
            self._lagging = {}
        while round_.waiting or round_.facts is None:
            now = self._monotonic()
            self._start_due(round_, urls, now)
            if round_.facts is None and now >= round_.facts_until_s:
                self._report_cluster_error(
                    "round", f"no answer within {self._settings.timeout_s:g} s (collector.timeout_s)"
                )
                self._set_facts(round_, ClusterFacts(round_.asked_ms, are_known=False))
                continue
            if now >= round_.until_s:
                break
            try:
                number, event = self._events.get(timeout=max(0.0, round_.next_event_s() - now))
            except queue.Empty:
                continue
            self._handle(round_, event, in_time=number == round_.number)
        self._close(round_)
        self.counts.round_s = self._monotonic() - started_s

    def _plan(self, started_s: float, urls: Mapping[int, str]) -> _Round:
        settings, number = self._settings, self.counts.rounds
        free = [node for node in urls if node not in self._scrapes or self._scrapes[node].done()]
        spread_s = settings.spread_s_fitting(len(urls))
        starts = deque(plan_round(free, number, spread_s, self._backoff, self._missed))
        return _Round(
            number=number,
            started_s=started_s,
            until_s=started_s + max(settings.interval_s * _ROUND_SHARE, settings.timeout_s),
            facts_until_s=started_s + settings.timeout_s,
            asked_ms=self._now_ms(),
            starts=starts,
            waiting={start.node for start in starts},
        )

    def _start_due(self, round_: _Round, urls: Mapping[int, str], now: float) -> None:
        while round_.starts and round_.started_s + round_.starts[0].at_s <= now:
            start = round_.starts.popleft()
            pool = self._slow_pool if start.slow else self._pool
            is_first = start.node not in self._scraped_before
            self._scraped_before.add(start.node)
            self._scrapes[start.node] = pool.submit(
                self._scrape, round_.number, start.node, urls[start.node], round_.until_s, retry=is_first
            )

    def _wait_for_round(self, stop: threading.Event, due_s: float) -> bool:
        """Waits until the next round is due. Returns True at once if a move has begun."""
        while not stop.wait(max(0.0, min(_WATCH_EVERY_S, due_s - self._monotonic()))):
            left_s = due_s - self._monotonic()
            if left_s <= _WATCH_EVERY_S:
                stop.wait(max(0.0, left_s))
                return False
            if self._admin_request is not None and not self._admin_request.done():
                continue
            self._admin_request = move_check = self._admin_pool.submit(self._admin.has_move_begun)
            try:
                if move_check.result(min(left_s, self._settings.timeout_s)):
                    return True
            except (ClusterError, ValueError, TimeoutError):
                continue  # The next round reports the error.
        return False

    # -- results of worker threads ----------------------------------------------------------------------------------------

    def _handle(self, round_: _Round, event: ScrapeResult | ClusterFacts | Exception, *, in_time: bool) -> None:
        """Handles a result of a worker thread.

        Args:
            in_time: whether the result belongs to this round.
        """
        if isinstance(event, ScrapeResult):
            self._count(event)  # A late scrape counts for its node, but its record would be too old.
            if in_time and event.node in round_.waiting:
                round_.waiting.discard(event.node)
                round_.handled.add(event.node)
                if round_.facts is None:
                    round_.held.append(event)
                else:
                    self._publish_record(event.node, event, round_.facts)
        elif in_time and round_.facts is None:
            if isinstance(event, ClusterFacts):
                self._report_cluster_recovery("round")
                self._set_facts(round_, event)
            else:
                self._report_cluster_error("round", str(event))
                self._set_facts(round_, ClusterFacts(self._now_ms(), are_known=False))

    def _set_facts(self, round_: _Round, facts: ClusterFacts) -> None:
        """Stores the facts and publishes all records that waited for the facts."""
        round_.facts = facts
        held, round_.held = round_.held, []
        for result in held:
            self._publish_record(result.node, result, facts)
        # A node that has no agent, or that is not due in this round, gets a record that has only its facts.
        for node in facts.samples.keys() - round_.waiting - round_.handled:
            round_.handled.add(node)
            self._publish_record(node, None, facts)

    def _close(self, round_: _Round) -> None:
        """Publishes the facts of nodes whose scrape has not ended, and counts the nodes that got no slot."""
        facts = round_.facts or ClusterFacts(round_.asked_ms, are_known=False)
        late = False
        self._missed = set()
        for node in round_.waiting:
            scrape = self._scrapes.get(node)
            if scrape is None or scrape.cancel():
                self._missed.add(node)
                if not self._backoff.is_slow(node):  # Slow nodes are expected to miss rounds.
                    self._report_failure(node, Cause.NO_SLOT, _NO_SLOT)
                    late = True
            self._publish_record(node, None, facts)
        if late:
            self.counts.late_rounds += 1

    def _count(self, result: ScrapeResult) -> None:
        node = result.node
        if result.cause is not Cause.NO_SLOT:
            self.counts.add_scrape(result.took_s)
        if result.cause is Cause.TIMEOUT:
            self._backoff.add_timeout(node, self.counts.rounds)
        elif result.cause is not Cause.NO_SLOT:
            self._backoff.reset(node)
        if result.cause is None:
            self._failing.discard(node)
            self.counts.scraped_at_s[node] = result.ts_ms / 1000
        else:
            self._report_failure(node, result.cause, result.why)

    def _publish_record(self, node: int, result: ScrapeResult | None, facts: ClusterFacts) -> None:
        samples: list[Sample] = []
        ts_ms = facts.ts_ms
        if result is not None and result.reading is not None:
            reading, ts_ms = result.reading, result.ts_ms
            samples = reading.samples + sum_samples(reading, facts.followed.get(node, ()))
            if facts.are_known:  # Without the facts, the lag of adding replicas cannot be told from other lag.
                lags = lag_samples(reading, facts.adding.get(node, ()), facts.leader_logs)
                self._lagging[node] = lagging_replicas(lags)
                samples += lags + self._lag_history.samples(node, lags, ts_ms / 1000)
        samples = samples + facts.samples.get(node, [])
        if not samples or not self._may_act():
            return
        role = NodeRole.BROKER if node in self._broker_ids else NodeRole.CONTROLLER
        self._publish(Scrape(self._cluster, node, role, ts_ms, tuple(samples)))
        self.counts.records += 1

    # -- worker threads ------------------------------------------------------------------------------------------------

    def _scrape(self, number: int, node: int, url: str, until_s: float, *, retry: bool) -> None:
        """Scrapes one node and queues the result.

        Args:
            number: the number of the round.
            until_s: a scrape that gets its slot later does not start.
            retry: whether to try once more after a timeout.
        """
        started_s, ts_ms = self._monotonic(), self._now_ms()
        if started_s >= until_s:
            no_slot = ScrapeResult(node, ts_ms, took_s=0.0, reading=None, cause=Cause.NO_SLOT, why=_NO_SLOT)
            self._events.put((number, no_slot))
            return
        reading, cause, why = None, None, ""
        try:
            reading = jmx.read(url, self._settings.timeout_s, self._access)
        except ScrapeError as error:
            if retry and error.cause is Cause.TIMEOUT:
                self._scrape(number, node, url, until_s, retry=False)
                return
            cause, why = error.cause, str(error)
        except Exception as error:  # noqa: BLE001 - an error in a worker thread would go unnoticed
            cause, why = Cause.INTERNAL, f"{type(error).__name__}: {error}"
        took_s = self._monotonic() - started_s
        self._events.put((number, ScrapeResult(node, ts_ms, took_s=took_s, reading=reading, cause=cause, why=why)))

    def _read_cluster(self, number: int, ts_ms: int, lagging: list[LaggingReplica]) -> None:
        try:
            self._update_brokers()
            # Skips brokers whose agent and Kafka port both failed last time, except in every ASK_SILENT_EVERYth round.
            ask_all = number % ASK_SILENT_EVERY == 0
            skipped = set() if ask_all else self._failing & self._admin.unanswered
            answers = self._admin.read([b for b in self._brokers if b not in skipped], lagging)
            facts = ClusterFacts(
                ts_ms,
                samples_by_node(answers),
                followed_by_node(answers),
                adding_by_node(answers),
                answers.leader_logs,
            )
            self._events.put((number, facts))
        except (ClusterError, ValueError) as error:  # ValueError: a throttled-replica list in an unknown form.
            self._events.put((number, error))

    def _read_brokers(self) -> None:
        try:
            self._update_brokers()
            self._report_cluster_recovery("standby")
        except ClusterError as error:
            self._report_cluster_error("standby", str(error))

    def _update_brokers(self) -> None:
        self._brokers = {e.node: e.host for e in self._client.brokers()}
        self._broker_ids |= self._brokers.keys()

    def _recovering_partitions(self) -> Sequence[PartitionState]:
        return self._finder.result.partitions if self._finder is not None else ()

    def _report_recovery_look(self, error: ClusterError | None) -> None:
        if error is None:
            self._report_cluster_recovery("search for recovering replicas")
        else:
            self._report_cluster_error("search for recovering replicas", str(error))

    def _run_full_scans(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                took_s = self._full_scan.run(stop)
                if took_s is not None:
                    self.counts.full_scans += 1
                    self.counts.full_scan_s = took_s
                    self._report_cluster_recovery("full scan")
            except (ClusterError, ValueError) as error:
                self._report_cluster_error("full scan", str(error))
            except Exception as error:  # noqa: BLE001 - without this thread new throttle lists would not be seen
                self._report_cluster_error("full scan", f"{type(error).__name__}: {error}")
            stop.wait(self._settings.full_scan_interval_s)

    # -- nodes and failures --------------------------------------------------------------------------------------------

    def _reload_access(self) -> None:
        stamp = self._access_files.stamp()
        if stamp == self._access_stamp:
            return
        self._access_stamp = stamp
        try:
            self._access = self._access_files.load()
            self.counts.access_valid = True
            self._log.info(
                "the certificates or the password for the agents have changed; the collector uses the new ones"
            )
        except AgentAccessError as error:
            self.counts.access_valid = False
            self._log.error(
                "the certificates or the password for the agents have changed and cannot be used, so the old ones stay in use: "
                "correct the file that the error names",
                error=str(error),
            )

    def _forget_removed(self, urls: Mapping[int, str]) -> None:
        self._scrapes = {node: scrape for node, scrape in self._scrapes.items() if not scrape.done()}
        self._backoff.keep_only(urls)
        self._failing &= urls.keys()
        self._scraped_before &= urls.keys()
        self._lag_history.keep_only(urls)
        self.counts.keep_only(urls)

    def _report_failure(self, node: int, cause: Cause, why: str) -> None:
        """Counts a failed scrape. Logs it unless the node's previous scrape failed too."""
        self.counts.add_scrape_failure(node, cause)
        if node not in self._failing and cause is not Cause.NO_SLOT:
            url = self._settings.agent_urls(self._brokers).get(node)
            self._log.warning("node cannot be scraped", node=node, url=url, reason=why)
            self._failing.add(node)

    def _report_cluster_error(self, during: str, why: str) -> None:
        """Counts an error of the Admin API, and logs it unless it repeats the last error."""
        self.counts.admin_failures += 1
        if why != self._cluster_errors.get(during):
            self._cluster_errors[during] = why
            self._log.error(
                "the cluster does not answer", during=during, error=why, do="rheostat doctor names what is missing"
            )

    def _report_cluster_recovery(self, during: str) -> None:
        if self._cluster_errors.pop(during, None) is not None:
            self._log.info("the cluster answers again", during=during)

    def _now_ms(self) -> int:
        return int(self._wall_clock() * 1000)
