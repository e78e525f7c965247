"""Compiles Java sources of rheostat into a jar on first use, and keeps the jar in the cache folder.

No JDK is needed, because the compiler is one of the pinned artifacts and runs on any Java that Spark runs on.

Invariant: a jar does not exist until it is complete, and is never written again. Its name has the digest of all inputs, so changed
inputs give a new jar.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rheostat.errors import SetupError
from rheostat.jvm.artifacts import Artifacts, Progress, silent
from rheostat.jvm.java import find_java

COMPILE_S_MAX = 120
_ENTRY_TIME = (1980, 1, 1, 0, 0, 0)  # A fixed time, so that equal sources give an equal jar.


@dataclass(frozen=True, slots=True)
class JavaSources:
    """Sources that become one jar.

    Attributes:
        name: begins the name of the jar's file.
        title: names the jar in messages, such as "the stream's kernel".
        folder: the folder with the sources.
        class_path: the jars that the sources import.
        java_major: the oldest Java that can run the classes.
        versions: further versions that change the result; they become a part of the digest.
    """

    name: str
    title: str
    folder: Path
    class_path: Sequence[Path]
    java_major: int
    versions: str = ""


def compiled_jar(sources: JavaSources, artifacts: Artifacts, progress: Progress = silent) -> Path:
    """Returns the jar; compiles it if it is missing.

    Raises:
        SetupError: the sources are missing or cannot be compiled, there is no suitable Java, or the folder cannot be written.
    """
    files = sorted(sources.folder.glob("*.java"))
    if not files:
        raise SetupError(f"This installation of rheostat lacks the Java sources of {sources.title}: reinstall it.")
    digest = hashlib.sha256(f"{artifacts.compiler.name} {sources.java_major} {sources.versions}".encode())
    for file in files:
        digest.update(file.name.encode() + file.read_bytes())
    jar = artifacts.home / f"{sources.name}-{digest.hexdigest()[:16]}.jar"
    if not jar.exists():
        progress(f"compiling {sources.title} (once, some seconds) ...")
        try:
            with tempfile.TemporaryDirectory(prefix=f"{jar.name}.", dir=artifacts.home) as work:
                _compile(sources, files, artifacts.compiler, Path(work))
                packed_jar = _pack(Path(work) / "classes", Path(work) / jar.name)
                # If another process has made the jar meanwhile, that jar is kept, because a JVM may already use it.
                with suppress(FileExistsError):
                    os.link(packed_jar, jar)
        except OSError as error:
            raise SetupError(
                f"The jar of {sources.title} cannot be written to {artifacts.home} ({error}): make that folder writable, or set "
                "RHEOSTAT_CACHE_DIR to a writable folder."
            ) from error
    return jar


def package_folder(package: str) -> Path:
    """Returns the folder of an installed Python package.

    Raises:
        SetupError: the package is not installed.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise SetupError(f"{package} is not installed in this environment: install rheostat with its dependencies.")
    return Path(spec.origin).parent


def _compile(sources: JavaSources, files: Sequence[Path], compiler: Path, work: Path) -> None:
    command = [
        str(find_java().executable),
        "-XX:TieredStopAtLevel=1",  # The compiler runs only briefly, so it would not gain from the optimizing JIT compiler.
        "-jar",
        str(compiler),
        f"-{sources.java_major}",
        "-encoding",
        "UTF-8",
        "-proc:none",
        "-nowarn",
        "-cp",
        ":".join(map(str, sources.class_path)),
        "-d",
        str(work / "classes"),
        *map(str, files),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_S_MAX, check=False)
    except subprocess.TimeoutExpired as error:
        raise SetupError(
            f"The compilation of {sources.title} took longer than {COMPILE_S_MAX} s: try again."
        ) from error
    if done.returncode:
        output = (done.stderr or done.stdout).strip()
        raise SetupError(f"The sources of {sources.title} cannot be compiled: {output[:2000]}")


def _pack(classes: Path, jar: Path) -> Path:
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as out:
        for file in sorted(classes.rglob("*.class")):
            out.writestr(zipfile.ZipInfo(str(file.relative_to(classes)), _ENTRY_TIME), file.read_bytes())
    return jar
