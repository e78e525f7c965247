"""Reports the presence of this tuner into the journal's topic, from a thread of its own.

Commands on other machines read this report. The report tells whether this tuner acts, its ceiling and objective, and what it waits
for. If a report fails, the thread logs the failure once and tries again. The tuner itself never waits for a report.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import structlog
from kafka import KafkaProducer

from streaming.shared.kafka.clients import close_producer
from tuner.api.status_store import PLANS, StatusStore
from tuner.core.presence import REPORT_EVERY_S, TunerMode, TunerPresence
from tuner.journal.presence_records import encode_presence, presence_key
from tuner.runtime.clock import Clock
from tuner.settings.tuner import TunerSettings

log = structlog.get_logger("tuner")

_CHECK_EVERY_S = 0.5  # A change of mode is reported within this time.
_CLOSE_S_MAX = 1.0


def current_presence(
    status: StatusStore, settings: TunerSettings, *, holder: str, version: str, page: str, since_ms: int
) -> TunerPresence:
    """Returns the presence of this tuner now.

    Args:
        since_ms: epoch milliseconds from which the tuner has been in its mode.
    """
    ready, why = status.ready()
    objective = settings.objective
    return TunerPresence(
        holder=holder,
        mode=_mode(status),
        since_ms=since_ms,
        version=version,
        rate_bytes_per_s_max=settings.rate_bytes_per_s_max,
        rate_bytes_per_s_min=settings.rate_bytes_per_s_min,
        objective_mode=objective.mode.value if objective is not None else None,
        objective_latency_ms=objective.latency_ms if objective is not None else None,
        unthrottled_moves="throttle" if settings.limits().throttles_all_moves else "leave",
        executes_plans=settings.reassign.enabled and not settings.dry_run and PLANS not in status.suspended_controllers,
        effective_leader_ratio=settings.effective_leader_ratio(),
        highest_ceiling_bytes_per_s=settings.highest_ceiling_bytes_per_s,
        page=page,
        waits_for="" if ready else why,
    )


def _mode(status: StatusStore) -> TunerMode:
    if not status.active:
        return TunerMode.STANDBY if status.is_standby else TunerMode.STARTING
    return TunerMode.DRY_RUN if status.dry_run else TunerMode.ACTIVE


class PresenceReporter:
    """Reports the presence from ``start`` on. ``stop`` reports that the tuner has ended."""

    def __init__(
        self,
        create_producer: Callable[[], KafkaProducer],
        topic: str,
        cluster: str,
        holder: str,
        read_presence: Callable[[], TunerPresence],
        clock: Clock,
    ) -> None:
        """
        Args:
            create_producer: creates a producer without a transactional id.
            read_presence: returns the current presence; this class sets ``since_ms`` when the mode changes.
        """
        self._create_producer = create_producer
        self._topic = topic
        self._key = presence_key(cluster, holder)
        self._read_presence = read_presence
        self._clock = clock
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="presence", daemon=True)
        self._reported: TunerPresence | None = None
        self._reported_s = float("-inf")
        self._is_failing = False

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Reports that the tuner has ended, and waits up to 3 s until this is sent. The daemon thread never delays the exit."""
        self._stop.set()
        self._thread.join(3 * _CLOSE_S_MAX)

    def _run(self) -> None:
        producer: KafkaProducer | None = None
        try:
            while not self._stop.wait(_CHECK_EVERY_S):
                try:
                    producer = producer or self._create_producer()
                    self._report(producer)
                except Exception as error:  # noqa: BLE001 - without reports, commands say that no tuner runs
                    self._warn(error)
        finally:
            if producer is not None:
                self._report_end(producer)

    def _report(self, producer: KafkaProducer) -> None:
        """Sends the presence if it has changed or the last report is ``REPORT_EVERY_S`` old."""
        presence, last = self._read_presence(), self._reported
        same_mode = last is not None and last.mode is presence.mode
        since_ms = last.since_ms if last is not None and same_mode else self._clock.now_ms()
        presence = replace(presence, since_ms=since_ms)
        now_s = self._clock.monotonic_s()
        # The text of ``waits_for`` contains changing figures, so a new text alone causes no report.
        same_state = same_mode and last is not None and bool(last.waits_for) == bool(presence.waits_for)
        if same_state and now_s - self._reported_s < REPORT_EVERY_S:
            return
        self._reported, self._reported_s = presence, now_s
        sent = producer.send(self._topic, key=self._key, value=encode_presence(presence))
        sent.add_callback(self._note_sent).add_errback(self._warn)

    def _note_sent(self, _: object) -> None:
        self._is_failing = False

    def _warn(self, error: BaseException) -> None:
        if not self._is_failing:
            log.warning(
                "this tuner cannot report that it runs, so commands may say that no tuner runs; trying again",
                topic=self._topic,
                error=f"{type(error).__name__}: {error}",
            )
        self._is_failing = True

    def _report_end(self, producer: KafkaProducer) -> None:
        try:
            producer.send(self._topic, key=self._key, value=None)
        except Exception as error:  # noqa: BLE001 - no exception may stop the tuner from ending
            self._warn(error)
        close_producer(producer, _CLOSE_S_MAX)
