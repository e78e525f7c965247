"""Only one of two tuners of a cluster acts. A standby takes over from a silent leader, which may not write when it resumes."""

from __future__ import annotations

import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from lab_parts import RHEOSTAT, Running, running, until

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.node import free_ports
from streaming.shared.contract import Side, Topics
from streaming.shared.kafka import consumer, producer
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.lease import SESSION_S, lease_group
from streaming.shared.topics import ensure_topics
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.journal import topic_reader
from tuner.journal.entries import Entry
from tuner.journal.kafka_journal import JournalError, JournalLost, KafkaJournal
from tuner.journal.transactions import transactional_settings
from tuner.runtime.throttle.actuator import KafkaThrottles

LAB = LabSpec(brokers=2)
STAYS_S = 12.0  # Six times what a quarrel takes.
TAKE_OVER_S_MAX = 15.0
KEEPS = "a tuner joined or left the group: this tuner keeps the lease and continues"
LEFT_S_MAX = SESSION_S / 2  # Less than the time-out of a session.
PAUSE_S_MAX = 6.0  # A heartbeat of each member and a look of the newcomer, twice on a busy machine.
SIDE = (1, Side.LEADER)


class Tuner:
    def __init__(self, run: Running, port: int) -> None:
        self.run, self.port = run, port

    def says(self) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=2) as got:
                return str(got.read().decode())
        except urllib.error.HTTPError as error:
            return error.read().decode()
        except OSError:
            return ""

    def acts(self) -> bool:
        """Returns whether the tuner has observed the cluster in this term; without signals it logs that."""
        return "no broker signal has arrived yet" in self.says()

    def stands_by(self) -> bool:
        return "standing by" in self.says()

    def terms(self) -> int:
        """Returns how often the tuner has begun to act."""
        return len(self.told("active"))

    def told(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.run.lines() if line["event"] == event]


@pytest.fixture
def two(lab: Lab, tmp_path: Path) -> Iterator[tuple[Tuner, Tuner]]:
    first, second = (config(lab, tmp_path / f"{name}.yaml") for name in ("a", "b"))
    with running(*RHEOSTAT, "tune", "--config", first[0], log=tmp_path / "a.log") as a:
        one = Tuner(a, first[1])
        until(one.acts, 30, "the first acts")
        with running(*RHEOSTAT, "tune", "--config", second[0], log=tmp_path / "b.log") as b:
            other = Tuner(b, second[1])
            until(other.stands_by, 30, "the second stands by")
            until(lambda: members(lab) == 2, 20, "both are members, and those that another test has killed are not")
            yield one, other
            for tuner in (one, other):
                if tuner.run.alive():
                    tuner.run.end(signal.SIGTERM)  # Else the next test waits for the end of its session.


def config(lab: Lab, path: Path) -> tuple[Path, int]:
    port = free_ports(1)[0]
    path.write_text(lab_config(lab, http={"port": port}))
    return path, port


def test_suspended_tuner_is_replaced_and_stays_inactive_after_wake(two: tuple[Tuner, Tuner]) -> None:
    leader, stand_by = two
    leader.run.process.send_signal(signal.SIGSTOP)
    try:
        until(stand_by.acts, TAKE_OVER_S_MAX, "the stand-by takes over")
    finally:
        leader.run.process.send_signal(signal.SIGCONT)
    until(leader.stands_by, 20, "the old leader stands by")
    # On a machine that is busy it may have been dealt the lease a second time, and lost it; a look later it says so.

    def lost() -> list[str]:
        return [line["holder"] for line in leader.run.lines() if "all writes stopped" in line["event"]]

    def acted() -> list[str]:
        return [line["holder"] for line in leader.told("active")]

    until(lambda: lost() and lost() == acted(), 10, "each term of it is said to be over")
    until(stand_by.acts, TAKE_OVER_S_MAX, "the stand-by acts")
    assert "Traceback" not in leader.run.said() + stand_by.run.said()

    # As a new member of the group the old leader may be given the lease again; what must not be is that both go on to think
    # that they have it, and take the journal from each other for ever.
    watched_s, terms = time.monotonic() + STAYS_S, leader.terms() + stand_by.terms()
    until(lambda: time.monotonic() > watched_s, 2 * STAYS_S, "the time is over in which they could quarrel")
    assert leader.terms() + stand_by.terms() - terms <= 3, (
        leader.run.said(),
        stand_by.run.said(),
    )  # A quarrel: one every two seconds.
    until(lambda: leader.acts() != stand_by.acts(), TAKE_OVER_S_MAX, "one of them acts")


