"""Starts the Spark session. Each setting was measured; numbers in comments are for one batch on two cores.

The JVM of a session lives until its Python process ends, so heap and JVM options take effect only in the first session of a
process.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from streaming import compiler_thread, java_lookups, java_output, kernel
from streaming.java_output import JavaOutput
from streaming.settings import Compiler
from streaming.shared.class_archive import ClassArchive
from streaming.spark_conf import launcher_settings, with_spark_conf

log = structlog.get_logger("stream")

# The live query's jobs are in Spark's default pool, which gets its cores first. The backlog's pool gets the remaining cores. It
# runs one task at a time, because Spark does not preempt a running task.
BACKLOG_POOL = "backlog"
_POOLS = """\
<allocations>
  <pool name="default"><schedulingMode>FIFO</schedulingMode><weight>100</weight><minShare>{cores}</minShare></pool>
  <pool name="{backlog}"><schedulingMode>FIFO</schedulingMode><weight>1</weight><minShare>0</minShare></pool>
</allocations>
"""

_STREAMING = "org.apache.spark.sql.execution.streaming"

DUMP_S_MAX = 10.0  # Longest wait for the JVM to write its class archive, which delays the end of the process.

# Log4j configuration: warnings, except from the loggers in ``_QUIET``, whose warnings do not help an operator.
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
    # Warns at each connection attempt, several per second. A long outage ends the query, which is logged once.
    "org.apache.kafka.clients.NetworkClient": "error",
    "org.apache.spark.SparkConf": "error",  # Warns that a cluster manager can override the scratch folder.
    "org.apache.spark.util.SparkStringUtils": "error",  # Warns that a plan is long.
    "org.apache.hadoop.util.NativeCodeLoader": "error",
    f"{_STREAMING}.runtime.ProcessingTimeExecutor": "error",  # Warns that a batch takes longer than the trigger interval.
    f"{_STREAMING}.runtime.MicroBatchExecution": "error",  # Warns that a plan with state is not adaptive.
    # Warns that state is many batches ahead of its snapshot, which is normal for small state.
    f"{_STREAMING}.state.StateStoreCoordinator": "error",
}


# A JVM that runs out of heap may go on without some of its threads. With this option the JVM ends instead, and is restarted.
_EXIT_WHEN_FULL = "-XX:+ExitOnOutOfMemoryError"
_EXIT_CODE_WHEN_FULL = 3
_EXIT_S_MAX = 5.0

# Rules of Spark's optimizer that never change the pipeline's plan.
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

# Settings that every session has.
_COMMON_SETTINGS = {
    "spark.scheduler.mode": "FAIR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # Spark does not support adaptive plans for streams with state.
    "spark.sql.adaptive.enabled": "false",
    # Every batch carries its plan as text for the user interface; this is the shortest form.
    "spark.sql.ui.explainMode": "simple",
    # Two thirds of the calls that build the pipeline would only record which Python line created each expression.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Spark would generate code for every batch and task without any use, because the work is in the kernel and in lambdas.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # A set is looked up by hash; a list of a hundred sample names is compared one by one for every sample.
    "spark.sql.optimizer.inSetConversionThreshold": "2",
    "spark.sql.streaming.stateStore.providerClass": f"{_STREAMING}.state.HDFSBackedStateStoreProvider",
    # In update mode the empty batch that advances the watermark has no output.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # Above 128 keys in a batch, Spark would sort instead of hash, at five times the cost.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "1000000",
    # ``formats.common.let`` shares values that are used twice; Spark's own search costs time for every row.
    "spark.sql.subexpressionElimination.enabled": "false",
    # Without these rules a batch is planned in half of the time.
    "spark.sql.optimizer.excludedRules": ",".join(
        f"org.apache.spark.sql.catalyst.optimizer.{rule}" for rule in _IDLE_RULES
    ),
    # A scrape that contains the same sample twice must not end the query.
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
}

# On a local disk the default manager costs 23 ms more per log entry. Its only advantage is that it detects two queries on one
# checkpoint, which streaming/checkpoint_lock.py prevents. On HDFS the default manager renames files in one step.
_LOCAL_CHECKPOINT = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
# By default, Hadoop's clients try for many minutes to reach a file system that does not answer: S3's client for 15 minutes.
_REMOTE_CHECKPOINT = {
    "spark.hadoop.ipc.client.connect.timeout": "5000",
    "spark.hadoop.ipc.client.connect.max.retries.on.timeouts": "3",
    "spark.hadoop.fs.s3a.attempts.maximum": "3",
    "spark.hadoop.fs.s3a.retry.limit": "4",
}

_COMPILERS: dict[Compiler, tuple[str, ...]] = {
    # Two thirds of the CPU time until the first signal; the compiler does not compete with the batches for cores.
    "quick": ("-XX:TieredStopAtLevel=1",),
    # About twice the throughput after a minute; until then the compiler uses idle CPU time only (compiler_thread.py).
    "thorough": (),
}


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """A cluster that runs the executors, and their size. Executors need no Python."""

    master: str
    driver_host: str = "127.0.0.1"  # Address at which executors reach this process.
    executor_memory_mb: int = 1024
    executor_cores: int = 1

    def settings(self, jars: Sequence[Path], cores: int) -> dict[str, str]:
        is_standalone = self.master.startswith("spark://")
        executors = -(-cores // self.executor_cores)
        return {
            # Executors download the jars from this process.
            "spark.jars": ",".join(str(jar) for jar in jars),
            # Only a standalone master limits the cores of an application; the others start this number of executors.
            **({"spark.cores.max": str(cores)} if is_standalone else {"spark.executor.instances": str(executors)}),
            "spark.executor.memory": f"{self.executor_memory_mb}m",
            "spark.executor.cores": str(self.executor_cores),
            # The formats' expressions are deep and deserialized recursively.
            "spark.executor.extraJavaOptions": " ".join(
                ("-Xss8m", "-XX:+UseSerialGC", _EXIT_WHEN_FULL, "-Duser.timezone=UTC", *_kerberos_options())
            ),
        }


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Size, place and name of a Spark session."""

    app_name: str
    local_dir: Path  # Scratch space; its content is worthless after the session.
    cores: int  # Threads, over all executors.
    driver_memory_mb: int = 1024
    shuffle_partitions: int = 1  # A query with a checkpoint keeps the number that it was first started with.
    cluster: SparkCluster | None = None  # None means a local session.
    spark_conf: Mapping[str, str] = field(default_factory=dict)  # The operator's own settings.
    compiler: Compiler = "quick"
    class_archive: ClassArchive | None = None
    is_checkpoint_local: bool = True

    @property
    def driver_host(self) -> str:
        return "127.0.0.1" if self.cluster is None else self.cluster.driver_host

    @property
    def master(self) -> str:
        return f"local[{self.cores}]" if self.cluster is None else self.cluster.master


