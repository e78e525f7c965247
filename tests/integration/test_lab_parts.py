"""The helpers of the tests with real parts: a bound that one of several calls must keep, and brokers that know the newest metadata."""

from __future__ import annotations

import threading

import pytest
from kafka.protocol.admin import DescribeConfigsRequest
from lab_parts import wait_for_metadata, within

from rheostat.lab.cluster import Lab, LabSpec
from streaming.shared import kafka_names
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.kafka.values import TopicCreation

LAB = LabSpec(brokers=3)
BROKERS = (1, 2, 3)


def test_within_takes_the_first_call_that_is_short() -> None:
    waits_s = iter((0.3, 0.0, 0.0))
    assert within(0.2, lambda: not threading.Event().wait(next(waits_s))) is True
    assert next(waits_s) == 0.0, "the third call is not made"


def test_within_fails_if_each_call_is_long() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"took 0\.\d\d, 0\.\d\d s; 0\.01 s are allowed"):
        within(0.01, lambda: threading.Event().wait(0.05), tries=2)


def test_every_broker_knows_a_topic_after_the_wait(lab: Lab) -> None:
    with ClusterClient(lab.kafka_settings(), "test") as client:
        for number in range(5):
            topic = f"known-{number}"
            client.create_topics([TopicCreation(topic, 1, 1, {"retention.ms": "3600000"})])
            wait_for_metadata(lab)
            request = DescribeConfigsRequest(
                resources=[(kafka_names.RESOURCE_TOPIC, topic, ["retention.ms"])], include_synonyms=False
            )
            answers = client._connection.send_each("describe the topic", dict.fromkeys(BROKERS, request))
            for answer in answers.values():
                assert not isinstance(answer, ClusterError), answer
                assert [(result.error_code, result.configs[0].value) for result in answer.results] == [(0, "3600000")]
