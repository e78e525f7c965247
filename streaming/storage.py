"""Checks the folders that the stream writes to, and explains what is wrong with them and what to do.

A full disk, a folder of another user or a read-only file system ends Spark with pages of Java stacks that do not name the cause.
rheostat therefore checks the folders itself, before the start of Spark and after its death.
"""

from __future__ import annotations

import errno
import os
import pwd
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from streaming.checkpoint_location import HadoopFolder
from streaming.errors import StreamError
from streaming.settings import StreamSettings

MB = 1_000_000
START_BYTES_MIN = 32 * MB  # The first batches of a small cluster need less.
# Enough for state and logs of a thousand brokers: 100 batches of changes and ten snapshots.
FREE_BYTES_ADVISED = 256 * MB
FULL = ("No space left on device", "Disk quota exceeded")
READ_ONLY = ("Read-only file system",)
DENIED = ("Permission denied", "AccessControlException", "AccessDeniedException", "Operation not permitted")


@dataclass(frozen=True, slots=True)
class StorageFolder:
    """A folder that the stream writes to."""

    name: str
    path: Path
    setting: str  # The setting that selects the folder.

    @property
    def existing(self) -> Path:
        """The folder itself, or its nearest existing parent."""
        return next(folder for folder in (self.path, *self.path.absolute().parents) if os.path.exists(folder))

    @property
    def mount_point(self) -> Path:
        return next(
            path for path in (self.existing.resolve(), *self.existing.resolve().parents) if os.path.ismount(path)
        )

    @property
    def free_bytes(self) -> int:
        status = os.statvfs(self.existing)
        # Without a free inode no file can be made. Some file systems have no fixed number of inodes (``f_files`` is 0).
        has_no_inode = status.f_files > 0 and status.f_favail == 0
        return 0 if has_no_inode else status.f_bavail * status.f_frsize

    @property
    def size_bytes(self) -> int:
        status = os.statvfs(self.existing)
        return status.f_blocks * status.f_frsize

    @property
    def forbids_execution(self) -> bool:
        return bool(os.statvfs(self.existing).f_flag & os.ST_NOEXEC)

    def __str__(self) -> str:
        return f"{self.name} {self.path}"


def folders(settings: StreamSettings) -> list[StorageFolder]:
    """Returns the checkpoint folder, unless it is on a Hadoop file system, and then Spark's scratch folder.

    Raises:
        StreamError: there is no folder for the scratch space.
    """
    try:
        scratch = Path(tempfile.gettempdir())
    except FileNotFoundError as error:  # Python could write to none of the usual folders.
        raise StreamError(
            f"No folder for temporary files can hold Spark's scratch space ({error.strerror}): set TMPDIR to a folder that this "
            f"user may write, with at least {_mb(START_BYTES_MIN)} free."
        ) from error
    checkpoint = settings.checkpoint_dir
    return [
        *(
            [StorageFolder("the checkpoint", checkpoint, setting="stream.checkpoint_dir")]
            if isinstance(checkpoint, Path)
            else []
        ),
        StorageFolder("Spark's scratch space in", scratch, setting="the environment variable TMPDIR"),
    ]


def folder_fault(folder: StorageFolder, free_bytes_min: int = START_BYTES_MIN) -> str | None:
    """Returns why the stream cannot write to a folder, with the remedy; None if the stream can write."""
    existing = folder.existing
    subject, remedy = _capitalised(str(folder)), _capitalised(_relocation_text(folder))
    if os.statvfs(existing).f_flag & os.ST_RDONLY:
        # The text names no mount point: a folder that a container mounts from the same disk does not look like a mount point.
        return f"{subject} cannot be written: its file system is mounted read-only. {remedy}"
    if not existing.is_dir() or not os.access(existing, os.R_OK | os.W_OK | os.X_OK):
        return f"{subject} cannot be written: {_ownership_text(existing)}. {remedy}"
    if folder.free_bytes < free_bytes_min:
        return full_message(folder)
    return None


def full_message(folder: StorageFolder) -> str:
    """Returns the message for a full file system: how full it is, how much the stream needs, and the remedy."""
    return (
        f"The file system {folder.mount_point}, which holds {folder}, is full: {_mb(folder.free_bytes)} of "
        f"{_mb(folder.size_bytes)} are free, and the stream needs {_mb(FREE_BYTES_ADVISED)}. Free some space, and the stream "
        f"continues where it ended; or {_relocation_text(folder)}"
    )


