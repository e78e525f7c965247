"""`rheostat signals`: the tables, the JSON records, and the messages about missing or stale signals."""

from __future__ import annotations

import io
import json
from dataclasses import asdict, fields, replace
from typing import Any

import pytest
from metrics_rig import replication_signal
from tuner_cases import CLUSTER, NOW_MS, SOURCE, TARGET, broker_signal, move_signal
from typer.testing import CliRunner

from rheostat.cli import app
from rheostat.console.rich_console import Terminal, console_for
from rheostat.signals.live import SignalFilter, SignalsView, as_records, describe_problem, raw_line, render_tables
from rheostat.signals.tables import SHEETS, tables
from streaming.shared.contract import (
    BrokerSignal,
    ControllerSignal,
    MovingPartition,
    Signal,
    TenantSignal,
    ThrottledBy,
    decode_signal,
    encode_signal,
    signal_kind,
)
from tuner.core.throttle_limits import MB

TOPIC = "rheostat.signals"
AGE_S_MAX = 15.0
OURS = SignalFilter(CLUSTER)
BROKER = replace(
    broker_signal(1, leader=4.6 * MB, age_s=3), leader_rate_bytes_per_s=4.5 * MB, throttled_by=ThrottledBy.QUOTA.value
)
MOVE = replace(
    move_signal(*TARGET, remaining=2_340 * MB, slope=-2.1 * MB, age_s=3),
    done_partitions=2,
    progress_age_s=7.0,
    largest=tuple(MovingPartition("orders", p, (9 - p) * 100 * MB) for p in range(5)),
)
CONTROLLER = ControllerSignal(
    CLUSTER,
    100,
    NOW_MS,
    NOW_MS - 3_000,
    6,
    1.0,
    active=1.0,
    event_queue_time_p99_ms=0.4,
    idle_ratio=0.987,
    fenced_brokers=0.0,
)
TENANT = TenantSignal(CLUSTER, 100, NOW_MS, NOW_MS - 3_000, 6, 1.0, user="alice", mutation_rate_per_s=0.25, tokens=-3.5)
LAG = replication_signal(3, NOW_MS - 1_000, cluster=CLUSTER)
EVERY: list[Signal] = [BROKER, MOVE, LAG, CONTROLLER, TENANT]


def seen_of(*signals: Signal, wanted: SignalFilter = OURS) -> SignalsView:
    seen = SignalsView(wanted)
    for signal in signals:
        seen.add(encode_signal(signal))
    return seen


def shown(*signals: Signal, wanted: SignalFilter = OURS, wide: bool = False, columns: int | None = None) -> str:
    """Args:
    columns: width of the terminal; None: output to a pipe.
    """
    out = io.StringIO()
    console = console_for(out) if columns is None else Terminal(file=out, width=columns)
    for part in render_tables(seen_of(*signals, wanted=wanted), wanted, NOW_MS, AGE_S_MAX, console, wide=wide):
        console.print(part)
    return out.getvalue()


def cells(signal: Signal) -> dict[str, str]:
    """Returns column → text of one row; if several columns have one name, the last counts."""
    console = console_for(io.StringIO())
    (made,) = tables(
        SHEETS[signal_kind(signal)], [signal], NOW_MS, AGE_S_MAX, console, wide=True, has_cluster_column=False
    )
    return {str(column.header): str(next(iter(column.cells))) for column in made.columns}


# -- for people ----------------------------------------------------------------------------------------------------------


def test_each_present_signal_kind_has_a_table() -> None:
    everything, some = shown(*EVERY), shown(BROKER, TENANT)
    titles = ["Brokers", "Moves", "Replication lag", "Controllers", "Tenants"]
    assert [title for title in titles if title in everything] == titles
    assert ("Moves" in some, "Controllers" in some) == (False, False)
    assert shown() == ""


