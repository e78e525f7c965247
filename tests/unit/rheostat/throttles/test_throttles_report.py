"""The rows of `rheostat throttles`: owner, age, traffic and removal of each throttle, and what `clear` may remove."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console
from tuner_cases import NOW_MS, F, L, move, owned, throttle

from rheostat.throttles.clear import clear_throttles
from rheostat.throttles.report import AuditRow, ThrottleHistory, Traffic, throttle_rows
from rheostat.throttles.view import show, summary
from streaming.shared.kafka.cluster import ClusterError
from streaming.shared.throttle_settings import ThrottledReplicas, TopicThrottle
from tuner.control.throttle.audit import AbsentReplicas, LostReplicas, RateSource, ThrottleSettings
from tuner.control.throttle.state import Memory, RateSince
from tuner.core.cluster import BrokerSide
from tuner.core.operator_orders import Orders, Override
from tuner.core.outcome import CHANGED_EXTERNALLY
from tuner.core.throttle_limits import MB
from tuner.journal.entries import Entry

RATE = (5 * MB, RateSource.BROKER)
HOUR_MS = 3_600_000
EVERY = ThrottledReplicas(all_replicas=True)
LEFTOVERS = ThrottleSettings(
    {(1, L): RATE, (2, F): (7 * MB, RateSource.FILE)}, {F: 6 * MB}, {"logs": throttle([(0, 1)], [(0, 2), (1, 2)])}
)


def rows(settings: ThrottleSettings, traffic: Traffic | None = None, **history: Any) -> list[AuditRow]:
    known = ThrottleHistory(history.pop("memory", Memory()), history.pop("orders", Orders()), **history)
    return throttle_rows(settings, known, traffic or {}, NOW_MS)


def entry(action: str, age_ms: int, **decision: Any) -> Entry:
    return Entry(NOW_MS - age_ms, "outcome", action, "any", "text", decision)


def test_leftovers_of_other_tools_can_be_cleared() -> None:
    result = rows(LEFTOVERS)
    assert [(row.name, row.value_text, row.owner, row.can_be_cleared) for row in result] == [
        ("broker 1 leader throttle", "5.00 MB/s", "other", True),
        ("broker 2 follower throttle", "7.00 MB/s", "broker file", False),
        ("all brokers follower throttle", "6.00 MB/s", "other", True),
        ("topic logs leader list", "1 replica", "other", True),
        ("topic logs follower list", "2 replicas", "other", True),
    ]
    assert "server.properties of broker 2" in result[1].removal
    assert result[0].setting == "leader.replication.throttled.rate"


@pytest.mark.parametrize(
    "protected",
    [
        {"settings": replace(LEFTOVERS, rates={(1, L): RATE}, default_rates={}, lists={}, moves=(move(),))},
        {"memory": Memory(owned={(1, L): owned(None, 5 * MB)})},
        {"orders": Orders(overrides={(1, L): Override(5 * MB, NOW_MS + 1, "kim")})},
    ],
    ids=["serves-a-move", "managed", "override"],
)  # fmt: skip
def test_throttles_in_use_cannot_be_cleared(protected: dict[str, Any]) -> None:
    first = rows(protected.pop("settings", LEFTOVERS), **protected)[0]
    assert (first.broker, first.can_be_cleared) == (1, False)
    assert "clear`" not in first.removal.replace("override --clear`", "")


def test_expired_override_does_not_protect_a_throttle() -> None:
    orders = Orders(overrides={(1, L): Override(5 * MB, NOW_MS - 1, "kim")})
    assert rows(LEFTOVERS, orders=orders)[0].can_be_cleared


def test_list_with_entries_of_rheostat_cannot_be_cleared() -> None:
    memory = Memory(listed={"logs": throttle((), [(0, 2)])})
    leader, follower = rows(LEFTOVERS, memory=memory)[-2:]
    assert (leader.can_be_cleared, follower.can_be_cleared) == (True, False)


def test_list_of_a_lost_replica_serves_recovery() -> None:
    settings = replace(LEFTOVERS, lost=(LostReplicas("logs", 1, 1, (2,)),))
    leader, follower = rows(settings)[-2:]
    assert (leader.serves, follower.serves) == ("nothing", "recovery")
    assert "in sync" in follower.removal


def test_throttles_of_a_lost_replica_name_commands_that_remove_them() -> None:
    settings = ThrottleSettings(
        {(1, L): (6 * MB, RateSource.DEFAULT), (2, F): RATE},
        {L: 6 * MB},
        {"logs": throttle([(1, 1)], [(1, 2)])},
        lost=(LostReplicas("logs", 1, 1, (2,)),),
    )
    result = rows(settings)
    assert {row.serves for row in result} == {"recovery"}
    begin = "kafka-configs --bootstrap-server $BOOTSTRAP --alter --entity-type"
    assert [row.removal.split("`")[1] for row in result] == [
        f"{begin} brokers --entity-name 2 --delete-config follower.replication.throttled.rate",
        f"{begin} brokers --entity-default --delete-config leader.replication.throttled.rate",
        f"{begin} topics --entity-name logs --delete-config leader.replication.throttled.replicas",
        f"{begin} topics --entity-name logs --delete-config follower.replication.throttled.replicas",
    ]


def test_throttles_set_for_the_return_of_a_broker_cannot_be_cleared() -> None:
    """KIP-73's recipe for broker 3, which is down: rates of the leaders, and all replicas on both lists."""
    settings = ThrottleSettings(
        {(1, L): RATE, (2, L): RATE},
        lists={"logs": TopicThrottle(EVERY, EVERY)},
        absent=(AbsentReplicas("logs", 0, (1, 2, 3), (3,)),),
    )
    result = rows(settings)
    assert [(row.serves, row.can_be_cleared) for row in result] == [("absent", False)] * 4
    assert all("until the broker is back" in row.removal and "--delete-config" in row.removal for row in result)
    assert "a replica whose broker or disk is offline" in text_of(result)
    assert summary(result).startswith("4 throttle settings; each of them serves")


