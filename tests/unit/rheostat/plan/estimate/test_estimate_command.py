"""`rheostat plan estimate` on files and figures: the answers, the exit codes, and the refusals of bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_rig import Command
from hypothesis import example, given
from hypothesis import strategies as st

from rheostat.errors import CommandError
from rheostat.plan.estimate.live_figures import _LogSizes, _plan_partition, _shrunk_log_note, _targets_in_progress
from rheostat.plan.estimate.sources import check_leaders
from streaming.shared.kafka.values import PartitionState
from streaming.shared.units import (
    parse_bytes,
    parse_rate,
    parse_share,
    parse_span,
    rate_text,
    size_text,
    span_text,
)
from tuner.planning.plan_file import Target

FIGURES = ["--move-ratio", "10%", "--log-size-per-broker", "1TB", "--brokers", "12", "--max-bytes-in", "20MB/s"]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """The lab's run E1: 60 MB and 3 MB/s from brokers 1, 2 to 1, 3; and a partition that stays."""
    plan, current = tmp_path / "plan.json", tmp_path / "now.json"
    plan.write_text('{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 3]}]}')
    standing = [
        {"topic": "orders", "partition": 0, "replicas": [1, 2], "size_bytes": 60e6, "write_bytes_per_s": 3e6},
        {"topic": "other", "partition": 0, "replicas": [2, 1], "size_bytes": 100e6, "write_bytes_per_s": 1e6},
    ]
    current.write_text(json.dumps({"version": 1, "brokers": [1, 2, 3], "partitions": standing}))
    return [str(plan), "--current", str(current)]


COMMAND = Command("plan estimate", {"RHEOSTAT_CONFIG": ""})
run, said, record, refused = COMMAND.run, COMMAND.said, COMMAND.record, COMMAND.refused


# -- KIP-73's figures alone ------------------------------------------------------------------------------------------------


def test_estimate_time_from_rate() -> None:
    found = record(*FIGURES, "--throttle", "50MB/s")
    assert found["kip73"]["time_s"] == pytest.approx(40_000.0)
    assert found["per_side"] is None
    assert "At 50.0 MB/s (50000000 bytes/s) the move takes 11 h 7 min." in said(*FIGURES, "--throttle", "50MB/s")


def test_estimate_rate_from_time() -> None:
    assert record(*FIGURES, "--within", "40000")["kip73"]["rate_bytes_per_s"] == 50_000_000


def test_estimate_without_limits_is_the_smallest_rate() -> None:
    assert record(*FIGURES)["kip73"]["rate_bytes_per_s_min"] == 20_000_001
    assert "The move ends at any rate from 20.0 MB/s (20000001 bytes/s) up." in said(*FIGURES)


def test_estimate_feasible_share_and_time() -> None:
    found = record(*FIGURES, "--share", "40%", "--capacity", "125MB/s", "--within", "12h")
    assert found["kip73"]["verdict"] == "ends"
    assert found["kip73"]["rate_bytes_per_s"] == 47_777_778


def test_estimate_infeasible_share_and_time_names_both() -> None:
    asked = (*FIGURES, "--share", "20%", "--capacity", "125MB/s", "--within", "12h")
    text = said(*asked, code=1)
    assert (
        "The two limits cannot both be met: at most 25.0 MB/s (25000000 bytes/s, 20.0 % of capacity), and done within 12 h."
        in text
    )
    assert "the time: 2 d 19 h is the shortest time at this rate, 2 d 7 h more than allowed;" in text
    assert (
        "or the rate: 47.8 MB/s (47777778 bytes/s, 38.2 % of capacity) ends the move in time, 22.8 MB/s more than allowed."
        in text
    )


def test_estimate_share_below_steady_state_never_ends() -> None:
    text = said(*FIGURES, "--share", "10%", "--capacity", "125MB/s", "--within", "12h", code=1)
    assert "the move never ends: steady-state replication alone takes 20.0 MB/s (max BytesInPerSec)" in text
    assert "The lowest rate that ends the move is 20.0 MB/s (20000001 bytes/s, 16.0 % of capacity)." in text
    assert "To end within 12 h, the move needs 47.8 MB/s" in text


def test_estimate_time_beyond_capacity_names_shortest_time() -> None:
    text = said(*FIGURES, "--capacity", "125MB/s", "--within", "1h", code=1)
    assert (
        "But the capacity of a broker is only 125 MB/s: change the time. With the whole capacity, 3 h 10 min is the shortest"
        in text
    )


def test_estimate_capacity_below_steady_state_never_ends() -> None:
    assert "even the whole capacity does not end the move" in said(*FIGURES, "--capacity", "20MB/s", code=1)


