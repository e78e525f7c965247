"""`rheostat status --watch`: the picture, and what is kept from look to look."""

from __future__ import annotations

import io
from collections.abc import Collection, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from command_rig import Command
from reassign_rig import Rig as Executor
from reassign_rig import still
from rich.console import Console
from tuner_cases import NOW_MS, SOURCE, TARGET, broker_signal, live, move_signal

from rheostat.errors import CommandError
from rheostat.reassign.record import OnRecord
from rheostat.settings import Settings, parse_settings
from rheostat.status import Newest, status_json
from rheostat.status_picture import Course, picture, spark
from rheostat.status_plans import Plans
from rheostat.status_watch import Followed
from streaming.kafka.cluster import ClusterError
from tuner.api.sentences import moment
from tuner.journal.entries import Entry, encode_entry, entry_key
from tuner.journal.order_records import encode_orders, orders_key
from tuner.model.limits import MB
from tuner.model.orders import Orders, Override, Pause
from tuner.model.reassigning import ClusterLook, Key
from tuner.observe.signals import NewestSignals

SETTINGS: Settings = parse_settings(
    "cluster: lab\nkafka: {bootstrap_servers: 'x:1'}\nstream: {checkpoint_dir: /x}\ntuner: {rate_bytes_per_s_max: 50000000}\n",
    "f.yaml", {},
)  # fmt: skip
ORDERS = Orders(5, Pause(NOW_MS, "kim"), overrides={SOURCE: Override(5 * MB, NOW_MS + 60_000, "li, until later")})


def status(remaining: float = 600 * MB, orders: Orders | None = None, *entries: Entry) -> dict[str, Any]:
    signals = NewestSignals()
    for signal in (
        move_signal(*SOURCE),
        move_signal(*TARGET, remaining=remaining),
        broker_signal(1, leader=9.5 * MB),
        broker_signal(3, follower=6 * MB),
    ):
        signals.take(signal)
    newest = Newest({"entry": list(entries), "turn": []}, orders or Orders())
    return status_json(SETTINGS, live(), signals, newest, NOW_MS)


def shown(
    found: dict[str, Any] | None, course: Course | None = None, trouble: str | None = None, plans: Sequence[str] = ()
) -> str:
    text = io.StringIO()
    Console(file=text, width=160).print(picture(found, course or Course(), 30.0, trouble, plans))
    return text.getvalue()


def test_the_picture_says_how_far_how_fast_until_when_and_why() -> None:
    course = Course()
    course.take(status(600 * MB))
    now = status(150 * MB, ORDERS, Entry(NOW_MS, "decision", "hold", "progressing", "all is well", failure="refused"))
    course.take(now)
    text = shown(now, course)
    assert "lab: 1 partition is moving onto broker 3; 150 MB remain, done in about 1 min 15 s." in text
    assert "Paused by kim, until `rheostat resume`." in text
    assert "Broker 1 leader throttle: 5.0 MB/s by order of li, until later." in text
    assert "onto broker 3" in text
    assert "75%" in text
    assert "22:13:20 all is well FAILED: refused" in text
    row = next(line for line in text.splitlines() if "leader" in line and "9.5 MB/s" in line)
    assert row.split() == [
        "1",
        "leader",
        "9.5",
        "MB/s",
        "10.0",
        "MB/s",
        "6.0",
        "MB/s",
        "▇▇" if "▇▇" in row else "██",
        "9",
        "of",
        "30",
        "ms",
    ]


def test_an_ended_move_leaves_no_bar_and_an_unseen_cluster_is_said() -> None:
    course = Course()
    course.take(status())
    course.take({**status(), "moves": []})
    assert course.peaks == {}
    assert "The cluster is not seen now: away" in shown(None, trouble="The cluster is not seen now: away")


@pytest.mark.parametrize(
    ("rates", "limit", "bars"),
    [([0, 5, 10], 10, "▁▅█"), ([None, 10], 10, "·█"), ([20, 10], 10, "█▅"), ([], 10, ""), ([0, 0], None, "")],
)
def test_a_small_chart(rates: list[float | None], limit: float | None, bars: str) -> None:
    assert spark(rates, limit) == bars


def test_the_journal_is_followed_entry_by_entry_and_order_by_order() -> None:
    followed = Followed("lab")
    for number in range(20):
        entry = Entry(NOW_MS + number, "decision", "hold", "progressing", str(number))
        followed.take(entry_key("entry", "lab", number), encode_entry(entry))
    followed.take(entry_key("entry", "other", 1), encode_entry(Entry(1, "decision", "hold", "progressing", "theirs")))
    followed.take(orders_key("lab"), encode_orders(ORDERS))
    followed.take(orders_key("lab"), b"not an order")
    assert [entry.text for entry in followed.newest.entries["entry"]] == [str(n) for n in range(10, 20)]
    assert followed.newest.orders == ORDERS


def test_plans_are_told_with_what_holds_them_up_and_looked_at_now_and_then() -> None:
    executor = Executor({("t", 0): still(1, 2), ("t", 1): still(1, 2)}, online=[1, 2, 3])
    executor.give({("t", 0): (3, 2), ("t", 1): (3, 2)})
    executor.cycle()
    now_s = [0.0]

    class Port:
        looks = 0

        def look(self, topics: Collection[str], measured: Collection[Key]) -> ClusterLook | ClusterError:
            self.looks += 1
            now_s[0] += 2.0  # As long as of a large plan.
            return executor.cluster.look(topics, measured)

    port = Port()
    follower = SimpleNamespace(now=lambda: OnRecord(executor.journal.recovered().plans))
    plans = Plans(cast(Any, follower), cast(Any, port), lambda: now_s[0], lambda: 1_800_000_000.0 + now_s[0])
    text = shown(status(), plans=plans.told())
    assert "Plan p, given by kim@desk: running." in text
    assert "2 of 2 partitions" in text
    assert plans.told() == plans.told()
    assert port.looks == 1, "the cluster is left alone for a while"
    now_s[0] += 10.0
    executor.cluster.away = True
    unknown = f"How the plans are is not known since {moment(1_800_000_002_000)}:"
    told = plans.told()
    assert told[0] == f"{unknown} the cluster is not seen now: nobody answers; as they were seen last:"
    assert "Plan p, given by kim@desk: running." in told

    def unread() -> OnRecord:
        raise CommandError("it is away")

    follower.now = unread
    now_s[0] += 20.0
    told = plans.told()
    assert told[0] == f"{unknown} they cannot be read now: it is away; as they were seen last:"
    never = Plans(cast(Any, follower), cast(Any, port), lambda: now_s[0])
    assert never.told() == ["How the plans are is not known: they cannot be read now: it is away"]


def test_faulty_options_are_refused(tmp_path: Path) -> None:
    config = tmp_path / "rheostat.yaml"
    command = Command("status")
    assert "only one of them at a time" in command.refused("--config", str(config), "--watch", "--json")
    assert "give --watch, too" in command.refused("--config", str(config), "--wait", "3")
