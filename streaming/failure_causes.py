"""Explains the death of a query in one line that an operator can act on: cluster, topic, folder or setting, and what to do.

Spark wraps a cause in its own exception, Py4J wraps that, and both add pages of plan. Causes are recognized by marks in the text,
because the exception class depends on which client noticed first: Spark's consumer, its producer, or rheostat's own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from importlib.metadata import version

from py4j.protocol import Py4JError

from streaming import storage
from streaming.checkpoint_location import HadoopFolder
from streaming.settings import StreamSettings
from streaming.shared.contract import Topics
from streaming.shared.kafka import KafkaSettings
from streaming.sources import Feed

_SPARK_VERSION = version("pyspark")
_SHOWN_CHARS_MAX = 300  # Longest quote of a Spark message, which may contain a whole plan.

# Texts of TokenLogin.java, of ``sources.kafka_options`` and of rheostat's own Kafka clients. The failure ends with the next
# token or ticket, or with a corrected file.
_NO_TOKEN = ("the token file ", "the token in ", "cannot log in at ", "LoginError: ")

_UNREACHABLE = (
    "node assignment",
    "TimeoutException",
    "No resolvable bootstrap urls",
    "DisconnectException",
    "NetworkException",
    "NotEnoughReplicas",
    "KafkaTimeoutError",
    "KafkaConnectionError",
    "NoBrokersAvailable",
    "NodeNotReadyError",
    "DisconnectError",
    "RequestTimedOutError",
    "Unreachable",
    *_NO_TOKEN,
)
_NO_MEMORY = (
    "Could not reserve enough space",
    "insufficient memory",
    "Cannot allocate memory",
    "java.lang.OutOfMemoryError",
)
_NO_ADDRESS = ("BindException", "Cannot assign requested address", "UnknownHostException")
_NO_OPTION = (
    "Unrecognized VM option",
    "Unrecognized option",
    "Invalid maximum heap size",
    "Improperly specified VM option",
)
_JAVA_MARKS = (*_NO_MEMORY, *_NO_ADDRESS, *_NO_OPTION, "UnsupportedClassVersionError")
_LOGIN_REFUSED = ("SaslAuthentication", "SslAuthentication")
# Java's Kerberos login, and the Kerberos exchange with a broker. Other logins of Kafka use the first exception too.
_KERBEROS = ("LoginException", "GSSException")
_ACCESS_DENIED = (
    *_LOGIN_REFUSED,
    "AuthorizationException",
    "AuthorizationFailed",
    "MissingPermission",
)
_MISSING = ("UnknownTopicOrPartition", "not present in metadata")
_NATIVE = (
    "UnsatisfiedLinkError",
    "Could not initialize class org.xerial.snappy",
    "Could not initialize class com.github.luben.zstd",
)
_NO_MASTER = ("All masters are unresponsive", "stopped SparkContext", "SparkContext was shut down")
_THREADS = ("unable to create native thread", "unable to create new native thread")
_FILES = ("Too many open files",)
_MACHINE = (*storage.FULL, *storage.READ_ONLY, *storage.DENIED, *_NATIVE, *_THREADS, *_FILES)
# Texts of a Hadoop file system that does not answer or refuses to write: first HDFS, then S3.
_FILE_SYSTEM = ("wiki.apache.org/hadoop", "SafeModeException", "could only be written to", "Service: S3", "s3a://")
_CHECKPOINT = ("STATE_STORE", "STATEFUL_OPERATOR", "StateSchema", "STREAMING_CHECKPOINT", "CheckpointMetadata")


def first_line(report: object) -> str:
    """Returns the first non-empty line of a failure's message, or the name of its class if it has none."""
    silent = type(report).__name__ if isinstance(report, BaseException) else "no message"
    lines = str(_innermost(report)).strip().splitlines()
    return next((line[:_SHOWN_CHARS_MAX] for line in lines if line), silent)


def _innermost(report: object) -> object:
    """Returns the innermost Java cause, because Py4J's own message says only that a call failed."""
    java = getattr(report, "java_exception", None)
    if java is None:
        return report
    try:
        while (cause := java.getCause()) is not None:
            java = cause
        return java.toString()
    except Py4JError:  # The JVM has ended, and its causes are lost.
        return report


def _mentions(report: str, marks: Sequence[str]) -> bool:
    return any(mark in report for mark in marks)


def is_unreachable(report: str) -> bool:
    """Returns whether a query died only because Kafka was unreachable."""
    return _mentions(report, _UNREACHABLE) and not _mentions(report, _ACCESS_DENIED)