def test_estimate_response_rule_kip73_example() -> None:
    large = ["--move-ratio", "1%", "--log-size-per-broker", "1TB", "--brokers", "500", "--max-bytes-in", "0"]
    rule = ["--quota-window", "10s", "--network", "100MB/s", "--throttle", "1MB/s"]
    found = record(*large, *rule)["response_rule"]
    assert (found["holds"], found["response_bytes_bound"]) == (False, 2_000_000)
    assert "keep replica.fetch.response.max.bytes below 2.00 MB." in said(*large, *rule)
    assert record(*large, *rule, "--max-response-size", "1.9MB")["response_rule"]["holds"]


def test_start_needs_the_live_cluster(files: list[str]) -> None:
    live = "--start: forecasts come from the live cluster: give --config, and leave out --current."
    assert refused(*files, "--start", "best") == live
    assert refused(*files, "--start", "22:00", "--config", "rheostat.yaml") == live
    assert refused(*FIGURES, "--start", "now") == live


def test_start_with_other_options_is_refused(files: list[str], tmp_path: Path) -> None:
    config = ("--config", "rheostat.yaml")
    assert "--start and --within cannot be combined" in refused(files[0], *config, "--start", "best", "--within", "2h")
    assert "--plot draws the forecast of --start" in refused(*files, "--plot", str(tmp_path / "a.svg"))
    assert "does not exist; create it" in refused(
        files[0], *config, "--start", "now", "--plot", str(tmp_path / "none" / "a.svg")
    )
    assert "--start: expected now, best, a time of day such as 22:00" in refused(files[0], *config, "--start", "soon")


# -- a plan and how things stand -------------------------------------------------------------------------------------------


def test_estimate_per_side_never_ends_although_formula_does(files: list[str]) -> None:
    found = record(*files, "--throttle", "4.5MB/s", code=1)
    assert (found["kip73"]["verdict"], found["kip73"]["time_s"]) == ("ends", pytest.approx(160 / 1.5))
    assert (found["per_side"]["verdict"], found["per_side"]["rate_bytes_per_s_min"]) == ("never_ends", 6_000_001)
    assert found["per_side"]["steady_state_side"] == {"broker": 1, "side": "leader"}
    text = said(*files, "--throttle", "4.5MB/s", code=1)
    never = "At 4.50 MB/s (4500000 bytes/s) the move never ends: steady-state replication alone takes 6.00 MB/s on the leader side of"
    assert never in text
    assert "The lowest rate that ends the move is 6.00 MB/s (6000001 bytes/s)." in text
    assert "With only the follower sides throttled, any rate from 3.00 MB/s (3000001 bytes/s) up ends the move." in text
    assert "Steady-state replication: KIP-73 takes max(BytesInPerSec), 3.00 MB/s. The throttle passes 6.00" in text


def test_estimate_kip73_figures_come_from_files(files: list[str]) -> None:
    kip = record(*files)["kip73"]
    assert kip["move_ratio"] == 0.5
    assert kip["total_log_bytes_per_broker"] == pytest.approx(320e6 / 3)
    assert (kip["brokers"], kip["bytes_in_per_s_max"]) == (3, 3e6)
    given = record(*files, *FIGURES)["kip73"]
    assert (given["move_ratio"], given["brokers"], given["bytes_in_per_s_max"]) == (0.1, 12, 20e6)


def test_estimate_per_side_needed_rates(files: list[str]) -> None:
    found = record(*files, "--within", "20s")
    assert found["per_side"]["rate_bytes_per_s"] == 9_000_000
    assert [
        (s["broker"], s["side"], s["rate_bytes_per_s_needed"], s["time_s"]) for s in found["per_side"]["sides"]
    ] == [
        (1, "leader", 9_000_000, 20.0),
        (3, "follower", 6_000_000, 10.0),
    ]
    assert "A time below two quota windows is a rough guess" in said(*files, "--within", "20s")


def test_estimate_rate_near_steady_state_has_remark(files: list[str]) -> None:
    assert "at 0.8 the move never ends." in said(*files, "--throttle", "7MB/s")
    assert "at 0.8 the move takes 75 s." in said(*files, "--throttle", "8.5MB/s")
    assert "close to steady-state replication" not in said(*files, "--throttle", "20MB/s")


def test_estimate_options_fill_in_missing_sizes_and_rates(files: list[str], tmp_path: Path) -> None:
    plain = tmp_path / "plain.json"
    plain.write_text(
        '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1,2],"log_dirs":["any","any"]}]}'
    )
    found = record(files[0], "--current", str(plain), "--size", "60MB", "--write-rate", "3MB/s", "--throttle", "12MB/s")
    assert found["per_side"]["time_s"] == 10.0
    lacking = refused(files[0], "--current", str(plain), "--size", "60MB")
    assert lacking == f"{plain}: partition orders-0 lacks write_bytes_per_s (for all: --write-rate)"


