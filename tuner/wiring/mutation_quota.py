"""The loop of the mutation quotas, with a client of its own."""

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
from tuner.runtime.fencing import refusal
from tuner.runtime.mutation_quota.actuator import DryRunQuotaActuator, KafkaQuotaActuator
from tuner.runtime.mutation_quota.creation_probe import CreationProbe
from tuner.runtime.mutation_quota.loop import MutationQuotaController
from tuner.runtime.mutation_quota.recorder import MutationQuotaRecorder
from tuner.wiring.context import TermContext


def mutations_of(means: TermContext, board: QuotaStatusStore) -> MutationQuotaController | None:
    """None: no mutation quotas are asked for, and none of ours stands. Its client has a name of its own, as Kafka counts and
    pauses by it."""
    settings, journal, live = means.settings, means.journal, means.live
    policy = settings.mutation_policy(means.partition_limits)
    if policy is None and not journal.quotas.owned:
        return None
    client = QuotaClient(means.kafka, "rheostat-tuner-quotas")
    means.ends.callback(named_teardown("quota client", client.close))
    quotas = KafkaQuotaActuator(client, proved=means.proved)
    means.ends.callback(quotas.end)
    dry_run, asked = settings.dry_run, settings.mutation_quota
    felt = policy is not None and policy.objective.create_probe_p90_ms_max is not None
    memory = recall_tenants(journal.quotas, round(means.wall_clock() * 1000))
    # Who only looks on owns nothing: what a tuner that acts writes is not somebody's change of it.
    memory = replace(memory, owned={}) if dry_run else memory
    return MutationQuotaController(
        quotas=DryRunQuotaActuator(quotas) if dry_run else quotas,
        caller=ThreadCaller(),
        signals=means.signals,
        orders=means.orders,
        ledger=MutationQuotaRecorder(
            means.watched.on_record(journal.write),
            means.cluster,
            memory,
            wall_clock=means.wall_clock,
            monotonic=means.monotonic,
            dry_run=dry_run,
            owed=means.owed,
        ),
        refusal=partial(refusal, journal),
        watcher=board,
        policy=policy,
        cycle_s=asked.cycle_s if asked is not None else settings.cycle_s,
        wall_clock=means.wall_clock,
        monotonic=means.monotonic,
        dry_run=dry_run,
        inputs=means.inputs,
        windows=None if asked is not None and asked.window_is_given else lambda: live.quota_windows,
        read_probe_p90_ms=_felt(means).p90_ms if felt else None,
    )


def _felt(means: TermContext) -> CreationProbe:
    """The journal's topic is there for as long as a tuner acts, and ours to be asked for."""
    asker = ControllerPing(means.kafka, "rheostat-tuner-felt", means.topics.journal)
    probe = CreationProbe(asker, rng=random.Random(), monotonic=means.monotonic)
    means.ends.callback(named_teardown("creation probe", probe.stop))
    probe.start()
    return probe
