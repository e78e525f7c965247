"""The screen of `rheostat status --watch`, and the state that is kept between refreshes."""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from command_rig import Command
from reassign_rig import Rig as Executor
from reassign_rig import still
from rich.console import Console
from tuner_cases import NOW_MS, SOURCE, TARGET, broker_signal, live, move_signal, owned

from rheostat.config.settings import Settings, parse_settings
from rheostat.status.evaluation import StatusEvaluator
from rheostat.status.journal import JournalFollower, JournalState
from rheostat.status.plans import PlansPane
from rheostat.status.readings import FurtherReadings
from rheostat.status.report import status_json
from rheostat.status.screen import RateHistory, render_screen, spark
from rheostat.status.tenants import TenantsPane
from streaming.shared.contract import MoveSignal, MoveStep, Signal
from streaming.shared.kafka.cluster import ClusterError
from tuner.api.sentences import moment
from tuner.control.mutation_quota.entity import QuotaEntity
from tuner.control.mutation_quota.state import MutationMemory
from tuner.control.throttle.state import Memory
from tuner.core.cluster import LiveCluster
from tuner.core.operator_orders import Orders, Override, Pause
from tuner.core.plan_progress import Progress
from tuner.core.presence import TunerMode, TunerPresence
from tuner.core.reassignment_plan import ReassignmentSnapshot, TopicPartition
from tuner.core.throttle_limits import MB
from tuner.journal.entries import Entry, encode_entry, encode_memory, entry_key, memory_key
from tuner.journal.order_records import encode_orders, orders_key
from tuner.journal.topic_reader import JournalRecord
from tuner.runtime.observe.signals_reader import SignalCache


def settings_of(more: str = "") -> Settings:
    text = (
        "cluster: lab\nkafka: {bootstrap_servers: 'x:1'}\nstream: {checkpoint_dir: /x}\n"
        f"tuner: {{rate_bytes_per_s_max: 50000000{more}}}\n"
    )
    return parse_settings(text, "f.yaml", {})


SETTINGS = settings_of(", objective: 'off'")
STEERED = settings_of(", objective: {latency_ms: 30}, capacity: {in_bytes_per_s: 1e9, out_bytes_per_s: 1e9}")
QUOTAS = settings_of(", mutation_quota: {}")
MEMORY = Memory(owned={SOURCE: owned(None, 10 * MB)}, throttled=True)
ACTS = TunerPresence("host:7", TunerMode.ACTIVE, NOW_MS - 60_000, "1.0", 50e6, 1e6, reported_at_ms=NOW_MS)
ORDERS = Orders(5, Pause(NOW_MS, "kim"), overrides={SOURCE: Override(5 * MB, NOW_MS + 60_000, "li, until later")})


def measured(*more: Signal, remaining: float = 600 * MB, steady_state: float = 6 * MB) -> SignalCache:
    signals = SignalCache()
    for signal in (
        move_signal(*SOURCE, steady_state=steady_state),
        move_signal(*TARGET, remaining=remaining),
        broker_signal(1, leader=9.5 * MB),
        broker_signal(3, follower=6 * MB),
        *more,
    ):
        signals.add(signal)
    return signals


def status(
    signals: SignalCache | None = None,
    orders: Orders | None = None,
    *entries: Entry,
    ticks: Sequence[Entry] = (),
    memory: Memory | None = MEMORY,
    evaluator: StatusEvaluator | None = None,
    cluster: LiveCluster | None = None,
    settings: Settings = SETTINGS,
    tuners: Sequence[TunerPresence] = (ACTS,),
    plans: Mapping[str, Progress] | None = None,
) -> dict[str, Any]:
    newest = JournalState({"entry": list(entries), "steering": list(ticks)}, orders or Orders(), memory=memory)
    readings = FurtherReadings(tuners=tuners, plans=plans or {})
    return status_json(settings, cluster or live(), signals or measured(), newest, NOW_MS, readings, evaluator)


def shown(
    found: dict[str, Any] | None,
    rates: RateHistory | None = None,
    trouble: str | None = None,
    plans: Sequence[str] = (),
    tenants: dict[str, Any] | None = None,
    width: int = 160,
) -> str:
    text = io.StringIO()
    Console(file=text, width=width).print(render_screen(found, rates or RateHistory(), trouble, plans, tenants))
    return text.getvalue()


