"""Runs one calibration on a cluster: starts its parts, measures, and deletes its topics, even after an error."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from rheostat.config.settings import Settings
from rheostat.console.output import tell
from rheostat.errors import CommandError
from rheostat.orders import send
from rheostat.quotas.agents import AgentReader
from rheostat.quotas.calibrate.calibration_options import CalibrationOptions
from rheostat.quotas.calibrate.guard import CalibrationGuard
from rheostat.quotas.calibrate.mutation_load import MutationLoad
from rheostat.quotas.calibrate.own_topics import RunName, RunTopics, find_leftovers, remove_topics
from rheostat.quotas.calibrate.report import CalibrationReport
from rheostat.quotas.calibrate.request_log import LoggedPing, RequestLog
from rheostat.quotas.calibrate.run import CalibrationRun
from streaming.shared.deferred_interrupts import DeferredInterrupts
from streaming.shared.kafka.controller_ping import ControllerPing
from streaming.shared.kafka.topic_mutations import TopicMutationClient
from tuner.core.operator_orders import QuotaTrialKind
from tuner.core.quota_window import QuotaWindow
from tuner.planning.calibration_proposal import MutationRateEstimate, QuotaProposal, estimate_rates, propose_quota
from tuner.planning.calibration_steps import CalibrationBounds
from tuner.runtime.mutation_quota.creation_probe import CreationProbe
from tuner.runtime.observe.cluster_reader import read_quota_windows

CLIENT_ID = "rheostat-calibrate"
_IDLE_S = 6.0
_READY_S_MAX = 15.0
_IDLE_PRESSURE_MAX = 0.8  # If the controller is busier than this without load, nothing can be measured.
_REMOVED_PER_S = 20.0


def calibrate(
    settings: Settings,
    client: TopicMutationClient,
    options: CalibrationOptions,
    bounds: CalibrationBounds,
    replication_factor: int,
) -> CalibrationReport:
    """Returns the report, after all topics were deleted.

    Raises:
        CommandError: nothing could be measured; all topics were deleted.
    """
    topics = RunTopics(RunName.new(settings.topics.prefix), replication_factor)
    brokers = client.brokers()
    window = _quota_window(client)
    quota_settings = settings.tuner.mutation_quota
    objective = options.objective(None if quota_settings is None else quota_settings.objective.for_policy())
    agents = AgentReader(settings, {endpoint.node: endpoint.host for endpoint in brokers})
    log = RequestLog()
    guard = CalibrationGuard(client, agents, log, objective)
    # The ping needs an existing topic, and changes nothing in that topic.
    ping = ControllerPing(settings.kafka, f"{CLIENT_ID}-probe", topics.name(0))
    creation_probe = CreationProbe(LoggedPing(ping, log), rng=random.Random(), window=log)
    load = MutationLoad(settings.kafka, CLIENT_ID, [endpoint.node for endpoint in brokers])
    deadline_s = time.monotonic() + options.for_s
    run = CalibrationRun(topics, bounds, load, guard, deadline_s=deadline_s, notify=tell)
    left = list[str]()
    proposal: QuotaProposal | None = None
    estimates: list[MutationRateEstimate] = []
    try:
        with _stops(creation_probe.stop, guard.stop, load.close, agents.close):
            try_topic(client, topics, topics.name(1))
            _make_probe_topic(client, topics, topics.name(0))
            creation_probe.start()
            guard.start()
            rest_p90_ms = _measure_idle(guard)
            ended_early = run.run()
        estimates = estimate_rates(run.steps)
        proposal = propose_quota(estimates, options.tenants, window.samples, window.window_s)
    finally:
        # The first Ctrl-C must not interrupt the cleanup, even if an earlier Ctrl-C has caused the cleanup.
        with DeferredInterrupts(first_only=True):
            tell("Deleting the topics of the calibration.")
            left = _remove_all(client, topics, settings.kafka.request_timeout_s)
            total_per_s = None if proposal is None else proposal.total_per_s
            send.submit(settings, send.end_trial(QuotaTrialKind.CALIBRATE, total_per_s))
    return CalibrationReport(
        cluster=settings.cluster,
        bootstrap_servers=settings.kafka.bootstrap_servers,
        objective=guard.objective,
        rest_p90_ms=rest_p90_ms,
        measures_controller=guard.measures_controller,
        samples=window.samples,
        window_s=window.window_s,
        steps=tuple(run.steps),
        estimates=tuple(estimates),
        proposal=proposal,
        ended_early=ended_early,
        leftover_topics=tuple(left),
    )


def remove(client: TopicMutationClient, list_topics: Callable[[], Collection[str]]) -> list[str]:
    """Deletes the topics. Returns the topics that are left."""
    return remove_topics(client, list_topics, topics_per_s=_REMOVED_PER_S, notify=tell)


@contextmanager
def _stops(*stops: Callable[[], None]) -> Iterator[None]:
    """Calls all these functions at the end, with the first Ctrl-C deferred."""
    try:
        yield
    finally:
        with DeferredInterrupts(first_only=True):
            for stop in stops:
                stop()


def _quota_window(client: TopicMutationClient) -> QuotaWindow:
    windows = read_quota_windows(client)
    return next(iter(windows)) if len(windows) == 1 else QuotaWindow()


def _remove_all(client: TopicMutationClient, topics: RunTopics, unanswered_s: float) -> list[str]:
    names = topics.names
    return remove_topics(
        client,
        lambda: find_leftovers(client, names.prefix, names),
        possible=topics.possible,
        unanswered_s=unanswered_s,
        topics_per_s=_REMOVED_PER_S,
        notify=tell,
    )


def try_topic(client: TopicMutationClient, topics: RunTopics, topic: str) -> None:
    """Creates and deletes one topic, so that a calibration that may not delete its topics leaves at most one.

    Raises:
        CommandError: one of the two requests failed.
    """
    broker = client.brokers()[0].node
    # If delete.topic.enable is false, Kafka refuses this deletion of a topic that does not exist yet, so no topic is left.
    error = topics.delete(client, broker, topic)
    if error is None:
        _create_topic(client, topics, topic)
        error = topics.delete(client, broker, topic)
    if error is not None:
        raise CommandError(f"The calibration cannot delete its topics: {error}. Nothing was measured.") from error


def _create_topic(client: TopicMutationClient, topics: RunTopics, topic: str) -> None:
    error = topics.create(client, client.brokers()[0].node, topic, 1)
    if error is not None:
        raise CommandError(f"The first topic of the calibration cannot be created: {error}.") from error


def _make_probe_topic(client: TopicMutationClient, topics: RunTopics, topic: str) -> None:
    _create_topic(client, topics, topic)
    until_s = time.monotonic() + _READY_S_MAX
    while not any(state.leader >= 0 for state in client.partitions([topic])):
        if time.monotonic() >= until_s:
            raise CommandError(f"The brokers do not show topic {topic} after {_READY_S_MAX:.0f} s: check the brokers.")
        threading.Event().wait(0.2)


def _measure_idle(guard: CalibrationGuard) -> float:
    """Measures the state without load, and sets the limit of the probe's latency if no limit is given. Returns the p90 in ms.

    Raises:
        CommandError: the latency cannot be measured, or the controller is busy already.
    """
    tell("Measuring the controller without load.")
    guard.begin_step()
    threading.Event().wait(_IDLE_S)
    p90_ms = guard.learn_idle_load()
    if p90_ms is None:
        raise CommandError(
            "The latency of the controller cannot be measured. The permission AlterConfigs on the topics of the calibration "
            "may be missing."
        )
    if guard.objective.create_probe_p90_ms_max is None:
        guard.set_probe_limit(float(round(max(2 * p90_ms, p90_ms + 50))))
    pressure = guard.step_pressure()
    if pressure is not None and pressure.ratio > _IDLE_PRESSURE_MAX:
        raise CommandError(
            f"The controller is busy without the calibration: {pressure}. Try again at a quieter time, or give a higher "
            "--latency-max."
        )
    tell(
        f"Without load 9 of 10 requests take at most {p90_ms:.0f} ms; the limit is "
        f"{guard.objective.create_probe_p90_ms_max:.0f} ms."
    )
    return p90_ms
