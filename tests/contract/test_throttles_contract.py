"""The contract of the tuner's throttle port: one suite for the fake and for a real cluster.

A test that passes with one of them only shows a wrong fake or unexpected behaviour of Kafka.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import pytest
from fake_throttles import FakeThrottles
from kafka.protocol.admin import DescribeConfigsRequest, IncrementalAlterConfigsRequest

from rheostat.lab.cluster import Lab, LabSpec
from streaming.shared import kafka_names
from streaming.shared.contract import Side
from streaming.shared.kafka.answers import read_configs
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.kafka.values import TopicCreation
from streaming.shared.throttle_settings import (
    LIST_KEYS,
    RATE_KEYS,
    Pair,
    ThrottledReplicas,
    TopicThrottle,
)
from tuner.core.cluster import BrokerSide
from tuner.runtime.throttle.actuator import (
    DryRunThrottles,
    GuardedThrottles,
    KafkaThrottles,
    Throttles,
)

TOPIC = "orders"
OTHER = "payments"
NO_TOPIC = "nothing-of-that-name"
NOBODY = 77
LEADER_1: BrokerSide = (1, Side.LEADER)
FOLLOWER_1: BrokerSide = (1, Side.FOLLOWER)
LEADER_2: BrokerSide = (2, Side.LEADER)
FOLLOWER_2: BrokerSide = (2, Side.FOLLOWER)
ALL = (LEADER_1, FOLLOWER_1, LEADER_2, FOLLOWER_2)
VISIBLE_S_MAX = 60.0


class Subject(Protocol):
    """A throttle port, and another client that changes the same cluster."""

    port: GuardedThrottles
    impatient: Throttles  # The same port, that gives up at once instead of within seconds.

    def set_default(self, side: Side, value: int | None) -> None: ...

    def set_lists(self, topic: str, sides: Iterable[Side]) -> None: ...

    def lists(self, topic: str) -> set[Side]: ...

    def set_pairs(self, throttle: TopicThrottle) -> None:
        """Another client sets these lists on TOPIC."""

    def pairs(self, topic: str) -> TopicThrottle: ...

    def clean(self) -> None: ...


@dataclass
class Fake:
    port: FakeThrottles = field(
        default_factory=lambda: FakeThrottles(brokers=(1, 2), lists={TOPIC: TopicThrottle(), OTHER: TopicThrottle()})
    )

    @property
    def impatient(self) -> FakeThrottles:
        return self.port

    def set_default(self, side: Side, value: int | None) -> None:
        if value is None:
            self.port.default_rates.pop(side, None)
        else:
            self.port.default_rates[side] = value

    def set_lists(self, topic: str, sides: Iterable[Side]) -> None:
        some = ThrottledReplicas(pairs=frozenset({(0, 1)}))
        self.port.lists[topic] = TopicThrottle(*(some if side in set(sides) else ThrottledReplicas() for side in Side))

    def lists(self, topic: str) -> set[Side]:
        stands = self.port.lists.get(topic, TopicThrottle())
        return {side for side in Side if stands.for_side(side)}

    def set_pairs(self, throttle: TopicThrottle) -> None:
        self.port.lists[TOPIC] = throttle

    def pairs(self, topic: str) -> TopicThrottle:
        return self.port.lists[topic]

    def clean(self) -> None:
        pass


class Real:
    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self.port = KafkaThrottles(client)
        seconds = itertools.count()
        self.impatient = KafkaThrottles(client, monotonic=lambda: next(seconds) * 10.0, pause=lambda _: None)

    def set_default(self, side: Side, value: int | None) -> None:
        """kafka-python refuses the empty name of <default>; the protocol accepts it."""
        key = RATE_KEYS[side]
        operation = kafka_names.OP_DELETE if value is None else kafka_names.OP_SET
        change = [(key, operation, None if value is None else str(value))]
        answer: Any = self._client._connection.send_any(
            "alter the default", IncrementalAlterConfigsRequest(resources=[(kafka_names.RESOURCE_BROKER, "", change)])
        )
        assert [r.error_code for r in answer.responses] == [kafka_names.ERROR_NONE]
        wanted = None if value is None else (str(value), kafka_names.SOURCE_DYNAMIC_DEFAULT_BROKER)
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

    def set_pairs(self, throttle: TopicThrottle) -> None:
        wanted = {LIST_KEYS[side]: throttle.for_side(side).to_text() or None for side in Side}
        assert self._client.alter_topic_configs({TOPIC: wanted}) == {TOPIC: None}
        deadline_s = time.monotonic() + VISIBLE_S_MAX
        while self._pairs_by_broker() != {1: throttle, 2: throttle}:
            assert time.monotonic() < deadline_s, f"the lists of {TOPIC} do not become {throttle}"

    def _pairs_by_broker(self) -> dict[int, TopicThrottle]:
        """Returns the lists of TOPIC as each broker shows them: the port asks any of the two, and one may be late."""
        request = DescribeConfigsRequest(
            resources=[(kafka_names.RESOURCE_TOPIC, TOPIC, list(LIST_KEYS.values()))], include_synonyms=False
        )
        answers = self._client._connection.send_each("describe topic configs", {1: request, 2: request})
        return {
            broker: TopicThrottle.from_configs(
                {key: config.value for key, config in read_configs(answer, "a right")[TOPIC].items()}
            )
            for broker, answer in answers.items()
        }

    def pairs(self, topic: str) -> TopicThrottle:
        return TopicThrottle.from_configs(self._client.topic_configs([topic], LIST_KEYS.values()).get(topic, {}))

    def clean(self) -> None:
        nothing: dict[BrokerSide, int | None] = dict.fromkeys(ALL)
        assert not any(self.port.write_rates(nothing).values())
        assert not any(self.port.confirm_rates(nothing).values())
        for side in Side:
            self.set_default(side, None)
        self.set_lists(TOPIC, ())
        self.set_lists(OTHER, ())


@pytest.fixture(scope="module")
def client() -> Iterator[ClusterClient]:
    with Lab(LabSpec(brokers=2)) as lab, ClusterClient(lab.kafka_settings(), "contract") as connected:
        for topic in (TOPIC, OTHER):
            connected.create_topics([TopicCreation(topic, 1, 2, {})])
        deadline_s = time.monotonic() + VISIBLE_S_MAX
        while len(connected.partitions([TOPIC, OTHER])) < 2:
            assert time.monotonic() < deadline_s, f"topic {TOPIC} does not appear"
        yield connected


@pytest.fixture(params=["fake", "kafka"])
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    made: Subject = Fake() if request.param == "fake" else Real(request.getfixturevalue("client"))
    yield made
    made.clean()


def put(subject: Subject, rates: dict[BrokerSide, int | None]) -> None:
    """Writes the rates and waits until they are read."""
    assert subject.port.write_rates(rates) == dict.fromkeys(rates)
    assert subject.port.confirm_rates(rates) == dict.fromkeys(rates)


def test_unset_side_reads_as_no_throttle(subject: Subject) -> None:
    assert subject.port.read_rates(ALL) == dict.fromkeys(ALL)


def test_written_throttle_is_read(subject: Subject) -> None:
    put(subject, {LEADER_1: 5_000_000})
    assert subject.port.read_rates([LEADER_1]) == {LEADER_1: 5_000_000}


def test_write_of_one_side_leaves_other_sides_unchanged(subject: Subject) -> None:
    put(subject, {LEADER_1: 5_000_000, FOLLOWER_1: 6_000_000, LEADER_2: 7_000_000})
    put(subject, {LEADER_1: 8_000_000})
    assert subject.port.read_rates(ALL) == {
        LEADER_1: 8_000_000,
        FOLLOWER_1: 6_000_000,
        LEADER_2: 7_000_000,
        FOLLOWER_2: None,
    }


def test_one_write_sets_and_removes_throttles(subject: Subject) -> None:
    put(subject, {LEADER_1: 5_000_000, LEADER_2: 5_000_000})
    put(subject, {LEADER_1: None, FOLLOWER_1: 9_000_000, LEADER_2: 6_000_000})
    assert subject.port.read_rates(ALL) == {
        LEADER_1: None,
        FOLLOWER_1: 9_000_000,
        LEADER_2: 6_000_000,
        FOLLOWER_2: None,
    }


def test_removal_of_absent_throttle_succeeds(subject: Subject) -> None:
    put(subject, {LEADER_1: None})
    assert subject.port.read_rates([LEADER_1]) == {LEADER_1: None}


def test_rate_of_zero_is_stored(subject: Subject) -> None:
    put(subject, {FOLLOWER_1: 0})
    assert subject.port.read_rates([FOLLOWER_1]) == {FOLLOWER_1: 0}


def test_refused_value_fails_and_changes_nothing(subject: Subject) -> None:
    put(subject, {LEADER_1: 5_000_000})
    failures = subject.port.write_rates({LEADER_1: -1})
    assert "Value must be at least 0" in (failures[LEADER_1] or "")
    assert subject.port.read_rates([LEADER_1]) == {LEADER_1: 5_000_000}


def test_refused_value_fails_both_sides_of_its_broker_only(subject: Subject) -> None:
    failures = subject.port.write_rates({LEADER_1: -1, FOLLOWER_1: 5_000_000, LEADER_2: 6_000_000})
    assert {side for side, failure in failures.items() if failure is not None} == {LEADER_1, FOLLOWER_1}
    assert subject.port.confirm_rates({LEADER_2: 6_000_000}) == {LEADER_2: None}
    assert subject.port.read_rates([LEADER_1, FOLLOWER_1]) == {LEADER_1: None, FOLLOWER_1: None}


def test_unknown_broker_fails_alone(subject: Subject) -> None:
    nobody: BrokerSide = (NOBODY, Side.LEADER)
    failures = subject.port.write_rates({nobody: 5_000_000, LEADER_1: 5_000_000})
    assert failures[nobody] is not None
    assert failures[LEADER_1] is None
    assert subject.port.confirm_rates({LEADER_1: 5_000_000}) == {LEADER_1: None}


def test_throttle_of_unknown_broker_is_unknown_not_absent(subject: Subject) -> None:
    nobody: BrokerSide = (NOBODY, Side.LEADER)
    put(subject, {LEADER_1: 5_000_000})
    found = subject.port.read_rates([nobody, LEADER_1])
    assert isinstance(found[nobody], ClusterError)
    assert found[LEADER_1] == 5_000_000


def test_confirm_reports_the_differing_value(subject: Subject) -> None:
    put(subject, {LEADER_1: 5_000_000, LEADER_2: 6_000_000})
    failures = subject.impatient.confirm_rates({LEADER_1: 7_000_000, LEADER_2: 6_000_000})
    assert failures == {LEADER_1: "7000000 was written, but the broker has 5000000", LEADER_2: None}


def test_confirm_of_removal_reports_the_remaining_value(subject: Subject) -> None:
    put(subject, {LEADER_1: 5_000_000})
    assert subject.impatient.confirm_rates({LEADER_1: None}) == {
        LEADER_1: "None was written, but the broker has 5000000"
    }


def test_confirm_on_an_unknown_broker_fails(subject: Subject) -> None:
    nobody: BrokerSide = (NOBODY, Side.LEADER)
    assert subject.impatient.confirm_rates({nobody: None})[nobody] is not None


def test_inherited_default_rate_reads_as_no_throttle(subject: Subject) -> None:
    """Only the broker's own setting is read: after a removal the default applies again."""
    subject.set_default(Side.LEADER, 4_000_000)
    assert subject.port.read_rates([LEADER_1, LEADER_2]) == {LEADER_1: None, LEADER_2: None}


