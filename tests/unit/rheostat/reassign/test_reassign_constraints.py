"""The limits of a plan come from the tuner that executes it, and differences to the settings file are named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rheostat.config.settings import Settings, parse_settings
from rheostat.errors import BadInputError
from rheostat.reassign.constraints import check_throttle, describe_rate, drop_killed_tuners, select_constraints
from rheostat.reassign.text import throttle_text
from tuner.core.presence import TunerMode, TunerPresence
from tuner.core.reassignment_plan import PlanThrottle
from tuner.core.throttle_limits import MB

FILE = """
cluster: lab
kafka: {bootstrap_servers: "localhost:9092"}
stream: {checkpoint_dir: /tmp/checkpoint}
tuner: {rate_bytes_per_s_max: 12000000, objective: "off"}
"""
ACTIVE = TunerPresence("one:1", TunerMode.ACTIVE, 0, "1.0", rate_bytes_per_s_max=12 * MB, rate_bytes_per_s_min=5 * MB)
STANDBY = replace(ACTIVE, holder="two:2", mode=TunerMode.STANDBY)
DRY_RUN = replace(ACTIVE, holder="three:3", mode=TunerMode.DRY_RUN, executes_plans=False)
NO_THROTTLE = PlanThrottle()


@pytest.fixture
def settings() -> Settings:
    return parse_settings(FILE, "rheostat.yaml", {})


def test_constraints_come_from_the_acting_tuner(settings: Settings) -> None:
    constraints = select_constraints(settings, [ACTIVE, STANDBY], NO_THROTTLE, standalone=False)
    assert (constraints.no_executor, constraints.tuner, constraints.differences) == (None, ACTIVE, ())
    assert constraints.rate_bytes_per_s == 12 * MB
    assert describe_rate(constraints) == [
        "At most 12.0 MB/s for each leader and follower throttle: the ceiling of the tuner on one:1, which is active. No latency objective is set, so "
        "slow clients do not lower this rate."
    ]


def test_constraints_name_differences_between_file_and_tuner(settings: Settings) -> None:
    other = replace(ACTIVE, rate_bytes_per_s_max=50 * MB, objective_mode="fast", objective_latency_ms=25.0)
    constraints = select_constraints(settings, [other], NO_THROTTLE, standalone=False)
    assert constraints.rate_bytes_per_s == 50 * MB
    rate, difference = describe_rate(constraints)
    assert rate.startswith("At most 50.0 MB/s for each leader and follower throttle")
    assert "The latency objective may lower this rate (p99 of 25 ms, mode fast)." in rate
    assert difference == (
        "The settings file of this command differs from the tuner's values (rate_bytes_per_s_max is 12.0 MB/s; the objective is not set, and the "
        "tuner has p99 of 25 ms, mode fast). The tuner's values apply until the tuner reads that file again."
    )


@pytest.mark.parametrize(
    ("tuners", "reason"),
    [
        ([], "No tuner runs for cluster lab"),
        ([DRY_RUN], "The tuner on three:3 runs in a dry run and executes no plans"),
        ([replace(ACTIVE, executes_plans=False)], "The tuner on one:1, which is active, executes no plans"),
    ],
)
def test_no_executor_text_tells_why(settings: Settings, tuners: list[TunerPresence], reason: str) -> None:
    text = select_constraints(settings, tuners, NO_THROTTLE, standalone=False).no_executor
    assert text is not None
    assert text.startswith(reason)


def test_starting_tuner_will_execute_the_plan(settings: Settings) -> None:
    starting = replace(ACTIVE, mode=TunerMode.STARTING, waits_for="the journal")
    assert select_constraints(settings, [starting], NO_THROTTLE, standalone=False).no_executor is None


def test_drop_ended_tuners_without_lease_keeps_only_dry_runs() -> None:
    assert drop_killed_tuners([ACTIVE, DRY_RUN, STANDBY], lease_has_members=False) == [DRY_RUN]
    assert drop_killed_tuners([ACTIVE, DRY_RUN], lease_has_members=True) == [ACTIVE, DRY_RUN]


def test_standalone_constraints_come_from_the_settings_file(settings: Settings) -> None:
    for tuners in ([], [DRY_RUN]):
        constraints = select_constraints(settings, tuners, NO_THROTTLE, standalone=True)
        assert (constraints.no_executor, constraints.rate_bytes_per_s) == (None, 12 * MB)
        assert constraints.source == "the tuner that this command starts"


def test_throttle_above_the_tuners_ceiling_is_refused(settings: Settings) -> None:
    throttle = PlanThrottle(20 * MB)
    with pytest.raises(BadInputError, match=r"--throttle 20\.0 MB/s is above the ceiling of 12\.0 MB/s"):
        check_throttle(select_constraints(settings, [ACTIVE], throttle, standalone=False))
    with pytest.raises(BadInputError, match="the lowest rate that Kafka accepts is 1 B/s"):
        check_throttle(select_constraints(settings, [ACTIVE], PlanThrottle(0.5), standalone=False))
    higher = replace(ACTIVE, rate_bytes_per_s_max=50 * MB)
    constraints = check_throttle(select_constraints(settings, [higher], throttle, standalone=False))
    assert constraints.rate_bytes_per_s == 20 * MB


def test_describe_rate_names_throttle_and_unthrottled(settings: Settings) -> None:
    (slow,) = describe_rate(select_constraints(settings, [ACTIVE], PlanThrottle(3 * MB), standalone=False))
    assert (
        "At most 3.00 MB/s for each leader and follower throttle: the throttle of this plan; 12.0 MB/s is the ceiling of"
        in slow
    )
    constraints = select_constraints(settings, [ACTIVE], PlanThrottle(unthrottled=True), standalone=False)
    assert constraints.rate_bytes_per_s is None
    assert "Not throttled (--unthrottled)" in describe_rate(constraints)[0]
    assert "may exceed 12.0 MB/s, the ceiling of" in describe_rate(constraints)[0]
    assert throttle_text(PlanThrottle(3 * MB)) == "each leader and follower throttle is at most 3.00 MB/s (--throttle)"
    assert "not throttled" in throttle_text(PlanThrottle(unthrottled=True))


def test_learned_objective_is_named_and_compared(settings: Settings) -> None:
    learns = replace(ACTIVE, objective_mode="fast")
    rate, difference = describe_rate(select_constraints(settings, [learns], NO_THROTTLE, standalone=False))
    assert "The latency objective may lower this rate (p99 near its value without a move, mode fast)." in rate
    assert "the objective is not set, and the tuner has p99 near its value without a move, mode fast" in difference
    same = parse_settings(FILE.replace(', objective: "off"', ""), "rheostat.yaml", {})
    assert select_constraints(same, [learns], NO_THROTTLE, standalone=False).differences == ()
