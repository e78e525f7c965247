"""`rheostat simulate`: the result, the exit code, and refused input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from rheostat.cli import app
from rheostat.errors import CommandError

# 1 GB from broker 1, 3 MB/s written to it; keeping up takes 6 MB/s on the leader's side.
SMALL = """\
about: A small move.
brokers: 3
link: 100MB/s
disk: 100MB/s
topics:
  - {name: t, size: 1GB, write: 3MB/s, replicas: [[1, 2]]}
move:
  plan: {partitions: [{topic: t, partition: 0, replicas: [1, 3]}]}
load: {noise: 10%}
ceiling: 50MB/s
duration: 6min
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL + "throttle: 20MB/s\n")
    return path


@pytest.fixture
def busy(tmp_path: Path) -> Path:
    path = tmp_path / "busy.yaml"
    path.write_text(SMALL.replace("write: 3MB/s", "write: 20MB/s"))
    return path


@pytest.fixture
def stuck(tmp_path: Path) -> Path:
    path = tmp_path / "stuck.yaml"
    path.write_text(SMALL + "throttle: 4MB/s\n")
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["simulate", *map(str, arguments)])


def record(*arguments: object, code: int = 0) -> dict[str, Any]:
    done = run(*arguments, "--json")
    assert done.exit_code == code, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def refused(*arguments: object) -> str:
    done = run(*arguments)
    assert isinstance(done.exception, CommandError)
    assert done.exception.exit_code == 2
    return str(done.exception)


def test_result_follows_a_description_of_the_world(small: Path) -> None:
    done = run(small, "--policy", "as-is")
    assert done.exit_code == 0
    assert done.stderr.startswith(
        "small: A small move.\nseed 1: 3 brokers; clients write 3.00 MB/s to 1 partition; 1 of them move, 1.00 GB\n"
    )
    assert done.stdout.startswith("policy as-is\nThe moves ended after ")
    for told in ("× the optimum", "clients' p99 above 50 ms", "× the throttle rate", "config writes", "copied"):
        assert told in done.stdout


@pytest.mark.parametrize(
    ("policy", "scenario", "moves", "clients"),
    [
        ("as-is", "small", "With the initial throttles the moves take ", "Clients are not disturbed: their p99 latency never exceeds 50 ms."),
        ("static:4MB/s", "small", "With a fixed throttle of 4MB/s the moves do not end within 6 min: the throttle of one broker side leaves nothing for the copy", "Clients are not"),
        ("none", "busy", "With no throttle the moves take 28 s, less than 32 s for the shortest schedule that keeps clients below 50 ms.", "Clients are disturbed: their p99 latency exceeds 50 ms in "),
    ],
)  # fmt: skip
def test_result_ends_with_what_the_run_shows(
    policy: str, scenario: str, moves: str, clients: str, request: pytest.FixtureRequest
) -> None:
    done = run(request.getfixturevalue(scenario), "--policy", policy)
    first, second = done.stdout.splitlines()[-2:]
    assert first.startswith(moves)
    assert second.startswith(clients)
    path = request.getfixturevalue(scenario)
    assert record(path, "--policy", policy, code=done.exit_code)["conclusion"] == [first, second]


def test_json_result_has_every_figure(small: Path) -> None:
    found = record(small, "--policy", "as-is", "--seed", "3")
    assert (found["scenario"], found["policy"], found["seed"]) == ("small", "as-is", 3)
    assert (found["brokers"], found["partitions_moving"], found["bytes_to_move"]) == (3, 1, 1_000_000_000)
    assert found["completed"] is True
    assert found["in_time"] is True
    # The leader side passes 20 MB/s; 6 of it keep up, so 1 GB takes 71 s and the first seconds' burst takes some off.
    assert found["duration_s"] == pytest.approx(1000 / 14, rel=0.25)
    assert found["ratio_to_optimum"] == pytest.approx(found["duration_s"] / found["optimum_s"])
    assert found["blocked"] == []


def test_same_seed_gives_the_same_output(small: Path) -> None:
    arguments = (small, "--policy", "none", "--json", "--seed")
    assert run(*arguments, 3).stdout == run(*arguments, 3).stdout
    assert run(*arguments, 3).stdout != run(*arguments, 4).stdout