def test_own_rate_overrides_default_and_is_removed_alone(subject: Subject) -> None:
    subject.set_default(Side.LEADER, 4_000_000)
    put(subject, {LEADER_1: 5_000_000})
    assert subject.port.read_rates([LEADER_1]) == {LEADER_1: 5_000_000}
    put(subject, {LEADER_1: None})
    assert subject.port.read_rates([LEADER_1]) == {LEADER_1: None}


def test_calls_without_sides_return_nothing(subject: Subject) -> None:
    assert subject.port.read_rates([]) == {}
    assert subject.port.write_rates({}) == {}
    assert subject.port.confirm_rates({}) == {}


def test_both_lists_are_cleared(subject: Subject) -> None:
    subject.set_lists(TOPIC, Side)
    assert subject.port.clear_lists(TOPIC, tuple(Side)) is None
    assert_stands(subject.lists, TOPIC, set())


@pytest.mark.parametrize("side", Side)
def test_clearing_one_list_keeps_the_other(subject: Subject, side: Side) -> None:
    subject.set_lists(TOPIC, Side)
    assert subject.port.clear_lists(TOPIC, (side,)) is None
    assert_stands(subject.lists, TOPIC, set(Side) - {side})


def test_clearing_absent_lists_succeeds(subject: Subject) -> None:
    subject.set_lists(TOPIC, (Side.LEADER,))
    assert subject.port.clear_lists(TOPIC, tuple(Side)) is None
    assert subject.port.clear_lists(TOPIC, tuple(Side)) is None
    assert_stands(subject.lists, TOPIC, set())


