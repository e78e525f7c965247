"""Runs `rheostat quotas calibrate`.

The orders topic gets a record before the first topic is created, and another at the end. Whatever ends the command, it deletes its
topics; only a killed process leaves them behind, and the next run deletes them.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rheostat.config.settings import Settings, load_settings
from rheostat.console.confirm import check_can_confirm, confirm
from rheostat.console.output import out, tell
from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL, BadInputError, CommandError
from rheostat.limits.command import count_replicas
from rheostat.orders import send
from rheostat.plan.cluster_layout import ClusterLayout, raise_as_command_errors, read_layout
from rheostat.quotas.agents import AgentReader
from rheostat.quotas.calibrate.guard import CalibrationGuard, RequestLog
from rheostat.quotas.calibrate.mutation_load import MutationLoad
from rheostat.quotas.calibrate.own_topics import MARKER, RunName, find_leftovers, is_run_active, remove_topics
from rheostat.quotas.calibrate.preconditions import partitions_within_limits, quota_in_force, unrest_text
from rheostat.quotas.calibrate.report import CalibrationReport, report_json
from rheostat.quotas.calibrate.run import CalibrationRun
from rheostat.run.services import probe
from rheostat.tuner_presence import active_tuner, read_tuners
from streaming.shared.deferred_interrupts import DeferredInterrupts
from streaming.shared.kafka.controller_ping import ControllerPing
from streaming.shared.kafka.quotas import QuotaClient
from streaming.shared.kafka.topic_mutations import TopicMutationClient
from streaming.shared.units import span_text
from tuner.core.controller import ControllerObjective
from tuner.core.operator_orders import QuotaTrialKind
from tuner.core.quota_window import QuotaWindow
from tuner.planning.calibration_proposal import QuotaProposal, RateEstimate, estimate_rates, propose_quota
from tuner.planning.calibration_steps import CalibrationBounds, StepResult
from tuner.runtime.mutation_quota.creation_probe import CreationProbe
from tuner.runtime.observe.cluster_reader import read_quota_windows

CLIENT_ID = "rheostat-calibrate"
DURATION_S_MAX = 3600.0
_CLEANUP_S_MAX = 300.0  # For the last round and the deletion of its topics.
# Longer than any pause of a run: a run that is alive changes its topics meanwhile (run.py, and the time-out of a request).
_WATCH_S = 30.0
_REST_S = 6.0
_READY_S_MAX = 15.0
_PARTITIONS_MIN = 40  # With fewer, a step at the lowest rate would be too short.
_REST_RATIO_MAX = 0.8  # A controller that is busier without the calibration leaves nothing to measure.
_APPLY_LAG_MS_MAX = 1_000.0  # Used without tuner.mutation_quota: on KRaft, late brokers show an overload first.
_REMOVED_PER_S = 20.0


@dataclass(frozen=True, slots=True)
class CalibrationQuestion:
    """The options of the command. None: the option is absent.

    Attributes:
        latency_ms_max: the highest p90 of the probe.
    """

    for_s: float
    partitions_max: int
    sizes: tuple[int, ...]
    replication_factor: int | None
    latency_ms_max: float | None
    tenants: int

    def check(self) -> None:
        """Checks the options.

        Raises:
            BadInputError: an option has a bad value; the message names it.
        """
        if self.for_s > DURATION_S_MAX:
            raise BadInputError(f"--for: expected at most {span_text(DURATION_S_MAX)}, found {span_text(self.for_s)}")
        if self.partitions_max < max(_PARTITIONS_MIN, 4 * max(self.sizes)):
            raise BadInputError(
                f"--partitions-max: expected at least {max(_PARTITIONS_MIN, 4 * max(self.sizes))}, found "
                f"{self.partitions_max}: a step needs several topics"
            )


def run_calibrate(config: Path, question: CalibrationQuestion, *, yes: bool, as_json: bool) -> int:
    """Measures, prints the report, and returns the exit code: 1 without a proposal, or if topics are left."""
    question.check()
    check_can_confirm(yes=yes)
    settings = load_settings(config)
    with _open_client(settings) as client:
        layout = read_layout(client, settings, CLIENT_ID)
        replication_factor = question.replication_factor or min(3, len(layout.brokers))
        if replication_factor > len(layout.brokers):
            raise BadInputError(
                f"--replication: {replication_factor} replicas need {replication_factor} brokers, and "
                f"{len(layout.brokers)} are alive"
            )
        _check_quiet(settings, layout)
        bounds = _bounds(settings, question, layout, replication_factor)
        leftovers = _removable_leftovers(client, settings)
        confirm(_changes(question, bounds, replication_factor, leftovers), yes=yes)
        send.submit(settings, send.begin_trial(QuotaTrialKind.CALIBRATE, question.for_s + _CLEANUP_S_MAX))
        if leftovers:
            _remove(client, lambda: set(find_leftovers(client, _prefix(settings))) & set(leftovers))
        report = _calibrate(settings, client, layout, question, bounds, replication_factor)
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
    with _open_client(settings) as client:
        leftovers = _removable_leftovers(client, settings)
        remaining: list[str] = []
        if leftovers:
            confirm([_removal_text(leftovers)], yes=yes)
            remaining = _remove(client, lambda: set(find_leftovers(client, _prefix(settings))) & set(leftovers))
            tell(f"{len(leftovers) - len(remaining)} topics deleted.")
        else:
            tell("Nothing to delete: no calibration has left topics behind.")
    if as_json:
        out(json.dumps({"deleted": sorted(set(leftovers) - set(remaining)), "left": remaining}))
    return EXIT_NOT_WELL if remaining else EXIT_DONE


def _prefix(settings: Settings) -> str:
    return settings.topics.prefix


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
        found = quota_in_force(client.mutation_quotas(), settings.kafka, CLIENT_ID)
    finally:
        client.close()
    if found is not None:
        entity, rate = found
        raise CommandError(
            f"The quota of {entity}, {rate:g} partitions/s, would limit the calibration, so it would measure the quota. Nothing "
            f"was changed. Exempt the client id {CLIENT_ID}, or remove the quota for the time of the calibration."
        )
    if settings.tuner.mutation_quota is None or send.read_orders(settings).orders.pause is not None:
        return
    if active_tuner(read_tuners(settings, _now_ms())) is not None:
        raise CommandError(
            "A tuner that manages mutation quotas is active, and would lower the tenants' quotas because of the calibration. "
            "Nothing was changed. Run `rheostat pause` first, and `rheostat resume` afterwards."
        )


def _bounds(
    settings: Settings, question: CalibrationQuestion, layout: ClusterLayout, replication_factor: int
) -> CalibrationBounds:
    allowed = partitions_within_limits(
        count_replicas(layout), settings.limits.limits(), len(layout.brokers), replication_factor
    )
    partitions_max = min(question.partitions_max, allowed)
    if partitions_max < max(_PARTITIONS_MIN, 4 * max(question.sizes)):
        raise CommandError(
            f"The partition limits (section limits) leave room for {allowed} partitions with {replication_factor} replicas, too "
            "few for a calibration. Nothing was changed. `rheostat limits` shows the limits."
        )
    return CalibrationBounds(partitions_max=partitions_max, sizes=question.sizes)


def _removable_leftovers(client: TopicMutationClient, settings: Settings) -> list[str]:
    """Returns the topics of earlier runs that were killed.

    Raises:
        CommandError: another calibration runs now.
    """
    prefix = _prefix(settings)
    leftovers = find_leftovers(client, prefix)
    trial = send.read_orders(settings).orders.trials.get(QuotaTrialKind.CALIBRATE)
    if not is_run_active(trial, _now_ms()):
        return leftovers
    assert trial is not None
    tell(f"A calibration has not ended by its record ({trial.by}): watching its topics for {_WATCH_S:.0f} s.")

    def topics() -> set[tuple[str, int]]:
        return {(s.topic, s.partition) for s in client.partitions() if s.topic.startswith(f"{prefix}.calibrate.")}

    before, until_s = topics(), time.monotonic() + _WATCH_S
    while time.monotonic() < until_s:
        threading.Event().wait(1.0)
        if topics() != before:
            raise CommandError(
                f"Another calibration runs now ({trial.by}). Nothing was changed. Try again when it has ended."
            )
    return leftovers


def _removal_text(leftovers: Sequence[str]) -> str:
    return (
        f"Delete {len(leftovers)} topics that an earlier calibration has left behind ({leftovers[0]}"
        f"{' and others' if len(leftovers) > 1 else ''}); they have no records."
    )


def _changes(
    question: CalibrationQuestion, bounds: CalibrationBounds, replication_factor: int, leftovers: Sequence[str]
) -> list[str]:
    lines = [_removal_text(leftovers)] if leftovers else []
    return [
        *lines,
        f"Create, extend and delete topics for up to {span_text(question.for_s)}, with at most {bounds.partitions_max} partitions "
        f"of {replication_factor} replicas at once, at rising rates until the objective is exceeded.",
        "Meanwhile other clients may wait longer for topic creations. All topics are deleted at the end.",
    ]


def _calibrate(
    settings: Settings,
    client: TopicMutationClient,
    layout: ClusterLayout,
    question: CalibrationQuestion,
    bounds: CalibrationBounds,
    replication_factor: int,
) -> CalibrationReport:
    names = RunName.new(_prefix(settings))
    hosts = {endpoint.node: endpoint.host for endpoint in client.brokers()}
    window = _quota_window(client)
    objective = _objective(settings, question)
    agents = AgentReader(settings, hosts)
    log = RequestLog()
    guard = CalibrationGuard(client, agents, log, objective)
    # The ping needs a topic that exists; it alters nothing of it.
    ping = ControllerPing(settings.kafka, f"{CLIENT_ID}-probe", names.topic(0))
    creation_probe = CreationProbe(ping, rng=random.Random(), window=log)
    load = MutationLoad(settings.kafka, CLIENT_ID, layout.brokers)
    run = CalibrationRun(
        names,
        bounds,
        replication_factor,
        load,
        guard,
        deadline_s=time.monotonic() + question.for_s,
        notify=tell,
    )
    rest_p90_ms, left = None, list[str]()
    proposal: QuotaProposal | None = None
    estimates: list[RateEstimate] = []
    try:
        with _stops(creation_probe.stop, guard.stop, load.close, agents.close):
            _make_probe_topic(client, names.topic(0), replication_factor)
            creation_probe.start()
            guard.start()
            rest_p90_ms = _measure_rest(guard)
            ended_early = run.run()
        estimates = estimate_rates(run.steps)
        proposal = propose_quota(estimates, question.tenants, window.samples, window.window_s)
    finally:
        # The first Ctrl-C must not interrupt the cleanup, also if an earlier one caused it.
        with DeferredInterrupts(first_only=True):
            tell("Deleting the topics of the calibration.")
            left = _remove(client, lambda: find_leftovers(client, names.prefix, names))
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
        steps=tuple[StepResult, ...](run.steps),
        estimates=tuple(estimates),
        proposal=proposal,
        ended_early=ended_early,
        leftover_topics=tuple(left),
    )


@contextmanager
def _stops(*stops: Callable[[], None]) -> Iterator[None]:
    """Calls all these functions at the end, with the first Ctrl-C deferred."""
    try:
        yield
    finally:
        with DeferredInterrupts(first_only=True):
            for stop in stops:
                stop()


def _remove(client: TopicMutationClient, list_topics: Callable[[], Sequence[str] | set[str]]) -> list[str]:
    return remove_topics(client, list_topics, topics_per_s=_REMOVED_PER_S, notify=tell)


def _objective(settings: Settings, question: CalibrationQuestion) -> ControllerObjective:
    """Returns the objective; the limit of the probe may still be missing (see ``_measure_rest``)."""
    quota_settings = settings.tuner.mutation_quota
    if quota_settings is None:
        objective = ControllerObjective(apply_lag_ms_max=_APPLY_LAG_MS_MAX)
    else:
        objective = quota_settings.objective.for_policy()
    if question.latency_ms_max is not None:
        objective = replace(objective, create_probe_p90_ms_max=question.latency_ms_max)
    # It needs the signals of several nodes over 30 s.
    return replace(objective, forwarding_busy_ratio_max=None)


def _quota_window(client: TopicMutationClient) -> QuotaWindow:
    windows = read_quota_windows(client)
    return next(iter(windows)) if len(windows) == 1 else QuotaWindow()


def _make_probe_topic(client: TopicMutationClient, topic: str, replication_factor: int) -> None:
    broker = client.brokers()[0].node
    error = client.create_through(broker, topic, 1, replication_factor, MARKER)
    if error is not None:
        raise CommandError(f"The first topic of the calibration cannot be created: {error}.") from error
    until_s = time.monotonic() + _READY_S_MAX
    while not any(state.leader >= 0 for state in client.partitions([topic])):
        if time.monotonic() >= until_s:
            raise CommandError(f"The brokers do not show topic {topic} after {_READY_S_MAX:.0f} s: check the brokers.")
        threading.Event().wait(0.2)


def _measure_rest(guard: CalibrationGuard) -> float:
    """Measures the state without load, and sets the limit of the probe's latency if none is given. Returns the p90 in ms.

    Raises:
        CommandError: the latency cannot be measured, or the controller is busy already.
    """
    tell("Measuring the controller without load.")
    guard.begin_step()
    threading.Event().wait(_REST_S)
    p90_ms = guard.learn_rest()
    if p90_ms is None:
        raise CommandError(
            "The latency of the controller cannot be measured: the right AlterConfigs on the calibration's topics may be missing."
        )
    if guard.objective.create_probe_p90_ms_max is None:
        guard.with_probe_limit(float(round(max(2 * p90_ms, p90_ms + 50))))
    pressure = guard.step_pressure()
    if pressure is not None and pressure.ratio > _REST_RATIO_MAX:
        raise CommandError(
            f"The controller is busy without the calibration: {pressure}. Try again at a quieter time, or give a higher "
            "--latency-max."
        )
    tell(
        f"Without load 9 of 10 requests take at most {p90_ms:.0f} ms; the limit is "
        f"{guard.objective.create_probe_p90_ms_max:.0f} ms."
    )
    return p90_ms


def _now_ms() -> int:
    return round(time.time() * 1000)