def test_since_comes_from_the_journal_or_the_first_idle_cycle() -> None:
    memory = Memory(
        idle_rates_since={(1, L): RateSince(5 * MB, NOW_MS - HOUR_MS)},
        idle_lists_since_ms={"logs": NOW_MS - 9 * HOUR_MS},
    )
    changed = entry("relinquish", 2 * HOUR_MS, broker=1, side="leader")
    assert [(row.since_ms, row.since_is_exact) for row in rows(LEFTOVERS, memory=memory, entries=(changed,))] == [
        (NOW_MS - HOUR_MS, False),  # It has been set again after the recorded change.
        (None, False),
        (None, False),
        (NOW_MS - 9 * HOUR_MS, False),
        (NOW_MS - 9 * HOUR_MS, False),
    ]
    steering = Entry(NOW_MS - 5, "steering", "set", "any", "text", {"rates": [[1, "leader", 4, 5 * MB]]})
    listed = entry("add_pairs", 7, topics=[["logs", "0:1", ""]])
    recorded = rows(LEFTOVERS, memory=memory, entries=(changed, steering, listed))
    assert (recorded[0].since_ms, recorded[0].since_is_exact) == (NOW_MS - 5, True)
    assert (recorded[3].since_ms, recorded[3].since_is_exact) == (NOW_MS - 7, True)


def test_rate_with_another_value_is_not_the_one_first_seen() -> None:
    memory = Memory(idle_rates_since={(1, L): RateSince(4 * MB, NOW_MS - HOUR_MS)})
    assert rows(LEFTOVERS, memory=memory)[0].since_ms is None


def test_dry_run_and_failed_entries_do_not_date_a_throttle() -> None:
    dry = replace(entry("set", 5, broker=1, side="leader"), dry_run=True)
    failed = replace(entry("set", 4, broker=1, side="leader"), failure="refused")
    assert rows(LEFTOVERS, entries=(dry, failed))[0].since_ms is None


def text_of(result: list[AuditRow]) -> str:
    console = Console(file=io.StringIO(), width=300)
    show(result, console, NOW_MS)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_table_shows_traffic_age_and_removal() -> None:
    memory = Memory(idle_rates_since={(1, L): RateSince(5 * MB, NOW_MS - 2 * HOUR_MS)})
    shown = text_of(rows(LEFTOVERS, {(1, L): 1.5 * MB}, memory=memory))
    (line,) = [line for line in shown.splitlines() if line.lstrip().startswith("broker 1")]
    for part in (
        "5.00 MB/s",
        "another tool or an operator",
        "at least 2 h",
        "nothing",
        "1.50 MB/s",
        "rheostat throttles clear",
    ):
        assert part in line
    assert "5 throttle settings; 5 of them serve neither a move" in shown


