"""The Spark session. Every setting here was measured; the numbers are those of one batch on two cores.

A session's JVM lives until its Python process ends: heap and JVM options count only in the first session of a process.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import structlog
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from streaming import compiler_thread, java_lookups, java_output, kernel
from streaming.class_archive import ClassArchive
from streaming.java_output import JavaOutput
from streaming.settings import Compiler

log = structlog.get_logger("stream")

# The live query's jobs are in Spark's default pool. They get their cores first, and what is left goes to the backlog's; a
# task that runs is not taken off its core, so the backlog has one at a time.
BACKLOG_POOL = "backlog"
_POOLS = """\
<allocations>
  <pool name="default"><schedulingMode>FIFO</schedulingMode><weight>100</weight><minShare>{cores}</minShare></pool>
  <pool name="{backlog}"><schedulingMode>FIFO</schedulingMode><weight>1</weight><minShare>0</minShare></pool>
</allocations>
"""

_STREAMING = "org.apache.spark.sql.execution.streaming"

# Warnings, but for those that tell an operator nothing.
_LOGGING = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = {pattern}
appender.console.layout.alwaysWriteExceptions = false
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
"""
_QUIET = {
    # Each try to connect, several a second and client; when it is for long, the query ends, and that is said once.
    "org.apache.kafka.clients.NetworkClient": "error",
    "org.apache.spark.SparkConf": "error",  # Which setting names the scratch folder.
    "org.apache.spark.util.SparkStringUtils": "error",  # That a plan is long.
    "org.apache.hadoop.util.NativeCodeLoader": "error",
    f"{_STREAMING}.runtime.ProcessingTimeExecutor": "error",  # A batch longer than the trigger: the next one follows.
    f"{_STREAMING}.runtime.MicroBatchExecution": "error",  # That a plan with state is not adaptive.
    # That state is many batches ahead of its snapshot; that of small state always is, and a snapshot follows by itself.
    f"{_STREAMING}.state.StateStoreCoordinator": "error",
}


# A JVM that has run out of heap goes on with threads missing. One that ends is started again, and its end is noticed.
_EXIT_WHEN_FULL = "-XX:+ExitOnOutOfMemoryError"
_EXIT_CODE_WHEN_FULL = 3
_EXIT_S_MAX = 5.0

_IDLE_RULES = (
    "BooleanSimplification",
    "LikeSimplification",
    "OptimizeCsvJsonExprs",
    "OptimizeOneRowRelationSubquery",
    "PruneFilters",
    "PushFoldableIntoBranches",
    "RemoveRedundantAliases",
    "ReorderAssociativeOperator",
    "ReplaceNullWithFalseInPredicate",
    "SimplifyBinaryComparison",
    "SimplifyCaseConversionExpressions",
    "SimplifyCasts",
    "SimplifyConditionals",
    "UnwrapCastInBinaryComparison",
)

_COMPILERS: dict[Compiler, tuple[str, ...]] = {
    # Two thirds of the CPU time until the first signal, and nothing competes with the batches for the cores.
    "quick": ("-XX:TieredStopAtLevel=1",),
    # About twice the throughput, after a minute; until then what it compiles with is what others leave (compiler_thread.py).
    "thorough": (),
}


@dataclass(frozen=True, slots=True)
class Standalone:
    """A standalone cluster to compute on, and its executors. They need no Python: nothing in the pipeline is in Python."""

    master: str
    driver_host: str = "127.0.0.1"  # Where executors reach this process.
    executor_memory_mb: int = 1024
    executor_cores: int = 1

    def settings(self, jars: Sequence[Path], cores: int) -> dict[str, str]:
        return {
            # Executors fetch them from here.
            "spark.jars": ",".join(str(jar) for jar in jars),
            "spark.cores.max": str(cores),
            "spark.executor.memory": f"{self.executor_memory_mb}m",
            "spark.executor.cores": str(self.executor_cores),
            # The formats' expressions are deep, and are read back recursively.
            "spark.executor.extraJavaOptions": f"-Xss8m -XX:+UseSerialGC {_EXIT_WHEN_FULL} -Duser.timezone=UTC",
        }


