"""Metrics of the stream and of the settings file, as Prometheus reads them."""

from __future__ import annotations

import json
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import structlog

from rheostat.config.change_watch import ConfigWatch
from rheostat.config.settings import load_settings
from streaming.history.passes import HistoryJob
from streaming.metrics_server import serve
from streaming.progress import behind_records, event_time_s
from streaming.shared.metric_page import render_page
from streaming.shared.process_metrics import ConfigState, ProcessMetricsCollector
from streaming.stream_counts import StreamCounts
from streaming.stream_metrics import registry_of

GOOD = """
cluster: main
kafka: {bootstrap_servers: "localhost:9092"}
stream: {checkpoint_dir: /tmp/checkpoint}
tuner: {rate_bytes_per_s_max: 50000000}
"""


def source(end: Any, latest: Any) -> dict[str, Any]:
    return {"endOffset": json.dumps(end), "latestOffset": json.dumps(latest)}


# -- Spark's report of a batch -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sources", "behind"),
    [
        ([], None),
        ([source({"t": {"0": 5, "1": 7}}, {"t": {"0": 9, "1": 7}})], 4),
        ([source({"t": {"0": 5}}, {"t": {"0": 9}}), source({"u": {"0": 1}}, {"u": {"0": 3}})], 6),
        ([source({"t": {"0": 9}}, {"t": {"0": 5}})], 0),  # A topic that was made again.
        (
            [source({"t": {"0": 5}}, {"t": {"0": 5, "1": 8}})],
            0,
        ),  # A partition that is new: nobody knows where it began.
        ([source({"logOffset": 3}, {"logOffset": 3})], None),  # Of files.
        ([source(None, None)], None),
        ([{"endOffset": "no json", "latestOffset": "{}"}], None),
        ([source({"t": {"0": 5}}, {"t": {"0": 9}}), source({"logOffset": 3}, None)], 4),
        ([{}], None),
    ],
)
def test_behind_records_sums_unread_records(sources: list[dict[str, Any]], behind: int | None) -> None:
    assert behind_records(sources) == behind


@pytest.mark.parametrize(
    ("event_time", "seconds"),
    [
        ({"max": "2023-11-14T22:13:20.500Z"}, 1_700_000_000.5),
        ({"max": "1970-01-01T00:00:00.000Z"}, None),  # Spark's word for: nothing yet.
        ({"max": "yesterday"}, None),
        ({}, None),
        (None, None),
    ],
)
def test_event_time_is_parsed_or_none(event_time: dict[str, str] | None, seconds: float | None) -> None:
    assert event_time_s({"eventTime": event_time}, "max") == seconds


# -- the page ----------------------------------------------------------------------------------------------------------


def progress(**changes: Any) -> dict[str, Any]:
    return {
        "batch_ms": 240, "newest_input_at_s": 99.25, "watermark_at_s": 89.0, "behind_records": 7, "state_rows": 42,
        "input_rows": 5, "late_rows_dropped": 1, "refused": 3, "refused_not_written": 2, "backlog_remaining_records": 0,
        **changes,
    }  # fmt: skip


def lines(counts: StreamCounts) -> list[str]:
    return render_page(registry_of("main", counts, 5.0)).decode().splitlines()


def test_stream_metrics_before_first_batch_lack_batch_values() -> None:
    told = [line for line in lines(StreamCounts()) if not line.startswith("#")]
    assert 'rheostat_stream_batches_total{cluster="main"} 0' in told
    assert not any("last_batch" in line or "batch_seconds" in line or "behind" in line for line in told)


def test_stream_metrics_sum_batches_and_show_last() -> None:
    counts = StreamCounts()
    counts.add_batch(progress(), 100.0)
    counts.add_batch(progress(input_rows=6, behind_records=None, watermark_at_s=None), 105.5)
    counts.add_restart()
    told = lines(counts)
    for line in (
        'rheostat_stream_last_batch_timestamp_seconds{cluster="main"} 105.5',
        'rheostat_stream_batch_seconds{cluster="main"} 0.24',
        'rheostat_stream_batch_interval_seconds{cluster="main"} 5',
        'rheostat_stream_newest_input_timestamp_seconds{cluster="main"} 99.25',
        'rheostat_stream_input_rows_total{cluster="main"} 11',
        'rheostat_stream_batches_total{cluster="main"} 2',
        'rheostat_stream_rejects_total{cluster="main"} 6',
        'rheostat_stream_rejects_not_written_total{cluster="main"} 4',
        'rheostat_stream_late_rows_total{cluster="main"} 2',
        'rheostat_stream_restarts_total{cluster="main"} 1',
        'rheostat_stream_state_rows{cluster="main"} 42',
    ):
        assert line in told, line
    assert not any(line.startswith(("rheostat_stream_input_behind", "rheostat_stream_watermark")) for line in told)


