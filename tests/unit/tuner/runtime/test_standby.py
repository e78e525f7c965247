"""Tests what a tuner waits for before its term, what its status shows meanwhile, and the teardown."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import kafka.errors
import pytest
from structlog.testing import capture_logs

import tuner.runtime.standby as module
from streaming.shared.contract import Side, Topics
from streaming.shared.kafka.clients import READ_ONCE_WAIT_MS
from streaming.shared.kafka.cluster import ClusterError, Endpoint
from streaming.shared.kafka.unpacking import UnreadableBatch
from streaming.shared.lease import lease_group
from streaming.shared.teardown import named_teardown
from tuner.api.status_store import STANDBY_REASON, StatusStore
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.core.throttle_limits import ThrottleLimits
from tuner.journal.cluster_aliases import ClusterAliases
from tuner.journal.entries import encode_memory, memory_key
from tuner.journal.kafka_journal import JournalError, JournalUnreadable
from tuner.journal.outbox import Outbox
from tuner.journal.topic_reader import UnreadableBatchError
from tuner.runtime.standby import Standby

PAUSE_S = 0.01


class Cluster:
    def __init__(self) -> None:
        self.away = False
        self.members: dict[
            str, list[int | ClusterError | None]
        ] = {}  # What is said of a group, one look after the other.

    def group_members(self, group: str) -> int | None:
        said = self.members.get(group, [0])
        found = said.pop(0) if len(said) > 1 else said[0]
        if isinstance(found, ClusterError):
            raise found
        return found

    def brokers(self) -> list[Endpoint]:
        if self.away:
            raise ClusterError("nobody answers")
        return [Endpoint(1, "broker-1", 9092)]


class Rig:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in (
            "_TAKE_OVER_PAUSE_S",
            "_ALIAS_PAUSE_S",
            "_ALIAS_PAUSE_S_MAX",
            "_LEASE_POLL_S",
            "_RETRY_S_MAX",
        ):
            monkeypatch.setattr(module, name, PAUSE_S)
        self.cluster, self.stop = Cluster(), threading.Event()
        self.board = StatusStore("c", ThrottleLimits(rate_bytes_per_s_max=1e8), dry_run=False, wall_clock=lambda: 0.0)
        self.board.become_active()
        found: Any = self.cluster
        self.standby = Standby(found, self.board, self.stop)

    @property
    def waits_for(self) -> str:
        ready, why = self.board.ready()
        assert not ready
        return why


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(monkeypatch)


class Turn:
    """A lease that is had after some looks, the journal's topic beside it, and what of it is read meanwhile."""

    def __init__(self, waits: list[str | None], seen: Callable[[], None] = lambda: None) -> None:
        self._waits = iter(waits)
        self._left = len(waits)
        self._seen = seen
        self.read_ahead = 0
        self.reads = True

    def step(self) -> None:
        assert self.reads
        self.read_ahead += 1

    def stop(self) -> None:
        self.reads = False

    def renew(self, timeout_s: float) -> bool:
        assert timeout_s == PAUSE_S
        self._seen()
        self._left -= 1
        return self._left < 0

    def find_problem(self) -> str | None:
        return next(self._waits)


def test_standby_waits_for_lease_and_logs_each_reason_once(rig: Rig) -> None:
    turn: Any = Turn([None, None, "the journal is gone", "the journal is still gone", None])
    calls: list[int] = []
    with capture_logs() as said:
        assert rig.standby.wait_for_lease(turn, turn, turn, lambda: calls.append(1))
    assert len(calls) == 5
    assert [line["event"] for line in said] == [STANDBY_REASON, "the journal is gone", STANDBY_REASON]
    assert turn.read_ahead == 5
    assert not turn.reads


def test_standby_shows_unreachable_cluster_first(rig: Rig) -> None:
    rig.cluster.away = True
    turn: Any = Turn(["the journal is gone"])
    assert rig.standby.wait_for_lease(turn, turn, turn, lambda: None)
    assert "the cluster cannot be read: nobody answers" in rig.waits_for


def test_standby_ends_when_stopped(rig: Rig) -> None:
    turn: Any = Turn([None] * 9, seen=rig.stop.set)
    assert not rig.standby.wait_for_lease(turn, turn, turn, lambda: None)
    assert not turn.reads


