"""Runs the pipeline: starts session and query, reports progress, and stops both in reverse order.

A query that dies because Kafka is unreachable, or because an access token has expired, is restarted here, from its checkpoint and
in the same session. Each restart is reported, so a long outage is logged every half minute. A query is not restarted if Kafka was
never reachable in this process, because then the address is most likely wrong. Any other death of a query ends ``run``, and the
caller decides whether to start again. A stream that takes over, but cannot read where the other stream stopped, tries again in the
same way.

Of all streams of a cluster, the stream with the lease runs its query. A standby has its Spark session, and has run the query once
without output, so that its first signals come within seconds after it gets the lease.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import kafka.errors
import structlog
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streaming import backlog, checkpoint_lock, pipeline, quarantine, storage
from streaming.batch_values import BatchValues, batch_values
from streaming.checkpoint_files import open_checkpoint
from streaming.checkpoint_location import HadoopFolder
from streaming.errors import StreamError
from streaming.failure_causes import (
    explain_death,
    explain_jvm_end,
    explain_no_executor,
    explain_start_failure,
    first_line,
    may_be_caused_by_record,
    may_heal,
)
from streaming.history.worker import HistoryListener
from streaming.java_output import JavaLine, JavaOutput
from streaming.local_notes import note_failed_batch, notes_folder
from streaming.pipeline import RunningQuery
from streaming.progress import Reports
from streaming.session import SparkCluster, SparkOptions, end_recording, has_executor, ran_out_of_memory, spark_session
from streaming.settings import StreamSettings
from streaming.shared.class_archive import ClassArchive
from streaming.shared.contract import Topics
from streaming.shared.kafka import KafkaSettings
from streaming.shared.kafka.cluster import ClusterError
from streaming.sources import Feed
from streaming.standby import StreamLease, StreamStandby

log = structlog.get_logger("stream")

POLL_S = 1
_ON_STANDBY = "on standby: another stream has the lease"
_WAITS = "waits for an answer of the coordinator of its consumer group"
# Number of progress reports that Spark keeps. If several batches end between two polls, all their reports are read at once; at most
# a few batches end within a second.
_REPORTS_KEPT = 32
_NOT_RECORDED = (
    "the stream cannot record that a batch failed, so it cannot search this batch for a record that ends the stream: correct the "
    "cause in the error"
)
EXECUTOR_S_MAX = 120.0  # Longest wait for an executor of a cluster.
_RESTART_S_MIN = 1.0
_RESTART_S_MAX = 30.0


def _ignore(*_: Any) -> None:
    pass


@dataclass(frozen=True, slots=True)
class ProgressListener:
    """Callbacks for the stream's events.

    Attributes:
        progress: called after each batch with input: its ``batch_values``, and ``backlog_remaining_records``.
        active: called with True when the stream has the lease, and with False when it becomes a standby.
        restart: called before the query is restarted: the cause, and the delay in seconds.
        backlog: called at the start of the backlog and after each chunk, in another thread.
        backlog_failed: called when a chunk failed and will be retried, in another thread: the cause, and the delay in seconds.
        halved: called when a failing batch is halved: the number of its records before and after.
        quarantined: called when records are skipped because they end the query.
        history: called after each job that has made periods of the history, and when a pass over it fails; in another thread.
        java: called for each line that Spark's JVM prints, in another thread.
        alive: called about every second while the query runs and Spark's JVM answers, or the stream waits for the lease, and before
            the query is restarted: what the stream does (None means no change), and whether it is ready.
    """

    progress: Callable[[BatchValues], None] = _ignore
    active: Callable[[bool], None] = _ignore
    restart: Callable[[str, float], None] = _ignore
    backlog: Callable[[backlog.BacklogProgress], None] = _ignore
    backlog_failed: Callable[[str, float], None] = _ignore
    halved: Callable[[int, int], None] = _ignore
    quarantined: Callable[[quarantine.Quarantined], None] = _ignore
    history: HistoryListener = field(default_factory=HistoryListener)
    java: Callable[[JavaLine], None] = _ignore
    alive: Callable[[str | None, bool], None] = _ignore


def run(
    kafka_: KafkaSettings,
    topics: Topics,
    feeds: Sequence[Feed],
    settings: StreamSettings,
    jars: Sequence[Path],
    stop: threading.Event,
    join: Callable[[str], AbstractContextManager[StreamLease]],
    listener: ProgressListener = ProgressListener(),
    class_archive: ClassArchive | None = None,
) -> None:
    """Produces signals until ``stop`` is set, as long as this stream has the lease.

    Args:
        join: joins the group of the cluster's streams with the id of the checkpoint; leaves it on exit.
        class_archive: makes the next start on this machine faster.

    Raises:
        StreamError: the checkpoint is in use or does not fit, or the query died; the message names the cause.
    """
    with ExitStack() as teardown:
        storage.check_folders(settings)
        is_remote = isinstance(settings.checkpoint_dir, HadoopFolder)
        checkpoint_id = teardown.enter_context(checkpoint_lock.locked(settings.checkpoint_dir))
        # The group answers while Spark starts. But a process that waits for the lock of a remote checkpoint, which only Spark can
        # take, must not get the lease.
        early_lease = None if is_remote else teardown.enter_context(join(checkpoint_id))
        scratch = Path(teardown.enter_context(tempfile.TemporaryDirectory(prefix="rheostat-spark-")))
        output = JavaOutput(listener.java)
        # If the session fails before its JVM starts, the writing end is still open.
        teardown.callback(output.close_writing_end)
        spark = _start_spark(jars, settings, spark_options(settings, scratch, class_archive), output)
        reached = threading.Event()  # Set once Kafka has answered in this process.

        def keep_archive() -> None:
            # The archive is made once, so only after a query has run: before that, half of the classes are not loaded.
            if class_archive is not None and reached.is_set():
                end_recording(class_archive)

        teardown.callback(keep_archive)
        teardown.callback(spark.stop)
        if early_lease is not None:
            # Closed before the session, whose end takes seconds, so that a standby takes over at once.
            teardown.callback(early_lease.close)
        teardown.enter_context(_locked(spark, settings, stop))
        if stop.is_set():
            return
        if early_lease is not None:
            lease = early_lease
        else:
            lease = teardown.enter_context(join(checkpoint_id))
            teardown.callback(lease.close)
        monitor = _QueryMonitor(
            stop, listener, lease, reached, None if settings.is_local else partial(has_executor, spark)
        )
        query_parts = _QueryParts(spark, kafka_, topics, feeds, settings)
        warm_up = partial(pipeline.warm_up, *query_parts, scratch)
        standby = StreamStandby(
            lease, stop, warm_up, listener.active, lambda is_warm: _report_wait(lease, listener, is_warm=is_warm)
        )
        while standby.wait():
            _run_query(query_parts, monitor, lease, listener, output)


class _QueryParts(NamedTuple):
    """The first arguments of ``pipeline.start`` and ``pipeline.warm_up``."""

    spark: SparkSession
    kafka: KafkaSettings
    topics: Topics
    feeds: Sequence[Feed]
    settings: StreamSettings


def _run_query(
    parts: _QueryParts, monitor: _QueryMonitor, lease: StreamLease, listener: ProgressListener, output: JavaOutput
) -> None:
    """Runs the query until the stream is stopped or loses its lease, or the query dies of a cause that may end by itself.

    Raises:
        StreamError: the query died of another cause.
    """
    settings = parts.settings
    monitor.ran = False
    follows_another = lease.follows_another()
    try:
        with pipeline.start(
            *parts,
            follows_another=follows_another,
            on_backlog=listener.backlog,
            on_backlog_failure=listener.backlog_failed,
            on_reject=quarantine.RejectListener(listener.halved, listener.quarantined),
            on_history=listener.history,
        ) as running:
            lease.sign()
            monitor.until_end(running)
    except (Py4JNetworkError, ConnectionError) as error:
        _raise_jvm_end(error, settings, output, query_ran=monitor.ran)
    except NoExecutorError as error:
        raise StreamError(explain_no_executor(settings, EXECUTOR_S_MAX)) from error
    except OSError as error:
        raise storage.storage_error(error, settings) from error
    except (PySparkException, Py4JError, kafka.errors.KafkaError, ClusterError) as error:
        report = f"{type(error).__name__}: {first_line(error)}\n{error}"
        cause = explain_death(report, parts.kafka, parts.topics, settings, parts.feeds)
        # A stream that follows another stream has read that from Kafka, so the address is right.
        is_address_right = monitor.reached.is_set() or follows_another
        if is_address_right and may_heal(report, (parts.kafka, *(feed.kafka for feed in parts.feeds))):
            listener.restart(cause, monitor.wait_s)
            monitor.pause()
            return
        is_from_spark = isinstance(error, PySparkException | Py4JError)
        if monitor.ran and is_from_spark and may_be_caused_by_record(report):
            _note_failure(parts.spark, settings)
        raise StreamError(cause) from error


def _report_wait(lease: StreamLease, listener: ProgressListener, *, is_warm: bool) -> None:
    """Reports what a stream without the lease does; reports nothing while the lease's thread hangs.

    Args:
        is_warm: whether the stream could take over at once.
    """
    if lease.hangs():
        return
    if lease.stands_by():
        listener.alive(_ON_STANDBY if is_warm else None, is_warm)
    else:
        listener.alive(_WAITS, False)


def _raise_jvm_end(error: Exception, settings: StreamSettings, output: JavaOutput, *, query_ran: bool) -> NoReturn:
    """Raises the StreamError for a JVM that has ended. If it ran out of memory, the failure of the batch is recorded."""
    if query_ran and ran_out_of_memory():
        _note_failure_without_jvm(settings)
        raise StreamError(
            f"Spark's Java process ran out of memory ({settings.driver_memory_mb} MiB). Each restart reads the same "
            "records again, and a record that ends the process repeatedly is skipped. If no single record is the cause, raise "
            "stream.driver_memory_mb."
        ) from error
    raise StreamError(explain_jvm_end(output.last_words(), settings)) from error


def _start_spark(
    jars: Sequence[Path], settings: StreamSettings, options: SparkOptions, output: JavaOutput
) -> SparkSession:
    """Returns a session.

    Raises:
        StreamError: the session does not start.
    """
    try:
        spark = spark_session(jars, options, output)
    except Exception as error:  # Py4J raises many kinds of errors if the JVM fails.
        raise StreamError(explain_start_failure(error, output.last_words(), settings)) from error
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", str(_REPORTS_KEPT))
    return spark


def spark_options(settings: StreamSettings, scratch: Path, class_archive: ClassArchive | None = None) -> SparkOptions:
    """Returns the options of the stream's Spark session."""
    return SparkOptions(
        app_name="rheostat",
        local_dir=scratch,
        cores=settings.threads,
        driver_memory_mb=settings.driver_memory_mb,
        shuffle_partitions=settings.shuffle_partitions,
        cluster=_spark_cluster(settings),
        spark_conf=settings.spark_conf,
        compiler=settings.compiler,
        class_archive=class_archive,
        is_checkpoint_local=isinstance(settings.checkpoint_dir, Path),
    )


