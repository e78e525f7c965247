"""SIGHUP reloads the settings that may change while the tuner runs; every other change is refused by name."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from rheostat.config.change_watch import RELOADABLE, ConfigWatch, changed_keys
from rheostat.config.settings import load_file, load_settings
from rheostat.console.logs import set_log_level, set_up_logs
from rheostat.run import sighup
from streaming.shared.process_metrics import ConfigState
from tuner.api.quota_status_store import QuotaStatusStore
from tuner.api.status_store import StatusStore
from tuner.control.throttle.objective import Capacity
from tuner.core.partition_limits import PartitionLimits
from tuner.core.throttle_limits import MB
from tuner.runtime.reload import show_settings
from tuner.settings.schedule_periods import find_period

GOOD = """
cluster: main
kafka: {bootstrap_servers: "localhost:9092"}
stream: {checkpoint_dir: /tmp/checkpoint}
tuner: {rate_bytes_per_s_max: 50000000, http: {port: 9464}}
"""
LOWER = GOOD.replace("50000000", "40000000")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rheostat.yaml"
    path.write_text(GOOD)
    return path


@pytest.fixture
def watch(file: Path) -> ConfigWatch:
    return ConfigWatch(file, {}, load_settings(file, {}), lambda: 1_000.0)


def test_reload_changed_ceiling_waits_until_taken(file: Path, watch: ConfigWatch) -> None:
    file.write_text(LOWER)
    assert not watch.waiting(), "what is saved is not in force before somebody says so"
    watch.reload()
    assert watch.waiting()
    with structlog.testing.capture_logs() as said:
        assert watch.take().tuner.rate_bytes_per_s_max == 40 * MB
    assert [line["changed"] for line in said] == [["tuner.rate_bytes_per_s_max"]]
    assert not watch.waiting()
    assert watch.state() == ConfigState(is_valid=True, valid_at_s=1_000.0, is_applied=True, reloads_taken=1)


def test_reload_faulty_file_changes_nothing_and_names_the_key(file: Path, watch: ConfigWatch) -> None:
    file.write_text(LOWER.replace("cluster", "clutser"))
    with structlog.testing.capture_logs() as said:
        watch.reload()
    assert not watch.waiting()
    assert "clutser: unknown key" in said[0]["error"]
    assert watch.state() == ConfigState(is_valid=False, valid_at_s=1_000.0, is_applied=False, reloads_refused=1)
    file.write_text(LOWER)
    watch.reload()
    assert watch.take().tuner.rate_bytes_per_s_max == 40 * MB
    assert watch.state() == ConfigState(True, 1_000.0, True, reloads_taken=1, reloads_refused=1)


def test_reload_min_rate_above_ceiling_is_refused(file: Path, watch: ConfigWatch) -> None:
    file.write_text(GOOD.replace("{rate", "{rate_bytes_per_s_min: 60000000, rate"))
    with structlog.testing.capture_logs() as said:
        watch.reload()
    assert "rate_bytes_per_s_min (60000000) is above" in said[0]["error"]
    assert not watch.waiting()


def test_reload_change_that_needs_restart_is_refused_whole(file: Path, watch: ConfigWatch) -> None:
    file.write_text(LOWER.replace("9464", "9999").replace("localhost", "elsewhere"))
    with structlog.testing.capture_logs() as said:
        watch.reload()
    assert "a restart is needed for kafka, tuner.http." in said[0]["event"]
    assert not watch.waiting()
    assert watch.state() == ConfigState(is_valid=True, valid_at_s=1_000.0, is_applied=False, reloads_refused=1)


def test_reload_of_original_file_cancels_a_waiting_change(file: Path, watch: ConfigWatch) -> None:
    file.write_text(LOWER)
    watch.reload()
    file.write_text(GOOD)
    watch.reload()
    assert not watch.waiting()


def test_reload_of_equivalent_file_changes_nothing(file: Path, watch: ConfigWatch) -> None:
    file.write_text("# a word\n" + GOOD)
    watch.reload()
    assert not watch.waiting()
    assert watch.state().reloads_taken == 1


def test_changes_are_reloadable_or_need_a_restart(file: Path) -> None:
    before = load_settings(file, {})
    file.write_text(
        GOOD.replace("main", "other").replace("50000000", "40000000")
        + "limits: {max_partitions: 5}\ncollector: {interval_s: 7}\n"
    )
    found = changed_keys(before, load_settings(file, {}))
    assert found == ["cluster", "collector", "limits", "tuner.rate_bytes_per_s_max"]
    assert set(found) & RELOADABLE == {"limits", "tuner.rate_bytes_per_s_max"}


def test_show_settings_updates_limits_and_objectives_in_status(file: Path) -> None:
    settings = load_settings(file, {}).tuner
    board, quotas = (
        StatusStore("main", settings.limits(), dry_run=False, wall_clock=lambda: 0.0),
        QuotaStatusStore("main"),
    )
    file.write_text(
        LOWER.replace(
            "{rate",
            "{objective: {latency_ms: 20}, capacity: {in_bytes_per_s: 1e8, out_bytes_per_s: 1e8}, mutation_quota: {}, rate",
        )
    )
    period = find_period(load_settings(file, {}).tuner, now_ms=0)
    show_settings(period, PartitionLimits(broker_partitions_max=5), board, quotas)
    assert board.limits.rate_bytes_per_s_max == 40 * MB
    assert board.limits.closed_loop
    assert board.objective is not None
    assert board.capacity == Capacity(1e8, 1e8)
    assert board.partition_limits == PartitionLimits(broker_partitions_max=5)
    assert quotas.objective is not None


@pytest.fixture
def hangup() -> Iterator[None]:
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


def test_sighup_reloads_the_file(file: Path, watch: ConfigWatch, hangup: None) -> None:
    stop, followed = threading.Event(), threading.Event()
    watch.after_reload(followed.set)
    watch.serve_reloads()
    sighup.reload_on_hangup(watch.request_reload, stop)
    file.write_text(LOWER)
    os.kill(os.getpid(), signal.SIGHUP)
    deadline_s = time.monotonic() + 30
    while not watch.waiting() and time.monotonic() < deadline_s:
        time.sleep(0.02)
    assert watch.waiting()
    assert not stop.is_set()
    assert followed.wait(30), "the certificates are not read again"


def test_sighup_without_its_terminal_stops_the_process(monkeypatch: pytest.MonkeyPatch, hangup: None) -> None:
    there, stop, reloads = [True], threading.Event(), list[int]()
    monkeypatch.setattr(sighup, "_has_terminal", lambda: there[0])
    monkeypatch.setattr(sighup, "_in_foreground", lambda: True)
    sighup.reload_on_hangup(lambda: reloads.append(1), stop)
    os.kill(os.getpid(), signal.SIGHUP)
    assert (reloads, stop.is_set()) == ([1], False)
    there[0] = False
    os.kill(os.getpid(), signal.SIGHUP)
    assert (reloads, stop.is_set()) == ([1], True)


@pytest.mark.parametrize("how", ["behind the shell", "under nohup"])
def test_sighup_reloads_processes_detached_from_their_terminal(
    how: str, monkeypatch: pytest.MonkeyPatch, hangup: None
) -> None:
    stop, reloads = threading.Event(), list[int]()
    monkeypatch.setattr(sighup, "_has_terminal", lambda: False)
    monkeypatch.setattr(sighup, "_in_foreground", lambda: how == "under nohup")
    signal.signal(signal.SIGHUP, signal.SIG_IGN if how == "under nohup" else signal.SIG_DFL)
    sighup.reload_on_hangup(lambda: reloads.append(1), stop)
    os.kill(os.getpid(), signal.SIGHUP)
    assert (reloads, stop.is_set()) == ([1], False)


def test_take_still_reports_a_file_broken_meanwhile(file: Path, watch: ConfigWatch) -> None:
    """The settings in use are valid, but the next start would refuse the file."""
    file.write_text(LOWER)
    watch.reload()
    assert watch.waiting()
    file.write_text("tuner: [")
    assert not watch.state().is_valid
    watch.take()
    assert not watch.state().is_valid


LOUD = f"{GOOD}log: {{level: warning}}\n"


def levels_watch(file: Path, part: str) -> tuple[ConfigWatch, list[str]]:
    set_levels: list[str] = []
    return ConfigWatch(
        file, {}, load_settings(file, {}), lambda: 1_000.0, part=part, set_level=set_levels.append
    ), set_levels


@pytest.mark.parametrize("part", ["run", "collect", "stream", "learn", "tune"])
def test_reload_applies_the_log_level_in_each_process(file: Path, part: str) -> None:
    watch, set_levels = levels_watch(file, part)
    file.write_text(LOUD)
    with structlog.testing.capture_logs() as said:
        watch.reload()
    assert said[0]["event"] == "log.level is now warning"
    assert set_levels == ["info", "warning"], "the line about it is always shown"
    assert not watch.waiting()
    assert watch.state() == ConfigState(is_valid=True, valid_at_s=1_000.0, is_applied=True, reloads_taken=1)
    watch.reload()
    assert set_levels == ["info", "warning"]


def test_reload_applies_the_level_beside_a_change_that_needs_restart(file: Path) -> None:
    watch, set_levels = levels_watch(file, "tune")
    file.write_text(LOUD.replace("9464", "9999"))
    watch.reload()
    assert set_levels[-1] == "warning"
    assert watch.state().reloads_refused == 1


@pytest.mark.parametrize(("part", "refused"), [("run", 0), ("collect", 1), ("stream", 1), ("learn", 0)])
def test_reload_names_changes_of_the_own_sections_only(file: Path, part: str, refused: int) -> None:
    watch, _ = levels_watch(file, part)
    file.write_text(f"{LOWER}collector: {{interval_s: 7}}\n")
    with structlog.testing.capture_logs() as said:
        watch.reload()
    assert ["a restart is needed for collector." in line["event"] for line in said] == [True] * refused
    assert (watch.state().reloads_refused, watch.state().is_applied) == (refused, not refused)


def test_log_level_hides_lower_lines_until_it_changes() -> None:
    out = io.StringIO()
    set_up_logs(out, "warning")
    log = structlog.get_logger("test")
    log.info("hidden")
    log.warning("shown")
    set_log_level("info")
    log.info("shown again")
    assert [json.loads(line)["event"] for line in out.getvalue().splitlines()] == ["shown", "shown again"]


SEVERAL = """
cluster: obs
kafka: {bootstrap_servers: "obs:9092"}
stream: {checkpoint_dir: /tmp/checkpoint}
tuner: {rate_bytes_per_s_max: 50000000, http: {port: 9464}}
clusters:
  east: {kafka: {bootstrap_servers: "east:9092"}}
  west: {kafka: {bootstrap_servers: "west:9092"}, tuner: {rate_bytes_per_s_max: 60000000, http: {port: 9474}}}