class Journal:
    records_read = 0
    blocked: str | None = None
    unreadable = ()
    misplaced_orders = False

    def __init__(self, error: Exception | None) -> None:
        self._error = error
        self.known: object = None

    def take_over(self) -> None:
        if self._error is not None:
            raise self._error

    def recover(self, _: object, owed: Outbox, known: object) -> Memory:  # noqa: ARG002 - the journal's shape
        self.known = known
        self.take_over()
        return Memory()


class Reader:
    closed = 0

    def close(self, *, timeout_ms: int) -> None:  # noqa: ARG002 - the consumer's shape
        Reader.closed += 1


@pytest.mark.parametrize("away", [False, True])
def test_take_over_failure_pauses(rig: Rig, away: bool) -> None:
    rig.cluster.away = away
    journal: Any = Journal(JournalError("no leader"))
    assert not rig.standby.take_over(journal)
    assert ("the cluster cannot be read" if away else "no leader") in rig.waits_for
    journal = Journal(None)
    assert rig.standby.take_over(journal)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (JournalError("its end was not reached"), "its end was not reached"),
        (kafka.errors.KafkaConnectionError("refused"), "the reader of the journal has ended: KafkaConnectionError"),
    ],
)
def test_recover_failure_pauses(rig: Rig, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str) -> None:
    monkeypatch.setattr(module, "consumer", lambda *_, **__: Reader())
    closed = Reader.closed
    journal: Any = Journal(error)
    assert rig.standby.recover_memory(journal, settings(), Outbox()) is None
    assert said in rig.waits_for
    journal = Journal(None)
    assert rig.standby.recover_memory(journal, settings(), Outbox()) == Memory()
    assert Reader.closed == closed + 2