@contextmanager
def _locked(spark: SparkSession, settings: StreamSettings, stop: threading.Event) -> Iterator[None]:
    """Locks the checkpoint in the JVM, unless ``stop`` is set while it waits for the lock.

    Raises:
        StreamError: another process has the lock, or the file system of the checkpoint cannot be used.
    """
    with ExitStack() as lock:
        try:
            lock.enter_context(checkpoint_lock.locked_by_jvm(spark, settings.checkpoint_dir, None, stop))
        except OSError as error:
            raise storage.storage_error(error, settings) from error
        yield


def _note_failure(spark: SparkSession, settings: StreamSettings) -> None:
    """Records that the unfinished batch failed. An error here is only logged, so that it does not replace the query's error."""
    try:
        quarantine.note_failure(open_checkpoint(spark, settings.checkpoint_dir))
    except (StreamError, OSError, Py4JError) as error:
        log.error(_NOT_RECORDED, error=str(error))


def _note_failure_without_jvm(settings: StreamSettings) -> None:
    """Records that the unfinished batch has ended the JVM. Only the next JVM can write to a Hadoop file system."""
    try:
        if isinstance(settings.checkpoint_dir, HadoopFolder):
            note_failed_batch(notes_folder(settings.checkpoint_dir))
        else:
            quarantine.note_failure(settings.checkpoint_dir)
    except (StreamError, OSError) as error:
        log.error(_NOT_RECORDED, error=str(error))


