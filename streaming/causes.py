"""What a query died of, in the operator's words.

Spark wraps a cause in the name of its own exception, that in Py4J's, and adds pages of plan. What an operator can act on is
one line: which cluster, topic, folder or setting, and what to do. Causes are told by marks in the text, since the classes
differ by who noticed first: Spark's consumer, its producer, or ours.
"""

from __future__ import annotations

from collections.abc import Sequence

from py4j.protocol import Py4JError

from streaming.contract import Topics
from streaming.kafka import KafkaSettings
from streaming.settings import StreamSettings
from streaming.sources import Feed

_SHOWN_CHARS_MAX = 300  # Of Spark's words: its plans are pages.

_LOST = (
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
)
_REFUSED = ("SaslAuthentication", "SslAuthentication", "AuthorizationException", "AuthorizationFailed", "MissingRight")


_MISSING = ("UnknownTopicOrPartition", "not present in metadata")
_MACHINE = ("No space left", "Permission denied", "Read-only file system", "Too many open files", "Disk quota")
_CHECKPOINT = ("STATE_STORE", "STATEFUL_OPERATOR", "StateSchema", "STREAMING_CHECKPOINT", "CheckpointMetadata")


def first_line(report: object) -> str:
    """The first line of a failure that says something; of one that says nothing, what kind it is."""
    silent = type(report).__name__ if isinstance(report, BaseException) else "no message"
    lines = str(_innermost(report)).strip().splitlines()
    return next((line[:_SHOWN_CHARS_MAX] for line in lines if line), silent)


def _innermost(report: object) -> object:
    """Py4J's own words are that an error occurred in a call of o7743; what occurred is the last of Java's causes."""
    java = getattr(report, "java_exception", None)
    if java is None:
        return report
    try:
        while (cause := java.getCause()) is not None:
            java = cause
        return java.toString()
    except Py4JError:  # The JVM is gone, and has taken them with it.
        return report


def is_lost(report: str) -> bool:
    """Whether a query died because Kafka was away, and nothing else."""
    return any(mark in report for mark in _LOST) and not any(mark in report for mark in _REFUSED)


def may_be_a_record(report: str) -> bool:
    """Returns whether a query may have died of a record that it read, and of nothing around it."""
    return not any(mark in report for mark in (*_LOST, *_REFUSED, *_MISSING, *_CHECKPOINT, *_MACHINE))


def why(
    report: str, kafka_: KafkaSettings, topics: Topics, settings: StreamSettings, feeds: Sequence[Feed] = ()
) -> str:
    """The operator's words for what a query died of. Causes that hide others come last."""
    read = dict.fromkeys([topics.metrics, *(topic for feed in feeds for topic in feed.topics)])
    ours = f"{', '.join(read)}, {topics.signals} or {topics.rejects}"
    servers = dict.fromkeys([kafka_.bootstrap_servers, *(feed.kafka.bootstrap_servers for feed in feeds)])
    no_answer = f"no answer from {' or '.join(servers)}"
    causes = (
        (("SaslAuthentication", "SslAuthentication"), "Kafka refuses our credentials"),
        (("AuthorizationException", "AuthorizationFailed", "MissingRight"), f"no right to read or write {ours}"),
        (("UnknownTopicOrPartition",), f"a topic is missing: {ours}"),
        # A producer says the same of a topic that is not there as of brokers that never told it.
        (("not present in metadata",), f"{no_answer}, or a topic is missing there: {ours}"),
        (
            _CHECKPOINT,
            f"the checkpoint {settings.checkpoint_dir} does not fit this version or is damaged: remove that folder"
            " (signals of the last half minute are made anew)"
            + (
                ""
                if settings.is_local
                else "; or executors do not see it: it must be on storage that they share with us"
            ),
        ),
        (("OutOfMemoryError",), f"the heap of {settings.driver_memory_mb} MiB is full: raise stream.driver_memory_mb"),
        (_LOST, no_answer),
    )
    for marks, cause in causes:
        if any(mark in report for mark in marks):
            return f"The stream processor died: {cause}. Spark says: {first_line(report)}"
    return f"The stream processor died: {first_line(report)}"