def spark_session(jars: Sequence[Path], options: SparkOptions, output: JavaOutput | None = None) -> SparkSession:
    """Starts a Spark session.

    Args:
        jars: the kernel, the Kafka connector and its dependencies.
        output: reads the output of the JVM; without it the output is dropped.
    """
    if options.driver_host == "127.0.0.1":
        # Without this variable, Spark warns that the host name is a loopback address, even if spark.driver.host is set.
        os.environ.setdefault("SPARK_LOCAL_IP", options.driver_host)
    # Options of the short-lived JVM that computes the command line of the session's JVM.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    of_checkpoint = _LOCAL_CHECKPOINT if options.is_checkpoint_local else _REMOTE_CHECKPOINT
    own = _session_settings(jars, options) | _COMMON_SETTINGS | of_checkpoint | kernel.SETTINGS
    settings = with_spark_conf(own, options.spark_conf)
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    with compiler_thread.lowered_priority() if options.compiler == "thorough" else nullcontext():
        _start_java(launcher_settings(settings, options.spark_conf), output or JavaOutput(lambda _: None))
        spark = builder.getOrCreate()
    if spark.sparkContext.getConf().get("spark.authenticate", "false") != "true":
        log.warning(
            "Spark's own connections are not authenticated: every host that reaches driver, master or a worker can run code there. "
            "Set spark.authenticate and spark.authenticate.secret on all of them (docs/how-to/run-on-a-spark-cluster.md)",
            master=options.master,
        )
    java_lookups.cache_lookups()
    return spark


def _session_settings(jars: Sequence[Path], options: SparkOptions) -> dict[str, str]:
    """Returns the settings that depend on the session's options."""
    local_dir = options.local_dir
    settings = _driver_settings(jars, options) | {
        "spark.driver.extraJavaOptions": _java_options(options),
        "spark.master": options.master,
        "spark.app.name": options.app_name,
        "spark.scheduler.allocation.file": str(_write_pools(local_dir, options.cores)),
        "spark.local.dir": str(local_dir),
        "spark.sql.warehouse.dir": str(local_dir / "warehouse"),
        "spark.sql.shuffle.partitions": str(options.shuffle_partitions),
    }
    if options.cluster is not None:
        return settings | options.cluster.settings(jars, options.cores)
    # Spark's RPC deserializes Java objects. Spark generates the secret and keeps it in memory, so no other process knows it.
    return settings | {"spark.authenticate": "true"}


