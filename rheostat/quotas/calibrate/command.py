"""Runs `rheostat quotas calibrate`.

The command writes a record to the orders topic before it creates the first topic, and another record at the end. The command
deletes its topics, even after an error. Only a killed process leaves its topics behind; the next run deletes them.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rheostat.config.settings import Settings, load_settings
from rheostat.console.confirm import check_can_confirm, confirm
from rheostat.console.output import out, tell
from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL, CommandError
from rheostat.limits.command import count_replicas
from rheostat.orders import send
from rheostat.plan.cluster_layout import ClusterLayout, raise_as_command_errors, read_layout
from rheostat.quotas.calibrate.calibration_options import CalibrationOptions
from rheostat.quotas.calibrate.own_topics import find_leftovers, is_run_active
from rheostat.quotas.calibrate.preconditions import partitions_within_limits, quota_in_force, unrest_text
from rheostat.quotas.calibrate.report import report_json
from rheostat.quotas.calibrate.session import CLIENT_ID, calibrate, remove
from rheostat.run.services import probe
from rheostat.tuner_presence import active_tuner, read_tuners
from streaming.shared.kafka.quotas import QuotaClient
from streaming.shared.kafka.topic_mutations import TopicMutationClient
from streaming.shared.units import count_text, span_text
from tuner.core.operator_orders import QuotaTrialKind
from tuner.planning.calibration_steps import CalibrationBounds

_CLEANUP_S_MAX = 300.0  # Time for the last round and the deletion of its topics.
# This time is longer than any pause of a run (run.py, and the time-out of a request). So a live run changes its topics within it.
_WATCH_S = 30.0


def run_calibrate(config: Path, options: CalibrationOptions, *, yes: bool, as_json: bool) -> int:
    """Measures, prints the report, and returns the exit code: 1 without a proposal, or if topics are left."""
    options.check()
    check_can_confirm(yes=yes)
    settings = load_settings(config)
    with _open_client(settings) as client:
        layout = read_layout(client, settings, CLIENT_ID)
        replication_factor = options.replicas(len(layout.brokers))
        _check_quiet(settings, layout)
        bounds = _bounds(settings, options, layout, replication_factor)
        leftovers = _removable_leftovers(client, settings)
        confirm(_changes(options, bounds, replication_factor, leftovers), yes=yes)
        send.submit(settings, send.begin_trial(QuotaTrialKind.CALIBRATE, options.for_s + _CLEANUP_S_MAX))
        _remove_leftovers(client, settings, leftovers)
        report = calibrate(settings, client, options, bounds, replication_factor)
    if as_json:
        out(json.dumps(report_json(report), indent=2))
    else:
        from rheostat.console.rich_console import console_for
        from rheostat.quotas.calibrate.view import show

        show(report, console_for(sys.stdout))
    return EXIT_DONE if report.proposal is not None and not report.leftover_topics else EXIT_NOT_WELL


def run_clear(config: Path, *, yes: bool, as_json: bool) -> int:
    """Deletes the topics that a killed calibration has left behind; returns exit code 1 if some are left."""
    check_can_confirm(yes=yes)
    settings = load_settings(config)
    remaining: list[str] = []
    with _open_client(settings) as client:
        leftovers = _removable_leftovers(client, settings)
        if leftovers:
            confirm([_removal_text(leftovers)], yes=yes)
            remaining = _remove_leftovers(client, settings, leftovers)
            tell(f"{count_text(len(leftovers) - len(remaining), 'topic')} deleted.")
        else:
            tell("Nothing to delete: no calibration has left topics behind.")
    if as_json:
        out(json.dumps({"deleted": sorted(set(leftovers) - set(remaining)), "left": remaining}))
    return EXIT_NOT_WELL if remaining else EXIT_DONE


@contextmanager
def _open_client(settings: Settings) -> Iterator[TopicMutationClient]:
    probe(settings)
    with TopicMutationClient(settings.kafka, CLIENT_ID) as client, raise_as_command_errors():
        yield client


def _check_quiet(settings: Settings, layout: ClusterLayout) -> None:
    """Checks that nothing would falsify the measurement.

    Raises:
        CommandError: the message says what to do.
    """
    unrest = unrest_text(layout)
    if unrest is not None:
        raise CommandError(f"The cluster is not quiet: {unrest}. Nothing was changed. Try again when this has ended.")
    client = QuotaClient(settings.kafka, CLIENT_ID)
    try:
        quota = quota_in_force(client.mutation_quotas(), settings.kafka, CLIENT_ID)
    finally:
        client.close()
    if quota is not None:
        entity, rate = quota
        raise CommandError(
            f"The quota of {entity}, {rate:g} partitions/s, would limit the calibration, so the result would be this quota "
            f"and not what the controller sustains. Nothing was changed. Give the client id {CLIENT_ID} a quota of "
            "1e9, or remove the quota for the time of the calibration."
        )
    if settings.tuner.mutation_quota is None or send.read_orders(settings).orders.pause is not None:
        return
    if active_tuner(read_tuners(settings, _now_ms())) is not None:
        raise CommandError(
            "A tuner that manages mutation quotas is active, and would lower the tenants' quotas because of the calibration. "
            "Nothing was changed. Run `rheostat pause` first, and `rheostat resume` afterwards."
        )


def _bounds(
    settings: Settings, options: CalibrationOptions, layout: ClusterLayout, replication_factor: int
) -> CalibrationBounds:
    allowed = partitions_within_limits(
        count_replicas(layout), settings.limits.limits(), len(layout.brokers), replication_factor
    )
    partitions_max = min(options.partitions_max, allowed)
    if partitions_max < options.partitions_min:
        raise CommandError(
            f"The partition limits in the settings section `limits` leave room for {allowed} more partitions with "
            f"{replication_factor} replicas, too few for a calibration. Nothing was changed. `rheostat limits` shows the limits."
        )
    return CalibrationBounds(partitions_max=partitions_max, sizes=options.sizes)


def _removable_leftovers(client: TopicMutationClient, settings: Settings) -> list[str]:
    """Returns the topics of earlier runs that were killed.

    Raises:
        CommandError: another calibration runs now.
    """
    prefix = settings.topics.prefix
    trial = send.read_orders(settings).orders.trials.get(QuotaTrialKind.CALIBRATE)
    if trial is None or not is_run_active(trial, _now_ms()):
        return find_leftovers(client, prefix)
    tell(f"The records show a calibration by {trial.by} that has not ended: watching its topics for {_WATCH_S:.0f} s.")

    def topics() -> set[tuple[str, int]]:
        return {(s.topic, s.partition) for s in client.partitions() if s.topic.startswith(f"{prefix}.calibrate.")}

    before, until_s = topics(), time.monotonic() + _WATCH_S
    while time.monotonic() < until_s:
        threading.Event().wait(1.0)
        if topics() != before:
            raise CommandError(
                f"Another calibration is running now ({trial.by}). Nothing was changed. Try again when it has ended."
            )
    return find_leftovers(client, prefix)


def _remove_leftovers(client: TopicMutationClient, settings: Settings, leftovers: Sequence[str]) -> list[str]:
    """Deletes these topics, if they still are leftovers. Returns the topics that are left."""
    if not leftovers:
        return []
    return remove(client, lambda: sorted(set(find_leftovers(client, settings.topics.prefix)) & set(leftovers)))


def _removal_text(leftovers: Sequence[str]) -> str:
    return (
        f"Delete {count_text(len(leftovers), 'topic')} that an earlier calibration has left behind ({leftovers[0]}"
        f"{' and others' if len(leftovers) > 1 else ''}), without records."
    )


def _changes(
    options: CalibrationOptions, bounds: CalibrationBounds, replication_factor: int, leftovers: Sequence[str]
) -> list[str]:
    return [
        *([_removal_text(leftovers)] if leftovers else []),
        f"Create, extend and delete topics for up to {span_text(options.for_s)}, with at most {bounds.partitions_max} partitions "
        f"of {count_text(replication_factor, 'replica')} at once, at rising rates until the objective is exceeded.",
        "Meanwhile other clients may wait longer for topic creations. All topics are deleted at the end.",
    ]


def _now_ms() -> int:
    return round(time.time() * 1000)
