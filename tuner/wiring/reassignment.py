"""The executor of plans, with a client of its own."""

from __future__ import annotations

from functools import partial

import structlog

from streaming.shared.kafka.reassignments import ReassignmentClient
from streaming.shared.teardown import named_teardown
from tuner.api.plan_status_store import PlanStatusStore
from tuner.control.reassignment.admission import OperatorLimits
from tuner.core.controller import ControllerObjective
from tuner.core.partition_limits import PartitionLimits
from tuner.core.prepare_handshake import PrepareHandshake
from tuner.runtime.background_call import ThreadCaller
from tuner.runtime.fencing import refusal
from tuner.runtime.reassignment.actuator import KafkaReassignmentActuator
from tuner.runtime.reassignment.executor import ReassignmentExecutor
from tuner.runtime.reassignment.prepare import PREPARE_S_MAX
from tuner.runtime.reassignment.recorder import ReassignmentRecorder
from tuner.runtime.throttle.loop import ThrottleController
from tuner.settings.tuner import TunerSettings
from tuner.wiring.context import TermContext

log = structlog.get_logger("tuner")


def plans_of(means: TermContext, board: PlanStatusStore, loop: ThrottleController) -> ReassignmentExecutor | None:
    """None: this tuner executes no plans. One in a dry run only says what it would begin.

    ``loop`` throttles its steps before they begin.
    """
    settings, journal, orders = means.settings, means.journal, means.orders
    orders.plans = None
    if not settings.reassign.enabled:
        # What another tuner's plan moves stays throttled.
        loop.heed_plans(dict, PrepareHandshake(), lambda: journal.plans.known)
        return None
    orders.plans, orders.plans_whole = journal.plans, settings.dry_run
    for plan, why in journal.plans.unread.items():
        log.error(
            "a plan on record is not carried out: run the version of rheostat that wrote it, or look with `rheostat journal check`",
            plan=plan,
            error=why,
        )
    client = ReassignmentClient(means.kafka, "rheostat-tuner-plans")
    means.ends.callback(named_teardown("plans client", client.close))
    actuator = KafkaReassignmentActuator(client, proved=means.proved)
    means.ends.callback(actuator.end)
    if settings.dry_run:
        actuator.end()  # So that nothing can be asked for, whoever asks.
    handshake = PrepareHandshake()
    plans = ReassignmentExecutor(
        actuator=actuator,
        caller=ThreadCaller(),
        orders=orders,
        signals=means.signals,
        throttle_state=lambda: loop.throttling,
        recorder=ReassignmentRecorder(
            means.watched.on_record(journal.write),
            means.cluster,
            journal.plans,
            wall_clock=means.wall_clock,
            monotonic=means.monotonic,
            outbox=means.owed,
        ),
        refusal=partial(refusal, journal),
        observer=board,
        limits=_operator_limits(settings, means.partition_limits),
        wall_clock=means.wall_clock,
        monotonic=means.monotonic,
        handshake=handshake if not settings.dry_run else None,
        prepare_s_max=max(PREPARE_S_MAX, 2 * settings.cycle_s),
        dry_run=settings.dry_run,
    )
    loop.heed_plans(lambda: plans.pending_bytes, handshake, lambda: journal.plans.known)
    return plans


def _operator_limits(settings: TunerSettings, partition_limits: PartitionLimits | None) -> OperatorLimits:
    asked = settings.mutation_quota
    return OperatorLimits(
        settings.reassign.limits(),
        settings.reassign.concurrency(),
        partition_limits or PartitionLimits(),
        asked.objective.objective() if asked is not None else ControllerObjective(),
    )