def _spark_cluster(settings: StreamSettings) -> SparkCluster | None:
    if settings.is_local:
        return None
    return SparkCluster(
        master=settings.master,
        driver_host=settings.driver_host or "127.0.0.1",
        executor_memory_mb=settings.executor_memory_mb,
        executor_cores=settings.executor_cores,
    )


class NoExecutorError(Exception):
    """The cluster gives the session no executor."""


class _QueryMonitor:
    """Waits for the end of a query and reports its progress. One monitor serves all queries of a run, one after the other."""

    def __init__(
        self,
        stop: threading.Event,
        listener: ProgressListener,
        lease: StreamLease,
        reached: threading.Event,
        has_executor: Callable[[], bool] | None = None,
    ) -> None:
        """
        Args:
            reached: set as soon as Kafka has answered in this process.
            has_executor: returns whether an executor is connected; None if the session is local.
        """
        self._stop = stop
        self._has_executor = has_executor
        self._lease = lease
        self._listener = listener
        self.reached = reached
        self.wait_s = _RESTART_S_MIN  # Delay before the next restart.
        self.ran = False  # Whether the current query has started.

    def until_end(self, running: RunningQuery) -> None:
        """Returns when ``stop`` is set, or the lease is lost; raises the error that ended the query.

        Raises:
            NoExecutorError: the cluster has given no executor for ``EXECUTOR_S_MAX``.
        """
        self.ran = True
        reports = Reports()
        executor_at_s = time.monotonic()
        try:
            while not self._stop.is_set() and self._lease.holds():
                if running.query.awaitTermination(POLL_S):
                    raise StreamError("The stream's Spark query was stopped from outside rheostat.")
                self._report(running, reports)
                if self._has_executor is None or self._has_executor():
                    executor_at_s = time.monotonic()
                elif time.monotonic() > executor_at_s + EXECUTOR_S_MAX:
                    raise NoExecutorError
                if not self._lease.hangs():
                    self._listener.alive("the query runs", True)
        finally:
            # Reports the batches that ended since the last poll, unless the JVM is gone.
            with suppress(Py4JError, PySparkException, ConnectionError):
                self._report(running, reports)

    def _report(self, running: RunningQuery, reports: Reports) -> None:
        for report in reports.new(running.query):
            self.wait_s = _RESTART_S_MIN
            remaining = running.worker.progress().remaining_records if running.worker is not None else 0
            self._listener.progress({**batch_values(report), "backlog_remaining_records": remaining})
        if reports.has_reported:
            self.reached.set()

    def pause(self) -> None:
        self._listener.alive(None, False)
        self._stop.wait(self.wait_s)
        self.wait_s = min(_RESTART_S_MAX, self.wait_s * 2)
