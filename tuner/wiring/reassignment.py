"""Builds the executor of reassignment plans, with a Kafka client of its own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import structlog

from streaming.shared.kafka.reassignments import ReassignmentClient
from streaming.shared.teardown import named_teardown
from tuner.api.plan_status_store import PlanStatusStore
from tuner.control.reassignment.admission import OperatorLimits
from tuner.core.cluster import BrokerSide
from tuner.core.controller import ControllerObjective
from tuner.core.partition_limits import PartitionLimits
from tuner.core.prepare_handshake import PrepareHandshake
from tuner.runtime.background_call import ThreadCaller
from tuner.runtime.cordon.loop import CordonController
from tuner.runtime.fencing import write_refusal
from tuner.runtime.reassignment.actuator import KafkaReassignmentActuator
from tuner.runtime.reassignment.executor import ExecutorConfig, ExecutorPorts, ReassignmentExecutor
from tuner.runtime.reassignment.prepare import PREPARE_S_MAX
from tuner.runtime.reassignment.recorder import ReassignmentRecorder
from tuner.runtime.throttle.loop import ThrottleController
from tuner.settings.tuner import TunerSettings
from tuner.wiring.context import TermContext

log = structlog.get_logger("tuner")


def reassignment_executor(
    context: TermContext, status: PlanStatusStore, throttle_controller: ThrottleController, cordons: CordonController
) -> ReassignmentExecutor | None:
    """Returns the executor; None if this tuner executes no plans. In a dry run it only reports the steps that it would begin.

    Args:
        throttle_controller: sets the throttle of each step of a plan before the step is submitted to Kafka.
        cordons: sets the cordons that a plan orders before its first step.
    """
    settings, journal, orders, handshake = context.settings, context.journal, context.orders, PrepareHandshake()
    orders.plans = None
    if not settings.reassign.enabled:
        # Another tuner may execute plans. Their moves stay throttled, so the throttle controller needs to know the plans.
        throttle_controller.connect_plans(
            pending_bytes=_no_pending_bytes, handshake=handshake, plans=lambda: journal.plans.known_plans
        )
        return None
    orders.plans = journal.plans  # From now on the orders reader updates the plans from new records.
    # A dry run also shows the progress that another tuner records while it executes the plans.
    orders.reads_executor_records = settings.dry_run
    for plan, why in journal.plans.unreadable_plans.items():
        log.error(
            "the tuner does not execute a recorded plan that it cannot read: run the version of rheostat that wrote it, "
            "or look with `rheostat journal check`",
            plan=plan,
            error=why,
        )
    client = ReassignmentClient(context.kafka, "rheostat-tuner-plans")
    context.cleanups.callback(named_teardown("plans client", client.close))
    actuator = KafkaReassignmentActuator(client, is_leadership_proved=context.is_leadership_proved)
    context.cleanups.callback(actuator.end)
    if settings.dry_run:
        actuator.end()  # Makes the actuator refuse all changes, so that a dry run changes nothing, even by mistake.
    ports = ExecutorPorts(
        actuator=actuator,
        caller=ThreadCaller(),
        orders=orders,
        signals=context.signals,
        throttle_state=lambda: throttle_controller.throttle_state,
        write_refusal=partial(write_refusal, journal),
        observer=status,
        # A dry run begins no steps, so the executor announces none, and the throttle controller's handshake stays empty.
        handshake=handshake if not settings.dry_run else None,
        cordons=lambda: cordons.state,
        vetoes=context.vetoes,
    )
    config = ExecutorConfig(
        limits=_operator_limits(settings, context.partition_limits),
        # The throttle controller may answer the handshake only in a regular cycle, and the next regular cycle may fail. So a step
        # waits for at least two cycles.
        prepare_s_max=max(PREPARE_S_MAX, 2 * settings.cycle_s),
        dry_run=settings.dry_run,
    )
    recorder = ReassignmentRecorder(
        context.observers.wrap_journal(journal.write),
        context.cluster,
        journal.plans,
        context.clock,
        outbox=context.outbox,
    )
    executor = ReassignmentExecutor(ports, config, context.clock, recorder)
    throttle_controller.connect_plans(
        pending_bytes=lambda: executor.pending_bytes, handshake=handshake, plans=lambda: journal.plans.known_plans
    )
    return executor


def _no_pending_bytes() -> Mapping[BrokerSide, float]:
    return {}


def _operator_limits(settings: TunerSettings, partition_limits: PartitionLimits | None) -> OperatorLimits:
    """Returns the operator's limits for steps. Each step adds load to Kafka's controller, so its objective is one of the limits."""
    quotas = settings.mutation_quota
    return OperatorLimits(
        batch=settings.reassign.limits(),
        concurrency=settings.reassign.concurrency(),
        partitions=partition_limits or PartitionLimits(),
        first_topics=settings.first_topics,
        controller_objective=quotas.objective.for_policy() if quotas is not None else ControllerObjective(),
    )
