"""`rheostat replay` on exported records: its text, its exit codes, and refused input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cruise_control_kit import CruiseControlStandIn
from quota_film import Filmed
from replay_rig import FilmedRig
from test_replay_other_controllers import Film, elected, followed
from tuner_cases import NOW_MS
from typer.testing import CliRunner, Result

from rheostat.cli import app
from rheostat.errors import BadInputError, CommandError
from rheostat.replay.quota_policy import WITHOUT_EFFECT, settings_of
from rheostat.replay.times import moment_text, parse_moment
from tuner.control.mutation_quota.entity import DEFAULT, QuotaEntity
from tuner.control.mutation_quota.model import MutationLimits, MutationPolicy, TenantRule
from tuner.control.throttle.objective import Objective
from tuner.control.throttle.state import Memory
from tuner.core.controller import ControllerObjective
from tuner.settings.mutation_quota import MutationQuotaSettings

AT = "2023-11-14T22:13:20"  # NOW_MS: where the rigs begin.
RANGE = ("--from", AT, "--to", "2023-11-14T22:20")


OWN = MutationQuotaSettings().policy(1.0).rules


def export_move(tmp_path: Path, *, objective: Objective | None = None) -> Path:
    rig = FilmedRig(Memory(), objective=objective)
    rig.goes_on(60)
    file = tmp_path / "case.jsonl"
    file.write_bytes(b"".join(record + b"\n" for record in rig.journal.records))
    return file


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["replay", *map(str, arguments)], env={"RHEOSTAT_CONFIG": ""})


def refused(*arguments: str | Path) -> str:
    with pytest.raises(BadInputError) as error:
        CliRunner().invoke(app, ["replay", *map(str, arguments)], catch_exceptions=False)
    assert isinstance(error.value, CommandError)
    assert error.value.exit_code == 2
    return str(error.value)


def test_replay_without_differences_exits_with_0(tmp_path: Path) -> None:
    file = export_move(tmp_path)
    done = run("--journal", file, *RANGE)
    assert done.exit_code == 0, done.output
    assert "cycles: 12 the same, 0 different" in done.output
    assert "decisions of these cycles: 24 the same, 0 different" in done.output
    body = json.loads(run("--journal", file, *RANGE, "--json").stdout)
    assert json.loads(run("--journal", file, "--json").stdout) == body  # All of a file, where no moment is given.
    assert (body["same"], body["cycles"], body["differences"]) == (True, {"same": 12, "different": 0}, [])
    assert (body["recorded_by"], body["tuner_settings"]) == (["test"], None)


def test_replay_counts_only_cycles_in_the_range(tmp_path: Path) -> None:
    done = run(
        "--journal", export_move(tmp_path), "--from", "2023-11-14T22:13:45", "--to", "2023-11-14T22:13:55", "--json"
    )
    assert json.loads(done.stdout)["cycles"] == {"same": 3, "different": 0}


def test_replay_with_other_policy_shows_both_texts(tmp_path: Path) -> None:
    policy = tmp_path / "p.yaml"
    policy.write_text("rate_bytes_per_s_max: 20_000_000\n")
    done = run("--journal", export_move(tmp_path), *RANGE, "--tuner-settings", policy)
    assert done.exit_code == 1, done.output
    then, now = (
        next(line for line in done.output.splitlines() if line.startswith(f"  {word}: "))
        for word in ("recorded", "replayed")
    )
    assert "broker 1 leader throttle 10.0 MB/s → 50.0 MB/s: the move onto broker 3 has stalled" in then
    assert "broker 1 leader throttle 10.0 MB/s → 20.0 MB/s: the move onto broker 3 has stalled" in now


def test_replay_with_other_objective_counts_different_steering_ticks(tmp_path: Path) -> None:
    policy = tmp_path / "p.yaml"
    policy.write_text("objective:\n  latency_ms: 50\n  mode: share\n  share_max: 0.05\n")
    file = export_move(tmp_path, objective=Objective(50.0))
    found = json.loads(run("--journal", file, *RANGE, "--tuner-settings", policy, "--json").stdout)
    assert found["tuner_settings"] == str(policy)
    assert found["steering_ticks"]["different"] > 0
    policy.write_text("objective:\n  latency_ms: 50\nunthrottled_moves: leave\n")
    assert run("--journal", file, *RANGE, "--tuner-settings", policy).exit_code == 0
    policy.write_text("external_change_hold_s: 60\n")
    assert run("--journal", file, *RANGE, "--tuner-settings", policy).exit_code == 0
    policy.write_text("objective: off\n")
    found = json.loads(run("--journal", file, *RANGE, "--tuner-settings", policy, "--json").stdout)
    assert (found["steering_ticks_without_objective"], found["steering_ticks"]) == (55, {"same": 0, "different": 0})


def export_storm(tmp_path: Path, policy: MutationPolicy | None = None) -> Path:
    rig = Filmed(policy=policy)
    rig.cycles(12, "alice", "bob")
    file = tmp_path / "storm.jsonl"
    file.write_bytes(b"".join(record + b"\n" for record in rig.filmed.film))
    return file


def test_replay_counts_mutation_quota_cycles_separately(tmp_path: Path) -> None:
    file = export_storm(tmp_path)
    done = run("--journal", file)
    assert done.exit_code == 0, done.output
    assert "cycles of the mutation quotas: 12 the same, 0 different" in done.output
    assert "seconds of the law" not in done.output
    body = json.loads(run("--journal", file, "--json").stdout)
    assert (body["quotas"], body["cycles"]) == ({"same": 12, "different": 0}, {"same": 0, "different": 0})
    assert body["quota_decisions"]["same"] > 12
    assert body["quota_decisions"]["different"] == 0


def test_replay_with_other_quota_policy_shows_only_its_differences(tmp_path: Path) -> None:
    policy = tmp_path / "p.yaml"
    file = export_storm(tmp_path, MutationPolicy(default_entity=None, rules=(TenantRule(user="bob", weight=2.0), *OWN)))
    policy.write_text("mutation_quota:\n  over_allocation: 2\n")
    assert run("--journal", file, "--tuner-settings", policy).exit_code == 0
    policy.write_text("rate_bytes_per_s_max: 20_000_000\n")
    assert run("--journal", file, "--tuner-settings", policy).exit_code == 0
    policy.write_text("mutation_quota:\n  rate_per_s_max: 7\n")
    done = run("--journal", file, "--tuner-settings", policy)
    assert done.exit_code == 1, done.output
    assert "replayed: total, initial: 7.0 partitions/s in total" in done.output
    policy.write_text("mutation_quota:\n  objective:\n    idle_ratio_min: 0.95\n")
    found = json.loads(run("--journal", file, "--tuner-settings", policy, "--json").stdout)
    assert "objective: at least 95 %" in found["differences"][0]["now"]
    policy.write_text("mutation_quota: null\n")
    found = json.loads(run("--journal", file, "--tuner-settings", policy, "--json").stdout)
    assert found["quotas"] == {"same": 0, "different": 12}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "external_change_hold_s: 9\nmutation_quota: null\n",
            "p.yaml:2: mutation_quota: the range has no mutation quota cycles",
        ),
        (
            "mutation_quota:\n  cycle_s: 7\n",
            "p.yaml:2: mutation_quota.cycle_s: no decision on recorded inputs depends on this key",
        ),
        ("reassign:\n  enabled: false\n", "p.yaml:1: reassign: no decision on recorded inputs depends on this key"),
        (
            "mutation_quota:\n  over_alocation: 2\n",
            "p.yaml:2: mutation_quota.over_alocation: unknown key: did you mean",
        ),
        ("mutation_quota:\n  tenants:\n  - {user: a, weight: -1}\n", "p.yaml:3: mutation_quota.tenants"),
        ("mutation_quota: 7\n", "p.yaml:1: mutation_quota: "),
        (
            "rate_bytes_per_s_maxx: 5\n",
            "p.yaml:1: rate_bytes_per_s_maxx: unknown key: did you mean rate_bytes_per_s_max?",
        ),
        ("\nexternal_change_hold_s: soon\n", "p.yaml:2: external_change_hold_s: "),
        ("http:\n  port: 7\n", "p.yaml:1: http: no decision on recorded inputs depends on this key: leave it out"),
        ("objective:\n  latency_ms: -5\n", "p.yaml:2: objective.latency_ms: "),
        ("objective:\n  latency_ms: 5\n", "give a range with an objective"),
        ("rate_bytes_per_s_min: 90000000\n", "is above rate_bytes_per_s_max"),
        ("- 7\n", "p.yaml:1: expected keys and values, found list"),
    ],
)
def test_invalid_policy_is_named(tmp_path: Path, text: str, said: str) -> None:
    policy = tmp_path / "p.yaml"
    policy.write_text(text)
    assert said in refused("--journal", export_move(tmp_path), *RANGE, "--tuner-settings", policy)


def test_missing_tuner_settings_file_is_named(tmp_path: Path) -> None:
    assert "nowhere.yaml: cannot be read: No such file" in refused(
        "--journal", export_move(tmp_path), *RANGE, "--tuner-settings", "nowhere.yaml"
    )


def test_empty_range_names_the_recorded_range(tmp_path: Path) -> None:
    said = refused("--journal", export_move(tmp_path), "--from", "-2h")
    assert said.startswith("Nothing can be replayed between ")
    assert said.endswith(": there are records from 2023-11-14 22:13:25 UTC to 2023-11-14 22:14:20 UTC.")


def test_range_without_its_first_frame_is_refused(tmp_path: Path) -> None:
    file = export_move(tmp_path)
    file.write_bytes(b"\n".join(file.read_bytes().splitlines()[3:]))
    assert "(9 steps have no frame (record of the whole state) before them)" in refused("--journal", file, *RANGE)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([b"not json"], "case.jsonl:1: "),
        (
            [b"{}"],
            "case.jsonl:1: not a record of this version: Object missing required field `v`: expected a line as `rheostat replay --export`",
        ),
        (
            [b'{"v": 1}'],
            "case.jsonl:1: an earlier version of rheostat wrote this record: record version 1, this version of rheostat "
            "reads 8: replay the file with the version that wrote it",
        ),
        ([b'{"v": 9}'], "case.jsonl:1: record version 9, this version of rheostat reads 8"),
        ([], "case.jsonl is empty"),
    ],
)
def test_file_without_journal_records_is_named(tmp_path: Path, lines: list[bytes], said: str) -> None:
    file = tmp_path / "case.jsonl"
    file.write_bytes(b"\n".join(lines))
    assert said in refused("--journal", file, *RANGE)


def test_altered_record_ends_the_replay_and_is_counted(tmp_path: Path) -> None:
    file = export_move(tmp_path)
    lines = file.read_bytes().splitlines()
    body: dict[str, Any] = json.loads(lines[5])
    body["pieces"][0]["value"] = 7
    file.write_bytes(b"\n".join([*lines[:5], json.dumps(body).encode(), *lines[6:]]))
    found = json.loads(run("--journal", file, *RANGE, "--json").stdout)
    assert found["missed"]["unreadable"] == 1
    assert 0 < found["cycles"]["same"] < 12


def test_export_round_trips_through_journal_option(tmp_path: Path) -> None:
    file, copy = export_move(tmp_path), tmp_path / "copy.jsonl"
    assert run("--journal", file, *RANGE, "--export", copy).exit_code == 0
    assert copy.read_bytes() == file.read_bytes()
    assert "--export" in refused("--journal", file, *RANGE, "--export", tmp_path)


def test_missing_source_and_invalid_times_are_refused(tmp_path: Path) -> None:
    assert "give --config" in refused(*RANGE)
    assert "--from yesterday: " not in refused("--from", "yesterday")
    assert "--from: expected a moment such as 2026-11-21T03:00" in refused("--from", "yesterday")
    assert "expected a time before --to" in refused("--from", "-1h", "--to", "-2h")


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        (AT, NOW_MS),
        ("2023-11-14 22:13:20", NOW_MS),
        ("2023-11-14T23:13:20+01:00", NOW_MS),
        ("2023-11-14T22:13:20Z", NOW_MS),
        ("-1h30m", NOW_MS - 5_400_000),
        ("now", NOW_MS),
    ],
)
def test_parse_moment_accepts_absolute_and_relative_times(text: str, at_ms: int) -> None:
    assert parse_moment(text, NOW_MS, "--from") == at_ms


def test_moment_text_has_the_time_zone() -> None:
    assert moment_text(NOW_MS) == "2023-11-14 22:13:20 UTC"


@pytest.mark.parametrize(
    "policy",
    [
        MutationPolicy(rules=OWN),
        MutationPolicy(
            ControllerObjective(None, 70.0, 120.0, 900.0, 2_000.0),
            (TenantRule("a*", None, 3.0, 5.0), TenantRule(None, "ops", exempt=True), *OWN),
            MutationLimits(
                samples=21, window_s=2.0, rate_per_s_max=30.0, rate_per_s_start=30.0, over_allocation=1.5,
                tenants_max=50, external_change_hold_s=60.0,
            ),
            default_entity=None, enable_metering=True, adopt_existing=False, partitions_max=7_000, partitions_near_ratio=0.8,
        ),
        MutationPolicy(rules=OWN, default_entity=QuotaEntity(DEFAULT, DEFAULT)),
    ],
)  # fmt: skip
def test_policy_settings_round_trip(policy: MutationPolicy) -> None:
    said = settings_of(policy)
    assert MutationQuotaSettings.model_validate(said).policy(policy.limits.external_change_hold_s) == policy
    assert set(said) == set(MutationQuotaSettings.model_fields) - set(WITHOUT_EFFECT), (
        "a key that a --tuner-settings file may have"
    )


def test_replay_counts_decisions_about_leaders(tmp_path: Path) -> None:
    film = Film()
    elected(film)
    played = film.played()
    file = tmp_path / "leaders.jsonl"
    file.write_bytes(b"".join(record + b"\n" for record in film.records))
    done = run("--journal", file)
    assert done.exit_code == 0, done.output
    assert f"decisions about preferred leaders: {len(played)} the same, 0 different" in done.output
    settings = tmp_path / "p.yaml"
    settings.write_text("leadership: watch\n")
    body = json.loads(run("--journal", file, "--tuner-settings", settings, "--json").stdout)
    assert body["elections"]["different"] > 0
    assert "not done, as tuner.leadership is watch" in body["differences"][0]["now"]


def test_replay_counts_decisions_about_cruise_control(tmp_path: Path) -> None:
    film = Film()
    with CruiseControlStandIn().serving() as service:
        followed(service, film)
        url = service.url
    played = film.played()
    file = tmp_path / "movements.jsonl"
    file.write_bytes(b"".join(record + b"\n" for record in film.records))
    assert f"decisions about Cruise Control: {len(played)} the same" in run("--journal", file).output
    settings = tmp_path / "p.yaml"
    settings.write_text(f"cruise_control:\n  url: {url}\n  concurrency: watch\n")
    body = json.loads(run("--journal", file, "--tuner-settings", settings, "--json").stdout)
    assert body["movements"]["different"] > 0
