"""What `rheostat reassign` foretells is what the tuner that runs will do, whatever the command's own file says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rheostat.config.settings import Settings, parse_settings
from rheostat.errors import BadInputError
from rheostat.reassign.constraints import checked_throttle, rate_lines, still_there, terms_of
from rheostat.reassign.text import throttle_text
from tuner.core.presence import TunerMode, TunerPresence
from tuner.core.reassignment_plan import PlanThrottle
from tuner.core.throttle_limits import MB

FILE = """
cluster: lab
kafka: {bootstrap_servers: "localhost:9092"}
stream: {checkpoint_dir: /tmp/checkpoint}
tuner: {rate_bytes_per_s_max: 12000000}
"""
ACTS = TunerPresence("one:1", TunerMode.ACTING, 0, "1.0", rate_bytes_per_s_max=12 * MB, rate_bytes_per_s_min=5 * MB)
STANDS_BY = replace(ACTS, holder="two:2", mode=TunerMode.STANDBY)
DRY = replace(ACTS, holder="three:3", mode=TunerMode.DRY_RUN, executes_plans=False)
CEILING = PlanThrottle()


@pytest.fixture
def settings() -> Settings:
    return parse_settings(FILE, "rheostat.yaml", {})


def test_terms_beside_an_acting_tuner_are_that_tuners(settings: Settings) -> None:
    terms = terms_of(settings, [ACTS, STANDS_BY], CEILING, here=False)
    assert (terms.nobody, terms.tuner, terms.rate_bytes_per_s, terms.differences) == (None, ACTS, 12 * MB, ())
    assert rate_lines(terms) == [
        "At most 12.0 MB/s for each broker and side: the ceiling of the tuner on one:1, which acts. No latency objective is set, so "
        "clients do not lower it."
    ]


def test_terms_name_where_file_and_tuner_differ(settings: Settings) -> None:
    other = replace(ACTS, rate_bytes_per_s_max=50 * MB, objective_mode="fast", objective_latency_ms=25.0)
    terms = terms_of(settings, [other], CEILING, here=False)
    assert terms.rate_bytes_per_s == 50 * MB
    rate, differs = rate_lines(terms)
    assert rate.startswith("At most 50.0 MB/s for each broker and side")
    assert "Less where the latency objective needs it (p99 of 25 ms, mode fast)." in rate
    assert differs == (
        "The settings file of this command says something else (rate_bytes_per_s_max is 12.0 MB/s; the objective is not set, and the "
        "tuner has p99 of 25 ms, mode fast). The tuner's values hold until it reads that file again."
    )


def test_three_cases_without_an_executor_have_three_messages(settings: Settings) -> None:
    said = {
        name: terms_of(settings, tuners, CEILING, here=False).nobody
        for name, tuners in (
            ("none", []),
            ("dry run", [DRY]),
            ("disabled", [replace(ACTS, executes_plans=False)]),
            ("starting", [replace(ACTS, mode=TunerMode.STARTING, waits_for="the journal")]),
        )
    }
    assert said["none"] is not None
    assert said["none"].startswith("No tuner runs for cluster lab")
    assert said["dry run"] is not None
    assert said["dry run"].startswith("The tuner on three:3 runs in a dry run and carries out no plans")
    assert said["disabled"] is not None
    assert said["disabled"].startswith("The tuner on one:1, which acts, carries out no plans")
    assert said["starting"] is None, "it begins with the plan when it acts"


def test_tuner_that_was_killed_just_now_is_not_counted() -> None:
    assert still_there([ACTS, DRY, STANDS_BY], may_run=False) == [DRY]
    assert still_there([ACTS, DRY], may_run=True) == [ACTS, DRY]


def test_terms_of_a_tuner_that_the_command_starts_are_the_files(settings: Settings) -> None:
    for tuners in ([], [DRY]):
        terms = terms_of(settings, tuners, CEILING, here=True)
        assert (terms.nobody, terms.rate_bytes_per_s) == (None, 12 * MB)
        assert terms.source == "the tuner that this command starts"


def test_throttle_above_the_tuners_ceiling_is_refused(settings: Settings) -> None:
    asked = PlanThrottle(20 * MB)
    with pytest.raises(BadInputError, match=r"--throttle 20\.0 MB/s is above the ceiling of 12\.0 MB/s"):
        checked_throttle(terms_of(settings, [ACTS], asked, here=False))
    with pytest.raises(BadInputError, match="the least that Kafka takes is 1 B/s"):
        checked_throttle(terms_of(settings, [ACTS], PlanThrottle(0.5), here=False))
    higher = replace(ACTS, rate_bytes_per_s_max=50 * MB)
    assert checked_throttle(terms_of(settings, [higher], asked, here=False)).rate_bytes_per_s == 20 * MB


def test_throttle_and_unthrottled_are_told_as_such(settings: Settings) -> None:
    (slow,) = rate_lines(terms_of(settings, [ACTS], PlanThrottle(3 * MB), here=False))
    assert "At most 3.00 MB/s for each broker and side: the throttle of this plan; 12.0 MB/s is the ceiling of" in slow
    terms = terms_of(settings, [ACTS], PlanThrottle(unthrottled=True), here=False)
    assert terms.rate_bytes_per_s is None
    assert "Not throttled (--unthrottled)" in rate_lines(terms)[0]
    assert "also above the ceiling of 12.0 MB/s" in rate_lines(terms)[0]
    assert throttle_text(PlanThrottle(3 * MB)) == "throttled at 3.00 MB/s at most, on each broker and side (--throttle)"
    assert "not throttled" in throttle_text(PlanThrottle(unthrottled=True))
