from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from learning_cases import MONDAY_MS, history

from learning.models.periods import HOUR_MS, PERIOD_MS
from learning.runtime.learn_counts import LearnCounts
from learning.runtime.process import LearnLoop
from learning.runtime.profile_writer import ProfileWriter
from streaming.shared.contract.history import HistoryPeriod
from streaming.shared.contract.learned_encoding import decode_profile, encode_history, history_key
from streaming.shared.contract.profiles import BrokerProfile

PER_HOUR = HOUR_MS // PERIOD_MS


@dataclass
class Record:
    key: bytes
    value: bytes | None
    timestamp: int
    offset: int = 0


@dataclass
class Topic:
    """Yields what was put into it; stops the loop once that was read and learned."""

    records: list[Record]
    stop: threading.Event
    is_at_end: bool = False
    fails: int = 0

    def poll(self, timeout_ms: int) -> Iterator[Record]:
        assert timeout_ms > 0
        if self.fails:
            self.fails -= 1
            raise OSError("no broker")
        if not self.records:
            self.stop.set()
        records, self.records = self.records, []
        yield from records
        self.is_at_end = True


@dataclass
class Accepted:
    exception: Exception | None = None

    def succeeded(self) -> bool:
        return True

    def failed(self) -> bool:
        return False


@dataclass
class Producer:
    records: list[tuple[bytes, bytes | None]] = field(default_factory=list)

    def send(self, topic: str, *, key: bytes, value: bytes | None) -> Accepted:
        assert topic == "t"
        self.records.append((key, value))
        return Accepted()

    def flush(self, timeout: float) -> None:
        assert timeout > 0


class Rig:
    """A loop whose history is given in parts; each ``run`` reads one part."""

    def __init__(self) -> None:
        self.producer, self.counts = Producer(), LearnCounts()
        self.history, self.published = Topic([], threading.Event()), Topic([], threading.Event(), is_at_end=True)
        writer = ProfileWriter(self.producer, "t", "c", self.counts)
        history_topic: Any = self.history
        published_topic: Any = self.published
        self.loop = LearnLoop("c", history_topic, published_topic, writer, self.counts)

    def run(self, *records: Record) -> dict[int, BrokerProfile]:
        """Returns the profiles by broker after these records."""
        self.history.records = list(records)
        self.history.stop = stop = threading.Event()
        self.loop.run(stop)
        return {profile.broker: profile for profile in self.counts.profiles}


@pytest.fixture
def rig() -> Rig:
    return Rig()


def record(period: HistoryPeriod, **changes: Any) -> Record:
    return replace(Record(history_key(period), encode_history(period), period.end_ms), **changes)


def test_complete_hours_are_learned_and_written(rig: Rig) -> None:
    periods = list(history(72))
    rig.run(*map(record, periods[: 60 * PER_HOUR + 1]))
    assert rig.counts.profiles[0].start_ms == MONDAY_MS + 60 * HOUR_MS
    written = len(rig.producer.records)
    rig.run(*map(record, periods[60 * PER_HOUR + 1 : 61 * PER_HOUR]))
    assert len(rig.producer.records) == written, "the hour is not complete yet"
    rig.run(record(periods[61 * PER_HOUR]))
    assert rig.counts.profiles[0].start_ms == MONDAY_MS + 61 * HOUR_MS
    profiles = [decode_profile(value) for _, value in rig.producer.records[written:] if value is not None]
    assert {p.broker for p in profiles if isinstance(p, BrokerProfile)} == {1, 2}


def test_young_history_is_learned_with_each_period(rig: Rig) -> None:
    periods = list(history(2))
    for count in (1, 2, 3):
        profile = rig.run(record(periods[count - 1]))[1]
        assert (profile.made_at_ms, profile.start_ms) == (MONDAY_MS + count * PERIOD_MS, MONDAY_MS)


