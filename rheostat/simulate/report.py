"""What a simulated run means for an operator: done or not, how close to the optimum, at whose cost; and why not, if not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL
from rheostat.plan.estimate.text import side_name
from streaming.shared.short_lists import more_text
from streaming.shared.units import rate_text, share_text, size_text, span_text
from tuner.control.throttle.decision import ELSEWHERE, Reason
from tuner.core.cluster import BrokerSide
from tuner.core.drain_time import rate_bytes_per_s_min
from tuner.journal.entries import Entry
from tuner.simulation.policy import EPOCH_MS
from tuner.simulation.scenario import Scenario, sum_side_loads
from tuner.simulation.trace import Trace, rate_series

# What is not the throttle's doing, or more than one can give.
DIAGNOSES = {Reason.INFEASIBLE, Reason.NO_HEADROOM, Reason.DEADLINE_NOT_MET, *ELSEWHERE}
SIDES_MAX = 10
DECISIONS_MAX = 5


@dataclass(frozen=True, slots=True)
class BlockedSide:
    """A side whose throttle, as it stood at the end, never lets its moves end."""

    side: BrokerSide
    rate_bytes_per_s: int
    steady_state_bytes_per_s: float
    rate_bytes_per_s_min: int


@dataclass(frozen=True, slots=True)
class SimulationVerdict:
    scenario: Scenario
    trace: Trace
    blocked: tuple[BlockedSide, ...]  # Only where the moves have not ended ...
    last: tuple[Entry, ...] = ()  # ... and so is this: what the tuner decided last, oldest first.
    diagnoses: tuple[Entry, ...] = ()  # What it found that no throttle cures, the first of each kind.

    @property
    def in_time(self) -> bool:
        summary, deadline_s = self.trace.summary, self.scenario.deadline_s
        return summary.completed and (deadline_s is None or summary.duration_s <= deadline_s)

    @property
    def exit_code(self) -> int:
        return EXIT_DONE if self.in_time else EXIT_NOT_WELL


def judge_run(scenario: Scenario, trace: Trace, journal: Sequence[Entry] = ()) -> SimulationVerdict:
    """
    Args:
        journal: what the tuner wrote down, where it was one that turned the throttles.
    """
    diagnoses = tuple(_diagnoses(journal))
    if trace.summary.completed:
        return SimulationVerdict(scenario, trace, (), (), diagnoses)
    return SimulationVerdict(scenario, trace, tuple(_blocked(trace)), tuple(_last(journal)), diagnoses)


def _diagnoses(journal: Sequence[Entry]) -> Iterator[Entry]:
    told = set()
    for entry in journal:
        if entry.reason in DIAGNOSES and entry.reason not in told:
            told.add(entry.reason)
            yield entry


def _last(journal: Sequence[Entry]) -> list[Entry]:
    """The newest that differ in words: an outcome stands for its intent, as it says the same and whether it failed."""
    found: dict[str, Entry] = {}
    for entry in reversed(journal):
        found.setdefault(entry.text, entry)
        if len(found) == DECISIONS_MAX:
            break
    return list(reversed(found.values()))


def _blocked(trace: Trace) -> Iterator[BlockedSide]:
    index_of = {spec.broker: i for i, spec in enumerate(trace.world.brokers)}
    for side, load in sum_side_loads(trace.world).items():
        rates = rate_series(trace, side[1])
        if len(rates) and rates[-1][index_of[side[0]]] <= load.steady_state_bytes_per_s:
            rate = int(rates[-1][index_of[side[0]]])
            yield BlockedSide(side, rate, load.steady_state_bytes_per_s, rate_bytes_per_s_min(load))


def to_record(found: SimulationVerdict) -> dict[str, Any]:
    world, summary = found.trace.world, found.trace.summary
    return {
        "scenario": found.scenario.name,
        "policy": found.trace.policy,
        "seed": world.seed,
        "brokers": len(world.brokers),
        "partitions": len(world.partitions),
        "partitions_moving": len(world.moving),
        "bytes_to_move": round(sum(p.size_bytes * len(p.adding) for p in world.moving)),
        **asdict(summary),
        "deadline_s": found.scenario.deadline_s,
        "in_time": found.in_time,
        "remaining_bytes": round(float(found.trace.remaining_bytes[-1])) if len(found.trace.remaining_bytes) else 0,
        "blocked": [
            {
                "broker": blocked.side[0],
                "side": blocked.side[1].value,
                "rate_bytes_per_s": blocked.rate_bytes_per_s,
                "steady_state_bytes_per_s": round(blocked.steady_state_bytes_per_s),
                "rate_bytes_per_s_min": blocked.rate_bytes_per_s_min,
            }
            for blocked in found.blocked
        ],
        "diagnoses": [_decision(entry) for entry in found.diagnoses],
        "last_decisions": [_decision(entry) for entry in found.last],
    }


def _decision(entry: Entry) -> dict[str, Any]:
    return {
        "at_s": _at_s(entry),
        "action": entry.action,
        "reason": entry.reason,
        "text": entry.text,
        "failure": entry.failure,
    }


def _at_s(entry: Entry) -> float:
    return (entry.at_ms - EPOCH_MS) / 1000


def report_lines(found: SimulationVerdict) -> list[str]:
    """For people; what matters most first."""
    summary, deadline_s = found.trace.summary, found.scenario.deadline_s
    optimum = "" if summary.optimum_s is None else f"the optimum is {span_text(summary.optimum_s)}"
    if summary.completed:
        ratio = "" if summary.ratio_to_optimum is None else f", {summary.ratio_to_optimum:.2f} × the optimum"
        said = [f"The moves ended after {span_text(summary.duration_s)}{ratio}{optimum and f' ({optimum})'}."]
        if deadline_s is not None:
            kept = "in time for" if found.in_time else "too late for"
            said.append(f"That is {kept} the deadline of {span_text(deadline_s)}.")
    else:
        said = [f"The moves did NOT end within {span_text(summary.duration_s)}.", *_why_not(found)]
    over_1s, over_5s = summary.slo_violation_ratio_1s, summary.slo_violation_ratio_5s
    rows = {
        f"clients' p99 above {found.trace.world.latency.objective_ms:g} ms": (
            f"{share_text(over_1s)} of the broker-seconds; {share_text(over_5s)} of the 5 s means"
        ),
        "largest second": _burst(summary.burst_ratio_max),
        "longest silence": f"{span_text(summary.silence_s_max)} without a byte for a broker that lags",
        "config writes": f"{summary.config_writes_per_broker_min:.2g} per broker and minute",
        "copied": size_text(summary.caught_up_bytes),
    }
    width = max(map(len, rows)) + 3
    told = [f"  {label:{width}}{text}" for label, text in rows.items()]
    diagnoses = [entry for entry in found.diagnoses if entry not in found.last]
    return [
        *said,
        *told,
        *_decisions("What was found on the way:", diagnoses),
        *_decisions("The last decisions:", found.last),
    ]


def _decisions(title: str, entries: Sequence[Entry]) -> Iterator[str]:
    if entries:
        yield title
    for entry in entries:
        failed = "" if entry.failure is None else f" This failed: {entry.failure}."
        yield f"  after {span_text(_at_s(entry))}: {entry.text}{failed}"


def _burst(ratio: float) -> str:
    return f"{ratio:.1f} × the throttle that stood" if ratio > 0 else "no throttle stood"


def _why_not(found: SimulationVerdict) -> Iterator[str]:
    summary, trace = found.trace.summary, found.trace
    for blocked in found.blocked[:SIDES_MAX]:
        yield (
            f"  The {side_name(blocked.side)}: its throttle is {rate_text(blocked.rate_bytes_per_s)}, and keeping up with what "
            f"is written takes W = {rate_text(blocked.steady_state_bytes_per_s)}: nothing is left to catch up. "
            f"The smallest rate that ever ends is {blocked.rate_bytes_per_s_min} bytes/s."
        )
    if len(found.blocked) > SIDES_MAX:
        yield f"  ... {more_text(len(found.blocked) - SIDES_MAX, 'sides (--json has all)')}."
    left = size_text(float(trace.remaining_bytes[-1])) if len(trace.remaining_bytes) else "all"
    if summary.optimum_s is None:
        yield (
            f"  {left} left; no schedule could end them in that time: the links or disks leave too little beside the "
            "clients. Give a longer duration, a faster link or disk, or less load."
        )
    elif not found.blocked:
        yield f"  {left} left; the optimum is {span_text(summary.optimum_s)}, so a longer duration may show the end."
