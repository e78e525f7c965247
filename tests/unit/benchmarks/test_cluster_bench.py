"""The evaluation of benchmarks.cluster: optimal time, Pareto front, bounds, arguments, order of runs."""

from __future__ import annotations

import ipaddress
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.cluster import kept, main, report
from benchmarks.links.calm import calm_of, silence_s
from benchmarks.links.net import Links, before_others, check_machine
from benchmarks.links.plot import svg
from benchmarks.links.run import stretches
from benchmarks.links.score import (
    OURS,
    OURS_CALM,
    POLICIES,
    Latency,
    front,
    in_turn,
    latency,
    load_told,
    missed,
    optimum_s,
    ratios,
    throttle_bytes_per_s,
    totals,
)
from benchmarks.links.size import SCENARIOS, Size
from benchmarks.links.watch import Aside, Watch
from rheostat.errors import CommandError, SetupError

MB = 1_000_000


def row(
    policy: str,
    ratio: float | None,
    average: float = 1.0,
    p99: float = 1.0,
    *,
    scenario: str = "steady",
    run: int = 0,
    **more: Any,
) -> dict[str, Any]:
    return {
        "scenario": scenario, "policy": policy, "run": run, "completed": ratio is not None, "ratio_to_optimum": ratio,
        "produce_latency_ratio": {"average": average, "p99": p99}, "during": {"average_ms": 3 * average, "p99_ms": 9 * p99},
        "idle": {"average_ms": 3.0, "p99_ms": 9.0},
        "cpu_share": 0.5, "machine_share": 0.6, "keys_left": 0, "seconds": [],
    } | more  # fmt: skip


# -- T* ----------------------------------------------------------------------------------------------------------------


def test_optimal_time_of_steady_link_is_bytes_per_rate() -> None:
    assert optimum_s(1_200 * MB, [(0.0, 20.0 * MB)]) == 60.0


def test_optimal_time_doubles_when_clients_use_half_the_link() -> None:
    # 20 s × 20 MB, 30 s × 10 MB, and the 500 MB that are left at 20 MB/s.
    assert optimum_s(1_200 * MB, [(0.0, 20.0 * MB), (20.0, 10.0 * MB), (50.0, 20.0 * MB)]) == 75.0


def test_later_load_step_does_not_change_optimal_time() -> None:
    assert optimum_s(200 * MB, [(0.0, 20.0 * MB), (20.0, 1.0 * MB)]) == 10.0


def test_writes_above_link_rate_increase_remaining_bytes() -> None:
    # 10 s at −2 MB/s: 120 MB instead of 100.
    assert optimum_s(100 * MB, [(0.0, -2.0 * MB), (10.0, 20.0 * MB)]) == 16.0


@pytest.mark.parametrize("last", [0.0, -1.0 * MB])
def test_link_without_headroom_never_ends_the_move(last: float) -> None:
    assert optimum_s(1_200 * MB, [(0.0, 20.0 * MB), (20.0, last)]) is None


@given(
    size=st.floats(1e6, 1e12),
    rates=st.lists(st.floats(1e5, 1e9), min_size=1, max_size=5),
    lasts=st.floats(1.0, 100.0),
)
def test_link_is_exactly_full_in_optimal_time(size: float, rates: list[float], lasts: float) -> None:
    stretches = [(i * lasts, rate) for i, rate in enumerate(rates)]
    found = optimum_s(size, stretches)
    assert found is not None
    ends = [begin for begin, _ in stretches[1:]] + [float("inf")]
    carried = sum(max(0.0, min(end, found) - begin) * rate for (begin, rate), end in zip(stretches, ends, strict=True))
    assert carried == pytest.approx(size)


def test_link_share_quota_includes_in_sync_followers() -> None:
    assert throttle_bytes_per_s(0.5, 20.0 * MB, 0.5 * MB) == 10_500_000
    assert throttle_bytes_per_s(1.0, 20.0 * MB, 0.0) == 20_000_000


