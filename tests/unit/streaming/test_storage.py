"""Faults of the folders that the stream writes to, and their messages; messages for the death of a JVM.

Texts of Java are as it printed them. The folders are real ones: small file systems where this user may mount some.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rheostat.config.settings import Settings, parse_settings
from rheostat.doctor.findings import FindingVerdict
from rheostat.doctor.machine import storage_of_stream
from streaming import storage
from streaming.errors import StreamError
from streaming.failure_causes import explain_death, explain_jvm_end, explain_start_failure
from streaming.java_output import JavaLine, JavaOutput, parse
from streaming.settings import StreamSettings
from streaming.shared.contract import Topics
from streaming.storage import StorageFolder, folder_fault, inaccessible_file_message

Mount = Callable[[str], Path]


def stream(folder: Path) -> StreamSettings:
    return StreamSettings(checkpoint_dir=folder)


def checkpoint(folder: Path) -> StorageFolder:
    return storage.folders(stream(folder))[0]


# -- folders -------------------------------------------------------------------------------------------------------------


def test_fault_of_a_folder_with_room_is_none(tmp_path: Path) -> None:
    assert folder_fault(checkpoint(tmp_path / "not" / "there" / "yet")) is None


def test_fault_of_a_full_disk_names_file_system_and_need(mount: Mount) -> None:
    folder = mount("size=8m")
    text = folder_fault(checkpoint(folder / "checkpoint"))
    assert text is not None
    assert (
        f"The file system {folder}, which holds the checkpoint {folder}/checkpoint, is full: 8 MB of 8 MB are free"
        in text
    )
    assert "the stream needs 256 MB" in text
    assert "stream.checkpoint_dir" in text


def test_fault_of_a_read_only_mount_says_so(mount: Mount) -> None:
    folder = mount("ro") / "checkpoint"
    text = folder_fault(checkpoint(folder)) or ""
    assert text.startswith(f"The checkpoint {folder} cannot be written: its file system is mounted read-only. ")
    assert "Let stream.checkpoint_dir name" in text


def test_noexec_mount_is_seen(mount: Mount) -> None:
    assert checkpoint(mount("noexec,size=40m")).forbids_execution
    assert not checkpoint(mount("size=40m")).forbids_execution


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_inaccessible_checkpoint_file_message_names_owner_and_remedy(tmp_path: Path) -> None:
    (tmp_path / "live-1" / "state").mkdir(parents=True)
    assert inaccessible_file_message(tmp_path) is None
    os.chown(tmp_path / "live-1" / "state", 10002, 10002)
    (tmp_path / "live-1" / "state").chmod(0o700)
    program = f"from pathlib import Path; from streaming.storage import inaccessible_file_message; print(inaccessible_file_message(Path({str(tmp_path)!r})))"
    # Root may do anything, but for the rights that it has given up.
    done = subprocess.run(
        ["setpriv", "--bounding-set=-dac_override,-dac_read_search", sys.executable, "-c", program],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert f"{tmp_path}/live-1/state belongs to uid 10002" in done.stdout
    assert f"chown -R 0 {tmp_path}" in done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_fault_below_a_folder_of_another_user_names_that_folder(tmp_path: Path) -> None:
    os.chown(tmp_path, 10002, 10002)
    tmp_path.chmod(0o700)
    program = (
        "from pathlib import Path; from streaming.storage import StorageFolder, folder_fault; "
        f"print(folder_fault(StorageFolder('the checkpoint', Path({str(tmp_path / 'a' / 'b')!r}), 'stream.checkpoint_dir')))"
    )
    done = subprocess.run(
        ["setpriv", "--bounding-set=-dac_override,-dac_read_search", sys.executable, "-c", program],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert f"{tmp_path} belongs to uid 10002, and this process runs as root (uid 0)" in done.stdout


def test_folders_without_temporary_folder_name_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def none() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(storage.tempfile, "gettempdir", none)
    with pytest.raises(StreamError, match="set TMPDIR to a folder"):
        storage.folders(stream(tmp_path))


# -- what Java says ------------------------------------------------------------------------------------------------------

BATCH = "org.apache.hadoop.fs.FSError: java.io.IOException: No space left on device"
IN_CHECKPOINT = (
    "StreamingQueryException: [STREAM_FAILED] Query [id = 1] terminated with exception: [CHECKPOINT_..] STATE_STORE commit\n"
    + BATCH
)


def died(report: str, folder: Path) -> str:
    return explain_death(
        report, parse_settings(CONFIG, "f.yaml", {}).kafka, Topics.with_prefix("rheostat"), stream(folder)
    )


CONFIG = "cluster: lab\nkafka: {bootstrap_servers: 'x:1'}\nstream: {checkpoint_dir: /x}\ntuner: {rate_bytes_per_s_max: 5000000}\n"


SILENT = "[CANNOT_WRITE_STATE_STORE.CANNOT_COMMIT] Error writing state store files for provider HDFSStateStore"


@pytest.mark.parametrize("report", [IN_CHECKPOINT, SILENT])
def test_explain_death_full_disk_is_not_damaged_checkpoint(mount: Mount, report: str) -> None:
    folder = mount("size=4m")
    text = died(report, folder)
    assert f"The file system {folder}" in text
    assert "damaged" not in text
    assert "remove that folder" not in text


@pytest.mark.parametrize(
    ("report", "told"),
    [
        (
            "java.lang.UnsatisfiedLinkError: /tmp/ne/libzstd-jni-1.5.7.so: failed to map segment from shared object",
            "mounted noexec",
        ),
        ("java.lang.NoClassDefFoundError: Could not initialize class org.xerial.snappy.Snappy", "Set TMPDIR"),
        ("java.lang.OutOfMemoryError: unable to create native thread: possibly out of memory", "ulimit -u"),
        ("java.io.FileNotFoundException: /x/1.delta (Too many open files)", "ulimit -n"),
        ("java.lang.OutOfMemoryError: Java heap space", "raise stream.driver_memory_mb"),
    ],
)
def test_explain_death_names_system_limits(report: str, told: str, tmp_path: Path) -> None:
    assert told in died(report, tmp_path)


GATEWAY = RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.")


@pytest.mark.parametrize(
    ("last_words", "told"),
    [
        (
            "Error occurred during initialization of VM\nCould not reserve enough space for 4096000KB object heap",
            "There is no memory for Java's heap of 1024 MiB",
        ),
        (
            "# There is insufficient memory for the Java Runtime Environment to continue.\n# Native memory allocation failed",
            "lower stream.driver_memory_mb",
        ),
        ("Unrecognized VM option 'Nonsense'\nError: Could not create the Java Virtual Machine.", "JAVA_TOOL_OPTIONS"),
        (
            "java.net.BindException: Cannot assign requested address: Service 'sparkDriver' failed",
            "Spark cannot listen on",
        ),
        ("java.net.UnknownHostException: web-1: Name or service not known", "SPARK_LOCAL_IP"),
        (
            "java.lang.UnsupportedClassVersionError: org/apache/spark/Main has been compiled by a more recent",
            "17 or newer",
        ),
        ("something quite new\n", "Java says: something quite new"),
        ("", "Java gateway process exited"),
    ],
)
def test_explain_start_failure_names_cause_and_remedy(last_words: str, told: str, tmp_path: Path) -> None:
    text = explain_start_failure(GATEWAY, last_words, stream(tmp_path))
    assert told in text
    assert text.startswith("Spark does not start")
    assert "\n" not in text


def test_explain_jvm_end_without_message_names_kill(tmp_path: Path) -> None:
    assert "it was killed" in explain_jvm_end("", stream(tmp_path))
    full = "Terminating due to java.lang.OutOfMemoryError: Java heap space"
    assert "no memory for Java's heap" in explain_jvm_end(full, stream(tmp_path))


def test_parse_reads_events_and_leaves_other_lines() -> None:
    event = parse(r'{"level":"ERROR","logger":"Executor","message":"a \"b\"\nc","stack":"java.io.IOException\n\tat x"}')
    assert (event.level, event.message, event.stack.count("\n"), event.is_from_jvm) == ("ERROR", 'a "b"\nc', 1, False)
    assert parse("Error occurred during initialization of VM").is_from_jvm
    assert parse('{"level": 1}').is_from_jvm


def test_java_output_skips_stack_frames_but_keeps_them() -> None:
    heard: list[JavaLine] = []
    output = JavaOutput(heard.append)
    program = r"""printf 'Exception in thread x\n\tat a.b(c)\nCaused by: y\n{"level":"WARN","logger":"L","message":"m","stack":""}\n'"""
    try:
        subprocess.run(["bash", "-c", program], check=True, timeout=20, **output.popen_options)  # type: ignore[call-overload]
    finally:
        output.close_writing_end()
    assert output.last_words().splitlines() == ["Exception in thread x", "\tat a.b(c)", "Caused by: y", "m"]
    assert [line.message for line in heard] == ["Exception in thread x", "Caused by: y", "m"]


# -- the doctor ----------------------------------------------------------------------------------------------------------


def settings_of(folder: Path) -> Settings:
    return parse_settings(CONFIG.replace("/x", str(folder)), "f.yaml", {})


def test_doctor_warns_of_low_and_missing_space(mount: Mount, tmp_path: Path) -> None:
    little, none = mount("size=100m"), mount("size=4m")
    found = {finding.check: finding for finding in storage_of_stream(settings_of(little / "c"))}
    assert found["checkpoint folder"].verdict is FindingVerdict.ADVICE
    assert "MB are free" in found["checkpoint folder"].found
    found = {finding.check: finding for finding in storage_of_stream(settings_of(none / "c"))}
    assert found["checkpoint folder"].verdict is FindingVerdict.FAILED
    assert "is full" in found["checkpoint folder"].found
    assert "Free some" in found["checkpoint folder"].do
    assert (tmp_path / "c").exists() is False


def test_doctor_advises_on_noexec_scratch_space(mount: Mount, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage.tempfile, "tempdir", str(mount("noexec,size=40m")))
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)
    found = {finding.check: finding for finding in storage_of_stream(settings_of(tmp_path))}
    assert "noexec" in found["native code of Java"].found
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dorg.xerial.snappy.lib.path=/opt/rheostat/native")
    assert "native code of Java" not in {finding.check for finding in storage_of_stream(settings_of(tmp_path))}
