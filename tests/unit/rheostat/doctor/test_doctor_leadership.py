"""`rheostat doctor` about preferred leaders: whether Kafka or rheostat elects them, and the advice."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rheostat.config.settings import Settings
from rheostat.doctor.findings import Finding, FindingVerdict
from rheostat.doctor.leadership import leadership
from streaming.shared import kafka_names
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, ConfigValue

CHECK_S, PERCENT = kafka_names.LEADER_CHECK_S, kafka_names.LEADER_IMBALANCE_PERCENT


def findings(
    values: dict[int, str | ClusterError | None], mode: str, details: dict[int, dict[str, str]] | None = None
) -> list[Finding]:
    class Client:
        def broker_configs(self, brokers: Iterable[int], keys: Iterable[str]) -> dict[int, Any]:
            key, *others = keys
            answers: dict[int, Any] = {}
            if others:
                if details is None:
                    return {broker: ClusterError("no right") for broker in brokers}
                return {b: {k: ConfigValue(v, 4) for k, v in details[b].items()} for b in brokers}
            for broker in brokers:
                value = values[broker]
                known = {} if value is None else {key: ConfigValue(str(value), 4)}
                answers[broker] = value if isinstance(value, ClusterError) else known
            return answers

    settings = cast("Settings", SimpleNamespace(tuner=SimpleNamespace(leadership=mode)))
    return list(leadership(cast("ClusterClient", Client()), list(values), settings))


@pytest.mark.parametrize(
    ("values", "mode", "verdict", "texts"),
    [
        ({1: None, 2: None}, "watch", FindingVerdict.OK, ["is true on all brokers", "3 to 10 times", "tuner.leadership: act"]),
        ({1: "true", 2: "false"}, "act", FindingVerdict.ADVICE, ["is true on broker 1)", "So rheostat elects no leaders"]),
        ({1: "false", 2: "false"}, "act", FindingVerdict.OK, ["is false): rheostat elects them"]),
        ({1: "false", 2: "false"}, "watch", FindingVerdict.OK, ["no program elects them until tuner.leadership is act"]),
    ],
)  # fmt: skip
def test_finding_says_who_elects(
    values: dict[int, str | ClusterError | None], mode: str, verdict: FindingVerdict, texts: list[str]
) -> None:
    (finding,) = findings(values, mode)
    assert finding.verdict is verdict
    assert [text for text in texts if text not in finding.found] == []
    assert ("brokers and controllers" in finding.do) == (verdict is FindingVerdict.ADVICE)


@pytest.mark.parametrize(
    ("details", "text"),
    [
        (
            {1: {}, 2: {}},
            f"its other partitions; Kafka looks for such partitions every 300 s ({CHECK_S} of the brokers; ",
        ),
        ({1: {CHECK_S: "1"}, 2: {CHECK_S: "1"}}, "every 1 s ("),
        ({1: {CHECK_S: "10"}, 2: {}}, "every 10 to 300 s ("),
        ({1: {PERCENT: "5"}, 2: {}}, f", and {PERCENT} has no effect in KRaft mode. Meanwhile"),
        (None, "its other partitions. Meanwhile"),
    ],
)
def test_finding_says_how_often_kafka_looks(details: dict[int, dict[str, str]] | None, text: str) -> None:
    (finding,) = findings({1: "true", 2: "true"}, "watch", details)
    assert text in finding.found


def test_unreadable_setting_is_left_to_other_checks() -> None:
    assert findings({1: "true", 2: ClusterError("no right")}, "act") == []
