"""`rheostat doctor` about the brokers' replication quota: advice on the length of its samples and of its window."""

from __future__ import annotations

from collections.abc import Iterable

from rheostat.doctor.cluster import quota_window
from streaming.shared.kafka.cluster import ClusterError, ConfigValue

NUM, SIZE = "replication.quota.window.num", "replication.quota.window.size.seconds"
STATIC = 4


class FakeClient:
    def __init__(self, configs: dict[int, dict[str, str] | ClusterError]) -> None:
        self._configs = configs

    def broker_configs(self, brokers: Iterable[int], _: object) -> dict[int, dict[str, ConfigValue] | ClusterError]:
        def answer(broker: int) -> dict[str, ConfigValue] | ClusterError:
            configs = self._configs[broker]
            if isinstance(configs, ClusterError):
                return configs
            return {key: ConfigValue(value, STATIC) for key, value in configs.items()}

        return {broker: answer(broker) for broker in brokers}


def advice(configs: dict[int, dict[str, str] | ClusterError]) -> dict[str, str]:
    return {finding.check: finding.found for finding in quota_window(FakeClient(configs), sorted(configs))}  # type: ignore[arg-type]


def test_longer_samples_are_named_with_their_brokers() -> None:
    found = advice({1: {NUM: "3", SIZE: "2"}, 2: {NUM: "3"}, 3: {NUM: "3", SIZE: "1"}})
    assert list(found) == ["quota samples"]
    assert "broker 1: 2 s)" in found["quota samples"]


def test_default_window_is_advised_against_for_readable_brokers() -> None:
    found = advice({1: {}, 2: {NUM: "3"}, 3: ClusterError("no answer")})
    assert list(found) == ["quota window"]
    assert "on brokers 1" in found["quota window"]
    assert advice({2: {NUM: "3"}}) == {}
