"""The doctor's finding about the source of each broker's capacity."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from tuner_cases import broker_signal

from rheostat.config.settings import Settings
from rheostat.doctor import capacities as checks
from rheostat.doctor.findings import Finding, FindingVerdict
from streaming.shared.contract import BrokerProfile, BrokerSignal, LearnedCapacity, LoadForecast
from streaming.shared.kafka.cluster import ClusterError

MB = 1e6
UNKNOWN = "unknown until the tuner has learned it during a move, from the latency of clients"
LINK = "(the speed of the link, from the metrics of the machine)"
CONFIGURED = {
    "in_bytes_per_s": 400 * MB,
    "out_bytes_per_s": 800 * MB,
    "brokers": {3: {"in_bytes_per_s": MB, "out_bytes_per_s": MB}},
}


def settings(**tuner: object) -> Settings:
    return Settings.model_validate(
        {
            "cluster": "c",
            "kafka": {"bootstrap_servers": "k:1"},
            "stream": {"checkpoint_dir": "/tmp/x"},
            "tuner": {"rate_bytes_per_s_max": 1e8, **tuner},
        }
    )


def now_ms() -> int:
    return round(time.time() * 1000)


def signal(broker: int, speed: float | None = None, age_s: float = 0.0) -> BrokerSignal:
    return replace(broker_signal(broker), sampled_at_ms=now_ms() - round(1000 * age_s), link_speed_bytes_per_s=speed)


def profile(
    broker: int, in_bytes_per_s: float | None, out_bytes_per_s: float | None, age_s: float = 0.0
) -> BrokerProfile:
    learned = [None if rate is None else LearnedCapacity(rate, now_ms()) for rate in (in_bytes_per_s, out_bytes_per_s)]
    forecast = LoadForecast((1.0,), (), "persistence")
    made_ms = now_ms() - round(1000 * age_s)
    return replace(
        BrokerProfile("c", broker, made_ms, made_ms - made_ms % 3_600_000, 7 * 86_400.0, client_in=forecast),
        capacity_in=learned[0],
        capacity_out=learned[1],
    )


@pytest.fixture
def find(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Finding]]:
    def examine(
        own: Settings,
        *brokers: int,
        signals: Mapping[int, BrokerSignal] | Exception,
        profiles: Mapping[int, BrokerProfile] | None = None,
    ) -> list[Finding]:
        def read_signals(*_: object) -> Mapping[int, BrokerSignal]:
            if isinstance(signals, Exception):
                raise signals
            return signals

        monkeypatch.setattr(checks, "read_broker_signals", read_signals)
        monkeypatch.setattr(checks, "read_profiles", lambda *_: profiles or {})
        client: Any = object()
        return list(checks.capacities(client, brokers, own))

    return examine


def test_each_source_is_named_with_its_brokers(find: Callable[..., list[Finding]]) -> None:
    (finding,) = find(
        settings(),
        *range(1, 6),
        signals={b: signal(b, 125 * MB) for b in (1, 2, 3)} | {5: signal(5)},
        profiles={3: profile(3, 80 * MB, None), 4: profile(4, 90 * MB, 90 * MB)},
    )
    assert (finding.check, finding.verdict) == ("capacity", FindingVerdict.OK)
    assert finding.found == (
        f"brokers 1, 2: in and out 125 MB/s {LINK}; broker 3: in 80.0 MB/s (learned from the history), and out 125 MB/s {LINK}; "
        f"broker 4: in and out 90.0 MB/s (learned from the history); broker 5: {UNKNOWN}"
    )


def test_stale_link_speeds_and_profiles_do_not_count(find: Callable[..., list[Finding]]) -> None:
    (finding,) = find(
        settings(),
        1,
        2,
        signals={1: signal(1, 125 * MB, age_s=3_600)},
        profiles={2: profile(2, 80 * MB, 80 * MB, age_s=86_400)},
    )
    assert finding.found == f"brokers 1, 2: {UNKNOWN}"


def test_configured_capacity_needs_no_reading(find: Callable[..., list[Finding]]) -> None:
    (finding,) = find(settings(capacity=CONFIGURED), 1, 2, 3, signals=ClusterError("away"))
    assert finding.found == (
        "brokers 1, 2: in 400 MB/s (from tuner.capacity), and out 800 MB/s (from tuner.capacity); broker 3: in and out 1.00 MB/s (from "
        "tuner.capacity)"
    )


@pytest.mark.parametrize(("own", "signals"), [(settings(objective="off"), {}), (settings(), ClusterError("away"))])
def test_no_finding_without_objective_or_readable_topics(
    own: Settings, signals: Mapping[int, BrokerSignal] | Exception, find: Callable[..., list[Finding]]
) -> None:
    assert find(own, 1, signals=signals) == []
