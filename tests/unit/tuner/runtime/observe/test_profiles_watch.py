"""The watch hands profiles and events over in its own thread, tries again after an error, and ends when it is stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import kafka.errors
from kafka import KafkaConsumer
from test_profiles_reader import EVENT, PROFILE, FakeConsumer, record_of
from tuner_cases import CLUSTER

from streaming.shared.contract import BrokerProfile, ChangeEvent
from tuner.runtime.observe.profiles_watch import ProfilesWatch

WAIT_S = 10.0


class ClosingConsumer(FakeConsumer):
    is_closed = False

    def close(self, **_: Any) -> None:
        self.is_closed = True


def watched(make: Callable[[], Any]) -> tuple[Mapping[int, BrokerProfile], Sequence[ChangeEvent], ProfilesWatch]:
    """Returns the first profiles and events that a watch publishes, and the stopped watch."""
    published: list[tuple[Mapping[int, BrokerProfile], Sequence[ChangeEvent]]] = []
    arrived = threading.Event()

    def publish(profiles: Mapping[int, BrokerProfile], events: Sequence[ChangeEvent]) -> None:
        published.append((profiles, events))
        arrived.set()

    watch = ProfilesWatch(lambda: cast("KafkaConsumer", make()), "rheostat.profiles", CLUSTER, publish, every_s=0.01)
    watch.start()
    assert arrived.wait(WAIT_S)
    watch.stop()
    return *published[0], watch


def test_profiles_and_events_are_handed_over_and_the_consumer_closed() -> None:
    consumer = ClosingConsumer(record_of(PROFILE), record_of(EVENT), record_of(PROFILE)._replace(value=b"no profile"))
    profiles, events, watch = watched(lambda: consumer)
    assert (profiles, list(events)) == ({1: PROFILE}, [EVENT])
    assert watch.refused == 1
    assert consumer.is_closed


def test_cluster_that_does_not_answer_is_asked_again() -> None:
    answers = iter([kafka.errors.KafkaConnectionError("no answer"), ClosingConsumer(record_of(PROFILE))])

    def make() -> FakeConsumer:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert watched(make)[0] == {1: PROFILE}
