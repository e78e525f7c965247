"""A class data sharing (CDS) archive for a JVM, which makes later starts faster.

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

_QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
# Without these options, a JVM with a Java agent neither writes nor uses an archive.
_WITH_AGENT = ("-XX:+UnlockDiagnosticVMOptions", "-XX:+IgnoreUnrecognizedVMOptions", "-XX:+AllowArchivingWithJavaAgent")


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive file, and the JVM options that use or record it.

    Attributes:
        with_agent: whether the JVM runs a Java agent.
    """

    path: Path
    with_agent: bool = False

    def use_options(self) -> tuple[str, ...]:
        """Returns the JVM options that use the archive; none if it does not exist yet."""
        return (f"-XX:SharedArchiveFile={self.path}", *self._common_options()) if self.path.exists() else ()

    def record_options(self) -> tuple[str, ...]:
        """Returns the JVM options that record the archive; none if it exists, or cannot be written."""
        if not self.can_be_recorded:
            return ()
        self._remove_leftovers()
        return (f"-XX:ArchiveClassesAtExit={self._recording(os.getpid())}", *self._common_options())

    def java_options(self) -> tuple[str, ...]:
        """Returns the JVM options that use the archive, or record it if it is missing; none if it cannot be written."""
        return self.use_options() or self.record_options()

    def finish(self, process: subprocess.Popen[bytes], dump_s_max: float) -> None:
        """Waits until a recording JVM, which was told to end, has ended, and moves the archive into place.

        Args:
            dump_s_max: longest wait; after it the JVM is killed.
        """
        recording = self._recording(os.getpid())
        try:
            process.wait(dump_s_max)
        except subprocess.TimeoutExpired:
            self._too_slow.touch()
            process.kill()  # Without this, the JVM would go on writing after this process has ended.
            process.wait()
            recording.unlink(missing_ok=True)
        else:
            if recording.exists():
                recording.replace(self.path)

    def _common_options(self) -> tuple[str, ...]:
        return (*_QUIET, *(_WITH_AGENT if self.with_agent else ()))

    @property
    def can_be_recorded(self) -> bool:
        """Whether the archive does not exist yet, can be written, and has not taken too long on this machine before."""
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
