"""A class data sharing (CDS) archive for Spark's JVM, which makes later starts faster.

Half of a JVM start is class loading. The JVM can write its loaded classes to an archive when it ends and map that archive at the
next start. An archive fits one Java version and one class path, which its name contains; the JVM itself ignores an archive that
does not fit.

Invariant: the archive is complete or absent. It is written under a temporary name and renamed after the JVM has ended cleanly; a
killed run leaves at most a file that the next run removes. If writing takes too long on a machine, it is not tried there again.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import psutil
from pyspark import SparkContext

# Longest wait for the dump, which delays the end of the process.
DUMP_S_MAX = 10.0


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive file, and the JVM options that use or record it."""

    path: Path

    def java_options(self) -> tuple[str, ...]:
        """Returns the JVM options that use the archive, or record it if it is missing; none if it cannot be written."""
        quiet = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
        if self.path.exists():
            return (f"-XX:SharedArchiveFile={self.path}", *quiet)
        if not self._may_record():
            return ()
        self._remove_leftovers()
        return (f"-XX:ArchiveClassesAtExit={self._recording(os.getpid())}", *quiet)

    def keep(self) -> None:
        """Ends a recording JVM and moves the archive into place. The Spark session must have ended."""
        gateway = SparkContext._gateway
        process = getattr(gateway, "proc", None)
        if not self._may_record() or gateway is None or process is None:
            return
        recording = self._recording(os.getpid())
        gateway.shutdown()
        # The JVM ends when its standard input is closed.
        process.stdin.close()
        SparkContext._gateway = SparkContext._jvm = None
        try:
            process.wait(DUMP_S_MAX)
        except subprocess.TimeoutExpired:
            self._too_slow.touch()
            process.kill()  # Otherwise the JVM would go on writing after this process has ended.
            process.wait()
            recording.unlink(missing_ok=True)
        else:
            if recording.exists():
                recording.replace(self.path)

    def _may_record(self) -> bool:
        return not (self.path.exists() or self._too_slow.exists()) and os.access(self.path.parent, os.W_OK)

    @property
    def _too_slow(self) -> Path:
        return self.path.with_name(f"{self.path.name}.too-slow")

    def _recording(self, pid: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{pid}")

    def _remove_leftovers(self) -> None:
        for left in self.path.parent.glob(f"{self.path.name}.*"):
            pid = left.suffix.removeprefix(".")
            if pid.isdigit() and not psutil.pid_exists(int(pid)):
                left.unlink(missing_ok=True)
