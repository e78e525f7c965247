"""Whoever asks a query for its reports now and then is told of every batch once."""

from __future__ import annotations

from typing import Any

from streaming.progress import Reports


class Reported:
    """What a query has told, as Spark keeps it: ``kept`` reports at most."""

    def __init__(self, kept: int = 4) -> None:
        self._kept = kept
        self._told: list[dict[str, Any]] = []
        self.all_were_read = 0

    def tell(self, batch: int, rows: int) -> None:
        self._told.append({"batchId": batch, "numInputRows": rows, "timestamp": f"{len(self._told)}"})

    @property
    def lastProgress(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name for it.
        return self._told[-1] if self._told else None

    @property
    def recentProgress(self) -> list[dict[str, Any]]:  # noqa: N802 - Spark's name for it.
        self.all_were_read += 1
        return self._told[-self._kept :]


def batches(found: list[Any]) -> list[int]:
    return [one["batchId"] for one in found]


def test_nothing_is_told_before_the_first_report() -> None:
    reports = Reports()
    assert reports.new(Reported()) == []
    assert not reports.any


def test_every_batch_between_two_looks_is_told_once_and_in_order() -> None:
    query, reports = Reported(), Reports()
    for batch in range(3):
        query.tell(batch, 10)
    assert batches(reports.new(query)) == [0, 1, 2]
    assert reports.new(query) == []
    query.tell(3, 10)
    query.tell(4, 10)
    assert batches(reports.new(query)) == [3, 4]


def test_a_batch_is_not_lost_behind_the_report_of_an_idle_query() -> None:
    """An idle query reports under the number of the batch to come."""
    query, reports = Reported(), Reports()
    query.tell(0, 10)
    query.tell(1, 0)
    assert batches(reports.new(query)) == [0]
    query.tell(1, 7)
    assert batches(reports.new(query)) == [1]


def test_a_query_without_input_is_heard_of_and_tells_nothing() -> None:
    query, reports = Reported(), Reports()
    query.tell(5, 0)
    assert reports.new(query) == []
    assert reports.any


def test_all_reports_are_read_only_where_one_was_passed_over() -> None:
    query, reports = Reported(), Reports()
    for batch in range(3):
        query.tell(batch, 10)
        reports.new(query)
        reports.new(query)
    assert query.all_were_read == 0
    query.tell(4, 10)  # 3 had none.
    reports.new(query)
    assert query.all_were_read == 1


def test_a_query_that_goes_on_from_its_checkpoint_begins_with_any_batch() -> None:
    query, reports = Reported(), Reports()
    query.tell(41, 10)
    query.tell(42, 10)
    assert batches(reports.new(query)) == [41, 42]
