"""Shows how far a decision was from being different.

For each rule with a threshold, the result has the measured value and the value that would have changed the decision. The values are
the inputs that the journal recorded with the decision (journal/decision_inputs.py). If the journal lacks an input, its rule is left
out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from streaming.shared.units import rate_text, span_text
from tuner.control.throttle.decision import NOT_THROTTLE_LIMITED, Reason
from tuner.core.throttle_limits import StallLimits

_STALL = StallLimits()
Inputs = Mapping[str, Any]


class Threshold(NamedTuple):
    """One condition with a number.

    Attributes:
        measure: the name of the measured value.
        needed: the range in which the decision would have been different, such as "below 5 MB/s".
        actual: the value at the time of the decision.
        otherwise: what the tuner would have decided with a value in ``needed``.
    """

    measure: str
    needed: str
    actual: str
    otherwise: str


class _DecisionRecord(NamedTuple):
    """The parts of the journal entry of a decision."""

    decision: Mapping[str, Any]
    inputs: Inputs
    at_ms: int


def thresholds(reason: str, decision: Mapping[str, Any], inputs: Inputs, at_ms: int) -> list[Threshold]:
    """Returns the thresholds of the rule that decided; empty for a rule without one, and for inputs of another form.

    Args:
        decision, inputs: of the journal entry.
        at_ms: the time of the decision.
    """
    rule = _RULES.get(reason)
    if rule is None:
        return []
    try:
        return list(rule(_DecisionRecord(decision, inputs, at_ms)))
    except (AttributeError, KeyError, TypeError, ValueError, IndexError):
        return []  # Another version, or another program, wrote the record.


def _stalled(record: _DecisionRecord) -> Iterator[Threshold]:
    yield from _rate_conditions(record)
    yield from _drains(record.inputs, is_stalled=True)


def _below_steady_state(record: _DecisionRecord) -> Iterator[Threshold]:
    current, steady_state = record.decision["current_bytes_per_s"], record.inputs["move"]["steady_state_bytes_per_s"]
    if current is not None and steady_state is not None:
        yield Threshold(
            "the throttle", f"above {rate_text(steady_state)} (steady-state replication)", rate_text(current),
            "the tuner would have checked whether the throttle is used up",
        )  # fmt: skip
    yield from _drains(record.inputs, is_stalled=True)


def _rate_conditions(record: _DecisionRecord) -> Iterator[Threshold]:
    current, side = record.decision.get("current_bytes_per_s"), str(record.decision["side"])
    measured = (record.inputs.get("broker") or {}).get(f"{side}_throttled_bytes_per_s")
    bound = record.inputs["limits"].get("bound_ratio")
    if current is not None and measured is not None and bound is not None and measured >= bound * current:
        yield Threshold(
            "the traffic through the throttle", f"below {rate_text(bound * current)} ({bound:.0%} of the throttle)",
            rate_text(measured), "the tuner would have kept this throttle, which would not have limited the move",
        )  # fmt: skip


def _drains(inputs: Inputs, *, is_stalled: bool) -> Iterator[Threshold]:
    """Yields the thresholds of the stall detector for each destination: the drain, and the lost progress."""
    for destination, stall in sorted(inputs["stalls"].items()):
        if bool(stall["stalled"]) != is_stalled:
            continue
        drain = _drain(stall["window"])
        if drain is not None and (drain[0] < drain[1]) == is_stalled:
            had, needed = drain
            otherwise = (
                "the move would have counted as progressing" if is_stalled else "the move would have lost progress"
            )
            yield Threshold(
                f"the rate at which the backlog of the move onto broker {destination} shrinks",
                f"{'at least' if is_stalled else 'below'} {rate_text(needed)} (half of what the throttles allow)", _signed(had),
                otherwise,
            )  # fmt: skip
        lost_s = float(stall["lost_s"])
        measure = f"the seconds of expected progress that the move onto broker {destination} had lost"
        if is_stalled:
            yield Threshold(
                measure, f"below {_STALL.stalled_lost_s:g} s", f"{lost_s:.1f} s", "the tuner would have kept the throttle",
            )  # fmt: skip
        else:
            yield Threshold(
                measure, f"at least {_STALL.stalled_lost_s:g} s", f"{lost_s:.1f} s", "the move would have counted as stalled",
            )  # fmt: skip


def _drain(window: Sequence[Sequence[float]]) -> tuple[float, float] | None:
    """Returns the drain over the stall detector's window, and the drain below which the move loses time; None: no window yet."""
    seconds = sum(float(dt_s) for dt_s, _, _ in window)
    if seconds < _STALL.window_s:
        return None
    drained, expected = (sum(float(step[place]) for step in window) for place in (1, 2))
    return drained / seconds, _STALL.share_expected * expected / seconds


