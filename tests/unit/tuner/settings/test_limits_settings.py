"""The section `limits`: its values, refused settings, and the size brake of mutation quotas that uses them."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from mutation_rig import controller
from test_settings import GOOD, fault
from tuner_cases import NOW_MS, broker_signal

from rheostat.config.settings import parse_settings
from tuner.control.mutation_quota.model import MutationPolicy
from tuner.control.mutation_quota.total_rate import size_brake_ratio
from tuner.core.controller import cluster_wide_measures
from tuner.core.partition_limits import PRESETS, InternalPartitions, PartitionLimits
from tuner.settings.partition_limits import LimitsSettings

QUOTAS = GOOD + "  mutation_quota: {}\n"


def limits(text: str, environ: dict[str, str] | None = None) -> LimitsSettings:
    return parse_settings(GOOD + text, "f.yaml", environ or {}).limits


def test_missing_limits_section_limits_nothing() -> None:
    assert limits("").limits() == PartitionLimits()
    assert not limits("").are_set


def test_explicit_limits_replace_those_of_preset() -> None:
    section = limits("limits: {preset: msk.2xlarge, max_partitions: 9000, by_broker: {3: 500}}\n")
    assert section.are_set
    assert section.limits() == PartitionLimits(2000, 9000, {3: 500})
    assert limits("limits: {preset: kafka}\n").limits() == PRESETS["kafka"].limits
    assert limits("limits: {max_broker_partitions: 0}\n").limits().for_broker(1) == 0, "zero is a limit too"


def test_every_preset_can_be_named() -> None:
    annotation = LimitsSettings.model_fields["preset"].annotation
    literal = next(option for option in get_args(annotation) if get_args(option))
    assert set(get_args(literal)) == set(PRESETS)


def test_brokers_can_be_set_from_the_environment() -> None:
    assert limits("", {"RHEOSTAT_LIMITS__BY_BROKER": "{2: 7}"}).by_broker == {2: 7}
    assert limits("limits: {max_partitions: 1}\n", {"RHEOSTAT_LIMITS__MAX_PARTITIONS": "5"}).max_partitions == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("limits: {max_partition: 5}\n", "f.yaml:8: limits.max_partition: unknown key: did you mean max_partitions?"),
        ("limits:\n  max_partitions: -1\n", "f.yaml:9: limits.max_partitions: input should be greater than or equal to 0, found -1"),
        ("limits:\n  max_broker_partitions: many\n", "f.yaml:9: limits.max_broker_partitions: input should be a valid integer"),
        ("limits:\n  preset: huge\n", "f.yaml:9: limits.preset: input should be 'kafka', 'msk.t3.small'"),
        ("limits:\n  by_broker:\n    3: some\n", "f.yaml:10: limits.by_broker[3]: input should be a valid integer"),
        ("limits:\n  by_broker:\n    -3: 5\n", "f.yaml:10: limits.by_broker[-3]"),
    ],
)  # fmt: skip
def test_invalid_limit_is_refused_with_its_line(text: str, message: str) -> None:
    assert message in fault(GOOD + text)


# -- the soft brake of the mutation quotas ---------------------------------------------------------------------------------


def policy(text: str) -> MutationPolicy:
    settings = parse_settings(QUOTAS + text, "f.yaml", {})
    found = settings.tuner.mutation_policy(settings.limits.limits())
    assert found is not None
    return found


def test_size_brake_without_own_limit_uses_cluster_limit() -> None:
    assert (policy("").partitions_max, policy("").replicas_max) == (None, None)
    braked = policy("limits: {max_partitions: 1000}\n")
    assert (braked.partitions_max, braked.replicas_max) == (None, 1000)
    assert size_brake_ratio(5000, braked, 900) == 1.0, "replicas are counted, not partitions"
    assert size_brake_ratio(100, braked, 950) == pytest.approx(0.5)
    assert size_brake_ratio(100, braked, 1000) == 0.0
    assert size_brake_ratio(100, braked, None) is None
    assert size_brake_ratio(1, policy("limits: {max_partitions: 0}\n"), 1) == 0.0


def test_size_brake_own_limit_precedes_cluster_limit() -> None:
    text = QUOTAS.replace("{}", "{partitions_max: 100}") + "limits: {max_partitions: 1000}\n"
    settings = parse_settings(text, "f.yaml", {})
    own = settings.tuner.mutation_policy(settings.limits.limits())
    assert own is not None
    assert (own.partitions_max, own.replicas_max) == (100, None)
    assert size_brake_ratio(95, own, 1000) == pytest.approx(0.5)


def test_silent_brokers_count_with_mean_replicas_of_others() -> None:
    signals = {b: replace(broker_signal(b), partitions=100.0 * b) for b in (1, 2, 3)}
    with_fenced = replace(controller(NOW_MS), active=1.0, active_brokers=3.0, fenced_brokers=1.0)
    assert cluster_wide_measures({}, signals, NOW_MS, 15).replicas == 600
    assert cluster_wide_measures({9: with_fenced}, signals, NOW_MS, 15).replicas == 800, (
        "the fourth broker is down and will return"
    )
    signals[3] = replace(signals[3], sampled_at_ms=NOW_MS - 60_000)
    assert cluster_wide_measures({9: with_fenced}, signals, NOW_MS, 15).replicas == 600
    signals[2] = replace(signals[2], partitions=None)
    assert cluster_wide_measures({9: with_fenced}, signals, NOW_MS, 15).replicas is None, (
        "one broker of four says too little about all"
    )
    assert cluster_wide_measures({}, {}, NOW_MS, 15).replicas is None


def test_cluster_replicas_leave_out_internal_topics() -> None:
    signals = {b: replace(broker_signal(b), partitions=100.0) for b in (1, 2)}
    assert (
        cluster_wide_measures({}, signals, NOW_MS, 15, internal=InternalPartitions(50, {1: 30, 2: 20})).replicas == 150
    )