def may_heal(report: str, connections: Iterable[KafkaSettings]) -> bool:
    """Returns whether a query that has run died of a cause that may end by itself.

    There are three such causes: Kafka was unreachable, a token had expired, or Kerberos gave no ticket.

    Args:
        connections: the connections of the query.
    """
    uses_tokens = any(connection.sasl_mechanism in ("OAUTHBEARER", "GSSAPI") for connection in connections)
    return is_unreachable(report) or (uses_tokens and _mentions(report, (*_LOGIN_REFUSED, *_KERBEROS)))


def may_be_caused_by_record(report: str) -> bool:
    """Returns whether a record may have ended the query: True if no other cause is known."""
    return not _mentions(report, (*_UNREACHABLE, *_ACCESS_DENIED, *_KERBEROS, *_MISSING, *_CHECKPOINT, *_MACHINE))


def explain_start_failure(error: Exception, last_words: str, settings: StreamSettings) -> str:
    """Returns the message for a JVM or Spark session that does not start.

    Args:
        last_words: the last lines that the JVM printed.
    """
    report = f"{last_words}\n{error}"
    machine_cause = _machine_cause(report, settings) or _java_cause(report, settings)
    if machine_cause is not None:
        return f"Spark does not start. {machine_cause}"
    if not settings.is_local and _mentions(report, _NO_MASTER):
        return _no_master_message(settings)
    java = next((line for line in reversed(last_words.splitlines()) if line.strip()), "")
    details = f"{first_line(error)}{f' Java says: {java[:_SHOWN_CHARS_MAX]}' if java else ''}"
    return f"Spark does not start with stream.master {settings.master}: {details}"


def _no_master_message(settings: StreamSettings) -> str:
    return (
        f"The Spark master {settings.master} did not accept the stream, or has ended it: check that it answers, runs Spark "
        f"{_SPARK_VERSION}, and has the same spark.authenticate.secret as the stream, if that is set."
    )


def explain_no_executor(settings: StreamSettings, waited_s: float) -> str:
    """Returns the message for a cluster on which no executor starts, or all have ended."""
    return (
        f"The Spark cluster {settings.master} has given the stream no executor for {waited_s:.0f} s: check that workers are "
        f"registered, run Spark {_SPARK_VERSION}, and have a core and {settings.executor_memory_mb} MiB free."
    )


def explain_jvm_end(last_words: str, settings: StreamSettings) -> str:
    """Returns the message for a JVM that has ended while a query ran."""
    cause = _machine_cause(last_words, settings) or _java_cause(last_words, settings)
    if cause is not None:
        return f"Spark's Java process has ended. {cause}"
    return (
        "Spark's Java process has ended without a message: it was killed, most likely by the kernel for lack of memory (see "
        f"dmesg). The process needs 700 MiB more than stream.driver_memory_mb ({settings.driver_memory_mb} MiB): give this "
        "machine or container more memory, or lower stream.driver_memory_mb."
    )


def _machine_cause(report: str, settings: StreamSettings) -> str | None:
    """Returns the message about a disk or a system limit; None if neither is the cause."""
    folders = storage.folders(settings)
    scratch = folders[-1]
    if _mentions(report, storage.FULL):
        return storage.no_space_message(folders)
    # Spark does not always say why it could not write its state.
    if _mentions(report, _CHECKPOINT) and (full := storage.full_message_if_full(folders)) is not None:
        return full
    if _mentions(report, (*storage.READ_ONLY, *storage.DENIED)):
        fault = next((text for folder in folders if (text := storage.folder_fault(folder)) is not None), None)
        if fault is not None:
            return fault
        if isinstance(settings.checkpoint_dir, HadoopFolder):
            return storage.hadoop_message(settings, first_line(report), is_denied=True)
        return storage.inaccessible_file_message(settings.checkpoint_dir)
    if _mentions(report, _NATIVE):
        return f"{storage.noexec_message(scratch)}."
    if _mentions(report, _THREADS):
        return (
            "The system lets the stream start no more threads: raise the limit of processes (ulimit -u, docker --pids-limit) to "
            "at least 512."
        )
    if _mentions(report, _FILES):
        return "The system lets the stream open no more files: raise the limit (ulimit -n) to at least 4096."
    return None


