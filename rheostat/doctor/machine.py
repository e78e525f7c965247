"""Checks this machine: Java, the JVM artifacts, and the folders that the stream writes to."""

from __future__ import annotations

import os
from collections.abc import Iterator

from rheostat.config.settings import Settings
from rheostat.doctor.findings import Finding, FindingVerdict
from rheostat.errors import SetupError
from rheostat.jvm.artifacts import artifacts_present
from rheostat.jvm.java import find_java
from streaming import storage
from streaming.errors import StreamError

# The container image sets this option, because it has the libraries unpacked.
_NATIVE_PATH = "org.xerial.snappy.lib.path"


def machine() -> Iterator[Finding]:
    """Checks Java and the JVM artifacts, which only the stream needs."""
    try:
        java = find_java()
        yield Finding("java", FindingVerdict.OK, f"{java.major} at {java.executable}")
    except SetupError as error:
        yield Finding(
            "java", FindingVerdict.FAILED, str(error), "follow the advice in this message; only the stream needs Java"
        )
    try:
        if artifacts_present():
            yield Finding("JVM artifacts", FindingVerdict.OK, "complete in the cache")
        else:
            yield Finding(
                "JVM artifacts",
                FindingVerdict.ADVICE,
                "not in the cache yet",
                "the first start fetches them (60 MB); `rheostat doctor --fetch` fetches them now",
            )
    except SetupError as error:
        yield Finding("JVM artifacts", FindingVerdict.FAILED, str(error), "remove the folder that this message names")


def storage_of_stream(settings: Settings) -> Iterator[Finding]:
    """Checks whether the stream can write to its folders, and their free space."""
    try:
        *checkpoints, scratch = storage.folders(settings.stream)
    except StreamError as error:
        yield Finding(
            "scratch space",
            FindingVerdict.FAILED,
            str(error),
            "follow the advice in this message; only the stream needs the folder",
        )
        return
    if not checkpoints:
        yield Finding(
            "checkpoint folder",
            FindingVerdict.OK,
            f"{settings.stream.checkpoint_dir} is checked by the stream at its start, since only Spark's Java process can read it",
        )
    for checkpoint in checkpoints:
        inaccessible = storage.inaccessible_file_message(checkpoint.path)
        if inaccessible is not None:
            yield _failed("checkpoint folder", inaccessible)
        else:
            yield _check_folder("checkpoint folder", checkpoint)
    yield _check_folder("scratch space", scratch)
    if scratch.forbids_execution and _NATIVE_PATH not in os.environ.get("SPARK_SUBMIT_OPTS", ""):
        yield Finding(
            "native code of Java",
            FindingVerdict.ADVICE,
            storage.noexec_message(scratch),
            "without native code the stream ends at the first record that is compressed with snappy or zstd",
        )


def _check_folder(check: str, folder: storage.StorageFolder) -> Finding:
    if (text := storage.folder_fault(folder)) is not None:
        return _failed(check, text)
    free_mb, advised_mb = folder.free_bytes // storage.MB, storage.FREE_BYTES_ADVISED // storage.MB
    if free_mb < advised_mb:
        return Finding(
            check,
            FindingVerdict.ADVICE,
            f"{folder.path}: only {free_mb} MB are free on {folder.mount_point}",
            f"free disk space: the stream of a large cluster needs {advised_mb} MB there",
        )
    return Finding(check, FindingVerdict.OK, f"{folder.path}, {free_mb:,} MB free")


def _failed(check: str, text: str) -> Finding:
    """Returns a failure from a message whose first sentence is the fault, and whose rest is the remedy."""
    found, _, do = text.partition(". ")
    return Finding(check, FindingVerdict.FAILED, found, do)
