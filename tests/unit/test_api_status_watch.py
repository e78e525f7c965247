"""`rheostat status --watch`: the picture, and what is kept from look to look."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from command_rig import Command
from rich.console import Console
from tuner_cases import NOW_MS, SOURCE, TARGET, broker_signal, live, move_signal

from rheostat.settings import Settings, parse_settings
from rheostat.status import Newest, status_json
from rheostat.status_watch import Course, Followed, picture, spark
from tuner.journal.entries import Entry, encode_entry, entry_key
from tuner.journal.order_records import encode_orders, orders_key
from tuner.model.limits import MB
from tuner.model.orders import Orders, Override, Pause
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


def shown(found: dict[str, Any] | None, course: Course | None = None, trouble: str | None = None) -> str:
    text = io.StringIO()
    Console(file=text, width=160).print(picture(found, course or Course(), 30.0, trouble))
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


def test_faulty_options_are_refused(tmp_path: Path) -> None:
    config = tmp_path / "rheostat.yaml"
    command = Command("status")
    assert "only one of them at a time" in command.refused("--config", str(config), "--watch", "--json")
    assert "give --watch, too" in command.refused("--config", str(config), "--wait", "3")
