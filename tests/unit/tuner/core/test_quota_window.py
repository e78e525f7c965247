"""The quota window that all brokers share sets the size of token buckets, and so which tenants are throttled."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from fake_quotas import FakeQuotas
from mutation_rig import START_MS, controller, tenant
from test_cluster_reader import FakeClusterClient, reader_of
from test_mutation_quota_controller import ALICE, Rig

from streaming.shared.kafka.cluster import ClusterError, ConfigValue, PartitionState, Unreachable
from tuner.control.mutation_quota.model import MutationLimits, MutationPolicy, with_broker_window
from tuner.core.partition_limits import InternalPartitions
from tuner.core.quota_window import QuotaWindow
from tuner.runtime.observe.cluster_reader import read_quota_windows

NUM, SIZE = "controller.quota.window.num", "controller.quota.window.size.seconds"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({QuotaWindow(21, 2.0)}, (21, 2.0)),
        ({QuotaWindow()}, (11, 1.0)),
        ({QuotaWindow(21, 2.0), QuotaWindow()}, (7, 3.0)),  # The brokers disagree: the policy keeps its own.
        (set(), (7, 3.0)),
    ],
)
def test_window_common_to_all_brokers_is_used(found: set[QuotaWindow], expected: tuple[int, float]) -> None:
    policy = MutationPolicy(
        limits=MutationLimits(samples=7, window_s=3.0, external_change_hold_s=60.0), adopt_existing=False
    )
    made = with_broker_window(policy, found)
    assert (made.limits.samples, made.limits.window_s) == expected
    assert (made.limits.external_change_hold_s, made.adopt_existing) == (60.0, False)


def test_equal_window_is_the_same_policy() -> None:
    policy = MutationPolicy()
    assert with_broker_window(policy, {QuotaWindow()}) is policy


class ClientWithQuotaWindows(FakeClusterClient):
    """A client of brokers with a configured quota window."""

    def __init__(self, configs: dict[int, dict[str, str] | ClusterError]) -> None:
        super().__init__({})
        self.configs = configs
        self.keys: set[str] = set()

    def broker_configs(self, brokers: Iterable[int], keys: Iterable[str]) -> dict[int, dict[str, ConfigValue]]:
        self.keys = set(keys)
        found = {broker: self.configs.get(broker, {}) for broker in brokers}
        return {
            broker: configs  # type: ignore[misc]  # The real client returns errors as well.
            if isinstance(configs, ClusterError)
            else {key: ConfigValue(value, 4) for key, value in configs.items()}
            for broker, configs in found.items()
        }


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ({}, {QuotaWindow()}),
        ({1: {NUM: "21"}, 2: {NUM: "21"}, 3: {NUM: "21"}}, {QuotaWindow(21)}),
        ({1: {NUM: "21", SIZE: "2"}}, {QuotaWindow(21, 2.0), QuotaWindow()}),
        ({1: {SIZE: "5"}, 2: {SIZE: "5"}, 3: Unreachable("broker 3 does not answer")}, {QuotaWindow(11, 5.0)}),
    ],
)
def test_quota_windows_are_read_by_full_snapshots_only(
    configs: dict[int, dict[str, str] | ClusterError], expected: set[QuotaWindow]
) -> None:
    client = ClientWithQuotaWindows(configs)
    reader = reader_of(client)
    reader.snapshot(full=False)
    assert reader.quota_windows == set()
    reader.snapshot(full=True)
    assert reader.quota_windows == expected
    assert {NUM, SIZE} <= client.keys
    # Commands read the windows alone.
    assert read_quota_windows(client) == expected  # type: ignore[arg-type]  # The only calls it makes.
    # The next full snapshot reads them again, not a partial one.
    client.configs = {broker: {NUM: "99"} for broker in (1, 2, 3)}
    reader.snapshot(full=False)
    assert reader.quota_windows == expected


@pytest.mark.parametrize(("window", "held_back"), [(QuotaWindow(), False), (QuotaWindow(samples=60), True)])
def test_backlog_is_judged_by_size_of_token_bucket(window: QuotaWindow, held_back: bool) -> None:
    """30 tokens at 10/s fill a quarter of a bucket of 11 s, and a twentieth of one of 60 s."""
    rig = Rig(FakeQuotas({ALICE: 10.0}), windows=lambda: {window})
    rig.signals.controllers = {1: controller(START_MS)}
    rig.signals.tenants = {(1, "alice", None): tenant(START_MS, 8.0, 30.0, user="alice")}
    rig.cycle()
    [share] = rig.observer.seen[-1][1].shares
    assert share.backlogged is held_back


def test_internal_partitions_are_counted_by_full_snapshots() -> None:
    class Client(FakeClusterClient):
        def partitions(self, topics: Iterable[str] | None = None) -> list[PartitionState]:
            offsets = [PartitionState("__consumer_offsets", p, 1, (1, 2), (1, 2)) for p in range(3)]
            return [*super().partitions(topics), *(offsets if topics is None else [])]

    reader = reader_of(Client({}))
    reader.snapshot(full=False)
    assert reader.internal == InternalPartitions()
    reader.snapshot(full=True)
    assert reader.internal == InternalPartitions(3, {1: 3, 2: 3})
