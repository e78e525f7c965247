"""LINE's New Year on real brokers: a hot topic falls out of the ISR in normal traffic, because its partitions share fetcher threads.

Li Yan Kit, Wilson (LINE): "Replication Bottleneck of topic receiving huge traffic". The placement is that of the slides, shrunk to
four brokers: leaders and followers in turn. Two fetcher threads are a factor of the number of brokers, so partitions 0 and 4 share a
thread, and 1 and 5. The brokers replicate over a path with a round-trip time of 0.6 s, and one answer has 384 kB. So one thread
copies about 0.6 MB/s, where one of LINE's copied about 1 Gbit/s. The round trip is long so that a busy machine, which answers a tenth
of a second later, hardly changes this.

`RHEOSTAT_SCREENSHOTS=1` writes the plot of the story with the tuner into the documentation.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from alerts_kit import watched
from kafka.admin import NewTopic
from lab_parts import RHEOSTAT, rheostat, running, until
from slow_path_kit import SlowPathLab

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.load import ProducerLoad
from rheostat.line_chart import COLOURS, Line, Mark, Panel, svg
from streaming.shared.fetcher_threads import client_id
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.units import size_text
from tuner.core.fetchers import fetcher_id

TOPIC, BROKERS, FETCHERS, BETTER = "timeline", 4, 2, 3
ROUND_TRIP_S, ANSWER_BYTES = 0.6, 384_000
# Bytes/s that clients write before the new year, and what they write besides after it.
EVENING, MIDNIGHT = 900_000, 1_500_000
ISR_LAG_S = 10
PICTURES = Path(__file__).parents[2] / ".lab" / "stories"
PLOT = Path(__file__).parents[2] / "docs" / "images" / "hot-topic.svg"


def replicas_in_turn(partition: int) -> list[int]:
    """Returns the placement of LINE's slides: leader and followers in turn, the followers one further after each round."""
    shift = partition // BROKERS
    return [1 + (place + partition) % BROKERS for place in (3, shift, 1 + shift)]


PLACEMENT = {p: replicas_in_turn(p) for p in range(6)}
LAB = LabSpec(
    brokers=BROKERS,
    broker_settings={
        "num.replica.fetchers": str(FETCHERS),
        "replica.fetch.max.bytes": str(ANSWER_BYTES),
        "replica.fetch.response.max.bytes": str(ANSWER_BYTES),
        "replica.lag.time.max.ms": str(1000 * ISR_LAG_S),
    },
)


@dataclass
class LagRecord:
    """The lag of the topic's replicas, once a second.

    Attributes:
        colliding: bytes that the replicas on shared threads lack, together; ``others``: all other replicas.
        out_of_sync: replicas outside the ISR.
        written: bytes in the leaders' logs.
    """

    began_s: float = field(default_factory=time.monotonic)
    times_s: list[float] = field(default_factory=list)
    written: list[int] = field(default_factory=list)
    colliding: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)
    out_of_sync: list[int] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)

    def mark(self, label: str) -> None:
        self.marks.append(Mark(time.monotonic() - self.began_s, label))

    def sample(self, client: ClusterClient) -> None:
        sizes = client.log_sizes(range(1, BROKERS + 1), [(TOPIC, p) for p in PLACEMENT])
        known = {broker: size for broker, size in sizes.items() if not isinstance(size, ClusterError)}
        if len(known) < BROKERS:  # A broker did not answer in time.
            return
        states = client.partitions([TOPIC])
        lags = {True: 0, False: 0}
        for p, (leader, *followers) in PLACEMENT.items():
            for follower in followers:
                lags[(p, follower) in COLLIDING] += max(0, known[leader][(TOPIC, p)] - known[follower][(TOPIC, p)])
        self.written.append(sum(known[leader][(TOPIC, p)] for p, (leader, *_) in PLACEMENT.items()))
        self.times_s.append(time.monotonic() - self.began_s)
        self.colliding.append(lags[True])
        self.others.append(lags[False])
        self.out_of_sync.append(sum(len(s.replicas) - len(s.isr) for s in states))

    def writes_bytes_per_s(self) -> float:
        """Returns what clients wrote in the last seconds."""
        if len(self.times_s) < 6:
            return 0.0
        return (self.written[-1] - self.written[-6]) / (self.times_s[-1] - self.times_s[-6])

    def summary(self, evening: float, found_s: float) -> str:
        return (
            f"named after {found_s:.0f} s; replicas on shared threads lacked {evening / 1e6:.1f} MB before, "
            f"{max(self.colliding) / 1e6:.1f} MB at most, {self.colliding[-1] / 1e6:.1f} MB after; all others "
            f"{max(self.others) / 1e6:.1f} MB at most; {max(self.out_of_sync)} replicas out of the ISR at most\n"
        )

    def picture(self) -> str:
        panels = [
            Panel(
                "What replicas lack",
                (
                    Line("on shared threads", self.colliding, COLOURS[1]),
                    Line("all others", self.others, COLOURS[0]),
                ),
                size_text,
            ),
            Panel(
                "Replicas out of the ISR",
                (Line("replicas", self.out_of_sync, COLOURS[2], stepped=True),),
                lambda n: f"{n:g}",
            ),
        ]
        return svg(
            "A hot topic, and fetcher threads that collide",
            f"{BROKERS} brokers, {len(PLACEMENT)} partitions in turn, num.replica.fetchers={FETCHERS} at first",
            self.times_s,
            panels,
            time_label="time",
            marks=self.marks,
            caption=(
                "When clients write more, only replicas on threads that copy two partitions fall behind, and leave the ISR. "
                "`rheostat fetchers --watch` and the tuner name the thread. After num.replica.fetchers=3 each partition has a thread of its own, and the replicas "
                "catch up."
            ),
        )


