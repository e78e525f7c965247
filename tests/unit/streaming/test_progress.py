"""``Reports`` returns every batch report of a query exactly once."""

from __future__ import annotations

from typing import Any

from streaming.progress import Reports


class Reported:
    """A fake query that keeps its last ``kept`` reports, as Spark does."""

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


def test_reports_are_empty_before_first_report() -> None:
    reports = Reports()
    assert reports.new(Reported()) == []
    assert not reports.has_reported


def test_reports_return_every_batch_once_in_order() -> None:
    query, reports = Reported(), Reports()
    for batch in range(3):
        query.tell(batch, 10)
    assert batches(reports.new(query)) == [0, 1, 2]
    assert reports.new(query) == []
    query.tell(3, 10)
    query.tell(4, 10)
    assert batches(reports.new(query)) == [3, 4]


def test_reports_keep_batch_before_idle_report() -> None:
    """An idle query reports under the number of the next batch."""
    query, reports = Reported(), Reports()
    query.tell(0, 10)
    query.tell(1, 0)
    assert batches(reports.new(query)) == [0]
    query.tell(1, 7)
    assert batches(reports.new(query)) == [1]


def test_reports_of_idle_query_are_noted_but_not_returned() -> None:
    query, reports = Reported(), Reports()
    query.tell(5, 0)
    assert reports.new(query) == []
    assert reports.has_reported


def test_reports_read_full_list_only_after_a_gap() -> None:
    query, reports = Reported(), Reports()
    for batch in range(3):
        query.tell(batch, 10)
        reports.new(query)
        reports.new(query)
    assert query.all_were_read == 0
    query.tell(4, 10)  # 3 had none.
    reports.new(query)
    assert query.all_were_read == 1


def test_reports_accept_any_first_batch_number() -> None:
    query, reports = Reported(), Reports()
    query.tell(41, 10)
    query.tell(42, 10)
    assert batches(reports.new(query)) == [41, 42]
