"""`rheostat fetchers`: which threads copy what, on the live cluster, and what another number of them would do; or sets it.

Intuition: a thread's load is what is written to the partitions that fall to it, so two looks at the log sizes tell it. Where
nothing is written just now, partitions are counted instead.
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
from rheostat.fetchers.approval import FetcherChange, applied
from rheostat.fetchers.fetcher_setting import LiveFetcherSetting
from rheostat.fetchers.heat_map import Map, as_svg, as_text
from rheostat.fetchers.report import FetchersReport, as_record, report
from rheostat.plan.cluster_layout import ending_failures, look
from rheostat.plan.write_rates import write_rates
from rheostat.reassign.active_plans import may_begin_steps, read_active_plans
from rheostat.run.services import probe
from streaming.shared.kafka.fetchers import FetcherClient
from tuner.control.throttle.diagnosis.fetcher_load import FetchedPartition
from tuner.core.fetchers import NUM_REPLICA_FETCHERS
from tuner.runtime.gc_tuning import tune_gc

_CLIENT_ID = "rheostat-fetchers"


def run_fetchers(
    config: Path,
    *,
    by_partitions: bool,
    watch_s: float,
    thread_bytes_per_s_max: float | None,
    plot: Path | None,
    as_json: bool,
    wanted: FetcherChange | None = None,
) -> int:
    """Answers, and returns the exit code."""
    tune_gc()
    if by_partitions and thread_bytes_per_s_max is not None:
        raise BadInputError(
            "--thread-rate: threads are compared by partitions, not by rates; leave out --by partitions"
        )
    check_plot(plot)
    if wanted is not None:
        check_can_confirm(yes=wanted.yes)
    settings = load_settings(config)
    probe(settings)
    if wanted is not None:
        check_no_plan_goes_on(settings, tell)
    with FetcherClient(settings.kafka, _CLIENT_ID) as client, ending_failures():
        made = _report(client, settings, by_partitions, watch_s, thread_bytes_per_s_max)
        if plot is not None:
            draw(made, plot)
        if not as_json:
            _show(made, changes=wanted is not None)
        outcome = None if wanted is None else applied(client, made, wanted, tell)
    if as_json:
        record = as_record(made)
        if outcome is not None:
            record["apply"] = asdict(outcome)
        out(json.dumps(record, indent=2))
    if outcome is None:
        return made.exit_code()
    return EXIT_DONE if outcome.why is None else EXIT_NOT_WELL


def check_no_plan_goes_on(settings: Settings, say: Callable[[str], None]) -> None:
    """Between two steps of a plan Kafka tells of no move, and the next one begins in the middle of the change.

    Raises:
        CommandError: a plan is on record that has not ended.
    """
    try:
        plans = [plan for plan in read_active_plans(settings) if may_begin_steps(plan)]
    except CommandError as error:
        say(f"Whether a plan of reassignments goes on is not known: {error}")
        return
    if plans:
        raise CommandError(
            f"Plan {plans[0].id}, given by {plans[0].head.submitted_by}, has not ended, and every change of "
            f"{NUM_REPLICA_FETCHERS} starts all fetcher threads anew: "
            f"nothing was changed. Wait for its end, or `rheostat reassign pause {plans[0].id}` first."
        )


def _report(
    client: FetcherClient, settings: Settings, by_partitions: bool, watch_s: float, thread_bytes_per_s_max: float | None
) -> FetchersReport:
    standing = look(client, settings, _CLIENT_ID)
    fetchers = {b: one.value for b, one in LiveFetcherSetting(client, standing.brokers).settings().items()}
    rates = {} if by_partitions else write_rates(client, settings, standing, watch_s, tell)
    notes: tuple[str, ...] = ()
    by_writes = any(rates.values())
    if not by_partitions and not by_writes:
        notes = ("Nothing was written while it was watched: threads are compared by partitions.",)
        thread_bytes_per_s_max = None
    partitions = [
        FetchedPartition(s.topic, s.partition, s.leader, s.replicas, rates.get(key, 0.0) if by_writes else 1.0)
        for key, s in sorted(standing.partitions.items())
        if s.leader >= 0
    ]
    without = len(standing.partitions) - len(partitions)
    if without:
        notes = (*notes, f"Nobody leads {without} of {len(standing.partitions)} partitions, so nobody copies them.")
    return report(
        standing.source,
        partitions,
        fetchers,
        by_writes=by_writes,
        thread_bytes_per_s_max=thread_bytes_per_s_max,
        notes=notes,
    )


def _show(made: FetchersReport, *, changes: bool) -> None:
    from rheostat.console.rich_console import console_for
    from rheostat.fetchers.view import show

    show(made, console_for(sys.stdout), changes=changes)


def check_plot(plot: Path | None) -> None:
    """
    Raises:
        BadInputError: the name says of no picture that we can draw.
    """
    if plot is not None and plot.suffix not in (".svg", ".txt"):
        raise BadInputError(f"--plot: expected a file named *.svg or *.txt, found {plot}")


def draw(made: FetchersReport, plot: Path) -> None:
    """
    Raises:
        BadInputError: the file cannot be written.
    """
    maps = [Map(f"now: {NUM_REPLICA_FETCHERS} as it is", made.fetchers, made.by_pair)]
    if made.pays and made.best.fetchers is not None:
        then = dict.fromkeys(made.fetchers, made.best.fetchers)
        maps.append(Map(f"with {NUM_REPLICA_FETCHERS}={made.best.fetchers}", then, made.by_pair))
    unit = "bytes/s written to its partitions" if made.by_writes else "partitions"
    text = (
        as_text(maps)
        if plot.suffix == ".txt"
        else as_svg("Fetcher threads", f"A thread's load: {unit}. Figures from {made.source}.", maps)
    )
    try:
        plot.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInputError(f"--plot: {plot}: cannot be written: {error.strerror or error}") from error
