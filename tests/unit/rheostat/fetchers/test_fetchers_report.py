"""The report of `rheostat fetchers`: the advice, its text, the JSON record, and both charts."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from command_rig import Command
from rich.console import Console

from rheostat.errors import BadInputError
from rheostat.fetchers.command import check_plot_name, write_plot
from rheostat.fetchers.heat_map import BROKERS_MAX, HeatMap, as_svg, as_text
from rheostat.fetchers.report import FetchersReport, analyse_fetchers, to_record
from rheostat.fetchers.view import show
from tuner.core.fetcher_load import FetchedPartition

refused = Command("fetchers").refused


def colliding(fetchers: int = 2) -> FetchersReport:
    """Broker 2 follows four even partitions of broker 1, which share a thread (hash("a") is 97)."""
    partitions = [FetchedPartition("a", p, 1, (1, 2), 4e6) for p in (1, 3, 5, 7)]
    return analyse_fetchers("a test", partitions, {1: fetchers, 2: fetchers}, by_writes=True)


def shown(made: FetchersReport) -> str:
    out = io.StringIO()
    show(made, Console(file=out, width=200, no_color=True))
    return out.getvalue()


def test_show_collision_has_better_value() -> None:
    made = colliding()
    assert (made.current.load_max, made.current.idle, made.is_worthwhile, made.exit_code()) == (16e6, 1, True, 1)
    assert made.best.fetchers == 5  # 3 threads bring it to 8 MB/s, 4 as well, 5 to 4.
    told = shown(made)
    assert (
        "num.replica.fetchers is 2; the busiest thread, ReplicaFetcherThread-0-1 on broker 2, copies 16.0 MB/s" in told
    )
    assert "while 1 threads are idle" in told
    assert "num.replica.fetchers=5 would reduce the load of the busiest thread to 4.00 MB/s, 75% less." in told
    assert "so the steps are: 4, 5." in told
    assert "2 (now)" in told
    assert "5 (best)" in told
    assert "Topics whose partitions collide on threads" in told


def test_show_best_value_already_set_exits_with_0() -> None:
    made = colliding(fetchers=5)
    assert (made.is_worthwhile, made.exit_code(), made.steps) == (False, 0, {})
    assert "No other value up to 32 is clearly better for the busiest thread." in shown(made)


def test_show_different_settings_names_brokers() -> None:
    partitions = [FetchedPartition("a", p, 1, (1, 2)) for p in range(4)]
    made = analyse_fetchers("a test", partitions, {1: 1, 2: 2}, by_writes=False)
    assert "num.replica.fetchers differs between brokers (1 on 1; 2 on 2)" in shown(made)
    assert "copies 2 partitions" in shown(made)


def test_show_cluster_without_followers() -> None:
    made = analyse_fetchers("a test", [FetchedPartition("a", 0, 1, (1,))], {1: 1}, by_writes=False)
    assert made.exit_code() == 0
    assert "No broker follows any partition" in shown(made)


def test_analyse_fetchers_leaves_out_dead_followers() -> None:
    made = analyse_fetchers("a test", [FetchedPartition("a", 0, 1, (1, 2, 3))], {1: 1, 2: 1}, by_writes=False)
    assert made.by_pair.keys() == {(2, 1)}


def test_record_has_every_thread_with_its_client_id() -> None:
    found = json.loads(json.dumps(to_record(colliding())))
    assert found["load_unit"] == "bytes_per_s"
    assert found["num_replica_fetchers"] == {"1": 2, "2": 2}
    assert found["cells"] == [
        {
            "follower": 2,
            "leader": 1,
            "thread": 0,
            "client_id": "ReplicaFetcherThread-0-1",
            "load": 16e6,
            "partitions": 4,
        }
    ]
    assert found["current"]["busiest"] == {"follower": 2, "leader": 1, "client_id": "ReplicaFetcherThread-0-1"}
    assert [one["fetchers"] for one in found["by_fetchers"]] == list(range(1, 33))
    assert found["best"]["fetchers"] == 5
    assert found["steps"] == {"1": [4, 5], "2": [4, 5]}
    assert found["collisions"] == [
        {"topic": "a", "idle_threads": 1, "worst_pair": {"follower": 2, "leader": 1}, "partitions": 4, "threads": 1}
    ]


def test_as_text_has_one_character_per_thread() -> None:
    made = colliding()
    assert as_text([HeatMap("now", made.fetchers, made.by_pair)]).splitlines() == [
        "now",
        "follower ↓ leader →",
        "  │ 1│",
        "2 │█ │",
    ]


def test_as_svg_has_one_stripe_per_thread() -> None:
    made = colliding()
    both = [HeatMap("now", made.fetchers, made.by_pair), HeatMap("then", {1: 5, 2: 5}, made.by_pair)]
    picture = as_svg("Fetcher threads", "bytes/s & more", both)
    assert picture == as_svg("Fetcher threads", "bytes/s & more", both)
    assert picture.count('stroke="#ccc"') == 2 + 5
    assert picture.count('fill="#08306b"') == 1, "the busiest of both"
    assert "bytes/s &amp; more" in picture


def test_as_svg_many_brokers_have_one_stripe_per_cell() -> None:
    count = BROKERS_MAX + 2
    partitions = [FetchedPartition("a", p, p % count, ((p + 1) % count,)) for p in range(count)]
    made = analyse_fetchers("a test", partitions, dict.fromkeys(range(count), 8), by_writes=False)
    assert as_svg("", "", [HeatMap("now", made.fetchers, made.by_pair)]).count('stroke="#ccc"') == count


def test_write_plot_by_file_extension(tmp_path: Path) -> None:
    for name in ("map.svg", "map.txt"):
        write_plot(colliding(), tmp_path / name)
        assert "with num.replica.fetchers=5" in (tmp_path / name).read_text()
    with pytest.raises(BadInputError, match=r"--plot: .*nowhere.*: cannot be written: No such file"):
        write_plot(colliding(), tmp_path / "nowhere" / "map.svg")
    with pytest.raises(BadInputError, match=r"--plot: expected a file named \*\.svg or \*\.txt, found map\.png"):
        check_plot_name(Path("map.png"))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "'--config'"),
        (["-c", "none.yaml", "--thread-rate", "0"], "'--thread-rate': expected more than 0, found '0'"),
        (["-c", "none.yaml", "--by", "bytes"], "'bytes' is not one of 'writes', 'partitions'"),
        (["-c", "none.yaml", "--measure-for", "-1"], "'--measure-for'"),
        (["-c", "none.yaml", "--plot", "map.png"], "--plot: expected a file named *.svg or *.txt"),
        (
            ["-c", "none.yaml", "--by", "partitions", "--thread-rate", "5MB"],
            "--thread-rate: threads are compared by part",
        ),
        (["-c", "none.yaml"], "none.yaml: cannot be read: No such file or directory"),
    ],
)
def test_bad_input_is_refused_by_name(arguments: list[str], named: str) -> None:
    assert named in " ".join(refused(*arguments).replace("│", " ").split())