def members(lab: Lab) -> int:
    group = lease_group("lab")
    with lab.admin() as admin:
        return len(admin.describe_groups([group])[group]["members"])


def test_holder_keeps_the_lease_while_others_come_and_go(lab: Lab, two: tuple[Tuner, Tuner], tmp_path: Path) -> None:
    """Three standbys join one after another and leave again. Then both tuners are restarted, the standby first."""
    holder, first_stand_by = two
    with stand_by(lab, tmp_path, "c", of=3) as c, stand_by(lab, tmp_path, "d", of=4) as d:
        for leaving in (d, c):
            assert leaving.run.end(signal.SIGTERM) == 0
    until(lambda: members(lab) == 2, LEFT_S_MAX, "both have left the group", is_bound=True)
    assert first_stand_by.run.end(signal.SIGTERM) == 0
    with stand_by(lab, tmp_path, "b2", of=2) as successor:
        assert holder.terms() == 1, holder.run.said()
        assert holder.told(KEEPS), "it says that it waited"
        assert all(kept["paused_s"] < PAUSE_S_MAX for kept in holder.told(KEEPS)), holder.told(KEEPS)
        assert holder.run.end(signal.SIGTERM) == 0
        left = "it has left the group; else its session would have to time out"
        until(lambda: members(lab) == 1, LEFT_S_MAX, left, is_bound=True)
        until(successor.acts, TAKE_OVER_S_MAX, "the stand-by takes over")
        with stand_by(lab, tmp_path, "a2", of=2) as last:
            until(lambda: successor.told(KEEPS), 10, "the new holder keeps the lease, too")
            terms = [tuner.terms() for tuner in (holder, first_stand_by, c, d, successor, last)]
            assert terms == [1, 0, 0, 0, 1, 0], "a rolling restart hands the lease over once"
            until(successor.acts, 10, "the new holder acts")


@contextmanager
def stand_by(lab: Lab, tmp_path: Path, name: str, *, of: int) -> Iterator[Tuner]:
    """A tuner that has joined a group of then ``of`` members, and does not act."""
    file, port = config(lab, tmp_path / f"{name}.yaml")
    with running(*RHEOSTAT, "tune", "--config", file, log=tmp_path / f"{name}.log") as run:
        tuner = Tuner(run, port)
        until(tuner.stands_by, 30, f"{name} stands by")
        until(lambda: members(lab) == of, 20, f"{name} is a member")
        yield tuner


def test_dry_run_tuner_runs_beside_the_acting_one(lab: Lab, two: tuple[Tuner, Tuner], tmp_path: Path) -> None:
    leader, _ = two
    file, port = config(lab, tmp_path / "dry.yaml")
    with running(*RHEOSTAT, "tune", "--dry-run", "--config", file, log=tmp_path / "dry.log") as dry:
        on_looker = Tuner(dry, port)
        until(on_looker.acts, 30, "the dry run sees the cluster")
        assert on_looker.told("dry run: the tuner decides, but writes nothing")
        until(leader.acts, 10, lambda: f"the leader acts: {leader.says()} {leader.run.said()}")


