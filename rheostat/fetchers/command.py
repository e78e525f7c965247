"""Runs `rheostat fetchers`: shows the load of each fetcher thread and the effect of other numbers of threads, and may change it.

The load of a thread is the write rate of its partitions, measured by the growth of their logs. If nothing is written, it is the
number of its partitions.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from rheostat.config.settings import Settings, load_settings
from rheostat.console.confirm import check_can_confirm
from rheostat.console.output import out, tell
from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL, BadInputError, CommandError
from rheostat.fetchers.approval import FetcherChange, apply_change
from rheostat.fetchers.fetcher_setting import LiveFetcherSetting
from rheostat.fetchers.heat_map import HeatMap, as_svg, as_text
from rheostat.fetchers.report import FetchersReport, analyse_fetchers, to_record
from rheostat.plan.cluster_layout import raise_as_command_errors, read_layout
from rheostat.plan.write_rates import measure_write_rates
from rheostat.reassign.active_plans import may_begin_steps, read_active_plans
from rheostat.run.services import probe
from streaming.shared.kafka.fetchers import FetcherClient
from tuner.core.fetcher_load import FetchedPartition
from tuner.core.fetchers import NUM_REPLICA_FETCHERS
from tuner.runtime.gc_tuning import tune_gc

_CLIENT_ID = "rheostat-fetchers"


def run_fetchers(
    config: Path,
    *,
    by_partitions: bool,
    measure_s: float,
    thread_bytes_per_s_max: float | None,
    plot: Path | None,
    as_json: bool,
    change: FetcherChange | None = None,
) -> int:
    """Shows the load of the threads, applies ``change`` if there is one, and returns the exit code.

    Args:
        by_partitions: whether the load of a thread is its number of partitions instead of a rate.
        measure_s: how long to watch the logs for write rates; 0 means that the rates come from the signals.
        thread_bytes_per_s_max: the highest rate of one thread; None if not known.
        plot: the file for a heat map.
    """
    tune_gc()
    if by_partitions and thread_bytes_per_s_max is not None:
        raise BadInputError(
            "--thread-rate: threads are compared by partitions, not by rates; leave out --by partitions"
        )
    check_plot_name(plot)
    if change is not None:
        check_can_confirm(yes=change.yes)
    settings = load_settings(config)
    probe(settings)
    if change is not None:
        check_no_plan_is_running(settings, tell)
    with FetcherClient(settings.kafka, _CLIENT_ID) as client, raise_as_command_errors():
        report = _read_report(
            client,
            settings,
            by_partitions=by_partitions,
            measure_s=measure_s,
            thread_bytes_per_s_max=thread_bytes_per_s_max,
        )
        if plot is not None:
            write_plot(report, plot)
        if not as_json:
            _show(report, is_changing=change is not None)
        outcome = None if change is None else apply_change(client, report, change, tell)
    if as_json:
        record = to_record(report)
        if outcome is not None:
            record["apply"] = asdict(outcome)
        out(json.dumps(record, indent=2))
    if outcome is None:
        return report.exit_code()
    return EXIT_DONE if outcome.why is None else EXIT_NOT_WELL


def check_no_plan_is_running(settings: Settings, notify: Callable[[str], None]) -> None:
    """Checks that no plan of reassignments is running.

    Between two steps of a plan Kafka reports no reassignment, so the next step could begin during the change.

    Raises:
        CommandError: the journal has a plan that has not ended.
    """
    try:
        plans = [plan for plan in read_active_plans(settings) if may_begin_steps(plan)]
    except CommandError as error:
        notify(f"The plans of reassignments cannot be read, so a plan may be running: {error}")
        return
    if plans:
        raise CommandError(
            f"Plan {plans[0].id}, submitted by {plans[0].head.submitted_by}, has not ended, and every change of "
            f"{NUM_REPLICA_FETCHERS} restarts all fetcher threads: nothing was changed. Wait until the plan has ended, or pause it "
            f"with `rheostat reassign pause {plans[0].id}`."
        )


def _read_report(
    client: FetcherClient,
    settings: Settings,
    *,
    by_partitions: bool,
    measure_s: float,
    thread_bytes_per_s_max: float | None,
) -> FetchersReport:
    """Returns the report. If nothing is written, the threads are compared by partitions although rates were requested."""
    layout = read_layout(client, settings, _CLIENT_ID)
    setting = LiveFetcherSetting(client, layout.brokers)
    fetchers = {broker: fetcher_setting.value for broker, fetcher_setting in setting.read_settings().items()}
    rates = {} if by_partitions else measure_write_rates(client, settings, layout, measure_s, tell)
    notes: tuple[str, ...] = ()
    by_writes = any(rates.values())
    if not by_partitions and not by_writes:
        notes = (
            "No client wrote while this command watched the logs, so it compares the threads by their partitions.",
        )
        thread_bytes_per_s_max = None
    partitions = [
        FetchedPartition(
            state.topic,
            state.partition,
            state.leader,
            state.replicas,
            load=rates.get(key, 0.0) if by_writes else 1.0,
        )
        for key, state in sorted(layout.partitions.items())
        if state.leader >= 0
    ]
    leaderless = len(layout.partitions) - len(partitions)
    if leaderless:
        notes = (*notes, f"{leaderless} of {len(layout.partitions)} partitions have no leader and are left out.")
    return analyse_fetchers(
        layout.source,
        partitions,
        fetchers,
        by_writes=by_writes,
        thread_bytes_per_s_max=thread_bytes_per_s_max,
        notes=notes,
    )


def _show(report: FetchersReport, *, is_changing: bool) -> None:
    from rheostat.console.rich_console import console_for
    from rheostat.fetchers.view import show

    show(report, console_for(sys.stdout), is_changing=is_changing)


def check_plot_name(plot: Path | None) -> None:
    """Checks the extension of the file name.

    Raises:
        BadInputError: the extension is not .svg or .txt.
    """
    if plot is not None and plot.suffix not in (".svg", ".txt"):
        raise BadInputError(f"--plot: expected a file named *.svg or *.txt, found {plot}")


def write_plot(report: FetchersReport, plot: Path) -> None:
    """Writes a heat map of the current threads, and a second map with the best setting if the change is worthwhile.

    Raises:
        BadInputError: the file cannot be written.
    """
    maps = [HeatMap(f"current {NUM_REPLICA_FETCHERS}", report.fetchers, report.by_pair)]
    if report.is_worthwhile and report.best.fetchers is not None:
        best = dict.fromkeys(report.fetchers, report.best.fetchers)
        maps.append(HeatMap(f"with {NUM_REPLICA_FETCHERS}={report.best.fetchers}", best, report.by_pair))
    unit = "bytes/s written to its partitions" if report.by_writes else "partitions"
    if plot.suffix == ".txt":
        text = as_text(maps)
    else:
        text = as_svg("Fetcher threads", f"A thread's load: {unit}. Figures from {report.source}.", maps)
    try:
        plot.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInputError(f"--plot: {plot}: cannot be written: {error.strerror or error}") from error
