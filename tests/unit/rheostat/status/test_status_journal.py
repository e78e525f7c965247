"""`rheostat status` and `rheostat status --watch` show the same of the same journal records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
from test_status_screen import ACTS, MEMORY, SETTINGS, measured
from tuner_cases import NOW_MS, SOURCE, TARGET, live, owned

from rheostat.status import journal as status_journal
from rheostat.status import watch
from rheostat.status.evaluation import StatusEvaluator
from rheostat.status.journal import JournalFollower, read_journal_state
from rheostat.status.readings import FurtherReadings
from rheostat.status.report import status_json
from streaming.shared.contract.quotas import QuotaEntity
from tuner.control.mutation_quota.state import OwnedQuota
from tuner.control.throttle.state import Memory
from tuner.core.operator_orders import Orders, Override, Pause
from tuner.core.reassignment_plan import PlanHead, PlanPartition, PlanThrottle, RequestedStep
from tuner.core.throttle_limits import MB
from tuner.journal import quota_records, topic_reader
from tuner.journal.entries import Entry, encode_entry, encode_memory, encode_owned, entry_key, memory_key, owned_key
from tuner.journal.order_records import encode_orders, orders_key
from tuner.journal.plan_records import encode_head, encode_parts, encode_requested, head_key, part_key, requested_key
from tuner.journal.presence_records import encode_presence, presence_key
from tuner.journal.topic_reader import JournalError, JournalRecord

TOPICS = SETTINGS.topic_names()
PAUSED = Orders(5, Pause(5, "kim"))
LATER = Orders(9, overrides={SOURCE: Override(5 * MB, NOW_MS + 60_000, "li, until later")})
HEAD = PlanHead("p", "kim", 1, 1, 1, throttle=PlanThrottle(4 * MB))
PLAN = [
    (part_key("lab", "p", 0), encode_parts({("orders", 0): PlanPartition((3, 2), (1, 2))})),
    (head_key("lab", "p"), encode_head(HEAD)),
]
ASKED = (requested_key("lab", "p", 0), encode_requested({("orders", 0): RequestedStep((3, 2), (1, 2))}))
DECIDED = [
    (
        entry_key(ring, "lab", seq),
        encode_entry(Entry(NOW_MS - 9_000 + seq, kind, "set", "cleared_by_tool", f"{kind} {seq}", seq=seq)),
    )
    for seq, (ring, kind) in enumerate(
        [("entry", "intent"), ("entry", "outcome"), ("plan-entry", "decision"), ("steering", "steering")]
    )
]
JOURNAL = [
    (memory_key("lab"), encode_memory(MEMORY)),
    (owned_key("lab", TARGET), encode_owned(TARGET, owned(None, 10 * MB))),
    (quota_records.owned_key("lab", QuotaEntity("u")), quota_records.encode_owned(QuotaEntity("u"), OwnedQuota(None, 5.0, (5.0,)))),
    (presence_key("lab", ACTS.holder), encode_presence(ACTS)),
    *DECIDED,
    ASKED,
    (b"plan-state|lab|p", b"of a newer version"),
    (entry_key("entry", "other", 1), encode_entry(Entry(1, "decision", "hold", "progressing", "of another cluster"))),
]  # fmt: skip
ORDERS = [*PLAN, (orders_key("lab"), encode_orders(LATER)), (memory_key("lab"), encode_memory(Memory()))]
TOLD_PAUSE = [(memory_key("lab"), encode_memory(Memory(owned=MEMORY.owned, recorded_orders=PAUSED)))]

Records = list[tuple[bytes, bytes | None]]


class Cluster:
    """Both topics; consumers first see the first ``whole`` records, then the rest."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, journal: Records, orders: Records, whole: int = 10**6) -> None:
        self.topics, self.whole, self.topic = {TOPICS.journal: journal, TOPICS.orders: orders}, whole, ""
        self.trouble: JournalError | None = None
        monkeypatch.setattr(topic_reader, "read_records", self._read_records)
        monkeypatch.setattr(status_journal, "consumer", lambda *_, **__: self)
        monkeypatch.setattr(watch, "TopicTail", self._tail)

    def partitions_for_topic(self, _: str) -> set[int]:
        return {0}

    def assignment(self) -> list[Any]:
        return [SimpleNamespace(partition=0)]

    def position(self, _: object) -> int:
        return min(self.whole, len(self.topics[self.topic]))

    def close(self, timeout_ms: int) -> None: ...

    def _read_records(self, _: object, topic: str, __: object) -> Iterator[JournalRecord]:
        self.topic = topic
        for offset, (key, value) in enumerate(self.topics[topic][: self.whole]):
            yield JournalRecord(key, value, offset, topic, NOW_MS)
        if self.trouble is not None:
            raise self.trouble

    def _tail(self, _: object, topic: str, since: Mapping[int, int] | None = None) -> Any:
        def records(begin: int) -> Iterator[Any]:
            for offset, (key, value) in enumerate(self.topics[topic][begin:], begin):
                yield SimpleNamespace(key=key, value=value, offset=offset, topic=topic, timestamp=NOW_MS)

        return SimpleNamespace(poll=lambda: records(since[0] if since else 10**6), read_recent=lambda _: records(0))

    def observers(self) -> tuple[JournalFollower, str | None]:
        """Reads like ``--watch``: first the existing records, then the later ones."""
        consumers = cast(Any, self)
        followed, tails, unread = watch.start_following("lab", TOPICS, consumers, consumers)
        assert watch.follow_new_records(followed, tails, TOPICS.journal, NOW_MS) is None
        return followed, unread