def test_clearing_lists_of_absent_topic_fails(subject: Subject) -> None:
    assert subject.port.clear_lists("nothing-of-that-name", tuple(Side)) is not None


def test_dry_run_reads_throttles_and_writes_none(subject: Subject) -> None:
    put(subject, {LEADER_1: 5_000_000})
    subject.set_lists(TOPIC, Side)
    dry = DryRunThrottles(subject.port)
    assert dry.write_rates({LEADER_1: 9_000_000, FOLLOWER_1: None}) == {LEADER_1: None, FOLLOWER_1: None}
    assert dry.confirm_rates({LEADER_1: 9_000_000}) == {LEADER_1: None}
    assert dry.clear_lists(TOPIC, tuple(Side)) is None
    assert dry.read_rates([LEADER_1]) == {LEADER_1: 5_000_000}
    assert_stands(subject.lists, TOPIC, set(Side))
    assert dry.add_pairs({TOPIC: listing([(7, 1)])}) == {TOPIC: None}
    assert dry.remove_pairs({TOPIC: listing([(0, 1)])}) == {TOPIC: None}
    assert_stands(subject.pairs, TOPIC, listing([(0, 1)], [(0, 1)]))


# -- pairs on lists -----------------------------------------------------------------------------------------------------


def assert_stands(read: Callable[[str], Any], topic: str, wanted: Any) -> None:
    """Waits for the value, because a broker may show the earlier one for a moment."""
    deadline_s = time.monotonic() + VISIBLE_S_MAX
    while (found := read(topic)) != wanted and time.monotonic() < deadline_s:
        pass
    assert found == wanted


