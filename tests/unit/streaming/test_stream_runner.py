"""Checks before a run of the stream, and the operator's message when it ends."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError
from py4j.protocol import Py4JNetworkError
from stream_leases import FakeStreamLease
from structlog.testing import capture_logs

from streaming import checkpoint_lock, runner
from streaming.checkpoint_location import HadoopFolder
from streaming.errors import StreamError
from streaming.failure_causes import explain_death, is_unreachable, may_be_caused_by_record, may_heal
from streaming.formats.common import Source
from streaming.formats.registry import FORMATS
from streaming.pipeline import reject_slots
from streaming.settings import StreamSettings
from streaming.shared.contract import Topics
from streaming.shared.kafka import KafkaSettings
from streaming.sources import Feed, equal_share, feeds

KAFKA = KafkaSettings(bootstrap_servers="kafka:9092")
OTHER = KafkaSettings(bootstrap_servers="other:9092")
TOPICS = Topics.with_prefix("rheostat")


def _hold(folder: Path, ready: multiprocessing.synchronize.Event, leave: multiprocessing.synchronize.Event) -> None:
    with checkpoint_lock.locked(folder):
        ready.set()
        leave.wait(30)


def test_two_queries_never_share_a_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "checkpoint"
    context = multiprocessing.get_context("spawn")
    ready, leave = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(folder, ready, leave))
    other.start()
    assert ready.wait(30)
    with (
        pytest.raises(StreamError, match=r"checkpoint .* is in use by another rheostat"),
        checkpoint_lock.locked(folder),
    ):
        pass
    other.kill()  # A lock ends with its process, however that ends.
    other.join()
    with checkpoint_lock.locked(folder) as first_id:
        pass
    with checkpoint_lock.locked(folder) as second_id:
        assert second_id == first_id, "it is known to the group by this id"
    with checkpoint_lock.locked(tmp_path / "of another host") as other_id:
        assert other_id != first_id


@pytest.mark.parametrize(
    ("report", "cause"),
    [
        ("x\n org.apache.kafka.common.errors.UnknownTopicOrPartitionException: y", "a topic is missing: rheostat.metr"),
        (
            "org.apache.kafka.common.errors.TimeoutException: Topic t not present in metadata after",
            "no answer from kafka:9092, or a topic is missing there: rheostat.metr",
        ),
        (
            "TimeoutException: Timed out waiting for a node assignment. Call: describeTopics",
            "no answer from kafka:9092",
        ),
        ("KafkaTimeoutError: Unable to bootstrap from", "no answer from kafka:9092"),
        ("UnknownTopicOrPartitionError: telegraf", "a topic is missing"),
        ("[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided", "/state/stream does not fit this version"),
        ("java.lang.OutOfMemoryError: Java heap space", "the heap of 1024 MiB is full"),
        (
            "org.apache.kafka.common.errors.TopicAuthorizationException: Not",
            "no right to read or write rheostat.metrics",
        ),
        ("MissingPermission: missing right: Describe on Topic telegraf", "no right to read or write rheostat.metrics"),
        ("something new\nat java", "The stream processor died: something new"),
        ("", "no message"),
    ],
)
def test_explain_death_names_cause(report: str, cause: str) -> None:
    assert cause in explain_death(report, KAFKA, TOPICS, StreamSettings(checkpoint_dir=Path("/state/stream")))


def test_explain_death_names_all_topics_in_short_text() -> None:
    feed = Feed(OTHER, ("telegraf",), "telegraf_json", Source("c"), 10_000)
    settings = StreamSettings(checkpoint_dir=Path("/state/stream"))
    assert "rheostat.metrics, telegraf, rheostat.signals" in explain_death(
        "TopicAuthorizationException", KAFKA, TOPICS, settings, [feed]
    )
    assert "no answer from kafka:9092 or other:9092" in explain_death(
        "DisconnectException", KAFKA, TOPICS, settings, [feed]
    )
    assert len(explain_death("plan " * 10_000, KAFKA, TOPICS, settings)) < 400


def test_explain_death_on_cluster_names_shared_checkpoint() -> None:
    settings = StreamSettings(checkpoint_dir=Path("/state"), master="spark://127.0.0.1:7077")
    assert "storage that they share with this process" in explain_death(
        "[CANNOT_LOAD_STATE_STORE.X]", KAFKA, TOPICS, settings
    )


@pytest.mark.parametrize(
    ("report", "lost"),
    [
        ("TimeoutException: Timed out waiting for a node assignment. Call: describeTopics", True),
        ("org.apache.kafka.common.errors.DisconnectException", True),
        ("KafkaTimeoutError: Unable to bootstrap", True),
        ("TimeoutException caused by SaslAuthenticationException: wrong password", False),
        ("Unreachable: cannot list partitions at other:9092: KafkaTimeoutError", True),
        ("Unreachable: cannot list partitions at other:9092: SaslAuthenticationFailedError", False),
        ("UnknownTopicOrPartitionException", False),
        ("java.lang.OutOfMemoryError: Java heap space", False),
    ],
)
def test_is_unreachable_only_for_absent_kafka(report: str, lost: bool) -> None:
    assert is_unreachable(report) is lost
    assert may_heal(report, [KAFKA]) is lost


def test_refused_login_may_heal_only_with_tokens() -> None:
    """A password that is wrong stays wrong. A token may only have expired."""
    tokens = KafkaSettings(
        bootstrap_servers="h:1",
        security_protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_file="/token",
    )
    refused = 'SaslAuthenticationException: {"status":"invalid_token"}'
    assert not may_heal(refused, [KAFKA])
    assert may_heal(refused, [KAFKA, tokens])
    assert not may_heal("TopicAuthorizationException", [tokens])
    for text in (
        "java.io.IOException: the token in /t has expired",
        "Unreachable: cannot log in at h:1: kafka.sasl_oauth_…",
    ):
        assert may_heal(text, [tokens])


KERBEROS = KafkaSettings(
    bootstrap_servers="h:1",
    security_protocol="SASL_PLAINTEXT",
    sasl_mechanism="GSSAPI",
    sasl_kerberos_principal="rheostat@TEST",
    sasl_kerberos_keytab="/etc/a.keytab",
)


@pytest.mark.parametrize(
    "cause",
    [
        "javax.security.auth.login.LoginException: Connection refused",
        "org.ietf.jgss.GSSException: No valid credentials provided (Mechanism level: Fail to create credential.)",
    ],
)
def test_refused_kerberos_login_of_java_is_named_and_may_heal(cause: str) -> None:
    report = f"StreamingQueryException: [STREAM_FAILED] Failed to create new KafkaAdminClient\n\tat a.b\nCaused by: {cause}\n\t... 9 more"
    settings = StreamSettings(checkpoint_dir=Path("/state"))
    message = explain_death(report, KERBEROS, TOPICS, settings)
    assert "has a krb5.conf and has a key of rheostat@TEST in /etc/a.keytab" in message
    assert message.endswith(f"Java says: Caused by: {cause}")
    assert "krb5.conf" not in explain_death(report, KAFKA, TOPICS, settings), "another login has the same exception"
    assert may_heal(report, [KERBEROS])
    assert not may_heal(report, [KAFKA])
    assert not may_be_caused_by_record(report)


def test_refused_kerberos_login_of_python_is_named() -> None:
    report = "Unreachable: cannot describe the cluster at h:1: LoginError: kafka.sasl_mechanism GSSAPI: the Kerberos login failed: x"
    message = explain_death(report, KERBEROS, TOPICS, StreamSettings(checkpoint_dir=Path("/state")))
    assert message.startswith("The stream processor died: there is no password, token or ticket for Kafka.")
    assert may_heal(report, [KERBEROS])


def test_feeds_start_with_own_topic_and_join_similar_sources() -> None:
    settings = StreamSettings.model_validate(
        {
            "checkpoint_dir": "/c",
            "sources": [
                {"topic": "a", "format": "telegraf_json", "hosts": {"k1": 1}},
                {"topic": "b", "format": "telegraf_json", "cluster": "other", "hosts": {"k1": 1}},
                {"topic": "c", "format": "telegraf_json", "hosts": {"k1": 1}},
                {"topic": "a", "format": "telegraf_json", "hosts": {"k1": 1}, "kafka": OTHER.model_dump()},
            ],
        }
    )
    found = feeds(KAFKA, TOPICS, settings, cluster="main", own_interval_s=5)
    assert found == [
        Feed(KAFKA, ("rheostat.metrics",), "rheostat_json", Source("main"), 5_000),
        Feed(KAFKA, ("a", "c"), "telegraf_json", Source("main", {"k1": 1}), 10_000),
        Feed(KAFKA, ("b",), "telegraf_json", Source("other", {"k1": 1}), 10_000),
        Feed(OTHER, ("a",), "telegraf_json", Source("main", {"k1": 1}), 10_000),
    ]
    assert equal_share(5000, found) == 1250
    assert equal_share(2, found) == 1


def test_every_format_name_has_a_reader() -> None:
    names = StreamSettings.model_json_schema()["$defs"]["SourceSettings"]["properties"]["format"]["enum"]
    assert sorted(FORMATS) == sorted(names)


@pytest.mark.parametrize(
    ("records_max", "partitions", "expected"), [(5000, 1, 5000), (5000, 4, 5000), (5000, 10, 2000), (300, 2, 300), (5000, 300, 500)]
)  # fmt: skip
def test_reject_slots_fit_batch_and_heap(records_max: int, partitions: int, expected: int) -> None:
    assert reject_slots(records_max, partitions) == expected


def join_alone(_checkpoint_id: str) -> AbstractContextManager[FakeStreamLease]:
    return nullcontext(FakeStreamLease(is_held=True))


def test_java_output_ends_if_session_never_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_session(*_: object, **__: object) -> None:
        raise OSError("its settings cannot be written")

    monkeypatch.setattr(runner, "spark_session", no_session)
    settings = StreamSettings(checkpoint_dir=tmp_path / "checkpoint")
    before = {thread for thread in threading.enumerate() if thread.name == "java-output"}
    with pytest.raises(StreamError):
        runner.run(KAFKA, TOPICS, [], settings, [], threading.Event(), join_alone)
    assert {thread for thread in threading.enumerate() if thread.name == "java-output"} <= before


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    spark: Any = SimpleNamespace(conf=SimpleNamespace(set=lambda *_: None), stop=lambda: None)
    monkeypatch.setattr(runner, "spark_session", lambda *_, **__: spark)
    monkeypatch.setattr(runner.checkpoint_lock, "locked_by_jvm", lambda *_: nullcontext())


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize("noting", [StreamError("The checkpoint is damaged"), OSError(28, "No space left on device")])
def test_failure_that_cannot_be_noted_does_not_replace_the_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noting: Exception
) -> None:
    def dies(_: object) -> None:
        raise Py4JNetworkError("gone")

    @contextmanager
    def live(*_: object, **__: object) -> Iterator[Any]:
        yield SimpleNamespace(query=SimpleNamespace(awaitTermination=dies, lastProgress=None), worker=None)

    def note(_: Path) -> None:
        raise noting

    monkeypatch.setattr(runner.pipeline, "start", live)
    monkeypatch.setattr(runner, "ran_out_of_memory", lambda: True)
    monkeypatch.setattr(runner.quarantine, "note_failure", note)
    settings = StreamSettings(checkpoint_dir=tmp_path / "checkpoint")
    with capture_logs() as said, pytest.raises(StreamError, match="ran out of memory"):
        runner.run(KAFKA, TOPICS, [], settings, [], threading.Event(), join_alone)
    assert [(line["log_level"], line["error"]) for line in said] == [("error", str(noting))]


def test_query_ends_when_the_lease_is_lost() -> None:
    lease = FakeStreamLease(is_held=True)

    def await_termination(_timeout_s: float) -> bool:
        lease.is_held = False
        return False

    query = SimpleNamespace(lastProgress=None, recentProgress=(), awaitTermination=await_termination)
    monitor = runner._QueryMonitor(threading.Event(), runner.ProgressListener(), lease, threading.Event())
    running: Any = SimpleNamespace(query=query, worker=None)
    monitor.until_end(running)
    assert not lease.is_held


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize("is_after_another", [True, False])
def test_take_over_is_tried_again_while_kafka_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_after_another: bool
) -> None:
    """Without another stream before it, this process has not reached Kafka yet, and ends."""
    stop, starts, causes = threading.Event(), list[bool](), list[str]()

    @contextmanager
    def start(*_: object, follows_another: bool, **__: object) -> Iterator[Any]:
        starts.append(follows_another)
        if len(starts) < 3:
            raise KafkaTimeoutError("rheostat.signals: no record came for 10 s")
        stop.set()
        yield SimpleNamespace(query=SimpleNamespace(lastProgress=None, recentProgress=()), worker=None)

    monkeypatch.setattr(runner.pipeline, "start", start)
    monkeypatch.setattr(runner, "_RESTART_S_MIN", 0.01)
    lease = FakeStreamLease(is_held=True, is_after_another=is_after_another)
    listener = runner.ProgressListener(restart=lambda cause, _in_s: causes.append(cause))
    settings = StreamSettings(checkpoint_dir=tmp_path / "checkpoint")
    refused = pytest.raises(StreamError, match="no record came for 10 s")
    ends: AbstractContextManager[Any] = nullcontext() if is_after_another else refused
    with ends:
        runner.run(KAFKA, TOPICS, [], settings, [], stop, lambda _: nullcontext(lease), listener)
    assert starts == ([True] * 3 if is_after_another else [False])
    assert len(causes) == len(starts) - 1
    assert all("no record came for 10 s" in cause for cause in causes)


@pytest.mark.usefixtures("no_spark")
def test_process_without_the_lock_of_a_remote_checkpoint_does_not_join(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def held(*_: object) -> Iterator[None]:
        raise StreamError("Another rheostat process uses the checkpoint")
        yield

    def join(_: str) -> AbstractContextManager[FakeStreamLease]:
        pytest.fail("it has joined the group")

    monkeypatch.setattr(runner.checkpoint_lock, "locked_by_jvm", held)
    settings = StreamSettings(checkpoint_dir=HadoopFolder("hdfs://a:1/checkpoint"))
    with pytest.raises(StreamError, match="Another rheostat process"):
        runner.run(KAFKA, TOPICS, [], settings, [], threading.Event(), join)


@pytest.mark.usefixtures("no_spark")
def test_process_that_is_stopped_while_it_waits_for_the_lock_ends_without_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @contextmanager
    def waits(_spark: object, _folder: object, _wait_s: object, stop: threading.Event) -> Iterator[None]:
        stop.set()
        yield

    def join(_: str) -> AbstractContextManager[FakeStreamLease]:
        pytest.fail("it has joined the group")

    monkeypatch.setattr(runner.checkpoint_lock, "locked_by_jvm", waits)
    settings = StreamSettings(checkpoint_dir=HadoopFolder("hdfs://a:1/checkpoint"))
    runner.run(KAFKA, TOPICS, [], settings, [], threading.Event(), join)