def spark_session(
    jars: Sequence[Path],
    *,
    app_name: str,
    driver_memory_mb: int = 1024,
    local_dir: Path,
    cores: int,
    shuffle_partitions: int = 1,
    standalone: Standalone | None = None,
    compiler: Compiler = "quick",
    class_archive: ClassArchive | None = None,
    ui: bool = False,
    output: JavaOutput | None = None,
) -> SparkSession:
    """A session, local if nothing else is said.

    Args:
        jars: the kernel, and the Kafka connector with what it needs.
        local_dir: scratch space; worthless after the session.
        cores: threads, over all executors.
        shuffle_partitions: a query with a checkpoint keeps the number it was first started with.
        output: reads what the JVM prints; without one it is dropped.
    """
    host = "127.0.0.1" if standalone is None else standalone.driver_host
    if host == "127.0.0.1":
        # Otherwise Spark warns that the host's name is a loopback address, whatever spark.driver.host says.
        os.environ.setdefault("SPARK_LOCAL_IP", host)
    # Of the JVM that does nothing but put together how the other one is started.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    settings = {
        # Not spark.jars alone: those are copied, served to executors that a local session has none of, and loaded apart.
        "spark.driver.extraClassPath": os.pathsep.join(str(jar) for jar in jars),
        "spark.driver.memory": f"{driver_memory_mb}m",
        "spark.driver.extraJavaOptions": _java_options(local_dir, cores, compiler, class_archive),
        "spark.driver.host": host,
        # The address that others reach us at need not be one of ours: a container has another inside.
        "spark.driver.bindAddress": "127.0.0.1" if host == "127.0.0.1" else "0.0.0.0",
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": str(_write_pools(local_dir, cores)),
        "spark.ui.enabled": str(ui).lower(),
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(local_dir),
        "spark.sql.warehouse.dir": str(local_dir / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(shuffle_partitions),
        # Not for streams with state.
        "spark.sql.adaptive.enabled": "false",
        # Every batch carries its plan as text for the user interface; this is the shortest.
        "spark.sql.ui.explainMode": "simple",
        # Noting which Python line made each expression is two thirds of the calls that build the pipeline.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # Code would be written anew for every batch and every task, though its compilation is cached. The work is in the kernel
        # and in the lambdas of the formats, which no code is written for: with large batches it gains nothing either.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        # A set is looked up by hash; a list of a hundred sample names is compared one by one, for every sample.
        "spark.sql.optimizer.inSetConversionThreshold": "2",
        # The default manager costs 23 ms more per log entry. It also tells two queries on one checkpoint apart, which
        # this one does not: streaming/checkpoint.py does.
        "spark.sql.streaming.checkpointFileManagerClass": (
            f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        "spark.sql.streaming.stateStore.providerClass": f"{_STREAMING}.state.HDFSBackedStateStoreProvider",
        # In update mode the empty batch that moves the watermark brings nothing.
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        # Beyond 128 keys in a batch it would sort instead of hash, at five times the cost.
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "1000000",
        # What is used twice is bound to a name (formats/common.py, let); looking for more costs with every row.
        "spark.sql.subexpressionElimination.enabled": "false",
        # Every batch is planned anew, and these look at every node of our expressions to find nothing: half of the planning.
        "spark.sql.optimizer.excludedRules": ",".join(
            f"org.apache.spark.sql.catalyst.optimizer.{r}" for r in _IDLE_RULES
        ),
        # A scrape that names a sample twice must not end the query.
        "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
        **kernel.SETTINGS,
    }
    if standalone is None:
        # Its RPC deserializes Java objects. Spark makes the secret itself and keeps it in memory, so no other process has it.
        settings["spark.authenticate"] = "true"
    else:
        settings |= standalone.settings(jars, cores)
    master = f"local[{cores}]" if standalone is None else standalone.master
    settings |= {"spark.master": master, "spark.app.name": app_name}
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    with compiler_thread.lowered_priority() if compiler == "thorough" else nullcontext():
        _start_java(settings, output or JavaOutput(lambda _: None))
        spark = builder.getOrCreate()
    if spark.sparkContext.getConf().get("spark.authenticate", "false") != "true":
        log.warning(
            "Spark's own connections are not authenticated: every host that reaches driver, master or a worker can run code there. "
            "Set spark.authenticate and spark.authenticate.secret on all of them (docs/streaming.md)",
            master=master,
        )
    java_lookups.cache_lookups()
    return spark


def ran_out_of_memory() -> bool:
    """Returns whether the JVM of this process has ended because its heap was full. Waits some seconds for an end under way."""
    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return False
    try:
        return bool(process.wait(_EXIT_S_MAX) == _EXIT_CODE_WHEN_FULL)
    except subprocess.TimeoutExpired:
        return False


def _start_java(settings: Mapping[str, str], output: JavaOutput) -> None:
    """Starts the JVM as the first session of a process would, but with its output going to ``output``."""
    if SparkContext._gateway is not None:
        output.close_writing_end()
        return
    try:
        gateway = launch_gateway(  # type: ignore[no-untyped-call]  # PySpark does not say
            SparkConf().setAll(list(settings.items())), dict(output.popen_options)
        )
    finally:
        output.close_writing_end()
    SparkContext._gateway, SparkContext._jvm = gateway, gateway.jvm


def _java_options(local_dir: Path, cores: int, compiler: Compiler, class_archive: ClassArchive | None) -> str:
    options = (
        _EXIT_WHEN_FULL,
        # Stopping a query serialises its plan recursively: with the default stack it overflows.
        "-Xss8m",
        # Batches leave much to collect and little to keep; one thread would stop all cores for twice as long.
        "-XX:+UseParallelGC",
        # Otherwise as many as the machine has cores, beside whatever else runs there.
        f"-XX:ParallelGCThreads={cores}",
        *_COMPILERS[compiler],
        *(class_archive.java_options() if class_archive is not None else ()),
        "-Duser.timezone=UTC",
        # Native codecs of topics are unpacked there: beside all else that is scratch, and gone with it.
        f'"-Djava.io.tmpdir={local_dir.absolute()}"',
        f'"-Dlog4j2.configurationFile={_write_logging(local_dir).as_uri()}"',
    )
    return " ".join(options)


def _write_pools(local_dir: Path, cores: int) -> Path:
    local_dir.mkdir(parents=True, exist_ok=True)
    path = local_dir / "pools.xml"
    path.write_text(_POOLS.format(cores=cores, backlog=BACKLOG_POOL))
    return path.absolute()


def _write_logging(local_dir: Path) -> Path:
    lines = [
        f"logger.quiet{i}.name = {name}\nlogger.quiet{i}.level = {level}\n"
        for i, (name, level) in enumerate(_QUIET.items())
    ]
    local_dir.mkdir(parents=True, exist_ok=True)
    path = local_dir / "log4j2.properties"
    path.write_text(_LOGGING.replace("{pattern}", java_output.PATTERN) + "".join(lines))
    return path.absolute()
