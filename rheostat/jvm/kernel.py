"""Finds the jars of the stream: the Kafka connector, and the kernel with the inner loops of the pipeline (streaming/kernel)."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from rheostat.jvm.artifacts import Artifacts, Progress, resolve_artifacts, silent
from rheostat.jvm.compiled_jar import JavaSources, compiled_jar, package_folder
from rheostat.jvm.java import JAVA_MAJOR_MIN

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
    spark = package_folder("pyspark") / "jars"
    sources = JavaSources(
        name="kernel",
        title="the stream's kernel",
        folder=package_folder("streaming") / "kernel",
        class_path=[
            *(jar for name in _CLASS_PATH for jar in sorted(spark.glob(f"{name}*.jar"))),
            *artifacts.spark_jars,
        ],
        java_major=JAVA_MAJOR_MIN,
        versions=f"PySpark {metadata.version('pyspark')}",
    )
    return compiled_jar(sources, artifacts, progress)