def shown(followed: JournalFollower, evaluator: StatusEvaluator | None = None) -> dict[str, Any]:
    readings = FurtherReadings(tuners=followed.tuners(NOW_MS))
    return status_json(SETTINGS, live(), measured(), followed.state, NOW_MS, readings, evaluator)


@pytest.mark.parametrize("whole", [0, 2, 6, 100])
@pytest.mark.parametrize(("journal", "orders"), [(JOURNAL, ORDERS), (TOLD_PAUSE, []), ([], ORDERS), ([], [])])
def test_status_and_watch_show_the_same_records_alike(
    monkeypatch: pytest.MonkeyPatch, journal: Records, orders: Records, whole: int
) -> None:
    Cluster(monkeypatch, journal, orders)
    once = read_journal_state(SETTINGS)
    followed, unread = Cluster(monkeypatch, journal, orders, whole).observers()
    assert shown(followed, StatusEvaluator(SETTINGS)) == shown(once)
    assert (followed.state, followed.quotas, unread) == (once.state, once.quotas, None)


def test_watch_shows_orders_plans_and_unreadable_records(monkeypatch: pytest.MonkeyPatch) -> None:
    followed, _ = Cluster(monkeypatch, JOURNAL, ORDERS, 3).observers()
    found = shown(followed)
    assert found["tuner"]["state"] == "active"
    assert [(plan["plan"], plan["moving"]) for plan in found["plans"]] == [("p", 1)]
    assert [row["rate_bytes_per_s"] for row in found["overrides"]] == [5 * MB]
    assert len(found["unreadable_records"]) == 1
    assert [row["text"] for row in found["last_steering_ticks"]] == ["steering 3"]
    assert len(followed.quotas.owned) == 1
    memory = followed.state.memory
    assert memory is not None
    assert memory.owned.keys() == {SOURCE, TARGET}, "the memory in the orders' topic counts for nothing"
    told, _ = Cluster(monkeypatch, TOLD_PAUSE, []).observers()
    assert shown(told)["paused"]["by"] == "kim", "the orders' topic was emptied, and nobody has resumed"


def test_watch_of_unreadable_journal_knows_no_memory_nor_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, JOURNAL, ORDERS, 6)
    cluster.trouble = JournalError("a transaction is open in it")
    followed, unread = cluster.observers()
    assert unread is not None
    assert "a transaction is open in it" in unread
    assert not followed.is_complete
    newest = followed.state
    assert (newest.memory, newest.plans, newest.orders) == (None, (), LATER)
    assert len(newest.entries["entry"]) == 3, "each of the newest entries is shown once"
    cluster.trouble, cluster.whole = None, 100
    assert shown(followed)["last_decisions"] == shown(read_journal_state(SETTINGS))["last_decisions"]


def test_unreadable_memory_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    journal = [*JOURNAL, (memory_key("lab"), b'{"v": 99}')]
    followed, _ = Cluster(monkeypatch, journal, []).observers()
    assert followed.state.memory is None
    assert len(followed.state.unreadable) == 2


def test_journal_of_earlier_version_is_one_line_with_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    old = [(owned_key("lab", SOURCE), b'{"v": 1}'), (memory_key("lab"), b'{"v": 1}')]
    followed, _ = Cluster(monkeypatch, old, []).observers()
    [text] = followed.state.unreadable
    assert text.startswith("records of an earlier version of rheostat: key b'owned|lab|")
    assert "record version 1, this version of rheostat reads 3), and 1 more. " in text
    assert text.endswith("docs/how-to/upgrade.md")
    assert "\n" not in text
    assert followed.state.memory is None