def test_screen_shows_progress_rates_orders_and_decisions() -> None:
    rates, evaluator = RateHistory(), StatusEvaluator(SETTINGS)
    rates.add(status(evaluator=evaluator))
    failed = Entry(NOW_MS, "decision", "hold", "progressing", "all is well", failure="refused")
    now = status(measured(remaining=150 * MB), ORDERS, failed, evaluator=evaluator)
    rates.add(now)
    text = shown(now, rates)
    assert "lab: 1 partition is moving onto broker 3; 150 MB remain, done in about 75 s." in text
    assert "75 % copied; done at about 2023-11-14 22:14:35 UTC." in text
    assert "Paused by kim, until `rheostat resume`." in text
    assert "Broker 1 leader throttle: 5.00 MB/s by order of li, until later." in text
    assert "The tuner changes nothing, and waits for an operator to resume." in text
    assert "22:13:20 all is well (failed: refused)" in text
    assert text.startswith("Tuner: active on host:7 since 2023-11-14 22:12:20 UTC.")
    assert "the ceiling is 50.0 MB/s" in text
    move = next(line for line in text.splitlines() if "less" in line)
    assert " ".join(move.split()[-9:]) == "75% 150 MB 2.00 MB/s less 75 s progressing"
    row = next(line for line in text.splitlines() if "leader" in line and "9.5" in line)
    # Traffic, throttle, steady-state replication W, and the minimum rate, 1.2 W.
    assert row.split() == ["1", "leader", "9.50", "10.0", "6.00", "7.20", "██", "9", "ms"]


def test_progress_needs_two_observations_and_ends_with_the_move() -> None:
    evaluator = StatusEvaluator(SETTINGS)
    assert status(evaluator=evaluator)["done_ratio"] is None
    assert status(measured(remaining=300 * MB), evaluator=evaluator)["done_ratio"] == 0.5
    ended = status(evaluator=evaluator, cluster=live(moves=()))
    assert (ended["done_ratio"], ended["destinations"]) == (None, [])
    assert status(measured(remaining=300 * MB), evaluator=evaluator)["done_ratio"] == 0.0, "another move"
    assert "The cluster cannot be read now: away" in shown(None, trouble="The cluster cannot be read now: away")