# Replicas whose thread copies two partitions of the topic.
COLLIDING = {
    (p, follower)
    for p, (leader, *followers) in PLACEMENT.items()
    for follower in followers
    if sum(
        leader == other[0] and follower in other and fetcher_id(TOPIC, q, FETCHERS) == fetcher_id(TOPIC, p, FETCHERS)
        for q, other in PLACEMENT.items()
    )
    > 1
}


@contextmanager
def recorded(lab: Lab) -> Iterator[LagRecord]:
    record, done = LagRecord(), threading.Event()

    def run() -> None:
        with ClusterClient(lab.kafka_settings(), "test-record") as client:
            while not done.wait(1.0):
                record.sample(client)

    thread = threading.Thread(target=run, name="lag-record", daemon=True)
    thread.start()
    try:
        yield record
    finally:
        done.set()
        thread.join(timeout=20)


def load(lab: Lab, rate_bytes_per_s: float) -> ProducerLoad:
    # With acks=1, as for the logs of a service: clients with acks=all would wait for the followers, and write less.
    properties = ("acks=1", "batch.size=16000", "linger.ms=20")
    return ProducerLoad(
        lab.artifacts, lab.bootstrap_servers, TOPIC, rate_bytes_per_s=rate_bytes_per_s, properties=properties
    )


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_hot_topic_lags_until_its_fetcher_threads_are_parted(tmp_path: Path) -> None:
    assert len(COLLIDING) == 4
    with (
        SlowPathLab(LAB, round_trip_s=ROUND_TRIP_S) as lab,
        watched(lab, tmp_path) as scene,
    ):
        parts = scene.parts
        with lab.admin() as admin:
            admin.create_topics([NewTopic(TOPIC, replica_assignments=PLACEMENT)])
        parts.until("rheostat is ready", lambda: (s := parts.status()) and s["ready"], 240)
        with recorded(lab) as record, load(lab, EVENING):
            parts.until("the lag is judged", lambda: judged(parts.status()), 60)
            parts.until("half a minute of the evening", lambda: len(record.times_s) >= 30, 60)
            evening = max(record.colliding)
            assert lagging(parts.status()) == []
            assert record.out_of_sync[-1] == 0

            with load(lab, MIDNIGHT):
                parts.until("clients write more", lambda: record.writes_bytes_per_s() > EVENING + MIDNIGHT / 2, 60)
                midnight_s = time.monotonic()
                record.mark("new year: much more writes")
                found = parts.until("the collision is named", lambda: bottleneck(parts.status()), 60)
                record.mark("the tuner names the thread")
                found_s = time.monotonic() - midnight_s
                check_diagnosis(found)
                parts.until("replicas leave the ISR", lambda: record.out_of_sync[-1] > 0, 60)
                told = scene.hears("ticket", "FetcherBottleneck", 60)
                assert "`rheostat fetchers --apply`" in told

                record.mark("rheostat fetchers --apply")
                applied = rheostat(
                    "fetchers", "-c", parts.config, "--apply", "--yes", "--observe-for", "20s", timeout_s=120
                )
                assert applied.returncode == 0, applied.stderr
                assert "num.replica.fetchers=3 is in force on broker 1, 2, 3, 4, read back." in applied.stderr
                parts.until(
                    "all replicas are in sync, and lack as little as in the evening",
                    lambda: caught_up(record, evening),
                    180,
                )
                record.mark("all replicas in sync")
                parts.until("the diagnosis ends", lambda: lagging(parts.status()) == [], 60)
                scene.hears_the_end_of("FetcherBottleneck", 90)
        save(record, "hot-topic-tuner", record.summary(evening, found_s))
        assert found_s <= 60
        assert max(record.others) < max(record.colliding) / 2
    if os.environ.get("RHEOSTAT_SCREENSHOTS"):
        PLOT.write_text(record.picture(), encoding="utf-8")


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_hot_topic_is_found_and_ended_by_commands_alone(tmp_path: Path) -> None:
    with SlowPathLab(LAB, round_trip_s=ROUND_TRIP_S) as lab:
        config = tmp_path / "rheostat.yaml"
        config.write_text(lab_config(lab))
        with lab.admin() as admin:
            admin.create_topics([NewTopic(TOPIC, replica_assignments=PLACEMENT)])
        ask = ("fetchers", "-c", config)
        with recorded(lab) as record, load(lab, EVENING):
            until(lambda: record.writes_bytes_per_s() > 0.8 * EVENING, 60, "clients write")
            evening_samples = len(record.times_s)
            until(lambda: len(record.times_s) >= evening_samples + 20, 60, "twenty seconds of the evening")
            evening = max(record.colliding[evening_samples:])
            assert record.out_of_sync[-1] == 0

            with (
                load(lab, MIDNIGHT),
                running(*RHEOSTAT, *ask, "--watch", "--json", log=tmp_path / "watch.log") as watch,
            ):
                until(lambda: record.writes_bytes_per_s() > EVENING + MIDNIGHT / 2, 60, "clients write more")
                midnight_s = time.monotonic()
                record.mark("new year: much more writes")
                found = until(lambda: collision_seen(watch.lines()), 60, "the collision is named")
                found_s = time.monotonic() - midnight_s
                record.mark("rheostat fetchers --watch names the thread")
                thread = fetcher_id(TOPIC, found["busiest_partition"]["partition"], FETCHERS)
                assert (found["busiest_partition"]["topic"], found["thread"]) == (TOPIC, thread)
                assert (found["busiest_partition"]["partition"], found["follower"]) in COLLIDING
                until(lambda: record.out_of_sync[-1] > 0, 60, "replicas leave the ISR")

                record.mark("rheostat fetchers --apply")
                applied = rheostat(*ask, "--apply", "--yes", "--observe-for", "20s", timeout_s=180)
                assert applied.returncode == 0, applied.stderr
                assert "num.replica.fetchers=3 is in force on broker 1, 2, 3, 4, read back." in applied.stderr
                until(lambda: caught_up(record, evening), 180, "all replicas are in sync, as in the evening")
                record.mark("all replicas in sync")
                assert watch.end(signal.SIGINT) == 0
        save(record, "hot-topic", record.summary(evening, found_s))
        assert max(record.others) < max(record.colliding) / 2


