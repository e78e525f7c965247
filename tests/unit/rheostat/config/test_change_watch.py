"""SIGHUP: what can be changed while the tuner runs is taken up, and everything else is refused by name."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from rheostat.config.change_watch import RELOADABLE, ConfigWatch, changes
from rheostat.config.settings import load_settings
from rheostat.run import sighup
from streaming.shared.process_metrics import ConfigState
from tuner.api.quota_status_store import QuotaStatusStore
from tuner.api.status_store import StatusStore
from tuner.control.throttle.objective import Capacity
from tuner.core.partition_limits import PartitionLimits
from tuner.core.throttle_limits import MB
from tuner.runtime.reload import show_settings

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


def test_a_changed_ceiling_waits_and_is_then_in_force(file: Path, watch: ConfigWatch) -> None:
    file.write_text(LOWER)
    assert not watch.waiting(), "what is saved is not in force before somebody says so"
    watch.reload()
    assert watch.waiting()
    with structlog.testing.capture_logs() as said:
        assert watch.take().tuner.rate_bytes_per_s_max == 40 * MB
    assert [line["changed"] for line in said] == [["tuner.rate_bytes_per_s_max"]]
    assert not watch.waiting()
    assert watch.state() == ConfigState(is_valid=True, valid_at_s=1_000.0, is_applied=True, reloads_taken=1)


def test_a_faulty_file_changes_nothing_and_says_key_and_line(file: Path, watch: ConfigWatch) -> None:
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


def test_a_floor_above_the_ceiling_is_refused_like_at_the_start(file: Path, watch: ConfigWatch) -> None:
    file.write_text(GOOD.replace("{rate", "{rate_bytes_per_s_min: 60000000, rate"))
    with structlog.testing.capture_logs() as said:
        watch.reload()
    assert "rate_bytes_per_s_min (60000000) is above" in said[0]["error"]
    assert not watch.waiting()


def test_what_needs_a_restart_is_refused_by_name_and_with_it_all_else(file: Path, watch: ConfigWatch) -> None:
    file.write_text(LOWER.replace("9464", "9999").replace("localhost", "elsewhere"))
    with structlog.testing.capture_logs() as said:
        watch.reload()
    assert "a restart is needed for kafka, tuner.http." in said[0]["event"]
    assert not watch.waiting()
    assert watch.state() == ConfigState(is_valid=True, valid_at_s=1_000.0, is_applied=False, reloads_refused=1)


def test_a_later_word_takes_an_earlier_one_back(file: Path, watch: ConfigWatch) -> None:
    file.write_text(LOWER)
    watch.reload()
    file.write_text(GOOD)
    watch.reload()
    assert not watch.waiting()


def test_of_a_file_that_says_the_same_nothing_is_made_anew(file: Path, watch: ConfigWatch) -> None:
    file.write_text("# a word\n" + GOOD)
    watch.reload()
    assert not watch.waiting()
    assert watch.state().reloads_taken == 1


def test_every_setting_is_taken_up_or_needs_a_restart(file: Path) -> None:
    before = load_settings(file, {})
    file.write_text(
        GOOD.replace("main", "other").replace("50000000", "40000000")
        + "limits: {max_partitions: 5}\ncollector: {interval_s: 7}\n"
    )
    found = changes(before, load_settings(file, {}))
    assert found == ["cluster", "collector", "limits", "tuner.rate_bytes_per_s_max"]
    assert set(found) & RELOADABLE == {"limits", "tuner.rate_bytes_per_s_max"}


def test_what_is_shown_is_measured_against_the_new_word(file: Path) -> None:
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
    show_settings(load_settings(file, {}).tuner, PartitionLimits(broker_partitions_max=5), board, quotas)
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


def test_sighup_has_it_read_again(file: Path, watch: ConfigWatch, hangup: None) -> None:
    stop, followed = threading.Event(), threading.Event()
    watch.follow(followed.set)
    watch.serve_reloads()
    sighup.reload_on_hangup(watch.ask, stop)
    file.write_text(LOWER)
    os.kill(os.getpid(), signal.SIGHUP)
    deadline_s = time.monotonic() + 30
    while not watch.waiting() and time.monotonic() < deadline_s:
        time.sleep(0.02)
    assert watch.waiting()
    assert not stop.is_set()
    assert followed.wait(30), "the certificates are not read again"


def test_a_terminal_that_has_gone_ends_it(monkeypatch: pytest.MonkeyPatch, hangup: None) -> None:
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
def test_what_was_meant_to_outlive_its_terminal_does(how: str, monkeypatch: pytest.MonkeyPatch, hangup: None) -> None:
    stop, reloads = threading.Event(), list[int]()
    monkeypatch.setattr(sighup, "_has_terminal", lambda: False)
    monkeypatch.setattr(sighup, "_in_foreground", lambda: how == "under nohup")
    signal.signal(signal.SIGHUP, signal.SIG_IGN if how == "under nohup" else signal.SIG_DFL)
    sighup.reload_on_hangup(lambda: reloads.append(1), stop)
    os.kill(os.getpid(), signal.SIGHUP)
    assert (reloads, stop.is_set()) == ([1], False)


def test_a_file_that_was_broken_while_a_good_one_waited_is_told_when_that_is_taken(
    file: Path, watch: ConfigWatch
) -> None:
    """As on one that stands by for weeks: what is in force is good, and the next start would refuse the file."""
    file.write_text(LOWER)
    watch.reload()
    assert watch.waiting()
    file.write_text("tuner: [")
    assert not watch.state().is_valid
    watch.take()
    assert not watch.state().is_valid
