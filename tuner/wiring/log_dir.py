"""Builds the controller of copies between log directories, with a Kafka client of its own."""

from __future__ import annotations

from functools import partial

from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.teardown import named_teardown
from tuner.api.log_dir_status_store import LogDirStatusStore
from tuner.control.log_dir.model import LogDirMemory, LogDirPolicy
from tuner.runtime.background_call import ThreadCaller
from tuner.runtime.fencing import write_refusal
from tuner.runtime.log_dir.actuator import DryRunLogDirs, KafkaLogDirs
from tuner.runtime.log_dir.loop import LogDirController, LogDirPorts
from tuner.runtime.log_dir.recorder import LogDirRecorder
from tuner.settings.tuner import TunerSettings
from tuner.wiring.context import TermContext


def log_dir_controller(context: TermContext, status: LogDirStatusStore) -> LogDirController:
    """Returns a controller that continues from the journal. In a dry run it writes nothing to Kafka."""
    settings, journal = context.settings, context.journal
    client = ClusterClient(context.kafka, "rheostat-tuner-log-dirs")
    context.cleanups.callback(named_teardown("log directory client", client.close))
    log_dirs = KafkaLogDirs(client, is_leadership_proved=context.is_leadership_proved)
    context.cleanups.callback(log_dirs.end)
    ports = LogDirPorts(
        actuator=DryRunLogDirs(log_dirs) if settings.dry_run else log_dirs,
        caller=ThreadCaller(),
        signals=context.signals,
        orders=context.orders,
        write_refusal=partial(write_refusal, journal),
        observer=status,
    )
    recorder = LogDirRecorder(
        context.observers.wrap_journal(journal.write),
        context.cluster,
        # A dry run manages no limit, so the writes of another tuner must not look like external changes of managed limits.
        LogDirMemory() if settings.dry_run else journal.log_dirs,
        context.clock,
        dry_run=settings.dry_run,
        outbox=context.outbox,
    )
    return LogDirController(
        ports, log_dir_policy(settings), context.clock, recorder, cycle_s=settings.cycle_s, dry_run=settings.dry_run
    )


def log_dir_policy(settings: TunerSettings) -> LogDirPolicy:
    """Returns the operator's settings in the form that the controller uses."""
    limits = settings.limits()
    return LogDirPolicy(
        objective=settings.control_objective(),
        limits=settings.law_limits(),
        limits_all_copies=limits.throttles_all_moves,
        adopts_existing=limits.adopts_existing,
        external_change_hold_s=limits.external_change_hold_s,
    )