@given(mbit=st.floats(1.0, 10_000.0))
def test_fetch_response_and_clients_scale_with_link_speed(mbit: float) -> None:
    size, link = Size(link_mbit_per_s=mbit), mbit * 125_000
    assert size.answer_bytes / link == pytest.approx(0.013, rel=0.01)
    assert size.clients_bytes_per_s / link == pytest.approx(0.28)
    assert size.fetch_bytes * 4 <= size.answer_bytes


@given(mbit=st.floats(5.0, 1_000.0))
def test_full_batch_equals_one_fetch(mbit: float) -> None:
    # A batch of the format of today: 61 bytes, and 9 or 10 beside the value of each record; the producer reckons with 21 and
    # more for the one that it has still to put in.
    size = Size(link_mbit_per_s=mbit)
    eight = 61 + 7 * (size.record_bytes + 10) + size.record_bytes + 25
    assert 0.95 * size.fetch_bytes <= eight - 15 <= eight <= size.fetch_bytes


def test_link_headroom_excludes_clients_and_moved_topic() -> None:
    size = Size(link_mbit_per_s=40.0)
    assert stretches(4.0 * MB, size, SCENARIOS["steady"]) == [(0.0, 3.9 * MB)]
    assert stretches(4.0 * MB, size, SCENARIOS["steps"]) == [(0.0, 3.9 * MB), (35.0, 2.1 * MB), (80.0, 3.9 * MB)]


# -- latency -----------------------------------------------------------------------------------------------------------


def test_percentile_99_leaves_one_in_a_hundred_above() -> None:
    assert latency([float(n) for n in range(200, 0, -1)]) == Latency(200, 100.5, 100.0, 198.0, 200.0)


def test_too_few_samples_give_no_percentile() -> None:
    assert latency([1.0] * 99) is None


def test_latency_is_relative_to_latency_before_the_move() -> None:
    assert ratios(Latency(100, 2.0, 1.5, 10.0, 20.0), Latency(100, 5.0, 4.0, 15.0, 66.0)) == {
        "average": 2.5,
        "p99": 1.5,
    }


def test_move_is_reported_per_second() -> None:
    watch = Watch()
    watch.saw(100.0, 0, 0, None)
    watch.saw(101.0, 2_500_000, 1_500_000, 4_000_000)
    watch.saw(103.0, 6_500_000, 4_500_000, None)
    assert watch.told(100.0) == [
        {"t_s": 1.0, "out_MB_per_s": 2.5, "copied_MB_per_s": 1.5, "rate_MB_per_s": 4.0},
        {"t_s": 3.0, "out_MB_per_s": 2.0, "copied_MB_per_s": 1.5, "rate_MB_per_s": None},
    ]


def test_background_call_raises_where_it_is_awaited() -> None:
    def fails() -> None:
        raise CommandError("the tool says no")

    with pytest.raises(CommandError, match="the tool says no"):
        Aside(fails).join()


# -- over the runs -----------------------------------------------------------------------------------------------------


def test_runs_report_median_and_worst() -> None:
    (total,) = totals([row(OURS, 1.2, 2.0), row(OURS, 1.1, 4.0, run=1), row(OURS, 1.6, 3.0, run=2, cpu_share=0.7)])
    assert (total["ratio_to_optimum"], total["ratio_worst"], total["cpu_share"]) == (1.2, 1.6, 0.7)
    assert total["produce_latency_ratio"]["average"] == 3.0


def test_latency_baseline_is_one_idle_cluster() -> None:
    """The idle 25 s before a run vary by chance, so every run of a scenario is compared with one common baseline."""
    lucky, unlucky = (
        row(name, 1.2, 2.0, idle={"average_ms": ms, "p99_ms": 9.0}) for name, ms in (("a", 6.0), ("b", 2.0))
    )
    other = row("c", 1.2, 2.0, scenario="steps", idle={"average_ms": 1.0, "p99_ms": 9.0})
    found = totals([lucky, unlucky, other])
    assert [total["produce_latency_ratio"]["average"] for total in found] == [1.5, 1.5, 6.0]


