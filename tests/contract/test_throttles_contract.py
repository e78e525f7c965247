"""What the tuner may expect of its throttle port: one suite, run on the fake and on a real cluster.

A test that holds on one subject only is a lie in the fake, or a surprise in Kafka; both are worth knowing.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import pytest
from fake_throttles import FakeThrottles
from kafka.protocol.admin import IncrementalAlterConfigsRequest

from rheostat.lab import Lab, LabSpec
from streaming import words
from streaming.contract import Side
from streaming.kafka.cluster import ClusterClient, ClusterError
from tuner.actuate.throttles import LIST_KEYS, RATE_KEYS, DryRunThrottles, KafkaThrottles, Throttles
from tuner.model.cluster import BrokerSide

TOPIC = "orders"
NOBODY = 77
LEADER_1: BrokerSide = (1, Side.LEADER)
FOLLOWER_1: BrokerSide = (1, Side.FOLLOWER)
LEADER_2: BrokerSide = (2, Side.LEADER)
FOLLOWER_2: BrokerSide = (2, Side.FOLLOWER)
ALL = (LEADER_1, FOLLOWER_1, LEADER_2, FOLLOWER_2)
VISIBLE_S_MAX = 10.0


class Subject(Protocol):
    """A throttle port, and somebody else's hands on the same cluster."""

    port: Throttles
    impatient: Throttles  # The same port, that gives up at once instead of within seconds.

    def set_default(self, side: Side, value: int | None) -> None: ...

    def set_lists(self, topic: str, sides: Iterable[Side]) -> None: ...

    def lists(self, topic: str) -> set[Side]: ...

    def clean(self) -> None: ...


@dataclass
class Fake:
    port: FakeThrottles = field(default_factory=lambda: FakeThrottles(brokers=(1, 2), lists={TOPIC: ()}))

    @property
    def impatient(self) -> FakeThrottles:
        return self.port

    def set_default(self, side: Side, value: int | None) -> None:
        if value is None:
            self.port.default_rates.pop(side, None)
        else:
            self.port.default_rates[side] = value

    def set_lists(self, topic: str, sides: Iterable[Side]) -> None:
        self.port.lists[topic] = set(sides)

    def lists(self, topic: str) -> set[Side]:
        return set(self.port.lists.get(topic, ()))

    def clean(self) -> None:
        pass


class Real:
    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self.port = KafkaThrottles(client)
        seconds = itertools.count()
        self.impatient = KafkaThrottles(client, monotonic=lambda: next(seconds) * 10.0, pause=lambda _: None)

    def set_default(self, side: Side, value: int | None) -> None:
        """kafka-python refuses the name of <default>, which is empty; the wire does not."""
        key = RATE_KEYS[side]
        operation = words.OP_DELETE if value is None else words.OP_SET
        change = [(key, operation, None if value is None else str(value))]
        answer: Any = self._client._one(
            "alter the default", IncrementalAlterConfigsRequest(resources=[(words.RESOURCE_BROKER, "", change)])
        )
        assert [r.error_code for r in answer.responses] == [words.ERROR_NONE]
        wanted = None if value is None else (str(value), words.SOURCE_DYNAMIC_DEFAULT_BROKER)
        deadline_s = time.monotonic() + VISIBLE_S_MAX
        while self._in_force(1, key) != wanted or self._in_force(2, key) != wanted:
            assert time.monotonic() < deadline_s, f"<default> {key} is not in force on both brokers"

    def _in_force(self, broker: int, key: str) -> tuple[str, int] | None:
        configs = self._client.broker_configs([broker], [key])[broker]
        assert not isinstance(configs, ClusterError), configs
        return (configs[key].value, configs[key].source) if key in configs else None

    def set_lists(self, topic: str, sides: Iterable[Side]) -> None:
        wanted = {side: "0:1" if side in set(sides) else None for side in Side}
        refused = self._client.alter_topic_configs({topic: {LIST_KEYS[s]: value for s, value in wanted.items()}})
        assert refused == {topic: None}
        deadline_s = time.monotonic() + VISIBLE_S_MAX
        while self.lists(topic) != set(sides):
            assert time.monotonic() < deadline_s, f"the lists of {topic} do not become {set(sides)}"

    def lists(self, topic: str) -> set[Side]:
        found = self._client.topic_configs([topic], LIST_KEYS.values()).get(topic, {})
        return {side for side, key in LIST_KEYS.items() if key in found}

    def clean(self) -> None:
        nothing: dict[BrokerSide, int | None] = dict.fromkeys(ALL)
        assert not any(self.port.write_rates(nothing).values())
        assert not any(self.port.confirm_rates(nothing).values())
        for side in Side:
            self.set_default(side, None)
        self.set_lists(TOPIC, ())


