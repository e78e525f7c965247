"""Lag diagnoses in /status, /api/v1/status and on the page, with the matrix of fetcher threads."""

from __future__ import annotations

from dataclasses import replace

from api_rig import Rig
from metrics_rig import lag_diagnosis, replication_signal
from tuner_cases import NOW_MS

from tuner.api.lag_status_store import BROKERS_NAMED_MAX
from tuner.control.replication_lag.view import LagView
from tuner.core.cluster import LiveCluster

DIAGNOSIS = replace(
    lag_diagnosis(NOW_MS), text="the replicas on broker 4 lag <b>: run `rheostat fetchers --apply`", sources=(1,)
)


def publish(rig: Rig, count: int = 1) -> None:
    signals = {b: replication_signal(b, NOW_MS) for b in range(4, 4 + count)}
    diagnoses = [replace(DIAGNOSIS, broker=broker) for broker in signals]
    rig.lag.publish(LagView(NOW_MS, signals, {}, LiveCluster(frozenset())), diagnoses)


def test_status_before_first_evaluation_is_unknown() -> None:
    rig = Rig()
    rig.cycle()
    for path in ("/status", "/api/v1/status"):
        assert rig.get(path).json()["replication_lag"] == {
            "observed_at_ms": None, "lagging_brokers": None, "lagging": None,
        }  # fmt: skip


def test_status_without_lag_is_an_empty_list() -> None:
    rig = Rig()
    rig.cycle()
    publish(rig, 0)
    assert rig.get("/status").json()["replication_lag"]["lagging"] == []


def test_status_has_the_diagnosis_with_its_figures() -> None:
    rig = Rig()
    rig.cycle()
    publish(rig)
    for path in ("/status", "/api/v1/status"):
        (row,) = rig.get(path).json()["replication_lag"]["lagging"]
        assert row == {
            "broker": 4, "reason": "lag_fetcher_bound", "text": DIAGNOSIS.text, "growing": True, "lag_messages": 900.0,
            "lag_s": 4.0, "usual_messages": None, "since_ms": NOW_MS - 60_000, "sources": [1],
            "client_id": "ReplicaFetcherThread-0-1", "topic": "orders", "partition": 3, "better_fetchers": 5,
        }  # fmt: skip


def test_status_of_many_lagging_brokers_has_the_first_fifty() -> None:
    rig = Rig()
    rig.cycle()
    publish(rig, 60)
    found = rig.get("/status").json()["replication_lag"]
    assert (found["lagging_brokers"], len(found["lagging"])) == (60, BROKERS_NAMED_MAX)


def test_page_shows_cause_and_matrix_of_threads() -> None:
    rig = Rig()
    rig.cycle()
    assert "Fetcher threads by follower" not in rig.get("/page/replication").text
    publish(rig)
    page = rig.get("/page/replication").text
    assert "The replicas on broker 4 lag &lt;b&gt;: run <code>rheostat fetchers --apply</code>." in page
    assert "Fetcher threads by follower and source broker" in page
    publish(rig, 0)
    assert "rheostat fetchers --apply" not in rig.get("/page/replication").text