def listing(leader: Iterable[Pair] = (), follower: Iterable[Pair] = ()) -> TopicThrottle:
    return TopicThrottle(
        ThrottledReplicas(pairs=frozenset(leader)),
        ThrottledReplicas(pairs=frozenset(follower)),
    )


STAR = ThrottledReplicas(all_replicas=True)


def test_added_pairs_create_a_missing_list(subject: Subject) -> None:
    assert subject.port.add_pairs({TOPIC: listing([(0, 1), (0, 2)], [(0, 3)])}) == {TOPIC: None}
    assert_stands(subject.pairs, TOPIC, listing([(0, 1), (0, 2)], [(0, 3)]))


def test_added_pairs_join_the_list_without_duplicates(subject: Subject) -> None:
    subject.set_pairs(listing([(0, 1), (7, 7)]))
    assert subject.port.add_pairs({TOPIC: listing([(0, 1), (0, 2)])}) == {TOPIC: None}
    assert_stands(subject.pairs, TOPIC, listing([(0, 1), (0, 2), (7, 7)]))
    assert subject.port.add_pairs({TOPIC: listing([(0, 1), (0, 2)])}) == {TOPIC: None}
    assert_stands(subject.pairs, TOPIC, listing([(0, 1), (0, 2), (7, 7)]))


def test_removal_takes_only_the_given_pairs(subject: Subject) -> None:
    subject.set_pairs(listing([(0, 1), (0, 2), (7, 7)], [(0, 3)]))
    assert subject.port.remove_pairs({TOPIC: listing([(0, 1), (0, 2), (9, 9)])}) == {TOPIC: None}
    assert_stands(subject.pairs, TOPIC, listing([(7, 7)], [(0, 3)]))


def test_removal_of_last_pair_removes_the_list(subject: Subject) -> None:
    subject.set_pairs(listing([(0, 1)], [(0, 3)]))
    assert subject.port.remove_pairs({TOPIC: listing([(0, 1)], [(0, 3)])}) == {TOPIC: None}
    assert_stands(subject.lists, TOPIC, set())


def test_removal_of_absent_pair_creates_no_list(subject: Subject) -> None:
    assert subject.port.remove_pairs({TOPIC: listing([(0, 1)], [(0, 3)])}) == {TOPIC: None}
    assert_stands(subject.lists, TOPIC, set())


