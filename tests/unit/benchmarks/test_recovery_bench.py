"""The evaluation of benchmarks.recovery: latencies of a phase, bounds, saved runs, the picture, and the claims of the page."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from benchmarks.claims import CLAIMS
from benchmarks.recoveries.plot import draw
from benchmarks.recoveries.run import Course
from benchmarks.recoveries.score import ACT, NONE, POLICIES, missed, phase_latency, totals, worst_by_second
from benchmarks.recovery import main, report

OBJECTIVE_MS = 50.0


def row(policy: str, *, ratio: float = 1.1, p99: float = 20.0, run: int = 0, keys_left: int = 0) -> dict[str, Any]:
    phase = {"samples": 500, "p50_ms": 5.0, "p99_ms": p99, "max_ms": 2 * p99, "over_share": 0.0}
    seconds = [
        {"t_s": t, "copied_MB": 10.0 * t, "out_of_sync": 6, "leader_rate": 1_000_000 if t > 1 else None,
         "follower_rate": None, "worst_ms": None if t == 2 else 900.0}
        for t in (1, 2, 3)
    ]  # fmt: skip
    return {
        "policy": policy, "run": run, "in_sync_s": 60.0 * ratio, "optimum_s": 60.0, "ratio_to_optimum": ratio,
        "ratio_of_first_3_s": 0.4, "latency": dict.fromkeys(("before", "away", "recovering", "after"), phase),
        "cpu_share": 0.5, "keys_left": keys_left, "objective_ms": OBJECTIVE_MS, "link_mbit_per_s": 40.0,
        "lacking_bytes": 300_000_000, "seconds": seconds,
    }  # fmt: skip


def test_phase_latency_counts_requests_above_objective() -> None:
    found = phase_latency([10.0] * 190 + [60.0] * 10, OBJECTIVE_MS)
    assert found is not None
    assert (found.p50_ms, found.p99_ms, found.max_ms, found.over_share) == (10.0, 60.0, 60.0, 0.05)


def test_phase_latency_needs_a_hundred_samples() -> None:
    assert phase_latency([1.0] * 99, OBJECTIVE_MS) is None


def test_second_without_acknowledgement_has_no_worst_latency() -> None:
    worst = worst_by_second([(0.1, 5.0), (0.9, 7.0), (2.5, 3.0), (9.0, 1.0), (-0.5, 1.0)], 3)
    assert worst[0] == 7.0
    assert math.isnan(worst[1])
    assert worst[2] == 3.0


def test_bytes_after_first_fetch_leave_out_later_ones() -> None:
    course = Course(at_s=[4.0, 5.0, 7.9, 8.1], copied_bytes=[0, 1, 20, 30], first_fetch_s=5.0)
    assert course.copied_within(3.0) == 20


def test_met_bounds_give_no_complaint() -> None:
    assert missed(totals([row(NONE, p99=80.0), row(ACT, p99=40.0, ratio=1.29)]), OBJECTIVE_MS) == []


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        ([row(ACT, ratio=1.31)], "T*"),
        ([row(ACT, p99=51.0)], "p99"),
        ([row(ACT, keys_left=1)], "behind"),
        ([row(NONE, p99=49.0)], "too low"),
    ],
)
def test_each_missed_bound_gives_one_complaint(rows: list[dict[str, Any]], word: str) -> None:
    (complaint,) = missed(totals(rows), OBJECTIVE_MS)
    assert word in complaint


def test_totals_are_medians_and_keep_the_worst_leftover() -> None:
    (total,) = totals([row(ACT, ratio=r, run=i, keys_left=i) for i, r in enumerate((1.0, 1.2, 1.9))])
    assert (total["runs"], total["ratio_to_optimum"], total["keys_left"]) == (3, 1.2, 2)


def test_picture_is_xml_and_names_each_policy() -> None:
    picture = draw([row(policy.name) for policy in POLICIES])
    ET.fromstring(picture)
    assert all(name in picture for name in ("no throttle", "static, 50 %", "recovery: act", "objective"))


def test_report_prints_saved_runs_without_seconds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "runs"
    file.write_text("".join(json.dumps(r) + "\n" for r in (row(NONE, p99=80.0), row(ACT))))
    assert main(["--report", "--save", str(file), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert [total["policy"] for total in figures["totals"]] == [NONE, ACT]
    assert not any("seconds" in r for r in figures["rows"])


def test_file_with_other_contents_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "runs"
    file.write_text("no run\n")
    assert main(["--report", "--save", str(file)]) != 0
    assert "line 1" in capsys.readouterr().err


def test_claims_read_the_report() -> None:
    p99_ms = {NONE: 80.0, ACT: 40.0}
    figures = report([row(policy.name, p99=p99_ms.get(policy.name, 20.0)) for policy in POLICIES])
    measured = {claim.name: claim.read(figures) for claim in CLAIMS["recovery"]}
    assert None not in measured.values()
    assert 80.0 in measured.values()
    assert 40.0 in measured.values()


def test_claim_without_its_policy_is_not_measured() -> None:
    figures = report([row(NONE, p99=80.0)])
    assert any(claim.read(figures) is None for claim in CLAIMS["recovery"])
