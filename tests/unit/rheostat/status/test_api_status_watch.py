"""`rheostat status --watch`: the picture, and what is kept from look to look."""

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


SETTINGS = settings_of()
STEERED = settings_of(", objective: {latency_ms: 30}, capacity: {in_bytes_per_s: 1e9, out_bytes_per_s: 1e9}")
QUOTAS = settings_of(", mutation_quota: {}")
MEMORY = Memory(owned={SOURCE: owned(None, 10 * MB)}, throttled=True)
ACTS = TunerPresence("host:7", TunerMode.ACTING, NOW_MS - 60_000, "1.0", 50e6, 1e6, reported_at_ms=NOW_MS)
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
        signals.take(signal)
    return signals


def status(
    signals: SignalCache | None = None,
    orders: Orders | None = None,
    *entries: Entry,
    turns: Sequence[Entry] = (),
    memory: Memory | None = MEMORY,
    onlooker: StatusEvaluator | None = None,
    cluster: LiveCluster | None = None,
    settings: Settings = SETTINGS,
    tuners: Sequence[TunerPresence] = (ACTS,),
    plans: Mapping[str, Progress] | None = None,
) -> dict[str, Any]:
    newest = JournalState({"entry": list(entries), "steering": list(turns)}, orders or Orders(), memory=memory)
    return status_json(
        settings, cluster or live(), signals or measured(), newest, NOW_MS, onlooker, tuners=tuners, plans=plans
    )


def shown(
    found: dict[str, Any] | None,
    course: RateHistory | None = None,
    trouble: str | None = None,
    plans: Sequence[str] = (),
    tenants: dict[str, Any] | None = None,
    width: int = 160,
) -> str:
    text = io.StringIO()
    Console(file=text, width=width).print(render_screen(found, course or RateHistory(), 30.0, trouble, plans, tenants))
    return text.getvalue()


def test_the_picture_says_how_far_how_fast_until_when_and_why() -> None:
    course, onlooker = RateHistory(), StatusEvaluator(SETTINGS)
    course.take(status(onlooker=onlooker))
    failed = Entry(NOW_MS, "decision", "hold", "progressing", "all is well", failure="refused")
    now = status(measured(remaining=150 * MB), ORDERS, failed, onlooker=onlooker)
    course.take(now)
    text = shown(now, course)
    assert "lab: 1 partition is moving onto broker 3; 150 MB remain, done in about 75 s." in text
    assert "75 % is copied, of the most that remained; done at about 2023-11-14 22:14:35 UTC." in text
    assert "Paused by kim, until `rheostat resume`." in text
    assert "Broker 1 leader throttle: 5.00 MB/s by order of li, until later." in text
    assert "It changes nothing, and waits for somebody to resume." in text
    assert "22:13:20 all is well (failed: refused)" in text
    assert text.startswith("Tuner: acting on host:7 since 2023-11-14 22:12:20 UTC.")
    assert "the ceiling is 50.0 MB/s" in text
    onto = next(line for line in text.splitlines() if "nearer" in line)
    assert " ".join(onto.split()[-9:]) == "75% 150 MB 2.00 MB/s nearer 75 s progressing"
    row = next(line for line in text.splitlines() if "leader" in line and "9.5" in line)
    # What passes, the throttle, what must pass, and the floor, 1.2 of it.
    assert row.split() == ["1", "leader", "9.50", "10.0", "6.00", "7.20", "██", "9", "of", "30", "ms"]


def test_one_look_knows_no_progress_and_an_ended_move_leaves_no_bar() -> None:
    onlooker = StatusEvaluator(SETTINGS)
    assert status(onlooker=onlooker)["done_ratio"] is None
    assert status(measured(remaining=300 * MB), onlooker=onlooker)["done_ratio"] == 0.5
    ended = status(onlooker=onlooker, cluster=live(moves=()))
    assert (ended["done_ratio"], ended["destinations"]) == (None, [])
    assert status(measured(remaining=300 * MB), onlooker=onlooker)["done_ratio"] == 0.0, "another move"
    assert "The cluster is not seen now: away" in shown(None, trouble="The cluster is not seen now: away")