def _driver_settings(jars: Sequence[Path], options: SparkOptions) -> dict[str, str]:
    """Returns the settings of the driver's JVM, except for its scratch space and its class archive."""
    host = options.driver_host
    return {
        # Jars in spark.jars alone would be copied, served to executors and loaded separately, without use in a local session.
        "spark.driver.extraClassPath": os.pathsep.join(str(jar) for jar in jars),
        "spark.driver.memory": f"{options.driver_memory_mb}m",
        "spark.driver.extraJavaOptions": " ".join(_fixed_java_options(options)),
        "spark.driver.host": host,
        # The address that executors use need not exist on this host: a container has another address inside.
        "spark.driver.bindAddress": "127.0.0.1" if host == "127.0.0.1" else "0.0.0.0",
    }


def submit_settings(jars: Sequence[Path], options: SparkOptions) -> dict[str, str]:
    """Returns the settings that the command line of spark-submit needs, because they take effect only when the JVM starts."""
    settings = with_spark_conf(_driver_settings(jars, options), options.spark_conf)
    return {name: value for name, value in launcher_settings(settings, options.spark_conf).items() if value}


def has_executor(spark: SparkSession) -> bool:
    """Returns whether at least one executor of a cluster is connected."""
    context: Any = spark.sparkContext._jsc
    return bool(context.sc().getExecutorMemoryStatus().size() > 1)  # The driver is one of them.


def ran_out_of_memory() -> bool:
    """Returns whether the JVM of this process has ended because its heap was full. Waits some seconds for a JVM that is ending."""
    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return False
    try:
        return bool(process.wait(_EXIT_S_MAX) == _EXIT_CODE_WHEN_FULL)
    except subprocess.TimeoutExpired:
        return False


def _start_java(settings: Mapping[str, str], output: JavaOutput) -> None:
    """Starts the JVM like the first session of a process, but with ``output`` as its output."""
    if SparkContext._gateway is not None:
        output.close_writing_end()
        return
    try:
        gateway = launch_gateway(  # type: ignore[no-untyped-call]  # PySpark has no types for it
            SparkConf().setAll(list(settings.items())), dict(output.popen_options)
        )
    finally:
        output.close_writing_end()
    SparkContext._gateway, SparkContext._jvm = gateway, gateway.jvm


def end_recording(archive: ClassArchive) -> None:
    """Ends the JVM that records the class archive. The Spark session must have ended."""
    gateway = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if not archive.can_be_recorded or gateway is None or process is None:
        return
    gateway.shutdown()
    # The JVM ends when its standard input is closed.
    process.stdin.close()
    SparkContext._gateway = SparkContext._jvm = None
    archive.finish(process, DUMP_S_MAX)


def _java_options(options: SparkOptions) -> str:
    archive, local_dir = options.class_archive, options.local_dir
    java_options = (
        *_fixed_java_options(options),
        *(archive.java_options() if archive is not None else ()),
        # Native compression codecs are unpacked here, and removed with the other scratch files.
        f'"-Djava.io.tmpdir={local_dir.absolute()}"',
        f'"-Dlog4j2.configurationFile={_write_logging(local_dir).as_uri()}"',
    )
    return " ".join(java_options)


def _fixed_java_options(options: SparkOptions) -> tuple[str, ...]:
    """Returns the options of the driver's JVM that name no file of the session."""
    return (
        _EXIT_WHEN_FULL,
        # Stopping a query serializes its plan recursively, which overflows the default stack.
        "-Xss8m",
        # Batches produce much garbage; a single collector thread would stop all cores for twice as long.
        "-XX:+UseParallelGC",
        # By default, there is one thread per core of the machine, but other processes need the cores too.
        f"-XX:ParallelGCThreads={options.cores}",
        *_COMPILERS[options.compiler],
        "-Duser.timezone=UTC",
        *_kerberos_options(),
    )


def _kerberos_options() -> tuple[str, ...]:
    """Returns the option of a JVM for the file that KRB5_CONFIG names. Java does not read this variable of the Kerberos library."""
    first_file = os.environ.get("KRB5_CONFIG", "").partition(os.pathsep)[0]
    return (f'"-Djava.security.krb5.conf={first_file}"',) if first_file else ()


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
