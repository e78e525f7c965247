"""Builds the controller that elects preferred leaders, with a Kafka client of its own."""

from __future__ import annotations

from functools import partial

from streaming.shared.kafka.reassignments import ReassignmentClient
from streaming.shared.teardown import named_teardown
from tuner.api.leadership_status_store import LeadershipStatusStore
from tuner.control.leadership.policy import LeadershipLimits
from tuner.runtime.background_call import ThreadCaller
from tuner.runtime.fencing import write_refusal
from tuner.runtime.leadership.loop import LeadershipController, LeadershipPorts
from tuner.wiring.context import TermContext


def leadership_controller(context: TermContext, status: LeadershipStatusStore) -> LeadershipController | None:
    """Returns the controller; None if the settings turn it off. Its client connects at the first reading."""
    settings = context.settings
    if settings.leadership == "off":
        return None
    client = ReassignmentClient(context.kafka, "rheostat-tuner-leadership")
    context.cleanups.callback(named_teardown("leadership client", client.close))
    ports = LeadershipPorts(
        api=client,
        caller=ThreadCaller(),
        latest=lambda: context.observers.status.snapshot().observation,
        orders=lambda: context.orders.latest,
        vetoes=context.vetoes,
        journal=context.observers.wrap_journal(context.journal.write).write,
        write_refusal=partial(write_refusal, context.journal),
        observer=status,
        inputs=context.inputs,
    )
    limits = LeadershipLimits(
        acts=settings.leadership == "act",
        objective=settings.control_objective(),
        signal_age_s_max=settings.signal_age_s_max,
    )
    return LeadershipController(ports, limits, context.clock, dry_run=settings.dry_run)
