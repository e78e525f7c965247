"""If a simulated move does not end, the result lists the tuner's last decisions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rheostat.cli import app
from rheostat.simulate.report import DECISIONS_MAX

SLOW = """\
brokers: 3
link: 100MB/s
disk: 100MB/s
topics:
  - {name: t, size: 100GB, write: 3MB/s, replicas: [[1, 2]]}
move:
  plan: {partitions: [{topic: t, partition: 0, replicas: [1, 3]}]}
throttle: 4MB/s
ceiling: 50MB/s
duration: 2min
"""


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    path = tmp_path / "slow.yaml"
    path.write_text(SLOW)
    return path


def told(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["simulate", *map(str, arguments)])
    assert done.exit_code == 1, done.output
    return done.stdout


def test_last_decisions_are_printed_oldest_first(slow: Path) -> None:
    said = told(slow).splitlines()
    first = said.index("The last decisions:") + 1
    last = said[first : next((n for n in range(first, len(said)) if not said[n].startswith(" ")), len(said))]
    assert 1 <= len(last) <= DECISIONS_MAX
    assert len(set(last)) == len(last)
    assert all(line.startswith("  after ") for line in last)
    assert said[-2:] == [line for line in said[-2:] if line.endswith(".")], "what the run shows comes after them"


def test_last_decisions_as_json(slow: Path) -> None:
    found = json.loads(told(slow, "--json"))["last_decisions"]
    assert [set(one) for one in found] == [{"at_s", "action", "reason", "text", "failure"}] * len(found)
    times_s = [one["at_s"] for one in found]
    assert times_s == sorted(times_s)
    assert 0.0 <= times_s[0] <= times_s[-1] <= 120.0


def test_policy_without_decisions_prints_no_last_decisions(slow: Path) -> None:
    assert "The last decisions:" not in told(slow, "--policy", "as-is")
    assert json.loads(told(slow, "--policy", "as-is", "--json"))["last_decisions"] == []


def test_finished_move_prints_no_last_decisions(slow: Path) -> None:
    slow.write_text(SLOW.replace("100GB", "100MB"))
    done = CliRunner().invoke(app, ["simulate", str(slow)])
    assert done.exit_code == 0, done.output
    assert "The last decisions:" not in done.stdout