def test_move_that_never_ends_names_w_and_smallest_rate(stuck: Path) -> None:
    found = record(stuck, "--policy", "as-is", code=1)
    assert found["completed"] is False
    assert found["blocked"] == [
        {
            "broker": 1,
            "side": "leader",
            "rate_bytes_per_s": 4_000_000,
            "steady_state_bytes_per_s": 6_000_000,
            "rate_bytes_per_s_min": 6_000_001,
        }
    ]
    told = run(stuck, "--policy", "static:5MB/s").stdout
    assert "did NOT end within 6 min" in told
    assert "its throttle is 5.00 MB/s" in told
    assert "W = 6.00 MB/s" in told
    assert "The lowest rate that ends the move is 6000001 bytes/s" in told


def test_rheostat_policy_rescues_a_stalled_move(stuck: Path) -> None:
    found = record(stuck)
    assert found["policy"] == "rheostat"
    assert found["completed"] is True
    assert found["config_writes_per_broker_min"] > 0


def test_higher_static_rate_ends_sooner(small: Path) -> None:
    slow, fast, free = (record(small, "--policy", p) for p in ("static:10MB/s", "static:40MB/s", "none"))
    assert slow["duration_s"] > 2 * fast["duration_s"] > 2 * free["duration_s"]
    assert slow["config_writes_per_broker_min"] == free["config_writes_per_broker_min"] == 0
    assert free["burst_ratio_max"] == 0.0


def test_unthrottled_move_is_throttled_by_default_policy(small: Path) -> None:
    """Unthrottled it would use 100 MB/s; the first throttle is 5 MB/s and rises to the ceiling of 50 MB/s."""
    small.write_text(SMALL)
    ours, free = record(small), record(small, "--policy", "none")
    assert ours["config_writes_per_broker_min"] > 1.0
    assert ours["burst_ratio_max"] > 0.0, "a throttle stood"
    assert ours["duration_s"] > 1.5 * free["duration_s"]
    # To raise what is stalled is all that it does without an objective.
    assert record(small, "--policy", "rheostat:rescue")["config_writes_per_broker_min"] == 0


def test_deadline_slows_the_move(small: Path) -> None:
    """1 GB could be copied in 12 s, and the deadline is five minutes."""
    small.write_text(SMALL + "deadline: 5min\n")
    found = record(small)
    assert (found["in_time"], found["deadline_s"]) == (True, 300.0)
    assert 240.0 <= found["duration_s"] <= 300.0
    told = run(small).stdout
    assert "policy rheostat\n" in told
    assert "in time for the deadline of 5 min" in told
    fast = record(small, "--policy", "rheostat:fast")
    assert fast["duration_s"] < 60.0
    assert (fast["in_time"], fast["deadline_s"]) == (True, 300.0), "it is still what has to be kept"


def test_deadline_option_is_accepted(small: Path) -> None:
    found = record(small, "--policy", "rheostat:deadline:2min")
    assert (found["policy"], found["deadline_s"], found["in_time"]) == ("rheostat:deadline:2min", 120.0, True)
    assert 80.0 <= found["duration_s"] <= 120.0
    late = record(small, "--policy", "rheostat:deadline:2s", code=1)
    assert (late["completed"], late["in_time"]) == (True, False)


def test_share_option_limits_the_link_use(small: Path) -> None:
    """A tenth of the 100 MB/s link is 10 MB/s; 3 MB/s of it are new writes, so 1 GB takes 143 s at 7 MB/s."""
    small.write_text(SMALL + "share: 10%\nthrottle: 20MB/s\n")
    found = record(small)
    assert 130.0 <= found["duration_s"] <= 150.0
    assert record(small, "--policy", "rheostat:share")["duration_s"] == found["duration_s"]
    assert record(small, "--policy", "rheostat:share:50%")["duration_s"] < 45.0
    assert record(small, "--policy", "rheostat:fast")["duration_s"] < 45.0


def test_missed_deadline_exits_with_1(small: Path) -> None:
    small.write_text(small.read_text() + "deadline: 30s\n")
    found = record(small, "--policy", "static:12MB/s", code=1)
    assert (found["completed"], found["in_time"]) == (True, False)
    assert "too late for the deadline of 30 s" in run(small, "--policy", "static:12MB/s").stdout
    assert record(small, "--policy", "none")["in_time"] is True


def test_full_links_are_named_as_the_reason(small: Path) -> None:
    small.write_text(small.read_text().replace("noise: 10%", "writes: 95MB/s"))
    done = run(small, "--policy", "none")
    assert done.exit_code == 1
    assert "No schedule could end the moves in that time" in done.stdout


def test_too_short_duration_is_named_as_the_reason(small: Path) -> None:
    small.write_text(small.read_text().replace("6min", "30s"))
    done = run(small, "--policy", "as-is")
    assert done.exit_code == 1
    assert "a longer duration may show the end" in done.stdout