def test_estimate_plan_without_copies(files: list[str]) -> None:
    Path(files[0]).write_text('{"partitions": [{"topic": "orders", "partition": 0, "replicas": [2, 1]}]}')
    assert "There is nothing to copy" in said(*files, "--throttle", "1MB/s")
    assert record(*files)["nothing_to_copy"]


def test_estimate_idle_partitions_have_remark(files: list[str]) -> None:
    Path(files[0]).write_text(
        '{"partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 3]},'
        ' {"topic": "other", "partition": 0, "replicas": [2, 1]}]}'
    )
    assert "Partitions of the plan that do not move: 1." in said(*files)
    assert "followers use the leaders' throttles: 1.00 MB/s on broker 2. Leave them out of the plan." in said(*files)


def test_estimate_log_dirs_have_note(files: list[str]) -> None:
    Path(files[0]).write_text(
        '{"partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 3], "log_dirs": ["/data/2", "any"]}]}'
    )
    assert "a copy between directories of one broker has its own throttle" in said(*files)


def test_estimate_table_is_cut_and_json_is_not(files: list[str]) -> None:
    several = range(30)
    Path(files[0]).write_text(
        json.dumps({"partitions": [{"topic": "t", "partition": p, "replicas": [p, p + 100]} for p in several]})
    )
    Path(files[2]).write_text(
        json.dumps({"partitions": [{"topic": "t", "partition": p, "replicas": [p, p + 50]} for p in several]})
    )
    given = ("--size", "1GB", "--write-rate", "1MB/s", "--throttle", "10MB/s")
    assert "the 20 slowest of 60 (--json has all)" in said(*files, *given)
    assert len(record(*files, *given)["per_side"]["sides"]) == 60


def test_estimate_file_name_is_escaped(files: list[str], tmp_path: Path) -> None:
    odd = tmp_path / "[red]now.json"
    Path(files[2]).rename(odd)
    assert f"Figures from {odd}. Nothing was changed." in said(files[0], "--current", str(odd))


# -- bad input -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "--move-ratio, --log-size-per-broker, --brokers, --max-bytes-in: missing"),
        (FIGURES[:-2], "--max-bytes-in: missing"),
        ([*FIGURES, "--throttle", "50Mb/s"], "MB is bytes, Mbit/s is bits"),
        ([*FIGURES, "--throttle", "0"], "expected more than 0"),
        ([*FIGURES, "--within", "soon"], "expected a time above 0"),
        ([*FIGURES, "--share", "10%"], "--share: the capacity is missing"),
        ([*FIGURES, "--share", "0%", "--capacity", "1GB"], "--share: 0 % of capacity moves nothing"),
        ([*FIGURES, "--share", "10", "--capacity", "1GB"], "expected a share from 0% to 100%"),
        ([*FIGURES, "--throttle", "1MB", "--capacity", "1GB"], "--throttle and --capacity: both limit the throttle"),
        ([*FIGURES, "--brokers", "0"], "--brokers"),
        (["--current", "now.json"], "also name a plan file with the desired assignment"),
        (["nowhere.json", *FIGURES], "nowhere.json: cannot be read: No such file or directory"),
    ],
)
def test_estimate_bad_input_is_named(arguments: list[str], named: str) -> None:
    assert named in " ".join(refused(*arguments).replace("│", " ").split())


def test_estimate_plan_alone_needs_assignment(files: list[str]) -> None:
    assert "the current leaders and replicas of the partitions are not known" in refused(files[0])


def test_estimate_shows_every_fault_of_plan(files: list[str]) -> None:
    Path(files[0]).write_text(
        '{"partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 4]},\n'
        '{"topic": "nobodys", "partition": 0, "replicas": [1]}]}'
    )
    assert refused(*files).splitlines() == [
        f"{files[0]}:1: partitions[0].replicas[1]: unknown broker 4, there are 1, 2, 3",
        f"{files[0]}:2: partitions[1].partition: there is no partition nobodys-0",
    ]


def test_estimate_file_without_text_is_refused(files: list[str]) -> None:
    Path(files[2]).write_bytes(b"\xff\xfe")
    assert "not UTF-8 text (byte 0)" in refused(*files)


# -- what a live cluster says, as values -------------------------------------------------------------------------------------

MOVING = PartitionState("orders", 0, 1, (1, 2, 3), (1, 2), adding=(3,), removing=(2,))