def test_stream_metrics_tell_progress_of_history() -> None:
    counts = StreamCounts()
    assert not any("history_period_timestamp" in line for line in lines(counts) if not line.startswith("#"))
    counts.add_history(HistoryJob(periods=6, newest_end_ms=1_700_000_400_000, refused=2, took_s=1.5))
    counts.add_history(HistoryJob(periods=1, newest_end_ms=1_699_999_800_000, refused=1, took_s=0.5))
    counts.add_history_failure()
    told = lines(counts)
    for line in (
        'rheostat_stream_history_period_timestamp_seconds{cluster="main"} 1700000400',
        'rheostat_stream_history_job_seconds{cluster="main"} 0.5',
        'rheostat_stream_history_periods_total{cluster="main"} 7',
        'rheostat_stream_history_refused_signals_total{cluster="main"} 3',
        'rheostat_stream_history_failures_total{cluster="main"} 1',
    ):
        assert line in told, line


def test_stream_metrics_are_served_with_process_metrics() -> None:
    own = ProcessMetricsCollector(
        "main", "stream", lambda: ConfigState(is_valid=False, valid_at_s=5.0, is_applied=False), lambda: 1.5
    )
    server = serve(registry_of("main", StreamCounts(), 5.0, own), "127.0.0.1", 0)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=5) as answer:
            text = answer.read().decode()
    finally:
        server.close()
    for line in (
        'rheostat_config_reloads_total{cluster="main",part="stream",result="refused"} 0.0',
        'rheostat_config_last_reload_successful{cluster="main",part="stream"} 0.0',
        'rheostat_config_last_reload_success_timestamp_seconds{cluster="main",part="stream"} 5.0',
        'rheostat_config_in_force{cluster="main",part="stream"} 0.0',
        'rheostat_process_start_timestamp_seconds{cluster="main",part="stream"} 1.5',
    ):
        assert line in text.splitlines(), text
    assert 'rheostat_build_info{part="stream",version="' in text


# -- the settings file -------------------------------------------------------------------------------------------------


class Clock:
    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rheostat.yaml"
    path.write_text(GOOD)
    return path


def changed(file: Path, text: str) -> None:
    """Replaces the file by another, as editors and Kubernetes do; the modification time may be equal."""
    other = file.with_suffix(".new")
    other.write_text(text)
    other.replace(file)


def test_config_state_follows_file_without_reload(file: Path) -> None:
    clock, environ = Clock(), {"RHEOSTAT_TUNER__CYCLE_S": "4"}
    settings = load_settings(file, environ)
    watch = ConfigWatch(file, environ, settings, clock)
    assert watch.state() == ConfigState(is_valid=True, valid_at_s=1_000.0, is_applied=True)

    clock.now_s = 1_010.0
    with structlog.testing.capture_logs() as said:
        changed(file, GOOD + "collectr: {}\n")
        assert watch.state() == ConfigState(is_valid=False, valid_at_s=1_000.0, is_applied=False)
        assert watch.state() == ConfigState(is_valid=False, valid_at_s=1_000.0, is_applied=False)
    (line,) = said
    assert line["log_level"] == "error"
    assert "the next start would fail" in line["event"]
    assert "collectr: unknown key" in line["error"]

    clock.now_s = 1_020.0
    with structlog.testing.capture_logs() as said:
        changed(file, GOOD.replace("50000000", "40000000"))
        assert watch.state() == ConfigState(is_valid=True, valid_at_s=1_020.0, is_applied=False)
    assert [line["event"] for line in said] == ["the settings file has changed: send SIGHUP or restart to apply it"]
    assert settings.tuner.rate_bytes_per_s_max == 50_000_000

    clock.now_s = 1_030.0
    changed(file, "# a word\n" + GOOD)
    assert watch.state() == ConfigState(is_valid=True, valid_at_s=1_030.0, is_applied=True)
    file.unlink()
    assert watch.state() == ConfigState(is_valid=False, valid_at_s=1_030.0, is_applied=False)


def test_metrics_answer_concurrent_requests(file: Path) -> None:
    watch = ConfigWatch(file, {}, load_settings(file, {}))
    changed(file, GOOD + "\n")
    found: list[ConfigState] = []
    threads = [threading.Thread(target=lambda: found.append(watch.state())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(found) == 8
    assert len(set(found)) == 1


def test_standby_has_no_last_batch_whose_age_would_cause_an_alert() -> None:
    counts = StreamCounts()
    counts.add_batch(progress(backlog_remaining_records=4), 100.0)
    counts.set_active(True)
    told = lines(counts)
    assert 'rheostat_stream_active{cluster="main"} 1' in told
    assert 'rheostat_stream_last_batch_timestamp_seconds{cluster="main"} 100' in told
    counts.set_active(False)
    told = lines(counts)
    assert 'rheostat_stream_active{cluster="main"} 0' in told
    assert 'rheostat_stream_backlog_records{cluster="main"} 0' in told
    for name in ("last_batch_timestamp", "batch_seconds", "newest_input_timestamp", "input_behind"):
        assert not any(line.startswith(f"rheostat_stream_{name}") for line in told)
