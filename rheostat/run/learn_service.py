"""Runs `rheostat learn` as a process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack

import structlog

from learning.runtime.learn_counts import LearnCounts
from learning.runtime.learn_metrics import learn_registry
from learning.runtime.process import LearnLoop
from learning.runtime.profile_writer import ProfileWriter
from learning.runtime.topic_follower import TopicFollower
from rheostat.config.settings import Settings
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
    """Learns from the history until ``stop`` is set.

    Raises:
        SetupError: the HTTP port is taken.
    """
    log = structlog.get_logger("learn")
    topics = settings.topic_names()
    counts = LearnCounts()
    with ExitStack() as stack:
        process_metrics = ProcessMetricsCollector(settings.cluster, "learn", config, threads=threads)
        registry = learn_registry(settings.cluster, counts, process_metrics)
        http_field = serve_metrics(stack, "learn", settings.learn.http, registry, heartbeat)
        until_topics(settings, stop, [topics.history, topics.profiles], heartbeat)
        if stop.is_set():
            return

        def follower(topic: str) -> TopicFollower:
            reader = consumer(settings.kafka, "rheostat-learn", auto_offset_reset="earliest")
            stack.callback(reader.close)
            return TopicFollower(reader, topic)

        sender = producer(settings.kafka, "rheostat-learn", linger_ms=20)
        stack.callback(close_producer, sender, _CLOSE_S_MAX)
        writer = ProfileWriter(sender, topics.profiles, settings.cluster, counts)
        log.info("learn started", cluster=settings.cluster, **http_field)
        loop = LearnLoop(settings.cluster, follower(topics.history), follower(topics.profiles), writer, counts)

        def stepped(is_current: bool) -> None:
            status = "the profiles are current" if is_current else None
            heartbeat.beat(_STEP_S_MAX, status, ready=is_current)

        heartbeat.beat(_STEP_S_MAX, "reads the history")
        loop.run(stop, stepped)
