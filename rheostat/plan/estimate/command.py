"""`rheostat plan estimate`: how long a move takes, which rate ends it in time, and what has to give when both can't be had.

Every question is answered twice: by KIP-73's formula, and counted side by side for each broker of the plan. Nothing is ever
changed. An infeasible plan is an answer, with exit code 1.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rheostat.config.settings import load_settings
from rheostat.console.output import out, tell
from rheostat.errors import BadInputError
from rheostat.plan.estimate import sources
from rheostat.plan.estimate.report import EstimateQuestion, as_record, report
from rheostat.plan.estimate.sources import EstimateFigures, EstimateInputs


def run_plan(
    asked: EstimateQuestion,
    given: EstimateInputs,
    *,
    plan: Path | None,
    config: Path | None,
    current: Path | None,
    watch_s: float,
    as_json: bool,
) -> int:
    """Answers, and returns the exit code.

    Args:
        current: an assignment file; where given, no cluster is asked.
    """
    asked.check()
    made = report(_figures(given, plan, config, current, watch_s), asked)
    if as_json:
        out(json.dumps(as_record(made), indent=2))
    else:
        from rheostat.console.rich_console import console_for
        from rheostat.plan.estimate.view import show

        show(made, console_for(sys.stdout))
    return made.exit_code()


def _figures(
    given: EstimateInputs, plan: Path | None, config: Path | None, current: Path | None, watch_s: float
) -> EstimateFigures:
    # The plan first: what is wrong in it needs no cluster to be found.
    target = None if plan is None else sources.read_plan(plan)
    if current is not None:
        if target is None:
            raise BadInputError("--current says how partitions stand; say where they shall go with a plan file")
        return sources.from_files(target, sources.read_current(current), current, given)
    numbers = (given.move_ratio, given.log_bytes_per_broker, given.brokers, given.bytes_in_per_s_max)
    if config is None or (target is None and None not in numbers):
        if target is not None:
            raise BadInputError(
                f"{plan}: who leads and who holds the partitions now is not known: give --config for the live cluster, or "
                'with --current what kafka-reassign-partitions --generate prints under "Current partition replica assignment".'
            )
        return sources.from_numbers(given)
    from rheostat.plan.estimate.live_figures import from_cluster

    return from_cluster(load_settings(config), target, given, watch_s, tell)
