"""Options that record or use the JVM's class archive. benchmarks.pipeline measures the recording itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import SparkContext

from streaming import session
from streaming.shared.class_archive import ClassArchive


def options(path: Path) -> str:
    return " ".join(ClassArchive(path).java_options())


def test_archive_is_recorded_by_first_run_and_used_later(tmp_path: Path) -> None:
    path = tmp_path / "classes.jsa"
    assert f"-XX:ArchiveClassesAtExit={path}.{os.getpid()}" in options(path)
    path.touch()
    assert f"-XX:SharedArchiveFile={path}" in options(path)
    assert "AtExit" not in options(path)


def test_archive_of_jvm_with_agent_names_the_agent_when_recorded_and_used(tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path / "classes.jsa", with_agent=True)
    assert "-XX:+AllowArchivingWithJavaAgent" in archive.record_options()
    assert archive.use_options() == ()
    archive.path.touch()
    assert "-XX:+AllowArchivingWithJavaAgent" in archive.use_options()
    assert archive.record_options() == ()


def test_archive_is_not_recorded_in_read_only_folder(tmp_path: Path) -> None:
    assert options(tmp_path / "absent" / "classes.jsa") == ""


def test_archive_leftovers_of_killed_runs_are_removed(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(30)
    path = tmp_path / "classes.jsa"
    left, written = path.with_name(f"classes.jsa.{ended.pid}"), path.with_name(f"classes.jsa.{os.getppid()}")
    left.touch()
    written.touch()
    options(path)
    assert not left.exists()
    assert written.exists()


class Gateway:
    """Replaces PySpark's gateway, around a process that writes when its standard input ends, as the JVM does."""

    def __init__(self, script: str) -> None:
        self.proc = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE)

    def shutdown(self) -> None:
        """Closes the socket; the process continues."""


def keep(path: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> int | None:
    """Returns the exit code of the fake JVM; None: it still lives."""
    gateway = Gateway(script)
    monkeypatch.setattr(SparkContext, "_gateway", gateway)
    monkeypatch.setattr(SparkContext, "_jvm", None)
    try:
        session.end_recording(ClassArchive(path))
        return gateway.proc.poll()
    finally:
        gateway.proc.kill()
        gateway.proc.wait(30)


def test_archive_is_moved_into_place_after_jvm_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "classes.jsa"
    recording = f"{path}.{os.getpid()}"
    keep(path, f"import sys; sys.stdin.read(); open({recording!r}, 'w').write('whole')", monkeypatch)
    assert path.read_text() == "whole"
    assert not Path(recording).exists()


def test_archive_on_slow_machine_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "DUMP_S_MAX", 0.2)
    path = tmp_path / "classes.jsa"
    written = f"open('{path}.{os.getpid()}', 'w').write('half'); import threading; threading.Event().wait(60)"
    assert keep(path, written, monkeypatch) == -signal.SIGKILL, "it would write on after us"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["classes.jsa.too-slow"]
    assert options(path) == ""
