"""Runs `rheostat learn` as a process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from contextlib import ExitStack
from functools import partial
from typing import Any

import structlog

from learning.runtime.learn_counts import LearnCounts
from learning.runtime.learn_metrics import learn_registry
from learning.runtime.process import LearnLoop
from learning.runtime.profile_writer import ProfileWriter
from learning.runtime.topic_follower import TopicFollower
from rheostat.config.settings import Settings
from rheostat.run.clusters_together import CommonSteps, run_together
from rheostat.run.services import serve_metrics, until_topics
from streaming.shared.heartbeat import Heartbeat
from streaming.shared.kafka import consumer, producer
from streaming.shared.kafka.clients import close_producer
from streaming.shared.process_metrics import ConfigState, ProcessMetricsCollector
from streaming.shared.thread_watch import ThreadWatch

_CLOSE_S_MAX = 5.0
_STEP_S_MAX = 900.0  # To learn five weeks of 1,000 brokers takes a minute of processor time, at the lowest priority.


def run_learn(
    settings: Settings,
    stop: threading.Event,
    heartbeat: Heartbeat,
    config: Callable[[], ConfigState] | None = None,
    threads: ThreadWatch | None = None,
) -> None:
    """Learns from the history of each cluster until ``stop`` is set.

    Raises:
        SetupError: the HTTP port is taken.
    """
    log = structlog.get_logger("learn")
    topics = settings.topic_names()
    counts = {cluster.cluster: LearnCounts() for cluster in settings.for_each_cluster()}
    with ExitStack() as stack:
        process_metrics = ProcessMetricsCollector(settings.cluster, "learn", config, threads=threads)
        registry = learn_registry(counts, process_metrics)
        http_field = serve_metrics(stack, "learn", settings.learn.http, registry, heartbeat)
        until_topics(settings, stop, [topics.history, topics.profiles], heartbeat)
        if stop.is_set():
            return
        sender = producer(settings.kafka, "rheostat-learn", linger_ms=20)
        stack.callback(close_producer, sender, _CLOSE_S_MAX)
        log.info("learn started", clusters=list(counts), **http_field)
        heartbeat.beat(_STEP_S_MAX, "reads the history")
        reports = _LearnReports(heartbeat, counts)
        run_together(
            [partial(_learn, settings, cluster, counts[cluster], sender, stop, reports) for cluster in counts],
            stop,
            name="learn",
        )


def _learn(
    settings: Settings, cluster: str, counts: LearnCounts, sender: Any, stop: threading.Event, reports: _LearnReports
) -> None:
    """Learns from the history of one cluster until ``stop`` is set.

    Args:
        sender: a producer for the metrics cluster.
    """
    topics = settings.topic_names()
    with ExitStack() as stack:

        def follower(topic: str) -> TopicFollower:
            reader = consumer(settings.kafka, "rheostat-learn", auto_offset_reset="earliest")
            stack.callback(reader.close)
            return TopicFollower(reader, topic)

        writer = ProfileWriter(sender, topics.profiles, cluster, counts)
        loop = LearnLoop(cluster, follower(topics.history), follower(topics.profiles), writer, counts)
        loop.run(stop, lambda is_current: reports.stepped(cluster, is_current))


class _LearnReports:
    """Reports the steps of all loops as steps of one process."""

    def __init__(self, heartbeat: Heartbeat, clusters: Collection[str]) -> None:
        self._heartbeat = heartbeat
        self._is_current = dict.fromkeys(clusters, False)
        self._steps = CommonSteps(clusters, _STEP_S_MAX)

    def stepped(self, cluster: str, is_current: bool) -> None:
        """Reports that the process works. Reports nothing while the loop of a cluster hangs."""
        self._is_current[cluster] = is_current
        if self._steps.stepped(cluster):
            are_current = all(self._is_current.values())
            self._heartbeat.beat(_STEP_S_MAX, "the profiles are current" if are_current else None, ready=are_current)