def still_for(seconds: int) -> MoveSignal:
    """Nothing was gained in all that time."""
    steps = tuple(
        MoveStep(at_ms=NOW_MS - 5_000 * back, dt_s=5.0, gained_bytes=0.0, written_bytes=0.0, remaining_bytes=600 * MB)
        for back in range(seconds // 5)
    )
    return replace(move_signal(*TARGET, slope=0.0, steps=steps), samples=7)


def test_a_move_that_stands_still_is_told_as_the_page_tells_it() -> None:
    losing = status(measured(still_for(20)))
    assert losing["next"][0] == "The move onto broker 3 is called stalled when 15 s of progress are lost; 10 s are."
    assert "10 s of progress lost" in shown(losing)
    stalled = status(measured(still_for(60)))
    assert stalled["stalled_brokers"] == [3]
    text = shown(stalled)
    assert "600 MB remain. The move onto broker 3 has stalled." in text
    assert "stands still" in text
    assert "stalled since 22:12:50" in text
    paused = status(measured(still_for(60)), ORDERS)
    assert paused["stalled_brokers"] == [], "what is paused is not judged, as by the tuner"


def test_what_a_look_has_judged_the_next_one_goes_on_from() -> None:
    onlooker, lost = StatusEvaluator(SETTINGS), []
    for back in range(6, -1, -1):
        step = MoveStep(NOW_MS - 5_000 * back, 5.0, 0.0, 0.0, 600 * MB)
        seen = status(measured(replace(move_signal(*TARGET, steps=(step,)), samples=7)), onlooker=onlooker)
        lost.append(seen["destinations"][0]["progress_lost_s"])
    assert lost == sorted(lost)
    assert lost[-1] >= 15.0
    assert seen["stalled_brokers"] == [3]


def test_status_judges_no_stall_from_before_a_change_of_rate() -> None:
    onlooker = StatusEvaluator(SETTINGS)
    assert status(measured(still_for(60)), onlooker=onlooker)["stalled_brokers"] == [3]
    raised = live({SOURCE: 20 * MB, TARGET: 20 * MB})
    assert status(measured(still_for(60)), onlooker=onlooker, cluster=raised)["stalled_brokers"] == []


def test_a_move_that_never_ends_is_told_with_what_to_do() -> None:
    never = status(measured(steady_state=55 * MB))
    assert never["infeasible"] == [{"broker": 1, "side": "leader"}]
    text = " ".join(shown(never).split())
    assert (
        "It never ends as things are: the ceiling of 50.0 MB/s is not above what keeping up takes on broker 1 (leader). Raise "
        "tuner.rate_bytes_per_s_max, or let producers write less."
    ) in text


def test_what_is_next_is_told_as_far_as_it_is_known_here() -> None:
    def intent(text: str, ago_s: int) -> Entry:
        return Entry(NOW_MS - 1000 * ago_s, "intent", "set", "cleared_by_tool", text)

    over = replace(intent("that is over", 20), kind="outcome", at_ms=NOW_MS - 19_000)
    entries = [intent("long ago", 600), intent("that is over", 20), over, intent("that is begun", 2)]
    law = Entry(NOW_MS - 3000, "steering", "set", "steered", "a turn")
    next_ = status(None, None, *entries, turns=[law])["next"]
    assert next_[:2] == ["Under way: that is begun", "Throttles follow the clients, every second."]
    assert next_[2].startswith("When the moves have ended: ")
    # What is the tuner's own is not known: then nothing is said of what it will take back, or that it is nobody's.
    assert status(memory=None)["next"] == []
    assert status(memory=None, cluster=live(moves=()))["next"] == []
    assert status(cluster=live({}, moves=(), lists={}), memory=Memory())["next"] == [
        "It waits for a reassignment to begin, with any tool."
    ]


def test_where_the_law_steers_what_stands_is_meant_and_no_stall() -> None:
    """A crawl that the law has weighed against the clients is well, in the terminal as to the tuner."""
    cluster = live({SOURCE: 6.4 * MB, TARGET: 6.4 * MB})
    step = MoveStep(NOW_MS, 30.0, 12 * MB, 0.0, 600 * MB)
    seen = [replace(move_signal(*TARGET, steps=(step,), steady_state=6 * MB), samples=7)]
    steered = status(measured(*seen), cluster=cluster, settings=STEERED)
    rescued = status(measured(*seen), cluster=cluster)
    assert steered["destinations"][0]["progress_lost_s"] < rescued["destinations"][0]["progress_lost_s"]
    # What the law means is not known here, so neither is how far its floor has come down: a throttle below it is seen to be.
    assert steered["brokers"][0]["leader_min_rate_bytes_per_s"] == 7.2 * MB
    assert rescued["brokers"][0]["leader_min_rate_bytes_per_s"] == 7.2 * MB


def tenant(name: str, asks: float, *, held: bool = False) -> dict[str, Any]:
    return {
        "user": name, "client_id": None, "demand_per_s": asks, "quota_per_s": 2.0, "throttled": held, "reason": "fair_share",
    }  # fmt: skip


def test_tenants_are_told_those_who_are_held_back_first() -> None:
    rows = [tenant(f"u{n}", float(n)) for n in range(7)] + [tenant("rep\x1borts", 0.5, held=True)]
    found = {"total_text": "at the cap of 10/s", "holds": ["something holds"], "tenants": rows}
    lines = shown(status(), tenants=found).splitlines()
    at = lines.index("Tenants: at the cap of 10/s")
    assert lines[at + 1 : at + 4] == [
        "  something holds",
        "  user rep\\x1borts: asks for 0.5/s, quota 2/s; held back: fair share",
        "  user u6: asks for 6/s, quota 2/s; fair share",
    ]
    assert lines[at + 7] == "  and 3 more (`rheostat quotas` has each)"
    assert "Tenants" not in shown(status())


def test_tenants_are_asked_for_now_and_then_and_only_where_quotas_are_turned() -> None:
    now_s, asked, away = [0.0], [0], [False]

    def stand() -> dict[QuotaEntity, float]:
        asked[0] += 1
        if away[0]:
            raise ClusterError("it is away")
        return {}

    def told(settings: Settings, tenants: TenantsPane) -> dict[str, Any] | None:
        return tenants.told(measured(), MutationMemory(), Orders(), NOW_MS)

    assert told(SETTINGS, TenantsPane(SETTINGS, stand, lambda: now_s[0])) is None
    assert asked == [0]
    tenants = TenantsPane(QUOTAS, stand, lambda: now_s[0])
    assert told(QUOTAS, tenants) is not None
    told(QUOTAS, tenants)
    assert asked == [1]
    now_s[0], away[0] = 6.0, True
    found = told(QUOTAS, tenants)
    assert found is not None
    assert any("it is away" in hold for hold in found["holds"])
    assert "it is away" in shown(status(), tenants=found)


def test_it_fits_a_terminal_of_80_columns() -> None:
    course, onlooker = RateHistory(), StatusEvaluator(SETTINGS)
    for _ in range(30):
        found = status(measured(still_for(60)), onlooker=onlooker)
        course.take(found)
    lines = shown(found, course, width=80).splitlines()
    assert max(map(len, lines)) <= 80
    assert any("stalled since 22:12:50" in line for line in lines)
    row = next(line for line in lines if "leader" in line and "9.5" in line)
    assert row.rstrip().endswith("9 of 30 ms")
    assert "…" not in row


@pytest.mark.parametrize(
    ("rates", "limit", "bars"),
    [([0, 5, 10], 10, "▁▅█"), ([None, 10], 10, "·█"), ([20, 10], 10, "█▅"), ([], 10, ""), ([0, 0], None, "")],
)
def test_a_small_chart(rates: list[float | None], limit: float | None, bars: str) -> None:
    assert spark(rates, limit) == bars


def test_the_journal_is_followed_entry_by_entry_and_order_by_order() -> None:
    followed = JournalFollower("lab", {"entry": 15, "steering": 5})

    def take(key: bytes, value: bytes) -> None:
        followed.take(JournalRecord(key, value, 0, "rheostat.journal", NOW_MS))

    for number in range(20):
        entry = Entry(NOW_MS + number, "decision", "hold", "progressing", str(number))
        take(entry_key("entry", "lab", number), encode_entry(entry))
    take(entry_key("entry", "other", 1), encode_entry(Entry(1, "decision", "hold", "progressing", "theirs")))
    take(orders_key("lab"), encode_orders(ORDERS))
    take(orders_key("lab"), b"not an order")
    assert [entry.text for entry in followed.newest.entries["entry"]] == [str(n) for n in range(5, 20)]
    assert followed.newest.orders == ORDERS
    assert [text for text in followed.newest.unreadable if "orders|lab" in text] == list(followed.newest.unreadable)


def test_what_the_tuner_remembers_is_read_whole_or_not_known() -> None:
    followed = JournalFollower("lab")
    followed.take(JournalRecord(memory_key("lab"), encode_memory(MEMORY), 0, "rheostat.journal", NOW_MS))
    assert followed.newest.memory is None, "what came before the newest records may say more"
    followed.is_whole = True
    assert followed.newest.memory == MEMORY


def test_plans_are_told_with_what_holds_them_up_and_looked_at_now_and_then() -> None:
    executor = Executor({("t", 0): still(1, 2), ("t", 1): still(1, 2)}, online=[1, 2, 3])
    executor.give({("t", 0): (3, 2), ("t", 1): (3, 2)})
    executor.cycle()
    now_s = [0.0]

    class Port:
        looks = 0

        def read_snapshot(
            self, topics: Collection[str], measured: Collection[TopicPartition], *, others: bool = False
        ) -> ReassignmentSnapshot | ClusterError:
            self.looks += 1
            now_s[0] += 2.0  # As long as of a large plan.
            return executor.cluster.read_snapshot(topics, measured, others=others)

    port = Port()
    given = executor.journal.recovered().plans
    plans = PlansPane(cast(Any, port), lambda: now_s[0], lambda: 1_800_000_000.0 + now_s[0])
    text = shown(status(), plans=plans.told(given))
    assert "Plan p, submitted by kim@desk: running." in text
    assert "2 of 2 partitions" in text
    assert plans.told(given) == plans.told(given)
    assert port.looks == 1, "the cluster is left alone for a while"
    now_s[0] += 10.0
    executor.cluster.away = True
    unknown = f"How the plans are is not known since {moment(1_800_000_002_000)}:"
    told = plans.told(given)
    assert told[0] == f"{unknown} the cluster is not seen now: nobody answers; as they were seen last:"
    assert "Plan p, submitted by kim@desk: running." in told

    now_s[0] += 20.0
    told = plans.told(None)
    assert told[0] == f"{unknown} the journal could not be read whole; as they were seen last:"
    never = PlansPane(cast(Any, port), lambda: now_s[0])
    assert never.told(None) == ["How the plans are is not known: the journal could not be read whole"]


def test_faulty_options_are_refused(tmp_path: Path) -> None:
    config = tmp_path / "rheostat.yaml"
    command = Command("status")
    assert "only one of them at a time" in command.refused("--config", str(config), "--watch", "--json")
    assert "give --watch, too" in command.refused("--config", str(config), "--wait", "3")