@pytest.fixture(scope="module")
def client() -> Iterator[ClusterClient]:
    with Lab(LabSpec(brokers=2)) as lab, ClusterClient(lab.kafka_settings(), "contract") as connected:
        connected.create_topic(TOPIC, 1, 2, {})
        deadline_s = time.monotonic() + VISIBLE_S_MAX
        while not connected.partitions([TOPIC]):
            assert time.monotonic() < deadline_s, f"topic {TOPIC} does not appear"
        yield connected


@pytest.fixture(params=["fake", "kafka"])
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    made: Subject = Fake() if request.param == "fake" else Real(request.getfixturevalue("client"))
    yield made
    made.clean()


def put(subject: Subject, rates: dict[BrokerSide, int | None]) -> None:
    """Written, and seen to stand there."""
    assert subject.port.write_rates(rates) == dict.fromkeys(rates)
    assert subject.port.confirm_rates(rates) == dict.fromkeys(rates)


def test_nothing_stands_on_a_side_that_nobody_set(subject: Subject) -> None:
    assert subject.port.read_rates(ALL) == dict.fromkeys(ALL)


def test_what_was_set_is_read(subject: Subject) -> None:
    put(subject, {LEADER_1: 5_000_000})
    assert subject.port.read_rates([LEADER_1]) == {LEADER_1: 5_000_000}


def test_one_side_does_not_touch_the_other_nor_another_broker(subject: Subject) -> None:
    put(subject, {LEADER_1: 5_000_000, FOLLOWER_1: 6_000_000, LEADER_2: 7_000_000})
    put(subject, {LEADER_1: 8_000_000})
    assert subject.port.read_rates(ALL) == {
        LEADER_1: 8_000_000,
        FOLLOWER_1: 6_000_000,
        LEADER_2: 7_000_000,
        FOLLOWER_2: None,
    }


def test_set_and_remove_go_in_one_call(subject: Subject) -> None:
    put(subject, {LEADER_1: 5_000_000, LEADER_2: 5_000_000})
    put(subject, {LEADER_1: None, FOLLOWER_1: 9_000_000, LEADER_2: 6_000_000})
    assert subject.port.read_rates(ALL) == {
        LEADER_1: None,
        FOLLOWER_1: 9_000_000,
        LEADER_2: 6_000_000,
        FOLLOWER_2: None,
    }


def test_to_remove_what_is_not_there_is_no_failure(subject: Subject) -> None:
    put(subject, {LEADER_1: None})
    assert subject.port.read_rates([LEADER_1]) == {LEADER_1: None}


def test_a_rate_of_zero_is_a_rate(subject: Subject) -> None:
    put(subject, {FOLLOWER_1: 0})
    assert subject.port.read_rates([FOLLOWER_1]) == {FOLLOWER_1: 0}


def test_a_refused_value_is_a_failure_and_changes_nothing(subject: Subject) -> None:
    put(subject, {LEADER_1: 5_000_000})
    failures = subject.port.write_rates({LEADER_1: -1})
    assert "Value must be at least 0" in (failures[LEADER_1] or "")
    assert subject.port.read_rates([LEADER_1]) == {LEADER_1: 5_000_000}


def test_a_refused_value_takes_the_other_side_of_its_broker_with_it_but_no_other_broker(subject: Subject) -> None:
    failures = subject.port.write_rates({LEADER_1: -1, FOLLOWER_1: 5_000_000, LEADER_2: 6_000_000})
    assert {side for side, failure in failures.items() if failure is not None} == {LEADER_1, FOLLOWER_1}
    assert subject.port.confirm_rates({LEADER_2: 6_000_000}) == {LEADER_2: None}
    assert subject.port.read_rates([LEADER_1, FOLLOWER_1]) == {LEADER_1: None, FOLLOWER_1: None}


def test_an_unknown_broker_is_its_own_failure_and_nobody_elses(subject: Subject) -> None:
    nobody: BrokerSide = (NOBODY, Side.LEADER)
    failures = subject.port.write_rates({nobody: 5_000_000, LEADER_1: 5_000_000})
    assert failures[nobody] is not None
    assert failures[LEADER_1] is None
    assert subject.port.confirm_rates({LEADER_1: 5_000_000}) == {LEADER_1: None}