def test_plan_partition_adding_replica_lacks_only_the_rest() -> None:
    look = _LogSizes(0.0, {1: {("orders", 0): 100}, 2: {("orders", 0): 100}, 3: {("orders", 0): 30}})
    assert _targets_in_progress({("orders", 0): MOVING}) == (Target("orders", 0, (1, 3)),)
    assert _plan_partition(MOVING, Target("orders", 0, (1, 3)), look, 5.0).lacking_bytes == {3: 70}
    # Sent elsewhere, it is all to be copied; what broker 3 has is of no use.
    assert _plan_partition(MOVING, Target("orders", 0, (1, 4)), look, 5.0).lacking_bytes == {4: 100}


def test_shrunk_log_note_names_partitions() -> None:
    targets = [Target("orders", 0, (1, 3)), Target("orders", 1, (1, 3))]
    assert _shrunk_log_note({("orders", 0): 0, ("orders", 1): 10}, targets) == ()
    assert "The log of orders-0 shrank" in _shrunk_log_note({("orders", 0): -1, ("orders", 1): 10}, targets)[0]


def test_check_leaders_names_leaderless_partitions() -> None:
    check_leaders({("orders", 0): 1})
    with pytest.raises(CommandError, match="No leader: orders-1, orders-2"):
        check_leaders({("orders", 0): 1, ("orders", 1): -1, ("orders", 2): -1})


# -- units -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [("50MB", 50e6), ("1.5GiB", 1.5 * 2**30), ("7", 7.0), ("1 TB", 1e12), ("3kB", 3e3), ("3KiB", 3072.0), ("1e9", 1e9)],
)
def test_parse_bytes_accepts_decimal_and_binary_units(text: str, value: float) -> None:
    assert parse_bytes(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("50MB/s", 50e6),
        ("50MB", 50e6),
        ("1Gbit/s", 125e6),
        ("1200", 1200.0),
        ("12B/s", 12.0),
        ("0", 0.0),
        ("1 MiB/s", 2.0**20),
    ],
)
def test_parse_rate_accepts_bytes_and_bits_per_second(text: str, value: float) -> None:
    assert parse_rate(text) == value


@pytest.mark.parametrize(("text", "value"), [("10%", 0.1), ("0.1", 0.1), ("100%", 1.0), ("0", 0.0), ("2.5 %", 0.025)])
def test_parse_share_accepts_percent_and_ratio(text: str, value: float) -> None:
    assert parse_share(text) == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "value"), [("90", 90.0), ("90s", 90.0), ("1h30m", 5400.0), ("1 d 2 h", 93_600.0), ("45min", 2700.0)]
)
def test_parse_span_accepts_combined_units(text: str, value: float) -> None:
    assert parse_span(text) == value


@pytest.mark.parametrize("parse", [parse_bytes, parse_rate, parse_share, parse_span])
@pytest.mark.parametrize("text", ["", "much", "-5", "5 parsecs", "nan", "inf", "1e999", "5mb", "50Mb", "%", "1h 5x"])
def test_parse_ambiguous_amount_is_refused(parse: Any, text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse(text)


def test_amounts_are_shown_with_fitting_units() -> None:
    assert [size_text(v) for v in (0, 999, 1e3, 999_600, 123_456_789, 2.5e12)] == [
        "0 B", "999 B", "1.00 kB", "1.00 MB", "123 MB", "2.50 TB",
    ]  # fmt: skip
    assert [rate_text(v) for v in (40_000, 6_000_001, 1.2e9)] == ["40.0 kB/s", "6.00 MB/s", "1.20 GB/s"]
    assert [span_text(v) for v in (3.21, 45, 89, 119.6, 700, 3599, 3599.8, 5400, 40_000, 100_000)] == [
        "3.2 s", "45 s", "89 s", "2 min", "11 min 40 s", "1 h", "1 h", "1 h 30 min", "11 h 7 min", "1 d 4 h",
    ]  # fmt: skip


@given(st.floats(0, 1e18))
def test_size_text_is_exact_to_three_digits(n_bytes: float) -> None:
    assert parse_bytes(size_text(n_bytes)) == pytest.approx(n_bytes, rel=0.0051, abs=0.51)


def test_span_text_short_time_has_half_seconds() -> None:
    assert [span_text(v) for v in (9.96, 10.0, 10.5, 24.94, 25.5)] == ["10.0 s", "10 s", "10.5 s", "24.9 s", "26 s"]


@given(st.floats(0.05, 1e9))
@example(10.5)
def test_span_text_is_exact_to_a_percent(seconds: float) -> None:
    assert parse_span(span_text(seconds)) == pytest.approx(seconds, rel=0.02, abs=0.051)
