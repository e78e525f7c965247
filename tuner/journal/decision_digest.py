"""Builds digests of the decisions of one step; they are recorded, and a replay compares them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from tuner.control.mutation_quota.decision import HoldQuota, QuotaDecision, TotalRateReport
from tuner.control.mutation_quota.decision import action_of as quota_action_of
from tuner.control.mutation_quota.entity import QuotaEntity
from tuner.control.throttle.decision import AllowSteering, Decision, Hold, SetRate, action_of
from tuner.journal.column_packing import pack_column

ROWS_MAX = 64  # Decisions of one cycle that are written in full.


def digest_decisions(decisions: Sequence[Decision]) -> dict[str, Any]:
    """Returns a checksum of every decision, and rows with their fields.

    With more than ``ROWS_MAX`` decisions only the first ``ROWS_MAX`` that act have a row.
    """
    sums = [zlib.crc32(_checksum_text(decision).encode()) for decision in decisions]
    detailed: Sequence[Decision] = decisions
    if len(decisions) > ROWS_MAX:
        detailed = [d for d in decisions if not isinstance(d, Hold | AllowSteering)][:ROWS_MAX]
    return {"sums": pack_column(sums), "rows": [_row(decision) for decision in detailed]}


def digest_quota_decisions(decisions: Sequence[QuotaDecision]) -> dict[str, Any]:
    """Returns a checksum of every mutation quota decision, and rows with their fields.

    With more than ``ROWS_MAX`` decisions only ``ROWS_MAX`` have a row: the holds and totals first, then the decisions that act.
    """
    sums = [zlib.crc32(repr(decision).encode()) for decision in decisions]
    detailed: Sequence[QuotaDecision] = decisions
    if len(decisions) > ROWS_MAX:
        passive = [d for d in decisions if isinstance(d, HoldQuota | TotalRateReport)]
        active = [d for d in decisions if not isinstance(d, HoldQuota | TotalRateReport)]
        detailed = [*passive, *active][:ROWS_MAX]
    return {"sums": pack_column(sums), "rows": [_quota_row(decision) for decision in detailed]}


def digest_rate_changes(changes: Sequence[SetRate]) -> list[list[Any]]:
    """Returns a row per rate change: broker, side, current and new rate in bytes/s."""
    return [[c.broker, c.side.value, c.current_bytes_per_s, c.setpoint_bytes_per_s] for c in changes]


def _checksum_text(decision: Decision) -> str:
    # The reason and the text of these frequent decisions tell all; the repr of every field would cost more.
    if isinstance(decision, Hold | AllowSteering):
        return f"{decision.reason.value} {decision.text}"
    return repr(decision)


def _row(decision: Decision) -> dict[str, Any]:
    row: dict[str, Any] = {"action": action_of(decision)}
    for field in fields(decision):
        value = getattr(decision, field.name)
        # A tuple may hold tens of thousands of replicas. Its length and checksum suffice to compare it.
        row[field.name] = value if not isinstance(value, tuple) else [len(value), zlib.crc32(repr(value).encode())]
    return row


def _quota_row(decision: QuotaDecision) -> dict[str, Any]:
    row: dict[str, Any] = {"action": quota_action_of(decision)}
    for field in fields(decision):
        value = getattr(decision, field.name)
        row[field.name] = str(value) if isinstance(value, QuotaEntity) else value
    return row
