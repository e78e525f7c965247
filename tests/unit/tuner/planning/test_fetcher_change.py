"""Changes of num.replica.fetchers: which setting is written, the steps in between, and harmful changes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.planning.fetcher_change import CLUSTER_DEFAULT, FetcherSetting, ResizePlan, plan_resize
from tuner.planning.fetcher_resize_monitor import FollowerSample, ResizeBaseline, find_harm, measure_baseline

INHERITED = FetcherSetting(2)


def test_plan_resize_inherited_value_changes_the_default() -> None:
    found = plan_resize({1: INHERITED, 2: INHERITED, 3: INHERITED}, None, 5)
    assert found == ResizePlan(2, 5, (1, 2, 3), {CLUSTER_DEFAULT: None}, {})
    assert found.steps == (4, 5)
    assert found.rollback_steps(5) == (2,)
    assert plan_resize({1: INHERITED}, 2, 4).targets == {CLUSTER_DEFAULT: 2}, "a default that stood is put back"


def test_plan_resize_own_values_are_changed_on_brokers() -> None:
    found = plan_resize(
        {1: FetcherSetting(2, is_set_on_broker=True), 2: FetcherSetting(2, is_set_on_broker=True)}, None, 4
    )
    assert found.targets == {1: 2, 2: 2}
    mixed = plan_resize({1: INHERITED, 2: INHERITED, 3: FetcherSetting(2, is_set_on_broker=True)}, 2, 4)
    assert mixed.targets == {CLUSTER_DEFAULT: 2, 3: 2}
    assert mixed.brokers == (1, 2, 3)


def test_plan_resize_different_own_value_is_left_alone() -> None:
    found = plan_resize({1: INHERITED, 2: INHERITED, 3: FetcherSetting(8, is_set_on_broker=True)}, None, 4)
    assert (found.targets, found.brokers, found.left_alone) == ({CLUSTER_DEFAULT: None}, (1, 2), {3: 8})
    has_it = plan_resize({1: INHERITED, 2: INHERITED, 3: FetcherSetting(4, is_set_on_broker=True)}, None, 4)
    assert (has_it.brokers, has_it.left_alone) == ((1, 2), {})


def test_plan_resize_different_files_do_not_change_the_default() -> None:
    found = plan_resize(
        {1: FetcherSetting(2), 2: FetcherSetting(2, is_set_on_broker=True), 3: FetcherSetting(3)}, None, 4
    )
    assert (found.targets, found.left_alone) == ({1: None, 2: 2}, {3: 3})
    lower = plan_resize({1: FetcherSetting(1), 2: FetcherSetting(3)}, None, 3)
    assert (lower.current, lower.targets, lower.brokers, lower.left_alone) == (1, {1: None}, (1,), {})


def test_plan_resize_current_value_takes_no_step() -> None:
    assert plan_resize({1: INHERITED}, None, 2).steps == ()


@given(stands=st.integers(1, 64), wanted=st.integers(1, 64), data=st.data())
def test_resize_steps_and_rollback_are_accepted_by_kafka(stands: int, wanted: int, data: st.DataObject) -> None:
    found = plan_resize({1: FetcherSetting(stands)}, None, wanted)
    values = [stands, *found.steps]
    reached = data.draw(st.integers(0, len(values) - 1))
    ways = [values, [values[reached], *found.rollback_steps(values[reached])]]
    # A place that a failed step did not reach has the value before it.
    ways += [[values[max(0, reached - 1)], *found.rollback_steps(values[reached])]]
    for way in ways:
        for old, new in pairwise(way):
            assert old // 2 <= new <= 2 * old
    assert values[-1] == wanted
    assert ways[1][-1] == stands


# -- harm ------------------------------------------------------------------------------------------------------------------

WAS = ResizeBaseline(out_of_sync=2, behind=500, messages_per_s=1_000.0)


def looks(*pairs: tuple[int, int]) -> list[FollowerSample]:
    return [FollowerSample(2.0 * n, out_of_sync, behind, 0) for n, (out_of_sync, behind) in enumerate(pairs)]


def test_measure_baseline_is_the_worst_sample() -> None:
    seen = [FollowerSample(0, 1, 500, 10_000), FollowerSample(2, 2, 100, 12_000), FollowerSample(4, 0, 0, 14_000)]
    assert measure_baseline(seen) == WAS
    assert WAS.behind_max == 11_000
    assert ResizeBaseline(0, 0, 0.0).behind_max == 1_000


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        ([(2, 500)] * 5, None),
        ([(3, 0)], None),  # One look: perhaps a broker whose metadata are late.
        ([(3, 0), (2, 0), (3, 0)], None),
        ([(2, 0), (3, 0), (4, 0)], "4 partitions have a replica that is not in sync, 2 had before the change"),
        ([(2, 20_000), (2, 30_000)], None),
        ([(2, 20_000), (2, 30_000), (2, 10_000)], None),
        ([(2, 50_000), (2, 40_000), (2, 30_000)], None),  # It is worked off.
        (
            [(2, 20_000), (2, 30_000), (2, 20_000)],
            "20000 messages wait for in-sync replicas to copy them, 500 did before",
        ),
    ],
)
def test_find_harm_needs_several_samples_in_a_row(seen: list[tuple[int, int]], said: str | None) -> None:
    found = find_harm(WAS, looks(*seen))
    assert found is None if said is None else found is not None and found.startswith(said)
