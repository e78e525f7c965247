"""The history of a real broker: the stream as shipped makes it from the signals topic, and `rheostat history` shows it."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import yaml
from kafka.admin import NewTopic
from lab_parts import RHEOSTAT, Running, rheostat, running, until

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from streaming.history.progress import PROGRESS_KEY, decode_progress
from streaming.shared.contract import (
    PERIOD_S,
    BrokerSignal,
    HistoryPeriod,
    Signal,
    Topics,
    encode_history,
    encode_signal,
    history_key,
    signal_key,
)
from streaming.shared.kafka import consumer, producer
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka.history_topic import HistoryTopic, latest
from streaming.shared.topics import ensure_topics

LAB = LabSpec(brokers=1)
TOPICS = Topics.with_prefix("rheostat")
PERIOD_MS = PERIOD_S * 1000
MADE_S_MAX = 120.0
PERIODS = 3


def config_for(lab: Lab, folder: Path) -> Path:
    settings = yaml.safe_load(lab_config(lab))
    settings["stream"] |= {
        "checkpoint_dir": str(folder / "checkpoint"),
        "driver_memory_mb": 512,
        "http": {"port": None},
    }
    file = folder / "rheostat.yaml"
    file.write_text(yaml.safe_dump(settings))
    return file


def of_broker(end_ms: int, broker: int, rate: float, cluster: str = "lab", *, backlog: bool = False) -> BrokerSignal:
    return BrokerSignal(
        cluster=cluster,
        broker=broker,
        window_end_ms=end_ms,
        sampled_at_ms=end_ms,
        samples=6,
        completeness=1.0,
        client_in_bytes_per_s=rate,
        produce_p99_ms=rate / 1000,
        backlog=backlog,
    )


def write(lab: Lab, signals: Sequence[Signal], *others: tuple[bytes, bytes]) -> None:
    with closing(producer(lab.kafka_settings(), "test")) as sender:
        for key, value in [*((signal_key(one), encode_signal(one)) for one in signals), *others]:
            sender.send(TOPICS.signals, key=key, value=value)
        sender.flush(timeout=20)


def read(lab: Lab, cluster: str = "lab") -> list[HistoryPeriod]:
    with closing(consumer(lab.kafka_settings(), "test")) as reader:
        topic = HistoryTopic(reader, TOPICS.history)
        periods = list(topic.periods(cluster, 0))
        assert topic.refused == 0
        return periods


def rates(periods: Sequence[HistoryPeriod], start_ms: int) -> list[list[tuple[int, int, float | None]]]:
    """Returns (broker, signals, client bytes in) of each broker, for each period from ``start_ms`` on."""
    by_start = {period.start_ms: period for period in latest(periods)}
    return [
        [(b.broker, b.signals, b.client_in_bytes_per_s) for b in by_start[at_ms].brokers] if at_ms in by_start else []
        for at_ms in range(start_ms, start_ms + PERIODS * PERIOD_MS, PERIOD_MS)
    ]


def stopped(run: Running) -> None:
    assert run.end(signal.SIGTERM) == 0
    assert "the history could not be updated" not in run.said()


def test_stream_makes_history_and_repairs_it_after_restart(lab: Lab, tmp_path: Path) -> None:
    with ClusterClient(lab.kafka_settings(), "test") as client:
        ensure_topics(client, TOPICS)
    config = config_for(lab, tmp_path)
    now_ms = int(time.time() * 1000)
    start_ms = now_ms - now_ms % PERIOD_MS - 5 * PERIOD_MS
    ends_ms = [start_ms + n * PERIOD_MS + at_ms for n in range(PERIODS) for at_ms in (5_000, PERIOD_MS)]
    first = [of_broker(end_ms, broker, 1000.0 * broker) for end_ms in ends_ms for broker in (1, 2)]
    again = of_broker(ends_ms[0], 1, 3000.0)  # The same window once more, with a late scrape.
    other = of_broker(ends_ms[0], 7, 7.0, "other")
    write(lab, [*first, again, other], (b"lab|broker|1|%d" % ends_ms[0], b'{"v":2,"kind":"broker"}'), (b"", b"x"))
    with running(*RHEOSTAT, "stream", "--config", config, log=tmp_path / "first.log") as run:
        until(
            lambda: len(latest(read(lab))) == PERIODS, MADE_S_MAX, lambda: f"periods: {run.said()[-3000:]}", every_s=1.0
        )
        until(lambda: read(lab, "other"), 10, "the other cluster's period")
        with closing(consumer(lab.kafka_settings(), "test")) as reader:

            def has_nothing_pending() -> bool:
                stored = next(HistoryTopic(reader, TOPICS.history).newest_values(PROGRESS_KEY, 0), None)
                return stored is not None and decode_progress(stored).pending == ()

            until(has_nothing_pending, 30, "a progress without pending periods")
        stopped(run)
    both = [(1, 2, 1000.0), (2, 2, 2000.0)]
    # The unreadable record is the newest of its window, but does not follow the contract.
    assert rates(read(lab), start_ms) == [[(1, 2, 2000.0), (2, 2, 2000.0)], both, both]

    shown = rheostat("history", "--config", config, "--json", "--broker", "2", "--plot", tmp_path / "plot.svg")
    assert shown.returncode == 0, shown.stderr
    report = json.loads(shown.stdout)
    assert [(row["broker"], row["periods"], row["signals"]) for row in report["brokers"]] == [(2, PERIODS, 2 * PERIODS)]
    assert (tmp_path / "plot.svg").read_text().startswith("<svg")
    table = rheostat("history", "--config", config, "--since", "2h")
    assert table.returncode == 0, table.stderr
    assert "2.00 kB/s" in table.stdout
    nothing = rheostat("history", "--config", config, "--since", "1s")
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert "There is no history for this time" in nothing.stderr

    late = [of_broker(end_ms + 5_000, 1, 9000.0, backlog=True) for end_ms in ends_ms[2:3]]
    write(lab, late)
    before = len(read(lab))
    with running(*RHEOSTAT, "stream", "--config", config, log=tmp_path / "second.log") as run:
        until(lambda: len(read(lab)) > before, MADE_S_MAX, lambda: f"the repair: {run.said()[-3000:]}", every_s=1.0)
        stopped(run)
    assert rates(read(lab), start_ms)[1] == [(1, 3, 3666.7), (2, 2, 2000.0)]
    assert len(read(lab)) == before + 1, "only the touched period is made again"


def test_reader_finds_key_behind_many_records_and_continues(lab: Lab) -> None:
    topic = "read.history"
    with lab.admin() as admin:
        admin.create_topics([NewTopic(topic, 2, 1)])
    now_ms = int(time.time() * 1000)
    periods = [HistoryPeriod(cluster="lab", start_ms=now_ms - n * PERIOD_MS) for n in (3, 2, 1)]
    with closing(producer(lab.kafka_settings(), "test")) as sender:

        def send(key: bytes, value: bytes, partition: int = 0) -> None:
            sender.send(topic, key=key, value=value, partition=partition).get(timeout=20)

        send(PROGRESS_KEY, b"old")
        send(PROGRESS_KEY, b"new")
        for _ in range(700):
            sender.send(topic, key=b"other|1", value=b"{}", partition=0)
        sender.flush(timeout=20)
        send(history_key(periods[0]), encode_history(periods[0]))
        send(history_key(periods[1]), b"not a period")
        with closing(consumer(lab.kafka_settings(), "test")) as reader:
            history = HistoryTopic(reader, topic)
            assert list(history.newest_values(PROGRESS_KEY, 0)) == [b"new", b"old"]
            assert list(history.newest_values(PROGRESS_KEY, now_ms + 3_600_000)) == []
            assert list(history.periods("lab", now_ms - 9 * PERIOD_MS)) == periods[:1]
            assert history.refused == 1
            assert list(history.periods("lab", periods[0].end_ms)) == [], "it ended before"
            send(history_key(periods[2]), encode_history(periods[2]), 1)
            found: list[HistoryPeriod] = []
            until(lambda: found.extend(history.new_periods("lab")) or found, 20, "the new period")
            assert found == periods[2:]


def test_reader_of_missing_topic_has_no_records(lab: Lab) -> None:
    with closing(consumer(lab.kafka_settings(), "test")) as reader:
        history = HistoryTopic(reader, "missing.history")
        assert list(history.periods("lab", 0)) == []
        assert list(history.new_periods("lab", timeout_ms=100)) == []
        assert list(history.newest_values(PROGRESS_KEY, 0)) == []