def test_wildcard_list_stays_unchanged(subject: Subject) -> None:
    subject.set_pairs(TopicThrottle(STAR, ThrottledReplicas(pairs=frozenset({(0, 3)}))))
    assert subject.port.add_pairs({TOPIC: listing([(0, 1)], [(0, 4)])}) == {TOPIC: None}
    assert subject.port.remove_pairs({TOPIC: listing([(0, 1)], [(0, 4)])}) == {TOPIC: None}
    assert_stands(subject.pairs, TOPIC, TopicThrottle(STAR, ThrottledReplicas(pairs=frozenset({(0, 3)}))))


def test_list_replaced_by_wildcard_meanwhile_counts_as_containing_pairs(subject: Subject) -> None:
    """Kafka refuses to add pairs to "*", and a broker may still show the list that "*" replaced."""
    star = TopicThrottle(STAR, ThrottledReplicas(pairs=frozenset({(0, 3)})))
    port = subject.port.guarded(lambda: subject.set_pairs(star))
    assert port.add_pairs({TOPIC: listing([(0, 1)], [(0, 4)])}) == {TOPIC: None}
    assert_stands(subject.pairs, TOPIC, TopicThrottle(STAR, ThrottledReplicas(pairs=frozenset({(0, 3), (0, 4)}))))


def test_absent_topic_of_two_fails_alone(subject: Subject) -> None:
    failures = subject.port.add_pairs({TOPIC: listing([(0, 1)]), NO_TOPIC: listing([(0, 1)]), OTHER: listing([(0, 2)])})
    assert {topic for topic, failure in failures.items() if failure is not None} == {NO_TOPIC}
    assert "does not exist" in (failures[NO_TOPIC] or "")
    assert_stands(subject.pairs, TOPIC, listing([(0, 1)]))
    assert_stands(subject.pairs, OTHER, listing([(0, 2)]))


def test_removal_of_pairs_of_deleted_topic_succeeds(subject: Subject) -> None:
    subject.set_pairs(listing([(0, 1)]))
    pairs = {NO_TOPIC: listing([(0, 1)]), TOPIC: listing([(0, 1)])}
    assert subject.port.remove_pairs(pairs) == {NO_TOPIC: None, TOPIC: None}
    assert_stands(subject.lists, TOPIC, set())


def test_list_longer_than_kafkas_limit_is_refused(subject: Subject) -> None:
    """Kafka's limit is 32,767 characters: 4,000 of these pairs fit, 7,000 do not."""
    some = [(partition, 1 + partition % 9) for partition in range(4000)]
    assert subject.port.add_pairs({TOPIC: listing(some)}) == {TOPIC: None}
    assert_stands(subject.pairs, TOPIC, listing(some))
    more = [(partition, 1) for partition in range(4000, 7000)]
    [failure] = subject.port.add_pairs({TOPIC: listing(more)}).values()
    assert "exceeds the maximum value size of 32767 bytes" in (failure or "")
    assert_stands(subject.pairs, TOPIC, listing(some))
    assert subject.port.remove_pairs({TOPIC: listing(some[:3000])}) == {TOPIC: None}
    assert subject.port.add_pairs({TOPIC: listing(more)}) == {TOPIC: None}
    assert_stands(subject.pairs, TOPIC, listing(some[3000:] + more))


def test_guard_that_refuses_prevents_every_list_write(subject: Subject) -> None:
    subject.set_pairs(listing([(0, 1)]))
    port = subject.port.guarded(lambda: "not now")
    assert port.add_pairs({TOPIC: listing([(0, 2)])}) == {TOPIC: "not now"}
    assert port.remove_pairs({TOPIC: listing([(0, 1)])}) == {TOPIC: "not now"}
    assert_stands(subject.pairs, TOPIC, listing([(0, 1)]))
    assert subject.port.add_pairs({TOPIC: listing([(0, 2)])}) == {TOPIC: None}


def test_adding_no_pairs_changes_nothing(subject: Subject) -> None:
    assert subject.port.add_pairs({}) == {}
    assert subject.port.remove_pairs({}) == {}
    assert subject.port.add_pairs({TOPIC: TopicThrottle()}) == {TOPIC: None}
    assert_stands(subject.lists, TOPIC, set())