def test_what_stands_on_an_unknown_broker_is_not_known_rather_than_nothing(subject: Subject) -> None:
    nobody: BrokerSide = (NOBODY, Side.LEADER)
    put(subject, {LEADER_1: 5_000_000})
    found = subject.port.read_rates([nobody, LEADER_1])
    assert isinstance(found[nobody], ClusterError)
    assert found[LEADER_1] == 5_000_000


def test_confirm_says_what_stands_there_instead(subject: Subject) -> None:
    put(subject, {LEADER_1: 5_000_000, LEADER_2: 6_000_000})
    failures = subject.impatient.confirm_rates({LEADER_1: 7_000_000, LEADER_2: 6_000_000})
    assert failures == {LEADER_1: "7000000 was written, 5000000 stands there", LEADER_2: None}


def test_confirm_of_a_removal_says_what_still_stands(subject: Subject) -> None:
    put(subject, {LEADER_1: 5_000_000})
    assert subject.impatient.confirm_rates({LEADER_1: None}) == {LEADER_1: "None was written, 5000000 stands there"}


def test_confirm_on_an_unknown_broker_fails(subject: Subject) -> None:
    nobody: BrokerSide = (NOBODY, Side.LEADER)
    assert subject.impatient.confirm_rates({nobody: None})[nobody] is not None


def test_an_inherited_rate_is_not_set_on_the_broker(subject: Subject) -> None:
    """It comes from <default>: what is read here is what the broker itself carries, which a removal takes back to."""
    subject.set_default(Side.LEADER, 4_000_000)
    assert subject.port.read_rates([LEADER_1, LEADER_2]) == {LEADER_1: None, LEADER_2: None}


def test_an_own_rate_hides_the_inherited_one_and_goes_alone(subject: Subject) -> None:
    subject.set_default(Side.LEADER, 4_000_000)
    put(subject, {LEADER_1: 5_000_000})
    assert subject.port.read_rates([LEADER_1]) == {LEADER_1: 5_000_000}
    put(subject, {LEADER_1: None})
    assert subject.port.read_rates([LEADER_1]) == {LEADER_1: None}


def test_nothing_asked_is_nothing_answered(subject: Subject) -> None:
    assert subject.port.read_rates([]) == {}
    assert subject.port.write_rates({}) == {}
    assert subject.port.confirm_rates({}) == {}


def test_both_lists_are_cleared(subject: Subject) -> None:
    subject.set_lists(TOPIC, Side)
    assert subject.port.clear_lists(TOPIC, tuple(Side)) is None
    assert subject.lists(TOPIC) == set()


@pytest.mark.parametrize("side", Side)
def test_one_list_is_cleared_and_the_other_stays(subject: Subject, side: Side) -> None:
    subject.set_lists(TOPIC, Side)
    assert subject.port.clear_lists(TOPIC, (side,)) is None
    assert subject.lists(TOPIC) == set(Side) - {side}


def test_to_clear_lists_that_are_absent_is_no_failure(subject: Subject) -> None:
    subject.set_lists(TOPIC, (Side.LEADER,))
    assert subject.port.clear_lists(TOPIC, tuple(Side)) is None
    assert subject.port.clear_lists(TOPIC, tuple(Side)) is None
    assert subject.lists(TOPIC) == set()


def test_to_clear_the_lists_of_a_topic_that_is_not_there_fails(subject: Subject) -> None:
    assert subject.port.clear_lists("nothing-of-that-name", tuple(Side)) is not None


def test_a_dry_run_reads_the_real_thing_and_writes_nothing(subject: Subject) -> None:
    put(subject, {LEADER_1: 5_000_000})
    subject.set_lists(TOPIC, Side)
    dry = DryRunThrottles(subject.port)
    assert dry.write_rates({LEADER_1: 9_000_000, FOLLOWER_1: None}) == {LEADER_1: None, FOLLOWER_1: None}
    assert dry.confirm_rates({LEADER_1: 9_000_000}) == {LEADER_1: None}
    assert dry.clear_lists(TOPIC, tuple(Side)) is None
    assert dry.read_rates([LEADER_1]) == {LEADER_1: 5_000_000}
    assert subject.lists(TOPIC) == set(Side)
