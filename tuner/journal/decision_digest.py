"""What came of a cycle, of a second of the law or of a cycle of the quotas, in the form in which it is on record and compared."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from tuner.control.mutation_quota.decision import HoldQuota, QuotaDecision, TotalRateReport
from tuner.control.mutation_quota.decision import action_of as quota_action_of
from tuner.control.mutation_quota.entity import QuotaEntity
from tuner.control.throttle.decision import AllowSteering, Decision, Hold, SetRate, action_of
from tuner.journal.column_packing import packed

LINES_MAX = 64  # Decisions of one cycle that are written out.


def said(decisions: Sequence[Decision]) -> dict[str, Any]:
    """A sum of every decision; and each in full where they are few, of many those that act."""
    sums = [zlib.crc32(_line(decision).encode()) for decision in decisions]
    written: Sequence[Decision] = decisions
    if len(decisions) > LINES_MAX:
        written = [d for d in decisions if not isinstance(d, Hold | AllowSteering)][:LINES_MAX]
    return {"sums": packed(sums), "rows": [_row(decision) for decision in written]}


def shared_out(decisions: Sequence[QuotaDecision]) -> dict[str, Any]:
    """The same of the mutation quotas."""
    sums = [zlib.crc32(repr(decision).encode()) for decision in decisions]
    written: Sequence[QuotaDecision] = decisions
    if len(decisions) > LINES_MAX:
        said = [d for d in decisions if isinstance(d, HoldQuota | TotalRateReport)]
        written = [*said, *(d for d in decisions if not isinstance(d, HoldQuota | TotalRateReport))][:LINES_MAX]
    return {"sums": packed(sums), "rows": [_quota_row(decision) for decision in written]}


def turned(changes: Sequence[SetRate]) -> list[list[Any]]:
    """Broker, side, from, to."""
    return [[c.broker, c.side.value, c.current_bytes_per_s, c.setpoint_bytes_per_s] for c in changes]


def _line(decision: Decision) -> str:
    if isinstance(decision, Hold | AllowSteering):
        return f"{decision.reason.value} {decision.text}"
    return repr(decision)


def _row(decision: Decision) -> dict[str, Any]:
    row: dict[str, Any] = {"action": action_of(decision)}
    for each in fields(decision):
        value = getattr(decision, each.name)
        # Tens of thousands of replicas may stand in one; that they are the same is enough to know.
        row[each.name] = value if not isinstance(value, tuple) else [len(value), zlib.crc32(repr(value).encode())]
    return row


def _quota_row(decision: QuotaDecision) -> dict[str, Any]:
    row: dict[str, Any] = {"action": quota_action_of(decision)}
    for each in fields(decision):
        value = getattr(decision, each.name)
        row[each.name] = str(value) if isinstance(value, QuotaEntity) else value
    return row
