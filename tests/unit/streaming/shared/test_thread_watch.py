"""Threads that end because of an error: they are logged, counted and named, and the one that is vital ends its process."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from api_rig import READ_TOKEN, Rig
from prometheus_client import CollectorRegistry, generate_latest

from rheostat.errors import EXIT_FAULT, ThreadEndedError
from rheostat.run import cli
from streaming.metrics_server import serve
from streaming.shared.process_metrics import ProcessMetricsCollector
from streaming.shared.thread_watch import ThreadWatch, VitalThread
from tuner.api import uvicorn_server
from tuner.api.server import HttpServer

WAIT_S_MAX = 10.0
SETTINGS = """
cluster: main
kafka: {bootstrap_servers: "127.0.0.1:1"}
stream: {checkpoint_dir: /tmp/checkpoint}
tuner: {rate_bytes_per_s_max: 50000000, http: {port: 0}}
"""


@pytest.fixture
def stop() -> threading.Event:
    return threading.Event()


@pytest.fixture
def watch(stop: threading.Event) -> Iterator[ThreadWatch]:
    before = threading.excepthook
    made = ThreadWatch(on_vital_end=stop.set)
    made.install()
    yield made
    threading.excepthook = before


def break_down() -> None:
    raise RuntimeError("broken")


def break_down_of(server: object) -> None:
    break_down()


def run(thread: threading.Thread) -> None:
    thread.start()
    thread.join(WAIT_S_MAX)
    assert not thread.is_alive()


def test_thread_ended_by_error_is_logged_counted_and_named(watch: ThreadWatch, stop: threading.Event) -> None:
    with structlog.testing.capture_logs() as lines:
        run(threading.Thread(target=break_down, name="settings"))
    assert [(line["thread"], line["log_level"]) for line in lines] == [("settings", "error")]
    assert "test_thread_watch.py" in lines[0]["traceback"]
    assert watch.count == 1
    assert "the thread settings has ended because of an error (RuntimeError: broken)" in watch.complaints()[0]
    assert not stop.is_set()
    assert watch.vital_end is None


def test_thread_that_ends_well_is_no_complaint(watch: ThreadWatch) -> None:
    run(threading.Thread(target=lambda: None))
    assert (watch.count, watch.complaints()) == (0, [])


def test_complaints_are_bounded_and_the_count_is_not(watch: ThreadWatch) -> None:
    for number in range(30):
        run(threading.Thread(target=break_down, name=f"t{number}"))
    assert watch.count == 30
    assert len(watch.complaints()) == 10


def test_vital_thread_ends_its_process(watch: ThreadWatch, stop: threading.Event) -> None:
    run(VitalThread(target=break_down, name="http"))
    assert stop.is_set()
    assert watch.vital_end is not None
    assert "http" in watch.vital_end


@pytest.mark.parametrize("how", ["an error", "ends by itself"])
def test_http_server_that_ends_stops_the_tuner(
    how: str, watch: ThreadWatch, stop: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig()
    server = HttpServer(rig.app, "127.0.0.1", 0)

    async def tick(self: object, counter: int) -> bool:
        if how == "an error":
            raise RuntimeError("the event loop is broken")
        return True

    monkeypatch.setattr(uvicorn_server.LimitedServer, "on_tick", tick)
    server.start()
    assert stop.wait(WAIT_S_MAX), "the tuner goes on without its HTTP server"
    server.stop()
    assert watch.count == 1


def test_http_server_that_accepts_no_more_stops_the_tuner(watch: ThreadWatch, stop: threading.Event) -> None:
    rig = Rig()
    server = HttpServer(rig.app, "127.0.0.1", 0)
    server._server._table.admit = break_down  # type: ignore[method-assign, assignment]
    server.start()
    with pytest.raises((urllib.error.URLError, OSError)):
        urllib.request.urlopen(f"http://127.0.0.1:{server.port}/healthz", timeout=1)
    assert stop.wait(WAIT_S_MAX), "the tuner goes on though it accepts no connection"
    server.stop()


def test_metrics_server_that_ends_stops_its_process(
    watch: ThreadWatch, stop: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socketserver.BaseServer.serve_forever", break_down_of)
    serve(CollectorRegistry(), "127.0.0.1", 0)._server.server_close()
    assert stop.wait(WAIT_S_MAX)


def test_ended_threads_appear_in_metric_and_readyz(watch: ThreadWatch) -> None:
    rig = Rig()
    rig.cycle()
    rig.board.threads = watch
    assert "thread" not in rig.get("/readyz").text
    run(threading.Thread(target=break_down, name="settings"))
    said = rig.get("/readyz")
    assert said.status_code == 200, "it controls the throttles all the same"
    assert "the thread settings has ended because of an error (RuntimeError: broken)" in said.text
    assert rig.get("/readyz", None).text == "ready; a thread has ended because of an error\n"
    assert "settings" in rig.get("/status", READ_TOKEN).json()["ready_text"]
    registry = CollectorRegistry()
    registry.register(ProcessMetricsCollector("main", "tune", threads=watch))
    assert b'rheostat_threads_ended_total{cluster="main",part="tune"} 1.0' in generate_latest(registry)


def test_end_of_vital_thread_exits_with_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watch: ThreadWatch
) -> None:
    file = tmp_path / "rheostat.yaml"
    file.write_text(SETTINGS)

    def run_tune(settings: object, stop: threading.Event, *_: object) -> None:
        VitalThread(target=break_down, name="http", daemon=True).start()
        assert stop.wait(WAIT_S_MAX)

    monkeypatch.setattr("rheostat.run.services.run_tune", run_tune)
    monkeypatch.setattr("rheostat.run.sighup.reload_on_hangup", lambda *_: None)
    monkeypatch.setattr("rheostat.run.services.stop_on_signals", threading.Event)
    monkeypatch.setattr("rheostat.console.logs.set_up_logs", lambda **_: None)
    with pytest.raises(ThreadEndedError, match="the thread http has ended because of an error") as ended:
        cli.tune(file, wait=True)
    assert ended.value.exit_code == EXIT_FAULT