def test_table_figures_have_readable_units() -> None:
    broker = cells(
        replace(BROKER, follower_throttled_bytes_per_s=300.0, request_handler_idle_ratio=0.5, completeness=0.33)
    )
    assert broker["broker"] == "1"
    assert (broker["age"], broker["complete"]) == ("3.0 s", "33 %")
    assert broker["leader throttle"] == "4.50 MB/s"
    assert broker["used"] == "300 B/s"
    assert (broker["produce p99"], broker["handlers idle"]) == ("9.0 ms", "50 %")
    move = cells(MOVE)
    assert (move["side"], move["remain"], move["trend"], move["steady state"]) == (
        "follower",
        "2.34 GB",
        "-2.10 MB/s",
        "6.00 MB/s",
    )
    assert (move["done"], move["progress"]) == ("2", "7.0 s ago")
    assert move["largest"] == "orders-0 900 MB, orders-1 800 MB, orders-2 700 MB"
    lag = cells(LAG)
    assert (lag["lag"], lag["largest"], lag["behind"], lag["trend"], lag["5 min trend"], lag["being added"]) == (
        "5000", "4800", "24 s", "+120.0/s", "+15.0/s", "60000",
    )  # fmt: skip
    assert (lag["fit"], lag["bytes"], lag["slowest threads"], lag["worst partitions"]) == (
        "0.97", "5.00 MB", "1/0 5000 at 12.0 MB/s", "orders-7 4800",
    )  # fmt: skip
    controller = cells(CONTROLLER)
    assert (controller["active"], controller["queue p99"], controller["idle"]) == ("yes", "0.4 ms", "99 %")
    tenant = cells(TENANT)
    assert (tenant["user"], tenant["client-id"], tenant["mutations"], tenant["tokens"]) == (
        "alice",
        "–",
        "0.25/s",
        "-3.5",
    )
    assert cells(replace(TENANT, tokens=1e20))["tokens"] == "no quota"


@pytest.mark.parametrize("signal", EVERY, ids=signal_kind)
def test_unmeasured_figure_is_a_dash_not_zero(signal: Signal) -> None:
    """A measured zero is still shown as zero."""
    bare = type(signal)(**{f.name: getattr(signal, f.name) for f in fields(signal) if f.default is not None})
    optional = {name for name, text in cells(bare).items() if text == "–"}
    assert {t for n, t in cells(bare).items() if n in optional} == {"–"}
    assert len(optional) >= 3
    assert not [t for n, t in cells(bare).items() if t.startswith(("0 ", "0.0 "))]
    assert cells(replace(BROKER, produce_p99_ms=0.0))["produce p99"] == "0 ms"


@pytest.mark.parametrize(
    ("by", "said"),
    [
        (ThrottledBy.QUOTA.value, "quota"),
        (ThrottledBy.REASSIGNMENT.value, "reassignment, at least"),
        (ThrottledBy.REPLICATION.value, "replication, at most"),
        (None, "–"),
        ("something newer", "something newer"),
    ],
)
def test_table_names_the_source_of_throttled_bytes(by: str | None, said: str) -> None:
    assert cells(replace(BROKER, throttled_by=by))["source of used"] == said


@pytest.mark.parametrize(
    ("age_s", "said"),
    [
        (0, "0.0 s"), (15, "15 s"), (16, "16 s, stale"), (240, "4 min, stale"), (-10, "0.0 s"), (-40, "40 s ahead, stale"),
    ],
)  # fmt: skip
def test_age_column_marks_stale_signals_like_the_tuner(age_s: float, said: str) -> None:
    assert cells(replace(BROKER, sampled_at_ms=NOW_MS - round(age_s * 1000)))["age"] == said


def test_table_in_a_file_is_neither_cut_nor_coloured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    name = "client-" + "x" * 240
    text = shown(replace(TENANT, client_id=name), replace(BROKER, sampled_at_ms=NOW_MS - 60_000))
    assert name in text
    assert "\x1b" not in text
    assert len([line for line in text.splitlines() if "60 s, stale" in line]) == 1


def test_narrow_terminal_folds_long_names() -> None:
    assert shown(replace(TENANT, client_id="y" * 90), columns=60).count("y") == 90


@pytest.mark.parametrize("kind", SHEETS)
def test_signals_by_default_have_eight_columns(kind: str) -> None:
    sheet = SHEETS[kind]
    assert len(sheet.about) + 1 + len(sheet.figures) <= 8  # 1: the age.


