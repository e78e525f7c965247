"""Reports a simulated run to an operator: duration, distance to the optimum, client latency, and why moves did not end.

The report ends with two sentences that say what the run shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL
from rheostat.plan.estimate.text import side_name
from streaming.shared.short_lists import more_text
from streaming.shared.units import rate_text, share_text, size_text, span_text
from tuner.control.throttle.decision import NOT_THROTTLE_LIMITED, Reason
from tuner.core.cluster import BrokerSide
from tuner.core.drain_time import rate_bytes_per_s_min
from tuner.journal.entries import Entry
from tuner.simulation.policy import EPOCH_MS
from tuner.simulation.scenario import Scenario, sum_side_loads
from tuner.simulation.trace import Trace, rate_series

# Reasons for a slow move that no throttle rate can remove.
DIAGNOSES = {Reason.INFEASIBLE, Reason.NO_HEADROOM, Reason.DEADLINE_NOT_MET, *NOT_THROTTLE_LIMITED}
SIDES_MAX = 10
_NOTICED_RATIO_MIN = 0.01  # Clients notice the moves if at least this share of the 5 s means is above the objective.
DECISIONS_MAX = 5


@dataclass(frozen=True, slots=True)
class BlockedSide:
    """A side whose throttle at the end of the run never lets its moves end."""

    side: BrokerSide
    rate_bytes_per_s: int
    steady_state_bytes_per_s: float
    rate_bytes_per_s_min: int


@dataclass(frozen=True, slots=True)
class SimulationVerdict:
    """The outcome of a run.

    Attributes:
        blocked: sides whose moves never end; empty if the moves ended.
        last_decisions: the tuner's last decisions, oldest first; empty if the moves ended.
        diagnoses: the first decision for each reason that no throttle rate can remove.
    """

    scenario: Scenario
    trace: Trace
    blocked: tuple[BlockedSide, ...]
    last_decisions: tuple[Entry, ...] = ()
    diagnoses: tuple[Entry, ...] = ()

    @property
    def in_time(self) -> bool:
        """Whether the moves have ended, and before the deadline if there is one."""
        summary, deadline_s = self.trace.summary, self.scenario.deadline_s
        return summary.completed and (deadline_s is None or summary.duration_s <= deadline_s)

    @property
    def exit_code(self) -> int:
        return EXIT_DONE if self.in_time else EXIT_NOT_WELL


def judge_run(scenario: Scenario, trace: Trace, journal: Sequence[Entry] = ()) -> SimulationVerdict:
    """Returns the outcome of a run.

    Args:
        journal: the tuner's records; empty if no tuner set the throttles.
    """
    diagnoses = tuple(_find_diagnoses(journal))
    if trace.summary.completed:
        return SimulationVerdict(scenario, trace, blocked=(), diagnoses=diagnoses)
    return SimulationVerdict(
        scenario,
        trace,
        blocked=tuple(_find_blocked(trace)),
        last_decisions=tuple(_last_decisions(journal)),
        diagnoses=diagnoses,
    )


def _find_diagnoses(journal: Sequence[Entry]) -> Iterator[Entry]:
    reasons = set()
    for entry in journal:
        if entry.reason in DIAGNOSES and entry.reason not in reasons:
            reasons.add(entry.reason)
            yield entry


def _last_decisions(journal: Sequence[Entry]) -> list[Entry]:
    """Returns the newest entries with different texts. An outcome has the text of its decision and replaces that entry."""
    newest: dict[str, Entry] = {}
    for entry in reversed(journal):
        newest.setdefault(entry.text, entry)
        if len(newest) == DECISIONS_MAX:
            break
    return list(reversed(newest.values()))


def _find_blocked(trace: Trace) -> Iterator[BlockedSide]:
    index_of = {spec.broker: i for i, spec in enumerate(trace.world.brokers)}
    for (broker, side), load in sum_side_loads(trace.world).items():
        rates = rate_series(trace, side)  # A row for each second, a column for each broker.
        if not len(rates):
            continue
        rate = rates[-1][index_of[broker]]
        if rate <= load.steady_state_bytes_per_s:
            yield BlockedSide((broker, side), int(rate), load.steady_state_bytes_per_s, rate_bytes_per_s_min(load))


def to_record(verdict: SimulationVerdict) -> dict[str, Any]:
    """Returns the outcome as a JSON object."""
    trace, world, summary = verdict.trace, verdict.trace.world, verdict.trace.summary
    remaining_bytes = float(trace.remaining_bytes[-1]) if len(trace.remaining_bytes) else 0.0
    return {
        "scenario": verdict.scenario.name,
        "policy": trace.policy,
        "seed": world.seed,
        "brokers": len(world.brokers),
        "partitions": len(world.partitions),
        "partitions_moving": len(world.moving),
        "bytes_to_move": round(sum(p.size_bytes * len(p.adding) for p in world.moving)),
        **asdict(summary),
        "deadline_s": verdict.scenario.deadline_s,
        "in_time": verdict.in_time,
        "remaining_bytes": round(remaining_bytes),
        "blocked": [
            {
                "broker": blocked.side[0],
                "side": blocked.side[1].value,
                "rate_bytes_per_s": blocked.rate_bytes_per_s,
                "steady_state_bytes_per_s": round(blocked.steady_state_bytes_per_s),
                "rate_bytes_per_s_min": blocked.rate_bytes_per_s_min,
            }
            for blocked in verdict.blocked
        ],
        "diagnoses": [_decision_record(entry) for entry in verdict.diagnoses],
        "last_decisions": [_decision_record(entry) for entry in verdict.last_decisions],
        "conclusion": list(conclude(verdict)),
    }


def _decision_record(entry: Entry) -> dict[str, Any]:
    return {
        "at_s": _at_s(entry),
        "action": entry.action,
        "reason": entry.reason,
        "text": entry.text,
        "failure": entry.failure,
    }


def _at_s(entry: Entry) -> float:
    return (entry.at_ms - EPOCH_MS) / 1000


def report_lines(verdict: SimulationVerdict) -> list[str]:
    """Returns the report as lines of text, the most important first."""
    summary, deadline_s = verdict.trace.summary, verdict.scenario.deadline_s
    if summary.completed:
        ratio = ""
        if summary.optimum_s is not None and summary.ratio_to_optimum is not None:
            ratio = f", {summary.ratio_to_optimum:.2f} × the optimum of {span_text(summary.optimum_s)}"
        outcome = [f"The moves ended after {span_text(summary.duration_s)}{ratio}."]
        if deadline_s is not None:
            kept = "in time for" if verdict.in_time else "too late for"
            outcome.append(f"That is {kept} the deadline of {span_text(deadline_s)}.")
    else:
        outcome = [f"The moves did NOT end within {span_text(summary.duration_s)}.", *_explain_unfinished(verdict)]
    over_1s, over_5s = summary.slo_violation_ratio_1s, summary.slo_violation_ratio_5s
    rows = {
        f"clients' p99 above {verdict.trace.world.latency.objective_ms:g} ms": (
            f"{share_text(over_1s)} of the time, over all brokers of the moves; {share_text(over_5s)} if each value is a mean "
            "over 5 s"
        ),
        "largest burst": _burst_text(summary.burst_ratio_max),
        "longest silence": f"{span_text(summary.silence_s_max)} in which a broker with missing data received no byte",
        "config writes": f"{summary.config_writes_per_broker_min:.2g} per broker and minute",
        "copied": size_text(summary.caught_up_bytes),
    }
    width = max(map(len, rows)) + 3
    figures = [f"  {label:{width}}{text}" for label, text in rows.items()]
    diagnoses = [entry for entry in verdict.diagnoses if entry not in verdict.last_decisions]
    return [
        *outcome,
        *figures,
        *_format_decisions("Diagnoses during the run:", diagnoses),
        *_format_decisions("The last decisions:", verdict.last_decisions),
        "",
        *conclude(verdict),
    ]


def conclude(verdict: SimulationVerdict) -> tuple[str, str]:
    """Returns two sentences: what the run shows of the moves, and of the clients."""
    return _conclude_moves(verdict), _conclude_clients(verdict.trace)


def _conclude_moves(verdict: SimulationVerdict) -> str:
    summary, policy = verdict.trace.summary, _policy_text(verdict.trace.policy)
    duration, goal = span_text(summary.duration_s), _objective_text(verdict.trace)
    if not summary.completed:
        unfinished = f"With {policy} the moves do not end within {duration}"
        if summary.optimum_s is None:
            return f"{unfinished}, and no schedule that keeps {goal} could end them in that time."
        if verdict.blocked:
            cause = "the throttle of one broker side leaves"
            if len(verdict.blocked) > 1:
                cause = f"the throttles of {len(verdict.blocked)} broker sides leave"
            return f"{unfinished}: {cause} nothing for the copy, because replication of new writes needs all of it."
        return f"{unfinished}; the shortest schedule that keeps {goal} takes {span_text(summary.optimum_s)}."
    if summary.optimum_s is None:
        return f"With {policy} the moves take {duration}; no schedule that keeps {goal} could end them in the time simulated."
    comparison = "less than" if summary.duration_s < summary.optimum_s else "against"
    optimum = f"{span_text(summary.optimum_s)} for the shortest schedule that keeps {goal}"
    return f"With {policy} the moves take {duration}, {comparison} {optimum}."


def _conclude_clients(trace: Trace) -> str:
    summary, objective = trace.summary, f"{trace.world.latency.objective_ms:g} ms"
    over_1s, over_5s = summary.slo_violation_ratio_1s, summary.slo_violation_ratio_5s
    if over_1s == 0:
        return f"Clients are not disturbed: their p99 latency never exceeds {objective}."
    exceeds = (
        f"their p99 latency exceeds {objective} in {share_text(over_1s)} of the time, over all brokers of the moves"
    )
    if over_5s < _NOTICED_RATIO_MIN:
        return f"Clients are hardly disturbed: {exceeds}, and only in short peaks."
    return f"Clients are disturbed: {exceeds}."


def _objective_text(trace: Trace) -> str:
    return f"clients below {trace.world.latency.objective_ms:g} ms"


def _policy_text(policy: str) -> str:
    name, _, setting = policy.partition(":")
    if name == "static":
        return f"a fixed throttle of {setting}"
    return {"none": "no throttle", "as-is": "the initial throttles"}.get(policy, policy)


def _format_decisions(title: str, entries: Sequence[Entry]) -> Iterator[str]:
    if entries:
        yield title
    for entry in entries:
        failed = "" if entry.failure is None else f" This failed: {entry.failure}."
        yield f"  after {span_text(_at_s(entry))}: {entry.text}{failed}"


def _burst_text(ratio: float) -> str:
    return f"{ratio:.1f} × the throttle rate in one second" if ratio > 0 else "no throttle was set"


def _explain_unfinished(verdict: SimulationVerdict) -> Iterator[str]:
    summary, trace = verdict.trace.summary, verdict.trace
    for blocked in verdict.blocked[:SIDES_MAX]:
        yield (
            f"  The {side_name(blocked.side)}: its throttle is {rate_text(blocked.rate_bytes_per_s)}, and its steady-state "
            f"replication needs W = {rate_text(blocked.steady_state_bytes_per_s)}: nothing is left for the copy. "
            f"The lowest rate that ends the move is {blocked.rate_bytes_per_s_min} bytes/s."
        )
    if len(verdict.blocked) > SIDES_MAX:
        yield f"  ... {more_text(len(verdict.blocked) - SIDES_MAX, 'sides (--json has all)')}."
    left = size_text(float(trace.remaining_bytes[-1])) if len(trace.remaining_bytes) else "all"
    if summary.optimum_s is None:
        yield (
            f"  {left} left to copy. No schedule could end the moves in that time, because clients leave too little of the links "
            "or disks: give a longer duration, a faster link or disk, or less load."
        )
    elif not verdict.blocked:
        yield f"  {left} left to copy. The optimum is {span_text(summary.optimum_s)}, so a longer duration may show the end."
