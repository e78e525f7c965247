"""Compiles the stream's kernel, the inner loops of the pipeline, from the Java sources in streaming/kernel on first use.

No JDK is needed, because the compiler is one of the pinned artifacts and runs on any Java that Spark runs on.

Invariant: the jar does not exist until it is complete, and is never written again. Its name has the digest of all inputs, so
changed inputs give a new jar.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import tempfile
import zipfile
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from rheostat.errors import SetupError
from rheostat.jvm.artifacts import Artifacts, Progress, resolve_artifacts, silent
from rheostat.jvm.java import JAVA_MAJOR_MIN, find_java

COMPILE_S_MAX = 120
# The jars of PySpark that the sources import.
_CLASS_PATH = (
    "jackson-core",
    "jackson-databind",
    "scala-library",
    "spark-catalyst",
    "spark-common-utils",
    "spark-sql-api",
    "spark-unsafe",
)
_ENTRY_TIME = (1980, 1, 1, 0, 0, 0)  # A fixed time, so that equal sources give an equal jar.


def stream_jars(artifacts: Artifacts | None = None, progress: Progress = silent) -> tuple[Path, ...]:
    """Returns the jars that the stream adds to Spark: the Kafka connector and the kernel, compiled if it is missing.

    Raises:
        SetupError: no suitable Java was found, the registry does not answer, or the kernel cannot be compiled.
    """
    artifacts = artifacts or resolve_artifacts(progress)
    return (*artifacts.spark_jars, kernel_jar(artifacts, progress))


def kernel_jar(artifacts: Artifacts, progress: Progress = silent) -> Path:
    """Returns the jar of the kernel; compiles it if it is missing.

    Raises:
        SetupError: as ``stream_jars``.
    """
    sources = sorted(_folder_of("streaming").joinpath("kernel").glob("*.java"))
    if not sources:
        raise SetupError("This installation of rheostat lacks the Java sources of streaming/kernel: reinstall it.")
    digest = hashlib.sha256(f"{artifacts.compiler.name} {JAVA_MAJOR_MIN} {metadata.version('pyspark')}".encode())
    for source in sources:
        digest.update(source.name.encode() + source.read_bytes())
    jar = artifacts.home / f"kernel-{digest.hexdigest()[:16]}.jar"
    if not jar.exists():
        progress("compiling the stream's kernel (once, some seconds) ...")
        try:
            with tempfile.TemporaryDirectory(prefix=f"{jar.name}.", dir=artifacts.home) as work:
                _compile(artifacts, sources, Path(work))
                packed_jar = _pack(Path(work) / "classes", Path(work) / jar.name)
                # A jar that another process has made meanwhile is kept: a JVM may already use it for a class archive.
                with suppress(FileExistsError):
                    os.link(packed_jar, jar)
        except OSError as error:
            raise SetupError(
                f"The stream's kernel cannot be written to {artifacts.home} ({error}): make that folder writable, or set "
                "RHEOSTAT_CACHE_DIR to a writable folder."
            ) from error
    return jar


def _compile(artifacts: Artifacts, sources: list[Path], work: Path) -> None:
    spark = _folder_of("pyspark") / "jars"
    jars = [*(jar for name in _CLASS_PATH for jar in sorted(spark.glob(f"{name}*.jar"))), *artifacts.spark_jars]
    command = [
        str(find_java().executable),
        "-XX:TieredStopAtLevel=1",  # The compiler runs only briefly, so it would not gain from the optimizing JIT compiler.
        "-jar",
        str(artifacts.compiler),
        f"-{JAVA_MAJOR_MIN}",
        "-encoding",
        "UTF-8",
        "-proc:none",
        "-nowarn",
        "-cp",
        ":".join(map(str, jars)),
        "-d",
        str(work / "classes"),
        *map(str, sources),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_S_MAX, check=False)
    except subprocess.TimeoutExpired as error:
        raise SetupError(f"The stream's kernel was not compiled within {COMPILE_S_MAX} s: try again.") from error
    if done.returncode:
        output = (done.stderr or done.stdout).strip()
        raise SetupError(
            f"The stream's kernel cannot be compiled with PySpark {metadata.version('pyspark')}: {output[:2000]}"
        )


def _pack(classes: Path, jar: Path) -> Path:
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as out:
        for file in sorted(classes.rglob("*.class")):
            out.writestr(zipfile.ZipInfo(str(file.relative_to(classes)), _ENTRY_TIME), file.read_bytes())
    return jar


def _folder_of(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise SetupError(f"{package} is not installed in this environment: install rheostat with its dependencies.")
    return Path(spec.origin).parent
