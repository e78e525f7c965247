"""A history with changes: `rheostat learn`'s models find them, Prometheus sees them, and Alertmanager notifies readers of a channel."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from lab_parts import until
from monitoring_kit import AlertReceiver, Monitoring

from learning.runtime.learn_counts import LearnCounts
from learning.runtime.learn_metrics import learn_registry
from rheostat.lab.node import free_ports
from streaming.metrics_server import serve
from streaming.shared.contract import BrokerHistory
from streaming.shared.process_metrics import ProcessMetricsCollector

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

from learning_cases import HOUR_MS, book_of, history, learn

HOURS = 330


@pytest.mark.campaign
def test_changes_in_the_history_fire_notices(tmp_path: Path) -> None:
    def change(broker: BrokerHistory, hour: int) -> BrokerHistory:
        lag = (broker.lag_sum_messages or 0.0) * (10 if hour == HOURS - 1 and broker.broker == 1 else 1)
        slow = broker.broker == 2 and hour >= HOURS - 30
        return replace(broker, lag_sum_messages=lag, produce_p99_ms=40.0 if slow else broker.produce_p99_ms)

    first_ms = (round(time.time() * 1000) // HOUR_MS - HOURS) * HOUR_MS
    learner = learn(book_of(history(HOURS, first_ms=first_ms, change=change)))
    with _watched(LearnCounts(events=tuple(learner.recent_events())), tmp_path) as ear:
        told = until(
            lambda: ear.heard("LastingChangeFound", measure="client_latency", broker="2"), 60, "a change is told"
        )
        assert told.receiver == "notice"
        assert (
            "the measure client_latency of broker 2 has for several hours been clearly higher or lower"
            in told.description
        )
        told = until(
            lambda: ear.heard("UnusualValueFound", measure="replication_lag", broker="1"),
            60,
            "an unusual value is told",
        )
        assert "was at least twice as high as usual at this hour" in told.description


@pytest.mark.campaign
def test_history_that_ended_hours_ago_fires_notice(tmp_path: Path) -> None:
    with _watched(LearnCounts(learned_to_s=time.time() - 4 * 3600), tmp_path) as ear:
        told = until(lambda: ear.heard("ProfilesStale"), 60, "old profiles are told")
        assert told.receiver == "notice"
        assert "The newest hour in the profiles of cluster c ended 4h " in told.description


@contextmanager
def _watched(counts: LearnCounts, folder: Path) -> Iterator[AlertReceiver]:
    """Serves the metrics of learn to Prometheus, whose alerts reach the yielded receiver."""
    server = serve(learn_registry({"c": counts}, ProcessMetricsCollector("c", "learn")), "127.0.0.1", 0)
    try:
        # The page stands in for the tuner's, so that the shipped configuration scrapes it.
        ports = dict(zip(("rheostat-collector", "rheostat-stream"), free_ports(2), strict=True))
        with Monitoring(folder / "monitoring", ports | {"rheostat-tuner": server.port}) as monitoring:
            yield monitoring.ear
    finally:
        server.close()