def _progressing(record: _DecisionRecord) -> Iterator[Threshold]:
    yield from _drains(record.inputs, is_stalled=False)


def _watching(record: _DecisionRecord) -> Iterator[Threshold]:
    observed_s = min(float(stall["observed_s"]) for stall in record.inputs["stalls"].values())
    yield Threshold(
        "the time for which the move was observed at one rate", f"at least {_STALL.observed_s_min:g} s", f"{observed_s:.0f} s",
        "the tuner would have assessed the progress",
    )  # fmt: skip


def _infeasible(record: _DecisionRecord) -> Iterator[Threshold]:
    steady_state = record.inputs["move"]["steady_state_bytes_per_s"]
    yield Threshold(
        "the ceiling", f"above {rate_text(steady_state)} (steady-state replication)",
        rate_text(record.inputs["limits"]["rate_bytes_per_s_max"]), "a throttle up to the ceiling would have ended the move",
    )  # fmt: skip


def _at_ceiling(record: _DecisionRecord) -> Iterator[Threshold]:
    limits = record.inputs["limits"]
    yield Threshold(
        "the ceiling", f"more than {limits['deadband_ratio']:.0%} above the throttle", rate_text(limits["rate_bytes_per_s_max"]),
        "the tuner would have raised the throttle",
    )  # fmt: skip


def _stale(record: _DecisionRecord) -> Iterator[Threshold]:
    ages_s = [
        abs(record.at_ms - row["sampled_at_ms"]) / 1000
        for row in (record.inputs.get("move"), record.inputs.get("broker"))
        if row
    ]
    limit_s = float(record.inputs["limits"]["signal_age_s_max"])
    yield Threshold(
        "the age of the oldest signal",
        f"at most {limit_s:g} s",
        span_text(max(ages_s)),
        "the tuner would have assessed the move",
    )


def _no_headroom(record: _DecisionRecord) -> Iterator[Threshold]:
    had, limit = record.inputs["broker"]["produce_p99_ms"], record.inputs["p99_ms_max"]
    if had > limit:
        yield Threshold(
            "the produce latency (p99) of the broker", f"at most {limit:.3g} ms (the objective)", f"{had:.3g} ms",
            "the control law could have raised the throttle",
        )  # fmt: skip


def _not_throttle_bound(record: _DecisionRecord) -> Iterator[Threshold]:
    yield from _drains(record.inputs, is_stalled=True)


def _signed(bytes_per_s: float) -> str:
    return rate_text(bytes_per_s) if bytes_per_s >= 0 else f"−{rate_text(-bytes_per_s)}"


_Rule = Callable[[_DecisionRecord], Iterator[Threshold]]
_RULES: Mapping[str, _Rule] = {
    Reason.STALLED_BELOW_STEADY_STATE: _below_steady_state,
    Reason.STALLED_THROTTLE_BOUND: _stalled,
    Reason.RESCUE_NEEDS_MORE: _stalled,
    Reason.PROGRESSING: _progressing,
    Reason.WATCHING: _watching,
    Reason.INFEASIBLE: _infeasible,
    Reason.AT_CEILING: _at_ceiling,
    Reason.SIGNALS_STALE: _stale,
    Reason.STALE_DECAY: _stale,
    Reason.NO_HEADROOM: _no_headroom,
    **dict.fromkeys(NOT_THROTTLE_LIMITED, _not_throttle_bound),
}
