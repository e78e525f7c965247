"""Runs the stream as a process."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import Any

import structlog

from rheostat.config.settings import Settings
from rheostat.errors import CommandError
from rheostat.jvm.artifacts import resolve_artifacts
from rheostat.jvm.java import find_java
from rheostat.jvm.kernel import stream_jars
from rheostat.run.services import serve_metrics, until_topics
from streaming.backlog import BacklogProgress
from streaming.batch_values import BatchValues
from streaming.errors import StreamError
from streaming.history.worker import HistoryListener
from streaming.java_output import JavaLine
from streaming.quarantine import Quarantined
from streaming.runner import ProgressListener, run
from streaming.shared import start_time
from streaming.shared.class_archive import ClassArchive
from streaming.shared.heartbeat import Heartbeat
from streaming.shared.part_lease import PartLease, part_lease
from streaming.shared.process_metrics import ConfigState, ProcessMetricsCollector
from streaming.shared.thread_watch import ThreadWatch
from streaming.sources import feeds
from streaming.stream_counts import StreamCounts
from streaming.stream_metrics import registry_of

_JAVA_CHARS_MAX = 500
_STEP_S_MAX = 300.0  # Maximum time between two steps, which includes the start of a query.
_LEVELS = {"WARN": logging.WARNING, "ERROR": logging.ERROR, "FATAL": logging.CRITICAL}


def run_stream(
    settings: Settings,
    stop: threading.Event,
    heartbeat: Heartbeat,
    config: Callable[[], ConfigState] | None = None,
    threads: ThreadWatch | None = None,
) -> None:
    """Runs the stream until ``stop`` is set.

    Raises:
        SetupError: Java or the JVM artifacts are missing, or the HTTP port is taken.
        CommandError: the stream cannot run.
    """
    log = structlog.get_logger("stream")
    began_s = time.monotonic()
    log.info(
        f"Spark is starting. The first signals take about {start_time.USUAL}; until then the tuner changes no rate."
    )
    counts = StreamCounts()
    with ExitStack() as stack:
        process_metrics = ProcessMetricsCollector(settings.cluster, "stream", config, threads=threads)
        registry = registry_of(settings.cluster, counts, settings.stream.slide_s, process_metrics)
        http_field = serve_metrics(stack, "stream", settings.stream.http, registry, heartbeat)
        if http_field:
            log.info("the stream serves its metrics", **http_field)
        java = find_java()
        artifacts = resolve_artifacts(log.info)
        jars = stream_jars(artifacts, log.info)
        archive = ClassArchive(artifacts.class_archive(java, jars))
        topics = settings.topic_names()
        until_topics(settings, stop, [topics.metrics, topics.signals, topics.rejects], heartbeat)
        if stop.is_set():
            return
        events = _StreamLog(log, counts, began_s)
        sources = feeds(
            settings.kafka,
            topics,
            settings.stream,
            cluster=settings.cluster,
            own_interval_s=settings.collector.interval_s,
        )
        listener = ProgressListener(
            progress=events.progressed,
            active=events.changed_activity,
            restart=events.restarted,
            backlog=events.backlog_progressed,
            backlog_failed=events.backlog_failed,
            halved=events.halved,
            quarantined=events.quarantined,
            history=HistoryListener(job=counts.add_history, failed=events.history_failed),
            java=_java_log(stop),
            alive=lambda status, is_ready: heartbeat.beat(_STEP_S_MAX, status, ready=is_ready),
        )
        join = partial(_join, settings, topics.signals)
        try:
            run(settings.kafka, topics, sources, settings.stream, jars, stop, join, listener, archive)
        except StreamError as error:
            raise CommandError(str(error)) from error


def _join(settings: Settings, topic: str, checkpoint_id: str) -> AbstractContextManager[PartLease]:
    return part_lease(settings.kafka, settings.cluster, "stream", topic, note=checkpoint_id)


class _StreamLog:
    """Logs the events of the stream, and counts them for the metrics."""

    def __init__(self, log: Any, counts: StreamCounts, began_s: float) -> None:
        self._log = log
        self._counts = counts
        self._began_s = began_s
        self._is_first = True
        self._logged_percent = -1

    def progressed(self, progress: BatchValues) -> None:
        self._counts.add_batch(progress, time.time())
        if self._is_first:
            self._log.info("the first batch is processed", after_s=round(time.monotonic() - self._began_s), **progress)
            self._is_first = False
        if progress["late_rows_dropped"]:
            self._log.warning(
                "records came too late for their windows and are left out: raise stream.watermark_delay_s if this continues",
                **progress,
            )
        if progress["refused_not_written"]:
            self._log.warning(
                f"{progress['refused_not_written']} of {progress['refused']} refused records are not in the rejects topic, because "
                "there were too many at once, or they came too late. The records in that topic name the reason and the source: "
                "correct the sender, or remove its topic from stream.sources",
                **progress,
            )

    def changed_activity(self, active: bool) -> None:
        self._counts.set_active(active)
        if not active:
            self._is_first = True
            self._began_s = time.monotonic()

    def restarted(self, cause: str, in_s: float) -> None:
        self._counts.add_restart()
        self._log.error("the Spark query of the stream ended and will be restarted", cause=cause, in_s=in_s)

    def backlog_progressed(self, progress: BacklogProgress) -> None:
        self._counts.set_backlog(progress)
        if progress.done_percent == self._logged_percent:
            return
        self._logged_percent = progress.done_percent
        self._log.info(
            f"backlog: {progress.done_percent} % of {progress.records:,} records are processed",
            remaining_records=progress.remaining_records,
            lost_records=progress.lost_records,
        )

    def backlog_failed(self, cause: str, in_s: float) -> None:
        self._log.warning("a part of the backlog could not be processed; trying again", cause=cause, in_s=in_s)

    def history_failed(self, cause: str, in_s: float) -> None:
        self._counts.add_history_failure()
        self._log.warning(
            "the history could not be updated from the signals; trying again. The signals themselves are not affected",
            cause=cause,
            in_s=in_s,
        )

    def halved(self, records: int, kept: int) -> None:
        self._log.warning(
            f"a batch of {records} records ended the stream more than once: the stream reads {kept} of these records first, to "
            "find the cause",
        )

    def quarantined(self, refused: Quarantined) -> None:
        self._counts.quarantined += refused.records
        self._log.error(
            f"records {refused.first_offset} to {refused.last_offset} of topic {refused.topic}, partition {refused.partition}, end "
            "the stream whenever it reads them: these records are left out, and named in the rejects topic. Find the client that "
            "wrote them, and correct that client or remove its right to write",
            kafka=refused.kafka_id,
        )


def _java_log(stop: threading.Event) -> Callable[[JavaLine], None]:
    """Returns the function that logs the lines of Spark's JVM. It leaves out lines while Spark ends, which look like errors.

    A terminal gets the first line of each message. A JSON log also gets the JVM's own lines and the stack traces.
    """
    log = structlog.get_logger("spark")
    on_terminal = sys.stderr.isatty()

    def log_line(line: JavaLine) -> None:
        message = line.message.partition("\n")[0][:_JAVA_CHARS_MAX]
        if stop.is_set() or not message or (on_terminal and line.is_from_jvm):
            return
        stack = {"stack": line.stack} if line.stack and not on_terminal else {}
        log.log(_LEVELS.get(line.level, logging.INFO), message, logger=line.logger, **stack)

    return log_line