def journal(lab: Lab, name: str) -> KafkaJournal:
    made = producer(
        lab.kafka_settings(), f"test-{name}", linger_ms=0, transactional_id="rheostat-tuner-test", retry_backoff_ms=20
    )
    return KafkaJournal(made, Topics.with_prefix("rheostat").journal, "test", holder=name, fenced=True)


def recovered(lab: Lab, of: KafkaJournal) -> Memory:
    reader = consumer(lab.kafka_settings(), "test-recovery", isolation_level="read_committed")
    try:
        return of.recover(reader)
    finally:
        reader.close(timeout_ms=2000)


def test_reader_waits_for_records_behind_open_transaction(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another tuner died during a write: Kafka hides all later records until its transaction is aborted."""
    topics = Topics.with_prefix("open")
    with ClusterClient(lab.kafka_settings(), "test") as client:
        ensure_topics(client, topics)
    killed = producer(lab.kafka_settings(), "test-killed", transactional_id="another", transaction_timeout_ms=60_000)
    ours = KafkaJournal(
        producer(lab.kafka_settings(), "test-ours", transactional_id="ours"),
        topics.journal,
        "test",
        holder="ours",
        fenced=True,
    )
    owned = {SIDE: OwnedRate(None, 5, (5,))}
    try:
        killed.init_transactions()
        killed.begin_transaction()
        killed.send(topics.journal, key=b"of another cluster", value=b"1").get(timeout=10)
        ours.take_over()
        ours.write(owned=owned)
        monkeypatch.setattr(topic_reader, "SILENCE_S_MAX", 3.0)
        with pytest.raises(JournalError, match="before the end of the topic: a transaction is open in it"):
            recovered(lab, ours)
        monkeypatch.undo()
        killed.abort_transaction()
        assert recovered(lab, ours).owned == owned
    finally:
        killed.close(timeout=2)
        ours.close()


@pytest.mark.campaign
def test_open_transaction_of_killed_tuner_is_aborted_in_time(lab: Lab) -> None:
    topics = Topics.with_prefix("killed")
    with ClusterClient(lab.kafka_settings(), "test") as client:
        ensure_topics(client, topics)
    killed = producer(lab.kafka_settings(), "test-killed", **transactional_settings("killed"))
    try:
        killed.init_transactions()
        killed.begin_transaction()
        killed.send(topics.journal, key=b"of the tuner that is killed", value=b"1").get(timeout=10)
        reader = consumer(lab.kafka_settings(), "test-recovery", isolation_level="read_committed")
        try:
            assert KafkaJournal.read_only(topics.journal, "test").recover(reader) == Memory()
        finally:
            reader.close(timeout_ms=2000)
    finally:
        killed.close(timeout=2)


def test_only_newest_epoch_writes_and_uncommitted_records_do_not_count(lab: Lab) -> None:
    with ClusterClient(lab.kafka_settings(), "test") as client:
        ensure_topics(client, Topics.with_prefix("rheostat"))
        old, new = journal(lab, "old"), journal(lab, "new")
        entry = Entry(1, "decision", "hold", "watching", "well")
        try:
            old.take_over()
            old.write([entry], memory=Memory(throttled=True), owned={SIDE: OwnedRate(None, 5, (5,))})
            new.take_over()
            with pytest.raises(JournalLost):
                old.write([entry], memory=Memory(), owned={SIDE: OwnedRate(None, 7, (7,))})
            assert old.lost
            with pytest.raises(JournalLost):
                old.prove_ownership()
            assert recovered(lab, new) == Memory(throttled=True, owned={SIDE: OwnedRate(None, 5, (5,))})
            new.write(owned={SIDE: OwnedRate(None, 9, (9,))})
            assert new.proof_age_s() < 5.0
            assert recovered(lab, new).owned == {SIDE: OwnedRate(None, 9, (9,))}
            assert KafkaThrottles(client).read_rates([SIDE]) == {SIDE: None}
        finally:
            old.close()
            new.close()