def test_unfinished_run_gives_no_time() -> None:
    (total,) = totals([row(OURS, 1.2), row(OURS, None, run=1)])
    assert (total["completed"], total["runs"], total["ratio_to_optimum"]) == (1, 2, None)


def test_pareto_front_is_undominated() -> None:
    found = totals(
        [
            row("none", 1.0, 6.0),
            row("static-25", 4.2, 1.2),
            row("static-50", 2.1, 2.5),  # Slower than ours and rougher.
            row("static-100", 1.1, 5.0),
            row(OURS, 1.2, 2.0),
            row("static-too-low", None, 1.0),  # The gentlest of all, and never done.
        ]
    )
    assert front(found, "average") == ["none", "static-100", OURS, "static-25"]


def test_met_bounds_are_not_reported() -> None:
    assert missed([row(OURS, 1.25, 2.0), row("static-100", 1.1, 5.0, 5.0), row("static-25", 4.0, 1.1, 1.0)]) == []


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([row(OURS, 1.26)], "ours (steady) took 1.26 × T*, the bound is 1.25"),
        ([row(OURS_CALM, 1.26)], "ours-window-3 (steady) took 1.26 × T*, the bound is 1.25"),
        ([row(OURS, None)], "ours (steady) did not end in 1 of 1 runs"),
        ([row(OURS, 1.1, keys_left=2)], "ours (steady) left 2 throttle keys behind"),
        ([row(OURS, 1.2, 2.0, 1.0), row("static-75", 1.2, 2.0, 1.1)], "static-75 is as fast as ours (steady) and as gentle by the average"),
        ([row(OURS, 1.2, 1.0, 2.0), row("static-75", 1.1, 1.5, 1.9)], "static-75 is as fast as ours (steady) and as gentle by the p99"),
    ],
)  # fmt: skip
def test_missed_bound_is_reported_as_a_sentence(rows: list[dict[str, Any]], said: str) -> None:
    assert missed(rows) == [said]


def test_static_throttle_of_other_scenario_is_not_compared() -> None:
    assert missed([row(OURS, 1.2, 2.0), row("static-75", 1.0, 1.0, scenario="steps")]) == []


def test_unthrottled_run_may_win_and_busy_machine_is_named() -> None:
    assert missed([row(OURS, 1.2, 2.0), row("none", 1.0, 1.0)]) == []
    assert report([row(OURS, 1.2, cpu_share=0.86)])["missed"] == [
        "the machine limits: steady, ours used over 85% of it"
    ]


def test_rounds_rotate_policies_and_start_brokers_per_window() -> None:
    chosen = [policy for policy in POLICIES if policy.name in ("none", "static-50", OURS, OURS_CALM)]
    turns = [{samples: [p.name for p in own] for samples, own in in_turn(chosen, turn).items()} for turn in range(4)]
    assert [turn[11] for turn in turns] == [
        [OURS, "none", "static-50"],
        ["none", "static-50", OURS],
        ["static-50", OURS, "none"],
        [OURS, "none", "static-50"],
    ]
    assert all(turn[3] == [OURS_CALM] for turn in turns)


def test_every_policy_of_a_scenario_exists() -> None:
    assert {name for scenario in SCENARIOS.values() for name in scenario.policies} == {p.name for p in POLICIES}


# -- calm --------------------------------------------------------------------------------------------------------------


def seconds(copied: list[float], rates: list[float | None]) -> list[dict[str, Any]]:
    return [
        {"t_s": i + 1.0, "out_MB_per_s": 3.0, "copied_MB_per_s": mb, "rate_MB_per_s": rate}
        for i, (mb, rate) in enumerate(zip(copied, rates, strict=True))
    ]


