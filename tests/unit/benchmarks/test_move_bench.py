"""The verdicts of benchmarks.move on given results, and the worlds that it draws."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from benchmarks.move import missed, missed_for_real
from benchmarks.moves import simulated
from benchmarks.moves.behind import NICE, Behind
from benchmarks.moves.plan_run import PlanRun
from benchmarks.moves.real import BROKERS, of_rounds, target
from benchmarks.moves.simulated import EXECUTORS, OURS, optimum, run
from benchmarks.moves.watch import Course, Look, PlanWatch, calm_of_looks
from benchmarks.moves.worlds import RATE_BYTES_PER_S, WORLDS, joining
from streaming.shared.contract import Side
from tuner.core.cluster import LiveCluster, RateSetting
from tuner.simulation.calm import Calm
from tuner.simulation.world import World

NAMED = """
import ctypes, sys, threading
def named():
    ctypes.CDLL(None).prctl(15, b"C2 CompilerThread0", 0, 0, 0)
    print(threading.get_native_id(), flush=True)
    sys.stdin.read()
threading.Thread(target=named).start()
"""


@pytest.fixture
def named() -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process with a thread that is named like a compiler of Java; and that thread."""
    with subprocess.Popen([sys.executable, "-c", NAMED], stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process, int(process.stdout.readline())
        process.stdin.close()


GONE = 2**22 - 1


def cgroups_of(task: int) -> str:
    return Path(f"/proc/{task}/cgroup").read_text()


def test_only_jit_compiler_threads_get_low_priority(named: tuple[subprocess.Popen[str], int]) -> None:
    process, compiler = named
    with Behind() as behind:
        if not behind.is_idle_class:
            pytest.skip("needs root, and the first version of cgroups")
        assert behind.put_compilers([process.pid, GONE]) == [compiler]
        assert "rheostat-bench" in cgroups_of(compiler)
        assert "rheostat-bench" not in cgroups_of(process.pid)
        assert set(behind.put([process.pid, GONE])) == {process.pid}
        assert "rheostat-bench" in cgroups_of(process.pid)
        (group,) = Path("/sys/fs/cgroup/cpu").glob(f"rheostat-bench-{os.getpid()}")
        assert (group / "cpu.idle").read_text().strip() == "1"
        process.kill()
        process.wait(timeout=10)
    assert not group.exists()


def test_without_cgroups_nice_is_used(
    named: tuple[subprocess.Popen[str], int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process, compiler = named
    with Behind(tmp_path / "none") as behind:
        assert not behind.is_idle_class
        assert behind.put_compilers([process.pid, GONE]) == [compiler]
        assert behind.put([process.pid]) == []
    assert os.getpriority(os.PRIO_PROCESS, compiler) == NICE
    assert os.getpriority(os.PRIO_PROCESS, process.pid) == os.getpriority(os.PRIO_PROCESS, 0)
    assert "no cgroup of the idle class" in capsys.readouterr().err


def row(executor: str = OURS, **others: Any) -> dict[str, Any]:
    return {
        "world": "joining", "executor": executor, "completed": True, "done_partitions": 20_000, "duration_s": 1_900.0,
        "ratio_to_optimum": 1.1, "queue_p99_ms_max": 200.0,
    } | others  # fmt: skip


def test_results_within_the_bounds_report_nothing() -> None:
    cheap = {"partitions": 200_000, "cpu_s": 4.9, "rss_mb": 499.0}
    assert missed([row(), row("all at once", duration_s=2_000.0)], cheap, cheap) == []


def test_every_bound_is_reported_by_name() -> None:
    found = missed([row(completed=False, done_partitions=5, ratio_to_optimum=1.25, queue_p99_ms_max=501.0)], None, None)
    assert found == [
        "joining: 5 partitions were done when the time was over",
        "joining: 1.250 × T*, at most 1.2 is allowed",
        "joining: others wait 501 ms for the controller (p99), at most 500 are allowed",
    ]
    dear = {"partitions": 200_000, "cpu_s": 10.5, "rss_mb": 600.0}
    assert missed([], dear, dear) == [
        "planning of 200000 partitions: cpu_s 10.5, at most 5",
        "planning of 200000 partitions: rss_mb 600.0, at most 500",
        "fetchers of 200000 partitions: cpu_s 10.5, at most 10",
    ]


def test_faster_and_gentle_rival_is_reported() -> None:
    sooner = row("cruise control", duration_s=1_800.0)
    assert missed([row(), sooner], None, None) == [
        "joining: cruise control is sooner done, and keeps nobody waiting longer"
    ]
    # Sooner, at the cost of everybody who waits for the controller; or in another world.
    assert missed([row(), sooner | {"queue_p99_ms_max": 9_000.0}], None, None) == []
    assert missed([row(), sooner | {"world": "evening"}], None, None) == []


@pytest.mark.parametrize("name", list(WORLDS))
def test_worlds_are_determined_by_their_seed(name: str) -> None:
    first, again, other = (WORLDS[name](seed, brokers=10, partitions=300) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    for p in first.partitions:
        assert len({*p.replicas, *p.adding}) == 4
        assert set(p.removing) < set(p.replicas)
    largest = max(p.size_bytes for p in first.partitions)
    assert largest > 5 * sum(p.size_bytes for p in first.partitions) / 300


def test_joining_brokers_start_empty_and_receive_every_move() -> None:
    made = joining(3, brokers=10, new=2, partitions=200, drains_s=100.0)
    assert {b for p in made.partitions for b in p.replicas} <= set(range(8))
    assert sum(p.size_bytes for p in made.partitions) == pytest.approx(2 * 100.0 * RATE_BYTES_PER_S)
    best = optimum(made).time_s
    assert best is not None
    assert best > 100.0


def test_rival_is_stopped_after_three_times_the_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []

    def run_plan(world: World, _executor: object) -> PlanRun:
        given.append(world.duration_s_max)
        return PlanRun(world.duration_s_max, False, 7, 0.0, 5, 2, 5, 0.0, 1.0)

    monkeypatch.setattr(simulated, "run_plan", run_plan)
    _, rival = (simulated.run("joining", name, 3, brokers=10, partitions=200) for name in (OURS, "batches of 5"))
    assert given == [joining(3, brokers=10, partitions=200).duration_s_max, pytest.approx(3 * rival["optimum_s"])]
    assert (rival["completed"], rival["ratio_to_optimum"]) == (False, pytest.approx(3))


def test_rheostat_runs_first() -> None:
    assert EXECUTORS == (OURS, "all at once", "batches of 5", "batches of 50", "the KIP's 500", "cruise control")


def test_real_plan_is_balanced_in_both_directions() -> None:
    there, back = target(back=False), target(back=True)
    assert len(there) == len(back) == 200
    takes, gives = Counter[int](), Counter[int]()
    for key, replicas in there.items():
        assert len({*replicas, *back[key]}) == 3
        assert replicas[0] == back[key][0]
        takes[replicas[1]] += 1
        gives[replicas[0]] += 1
    assert len(takes) == len(gives) == BROKERS
    assert max(takes.values()) - min(takes.values()) <= 0
    assert set(gives.values()) == {50}


def test_missed_bounds_on_real_brokers() -> None:
    ours = {"policy": "rheostat reassign", "move_s": 60.0, "p99_ms": 40.0}
    other = {"policy": "all at once", "move_s": 70.0, "p99_ms": 40.0}
    assert missed_for_real([ours, other], 0) == []
    assert missed_for_real([ours, other | {"move_s": 60.0, "p99_ms": 39.0}], 2) == [
        "all at once takes 60 s, ours 60 s",
        "with all at once the produce p99 is 39 ms, with ours 40 ms",
        "2 acknowledged records can't be read",
    ]


def test_median_of_rounds_is_judged() -> None:
    runs = [
        {"policy": policy, "move_s": move_s, "p99_ms": p99_ms}
        for policy, move_s, p99_ms in [
            ("a", 70.0, 9.0),
            ("b", 90.0, 8.0),
            ("b", 80.0, 7.0),
            ("a", 60.0, 50.0),
            ("a", 65.0, 8.0),
        ]
    ]
    a, b = of_rounds(runs)
    assert a == {
        "policy": "a", "rounds": 3, "move_s": 65.0, "p99_ms": 9.0, "move_s_range": [60.0, 70.0], "p99_ms_range": [8.0, 50.0],
    }  # fmt: skip
    assert (b["rounds"], b["move_s"], b["p99_ms"]) == (2, 85.0, 7.5)


def test_figure_that_no_round_has_is_none() -> None:
    runs = [
        {"policy": "a", "move_s": s, "p99_ms": 9.0, "burst": b, "under": None} for s, b in ((60.0, None), (70.0, 2.0))
    ]
    (a,) = of_rounds(runs)
    assert (a["move_s"], a["burst"], a["under"]) == (65.0, 2.0, None)


# -- calm of a plan on real brokers ------------------------------------------------------------------------------------

A, B = ("sand", 0), ("rocks", 1)
COURSES = {A: Course(leader=1, new=2), B: Course(leader=1, new=3)}
MB = 1_000_000


def look(
    at_s: float, running: set[tuple[str, int]], new: tuple[int, int], leader: tuple[int, int] = (9, 9), **more: Any
) -> Look:
    """Returns a look with sizes in MB of A and B."""
    rates = {(1, Side.LEADER): 4 * MB, (2, Side.FOLLOWER): 4 * MB, (3, Side.FOLLOWER): 4 * MB}
    new_bytes, leader_bytes = ({A: sizes[0] * MB, B: sizes[1] * MB} for sizes in (new, leader))
    return Look(at_s, more.get("rates", rates), frozenset(running), new_bytes, leader_bytes)


def test_calm_of_plan_counts_bytes_by_throttle() -> None:
    looks = [
        look(0.0, set(), (0, 0)),
        look(1.0, {A, B}, (1, 1)),
        look(2.0, {A, B}, (3, 4), (10, 9)),  # 2 and 3 MB are copied, and the leader's old follower fetches 1.
        look(3.0, {A, B}, (3, 4), (10, 3)),  # Nothing passes, and retention takes 6 MB off.
        look(4.0, {B}, (5, 7), (10, 3)),  # A has ended.
        look(5.0, {B}, (50, 9), (10, 3)),  # What A is written then is no copy.
        look(6.0, set(), (50, 10), (10, 3)),
    ]
    found = calm_of_looks(looks, COURSES, 3, writes=9, move_s=30.0)
    assert found.burst_ratio_max == pytest.approx(6 / 4), "the leader's second second"
    # Under the leader's 6, 0, 5 and 2 of 4 MB pass between the first and the last second; under the followers' less.
    assert found.undershoot_ratio == pytest.approx((4 + 2) / 16)
    assert found.silence_s_max == 1.0
    assert found.config_writes_per_broker_min == pytest.approx(6.0)
    assert found.rate_variation_per_min == 0.0


def test_copy_between_two_looks_counts() -> None:
    looks = [look(0.0, {B}, (0, 0)), look(1.0, {B}, (8, 1)), look(2.0, {B}, (9, 3))]
    assert calm_of_looks(looks, COURSES, 3, writes=0, move_s=2.0).burst_ratio_max == pytest.approx(9 / 4)


def test_calm_of_plan_without_throttle_or_looks_is_none() -> None:
    looks = [look(0.0, {A}, (0, 0), rates={}), look(1.0, {A}, (1, 0), rates={})]
    assert calm_of_looks(looks, COURSES, 3, writes=0, move_s=1.0) == Calm(
        silence_s_max=0.0, config_writes_per_broker_min=0.0
    )
    assert calm_of_looks([], COURSES, 3, writes=3, move_s=60.0) == Calm(config_writes_per_broker_min=1.0)


def test_plan_watch_reads_sizes_of_logs(tmp_path: Path) -> None:
    for folder, file, size in (("2/sand-0", "0.log", 5), ("2/sand-0", "0.index", 7), ("1/sand-0", "0.log", 3), ("1/sand-0", "9.log", 4)):  # fmt: skip
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / file).write_bytes(bytes(size))
    live = LiveCluster(frozenset({1, 2}), rates={(1, Side.LEADER): RateSetting(9)})
    with PlanWatch({A: COURSES[A]}, lambda: live, {1: tmp_path / "1", 2: tmp_path / "2"}) as watch:
        pass
    assert (watch.looks[0].new_bytes, watch.looks[0].leader_bytes) == ({A: 5}, {A: 7})
    assert watch.looks[0].rates == {(1, Side.LEADER): 9}
    with PlanWatch({B: COURSES[B]}, lambda: None, {1: tmp_path, 3: tmp_path}) as watch:
        pass
    assert watch.looks == [], "no answer"
    assert watch._log_bytes(3, B) == 0


def test_kip435_batches_complete_the_plan() -> None:
    """Other policies are tested in tests/simulation and in this file."""
    found = run("four brokers", "the KIP's 500", 1)
    assert (found["completed"], found["done_partitions"]) == (True, 200)
    assert found["rate_variation_per_min"] == found["config_writes_per_broker_min"] == 0.0, "the throttles are fixed"
    assert found["burst_ratio_max"] > 0.5
    assert 0.0 < found["undershoot_ratio"] < 1.0
    assert found["clients_before_p99_ms"] <= found["clients_during_p99_ms"]
    assert found["clients_after_p99_ms"] is not None
    assert 1.0 < found["ratio_to_optimum"] < 2.0
