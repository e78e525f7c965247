"""A stream whose metrics topic a test fills, and the check that it lost no record."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import yaml
from kafka import TopicPartition

from rheostat.lab.cluster import Lab
from rheostat.lab.keeper import lab_config
from streaming.shared.contract import BrokerSignal, Metric, NodeRole, Sample, Scrape, Topics, decode_signal
from streaming.shared.kafka.clients import consumer, producer
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.topics import ensure_topics

WORKERS = 2
WINDOW_MS, SLIDE_MS = 30_000, 5_000  # The defaults of the settings.


class FedStream:
    """A stream whose metrics topic gets a scrape of each of two brokers every second."""

    def __init__(
        self, lab: Lab, folder: Path, master: str, conf: Mapping[str, str], checkpoint_dir: str | None = None
    ) -> None:
        self.topics = Topics.with_prefix("rheostat")
        with ClusterClient(lab.kafka_settings(), "test") as client:
            ensure_topics(client, self.topics)
        settings = yaml.safe_load(lab_config(lab))
        settings["stream"] |= {
            "checkpoint_dir": checkpoint_dir or str(folder / "checkpoint"),
            "driver_memory_mb": 512,
            "master": master,
        }
        settings["stream"] |= {"executor_memory_mb": 512, "cores": WORKERS, "spark_conf": dict(conf)}
        settings["collector"]["interval_s"] = 1  # Scrapes closer together than half of it count as one.
        self.config = folder / "rheostat.yaml"
        self.config.write_text(yaml.safe_dump(settings))
        self.sent_ms: list[int] = []
        # Windows are cut by these times of the broker's clock (LogAppendTime), which are some milliseconds later.
        self.stored_ms: dict[int, list[int]] = {1: [], 2: []}
        self._sender = producer(lab.kafka_settings(), "test")
        self._reader = consumer(lab.kafka_settings(), "test")
        self._reader.assign([TopicPartition(self.topics.signals, 0)])
        self._reader.seek_to_end()
        self.found: list[BrokerSignal] = []

    def feed(self) -> None:
        """Sends a scrape of each broker, unless the last one is less than a second old."""
        now_ms = int(time.time() * 1000)
        if self.sent_ms and now_ms - self.sent_ms[-1] < 1000:
            return
        self.sent_ms.append(now_ms)
        answers = {}
        for node in (1, 2):
            one = Scrape("lab", node, NodeRole.BROKER, now_ms, (Sample(Metric.LEADER_COUNT, "", node * 10.0),))
            answers[node] = self._sender.send(self.topics.metrics, key=one.key(), value=one.value(), partition=node - 1)
        for node, answer in answers.items():
            self.stored_ms[node].append(answer.get(timeout=10).timestamp)

    def read(self) -> list[BrokerSignal]:
        """Reads new signals, and returns all."""
        for records in self._reader.poll(timeout_ms=100).values():
            signals = [decode_signal(record.value) for record in records]
            self.found += [one for one in signals if isinstance(one, BrokerSignal)]
        return self.found

    def has_both(self, after_ms: int) -> bool:
        """Feeds, and returns whether signals of both brokers contain a scrape that is newer than ``after_ms``."""
        self.feed()
        return {one.broker for one in self.read() if one.sampled_at_ms > after_ms} == {1, 2}

    def close(self) -> None:
        self._sender.close(timeout=5)
        self._reader.close()


@contextmanager
def fed_stream(
    lab: Lab, folder: Path, master: str, conf: Mapping[str, str], checkpoint_dir: str | None = None
) -> Iterator[FedStream]:
    """Yields a stream that is fed, and closes its clients."""
    fed = FedStream(lab, folder, master, conf, checkpoint_dir)
    try:
        yield fed
    finally:
        fed.close()


def missing_or_wrong_windows(fed: FedStream, last_ms: int) -> list[str]:
    """Returns a text for each window that is missing, or that ends until ``last_ms`` and has not every scrape exactly once.

    A topic may hold scrapes of an earlier test, so the scrapes are counted in windows that begin after the first scrape of this one.
    """
    windows = {(signal.broker, signal.window_end_ms): signal for signal in fed.found}
    whole_from_ms = fed.sent_ms[0] + WINDOW_MS
    ends = {end for _, end in windows if end >= whole_from_ms}
    faults = [f"window {end} is missing" for end in range(min(ends), max(ends) + 1, SLIDE_MS) if end not in ends]
    counted = {key: signal for key, signal in windows.items() if whole_from_ms <= key[1] <= last_ms}
    assert len(counted) >= 4, "too few windows to tell whether a record was lost"
    for (broker, end), signal in sorted(counted.items()):
        sent = sum(end - WINDOW_MS <= at < end for at in fed.stored_ms[broker])
        if signal.samples != sent:
            faults.append(f"window {end} of broker {broker} has {signal.samples} of {sent} scrapes")
    return faults