def test_blocking_record_leaves_lease_and_pauses(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tuner of the version that wrote it may have the lease, and an operator may mend it."""
    monkeypatch.setattr(module, "_REPAIR_PAUSE_S", PAUSE_S)
    monkeypatch.setattr(module, "consumer", lambda *_, **__: Reader())
    journal: Any = Journal(None)
    journal.blocked = "the journal t has a record that this version cannot read: key b'memory|c'"
    left: list[bool] = []
    assert rig.standby.recover_memory(journal, settings(), Outbox(), None, lambda: left.append(True)) is None
    assert "this version cannot read: key b'memory|c'" in rig.waits_for
    assert left == [True]
    journal.blocked = None
    assert rig.standby.recover_memory(journal, settings(), Outbox()) == Memory()


def test_unreadable_batch_leaves_lease_and_pauses(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REPAIR_PAUSE_S", PAUSE_S)
    monkeypatch.setattr(module, "consumer", lambda *_, **__: Reader())
    journal: Any = Journal(
        UnreadableBatchError(UnreadableBatch("rheostat.orders", 0, 3, 5, 0, 9, "compressed with zstd"))
    )
    left: list[bool] = []
    assert rig.standby.recover_memory(journal, settings(), Outbox(), None, lambda: left.append(True)) is None
    assert "records 3 to 5 of rheostat.orders, partition 0, are not read: compressed with zstd" in rig.waits_for
    assert "Set compression.type=producer on rheostat.orders" in rig.waits_for
    assert left == [True]


def test_unreadable_journal_ends_tuner(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "consumer", lambda *_, **__: Reader())
    journal: Any = Journal(JournalUnreadable("version 9"))
    with pytest.raises(JournalUnreadable, match="version 9"):
        rig.standby.recover_memory(journal, settings(), Outbox())


class Ahead:
    def __init__(self, known: object) -> None:
        self._known = known

    def take_knowledge(self) -> object:
        if isinstance(self._known, Exception):
            raise self._known
        return self._known


def test_recover_continues_after_records_read_ahead(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, Any]] = []

    def consumer(*_: object, **extra: Any) -> Reader:
        made.append(extra)
        return Reader()

    monkeypatch.setattr(module, "consumer", consumer)
    journal: Any = Journal(None)
    known: Any = Ahead("read")
    assert rig.standby.recover_memory(journal, settings(), Outbox(), known) == Memory()
    assert journal.known == "read"
    assert made == [
        {
            "isolation_level": "read_committed",
            "auto_offset_reset": "none",
            "on_unreadable_batch": module.log_unreadable_batch,
            "fetch_max_wait_ms": READ_ONCE_WAIT_MS,
        }
    ]
    # Whether it may be used cannot be told now: it is not thrown away for that, nor used.
    journal, known = Journal(None), Ahead(ClusterError("nobody answers"))
    assert rig.standby.recover_memory(journal, settings(), Outbox(), known) is None
    assert "nobody answers" in rig.waits_for
    assert journal.known is None


class Left:
    """A lease that is handed on."""

    times = 0

    def leave(self) -> None:
        self.times += 1


class Read:
    """A journal as it is read one time after the other: what ``old`` has on record each time, beside what we have."""

    holder = "us"
    records_read = 0
    blocked, unreadable = None, ()
    misplaced_orders = False

    def __init__(self, *olds: Memory, ours: str = "") -> None:
        self._later, self.holdings = list(olds[1:]), ours
        self.cluster_aliases = ClusterAliases("new")
        self.cluster_aliases.apply(memory_key("old"), encode_memory(olds[0]))
        self._now = olds[0]

    def read_only_copy(self) -> Read:
        self._now = self._later.pop(0) if self._later else self._now
        return Read(self._now, ours=self.holdings)

    def recover(self, _: object, owed: Outbox | None, known: object) -> Memory:  # noqa: ARG002 - the journal's shape
        return Memory()


OWNS = Memory(owned={(1, Side.LEADER): OwnedRate(None, 5, (5,))})
ENDED = Memory()


Seen = Callable[..., tuple[bool, int, list[str]]]


@pytest.fixture
def seen(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Seen:
    """Whether this tuner goes on, how often it has left its group, and what it said that it waits for."""
    monkeypatch.setattr(module, "consumer", lambda *_, **__: Reader())

    def look(journal: Any) -> tuple[bool, int, list[str]]:
        lease: Any = Left()
        with capture_logs() as said:
            alone = rig.standby.ensure_only_tuner(journal, lease, settings())
        waits = [line["error"] for line in said if line["event"].startswith("the tuner cannot act yet")]
        return alone, lease.times, waits

    return look


def test_alias_with_managed_throttles_blocks_tuner(seen: Seen) -> None:
    """The block lasts until the throttles are released; meanwhile this tuner leaves the group, so it does not count as running."""
    alone, left, waits = seen(Read(OWNS, OWNS, ENDED))
    assert not alone, "it asks for its turn again"
    assert (left, len(waits)) == (1, 2)
    assert (
        "under the cluster name 'old' rheostat still manages 1 throttle in this Kafka cluster. Set `cluster: old`"
        in waits[0]
    )


def test_two_aliases_with_managed_throttles_both_act(seen: Seen) -> None:
    assert seen(Read(OWNS, ours="1 throttle")) == (True, 0, [])


def test_throttle_on_missing_broker_does_not_block(seen: Seen) -> None:
    gone = Memory(owned={(7, Side.LEADER): OwnedRate(None, 5, (5,))}, brokers_to_clear=frozenset({7}))
    assert seen(Read(gone)) == (True, 0, [])


def test_running_tuner_of_alias_blocks_tuner(rig: Rig, seen: Seen) -> None:
    rig.cluster.members = {lease_group("old"): [1, 1, 0]}
    alone, left, waits = seen(Read(ENDED, ours="1 throttle"))
    assert (alone, left, len(waits)) == (False, 1, 2)
    assert "already runs on this Kafka cluster as cluster 'old'" in waits[0]


def test_alias_check_failure_blocks_tuner(rig: Rig, seen: Seen) -> None:
    rig.cluster.members = {lease_group("old"): [ClusterError("its coordinator is only coming up"), 0]}
    alone, left, waits = seen(Read(ENDED))
    assert (alone, left, len(waits)) == (False, 1, 1)
    assert "only coming up" in waits[0]


def test_alias_wait_ends_when_stopped(rig: Rig, seen: Seen) -> None:
    rig.stop.set()
    assert seen(Read(OWNS)) == (False, 1, [])


@pytest.mark.parametrize("members", [0, None])
def test_unused_alias_does_not_block(rig: Rig, seen: Seen, members: int | None) -> None:
    """Nor is one of which it may not be known, for want of a right."""
    rig.cluster.members = {lease_group("old"): [members]}
    assert seen(Read(ENDED)) == (True, 0, [])


def settings() -> Any:
    """Kafka settings; no test reads them."""


def test_wait_for_topics_retries_until_cluster_answers(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([ClusterError("nobody answers"), ["the journal is thin"]])

    def ensure(*_: object) -> list[str]:
        answer = next(answers)
        if isinstance(answer, ClusterError):
            raise answer
        return answer

    monkeypatch.setattr(module, "ensure_topics", ensure)
    monkeypatch.setattr(module, "unreadable_topic_complaints", lambda *_: [])
    with capture_logs() as said:
        assert rig.standby.wait_for_topics(Topics.with_prefix("rheostat"))
    assert [(line["log_level"], line["event"]) for line in said] == [
        ("error", "the cluster does not answer; trying again"),
        ("warning", "the journal is thin"),
    ]


def test_wait_for_topics_ends_when_stopped(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def ensure(*_: object) -> list[str]:
        rig.stop.set()
        raise ClusterError("nobody answers")

    monkeypatch.setattr(module, "ensure_topics", ensure)
    assert not rig.standby.wait_for_topics(Topics.with_prefix("rheostat"))


def test_wait_for_topics_leaves_signals_to_the_metrics_cluster(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[tuple[str, ...]] = []

    def ensure(_client: object, _topics: Topics, names: tuple[str, ...]) -> list[str]:
        used.append(names)
        return []

    monkeypatch.setattr(module, "ensure_topics", ensure)
    monkeypatch.setattr(module, "unreadable_topic_complaints", lambda *_: [])
    topics = Topics.with_prefix("rheostat")
    assert rig.standby.wait_for_topics(topics, has_signals=False)
    assert rig.standby.wait_for_topics(topics)
    assert used == [topics.of_tuner, (topics.signals, *topics.of_tuner)]


def test_try_until_connected_waits_for_the_metrics_cluster(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SIGNALS_PAUSE_S", PAUSE_S)
    answers: Iterator[Exception | str] = iter([kafka.errors.KafkaConnectionError("nobody answers"), "reader"])

    def connect() -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert rig.standby.try_until_connected(connect) == "reader"
    assert rig.waits_for == "the signals cannot be read: KafkaConnectionError: KafkaConnectionError: nobody answers"
    rig.stop.set()
    assert rig.standby.try_until_connected(connect) is None


def test_journal_with_retention_blocks_until_fixed(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    forgets = ["topic rheostat.journal has cleanup.policy=delete: alter it"]
    answers = iter([forgets, forgets, []])
    monkeypatch.setattr(module, "_NOT_READ_BACK_PAUSE_S", PAUSE_S)
    monkeypatch.setattr(module, "_TOPIC_CONFIGS_SHOWN_S", PAUSE_S)
    monkeypatch.setattr(module, "ensure_topics", lambda *_: [])
    monkeypatch.setattr(module, "unreadable_topic_complaints", lambda *_: next(answers))
    assert rig.standby.wait_for_topics(Topics.with_prefix("rheostat"))
    assert rig.waits_for == (
        "the journal or the orders could not be read back, so no tuner acts: topic rheostat.journal has "
        "cleanup.policy=delete: alter it"
    )
    assert next(answers, None) is None


def test_journal_settings_not_shown_yet_are_read_again(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([["topic rheostat.journal has cleanup.policy=delete: alter it"], []])
    monkeypatch.setattr(module, "_TOPIC_CONFIGS_SHOWN_S", PAUSE_S)
    monkeypatch.setattr(module, "ensure_topics", lambda *_: [])
    monkeypatch.setattr(module, "unreadable_topic_complaints", lambda *_: next(answers))
    with capture_logs() as said:
        assert rig.standby.wait_for_topics(Topics.with_prefix("rheostat"))
    assert said == []


def test_journal_with_retention_does_not_block_dry_run(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ensure_topics", lambda *_: ["topic rheostat.journal has cleanup.policy=delete"])
    monkeypatch.setattr(module, "unreadable_topic_complaints", lambda *_: pytest.fail("a dry run owns nothing"))
    assert rig.standby.wait_for_topics(Topics.with_prefix("rheostat"), acts=False)


def test_failed_teardown_is_logged_and_others_continue() -> None:
    gone: list[str] = []

    def broken() -> None:
        raise OSError("stuck")

    with capture_logs() as said, ExitStack() as stack:
        stack.callback(named_teardown("first", lambda: gone.append("first")))
        stack.callback(named_teardown("second", broken))
        stack.callback(named_teardown("third", lambda: gone.append("third")))
    assert gone == ["third", "first"]
    assert [(line["part"], line["error"]) for line in said] == [("second", "stuck")]
