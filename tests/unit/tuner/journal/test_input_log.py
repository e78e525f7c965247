"""The inputs are recorded in the same transaction as the decisions on them."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import kafka.errors
import pytest
from tuner_cases import LIMITS, NOW_MS, STALL, live, observation

from tuner.control.mutation_quota.decision import HoldQuota, QuotaReason
from tuner.control.mutation_quota.model import MutationPolicy, QuotaView
from tuner.control.mutation_quota.state import MutationMemory
from tuner.control.throttle.decision import Hold, Reason
from tuner.control.throttle.state import Memory
from tuner.core.cluster import ClusterUnreadable
from tuner.core.operator_orders import Orders
from tuner.journal.entries import entry_of
from tuner.journal.input_log import InputLog, inputs_topic_of
from tuner.journal.kafka_journal import JournalError, KafkaJournal
from tuner.journal.settings_snapshot import SettingsSnapshot
from tuner.runtime.clock import Clock
from tuner.runtime.mutation_quota.recorder import MutationQuotaRecorder

HOLD = Hold(1, None, Reason.WATCHING, "too early to say")


class Sent:
    def __init__(self, offset: int) -> None:
        self.offset = offset

    def get(self, timeout: float) -> Sent:
        assert timeout > 0
        return self


class Producer:
    """Notes what it is told; ``refusing`` a topic, as a broker without a leader for it does."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.refusing: str | None = None
        self._offsets = count()

    def begin_transaction(self) -> None:
        self.told.append("begin")

    def commit_transaction(self) -> None:
        self.told.append("commit")

    def abort_transaction(self) -> None:
        self.told.append("abort")

    def send(self, topic: str, key: bytes, value: bytes) -> Sent:
        if topic == self.refusing:
            raise kafka.errors.KafkaTimeoutError(f"no leader for {topic}")
        self.told.append((topic, key.decode().split("|")[0], json.loads(value)))
        return Sent(next(self._offsets))


def made() -> tuple[Producer, InputLog, KafkaJournal]:
    producer = Producer()
    inputs = InputLog(SettingsSnapshot(LIMITS, STALL), run="r", program="p", wall_clock=lambda: NOW_MS / 1000)
    return producer, inputs, KafkaJournal(producer, "rheostat.journal", "lab", fenced=True, inputs=inputs)


def decided(inputs: InputLog) -> None:
    inputs.record_cycle(observation(live()), Memory(), Memory(), [HOLD])


def headers(producer: Producer) -> list[str]:
    """Of what was sent beside the journal."""
    bodies = [told[2] for told in producer.told if told[0] == "rheostat.inputs"]
    return [next(kind for kind in ("frame", "step") if kind in h) for body in bodies for h in body["headers"]]


def test_inputs_topic_has_the_journals_prefix() -> None:
    assert inputs_topic_of("rheostat.journal") == "rheostat.inputs"
    assert inputs_topic_of("of-another-name") == "of-another-name.inputs"


def test_inputs_are_written_in_transaction_of_their_decision() -> None:
    producer, inputs, journal = made()
    decided(inputs)
    journal.write([entry_of("decision", HOLD, NOW_MS)])
    assert (producer.told[0], producer.told[-1]) == ("begin", "commit")
    assert [told[:2] for told in producer.told[1:-1]] == [("rheostat.journal", "entry"), ("rheostat.inputs", "lab")]
    assert sorted(headers(producer)) == ["frame", "step"]


def test_inputs_of_cycle_without_new_decision_are_written() -> None:
    producer, inputs, journal = made()
    decided(inputs)
    journal.write()
    assert [told for told in producer.told if isinstance(told, str)] == ["begin", "commit"]
    producer.told.clear()
    journal.write()
    assert producer.told == []


def test_quota_inputs_are_written_with_quota_decision() -> None:
    producer, inputs, journal = made()
    recorder = MutationQuotaRecorder(
        journal, "lab", MutationMemory(), Clock(lambda: NOW_MS / 1000, lambda: 0.0), dry_run=False
    )
    view, memory = QuotaView(NOW_MS, ClusterUnreadable("no answer")), MutationMemory(last_step_at_ms=NOW_MS)
    held = HoldQuota(None, QuotaReason.QUOTAS_UNREADABLE, "the quotas could not be read: no answer")
    for _ in range(2):  # The second time there is nothing new to say, and what it stood on goes all the same.
        inputs.record_quota_cycle(view, Orders(), MutationPolicy(), MutationMemory(), memory, [held])
        recorder.record([held], [], memory, {})
    assert [told for told in producer.told if isinstance(told, str)] == ["begin", "commit"] * 2
    topics = [told[0] for told in producer.told if not isinstance(told, str)]
    # The decision, what is remembered, and what both stood on; then only the last.
    assert topics == ["rheostat.journal", "rheostat.journal", "rheostat.inputs", "rheostat.inputs"]
    assert headers(producer) == ["step", "frame", "step"]


@pytest.mark.parametrize("topic", ["rheostat.journal", "rheostat.inputs"])
def test_inputs_failed_transaction_is_followed_by_a_frame(topic: str) -> None:
    producer, inputs, journal = made()
    decided(inputs)
    journal.write()
    decided(inputs)
    producer.refusing = topic
    with pytest.raises(JournalError, match="did not accept the record"):
        journal.write([entry_of("decision", HOLD, NOW_MS)])
    assert producer.told[-1] == "abort"
    producer.refusing = None
    producer.told.clear()
    decided(inputs)
    journal.write()
    assert sorted(headers(producer)) == ["frame", "step"]
