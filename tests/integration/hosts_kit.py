"""Hosts that run rheostat for one cluster, and what the tests of their stand-by read from the cluster's topics."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import yaml
from kafka import KafkaConsumer, TopicPartition
from lab_parts import RHEOSTAT, Running, running, until

from rheostat.lab.cluster import Lab
from rheostat.lab.keeper import lab_config
from rheostat.lab.node import free_ports
from streaming.shared.contract import Metric, Topics
from streaming.shared.kafka.clients import consumer

PARTS = ("collector", "stream", "tuner")
TOPICS = Topics.with_prefix("rheostat")


class Host:
    """One host with its own settings file, ports and checkpoint. ``command`` is what it runs."""

    def __init__(
        self, lab: Lab, folder: Path, name: str, command: str = "run", *, interval_s: float = 5, **tuner: Any
    ) -> None:
        self.name = name
        self.ports: dict[str, int] = {}
        self._settings = yaml.safe_load(lab_config(lab, **tuner))
        self._settings["collector"] |= {"interval_s": interval_s}
        self._settings["stream"] |= {"checkpoint_dir": str(folder / f"checkpoint-{name}")}
        self._settings["learn"] = {"enabled": False}
        self.config = folder / f"{name}.yaml"
        self._command = command
        self._folder = folder
        self._runs = ExitStack()
        self._count = 0
        self.run: Running | None = None

    def start(self) -> None:
        # Ports that were free minutes ago may be in use by a broker's connection now.
        self.ports = dict(zip(PARTS, free_ports(3), strict=True))
        for part, port in self.ports.items():
            self._settings[part]["http"] = {"port": port}
        self.config.write_text(yaml.safe_dump(self._settings))
        self._count += 1
        log = self._folder / f"{self.name}-{self._count}.log"
        self.run = self._runs.enter_context(running(*RHEOSTAT, self._command, "--config", self.config, log=log))

    def close(self) -> None:
        self._runs.close()

    def stop(self) -> None:
        assert self.run is not None
        assert self.run.end(signal.SIGTERM, 30) == 0, self.run.said()[-2000:]

    def send(self, number: signal.Signals) -> None:
        """Sends a signal to each process of the host."""
        assert self.run is not None
        for process in [psutil.Process(self.run.pid), *self.run.descendants()]:
            with suppress(psutil.NoSuchProcess):  # A short-lived child has ended since the list was made.
                process.send_signal(number)

    def metric(self, part: str, name: str) -> float | None:
        """Returns the value of a metric with one series; None if the part does not serve it."""
        if part not in self.ports:
            return None
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[part]}/metrics", timeout=2) as answer:
                lines = answer.read().decode().splitlines()
        except OSError:
            return None
        found = [line for line in lines if line.startswith(f"{name}{{")]
        return float(found[0].rpartition(" ")[2]) if found else None

    def is_active(self, *parts: str) -> bool:
        return all(self.metric(part, f"rheostat_{part}_active") == 1 for part in parts or PARTS)

    def is_standby(self, *parts: str) -> bool:
        return all(self.metric(part, f"rheostat_{part}_active") == 0 for part in parts or PARTS)

    def said(self) -> str:
        return f"{self.name}:\n{self.run.said()[-3000:] if self.run else ''}"


@contextmanager
def hosts(*made: Host) -> Iterator[None]:
    try:
        yield
    finally:
        for host in made:
            host.close()


class TopicReader:
    """Reads the JSON records of a topic from its beginning, in a thread."""

    def __init__(self, lab: Lab, topic: str) -> None:
        self._consumer: KafkaConsumer = consumer(lab.kafka_settings(), "test")
        self._topic = topic
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.records: list[tuple[int, str, dict[str, Any]]] = []  # Kafka's time in ms, key, value.

    def __enter__(self) -> TopicReader:
        numbers = until(lambda: self._consumer.partitions_for_topic(self._topic), 60, f"topic {self._topic} exists")
        partitions = [TopicPartition(self._topic, number) for number in numbers]
        self._consumer.assign(partitions)
        self._consumer.seek_to_beginning(*partitions)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join(10)
        self._consumer.close()

    def _run(self) -> None:
        while not self._done.is_set():
            for records in self._consumer.poll(timeout_ms=200).values():
                self.records += [(one.timestamp, one.key.decode(), json.loads(one.value)) for one in records]


def first_fresh_signal_s(signals: TopicReader, since_ms: int) -> float | None:
    """Returns the seconds from a time to the first broker signal that holds a later scrape; None as long as there is none."""
    times = (
        at for at, _, value in list(signals.records) if value["kind"] == "broker" and value["sampled_at_ms"] > since_ms
    )
    first_ms = next(times, None)
    return None if first_ms is None else (first_ms - since_ms) / 1000


def scrape_times_ms(metrics: TopicReader, *, by_kafka: bool = False) -> dict[int, list[int]]:
    """Returns the times of the scrapes of each broker, in order.

    A record without the values of the broker's agent is none: the agent has not answered in time, as on a busy machine.

    Args:
        by_kafka: the times at which Kafka appended the records, which decide on their windows; otherwise those of the collector.
    """
    times = defaultdict(list)
    for appended_ms, _, value in list(metrics.records):
        if any(sample["n"] == Metric.CLIENT_IN for sample in value["samples"]):
            times[value["node"]].append(appended_ms if by_kafka else value["ts"])
    return {node: sorted(found) for node, found in times.items()}


def repeated_signals(signals: TopicReader) -> tuple[int, list[str]]:
    """Returns the number of signals that are in the topic more than once, and those that a later record made worse, with the changed values.

    A later record may include a newer scrape, for example the first of another collector in the same window. Otherwise it is equal.
    """
    values = defaultdict(list)
    for _, key, value in list(signals.records):
        values[key].append(value)
    repeated = {key: found for key, found in values.items() if len(found) > 1}
    worse = [
        f"{key}: " + ", ".join(f"{name} {old.get(name)} → {new[name]}" for name in new if new[name] != old.get(name))
        for key, found in repeated.items()
        for old, new in pairwise(found)
        if new != old and (new["samples"] < old["samples"] or new["sampled_at_ms"] <= old["sampled_at_ms"])
    ]
    return len(repeated), worse


def missing_windows(signals: TopicReader, metrics: TopicReader, until_ms: int, slide_ms: int = 5000) -> list[str]:
    """Returns the windows of brokers that end soonest after a scrape's record of before ``until_ms``, and that have no signal.

    Windows before the first signal do not count: a stream without a checkpoint begins at the end of the metrics topic.
    """
    ends = {
        (value["broker"], value["window_end_ms"]) for _, _, value in list(signals.records) if value["kind"] == "broker"
    }
    first_ms = min(end for _, end in ends)
    expected = {
        (node, at_ms - at_ms % slide_ms + slide_ms)
        for node, times in scrape_times_ms(metrics, by_kafka=True).items()
        if any(node == broker for broker, _ in ends)
        for at_ms in times
        if first_ms <= at_ms < until_ms
    }
    return [f"{node}|{end}" for node, end in sorted(expected - ends)]


def report(text: str) -> None:
    """Writes a measured figure to the test's output."""
    sys.stdout.write(f"{text}\n")


def now_ms() -> int:
    return int(time.time() * 1000)


def wait_for(probe: Callable[[], bool], timeout_s: float, what: str, *watched: Host) -> None:
    until(probe, timeout_s, lambda: "\n".join([what, *(host.said() for host in watched)]))