"""


@pytest.mark.parametrize(
    ("old", "new", "needs_restart"),
    [
        ("60000000", "70000000", {"run": False, "collect": False, "stream": False, "learn": False, "tune": False}),
        ("50000000", "70000000", {"run": False, "collect": False, "stream": False, "learn": False, "tune": False}),
        ("west:9092", "west:9093", {"run": False, "collect": True, "stream": False, "learn": False, "tune": True}),
        ("obs:9092", "obs:9093", {"run": False, "collect": True, "stream": True, "learn": True, "tune": True}),
        ("  east:", "  north:", {"run": True, "collect": True, "stream": False, "learn": True, "tune": True}),
        ("9474", "9475", {"run": False, "collect": False, "stream": False, "learn": False, "tune": True}),
    ],
)
def test_reload_with_several_clusters_refuses_only_what_a_part_uses(
    file: Path, old: str, new: str, needs_restart: dict[str, bool]
) -> None:
    file.write_text(SEVERAL)
    watches = {part: ConfigWatch(file, {}, load_file(file, {}), part=part) for part in needs_restart if part != "tune"}
    environ = {"RHEOSTAT_CHOSEN_CLUSTER": "west"}
    watches["tune"] = ConfigWatch(file, environ, load_settings(file, environ))
    assert SEVERAL.count(old) == 1
    file.write_text(SEVERAL.replace(old, new))
    for watch in watches.values():
        watch.reload()
    assert {part: watch.state().reloads_refused == 1 for part, watch in watches.items()} == needs_restart


def test_change_of_another_cluster_leaves_a_tuner_as_it_is(file: Path) -> None:
    file.write_text(SEVERAL)
    environ = {"RHEOSTAT_CHOSEN_CLUSTER": "east"}
    watch = ConfigWatch(file, environ, load_settings(file, environ))
    file.write_text(SEVERAL.replace("60000000", "70000000"))
    assert watch.state().is_applied
    watch.reload()
    assert not watch.waiting()
