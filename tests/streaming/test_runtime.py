"""Parts around the pipeline that need a JVM: the checkpoint's second lock, its recorded values, and the ownership of windows."""

from __future__ import annotations

import fcntl
import multiprocessing
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from stream_cases import TOPICS

from streaming import checkpoint_lock
from streaming.entities import entities
from streaming.errors import StreamError
from streaming.formats.common import RAW, Source
from streaming.kernel import LAYOUT
from streaming.pipeline import ending_between, made_with
from streaming.settings import StreamSettings
from streaming.shared.kafka import KafkaSettings
from streaming.signal_fields import BROKER_COUNTERS
from streaming.signals import STATE_TYPE, WindowShape, spans
from streaming.sources import Feed

FEED = Feed(KafkaSettings(bootstrap_servers="k:1"), ("a", "b"), "rheostat_json", Source("c"), 5000)


def _hold(lock: Path, ready: multiprocessing.synchronize.Event, leave: multiprocessing.synchronize.Event) -> None:
    """Holds the lock like a JVM that outlived its killed process."""
    with lock.open("a") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        ready.set()
        leave.wait(60)


def test_locked_by_jvm_waits_for_a_leftover_jvm(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    context = multiprocessing.get_context("spawn")
    ready, leave = context.Event(), context.Event()
    left = context.Process(target=_hold, args=(tmp_path / "checkpoint.lock", ready, leave))
    left.start()
    try:
        assert ready.wait(30)
        with checkpoint_lock.locked(folder):  # Python's own lock is free: its process is gone.
            with (
                pytest.raises(StreamError, match="in use by another rheostat"),
                checkpoint_lock.locked_by_jvm(spark, folder, wait_s=0.3),
            ):
                pass
            left.kill()
            with checkpoint_lock.locked_by_jvm(spark, folder, wait_s=20):
                pass
            with checkpoint_lock.locked_by_jvm(spark, folder, wait_s=0):  # Leaving gives it back.
                pass
    finally:
        left.kill()
        left.join(10)


def test_checkpoint_record_describes_state_and_settings(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = entities(spark.createDataFrame([], RAW), "rheostat_json", Source(""), 1)
    assert spans(rows, WindowShape()).schema.simpleString() == STATE_TYPE

    settings = StreamSettings(checkpoint_dir=Path("/c"))
    made = made_with(spark, [FEED], settings)
    assert made.sources == ("a+b as rheostat_json from k:1",)
    assert made.spark == spark.version
    assert made.state.startswith(f"{STATE_TYPE} {LAYOUT} replication_in_bytes_per_s ")
    moved = dict(reversed(BROKER_COUNTERS.items()))
    monkeypatch.setattr("streaming.pipeline.ROW_TABLES", (moved,))
    assert made_with(spark, [FEED], settings) != made
    monkeypatch.undo()
    assert made_with(spark, [FEED], settings) == made
    assert made_with(spark, [FEED], settings.model_copy(update={"window_s": 60})) == replace(made, window_s=60)


@pytest.mark.parametrize(
    ("after_ms", "until_ms", "kept"), [(None, None, 4), (5000, None, 3), (None, 10000, 3), (5000, 10000, 2), (15000, None, 1)]
)  # fmt: skip
def test_ending_between_keeps_windows_in_range_and_all_rejects(
    spark: SparkSession, after_ms: int | None, until_ms: int | None, kept: int
) -> None:
    rows = [(f"c|tenant|1|client_id=a%7Cb|{end}".encode(), TOPICS.signals) for end in (5000, 10000, 15000)]
    records = spark.createDataFrame([*rows, (b"t-0-99999", TOPICS.rejects)], "key binary, topic string")
    assert ending_between(records, TOPICS, after_ms, until_ms).count() == kept