def test_signals_on_eighty_columns_split_no_figure() -> None:
    busy = replace(
        BROKER, broker=2, leader_rate_bytes_per_s=850 * MB, follower_rate_bytes_per_s=850 * MB,
        follower_throttled_bytes_per_s=120 * MB, client_in_bytes_per_s=99 * MB, produce_p99_ms=1234.0,
        sampled_at_ms=NOW_MS - 240_000,
    )  # fmt: skip
    text = shown(busy, *EVERY, columns=80)
    assert max(map(len, text.splitlines())) <= 80
    assert "850 MB/s" in text
    assert not {"MB/s", "s", "ms", "ago"} & {line.strip() for line in text.splitlines()}
    assert "stale" in text


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_signals_wide_have_each_figure_and_fit(columns: int) -> None:
    text, everything = shown(*EVERY, wide=True, columns=columns), " ".join(shown(*EVERY, wide=True).split())
    assert max(map(len, text.splitlines())) <= columns
    for sheet in SHEETS.values():
        for header, _ in (*sheet.figures, *sheet.more):
            assert header in everything
    assert text.count("Brokers") > 1  # In several tables.
    assert {word for word in everything.split() if word.isalpha()} <= {*text.split()}
    assert "complete" not in shown(*EVERY, columns=columns)


def test_control_characters_in_client_name_are_escaped() -> None:
    text = shown(replace(TENANT, client_id="a\x1b[2Jb\n[bold]c"))
    assert "a\\x1b[2Jb\\n[bold]c" in text


def test_cluster_column_appears_only_for_several_clusters() -> None:
    every = SignalFilter()
    text = shown(BROKER, replace(BROKER, cluster="other", leader_rate_bytes_per_s=7 * MB), wanted=every)
    assert "4.50 MB/s" in text
    assert "7.00 MB/s" in text
    assert "other" in text
    assert "cluster" not in shown(BROKER)


def test_backlog_and_unreadable_signals_are_counted() -> None:
    seen = seen_of(BROKER, replace(BROKER, broker=2, backlog=True))
    seen.add(b"{}")
    out = io.StringIO()
    for part in render_tables(seen, OURS, NOW_MS, AGE_S_MAX, console_for(out)):
        console_for(out).print(part)
    assert "Not shown: signals of backlog records: 1, unreadable records: 1." in out.getvalue()
    assert [s.broker for s in seen.matching(NOW_MS) if isinstance(s, BrokerSignal)] == [1]


# -- for machines --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("signal", EVERY, ids=signal_kind)
def test_json_record_has_exactly_the_contract_fields(signal: Signal) -> None:
    (record,) = as_records([signal])
    assert set(record) == {"v", "kind"} | {f.name for f in fields(signal)}
    assert decode_signal(json.dumps(record).encode()) == signal


def test_raw_line_is_the_record_on_one_line() -> None:
    past = replace(MOVE, backlog=True)
    value = json.dumps({**json.loads(encode_signal(past)), "unknown yet": [1, 2]}, indent=4).encode()
    line = raw_line(value, OURS)
    assert line is not None
    assert "\n" not in line
    assert json.loads(line) == json.loads(value)


@pytest.mark.parametrize("value", [None, b"", b"\xff", b"{}", b'{"v": 9}'])
def test_raw_line_of_invalid_record_has_the_reason(value: bytes | None) -> None:
    shown = json.loads(raw_line(value, OURS) or "")
    assert set(shown) == {"unreadable", "value"}
    assert shown["unreadable"]


@pytest.mark.parametrize("later", ["1" * 5_000, "[" * 5_000], ids=["digits", "nested"])
def test_raw_line_of_an_unparsable_unknown_field_is_unreadable(later: str) -> None:
    value = encode_signal(BROKER)[:-1] + f', "later": {later}}}'.encode()
    shown = json.loads(raw_line(value, OURS) or "")
    assert set(shown) == {"unreadable", "value"}


FILTERS: list[tuple[dict[str, Any], list[Signal]]] = [
    ({}, EVERY),
    ({"kinds": frozenset({"move"})}, [MOVE]),
    ({"kinds": frozenset({"broker", "tenant"})}, [BROKER, TENANT]),
    ({"nodes": frozenset({3})}, [MOVE, LAG]),
    ({"nodes": frozenset({1, 100})}, [BROKER, CONTROLLER, TENANT]),
    ({"nodes": frozenset({100}), "kinds": frozenset({"tenant"})}, [TENANT]),
    ({"nodes": frozenset({9})}, []),
]