def test_late_period_of_a_learned_hour_is_learned_as_if_it_had_come_in_time(rig: Rig) -> None:
    periods = list(history(80))
    late = periods[300]
    rig.run(*map(record, [*periods[:300], *periods[301 : 70 * PER_HOUR + 1]]))
    after = rig.run(*map(record, [late, *periods[70 * PER_HOUR + 1 : 71 * PER_HOUR + 1]]))
    assert after == Rig().run(*map(record, periods[: 71 * PER_HOUR + 1]))


def test_records_that_are_no_periods_are_left_out(rig: Rig) -> None:
    good = list(history(1))
    bad = [
        Record(b"progress", b"{}", MONDAY_MS),
        Record(b"other|1", b"no JSON", MONDAY_MS),
        Record(b"c|1", b"no JSON", MONDAY_MS),
        Record(b"c|2", None, MONDAY_MS),
        record(replace(good[0], cluster="other"), key=b"c|3"),
        record(replace(good[0], start_ms=MONDAY_MS + 1)),
        record(replace(good[0], start_ms=MONDAY_MS + 10 * HOUR_MS), timestamp=MONDAY_MS),
    ]
    rig.run(*bad, *map(record, good))
    assert (rig.counts.records, rig.counts.refused) == (len(good), 4)
    assert rig.counts.learned_to_s == (MONDAY_MS + HOUR_MS) / 1000


def test_loop_waits_for_a_cluster_that_does_not_answer(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("learning.runtime.process._RETRY_S_MIN", 0.01)
    rig.history.fails = 2
    assert rig.run(*map(record, history(1))).keys() == {1, 2}


def test_nothing_is_written_before_the_profiles_topic_was_read(rig: Rig) -> None:
    rig.published.is_at_end = False
    rig.published.records = [Record(b"c|broker|9", b"old", 0)]
    rig.run(*map(record, history(1)))
    assert (b"c|broker|9", None) in rig.producer.records


def test_loop_that_runs_for_weeks_writes_what_a_new_one_writes(rig: Rig) -> None:
    """The first loop has seen six days that the history does not keep."""
    hours = [record(period) for period in list(history(41 * 24 + 1, brokers=(1,)))[::PER_HOUR]]
    rig.run(*hours[: 20 * 24])
    profiles = rig.run(*hours[20 * 24 :])
    assert profiles[1].history_s < 35 * 24 * 600, "a period an hour"
    assert profiles == Rig().run(*hours[6 * 24 :])


def test_new_brokers_take_the_places_of_forged_ones_within_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("learning.models.periods.BROKERS_MAX", 4)
    rig = Rig()
    forged = next(history(1, brokers=(101, 102, 103), first_ms=MONDAY_MS + 60 * HOUR_MS))
    rig.run(*map(record, [*list(history(60, brokers=(1, 2))), forged]))
    periods = list(history(96, brokers=(1, 2, 3)))
    found = rig.run(*map(record, periods[60 * PER_HOUR + 1 : 62 * PER_HOUR]))
    assert (3 in found, rig.counts.brokers_left_out) == (False, 1)
    found = rig.run(*map(record, periods[62 * PER_HOUR : 73 * PER_HOUR]))
    assert (3 in found, rig.counts.brokers_left_out) == (True, 0)


def test_loop_pauses_while_a_topic_does_not_exist(rig: Rig) -> None:
    class Pauses(threading.Event):
        waited: tuple[float | None, ...] = ()

        def wait(self, timeout: float | None = None) -> bool:
            self.waited += (timeout,)
            self.set()
            return True

    class Missing:
        is_at_end = False

        def poll(self, timeout_ms: int) -> Iterator[Record]:
            assert timeout_ms > 0
            return iter(())

    missing: Any = Missing()
    stop = Pauses()
    LearnLoop("c", missing, missing, ProfileWriter(rig.producer, "t", "c", rig.counts), rig.counts).run(stop)
    assert stop.waited == (1.0,)
