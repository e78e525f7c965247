"""The pipeline as something to run: session and query up, progress out, both down in reverse order.

A query that dies because Kafka was away is started again here, from its checkpoint and in the session that is warm, each
time with a word about the cause: a cluster that stays away is a line in the log every half minute, and not silence. It
must have been there once, though: an address that was wrong from the start is an error. Whatever else a query dies of
takes ``run`` with it. Starting it again is then the caller's decision, since a cause that stays must be seen.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kafka.errors
import structlog
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from streaming import backlog, checkpoint, pipeline, quarantine, storage
from streaming.class_archive import ClassArchive
from streaming.errors import StreamError
from streaming.failure_causes import (
    first_line,
    is_lost,
    may_be_a_record,
    why,
    why_gone,
    why_not_started,
)
from streaming.java_output import JavaLine, JavaOutput
from streaming.pipeline import RunningQuery
from streaming.progress import Reports, behind_records, event_time_s
from streaming.session import Standalone, ran_out_of_memory, spark_session
from streaming.settings import StreamSettings
from streaming.shared.contract import Topics
from streaming.shared.kafka import KafkaSettings
from streaming.shared.kafka.cluster import ClusterError
from streaming.sources import Feed

log = structlog.get_logger("stream")

POLL_S = 1
# All that are kept are read where batches end faster than they are asked for, so not a hundred; and never more than a few
# end within a second.
_REPORTS_KEPT = 32
_AGAIN_S_MIN = 1.0
_AGAIN_S_MAX = 30.0

Progress = dict[str, Any]


def _nobody(*_: Any) -> None:
    pass


@dataclass(frozen=True, slots=True)
class ProgressListener:
    """Who hears of what happens. ``backlog`` and ``backlog_failed`` are called in another thread."""

    # Of every batch that had input: ``batch``, ``batch_ms``, ``input_rows``, ``input_rows_per_s``, ``state_rows``,
    # ``late_rows_dropped`` (behind the watermark), ``at`` (ISO time), ``backlog_remaining_records``, ``refused`` records and
    # ``refused_not_written``: those that are not in the rejects topic, because they were too many for the state or too late;
    # ``newest_input_at_s`` and ``watermark_at_s`` (Kafka's time) and ``behind_records``, which it left unread.
    progress: Callable[[Progress], None] = _nobody
    again: Callable[[str, float], None] = _nobody  # The query starts again: because of what, in how many seconds.
    backlog: Callable[[backlog.State], None] = _nobody  # At its begin and after every chunk.
    backlog_failed: Callable[[str, float], None] = _nobody  # The same chunk comes again: because of what, in s.
    halved: Callable[[int, int], None] = _nobody  # A batch of so many records fails, and is cut to so many.
    quarantined: Callable[[quarantine.Quarantined], None] = _nobody  # Records are left out, as they end the query.
    java: Callable[[JavaLine], None] = _nobody  # Each line that Spark's JVM prints; called in another thread.


def run(
    kafka_: KafkaSettings,
    topics: Topics,
    feeds: Sequence[Feed],
    settings: StreamSettings,
    jars: Sequence[Path],
    stop: threading.Event,
    listener: ProgressListener = ProgressListener(),
    class_archive: ClassArchive | None = None,
) -> None:
    """Makes signals until ``stop`` is set.

    Args:
        class_archive: makes the next start of this program on this machine a quicker one.

    Raises:
        StreamError: the checkpoint is in use or does not fit, or the query died; the message names the cause.
    """
    # Torn down last in, first out: query, locks, session, scratch folder.
    with ExitStack() as teardown:
        _check_places(settings)
        teardown.enter_context(checkpoint.locked(settings.checkpoint_dir))
        scratch = teardown.enter_context(tempfile.TemporaryDirectory(prefix="rheostat-spark-"))
        output = JavaOutput(listener.java)
        teardown.callback(output.close_writing_end)  # A session that fails before it starts a JVM leaves it open.
        try:
            spark = spark_session(
                jars,
                app_name="rheostat",
                driver_memory_mb=settings.driver_memory_mb,
                local_dir=Path(scratch),
                cores=settings.cores,
                shuffle_partitions=settings.shuffle_partitions,
                standalone=_standalone(settings),
                compiler=settings.compiler,
                class_archive=class_archive,
                output=output,
            )
        except Exception as error:  # Py4J's, for whatever the JVM did not like.
            raise StreamError(why_not_started(error, output.last_words(), settings)) from error
        spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", str(_REPORTS_KEPT))
        watch = _Watch(stop, listener)
        if class_archive is not None:
            # A run that never made a signal has loaded half of the classes, and an archive is made once.
            teardown.callback(lambda: class_archive.keep() if watch.was_reached else None)
        teardown.callback(spark.stop)
        teardown.enter_context(checkpoint.locked_by_jvm(spark, settings.checkpoint_dir))
        while not stop.is_set():
            watch.ran = False
            try:
                with pipeline.start(
                    spark,
                    kafka_,
                    topics,
                    feeds,
                    settings,
                    listener.backlog,
                    listener.backlog_failed,
                    quarantine.RejectListener(listener.halved, listener.quarantined),
                ) as live:
                    watch.until_end(live)
            except (Py4JNetworkError, ConnectionError) as error:
                if watch.ran and ran_out_of_memory():
                    _note_failure(settings.checkpoint_dir)
                    raise StreamError(
                        f"Spark's Java process ran out of memory ({settings.driver_memory_mb} MiB). The next start reads the same "
                        "records again, and leaves out one that ends it every time; raise stream.driver_memory_mb if none is found."
                    ) from error
                raise StreamError(why_gone(output.last_words(), settings)) from error
            except OSError as error:
                raise storage.storage_error(error, storage.folders(settings)) from error
            except (PySparkException, Py4JError, kafka.errors.KafkaError, ClusterError) as error:
                report = f"{type(error).__name__}: {first_line(error)}\n{error}"
                cause = why(report, kafka_, topics, settings, feeds)
                if not (watch.was_reached and is_lost(report)):
                    if watch.ran and isinstance(error, PySparkException | Py4JError) and may_be_a_record(report):
                        _note_failure(settings.checkpoint_dir)
                    raise StreamError(cause) from error
                listener.again(cause, watch.wait_s)
                watch.pause()


def _note_failure(checkpoint_dir: Path) -> None:
    """Notes that the begun batch has failed. An error of that is logged, so that it does not replace what ended the query."""
    try:
        quarantine.note_failure(checkpoint_dir)
    except (StreamError, OSError) as error:
        log.error(
            "the failed batch is not noted, so a record that ends the stream is not searched for", error=str(error)
        )


def _check_places(settings: StreamSettings) -> None:
    """
    Raises:
        StreamError: a folder that the stream writes to does not take it; said before Spark starts.
    """
    for place in storage.folders(settings):
        if (text := storage.folder_fault(place)) is not None:
            raise StreamError(f"The stream cannot start. {text}")
    if (text := storage.foreign_file(settings.checkpoint_dir)) is not None:
        raise StreamError(f"The stream cannot start. {text}")


def _standalone(settings: StreamSettings) -> Standalone | None:
    if settings.is_local:
        return None
    return Standalone(
        settings.master,
        settings.driver_host or "127.0.0.1",
        settings.executor_memory_mb,
        settings.executor_cores,
    )


class _Watch:
    """Looks after one query after the other."""

    def __init__(self, stop: threading.Event, listener: ProgressListener) -> None:
        self._stop = stop
        self._listener = listener
        self.was_reached = False  # Spark has had an answer of Kafka since this process began.
        self.wait_s = _AGAIN_S_MIN
        self.ran = False  # The query that is looked after now has begun.

    def until_end(self, live: RunningQuery) -> None:
        """Returns when asked to stop, and raises what the query died of."""
        self.ran = True
        reports = Reports()
        try:
            while not self._stop.is_set():
                if live.query.awaitTermination(POLL_S):
                    raise StreamError("The query was stopped from outside.")
                self._tell(live, reports)
        finally:
            # Batches that ended since count as well, also of a query that has died; of a JVM that is gone nobody can tell.
            with suppress(Py4JError, PySparkException, ConnectionError):
                self._tell(live, reports)

    def _tell(self, live: RunningQuery, reports: Reports) -> None:
        for report in reports.new(live.query):
            self.wait_s = _AGAIN_S_MIN
            left = live.worker.state().remaining_records if live.worker is not None else 0
            self._listener.progress({**progress(report), "backlog_remaining_records": left})
        self.was_reached = self.was_reached or reports.any

    def pause(self) -> None:
        self._stop.wait(self.wait_s)
        self.wait_s = min(_AGAIN_S_MAX, self.wait_s * 2)


def progress(last: Any) -> Progress:
    """What matters of Spark's report of one batch."""
    state = last["stateOperators"]
    return {
        "batch": last["batchId"],
        "at": last["timestamp"],
        "batch_ms": last["durationMs"].get("triggerExecution"),
        "input_rows": last["numInputRows"],
        "input_rows_per_s": last["inputRowsPerSecond"],
        "state_rows": sum(operator["numRowsTotal"] for operator in state),
        "late_rows_dropped": sum(operator["numRowsDroppedByWatermark"] for operator in state),
        "refused": _observed(last, pipeline.REFUSED),
        "refused_not_written": _observed(last, pipeline.REFUSED) - _observed(last, pipeline.WRITTEN),
        "newest_input_at_s": event_time_s(last, "max"),
        "watermark_at_s": event_time_s(last, "watermark"),
        "behind_records": behind_records(last["sources"]),
    }


def _observed(last: Any, name: str) -> int:
    row = last["observedMetrics"].get(name)
    return int(row["rows"]) if row is not None else 0
