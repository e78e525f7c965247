"""The CreateTopicPolicy in a JVM of its own: limits files that cannot be used, headroom between two counts, and the time of a check."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lab_parts import until

from rheostat.jvm.artifacts import Artifacts, resolve_artifacts
from rheostat.jvm.compiled_jar import JavaSources, compiled_jar
from rheostat.jvm.java import find_java
from rheostat.limits.policy.export import IMPORTED_JARS, policy_jar
from rheostat.limits.policy.limits_file import render_limits_file
from tuner.core.partition_limits import PartitionCounts, PartitionLimits

ANSWER_S_MAX = 30.0
CHECK_MICROS_MAX = 1_000
FIRST_CHECK_MICROS_MAX = 3_000  # Once in the life of a controller.
EXAMPLE = PartitionCounts({1: 8, 2: 6, 3: 9})


class PolicyProcess:
    """A JVM that calls the policy; see PolicyCalls.java."""

    def __init__(self, class_path: list[Path], limits_file: Path | None) -> None:
        command = [
            str(find_java().executable),
            "-Xmx256m",
            "-cp",
            ":".join(map(str, class_path)),
            "rheostat.policy.PolicyCalls",
        ]
        self._process = subprocess.Popen(
            [*command, *([str(limits_file)] if limits_file is not None else [])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip

    def ask(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().rstrip("\n")

    def wait_for(self, state: str) -> None:
        until(lambda: state in self.ask("state"), ANSWER_S_MAX, lambda: f"{state!r} in {self.ask('state')!r}")

    def close(self) -> None:
        self._process.kill()
        self._process.wait(timeout=10)


Start = Callable[[Path | None], PolicyProcess]


@pytest.fixture(scope="module")
def artifacts() -> Artifacts:
    return resolve_artifacts()


@pytest.fixture(scope="module")
def start(artifacts: Artifacts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    folder = tmp_path_factory.mktemp("calls")
    (folder / "PolicyCalls.java").write_text(Path(__file__).with_name("PolicyCalls.java").read_text())
    jar = policy_jar(artifacts)
    calls = compiled_jar(
        JavaSources("policy-calls", "the calls of the policy", folder, [jar, *artifacts.kafka_jars], 11, jar.name),
        artifacts,
    )
    started: list[PolicyProcess] = []

    def start_process(limits_file: Path | None) -> PolicyProcess:
        # Without an implementation of the log, standard output has only answers.
        imported = [j for j in artifacts.kafka_jars if j.name.startswith(IMPORTED_JARS)]
        started.append(PolicyProcess([calls, jar, *imported], limits_file))
        return started[-1]

    yield start_process
    for process in started:
        process.close()


@pytest.fixture(scope="module")
def parser(start: Start) -> PolicyProcess:
    return start(None)


def text_of(limits: PartitionLimits, counts: PartitionCounts = EXAMPLE, *, age_s: float = 0.0) -> str:
    return render_limits_file(counts, counts.by_broker, limits, round(1000 * (time.time() - age_s)), usable_for_s=300)


# -- the file --------------------------------------------------------------------------------------------------------------


def test_half_written_limits_file_is_unusable_at_each_length(parser: PolicyProcess, tmp_path: Path) -> None:
    file = tmp_path / "limits.properties"
    whole = text_of(PartitionLimits(10, 2**62 - 1, {2: 7}))
    file.write_text(whole)
    assert parser.ask(f"parse {file}") == "ok"
    for length in range(len(whole) - 1):  # Without the last line break nothing is missing.
        file.write_text(whole[:length])
        assert "complete=true is missing" in parser.ask(f"parse {file}"), whole[:length]


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("max.broker.partitions=10", "max.broker.partitions=-1", "max.broker.partitions: expected a number from 0 to 2^63-1, found -1"),
        ("max.broker.partitions=10", "max.broker.partitions=9223372036854775808", "found 9223372036854775808"),
        ("max.broker.partitions=10", "max.broker.partitions=many", "found many"),
        ("max.partitions=30", "max.partitions=", "max.partitions: expected a number"),
        ("partitions.1=8", "partitions.one=8", "partitions.one: expected a broker id after the last dot, found one"),
        ("partitions.1=8", "partitions.-1=8", "found -1"),
        ("partitions.1=8\npartitions.2=6\npartitions.3=9\n", "", "it has no broker"),
        ("partitions=23\n", "", "partitions: expected a number from 0 to 2^63-1, found nothing"),
        ("format=1", "format=2", "format: expected 1, found 2"),
        ("usable.for.s=300", "usable.for.s=86400", "usable.for.s: expected at most 3600, found 86400"),
        ("exempt.topics", "exempt\\u12", "it is not a properties file"),
    ],
)  # fmt: skip
def test_limits_file_with_absurd_value_names_it(
    parser: PolicyProcess, tmp_path: Path, before: str, after: str, reason: str
) -> None:
    whole = text_of(PartitionLimits(10, 30))
    assert before in whole
    file = tmp_path / "limits.properties"
    file.write_text(whole.replace(before, after, 1))
    assert reason in parser.ask(f"parse {file}")


def test_policy_without_file_setting_allows_each_topic(start: Start) -> None:
    policy = start(None)
    assert policy.ask("topic 100000 3") == "unchecked"
    assert "rheostat.policy.limits.file names no file" in policy.ask("state")
    assert policy.ask("figures") == "0 0 1"


def test_policy_fails_open_until_the_file_is_usable_again(start: Start, tmp_path: Path) -> None:
    file, limits = tmp_path / "limits.properties", PartitionLimits(10)
    policy = start(file)
    policy.wait_for("it does not exist")
    assert policy.ask("topic 2 3") == "unchecked"
    file.write_text(text_of(limits, age_s=4 * 3600))
    policy.wait_for("its counts are 14")
    assert policy.ask("topic 2 3") == "unchecked"
    file.write_text(text_of(limits, age_s=-3600))
    policy.wait_for("from the future")
    assert policy.ask("topic 2 3") == "unchecked"
    file.write_text(text_of(limits))
    policy.wait_for("ok")
    assert "need room for 6 replicas" in policy.ask("topic 2 3")
    file.write_text(text_of(limits)[:100])
    policy.wait_for("complete=true is missing")
    assert policy.ask("topic 2 3") == "unchecked"
    file.unlink()
    file.mkdir()
    policy.wait_for("it cannot be read")
    assert policy.ask("topic 2 3") == "unchecked"
    assert policy.ask("figures") == "1 0 5"


# -- the check -------------------------------------------------------------------------------------------------------------


def test_topics_between_two_counts_share_the_headroom(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "limits.properties"
    file.write_text(text_of(PartitionLimits(10, 30)))
    policy = start(file)
    policy.wait_for("ok")
    assert policy.ask("first 1 3") == "allowed"  # 9, 7 and 10.
    assert "topics with 3 were allowed since" in policy.ask("second 1 3")
    assert policy.ask("third 1 2") == "allowed"
    assert policy.ask("placed 2;2") == "allowed"
    refusal = policy.ask("placed 1")
    assert "Each broker has room" in refusal or "Broker 1" in refusal
    assert "max.partitions=30" in refusal
    assert policy.ask("__consumer_offsets 50 3") == "allowed"
    file.write_text(text_of(PartitionLimits(10, 40), PartitionCounts({1: 9, 2: 9, 3: 10}), age_s=-5))
    until(lambda: policy.ask("later 1 1") == "allowed", ANSWER_S_MAX, "the newer count includes the earlier topics")
    assert "Broker 3 is to get 1 and can take 0 (1: 9 of 10, 2: 9 of 10, 3: 10 of 10)" in policy.ask("onto-3 1,3")


def test_request_that_the_policy_cannot_judge_is_allowed(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "limits.properties"
    file.write_text(text_of(PartitionLimits(10)))
    policy = start(file)
    policy.wait_for("ok")
    assert policy.ask("new-broker 4,5") == "unchecked"
    assert policy.ask("too-many-replicas 1 4") == "unchecked"
    assert policy.ask("no-partitions 0 1") == "unchecked"
    assert policy.ask("null-broker 1,null") == "unchecked"
    assert "a check failed" in policy.ask("state")
    assert "Broker 1 is to get 3 and can take 2" in policy.ask("too-many 1,4;1,4;1,4")


def test_check_takes_less_than_a_millisecond(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "limits.properties"
    brokers = PartitionCounts(dict.fromkeys(range(1, 1001), 3_000))
    file.write_text(text_of(PartitionLimits(2**61, 2**62), brokers))
    policy = start(file)
    policy.wait_for("ok")
    for partitions in (1, 100, 10_000):  # Kafka accepts at most 10,000 in one request.
        # The shortest of some runs: other processes of the machine take the processor, and evict its caches.
        runs: list[list[int]] = []

        def is_short(partitions: int = partitions, runs: list[list[int]] = runs) -> bool:
            runs.append(list(map(int, policy.ask(f"time 1000 {partitions}").split())))
            placed_first, placed_p50, placed_p99, first, p50, p99 = map(min, zip(*runs, strict=True))
            is_first_short = max(placed_first, first) < FIRST_CHECK_MICROS_MAX
            return is_first_short and max(placed_p50, placed_p99, p50, p99) < CHECK_MICROS_MAX

        until(is_short, 30, lambda runs=runs: f"checks of {CHECK_MICROS_MAX} µs at most: {runs}")
