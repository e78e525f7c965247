"""Builds the controller of mutation quotas, with a Kafka client of its own."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial

from streaming.shared.kafka.controller_ping import ControllerPing
from streaming.shared.kafka.quotas import QuotaClient
from streaming.shared.teardown import named_teardown
from tuner.api.quota_status_store import QuotaStatusStore
from tuner.control.mutation_quota.operator_orders import recall_tenants
from tuner.runtime.background_call import ThreadCaller
from tuner.runtime.fencing import write_refusal
from tuner.runtime.mutation_quota.actuator import DryRunQuotaActuator, KafkaQuotaActuator
from tuner.runtime.mutation_quota.creation_probe import CreationProbe
from tuner.runtime.mutation_quota.loop import MutationQuotaConfig, MutationQuotaController, MutationQuotaPorts
from tuner.runtime.mutation_quota.recorder import MutationQuotaRecorder
from tuner.wiring.context import TermContext


def mutation_quota_controller(context: TermContext, status: QuotaStatusStore) -> MutationQuotaController | None:
    """Returns the controller; None if no mutation quotas are configured and the tuner manages no quota.

    The controller's Kafka client has its own client-id, because Kafka throttles clients by their id.
    """
    settings, journal = context.settings, context.journal
    dry_run, quota_settings = settings.dry_run, settings.mutation_quota
    policy = settings.mutation_policy(context.partition_limits)
    if policy is None and not journal.quotas.owned:
        return None
    client = QuotaClient(context.kafka, "rheostat-tuner-quotas")
    context.cleanups.callback(named_teardown("quota client", client.close))
    quotas = KafkaQuotaActuator(client, is_leadership_proved=context.is_leadership_proved)
    context.cleanups.callback(quotas.end)
    uses_broker_windows = quota_settings is None or not quota_settings.window_is_given
    probe: CreationProbe | None = None
    if policy is not None and policy.objective.create_probe_p90_ms_max is not None:
        probe = _start_probe(context)
    memory = recall_tenants(journal.quotas, context.clock.now_ms())
    if dry_run:
        # A dry run manages no quota, so the writes of another tuner must not look like external changes of managed quotas.
        memory = replace(memory, owned={})
    ports = MutationQuotaPorts(
        quotas=DryRunQuotaActuator(quotas) if dry_run else quotas,
        caller=ThreadCaller(),
        signals=context.signals,
        orders=context.orders,
        write_refusal=partial(write_refusal, journal),
        observer=status,
        inputs=context.inputs,
        read_windows=(lambda: context.live.quota_windows) if uses_broker_windows else None,
        read_probe_p90_ms=probe.p90_ms if probe is not None else None,
        read_internal=lambda: context.live.internal,
    )
    config = MutationQuotaConfig(
        policy=policy,
        cycle_s=quota_settings.cycle_s if quota_settings is not None else settings.cycle_s,
        dry_run=dry_run,
    )
    recorder = MutationQuotaRecorder(
        context.observers.wrap_journal(journal.write),
        context.cluster,
        memory,
        context.clock,
        dry_run=dry_run,
        outbox=context.outbox,
    )
    return MutationQuotaController(ports, config, context.clock, recorder)


def _start_probe(context: TermContext) -> CreationProbe:
    """Starts and returns a probe of the topic-create latency.

    The probe creates no topic. It sends a request that waits in the controller's queue like a topic creation. This request has to
    name an existing topic, so it names the journal's topic, which exists as long as a tuner acts.
    """
    ping = ControllerPing(context.kafka, "rheostat-tuner-create-probe", context.topics.journal)
    probe = CreationProbe(ping, rng=random.Random(), monotonic=context.clock.monotonic_s)
    context.cleanups.callback(named_teardown("creation probe", probe.stop))
    probe.start()
    return probe