def full_message_if_full(stream_folders: Sequence[StorageFolder]) -> str | None:
    """Returns how full the fullest file system is, and what to do; None if the stream can start with its free space."""
    fullest = min(stream_folders, key=lambda folder: folder.free_bytes)
    return full_message(fullest) if fullest.free_bytes < START_BYTES_MIN else None


def no_space_message(stream_folders: Sequence[StorageFolder]) -> str:
    """Returns the message after a write has found no space, even if there is free space again."""
    if (text := full_message_if_full(stream_folders)) is not None:
        return text
    free = "; ".join(
        f"{folder.mount_point}, which holds {folder}, has {_mb(folder.free_bytes)} free now"
        for folder in stream_folders
    )
    return (
        f"No space was left on a file system: {free}. Check whether another program fills one of them from time to time; with a "
        "master other than local, also check the disks of the executors."
    )


def inaccessible_file_message(folder: Path) -> str | None:
    """Returns the message about the first file in the folder that this process cannot read and write; None if there is none."""
    for parent, folders, files in os.walk(folder):
        for path in (Path(parent), *(Path(parent, name) for name in (*folders, *files))):
            needed = os.R_OK | os.W_OK | (os.X_OK if path.is_dir() else 0)
            if os.path.exists(path) and not os.access(path, needed):
                return (
                    f"The checkpoint {folder} is not this user's: {_ownership_text(path)}. Run the stream as that user, give the "
                    f"folder to this user (chown -R {os.geteuid()} {folder}), or set another stream.checkpoint_dir."
                )
    return None


def storage_error(error: OSError, settings: StreamSettings) -> StreamError:
    """Returns the error to report for a failed file operation of rheostat itself."""
    stream_folders, name = folders(settings), error.filename
    if isinstance(name, str) and "://" in name:
        return StreamError(hadoop_message(settings, error.strerror or "", is_denied=isinstance(error, PermissionError)))
    path = Path(os.fsdecode(name)) if isinstance(name, str | bytes) else None
    for folder in stream_folders:
        if (text := folder_fault(folder)) is not None:
            return StreamError(text)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StreamError(no_space_message(stream_folders))
    if error.errno in (errno.EACCES, errno.EPERM) and path is not None:
        return StreamError(
            f"{_ownership_text(path)}, so the stream cannot use it. Give this user access, or name another folder."
        )
    return StreamError(f"The stream cannot use {path or 'a file'}: {error.strerror or error}.")


def hadoop_message(settings: StreamSettings, cause: str, *, is_denied: bool) -> str:
    """Returns the message for a checkpoint on a Hadoop file system that cannot be used.

    Args:
        cause: Hadoop's message.
        is_denied: whether the user or the key of the stream lacks a right.
    """
    remedy = (
        "Give the user or the access key of the stream the right to read, write and delete there"
        if is_denied
        else "Check the address, that the file system answers, and its settings and JAR files in stream.spark_conf"
    )
    return (
        f"The checkpoint {settings.checkpoint_dir} cannot be used. {remedy}, or set another stream.checkpoint_dir. Hadoop says: "
        f"{cause}"
    )


def noexec_message(folder: StorageFolder) -> str:
    """Returns the message for a folder from which Java may not load native code."""
    return (
        f"Java cannot load the native code for compressed topics (snappy, zstd): Java unpacks the code into {folder.path}, and "
        f"the file system {folder.mount_point} is mounted noexec. Set TMPDIR to a folder of a file system that allows execution, "
        "or remount this file system with exec"
    )


def _ownership_text(path: Path) -> str:
    try:
        owner = path.stat().st_uid
    except OSError as error:
        return f"{path} cannot be looked at ({error.strerror})"
    return f"{path} belongs to {_user(owner)}, and this process runs as {_user(os.geteuid())}"


def _user(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def _relocation_text(folder: StorageFolder) -> str:
    return f"let {folder.setting} name a folder elsewhere that this user may write."


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


def _mb(n_bytes: int) -> str:
    return f"{n_bytes / MB:,.0f} MB"


def check_folders(settings: StreamSettings) -> None:
    """Checks the folders that the stream writes to, before Spark starts. Only the JVM can check a folder on HDFS or S3.

    Raises:
        StreamError: a folder cannot be used.
    """
    for folder in folders(settings):
        if (text := folder_fault(folder)) is not None:
            raise StreamError(f"The stream cannot start. {text}")
    if isinstance(settings.checkpoint_dir, HadoopFolder):
        return
    if (text := inaccessible_file_message(settings.checkpoint_dir)) is not None:
        raise StreamError(f"The stream cannot start. {text}")
