"""Builds the controller of cordons, with a Kafka client of its own."""

from __future__ import annotations

from functools import partial

from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.teardown import named_teardown
from tuner.api.cordon_status_store import CordonStatusStore
from tuner.control.cordon.model import CordonMemory
from tuner.runtime.background_call import ThreadCaller
from tuner.runtime.cordon.actuator import DryRunCordons, KafkaCordons
from tuner.runtime.cordon.loop import CordonController, CordonPorts
from tuner.runtime.fencing import write_refusal
from tuner.wiring.context import TermContext


def cordon_controller(context: TermContext, status: CordonStatusStore) -> CordonController:
    """Returns a controller that continues from the journal. In a dry run it writes nothing to Kafka."""
    settings, journal = context.settings, context.journal
    client = ClusterClient(context.kafka, "rheostat-tuner-cordons")
    context.cleanups.callback(named_teardown("cordon client", client.close))
    cordons = KafkaCordons(client, is_leadership_proved=context.is_leadership_proved)
    context.cleanups.callback(cordons.end)
    ports = CordonPorts(
        actuator=DryRunCordons(cordons) if settings.dry_run else cordons,
        caller=ThreadCaller(),
        # A tuner that executes no plans sets no cordon. It still lifts the recorded cordons after `rheostat release`.
        plans=lambda: journal.plans.plans if settings.reassign.enabled else (),
        orders=context.orders,
        journal=context.observers.wrap_journal(journal.write),
        outbox=context.outbox,
        write_refusal=partial(write_refusal, journal),
        observer=status,
    )
    memory = CordonMemory() if settings.dry_run else journal.cordons
    return CordonController(ports, memory, context.cluster, context.clock, dry_run=settings.dry_run)
