"""Tests that the garbage collector runs less often while it frees nothing, and more often when it does."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tuner.runtime.gc_tuning import tune_gc

FIRST = 50_000


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    thresholds, callbacks = gc.get_threshold(), list(gc.callbacks)
    gc.collect()
    gc.freeze()  # What other tests left on the heap would make each collection take seconds.
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)
    gc.callbacks[:] = callbacks


def cycles(count: int) -> None:
    for _ in range(count):
        mine: list[object] = []
        mine.append(mine)


def test_gc_runs_less_often_while_it_frees_nothing() -> None:
    tune_gc()
    tune_gc()  # As often as programs in one process begin.
    searched = []
    look: list[list[int]] = []
    for _ in range(8):
        before = gc.get_stats()[0]["collections"]
        look = [[number] for number in range(4 * FIRST)]
        searched.append(gc.get_stats()[0]["collections"] - before)
    assert searched[0] > 1
    assert searched[-3:] == [0, 0, 0]
    assert len(look) == 4 * FIRST


def test_gc_still_collects_reference_cycles() -> None:
    tune_gc()
    for _ in range(10):
        gc.collect()
    assert gc.get_threshold()[0] == 32 * FIRST  # The most that may wait.
    cycles(33 * FIRST)
    assert gc.get_threshold()[0] == FIRST
    before = gc.get_stats()[0]["collected"]
    cycles(10 * FIRST)
    assert gc.get_stats()[0]["collected"] - before >= 9 * FIRST
