"""Answers "is anything wrong?": what needs a person, the most urgent first, each with a link to the view that explains it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tuner.api.sentences import brokers_text
from tuner.api.status_store import STANDBY_REASON

_PLANS_NAMED_MAX = 3


class Concern(NamedTuple):
    """Something that needs a person.

    Attributes:
        text: a sentence, in which backticks mark code.
        address: the view that explains the concern; empty if the present view explains it.
    """

    text: str
    address: str = ""


def concerns(
    status: Mapping[str, Any], plans: Sequence[Mapping[str, Any]], mutations: Mapping[str, Any]
) -> list[Concern]:
    """Returns the concerns that need a person; empty if there are none.

    Args:
        status: the values of ``/api/v1/status``.
        plans: the rows of ``/api/v1/plans``.
        mutations: the values of ``/api/v1/mutations``.
    """
    return [
        *_tuner_concerns(status),
        *_move_concerns(status),
        *_plan_concerns(plans),
        *_client_concerns(status, mutations),
        *_leftovers(status),
    ]


def _tuner_concerns(status: Mapping[str, Any]) -> Iterator[Concern]:
    if not status["ready"] and status["ready_text"] != STANDBY_REASON:
        yield Concern(status["ready_text"])
    if status["paused"] is not None:
        yield Concern(
            f"The tuner is {'released' if status['paused']['released'] else 'paused'}, until an operator resumes it."
        )


def _move_concerns(status: Mapping[str, Any]) -> Iterator[Concern]:
    if stalled := status["stalled_brokers"]:
        yield Concern(f"The move onto {brokers_text(stalled)} has stalled.", f"/brokers?find={stalled[0]}")
    if infeasible := status["infeasible"]:
        broker = infeasible[0]["broker"]
        yield Concern(
            "At the current limits a move never ends, because of the throttles of "
            f"{brokers_text(sorted({row['broker'] for row in infeasible}))}.",
            f"/brokers?find={broker}",
        )


def _plan_concerns(plans: Sequence[Mapping[str, Any]]) -> Iterator[Concern]:
    for plan in [plan for plan in plans if plan["blockers"] and not plan["moving"]][:_PLANS_NAMED_MAX]:
        yield Concern(f"Plan {plan['plan']} is blocked: {plan['blockers'][0]}.", f"/moves?find={plan['plan']}")


def _client_concerns(status: Mapping[str, Any], mutations: Mapping[str, Any]) -> Iterator[Concern]:
    p99_ms, limit, broker = (
        status[key] for key in ("produce_p99_ms_max", "latency_limit", "produce_p99_ms_max_broker")
    )
    if p99_ms is not None and limit is not None and p99_ms > limit["p99_ms_max"]:
        yield Concern(
            f"Producers of broker {broker} wait {p99_ms:.0f} ms (p99), and the objective is {limit['p99_ms_max']:.0f} ms.",
            f"/brokers?find={broker}",
        )
    if mutations["storm"] is not None:
        yield Concern(mutations["storm"]["text"], "/controller")
    growing = [row["broker"] for row in status["replication_lag"]["lagging"] or () if row["growing"]]
    if growing:
        yield Concern(f"The replication lag of {brokers_text(sorted(growing))} grows.", "/brokers#replication-title")


def _leftovers(status: Mapping[str, Any]) -> Iterator[Concern]:
    if count := status["orphaned_throttle_settings"]:
        verb = "setting of throttles serves" if count == 1 else "settings of throttles serve"
        yield Concern(f"{count} {verb} no move: `rheostat throttles clear` removes them.")