def collision_seen(lines: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Returns the row of the worst collision in the newest line, once its lag is more than a fetch under way."""
    if not lines or lines[-1]["worst_collision"] is None or lines[-1]["best"] != BETTER:
        return None
    worst = tuple(lines[-1]["worst_collision"].values())
    row: dict[str, Any] = next(r for r in lines[-1]["threads"] if (r["follower"], r["client_id"]) == worst)
    return row if (row["lag_bytes"] or 0) > 1e6 else None


def caught_up(record: LagRecord, evening: float) -> bool:
    return record.out_of_sync[-1] == 0 and record.colliding[-1] <= max(2 * evening, 1e6)


def save(record: LagRecord, name: str, summary: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    (PICTURES / f"{name}.svg").write_text(record.picture(), encoding="utf-8")
    (PICTURES / f"{name}.txt").write_text(summary, encoding="utf-8")


def judged(status: dict[str, Any] | None) -> bool:
    return status is not None and status["replication_lag"]["lagging"] is not None


def lagging(status: dict[str, Any] | None) -> list[dict[str, Any]]:
    assert status is not None
    rows: list[dict[str, Any]] = status["replication_lag"]["lagging"] or []
    return rows


def bottleneck(status: dict[str, Any] | None) -> dict[str, Any] | None:
    return next((row for row in lagging(status) if row["reason"] == "lag_fetcher_bound"), None) if status else None


def check_diagnosis(row: dict[str, Any]) -> None:
    [source] = row["sources"]
    thread = fetcher_id(TOPIC, row["partition"], FETCHERS)
    assert (row["partition"], row["broker"]) in COLLIDING
    assert row["client_id"] == client_id(thread, source)
    assert row["better_fetchers"] == BETTER
    assert f"with num.replica.fetchers={BETTER} these partitions would have different threads" in row["text"]
