"""A class data archive for Spark's JVM: the classes of an earlier run, ready to be mapped instead of loaded and verified.

Half of a start is class loading. The JVM can write what it has loaded to a file when it ends, and begin with that file the
next time. So the first run on a machine leaves the archive behind, and every later one starts sooner. An archive fits one
Java and one class path; its name says which, and one that does not fit all the same is passed over by the JVM itself.

Invariant: the archive appears whole or not at all. It is written under a name of its own and renamed after the JVM has
ended in order; a run that is killed leaves at most a file that the next one sweeps away. A machine on which writing it took
too long is not asked again.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import psutil
from pyspark import SparkContext

# Dumping takes seconds; who stops us waits no longer than that.
DUMP_S_MAX = 10.0


@dataclass(frozen=True, slots=True)
class ClassArchive:
    path: Path

    def java_options(self) -> tuple[str, ...]:
        """To use it when it is there, to record it when it is not, and nothing where it cannot be written."""
        quiet = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
        if self.path.exists():
            return (f"-XX:SharedArchiveFile={self.path}", *quiet)
        if not self._is_wanted():
            return ()
        self._sweep()
        return (f"-XX:ArchiveClassesAtExit={self._recording(os.getpid())}", *quiet)

    def keep(self) -> None:
        """Ends the JVM, when it is recording, and puts what it has written in place. The session must be over."""
        gateway = SparkContext._gateway
        process = getattr(gateway, "proc", None)
        if not self._is_wanted() or gateway is None or process is None:
            return
        recording = self._recording(os.getpid())
        gateway.shutdown()
        # The JVM ends when nobody holds its standard input any more.
        process.stdin.close()
        SparkContext._gateway = SparkContext._jvm = None
        try:
            process.wait(DUMP_S_MAX)
        except subprocess.TimeoutExpired:
            self._too_slow.touch()
            process.kill()  # Otherwise it writes on after this process has ended.
            process.wait()
            recording.unlink(missing_ok=True)
        else:
            if recording.exists():
                recording.replace(self.path)

    def _is_wanted(self) -> bool:
        return not (self.path.exists() or self._too_slow.exists()) and os.access(self.path.parent, os.W_OK)

    @property
    def _too_slow(self) -> Path:
        return self.path.with_name(f"{self.path.name}.too-slow")

    def _recording(self, pid: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{pid}")

    def _sweep(self) -> None:
        for left in self.path.parent.glob(f"{self.path.name}.*"):
            pid = left.suffix.removeprefix(".")
            if pid.isdigit() and not psutil.pid_exists(int(pid)):
                left.unlink(missing_ok=True)
