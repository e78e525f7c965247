"""Builds digests of the decisions of one step. The tuner records the digests, and a replay compares its own digests with them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from tuner.control.cruise_control.decision import MovementDecision
from tuner.control.cruise_control.decision import action_of as movement_action_of
from tuner.control.leadership.decision import LeadershipDecision, election_action
from tuner.control.mutation_quota.decision import HoldQuota, QuotaDecision, TotalRateReport
from tuner.control.mutation_quota.decision import action_of as quota_action_of
from tuner.control.mutation_quota.entity import QuotaEntity
from tuner.control.throttle.decision import AllowSteering, Decision, Hold, SetRate, action_of
from tuner.journal.column_packing import pack_column

ROWS_MAX = 64  # Decisions of one cycle that are written in full.


def digest_decisions(decisions: Sequence[Decision]) -> dict[str, Any]:
    """Returns a checksum of every decision, and rows with their fields.

    With more than ``ROWS_MAX`` decisions, only the first ``ROWS_MAX`` decisions that act have a row.
    """
    sums = [zlib.crc32(_checksum_text(decision).encode()) for decision in decisions]
    detailed: Sequence[Decision] = decisions
    if len(decisions) > ROWS_MAX:
        detailed = [d for d in decisions if not isinstance(d, Hold | AllowSteering)][:ROWS_MAX]
    return {"sums": pack_column(sums), "rows": [_row(action_of(decision), decision) for decision in detailed]}


def digest_quota_decisions(decisions: Sequence[QuotaDecision]) -> dict[str, Any]:
    """Returns a checksum of every mutation quota decision, and rows with their fields.

    With more than ``ROWS_MAX`` decisions, only ``ROWS_MAX`` decisions have a row: first holds and totals, then decisions that act.
    """
    sums = [zlib.crc32(repr(decision).encode()) for decision in decisions]
    detailed: Sequence[QuotaDecision] = decisions
    if len(decisions) > ROWS_MAX:
        passive = [d for d in decisions if isinstance(d, HoldQuota | TotalRateReport)]
        active = [d for d in decisions if not isinstance(d, HoldQuota | TotalRateReport)]
        detailed = [*passive, *active][:ROWS_MAX]
    return {"sums": pack_column(sums), "rows": [_quota_row(decision) for decision in detailed]}


def digest_election(decision: LeadershipDecision) -> dict[str, Any]:
    """Returns the checksum and the fields of a decision about preferred leaders."""
    return _digest_one(election_action(decision), decision)


def digest_movements(decision: MovementDecision) -> dict[str, Any]:
    """Returns the checksum and the fields of a decision about the concurrency of Cruise Control."""
    return _digest_one(movement_action_of(decision), decision)


def digest_rate_changes(changes: Sequence[SetRate]) -> list[list[Any]]:
    """Returns a row per rate change: broker, side, current and new rate in bytes/s."""
    return [[c.broker, c.side.value, c.current_bytes_per_s, c.setpoint_bytes_per_s] for c in changes]


def _checksum_text(decision: Decision) -> str:
    # Reason and text identify these frequent decisions completely; the repr of every field would take longer.
    if isinstance(decision, Hold | AllowSteering):
        return f"{decision.reason.value} {decision.text}"
    return repr(decision)


def _digest_one(action: str, decision: LeadershipDecision | MovementDecision) -> dict[str, Any]:
    return {"sums": pack_column([zlib.crc32(repr(decision).encode())]), "rows": [_row(action, decision)]}


def _row(action: str, decision: Decision | LeadershipDecision | MovementDecision) -> dict[str, Any]:
    row: dict[str, Any] = {"action": action}
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
