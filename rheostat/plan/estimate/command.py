"""Runs `rheostat plan estimate`: how long a reassignment takes, which throttle ends it in time, and which limit prevents that.

Every question is answered twice: by KIP-73's formula for the whole cluster, and for each side of the plan (a broker as leader or as
follower). The command changes nothing. "The limits cannot be met" is a valid answer, with exit code 1.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rheostat.config.settings import load_settings
from rheostat.console.output import out, tell
from rheostat.errors import BadInputError
from rheostat.line_chart import write_plot
from rheostat.plan.estimate import sources
from rheostat.plan.estimate.report import EstimateOptions, estimate_plan, to_record
from rheostat.plan.estimate.sources import EstimateFigures, EstimateInputs
from rheostat.plan.estimate.start import StartOptions, read_start_report
from rheostat.plan.estimate.start_plot import draw_start
from rheostat.start_report import to_record as start_report_record


def run_estimate(
    options: EstimateOptions,
    inputs: EstimateInputs,
    *,
    plan: Path | None,
    config: Path | None,
    current: Path | None,
    measure_s: float,
    start: StartOptions,
    as_json: bool,
) -> int:
    """Prints the answer, and returns the exit code.

    Args:
        plan: the plan file; None means the reassignments in progress.
        config: the settings file for the live cluster.
        current: a file with the current assignment, instead of the live cluster.
        measure_s: how long to watch the logs for write rates.
        start: when the move starts, for a forecast.
    """
    options.check()
    requested_start = start.parse(options, live=config is not None and current is None)
    report = estimate_plan(_read_figures(inputs, plan, config, current, measure_s), options)
    start_report = None
    if requested_start is not None and config is not None:
        start_report = read_start_report(load_settings(config), report, requested_start)
    if start.plot is not None and start_report is not None:
        write_plot(start.plot, draw_start(start_report))
    if as_json:
        start_record = None if start_report is None else start_report_record(start_report)
        out(json.dumps({**to_record(report), "start": start_record}, indent=2))
    else:
        from rheostat.console.rich_console import console_for
        from rheostat.plan.estimate.view import show, show_start

        console = console_for(sys.stdout)
        show(report, console)
        if start_report is not None:
            show_start(start_report, console)
    return report.exit_code() if start_report is None else start_report.exit_code()


def _read_figures(
    inputs: EstimateInputs, plan: Path | None, config: Path | None, current: Path | None, measure_s: float
) -> EstimateFigures:
    # The plan is read first: its faults can be found without a cluster.
    plan_file = None if plan is None else sources.read_plan(plan)
    if current is not None:
        if plan_file is None:
            raise BadInputError(
                "--current gives the current assignment: also name a plan file with the desired assignment"
            )
        return sources.from_files(plan_file, sources.read_current(current), current, inputs)
    kip73_inputs = (inputs.move_ratio, inputs.log_bytes_per_broker, inputs.brokers, inputs.bytes_in_per_s_max)
    # Without a plan, and with all figures of KIP-73 on the command line, no cluster is needed even if --config is given.
    if config is None or (plan_file is None and None not in kip73_inputs):
        if plan_file is not None:
            raise BadInputError(
                f"{plan}: the current leaders and replicas of the partitions are not known: give --config to read the live "
                "cluster, or --current FILE with the assignment that kafka-reassign-partitions --generate prints under "
                '"Current partition replica assignment".'
            )
        return sources.from_numbers(inputs)
    from rheostat.plan.estimate.live_figures import from_cluster

    return from_cluster(load_settings(config), plan_file, inputs, measure_s, tell)
