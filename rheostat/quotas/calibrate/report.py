"""Builds the report of `rheostat quotas calibrate`: the measured rates, and the proposal with its reasons. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from streaming.shared.units import span_text
from tuner.core.controller import ControllerObjective
from tuner.planning.calibration_proposal import OVER_ALLOCATION, RESERVE_RATIO, MutationRateEstimate, QuotaProposal
from tuner.planning.calibration_steps import MutationKind, StepResult

KIND_TEXTS = {
    MutationKind.CREATE: "creations",
    MutationKind.ADD: "additions of partitions",
    MutationKind.DELETE: "deletions",
}


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """The result of a calibration.

    Attributes:
        rest_p90_ms: the probe's p90 without load; None if not measured.
        measures_controller: whether the active controller's metrics were read.
        samples: controller.quota.window.num of the brokers; ``window_s`` is controller.quota.window.size.seconds.
        ended_early: why the calibration ended before all rates were known; None if it is complete.
        leftover_topics: topics that could not be deleted.
    """

    cluster: str
    bootstrap_servers: str
    objective: ControllerObjective
    rest_p90_ms: float | None
    measures_controller: bool
    samples: int
    window_s: float
    steps: Sequence[StepResult] = ()
    estimates: Sequence[MutationRateEstimate] = ()
    proposal: QuotaProposal | None = None
    ended_early: str | None = None
    leftover_topics: Sequence[str] = field(default_factory=tuple)


def report_json(report: CalibrationReport) -> dict[str, Any]:
    """Returns the report as one JSON object; keys end with their unit."""
    record = asdict(report)
    del record["bootstrap_servers"]
    return {**record, "settings": settings_text(report), "command": command_text(report)}


def settings_text(report: CalibrationReport) -> str | None:
    """Returns the section of the settings file with which rheostat divides the total among the tenants; None without a proposal."""
    if report.proposal is None:
        return None
    limit_ms = report.objective.create_probe_p90_ms_max
    lines = ["tuner:", "  mutation_quota:", f"    rate_per_s_max: {report.proposal.total_per_s:g}"]
    if limit_ms is not None:
        lines += ["    objective:", f"      create_probe_p90_ms_max: {limit_ms:.0f}ms"]
    return "\n".join(lines)


def command_text(report: CalibrationReport) -> str | None:
    """Returns the command that sets a fixed quota for each client id; None without a proposal."""
    if report.proposal is None:
        return None
    return (
        f"kafka-configs --bootstrap-server {report.bootstrap_servers} --alter --entity-type clients --entity-default "
        f"--add-config controller_mutation_rate={report.proposal.tenant_per_s:g}"
    )


def proposal_lines(report: CalibrationReport) -> list[str]:
    """Returns the proposal and its reasons as sentences."""
    lines = []
    if report.ended_early is not None:
        lines.append(f"The calibration ended early: {report.ended_early}.")
    if not report.measures_controller:
        lines.append(
            "No JMX agent of the active controller answers, so only the latency of rheostat's own requests was measured: "
            "name the controllers in collector.endpoints."
        )
    proposal = report.proposal
    if proposal is None:
        lines.append("No quota is proposed, because at least one kind of mutation missed the objective at every rate.")
        return lines
    worst = proposal.worst
    partitions = "1 partition" if worst.size == 1 else f"{worst.size} partitions"
    lines += [
        f"Total rate: {proposal.total_per_s:g} partitions/s. The slowest kind of mutation determines it: "
        f"{KIND_TEXTS[worst.kind]} with "
        f"{partitions} per topic met the objective up to {worst.low_per_s:.3g}/s. {RESERVE_RATIO:.0%} of this rate stays in "
        "reserve "
        "for elections and other work of the controller.",
        f"Quota of each tenant: controller_mutation_rate={proposal.tenant_per_s:g}. {proposal.tenants} tenants share "
        f"{OVER_ALLOCATION:g} × the total rate, because they are rarely active at the same time.",
        f"Burst: a tenant with a full bucket may create {proposal.burst:.0f} partitions at once "
        f"({proposal.tenant_per_s:g} × {report.samples} × {report.window_s:g} s). The controller needs "
        f"{span_text(proposal.burst_s)} for them at the measured rate.{_burst_advice(report)}",
        "More brokers give the controller more work: repeat the calibration when the cluster has grown.",
    ]
    return lines


_BURST_S_MAX = 5.0


def _burst_advice(report: CalibrationReport) -> str:
    proposal = report.proposal
    if proposal is None or proposal.burst_s <= _BURST_S_MAX:
        return ""
    samples = max(2, int(report.samples * _BURST_S_MAX / proposal.burst_s))
    return (
        f" For a smaller burst set controller.quota.window.num={samples} on all nodes."
        if samples < report.samples
        else ""
    )


def spread_text(estimate: MutationRateEstimate) -> str:
    """Returns the two rates between which the estimate lies."""
    if estimate.low_per_s is None:
        return f"below {estimate.high_per_s:.3g}/s"
    if estimate.high_per_s is None:
        return f"at least {estimate.low_per_s:.3g}/s"
    return f"{estimate.low_per_s:.3g} to {estimate.high_per_s:.3g}/s"