def still_for(seconds: int) -> MoveSignal:
    """A move without progress for that time."""
    steps = tuple(
        MoveStep(at_ms=NOW_MS - 5_000 * back, dt_s=5.0, gained_bytes=0.0, written_bytes=0.0, remaining_bytes=600 * MB)
        for back in range(seconds // 5)
    )
    return replace(move_signal(*TARGET, slope=0.0, steps=steps), samples=7)


def test_move_without_progress_is_shown_as_stalled() -> None:
    losing = status(measured(still_for(15)))
    assert (
        losing["next"][0]
        == "The move onto broker 3 has lost 10 s of progress; it counts as stalled when it has lost 14.5 s."
    )
    assert "10 s of progress lost" in shown(losing)
    stalled = status(measured(still_for(60)))
    assert stalled["stalled_brokers"] == [3]
    text = shown(stalled)
    assert "600 MB remain. The move onto broker 3 has stalled." in text
    assert "unchanged" in text
    assert "stalled since 22:12:40" in text
    paused = status(measured(still_for(60)), ORDERS)
    assert paused["stalled_brokers"] == [], "stalls are not evaluated while paused, as in the tuner"


def test_evaluator_adds_up_lost_progress_over_observations() -> None:
    evaluator, lost = StatusEvaluator(SETTINGS), []
    for back in range(6, -1, -1):
        step = MoveStep(NOW_MS - 5_000 * back, 5.0, 0.0, 0.0, 600 * MB)
        report = status(measured(replace(move_signal(*TARGET, steps=(step,)), samples=7)), evaluator=evaluator)
        lost.append(report["destinations"][0]["progress_lost_s"])
    assert lost == sorted(lost)
    assert lost[-1] >= 14.5
    assert report["stalled_brokers"] == [3]


def test_status_judges_no_stall_from_before_a_change_of_rate() -> None:
    evaluator = StatusEvaluator(SETTINGS)
    assert status(measured(still_for(60)), evaluator=evaluator)["stalled_brokers"] == [3]
    raised = live({SOURCE: 20 * MB, TARGET: 20 * MB})
    assert status(measured(still_for(60)), evaluator=evaluator, cluster=raised)["stalled_brokers"] == []


def test_infeasible_move_is_shown_with_a_remedy() -> None:
    never = status(measured(steady_state=55 * MB))
    assert never["infeasible"] == [{"broker": 1, "side": "leader"}]
    text = " ".join(shown(never).split())
    assert (
        "The move never ends at the current limits: the ceiling of 50.0 MB/s is not above the steady-state replication on "
        "broker 1 (leader). Raise tuner.rate_bytes_per_s_max, or reduce the producers' write rate."
    ) in text


def test_next_steps_omit_those_that_need_the_unknown_state() -> None:
    def intent(text: str, ago_s: int) -> Entry:
        return Entry(NOW_MS - 1000 * ago_s, "intent", "set", "cleared_by_tool", text)

    over = replace(intent("that is over", 20), kind="outcome", at_ms=NOW_MS - 19_000)
    entries = [intent("long ago", 600), intent("that is over", 20), over, intent("that is begun", 2)]
    tick = Entry(NOW_MS - 3000, "steering", "set", "steered", "a turn")
    next_ = status(None, None, *entries, ticks=[tick])["next"]
    assert next_[:2] == [
        "In progress: that is begun",
        "The tuner adjusts throttles every second to the load of the clients.",
    ]
    assert next_[2].startswith("When the moves have ended: ")
    # Without the tuner's state it is unknown which throttles it will restore.
    assert status(memory=None)["next"] == []
    assert status(memory=None, cluster=live(moves=()))["next"] == []
    assert status(cluster=live({}, moves=(), lists={}), memory=Memory())["next"] == [
        "The tuner waits for a reassignment, started by any tool."
    ]


def test_steered_rate_below_the_setpoint_is_no_stall() -> None:
    """With closed-loop control the current rate counts as the setpoint, as in the tuner."""
    cluster = live({SOURCE: 6.4 * MB, TARGET: 6.4 * MB})
    step = MoveStep(NOW_MS, 30.0, 12 * MB, 0.0, 600 * MB)
    moves = [replace(move_signal(*TARGET, steps=(step,), steady_state=6 * MB), samples=7)]
    steered = status(measured(*moves), cluster=cluster, settings=STEERED)
    rescued = status(measured(*moves), cluster=cluster)
    assert steered["destinations"][0]["progress_lost_s"] < rescued["destinations"][0]["progress_lost_s"]
    # The tuner's own minimum may be lower, and is unknown here.
    assert steered["brokers"][0]["leader_min_rate_bytes_per_s"] == 7.2 * MB
    assert rescued["brokers"][0]["leader_min_rate_bytes_per_s"] == 7.2 * MB


def tenant(name: str, demand: float, *, held: bool = False) -> dict[str, Any]:
    return {
        "user": name, "client_id": None, "demand_per_s": demand, "quota_per_s": 2.0, "throttled": held, "reason": "fair_share",
    }  # fmt: skip


def test_throttled_tenants_are_shown_first() -> None:
    rows = [tenant(f"u{n}", float(n)) for n in range(7)] + [tenant("rep\x1borts", 0.5, held=True)]
    found = {"total_text": "at the cap of 10/s", "holds": ["something holds"], "tenants": rows}
    lines = shown(status(), tenants=found).splitlines()
    at = lines.index("Tenants: at the cap of 10/s")
    assert lines[at + 1 : at + 4] == [
        "  something holds",
        "  user rep\\x1borts: demand 0.5/s, quota 2/s; throttled: fair share",
        "  user u6: demand 6/s, quota 2/s; fair share",
    ]
    assert lines[at + 7] == "  and 3 more (`rheostat quotas` has each)"
    assert "Tenants" not in shown(status())


def test_tenants_pane_reads_quotas_seldom_and_only_if_controlled() -> None:
    now_s, reads, away = [0.0], [0], [False]

    def read_quotas() -> dict[QuotaEntity, float]:
        reads[0] += 1
        if away[0]:
            raise ClusterError("it is away")
        return {}

    def evaluate(pane: TenantsPane) -> dict[str, Any] | None:
        return pane.evaluate(measured(), MutationMemory(), Orders(), NOW_MS)

    assert evaluate(TenantsPane(SETTINGS, read_quotas, lambda: now_s[0])) is None
    assert reads == [0]
    pane = TenantsPane(QUOTAS, read_quotas, lambda: now_s[0])
    assert evaluate(pane) is not None
    evaluate(pane)
    assert reads == [1]
    now_s[0], away[0] = 6.0, True
    found = evaluate(pane)
    assert found is not None
    assert any("it is away" in hold for hold in found["holds"])
    assert "it is away" in shown(status(), tenants=found)


def test_screen_fits_80_columns() -> None:
    rates, evaluator = RateHistory(), StatusEvaluator(SETTINGS)
    for _ in range(30):
        found = status(measured(still_for(60)), evaluator=evaluator)
        rates.add(found)
    lines = shown(found, rates, width=80).splitlines()
    assert max(map(len, lines)) <= 80
    assert any("stalled since 22:12:40" in line for line in lines)
    steered = shown(status(measured(still_for(60)), settings=STEERED), rates, width=80).splitlines()
    for screen, p99 in ((lines, "9 ms"), (steered, "9 of 30 ms")):
        row = next(line for line in screen if "leader" in line and "9.5" in line)
        assert row.rstrip().endswith(p99)
        assert "…" not in row


@pytest.mark.parametrize(
    ("rates", "limit", "bars"),
    [([0, 5, 10], 10, "▁▅█"), ([None, 10], 10, "·█"), ([20, 10], 10, "█▅"), ([], 10, ""), ([0, 0], None, "")],
)
def test_spark_scales_rates_to_the_limit(rates: list[float | None], limit: float | None, bars: str) -> None:
    assert spark(rates, limit) == bars


def test_follower_keeps_newest_entries_and_orders_of_its_cluster() -> None:
    followed = JournalFollower("lab", {"entry": 15, "steering": 5})

    def apply(key: bytes, value: bytes) -> None:
        followed.apply(JournalRecord(key, value, 0, "rheostat.journal", NOW_MS))

    for number in range(20):
        entry = Entry(NOW_MS + number, "decision", "hold", "progressing", str(number))
        apply(entry_key("entry", "lab", number), encode_entry(entry))
    apply(entry_key("entry", "other", 1), encode_entry(Entry(1, "decision", "hold", "progressing", "theirs")))
    apply(orders_key("lab"), encode_orders(ORDERS))
    apply(orders_key("lab"), b"not an order")
    assert [entry.text for entry in followed.state.entries["entry"]] == [str(n) for n in range(5, 20)]
    assert followed.state.orders == ORDERS
    assert [text for text in followed.state.unreadable if "orders|lab" in text] == list(followed.state.unreadable)


def test_follower_knows_the_state_only_if_read_completely() -> None:
    followed = JournalFollower("lab")
    followed.apply(JournalRecord(memory_key("lab"), encode_memory(MEMORY), 0, "rheostat.journal", NOW_MS))
    assert followed.state.memory is None, "earlier records may have more"
    followed.is_complete = True
    assert followed.state.memory == MEMORY


def test_plans_pane_reads_seldom_and_keeps_last_known_lines() -> None:
    executor = Executor({("t", 0): still(1, 2), ("t", 1): still(1, 2)}, online=[1, 2, 3])
    executor.give({("t", 0): (3, 2), ("t", 1): (3, 2)})
    executor.cycle()
    now_s = [0.0]

    class Port:
        reads = 0

        def read_snapshot(
            self, topics: Collection[str], measured: Collection[TopicPartition], *, all_topics: bool = False
        ) -> ReassignmentSnapshot | ClusterError:
            self.reads += 1
            now_s[0] += 2.0  # As long as for a large plan.
            return executor.cluster.read_snapshot(topics, measured, all_topics=all_topics)

    port = Port()
    given = executor.journal.recovered().plans
    plans = PlansPane(cast(Any, port), lambda: now_s[0], lambda: 1_800_000_000.0 + now_s[0])
    text = shown(status(), plans=plans.lines(given))
    assert "Plan p, submitted by kim@desk: running." in text
    assert "2 of 2 partitions" in text
    assert plans.lines(given) == plans.lines(given)
    assert port.reads == 1, "the cluster is left alone for a while"
    now_s[0] += 10.0
    executor.cluster.away = True
    unknown = f"The state of the plans is unknown since {moment(1_800_000_002_000)}:"
    lines = plans.lines(given)
    assert lines[0] == f"{unknown} the cluster cannot be read now: nobody answers; last known state:"
    assert "Plan p, submitted by kim@desk: running." in lines

    now_s[0] += 20.0
    lines = plans.lines(None)
    assert lines[0] == f"{unknown} the journal could not be read completely; last known state:"
    never = PlansPane(cast(Any, port), lambda: now_s[0])
    assert never.lines(None) == ["The state of the plans is unknown: the journal could not be read completely"]


def test_faulty_options_are_refused(tmp_path: Path) -> None:
    config = tmp_path / "rheostat.yaml"
    command = Command("status")
    assert "give --json or --watch, not both" in command.refused("--config", str(config), "--watch", "--json")
    assert "this option has an effect only with --watch" in command.refused("--config", str(config), "--duration", "3")
