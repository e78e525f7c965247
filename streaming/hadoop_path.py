"""A path on a Hadoop file system, with the methods of ``pathlib.Path`` that the checkpoint uses. The JVM of Spark does the work.

Errors of Hadoop become errors of Python: FileNotFoundError, PermissionError, or another OSError with Hadoop's message.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

# Hadoop's names of capabilities, in ``CommonPathCapabilities``.
_ABORTABLE = "fs.capability.outputstream.abortable"
_LEASES = "fs.capability.lease.recoverable"
_SYNC = "hsync"

_NOT_FOUND = ("FileNotFoundException", "NoSuchFileException")
_DENIED = ("AccessControlException", "AccessDeniedException")
_MESSAGE_CHARS_MAX = 300
_ROOT = re.compile("[^:/]+://[^/]*")


@dataclass(frozen=True, slots=True)
class FileStatus:
    """The part of ``os.stat_result`` that the checkpoint uses."""

    st_mtime: float


class HadoopPath:
    """A file or a folder, which need not exist."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self._spark = spark
        self._uri = uri
        self._jvm: Any = spark._jvm

    def __str__(self) -> str:
        return self._uri

    def __truediv__(self, name: str) -> HadoopPath:
        return HadoopPath(self._spark, f"{self._uri}/{name}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HadoopPath) and self._uri == other._uri

    def __hash__(self) -> int:
        return hash(self._uri)

    @property
    def name(self) -> str:
        return self._uri.rpartition("/")[2]

    @property
    def parent(self) -> HadoopPath:
        """The folder that contains this path; the root of the file system is its own parent."""
        return self if _ROOT.fullmatch(self._uri) else HadoopPath(self._spark, self._uri.rpartition("/")[0])

    def with_name(self, name: str) -> HadoopPath:
        return self.parent / name

    def exists(self) -> bool:
        with self._errors():
            return bool(self._files.exists(self._path))

    def is_dir(self) -> bool:
        with self._errors():
            return self.exists() and bool(self._files.getFileStatus(self._path).isDirectory())

    def iterdir(self) -> Iterator[HadoopPath]:
        with self._errors():
            names = [status.getPath().getName() for status in self._files.listStatus(self._path)]
        for name in names:
            yield self / name

    def mkdir(self) -> None:
        """Makes this folder and its parents, unless they exist."""
        with self._errors():
            self._files.mkdirs(self._path)

    def read_text(self, encoding: str = "utf-8") -> str:
        with self._errors():
            file = self._files.open(self._path)
            try:
                return bytes(file.readAllBytes()).decode(encoding)
            finally:
                file.close()

    def stat(self) -> FileStatus:
        with self._errors():
            return FileStatus(self._files.getFileStatus(self._path).getModificationTime() / 1000)

    def write_atomically(self, text: str) -> None:
        """Replaces the text of this file in one step, so that no reader ever sees a part of it, not even after a crash.

        An object store shows a file only when the file is complete, so the text is written in place. Other file systems show a file
        while it is written, but rename a file in one step, so the text is first written to a draft beside the file.
        """
        with self._errors():
            if self._files.hasPathCapability(self._path, _ABORTABLE):
                self._write(self._path, text)
                return
            draft = self._jvm.org.apache.hadoop.fs.Path(f"{self.with_name(f'.{self.name}.rheostat.tmp')}")
            self._write(draft, text)
            rename = self._jvm.org.apache.hadoop.fs.Options.Rename
            options = self._spark.sparkContext._gateway.new_array(rename, 1)  # type: ignore[union-attr]
            options[0] = rename.OVERWRITE
            context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._path.toUri(), self._conf)
            context.rename(draft, self._path, options)

    def remove_tree(self) -> None:
        with self._errors():
            self._files.delete(self._path, True)

    def has_leases(self) -> bool:
        """Returns whether the file system lets only one client write a file, and ends that right if the client is gone."""
        with self._errors():
            return bool(self._files.hasPathCapability(self._path, _LEASES))

    def open_exclusively(self) -> Any:
        """Opens the file for appending, and returns the Java stream. Until it is closed, no other client can write the file.

        Raises:
            OSError: another client writes the file, or the file system cannot be used.
        """
        with self._errors():
            self._files.createNewFile(self._path)  # Does nothing if the file exists.
            return self._files.append(self._path)

    def _write(self, path: Any, text: str) -> None:
        out = self._files.create(path, True)
        out.write(text.encode())
        if out.hasCapability(_SYNC):
            out.hsync()
        out.close()

    @property
    def _path(self) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._uri)

    @property
    def _conf(self) -> Any:
        return self._spark.sparkContext._jsc.hadoopConfiguration()

    @property
    def _files(self) -> Any:
        return self._path.getFileSystem(self._conf)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raises Hadoop's errors as errors of Python."""
        try:
            yield
        except Py4JJavaError as error:
            raise _as_os_error(error.java_exception.toString(), self._uri) from error


def _as_os_error(text: str, uri: str) -> OSError:
    kind, _, message = text.partition(": ")
    kind = kind.rpartition("(")[2].rstrip(")")  # A RemoteException names the exception of the server in brackets.
    line = re.sub(r"\s+", " ", message.partition("\n")[0])[:_MESSAGE_CHARS_MAX] or kind
    if kind.endswith(_NOT_FOUND):
        return FileNotFoundError(errno.ENOENT, line, uri)
    if kind.endswith(_DENIED):
        return PermissionError(errno.EACCES, line, uri)
    return OSError(errno.EIO, f"{kind.rpartition('.')[2]}: {line}", uri)
