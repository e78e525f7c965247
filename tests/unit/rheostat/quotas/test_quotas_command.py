"""Tests `rheostat quotas explain` and `plan`: the figures of KIP-599, JSON, and refused input."""

from __future__ import annotations

import pytest
from command_rig import Command

from rheostat.quotas.numbers import amount_text

KIP = ["explain", "--quota", "5", "--samples", "100", "--sample-length", "1s", "--burst", "560"]
STORM = ["plan", "--topics", "5000", "--partitions", "4", "--topics-per-request", "50", "--request-rate", "10"]


COMMAND = Command("quotas")
run, said, record, refused = COMMAND.run, COMMAND.said, COMMAND.record, COMMAND.refused


def test_explain_kip_example_shows_both_throttle_times() -> None:
    told = said(*KIP)
    assert "500 − 560 = −60 tokens" in told
    assert "refused (THROTTLING_QUOTA_EXCEEDED) for 12 s: 60 ÷ 5" in told
    assert "would measure 5.6/s. It would return a throttle time of 12 s, but refuse requests for 100 s" in told


def test_explain_kip_example_as_json() -> None:
    found = record(*KIP)
    assert found["token_bucket"] == {
        "burst_partitions_max": 500.0, "tokens": -60.0, "throttle_s": 12.0, "full_again_s": 112.0,
    }  # fmt: skip
    assert found["mean_rate"]["refused_s"] == 100.0
    assert found["mean_rate"]["throttle_s"] == pytest.approx(12.0)


def test_explain_burst_within_bucket_refuses_no_request() -> None:
    told = said("explain", "--quota", "5")
    assert "0 tokens are left" in told
    assert "refuse no request either" in told


def test_plan_kip_storm_with_and_without_quota() -> None:
    told = said(*STORM, "--quota", "5", "--controller", "zookeeper")
    assert "5000 topics × 4 partitions take 1 h 6 min: the first 14 topics at once" in told
    assert "wait for the controller for at most 336 ms" in told
    assert "Without a quota: 120 s, and other requests wait for at most 110 s" in told.replace("2 min", "120 s")


def test_plan_kip_storm_as_json() -> None:
    found = record(*STORM, "--quota", "5", "--controller", "zookeeper", "--max-wait", "500ms")
    assert found["creation"]["partitions"] == 20_000
    assert found["quota"]["burst_partitions"] == 55
    assert found["without_quota"]["done_s"] == pytest.approx(120.0)
    assert found["under_quota"]["wait_s_max"] == pytest.approx(0.336)
    assert 7.2 < found["rate_per_s_max"] < 7.3


def test_plan_wait_above_maximum_returns_not_well() -> None:
    told = said(*STORM, "--quota", "50", "--controller", "zookeeper", "--max-wait", "500ms", code=1)
    assert "at most 500 ms is 7.2" in told


def test_plan_names_when_no_quota_helps_or_is_needed() -> None:
    much = said("plan", "--topics", "3", "--partitions", "100", "--quota", "1", "--controller", "zookeeper", "--max-wait",
                "500ms", code=1)  # fmt: skip
    assert "one topic alone takes longer" in much
    little = said("plan", "--topics", "3", "--quota", "1", "--max-wait", "500ms")
    assert "No quota is needed: other requests wait for at most 500 ms" in little


def test_plan_costs_from_options_are_used() -> None:
    found = record("plan", "--topics", "10", "--quota", "100", "--time-per-topic", "5ms", "--time-per-partition", "0")
    assert found["without_quota"]["work_s"] == pytest.approx(0.05)
    assert "as set by the options" in said("plan", "--topics", "10", "--quota", "100", "--time-per-topic", "5ms")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["explain"], "--quota"),
        (["explain", "--quota", "0"], "'--quota': expected a number per second above 0"),
        (["explain", "--quota", "-5"], "'--quota': expected a number per second above 0"),
        (["explain", "--quota", "nan"], "found 'nan'"),
        (["explain", "--quota", "1e-300"], "found '1e-300'"),
        (["explain", "--quota", "five"], "found 'five'"),
        (["explain", "--quota", "5", "--samples", "0"], "--samples"),
        (["explain", "--quota", "5", "--sample-length", "0"], "'--sample-length'"),
        (["explain", "--quota", "5", "--burst", "0"], "'--burst'"),
        (["plan", "--quota", "5"], "--topics"),
        (["plan", "--quota", "5", "--topics", "0"], "--topics"),
        (["plan", "--quota", "5", "--topics", "5", "--partitions", "0"], "--partitions"),
        (["plan", "--quota", "5", "--topics", "300000"], "--topics: expected at most 200000"),
        (["plan", "--quota", "5", "--topics", "5", "--controller", "raft"], "kraft, zookeeper, found 'raft'"),
        (["plan", "--quota", "5", "--topics", "5", "--time-per-topic", "nan"], "found 'nan'"),
        (["plan", "--quota", "5", "--topics", "5", "--time-per-partition", "-1"], "'--time-per-partition'"),
        (["plan", "--quota", "5", "--topics", "5", "--request-rate", "0"], "'--request-rate'"),
        (["plan", "--quota", "5", "--topics", "5", "--max-wait", "soon"], "'--max-wait'"),
    ],
)
def test_quotas_commands_refuse_bad_option_by_name(arguments: list[str], named: str) -> None:
    assert named in " ".join(refused(*arguments).split())


def test_amount_text_keeps_number_as_typed() -> None:
    texts = [amount_text(value) for value in (5.0, -60.0, 5.6, 0.06, 1234567.0, 500.0, 1e-6, 0.0)]
    assert texts == ["5", "−60", "5.6", "0.06", "1234567", "500", "0.000001", "0"]
