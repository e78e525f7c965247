"""Checks this machine: Java, the JVM artifacts, the folders that the stream writes to."""

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

_NATIVE_PATH = "org.xerial.snappy.lib.path"  # Set by the image, which has the libraries unpacked.


def machine() -> Iterator[Finding]:
    try:
        java = find_java()
        yield Finding("java", FindingVerdict.OK, f"{java.major} at {java.executable}")
    except SetupError as error:
        yield Finding("java", FindingVerdict.FAILED, str(error), "see above; only the stream needs Java")
    try:
        if artifacts_present():
            yield Finding("JVM artifacts", FindingVerdict.OK, "in the cache, whole")
        else:
            yield Finding(
                "JVM artifacts",
                FindingVerdict.ADVICE,
                "not in the cache yet",
                "they are fetched at the first start (60 MB); `rheostat doctor --fetch` does it now",
            )
    except SetupError as error:
        yield Finding("JVM artifacts", FindingVerdict.FAILED, str(error), "remove the folder it names")


def storage_of_stream(settings: Settings) -> Iterator[Finding]:
    """Checks whether the stream can write to its folders, and their free space."""
    try:
        checkpoint, scratch = storage.folders(settings.stream)
    except StreamError as error:
        yield Finding("scratch space", FindingVerdict.FAILED, str(error), "only the stream needs it")
        return
    foreign = storage.foreign_file(checkpoint.path)
    yield _place("checkpoint folder", checkpoint) if foreign is None else _failed("checkpoint folder", foreign)
    yield _place("scratch space", scratch)
    if scratch.forbids_execution and _NATIVE_PATH not in os.environ.get("SPARK_SUBMIT_OPTS", ""):
        yield Finding(
            "native code of Java",
            FindingVerdict.ADVICE,
            storage.noexec_message(scratch),
            "without that the stream ends at the first record that is compressed with snappy or zstd",
        )


def _place(check: str, place: storage.StorageFolder) -> Finding:
    if (text := storage.folder_fault(place)) is not None:
        return _failed(check, text)
    free_mb, advised_mb = place.free_bytes // storage.MB, storage.FREE_BYTES_ADVISED // storage.MB
    if free_mb < advised_mb:
        return Finding(
            check,
            FindingVerdict.ADVICE,
            f"{place.path}: only {free_mb} MB are free on {place.mount_point}",
            f"free some: the stream of a large cluster needs {advised_mb} MB there",
        )
    return Finding(check, FindingVerdict.OK, f"{place.path}, {free_mb:,} MB free")


def _failed(check: str, text: str) -> Finding:
    found, _, do = text.partition(". ")
    return Finding(check, FindingVerdict.FAILED, found, do)