@pytest.mark.parametrize(("filters", "left"), FILTERS)
def test_filter_selects_matching_signals(filters: dict[str, Any], left: list[Signal]) -> None:
    wanted = SignalFilter(CLUSTER, **filters)
    foreign = replace(BROKER, cluster="other")
    assert seen_of(*EVERY, foreign, wanted=wanted).matching(NOW_MS) == left
    raw = [line for s in (*EVERY, foreign) if (line := raw_line(encode_signal(s), wanted)) is not None]
    assert [decode_signal(line.encode()) for line in raw] == left


# -- nothing to read -----------------------------------------------------------------------------------------------------


def problem_of(*signals: Signal, wanted: SignalFilter = OURS) -> str | None:
    return describe_problem(seen_of(*signals, wanted=wanted), wanted, TOPIC, NOW_MS, AGE_S_MAX)


def aged(signal: Signal, age_s: float) -> Signal:
    return replace(signal, sampled_at_ms=NOW_MS - round(age_s * 1000))


def test_one_fresh_signal_gives_no_problem() -> None:
    assert problem_of(*EVERY) is None
    assert problem_of(aged(BROKER, 500), CONTROLLER) is None


@pytest.mark.parametrize(
    ("signals", "wanted", "said"),
    [
        ([], OURS, "There are no signals in rheostat.signals: are `rheostat collect` and `rheostat stream`"),
        ([aged(BROKER, 60)], OURS, "The one signal is stale: the newest is from 2023-11-14 22:12:20 UTC, 60 s ago"),
        ([aged(BROKER, 60), aged(MOVE, 40)], OURS, "All signals are stale: the newest is from 2023-11-14 22:12:40 UTC, 40 s ago"),
        ([aged(BROKER, 7_300)], OURS, "2 h 2 min ago, and the tuner uses no signal older than 15 s: are `rheostat collect`"),
        ([aged(BROKER, -40)], OURS, "40 s ahead of this machine's clock. Compare the clocks"),
        ([replace(BROKER, backlog=True)], OURS, "Only signals of backlog records so far (1)."),
        ([replace(BROKER, cluster="other")], OURS, f"No signals of cluster {CLUSTER} in {TOPIC}, only of other"),
        (EVERY, SignalFilter(CLUSTER, nodes=frozenset({7})), "1 of kind broker, 1 of kind controller, 1 of kind move, 1 of kind"),
        ([aged(BROKER, 60), CONTROLLER], SignalFilter(CLUSTER, frozenset({"broker"})), "The one signal is stale"),
    ],
)  # fmt: skip
def test_describe_problem_names_cause_and_remedy(signals: list[Signal], wanted: SignalFilter, said: str) -> None:
    assert said in (problem_of(*signals, wanted=wanted) or "")


def test_records_of_another_version_are_reported() -> None:
    seen = SignalsView(OURS)
    seen.add(json.dumps({"v": 1, "kind": "broker", **asdict(BROKER)}).encode())
    assert "None of 1 records in rheostat.signals can be read" in (
        describe_problem(seen, OURS, TOPIC, NOW_MS, AGE_S_MAX) or ""
    )


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--kind", "brokers"], "--kind"),
        (["--node", "one"], "--node"),
        (["--duration", "-1"], "--duration"),
        (["--raw", "--watch"], "--watch"),
        (["--json", "--raw"], "--json"),
        (["--topic", "orders"], "--topic"),
    ],
)
def test_invalid_option_is_named(options: list[str], named: str) -> None:
    done = CliRunner().invoke(app, ["signals", "--config", "none.yaml", *options])
    assert done.exit_code == 2
    assert named in done.output


def test_leader_and_follower_rows_are_distinct() -> None:
    rows = shown(move_signal(*SOURCE), move_signal(1, TARGET[1])).splitlines()
    assert sum("leader" in row for row in rows) == 1
    assert sum("follower" in row for row in rows) == 1