def test_summary_of_a_cluster_without_throttles() -> None:
    assert summary([]) == "No replication throttle is set in this cluster."
    serving = rows(ThrottleSettings({(1, L): RATE}, moves=(move(),)))
    assert (
        summary(serving)
        == "1 throttle setting; each of them serves a move, or a replica that catches up or is offline."
    )


class FakeThrottles:
    """A cluster's throttles; ``changed`` settings have another value by now, and ``refused`` ones cannot be changed."""

    def __init__(self, settings: ThrottleSettings, refused: tuple[object, ...] = ()) -> None:
        self.rates: dict[BrokerSide, int] = {side: rate for side, (rate, _) in settings.rates.items()}
        self.lists = dict(settings.lists)
        self.defaults = {
            f"{side.value}.replication.throttled.rate": str(r) for side, r in settings.default_rates.items()
        }
        self.refused = refused
        self.writes: list[object] = []

    def read_rates(self, sides: Any) -> dict[BrokerSide, Any]:
        return {side: self.rates.get(side) for side in sides}

    def write_rates(self, rates: Any) -> dict[BrokerSide, str | None]:
        self.writes += rates
        return {side: "refused" if side in self.refused else None for side in rates}

    def confirm_rates(self, rates: Any) -> dict[BrokerSide, str | None]:
        return dict.fromkeys(rates)

    def clear_lists(self, topic: str, sides: Any, decided_on: TopicThrottle) -> str | None:
        if self.lists[topic] != decided_on:
            return CHANGED_EXTERNALLY
        self.writes += [(topic, *sides)]
        return "refused" if topic in self.refused else None

    def default_config(self, key: str) -> str | None:
        return self.defaults.get(key)

    def alter_default_config(self, key: str, _: None) -> ClusterError | None:
        self.writes.append(key)
        return ClusterError("refused") if key in self.refused else None


def clear(cluster: FakeThrottles) -> list[str | None]:
    clearable = [row for row in rows(LEFTOVERS) if row.can_be_cleared]
    return [removal.failure for removal in clear_throttles(clearable, LEFTOVERS, cluster, cluster)]  # type: ignore[arg-type]


def test_log_dir_rate_is_shown_with_its_traffic_and_can_be_cleared_when_idle() -> None:
    settings = ThrottleSettings(log_dir_rates={1: RATE, 2: RATE}, log_dir_copies=frozenset({2}))
    idle, used = rows(settings, {(1, None): 0.0, (2, None): 3.0 * MB})
    assert (idle.name, idle.kind, idle.can_be_cleared) == ("broker 1 log directory throttle", "log_dir_rate", True)
    assert (used.serves, used.passing_bytes_per_s, used.can_be_cleared) == ("moves", 3.0 * MB, False)


def test_managed_log_dir_rate_is_not_cleared_and_shows_its_last_change() -> None:
    settings = ThrottleSettings(log_dir_rates={1: RATE, 2: RATE})
    change = Entry(NOW_MS - 5_000, "intent", "set_log_dir", "clients_well", "text", {"broker": 1})
    history = ThrottleHistory(Memory(), Orders(), (change,), managed_log_dirs=frozenset({1}))
    managed, other = throttle_rows(settings, history, {}, NOW_MS)
    assert (managed.owner, managed.can_be_cleared, managed.since_ms) == ("rheostat", False, NOW_MS - 5_000)
    assert (other.owner, other.can_be_cleared, other.since_ms) == ("other", True, None)


def test_lists_are_removed_before_rates() -> None:
    cluster = FakeThrottles(LEFTOVERS)
    assert clear(cluster) == [None] * 4
    assert cluster.writes == [("logs", L), ("logs", F), (1, L), "follower.replication.throttled.rate"]


def test_rates_stay_while_a_list_could_not_be_removed() -> None:
    cluster = FakeThrottles(LEFTOVERS, refused=("logs",))
    failures = clear(cluster)
    assert failures[:2] == ["refused"] * 2
    assert all("a throttled-replica list is still set" in str(failure) for failure in failures[2:])
    assert cluster.writes == [("logs", L), ("logs", F)]


def test_settings_changed_meanwhile_are_left_alone() -> None:
    cluster = FakeThrottles(LEFTOVERS)
    cluster.rates[1, L] = 9 * MB
    cluster.defaults = {}
    assert clear(cluster) == [None, None, CHANGED_EXTERNALLY, CHANGED_EXTERNALLY]
    cluster.lists["logs"] = TopicThrottle(EVERY)
    assert clear(cluster)[:2] == [CHANGED_EXTERNALLY] * 2
