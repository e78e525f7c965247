"""Tests that a write needs a recent proof of leadership."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fake_throttles import FakeThrottles
from tuner_cases import OWN_LISTS, SOURCE, TARGET, L, throttle

from streaming.shared.contract import Side
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.kafka.values import Append, InvalidConfig
from streaming.shared.lease import HEARTBEAT_S, SESSION_S
from streaming.shared.throttle_settings import LIST_KEYS
from tuner.core.throttle_limits import MB
from tuner.journal.kafka_journal import JournalError, JournalLost
from tuner.runtime.fencing import PROOF_S_MAX, FencedThrottles
from tuner.runtime.throttle.actuator import INVALID_S_MAX, TOPICS_PER_REQUEST, KafkaThrottles


@dataclass
class Fence:
    ago_s: float = 0.0
    refuses: JournalError | None = None
    proofs: int = 0

    def proof_age_s(self) -> float:
        return self.ago_s

    def prove_ownership(self) -> None:
        self.proofs += 1
        if self.refuses is not None:
            raise self.refuses
        self.ago_s = 0.0


@pytest.fixture
def real() -> FakeThrottles:
    return FakeThrottles(rates={SOURCE: 10 * MB}, lists=OWN_LISTS)


def test_write_with_recent_proof_needs_no_new_one(real: FakeThrottles) -> None:
    fence = Fence(ago_s=PROOF_S_MAX)
    assert FencedThrottles(real, fence).write_rates({SOURCE: 20 * MB}) == {SOURCE: None}
    assert fence.proofs == 0


def test_write_renews_old_proof(real: FakeThrottles) -> None:
    fence = Fence(ago_s=PROOF_S_MAX + 0.1)
    assert FencedThrottles(real, fence).write_rates({SOURCE: 20 * MB}) == {SOURCE: None}
    assert fence.proofs == 1
    assert real.rates[SOURCE] == 20 * MB


@pytest.mark.parametrize("error", [JournalLost("another has it"), JournalError("no leader")])
def test_write_without_proof_is_refused(real: FakeThrottles, error: JournalError) -> None:
    port = FencedThrottles(real, Fence(ago_s=60.0, refuses=error))
    answers = port.write_rates({SOURCE: 20 * MB, TARGET: 5 * MB})
    assert set(answers) == {SOURCE, TARGET}
    assert all(str(error) in str(answer) for answer in answers.values())
    assert str(error) in str(port.clear_lists("orders", [L]))
    assert str(error) in str(port.add_pairs({"orders": throttle(leader=[(1, 1)])})["orders"])
    assert str(error) in str(port.remove_pairs({"orders": throttle(leader=[(0, 1)])})["orders"])
    assert real.rates == {SOURCE: 10 * MB}
    assert real.lists == OWN_LISTS
    assert real.events == []


def test_read_needs_no_proof(real: FakeThrottles) -> None:
    port = FencedThrottles(real, Fence(ago_s=60.0, refuses=JournalLost("another has it")))
    assert port.read_rates([SOURCE]) == {SOURCE: 10 * MB}
    assert port.confirm_rates({SOURCE: 10 * MB}) == {SOURCE: None}


class SlowCluster:
    """Of so many topics that there is more than one request; to read what stands takes long."""

    def __init__(self, fence: Fence, read_s: float) -> None:
        self._fence, self._read_s = fence, read_s
        self.lists: dict[str, dict[str, str]] = {}
        self.requests = 0
        self.now_s = 0.0

    def partitions(self, topics: Iterable[str]) -> list[Any]:
        self._reads()
        return [SimpleNamespace(topic=topic) for topic in topics]

    def _reads(self) -> None:
        self._fence.ago_s += self._read_s
        self.now_s += self._read_s

    def topic_configs(self, topics: Iterable[str], _: object) -> dict[str, dict[str, str]]:
        self._reads()
        return {topic: dict(self.lists.get(topic, {})) for topic in topics}

    def alter_topic_configs(self, changes: Mapping[str, Mapping[str, Any]]) -> dict[str, ClusterError | None]:
        assert self._fence.ago_s <= PROOF_S_MAX, f"written with a proof that is {self._fence.ago_s} s old"
        self.requests += bool(changes)
        for topic, configs in changes.items():
            for key, change in configs.items():
                if isinstance(change, Append):
                    self.lists.setdefault(topic, {})[key] = change.entries
                else:
                    self.lists[topic].pop(key)
        return dict.fromkeys(changes)


def slow(fence: Fence, read_s: float) -> tuple[SlowCluster, FencedThrottles]:
    cluster = SlowCluster(fence, read_s)
    real = KafkaThrottles(cast(ClusterClient, cluster), monotonic=lambda: cluster.now_s, pause=lambda _: None)
    return cluster, FencedThrottles(real, fence)


TOPICS = {f"t{n}": throttle(leader=[(0, 1)]) for n in range(2 * TOPICS_PER_REQUEST + 1)}


def test_each_request_of_batch_has_recent_proof() -> None:
    fence = Fence()
    cluster, port = slow(fence, 3.0)
    assert set(port.add_pairs(TOPICS).values()) == {None}
    assert cluster.lists.keys() == TOPICS.keys()
    assert cluster.requests == 3
    assert set(port.remove_pairs(TOPICS).values()) == {None}
    assert not any(cluster.lists.values())


def test_batch_stops_when_proof_is_lost() -> None:
    fence = Fence()
    cluster, port = slow(fence, 3.0)
    fence.refuses = JournalLost("another has it")
    answers = port.add_pairs(TOPICS)
    written = [topic for topic, failure in answers.items() if failure is None]
    assert written == [*TOPICS][:TOPICS_PER_REQUEST]
    assert "another has it" in str(answers["t500"])
    assert cluster.requests == 1


def test_proof_expires_before_lease_can_change() -> None:
    assert PROOF_S_MAX < SESSION_S - HEARTBEAT_S


def test_slow_proof_is_refused(real: FakeThrottles) -> None:
    class Slow(Fence):
        def prove_ownership(self) -> None:
            super().prove_ownership()
            self.ago_s = PROOF_S_MAX + 0.1

    answers = FencedThrottles(real, Slow(ago_s=60.0)).write_rates({SOURCE: 20 * MB})
    assert "took too long" in str(answers[SOURCE])
    assert real.rates == {SOURCE: 10 * MB}


class Doubting(SlowCluster):
    """Refuses a change of the list as long as it stands otherwise than it shows."""

    def __init__(self, shows: str, stands: str, shows_it_after: int) -> None:
        super().__init__(Fence(), 0.02)
        self.shows, self.stands, self.late = shows, stands, shows_it_after
        self.reads, self.asked = 0, list[str]()

    def topic_configs(self, topics: Iterable[str], _: object) -> dict[str, dict[str, str]]:
        self._reads()
        self.reads += 1
        key = LIST_KEYS[Side.LEADER]
        return {topic: {key: self.stands if self.reads > self.late else self.shows} for topic in topics}

    def alter_topic_configs(self, changes: Mapping[str, Mapping[str, Any]]) -> dict[str, ClusterError | None]:
        for configs in changes.values():
            self.asked += [change.entries for change in configs.values()]
        refused = InvalidConfig("error 40") if self.reads <= self.late else None
        if changes and refused is None:
            self.stands += f",{self.asked[-1]}"
        return dict.fromkeys(changes, refused)


@pytest.mark.parametrize(("stands", "asked"), [("*", ["0:1"]), ("7:7", ["0:1", "0:1"]), ("0:1", ["0:1"])])
def test_changed_list_is_read_again(stands: str, asked: list[str]) -> None:
    """A star has the pair already; to another list it is added once that shows, and only then again."""
    cluster = Doubting(shows="5:5", stands=stands, shows_it_after=4)
    port = KafkaThrottles(cast(ClusterClient, cluster), monotonic=lambda: cluster.now_s, pause=lambda _: None)
    assert port.add_pairs({"t": throttle(leader=[(0, 1)])}) == {"t": None}
    assert cluster.asked == asked


def test_repeated_refusal_fails_soon_with_kafka_error() -> None:
    cluster = Doubting(shows="5:5", stands="", shows_it_after=10_000)
    port = KafkaThrottles(cast(ClusterClient, cluster), monotonic=lambda: cluster.now_s, pause=lambda _: None)
    assert port.add_pairs({"t": throttle(leader=[(0, 1)])}) == {"t": "error 40"}
    assert (cluster.asked, cluster.now_s < INVALID_S_MAX + 0.1) == (["0:1"], True)
