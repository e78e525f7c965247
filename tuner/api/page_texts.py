"""The sentences that only the status page has: what the tuner may do now, the meaning of a reason code, and empty parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from streaming.shared import start_time
from streaming.shared.contract import LagTrend
from streaming.shared.units import rate_text
from tuner.api.quota_status_store import QuotaStatusStore
from tuner.api.status_snapshot import StatusSnapshot
from tuner.api.status_store import StatusStore
from tuner.control.cordon.reason_texts import CORDON_REASON_TEXTS
from tuner.control.cruise_control.reason_texts import CRUISE_CONTROL_REASON_TEXTS
from tuner.control.leadership.reason_texts import LEADERSHIP_REASON_TEXTS
from tuner.control.log_dir.reason_texts import LOG_DIR_REASON_TEXTS
from tuner.control.mutation_quota.reason_texts import QUOTA_REASON_TEXTS
from tuner.control.reassignment.reason_texts import (
    CONCURRENCY_REASON_TEXTS,
    STEP_OUTCOME_REASON_TEXTS,
    STEP_REASON_TEXTS,
)
from tuner.control.throttle.reason_texts import REASON_TEXTS
from tuner.core.cluster import ClusterUnreadable
from tuner.core.dry_run_notice import dry_run_notice
from tuner.core.reason_text import ReasonText
from tuner.journal.entries import CONCURRENCY, QUOTAS, STEP_OUTCOMES, STEPS

_STANDBY = (
    "This tuner changes nothing, because another tuner of this cluster holds the lease or the lease is being assigned."
)
_STEADY_MESSAGES_PER_S = 0.5  # The page would show a smaller slope as 0, so it calls the lag steady.
_NOT_ACTIVE = "This tuner is not active. The page of the active tuner shows this part."
_NO_CYCLE = "The tuner waits for the end of its first cycle, which reads the whole cluster."
_UNREADABLE = "The tuner waits until the cluster can be read. `rheostat doctor` names what is missing."


class ModeLine(NamedTuple):
    """A line of the page about the tuner's mode: what it may change now.

    Attributes:
        name: one or two words.
        text: one sentence; in a dry run also how to end it.
        is_limited: whether the tuner may write less than its settings allow.
    """

    name: str
    text: str
    is_limited: bool


def mode_line(status: Mapping[str, Any], *, is_standby: bool, closed_loop: bool) -> ModeLine:
    """Returns the mode that decides what the tuner may write: the strictest one that applies.

    Args:
        status: the values of ``/api/v1/status``.
        is_standby: whether the tuner lacks only the lease.
        closed_loop: whether a latency objective is set.
    """
    paused = status["paused"]
    if is_standby:
        return ModeLine("Standby", _STANDBY, is_limited=True)
    if not status["active"]:
        return ModeLine("Starting", "This tuner cannot act yet, and changes nothing until it can.", is_limited=True)
    if status["dry_run"]:
        notice = dry_run_notice(by_default=status["dry_run_by_default"]).removeprefix("Dry run: ")
        return ModeLine("Dry run", notice[:1].upper() + notice[1:], is_limited=True)
    if paused is not None and paused["released"]:
        text = "The tuner restores the settings that it manages, and then changes nothing until an operator resumes it."
        return ModeLine("Released", text, is_limited=True)
    if paused is not None:
        return ModeLine("Paused", "The tuner changes nothing until an operator resumes it.", is_limited=True)
    rate_max = rate_text(status["rate_bytes_per_s_max"])
    if closed_loop and (objective := status["objective"]) is not None:
        if objective["latency_ms"] is not None:
            goal = f"within {objective['latency_ms']:g} ms"
        else:
            goal = (
                f"at most {objective['tolerance']:.0%} above the latency without a move (5 ms more are always allowed)"
            )
        text = f"The tuner adjusts throttles every second, up to {rate_max}, to keep the produce latency {goal}."
        return ModeLine("Steering", text, is_limited=False)
    text = (
        f"The tuner raises the throttle of a stalled move, up to {rate_max}, and throttles only its own plans, because no "
        "latency objective is set."
    )
    return ModeLine("Rescue", text, is_limited=False)


def reason_text(kind: str, action: str, reason: str) -> ReasonText | None:
    """Returns the text of a reason code from the catalogue of its controller; None if the catalogue has no such code.

    The controllers share some codes, such as ``paused``.

    Args:
        kind, action: kind and action of the journal entry with this reason. They tell which controller decided.
    """
    texts: Mapping[Any, ReasonText] = REASON_TEXTS
    if kind == CONCURRENCY:
        texts = CONCURRENCY_REASON_TEXTS
    elif kind == STEPS:
        texts = STEP_REASON_TEXTS
    elif kind == STEP_OUTCOMES:
        texts = STEP_OUTCOME_REASON_TEXTS
    elif kind == QUOTAS or action == "total" or action.endswith("_quota"):
        texts = QUOTA_REASON_TEXTS
    elif action.endswith("_log_dir"):
        texts = LOG_DIR_REASON_TEXTS
    elif action.endswith("_cordon"):
        texts = CORDON_REASON_TEXTS
    elif action.endswith("_movements"):
        texts = CRUISE_CONTROL_REASON_TEXTS
    elif action in ("hold_election", "elect_leaders"):
        texts = LEADERSHIP_REASON_TEXTS
    # The keys are string enumerations, which equal their values.
    return texts.get(reason)


def is_throttle_reason(text: ReasonText | None) -> bool:
    """Returns whether the text is from the catalogue of the throttle controller."""
    return any(text is each for each in REASON_TEXTS.values())


def reason_meaning(kind: str, action: str, reason: str) -> str | None:
    """Returns the condition that a reason code stands for; None if its catalogue has no such code."""
    text = reason_text(kind, action, reason)
    return text.cause if text is not None else None


def tenant_meaning(reason: str) -> str:
    """Returns the meaning of a tenant's reason code."""
    return reason_meaning(QUOTAS, "", reason) or reason.replace("_", " ")