def test_calm_of_a_run_is_that_of_its_seconds() -> None:
    found = calm_of(
        row(
            OURS,
            1.2,
            seconds=seconds([1.9, 3.9, 0.9, 0.03, 0.0, 1.9], [2.0, 2.0, 1.0, 2.0, 2.0, 2.0]),
            in_sync_bytes_per_s=100_000,
            move_s=30.0,
            config_writes=20,
            brokers=4,
            clients={"clients_during_p50_ms": 4.0},
        )
    )
    # The rate: 2 of changes, a net change of 0, ÷ a mean of 11 ÷ 6, ÷ 6 s.
    assert found["rate_variation_per_min"] == pytest.approx(2 / (11 / 6) / 0.1)
    assert found["burst_ratio_max"] == pytest.approx(2.0), "4 MB with the in-sync follower's, of 2"
    # Seconds 2 to 5 allow 7 MB; in the third all of 1 MB passes, and in the last two 0.13 and 0.1 of 2.
    assert found["undershoot_ratio"] == pytest.approx((1.87 + 1.9) / 7)
    # 2 % of the mean are 29 kB: 30 kB are no silence.
    assert found["silence_s_max"] == 1.0
    assert found["config_writes_per_broker_min"] == pytest.approx(10.0)
    assert found["clients_during_p50_ms"] == 4.0