def _java_cause(report: str, settings: StreamSettings) -> str | None:
    """Returns the message about a JVM that does not start; None if its output names no known cause."""
    line = next((text for text in report.splitlines() if _mentions(text, _JAVA_MARKS)), None)
    if line is None:
        return None
    if _mentions(line, _NO_MEMORY):
        return (
            f"There is no memory for Java's heap of {settings.driver_memory_mb} MiB and 700 MiB more for the process: lower "
            f"stream.driver_memory_mb (at least 512), or give this machine, container or shell (ulimit -v) "
            f"more. Java says: {line[:_SHOWN_CHARS_MAX]}."
        )
    if _mentions(line, _NO_ADDRESS):
        address = os.environ.get("SPARK_LOCAL_IP", "127.0.0.1")
        return (
            f"Spark cannot listen on {address}: SPARK_LOCAL_IP or stream.driver_host must name an address of this machine; if "
            f"neither is set, the address is 127.0.0.1. Java says: {line[:_SHOWN_CHARS_MAX]}."
        )
    if "UnsupportedClassVersionError" in line:
        return f"Spark's Java is too old; 17 or newer is needed: see JAVA_HOME. Java says: {line[:_SHOWN_CHARS_MAX]}."
    return (
        f"Java refuses one of its options: correct JAVA_TOOL_OPTIONS, JDK_JAVA_OPTIONS or SPARK_SUBMIT_OPTS in the environment. "
        f"Java says: {line[:_SHOWN_CHARS_MAX]}."
    )


def _kerberos_cause(report: str, connections: Iterable[KafkaSettings]) -> str | None:
    """Returns the message about a login of Java that Kerberos refused; None if Kerberos is not used, or not the cause."""
    kerberos = next((one for one in connections if one.uses_kerberos), None)
    # The last line has the innermost cause.
    line = next((text for text in reversed(report.splitlines()) if _mentions(text, _KERBEROS)), None)
    if kerberos is None or line is None or _mentions(report, _NO_TOKEN):
        return None
    principal, keytab = kerberos.sasl_kerberos_principal, kerberos.sasl_kerberos_keytab
    source = (
        f"has a key of {principal} in {keytab}" if keytab else "has a ticket cache that kinit has written to a file"
    )
    return (
        "Spark cannot log in with Kerberos: check that the KDC answers, and that each machine of Spark has a krb5.conf and "
        f"{source}. Java says: {line.strip()[:_SHOWN_CHARS_MAX]}"
    )


def explain_death(
    report: str, kafka_: KafkaSettings, topics: Topics, settings: StreamSettings, feeds: Sequence[Feed] = ()
) -> str:
    """Returns the message for a query that died. Marks that also occur with other causes are checked last."""
    if (machine_cause := _machine_cause(report, settings)) is not None:
        return f"The stream processor died. {machine_cause}"
    read = dict.fromkeys([topics.metrics, *(topic for feed in feeds for topic in feed.topics)])
    used_topics = f"{', '.join(read)}, {topics.signals} or {topics.rejects}"
    servers = dict.fromkeys([kafka_.bootstrap_servers, *(feed.kafka.bootstrap_servers for feed in feeds)])
    no_answer = f"no answer from {' or '.join(servers)}"
    if not settings.is_local and _mentions(report, _NO_MASTER):
        return _no_master_message(settings)
    if isinstance(settings.checkpoint_dir, HadoopFolder) and _mentions(report, _FILE_SYSTEM):
        return f"The stream processor died. {storage.hadoop_message(settings, first_line(report), is_denied=False)}"
    if (kerberos_cause := _kerberos_cause(report, [kafka_, *(feed.kafka for feed in feeds)])) is not None:
        return f"The stream processor died: {kerberos_cause}"
    causes = (
        (_NO_TOKEN, "there is no password, token or ticket for Kafka"),
        (_LOGIN_REFUSED, "Kafka refuses the login in the settings section kafka, or a token has expired"),
        (
            ("AuthorizationException", "AuthorizationFailed", "MissingPermission"),
            f"no right to read or write {used_topics}",
        ),
        (("UnknownTopicOrPartition",), f"a topic is missing: {used_topics}"),
        # A producer reports a missing topic and missing metadata in the same way.
        (("not present in metadata",), f"{no_answer}, or a topic is missing there: {used_topics}"),
        (
            _CHECKPOINT,
            f"the checkpoint {settings.checkpoint_dir} does not fit this version or is damaged: remove that folder"
            " (the signals of the last half minute are computed again)"
            + (
                ""
                if settings.is_local
                else "; or executors do not see the folder: it must be on storage that they share with this process"
            ),
        ),
        (("OutOfMemoryError",), f"the heap of {settings.driver_memory_mb} MiB is full: raise stream.driver_memory_mb"),
        (_UNREACHABLE, no_answer),
    )
    for marks, cause in causes:
        if _mentions(report, marks):
            return f"The stream processor died: {cause}. Spark says: {first_line(report)}"
    return f"The stream processor died: {first_line(report)}"
