"""Locks a checkpoint, so that two queries never use it at the same time.

    <checkpoint_dir>.lock   the lock, and the checkpoint's id; outside the folder, because an operator may remove the folder to
                            start again

On a Hadoop file system, the id is derived from the address of the folder. HDFS and Ozone let only one client at a time write the
lock file. Object stores such as S3 have no lock; there, only the lease in Kafka keeps two streams from using the same checkpoint.
"""

from __future__ import annotations

import fcntl
import re
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import structlog
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from streaming.checkpoint_location import CheckpointLocation, HadoopFolder
from streaming.errors import StreamError
from streaming.hadoop_path import HadoopPath

log = structlog.get_logger("stream")

_JVM_GONE_S_MAX = 20.0  # Longest wait for the end of an earlier JVM.
# After a client is gone, HDFS keeps its lock for a minute, and needs some seconds to end the lock.
_LEASE_GONE_S_MAX = 90.0
_LEASE_POLL_S = 1.0
_LEASE_HELD = ("AlreadyBeingCreatedException", "RecoveryInProgressException")


@contextmanager
def locked(checkpoint_dir: CheckpointLocation) -> Iterator[str]:
    """Locks the checkpoint for this process, and yields its id. The lock file stays; the lock ends with the process.

    A checkpoint on a Hadoop file system is locked by ``locked_by_jvm`` only.

    Raises:
        StreamError: another query has the lock, or the folder cannot be created.
    """
    if isinstance(checkpoint_dir, HadoopFolder):
        yield checkpoint_dir.id
        return
    lock = _lock_file(checkpoint_dir)
    try:
        checkpoint_dir.mkdir(parents=True, exist_ok=True)
        file = lock.open("a+", encoding="utf-8", errors="replace")
    except OSError as error:
        raise StreamError(
            f"The checkpoint {checkpoint_dir} cannot be created ({error.strerror}: {error.filename}): let stream.checkpoint_dir "
            "name"
            " a folder that this user may write."
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise _in_use_error(checkpoint_dir) from error
        try:
            id_ = _read_id(file)
        except OSError as error:
            raise StreamError(
                f"The file {lock} cannot be written ({error.strerror}): set stream.checkpoint_dir to a path in a folder to which"
                " this user may write, on a file system with free space."
            ) from error
        yield id_


def _read_id(file: TextIO) -> str:
    """Returns the id in the lock file. Writes a new id if the file has none."""
    file.seek(0)
    id_ = file.read().strip()
    if not re.fullmatch("[0-9a-f]{32}", id_):
        id_ = uuid.uuid4().hex
        file.truncate(0)
        file.write(id_)
        file.flush()
    return id_


@contextmanager
def locked_by_jvm(
    spark: SparkSession,
    checkpoint_dir: CheckpointLocation,
    wait_s: float | None = None,
    stop: threading.Event | None = None,
) -> Iterator[None]:
    """Locks the checkpoint in the JVM too, because the JVM writes it and may outlive a killed Python process by seconds.

    The JVM's lock (fcntl) and the lock of ``locked`` (flock) are independent, although both are on the same file.

    Args:
        wait_s: longest wait for the end of an earlier JVM; None means the default of the file system.
        stop: if it is set while this function waits, the checkpoint is not locked, and the caller must not use it.

    Raises:
        StreamError: an earlier JVM still has the lock after ``wait_s``.
        OSError: the Hadoop file system cannot be used.
    """
    stop = threading.Event() if stop is None else stop
    if isinstance(checkpoint_dir, HadoopFolder):
        folder = HadoopPath(spark, checkpoint_dir.uri)
        with _locked_by_lease(folder, _LEASE_GONE_S_MAX if wait_s is None else wait_s, stop):
            yield
        return
    assert spark._jvm is not None
    file = spark._jvm.java.io.RandomAccessFile(str(_lock_file(checkpoint_dir)), "rw")
    deadline = time.monotonic() + (_JVM_GONE_S_MAX if wait_s is None else wait_s)
    try:
        while file.getChannel().tryLock() is None and not stop.is_set():
            if time.monotonic() > deadline:
                raise _in_use_error(checkpoint_dir)
            stop.wait(0.1)
        yield
    finally:
        file.close()


@contextmanager
def _locked_by_lease(folder: HadoopPath, wait_s: float, stop: threading.Event) -> Iterator[None]:
    """Creates the folder, and keeps its lock file open for writing. The file system allows only one client at a time to write.

    Args:
        stop: as in ``locked_by_jvm``.
    """
    folder.mkdir()
    lock = folder.with_name(folder.name + ".lock")
    if not lock.has_leases():
        log.info(
            f"the file system of the checkpoint {folder} has no locks: only the lease in Kafka keeps two streams of a cluster "
            "apart, so give each host and each cluster a checkpoint of its own"
        )
        yield
        return
    deadline = time.monotonic() + wait_s
    while (file := _open_unless_held(lock, is_last_try=time.monotonic() >= deadline)) is None:
        if stop.wait(_LEASE_POLL_S):
            yield
            return
    try:
        yield
    finally:
        with suppress(Py4JError):  # If the file system does not answer, it unlocks the file after a minute.
            file.close()


def _open_unless_held(lock: HadoopPath, *, is_last_try: bool) -> Any:
    """Returns the lock file, open for writing; None if another client has it open."""
    try:
        return lock.open_exclusively()
    except OSError as error:
        if not any(mark in str(error) for mark in _LEASE_HELD):
            raise
        if not is_last_try:
            return None
        raise StreamError(
            f"Another rheostat process uses the checkpoint of the lock file {lock}: stop that process, or set another "
            f"stream.checkpoint_dir. Hadoop says: {error.strerror}"
        ) from error


def _lock_file(checkpoint_dir: Path) -> Path:
    return checkpoint_dir.with_name(checkpoint_dir.name + ".lock")


def _in_use_error(checkpoint_dir: Path) -> StreamError:
    return StreamError(
        f"The checkpoint {checkpoint_dir} is in use by another rheostat process, which holds {_lock_file(checkpoint_dir)}: stop"
        " that process, or set another stream.checkpoint_dir."
    )