def test_row_of_earlier_version_has_the_figures_that_it_can(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = [{"t_s": i + 1.0, "out_MB_per_s": 3.0, "rate_MB_per_s": mb} for i, mb in enumerate([2.0, 3.0, 2.0])]
    rows = [row(OURS, 1.2, 2.0, seconds=old), row("none", 1.0, 4.0, seconds=[])]
    found = calm_of(rows[0])
    assert found["rate_variation_per_min"] == pytest.approx(2 / (7 / 3) / (3 / 60))
    others = {name: value for name, value in found.items() if name != "rate_variation_per_min" and value is not None}
    assert others == {"clients_before_p99_ms": 9.0, "clients_during_p99_ms": 9.0}
    assert calm_of(rows[1])["rate_variation_per_min"] is None
    file = tmp_path / "runs.jsonl"
    file.write_text("".join(json.dumps(r) + "\n" for r in rows))
    assert main(["--report", "--save", str(file)]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("ours") and "17.14" in line)
    assert line.split()[1:] == ["17.14", *["-"] * 10, "9.0", "9.0", "-"]


def test_runs_without_throttle_have_no_rates_to_measure() -> None:
    found = calm_of(row("none", 1.0, seconds=seconds([4.0, 4.0, 0.0, 4.0], [None] * 4)))
    assert (found["rate_variation_per_min"], found["burst_ratio_max"], found["undershoot_ratio"]) == (None, None, None)
    assert found["silence_s_max"] == 1.0


def test_run_in_which_nothing_passes_is_silent_throughout() -> None:
    assert silence_s(np.zeros(5), np.ones(5)) == 5.0


def test_calm_of_policy_is_median_of_runs_that_have_it() -> None:
    new = [
        row(OURS, 1.2, run=run, move_s=60.0, config_writes=writes, brokers=1, clients={"clients_after_p99_ms": p99_ms})
        for run, (writes, p99_ms) in enumerate([(10, 9.0), (30, None), (20, 11.0)])
    ]
    (total,) = totals([*new, row(OURS, 1.2, run=3)])
    assert (total["config_writes_per_broker_min"], total["clients_after_p99_ms"]) == (20.0, 10.0)
    assert (total["burst_ratio_max"], total["clients_before_p50_ms"]) == (None, None)


# -- the command -------------------------------------------------------------------------------------------------------


def test_campaign_resumes_from_saved_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "runs.jsonl"
    file.write_text("".join(json.dumps(r) + "\n" for r in (row(OURS, 1.2, 2.0), row("static-50", 2.2, 3.0))))
    assert [r["policy"] for r in kept(file)] == [OURS, "static-50"]
    assert main(["--report", "--save", str(file), "--json", "--plot", str(tmp_path / "front.svg")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["front"] == {"steady": {"average": [OURS], "p99": [OURS]}}
    assert "seconds" not in found["rows"][0]
    picture = (tmp_path / "front-steady-average.svg").read_text()
    assert picture.count("<circle") == 2
    assert main(["--report", "--save", str(file)]) == 0
    assert "ours                1     1    1.20   1.20" in capsys.readouterr().out


def test_missed_bound_gives_exit_code_1(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    file.write_text(json.dumps(row(OURS, 1.5)) + "\n")
    assert main(["--report", "--save", str(file)]) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [("{\n", "line 1: not a run that --save has written"), ("", "holds no runs"), ('{"policy": "ours"}', "line 1")],
)
def test_file_without_runs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str) -> None:
    file = tmp_path / "runs.jsonl"
    file.write_text(text)
    assert main(["--report", "--save", str(file)]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--runs", "0"], ["--runs", "x"], ["--report"], ["--scenario", "none"], ["--policies", "fast"]])  # fmt: skip
def test_invalid_argument_is_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2


def test_missing_iproute2_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SetupError, match="ip and tc is not installed: on Debian apt-get install iproute2"):
        check_machine()
    assert main([]) == 1


def test_priority_applies_to_the_whole_session() -> None:
    autogroup = Path("/proc/self/autogroup")
    if not autogroup.exists():
        pytest.skip("this kernel gives sessions no share of their own")
    said = subprocess.run(
        [*before_others(3), "cat", str(autogroup)], capture_output=True, text=True, check=True, start_new_session=True
    )
    assert said.stdout.split()[-2:] == ["nice", "3"]
    # What started us may stand in no such group (the first session of a machine does): then the file is empty.
    assert autogroup.read_text().split()[-1:] != ["3"]


def test_node_addresses_are_distinct() -> None:
    links = Links(4, subnet=ipaddress.IPv4Network("10.213.80.0/24"))
    assert [links.host(node) for node in (None, 0, 1, 4)] == [
        "10.213.80.1",
        "10.213.80.10",
        "10.213.80.11",
        "10.213.80.14",
    ]


@pytest.mark.parametrize("longest", ["1.25", "0", "-3", "nan", "inf", "long"])
def test_run_that_cannot_miss_the_bound_is_refused(longest: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--longest", longest])
    assert ended.value.code == 2
    assert f"--longest: '{longest}': expected a number above the bound, 1.25" in capsys.readouterr().err


def test_chart_without_data_has_axes_and_no_points() -> None:
    picture = svg("nothing & nobody", totals([row("static-too-low", None)]), "p99")
    assert "nothing &amp; nobody" in picture
    assert "<circle" not in picture


# -- clients that come in a burst -------------------------------------------------------------------------------------


def test_burst_summary_omits_its_prefix() -> None:
    said = (
        "501 records sent, 100.1 records/sec (0.30 MB/sec), 700.0 ms avg latency, 812.0 ms max latency.\n"
        "1000 records sent, 200.0 records/sec (2.00 MB/sec), 10.0 ms avg latency, 55.0 ms max latency.\n"
        "3000 records sent, 600.0 records/sec (3.00 MB/sec), 30.0 ms avg latency, 99.0 ms max latency.\n"
        "4501 records sent, 300.0 records/sec (1.77 MB/sec), 99.9 ms avg latency, 812.0 ms max latency, 7 ms 50th, 9 ms 95th.\n"
    )
    assert load_told(said) == {"MB_per_s": 2.5, "average_ms": 25.0, "max_ms": 99.0}
    assert load_told(said.splitlines()[0] + "\n") is None
    assert load_told("") is None


@pytest.mark.parametrize(("waits_ms", "beaten"), [(400.0, False), (80.0, True), (None, True)])
def test_burst_clients_count_in_latency_comparison(waits_ms: float | None, beaten: bool) -> None:
    ours = row(OURS, 1.22, 3.0, scenario="steps", burst={"average_ms": 100.0})
    rival = row("static-75", 1.20, 2.0, scenario="steps", burst=waits_ms and {"average_ms": waits_ms})
    assert any("static-75 is as fast as ours" in failure for failure in missed([ours, rival])) is beaten
