"""Tests the topic-create latency that a command measures in a few seconds, and its use in `rheostat quotas`."""

from __future__ import annotations

import random

import pytest
from fake_asker import FakeAsker
from mutation_rig import START_MS, controller, tenant

from rheostat.config.settings import parse_settings
from rheostat.quotas.live import evaluate_now
from rheostat.quotas.probe import probe_create_p90_ms
from tuner.control.mutation_quota.entity import QuotaEntity
from tuner.control.mutation_quota.state import MutationMemory
from tuner.core.operator_orders import Orders
from tuner.core.quota_window import QuotaWindow
from tuner.runtime.observe.signals_reader import SignalCache


def felt(asker: FakeAsker) -> float | None:
    def sleep(seconds: float) -> None:
        asker.now_s += seconds

    return probe_create_p90_ms(asker, rng=random.Random(1), monotonic=asker.monotonic, sleep=sleep)


def test_probe_measures_latency_within_seconds() -> None:
    asker = FakeAsker(takes_s=0.02)
    assert felt(asker) == pytest.approx(20.0)
    assert asker.now_s < 5


def test_probe_on_large_cluster_uses_five_brokers() -> None:
    asker = FakeAsker(brokers_there=tuple(range(1, 1001)))
    assert felt(asker) == pytest.approx(10.0)
    assert len(set(asker.met)) == 5


def test_probe_without_answers_ends_soon() -> None:
    asker = FakeAsker(silent={1, 2, 3})
    assert felt(asker) is None
    assert asker.now_s <= 15
    asker = FakeAsker(takes_s=3.0)
    assert felt(asker) is None
    assert asker.now_s <= 15


@pytest.mark.parametrize(
    ("given", "windows", "held_back"),
    [("", {QuotaWindow()}, False), ("", {QuotaWindow(60)}, True), ("quota_samples: 11", {QuotaWindow(60)}, False)],
)
def test_evaluate_now_uses_bucket_size_like_tuner(given: str, windows: set[QuotaWindow], held_back: bool) -> None:
    """30 tokens at 10/s fill a quarter of an 11 s bucket and a twentieth of a 60 s bucket."""
    text = f"""
    cluster: c
    kafka: {{bootstrap_servers: "k:9092"}}
    stream: {{checkpoint_dir: /var/lib/rheostat}}
    tuner:
      rate_bytes_per_s_max: 50_000_000
      mutation_quota: {{{given}}}
    """
    signals = SignalCache()
    signals.add(controller(START_MS))
    signals.add(tenant(START_MS, 8.0, 30.0, user="alice"))
    settings, stands = parse_settings(text, "f.yaml", {}), {QuotaEntity("alice"): 10.0}
    found = evaluate_now(settings, stands, signals, MutationMemory(), Orders(), START_MS, windows=windows)
    assert [row["throttled"] for row in found["tenants"]] == [held_back]


@pytest.mark.parametrize(("create_p90_ms", "pressure", "said"), [(30.0, 0.75, False), (None, 0.04 / 0.7, True)])
def test_evaluate_now_without_probe_omits_its_objective(
    create_p90_ms: float | None, pressure: float, said: bool
) -> None:
    """The tuner would hold without this measurement; the command evaluates the other objectives."""
    text = """
    cluster: c
    kafka: {bootstrap_servers: "k:9092"}
    stream: {checkpoint_dir: /var/lib/rheostat}
    tuner:
      rate_bytes_per_s_max: 50_000_000
      mutation_quota: {objective: {create_probe_p90_ms_max: 40}}
    """
    signals = SignalCache()
    signals.add(controller(START_MS, idle=0.96))
    settings = parse_settings(text, "f.yaml", {})
    found = evaluate_now(settings, {}, signals, MutationMemory(), Orders(), START_MS, create_p90_ms)
    assert found["pressure"] == pytest.approx(pressure)
    assert any("create_probe_p90_ms_max" in held for held in found["holds"]) is said