def waiting_text(store: StatusStore, snapshot: StatusSnapshot) -> str | None:
    """Returns a text about the event for which the tuner waits before it can show the cluster; None if it can show it."""
    observation = snapshot.observation
    if not store.active:
        return _NOT_ACTIVE
    if observation is None:
        return _NO_CYCLE
    return _UNREADABLE if isinstance(observation.live, ClusterUnreadable) else None


def no_moves_text(store: StatusStore, snapshot: StatusSnapshot) -> str:
    """Returns why no move is shown: nothing moves, or no signal describes the moves."""
    if (text := waiting_text(store, snapshot)) is not None:
        return text
    live = snapshot.cycle.result.live
    if live is None or not live.moves:
        return "No partition moves. The tuner waits for a reassignment, started by any tool."
    moves = "1 partition moves" if len(live.moves) == 1 else f"{len(live.moves)} partitions move"
    return (
        f"{moves}, and the tuner waits for a signal about the progress. The stream sends its first signals {start_time.USUAL} "
        "after it starts."
    )


def no_lag_text(store: StatusStore, snapshot: StatusSnapshot, followers: int) -> str:
    """Returns why no lag is shown: no follower lags, or no signal describes the lags."""
    if (text := waiting_text(store, snapshot)) is not None:
        return text
    if not followers:
        return (
            "The tuner has no signal about replication lag. This signal needs the metric `FetcherLagMetrics` of "
            "JMX agents, and a stream of "
            "this version."
        )
    subject = (
        "The one broker that reports its lag"
        if followers == 1
        else f"Each of the {followers} brokers that report their lag"
    )
    return f"No replica lags. {subject} has copied everything that its leaders have committed."


def lag_trend_text(trend: LagTrend) -> str:
    """Returns the slope and, if it is known, how well it fits."""
    slope = trend.slope_messages_per_s
    change = "steady" if abs(slope) < _STEADY_MESSAGES_PER_S else f"{slope:+,.0f} messages/s"
    return change if trend.r2 is None or change == "steady" else f"{change}, fit {trend.r2 * 100:.0f} %"


def no_tenants_text(store: StatusStore, snapshot: StatusSnapshot, quotas: QuotaStatusStore) -> str:
    """Returns why no mutation quota is shown."""
    if quotas.objective is None:
        return "The tuner does not manage mutation quotas, because `tuner.mutation_quota` is not set."
    if quotas.has_failed:
        return "The mutation quota controller is suspended after an error, which the log of the tuner names."
    return waiting_text(store, snapshot) or "The tuner waits for the first cycle of the mutation quota controller."
