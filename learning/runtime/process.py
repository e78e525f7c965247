"""Runs the loop of `rheostat learn`: reads the history, learns each complete hour, and writes the profiles.

The process keeps what it has learned only in memory. At its start it reads the history from the beginning. It learns the whole
history again in two cases:

- once a day: this forgets values older than five weeks, exactly as a restart would, and frees the columns of removed brokers and
  the entries of removed tenants;
- if a period of an hour that it has already learned changes, for example after an outage of the stream.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import structlog

from learning.models.learner import Learner, first_hour_of
from learning.models.periods import BROKERS_MAX, HOUR_MS, PERIOD_MS, TENANTS_MAX, PeriodBook
from learning.models.usual_latency import DAY_H
from learning.runtime.learn_counts import LearnCounts
from learning.runtime.profile_writer import ProfileWriter
from learning.runtime.topic_follower import KAFKA_ERRORS, TopicFollower
from streaming.shared.contract.encoding import ContractError
from streaming.shared.contract.history import HistoryPeriod
from streaming.shared.contract.learned_encoding import decode_history
from streaming.shared.contract.profiles import BrokerProfile, ChangeEvent, Profile

log = structlog.get_logger("learn")

_POLL_MS = 1_000
_RETRY_S_MIN, _RETRY_S_MAX = 5.0, 60.0
# A shorter history is learned again after each period: this takes little time, and each period improves the forecasts.
_YOUNG_HOURS = 48
# A period that begins later than its record was written comes from a wrong clock, or is forged.
_EARLY_MS_MAX = 2 * PERIOD_MS


class LearnLoop:
    """Follows the history of one cluster."""

    def __init__(
        self, cluster: str, history: TopicFollower, published: TopicFollower, writer: ProfileWriter, counts: LearnCounts
    ) -> None:
        """
        Args:
            published: the profiles topic. It is read once, so that unchanged records are not written again.
        """
        self._cluster = cluster
        self._log = log.bind(cluster=cluster)
        # The topic also holds records of other clusters, and the stream's records about its own progress.
        self._key_prefix = f"{cluster}|".encode()
        self._history = history
        self._published = published
        self._writer = writer
        self._counts = counts
        self._book = PeriodBook()
        self._learner: Learner | None = None
        self._learned_changes = 0
        self._learned_day = 0  # Since 1970.
        self._unwritten: list[Profile] | None = None

    def run(self, stop: threading.Event, on_step: Callable[[bool], None] = lambda _: None) -> None:
        """Learns until ``stop`` is set. While Kafka does not answer, the loop tries again, with back-off.

        Args:
            on_step: called after each step of the loop, also after a failed step. Its argument tells whether the whole history is
                learned.
        """
        retry_s = _RETRY_S_MIN
        while not stop.is_set():
            try:
                began_s = time.monotonic()
                has_read = self._read(stop)
                retry_s = _RETRY_S_MIN
            except KAFKA_ERRORS as error:
                self._log.warning("the history cannot be read; trying again", error=str(error), in_s=retry_s)
                on_step(False)
                stop.wait(retry_s)
                retry_s = min(_RETRY_S_MAX, 2 * retry_s)
                continue
            # Polling a missing topic returns at once, so the loop would spin without this wait.
            if not has_read and time.monotonic() - began_s < _POLL_MS / 2000:
                stop.wait(_POLL_MS / 1000)
            if not self._history.is_at_end or not self._published.is_at_end:
                on_step(False)
                continue
            self._learn(stop)
            on_step(not stop.is_set())
            if self._unwritten is not None and not stop.is_set():
                if self._writer.write(self._unwritten, stop):
                    self._unwritten = None
                else:
                    stop.wait(_RETRY_S_MIN)

    def _read(self, stop: threading.Event) -> bool:
        """Reads the new records of both topics. Returns whether there were any."""
        has_read = False
        if not self._published.is_at_end:
            for record in self._published.poll(_POLL_MS):
                has_read = True
                self._writer.register(record)
        for record in self._history.poll(_POLL_MS):
            has_read = True
            if stop.is_set():
                return has_read
            period = self._period_of(record)
            if period is not None:
                self._book.add(period)
                self._counts.records += 1
        return has_read

    def _period_of(self, record: Any) -> HistoryPeriod | None:
        """Returns the period of a record; None if the record is unusable, or of another cluster."""
        if record.value is None or not (record.key or b"").startswith(self._key_prefix):
            return None
        try:
            period = decode_history(record.value)
        except ContractError as error:
            self._refuse(record, str(error))
            return None
        if period.cluster != self._cluster:
            self._refuse(record, "its key names another cluster")
            return None
        if period.start_ms % PERIOD_MS or period.start_ms > record.timestamp + _EARLY_MS_MAX:
            self._refuse(record, f"no period begins at {period.start_ms} ms")
            return None
        return period

    def _refuse(self, record: Any, reason: str) -> None:
        self._counts.refused += 1
        # Only the first refusal is logged, because a hostile client could otherwise fill the disk.
        if self._counts.refused == 1:
            self._log.warning(
                "a record of the history is left out; further ones are only counted",
                offset=record.offset,
                reason=reason,
            )

    def _learn(self, stop: threading.Event) -> None:
        """Learns all new hours.

        An hour is complete once a later period has arrived, and is learned then. In the first two days of a history, the whole
        history is learned again with each period (``_YOUNG_HOURS``).
        """
        book = self._book
        first_hour = book.first_hour()
        if book.newest_ms is None or first_hour is None or book.changes == self._learned_changes:
            return
        newest_hour = book.newest_ms // HOUR_MS
        is_young = newest_hour - first_hour < _YOUNG_HOURS
        end_hour = newest_hour + 1 if is_young else newest_hour
        learner = None if is_young else self._learner
        if learner is not None and end_hour <= learner.next_hour:
            return
        began_s = time.monotonic()
        day = end_hour // DAY_H
        if learner is None or book.changed_from_hour < learner.next_hour or day != self._learned_day:
            book.assign_places()
            learner = Learner(self._cluster, first_hour_of(end_hour, first_hour))
        for hour in range(learner.next_hour, end_hour):
            if stop.is_set():
                return
            learner.learn(book.periods(hour), book.brokers)
        book.forget_changes(end_hour)
        self._learned_changes = book.changes
        self._learned_day = day
        self._learner = None if is_young else learner
        made_at_ms = book.newest_ms + PERIOD_MS if is_young else None
        self._unwritten = [*learner.profiles(book.brokers, made_at_ms), *learner.recent_events()]
        self._note(made_at_ms or end_hour * HOUR_MS, time.monotonic() - began_s)

    def _note(self, learned_to_ms: int, took_s: float) -> None:
        counts = self._counts
        counts.learned_to_s = learned_to_ms / 1000
        counts.learn_s = took_s
        self._note_left_out(*self._book.left_out())
        counts.profiles = tuple(p for p in self._unwritten or () if isinstance(p, BrokerProfile))
        counts.events = tuple(p for p in self._unwritten or () if isinstance(p, ChangeEvent))
        self._log.info(
            "learn has computed the profiles",
            to_s=counts.learned_to_s,
            brokers=len(counts.profiles),
            took_s=round(took_s, 2),
        )

    def _note_left_out(self, brokers: int, tenants: int) -> None:
        counts = self._counts
        is_new = (brokers and not counts.brokers_left_out) or (tenants and not counts.tenants_left_out)
        counts.brokers_left_out, counts.tenants_left_out = brokers, tenants
        if is_new:
            self._log.warning(
                "the history has more brokers or tenants than learn can keep; those with the least history have no profile "
                "and no events. Check who may write to the signals and the history, and whether client ids contain names of "
                "pods",
                brokers_left_out=brokers,
                brokers_max=BROKERS_MAX,
                tenants_left_out=tenants,
                tenants_max=TENANTS_MAX,
            )
