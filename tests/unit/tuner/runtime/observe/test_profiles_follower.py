"""The thread hands profiles and events over, tries again after an error, and ends when it is stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

import kafka.errors
from kafka import KafkaConsumer
from test_profiles_reader import EVENT, PROFILE, FakeConsumer, record_of
from tuner_cases import CLUSTER

from tuner.runtime.observe.profiles_follower import profiles_follower
from tuner.runtime.observe.profiles_reader import ProfilesReader

WAIT_S = 10.0


class ClosingConsumer(FakeConsumer):
    is_closed = False

    def close(self, **_: Any) -> None:
        self.is_closed = True


def followed(make: Callable[[], Any]) -> ProfilesReader:
    """Returns what the thread has published first, after the thread has ended."""
    published: list[ProfilesReader] = []
    arrived = threading.Event()

    def publish(reader: ProfilesReader) -> None:
        published.append(reader)
        arrived.set()

    thread = profiles_follower(
        lambda: cast("KafkaConsumer", make()), "rheostat.profiles", CLUSTER, publish, every_s=0.01
    )
    thread.start()
    assert arrived.wait(WAIT_S)
    thread.stop()
    return published[0]


def test_profiles_and_events_are_handed_over_and_the_consumer_closed() -> None:
    consumer = ClosingConsumer(record_of(PROFILE), record_of(EVENT), record_of(PROFILE)._replace(value=b"no profile"))
    reader = followed(lambda: consumer)
    assert (reader.profiles, list(reader.events)) == ({1: PROFILE}, [EVENT])
    assert reader.refused.count == 1
    assert consumer.is_closed


def test_cluster_that_does_not_answer_is_asked_again() -> None:
    answers = iter([kafka.errors.KafkaConnectionError("no answer"), ClosingConsumer(record_of(PROFILE))])

    def make() -> FakeConsumer:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert followed(make).profiles == {1: PROFILE}