def test_plot_option_writes_an_svg_file(small: Path, tmp_path: Path) -> None:
    plot = tmp_path / "a.svg"
    done = run(small, "--policy", "as-is", "--plot", plot)
    assert done.exit_code == 0
    assert f"The plot is written to {plot}." in done.stderr
    assert plot.read_text().startswith("<svg ")
    assert "does not exist" in refused(small, "--plot", tmp_path / "gone" / "a.svg")
    assert "cannot be written" in refused(small, "--policy", "none", "--plot", tmp_path)


def test_colliding_fetcher_threads_are_named() -> None:
    """One fetcher thread of 60 MB/s copies four partitions; the throttles are far above that."""
    found = record("fetcher-collision")
    [told] = found["diagnoses"]
    assert told["reason"] == "stalled_fetcher_bound"
    assert told["at_s"] < 90.0
    assert (
        "the cause is the fetcher threads: 4 of the 4 partitions that move onto broker 4 from broker 1 are copied by one thread of 4, "
        "ReplicaFetcherThread-1-1; with num.replica.fetchers=5 one thread would copy at most 1 of them"
    ) in told["text"]
    assert found["last_decisions"] == [], "it has ended"


def test_diagnoses_during_the_run_are_printed(small: Path) -> None:
    """5 GB take two minutes at the maximum of 50 MB/s, and the deadline is one minute."""
    small.write_text(small.read_text().replace("1GB", "5GB"))
    told = run(small, "--policy", "rheostat:deadline:1min").stdout
    assert "too late for the deadline of 60 s" in told
    assert "Diagnoses during the run:\n  after " in told
    assert "raise tuner.rate_bytes_per_s_max" in told


def test_shipped_scenario_is_found_by_name() -> None:
    told = run("--list").stdout
    assert "kip73-2node-produce" in told
    assert len(told.splitlines()) == 19
    assert set(json.loads(run("--list", "--json").stdout)) == {line.split()[0] for line in told.splitlines()}


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (
            "best",
            "unknown policy 'best', expected one of rheostat (with the scenario's deadline or share, if it has one), rheostat:fast, rheostat:gentle, rheostat:share (rheostat:share:25%), rheostat:deadline (rheostat:deadline:2h), rheostat:rescue (without an objective), static:RATE (static:50MB/s), as-is",
        ),
        ("static", "unknown policy 'static', expected one of rheostat ("),
        ("rheostat:5", "unknown policy 'rheostat:5'"),
        ("rheostat:fast:5", "unknown policy 'rheostat:fast:5'"),
        ("rheostat:rescue:5", "unknown policy 'rheostat:rescue:5'"),
        ("rheostat:share", "the share is missing: give it, as in rheostat:share:25%, or set `share` in the scenario"),
        ("rheostat:share:250%", "--policy rheostat:share:250%: expected a share from 0% to 100%"),
        ("rheostat:share:0%", "--policy rheostat:share:0%: expected more than 0, found '0%'"),
        (
            "rheostat:deadline",
            "the deadline is missing: give it, as in rheostat:deadline:2h, or set `deadline` in the scenario",
        ),
        ("rheostat:deadline:soon", "--policy rheostat:deadline:soon: expected"),
        ("static:-5MB/s", "--policy static:-5MB/s: expected a rate such as 50MB/s"),
        ("static:0", "--policy static:0: expected more than 0"),
    ],
)
def test_unknown_policy_is_named_with_the_choices(small: Path, policy: str, told: str) -> None:
    assert told in refused(small, "--policy", policy)


def test_scenario_with_two_goals_is_refused(small: Path) -> None:
    goals = small.read_text()
    small.write_text(goals + "deadline: 5min\nshare: 25%\n")
    told = refused(small)
    assert f"{small}:14: share: expected deadline or share, as rheostat has one goal at a time, found both" in told
    small.write_text(goals + "share: 0%\n")
    assert f"{small}:13: share: expected more than 0, found '0%'" in refused(small)


def test_bad_input_is_named(small: Path) -> None:
    small.write_text("brokers: 3\nlink: -1GB/s\n")
    assert f"{small}:2: link: expected a rate" in refused(small)
    assert "expected a file, or one of broker-add" in refused(small.parent / "other.yaml")
    assert "No scenario was given: name a file, or one of broker-add" in refused()


def test_ceiling_below_the_default_min_rate_is_kept(stuck: Path) -> None:
    stuck.write_text(stuck.read_text().replace("ceiling: 50MB/s", "ceiling: 3MB/s"))
    assert record(stuck, code=1)["completed"] is False
