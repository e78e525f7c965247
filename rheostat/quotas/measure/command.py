"""Runs `rheostat quotas measure`.

The command writes a record to the orders topic before it sets the metering quota, and another record when it removes the quota. The
command removes the quota, even after an error, if the quota still has the value that the command has set. A killed command leaves
the quota: `rheostat quotas` and `rheostat doctor` report this, and ``--clear`` removes the quota.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from rheostat.config.settings import Settings, load_settings
from rheostat.console.confirm import check_can_confirm, confirm
from rheostat.console.output import out, tell
from rheostat.console.rich_console import console_for
from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL, BadInputError, CommandError
from rheostat.orders import send
from rheostat.plan.cluster_layout import raise_as_command_errors
from rheostat.quotas.agents import AgentReader
from rheostat.quotas.measure.tenant_rates import TenantMeasure, measure_tenants, tenant_rates_per_s
from rheostat.quotas.measure.view import show
from rheostat.run.services import probe
from streaming.shared.deferred_interrupts import DeferredInterrupts
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka.quotas import QuotaClient
from streaming.shared.kafka.values import ClusterError
from streaming.shared.units import span_text
from tuner.control.mutation_quota.default_quota import EVERY_PAIR
from tuner.control.mutation_quota.entity import Tenant
from tuner.control.mutation_quota.metering_trial import (
    TRIAL_PER_S,
    MeteringPlan,
    has_trial_quota,
    is_leftover,
    plan_metering,
)
from tuner.core.operator_orders import QuotaTrialKind

_CLIENT_ID = "rheostat-quotas-measure"
DURATION_S_MAX = 3600.0
_CLEANUP_S_MAX = 30.0
_READ_EVERY_S = 2.0
# Also the time for a first answer of the agents: a busy node may miss the time-out of one scrape.
_CONFIRMED_S_MAX = 15.0


def run_measure(config: Path, for_s: float, *, yes: bool, as_json: bool) -> int:
    """Shows the rates of tenants for this time; returns exit code 1 if the metering quota could not be removed."""
    if for_s > DURATION_S_MAX:
        raise BadInputError(f"--for: expected at most {span_text(DURATION_S_MAX)}, found {span_text(for_s)}")
    check_can_confirm(yes=yes)
    settings = load_settings(config)
    probe(settings)
    with _open_client(settings) as client, _open_agents(settings) as agents:
        if not _until(lambda: tenant_rates_per_s(agents.read()) is not None):
            raise CommandError(
                "No JMX agent of the active controller answers, and only the active controller has the rates of tenants: name the "
                "controllers in collector.endpoints. Nothing was changed."
            )
        quotas = client.mutation_quotas()
        trial = send.read_orders(settings).orders.trials.get(QuotaTrialKind.MEASURE)
        plan = plan_metering(quotas, trial, _now_ms())
        if plan is MeteringPlan.REFUSE:
            assert trial is not None
            raise CommandError(f"Another `rheostat quotas measure` is running now ({trial.by}). Nothing was changed.")
        failure = None
        readings: list[Mapping[Tenant, float]] = []
        if plan is MeteringPlan.ONLY_READ:
            tell(
                f"{len(quotas)} mutation quotas exist already, so Kafka counts the tenants that they apply to. Nothing is set, "
                "because the quota of this command would have precedence over them."
            )
            _watch(agents, readings, for_s, as_json=as_json)
        else:
            confirm([_change_text(plan, for_s)], yes=yes)
            send.submit(settings, send.begin_trial(QuotaTrialKind.MEASURE, for_s + _CLEANUP_S_MAX))
            try:
                _set(client)
                _watch(agents, readings, for_s, as_json=as_json)
            finally:
                with DeferredInterrupts(first_only=True):
                    failure = _remove(client)
                    tell(_removed_text(failure))
                    send.submit(settings, send.end_trial(QuotaTrialKind.MEASURE))
    rows = measure_tenants(readings)
    _print(rows, as_json=as_json)
    return EXIT_DONE if failure is None else EXIT_NOT_WELL


def run_clear(config: Path, *, yes: bool) -> int:
    """Removes the metering quota of a killed command; returns exit code 1 if it could not be removed."""
    check_can_confirm(yes=yes)
    settings = load_settings(config)
    probe(settings)
    with _open_client(settings) as client:
        trial = send.read_orders(settings).orders.trials.get(QuotaTrialKind.MEASURE)
        quotas = client.mutation_quotas()
        if not is_leftover(quotas, trial, _now_ms()):
            running = (
                " Another `rheostat quotas measure` is running now, and will remove its quota."
                if has_trial_quota(quotas)
                else ""
            )
            tell(f"Nothing to remove: no measurement has left its quota behind.{running}")
            return EXIT_DONE
        confirm(
            [f"Remove the quota of {EVERY_PAIR} that an earlier `rheostat quotas measure` has left behind."], yes=yes
        )
        failure = _remove(client)
        tell(_removed_text(failure))
        send.submit(settings, send.end_trial(QuotaTrialKind.MEASURE))
    return EXIT_DONE if failure is None else EXIT_NOT_WELL


@contextmanager
def _open_client(settings: Settings) -> Iterator[QuotaClient]:
    client = QuotaClient(settings.kafka, _CLIENT_ID)
    try:
        with raise_as_command_errors("The mutation quotas cannot be read or set"):
            yield client
    finally:
        client.close()


@contextmanager
def _open_agents(settings: Settings) -> Iterator[AgentReader]:
    with ClusterClient(settings.kafka, _CLIENT_ID) as cluster:
        hosts = {endpoint.node: endpoint.host for endpoint in cluster.brokers()}
    agents = AgentReader(settings, hosts)
    try:
        yield agents
    finally:
        agents.close()


def _change_text(plan: MeteringPlan, for_s: float) -> str:
    if plan is MeteringPlan.TAKE_OVER:
        begin = f"Use the quota of {EVERY_PAIR} that an earlier `rheostat quotas measure` has left behind"
    else:
        begin = f"Set controller_mutation_rate={TRIAL_PER_S:.0f} for {EVERY_PAIR}, which limits no tenant"
    return f"{begin}, and remove it after {span_text(for_s)}."


def _set(client: QuotaClient) -> None:
    error = client.alter_mutation_quotas({EVERY_PAIR: TRIAL_PER_S})[EVERY_PAIR]
    if error is not None:
        raise CommandError(f"The quota that makes Kafka measure each tenant cannot be set: {error}.")
    if not _until(lambda: has_trial_quota(client.mutation_quotas())):
        raise CommandError(
            f"{_CONFIRMED_S_MAX:.0f} s after it was set, the brokers do not show the quota that makes Kafka measure each tenant: "
            "check that all brokers answer, and try again."
        )


def _remove(client: QuotaClient) -> str | None:
    """Removes the metering quota if it still has the command's value. Returns why it is still set; None if it is removed."""

    def is_gone() -> bool:
        return not has_trial_quota(client.mutation_quotas())

    try:
        if is_gone():
            return None
        error = client.alter_mutation_quotas({EVERY_PAIR: None})[EVERY_PAIR]
        if error is not None:
            return str(error)
        return None if _until(is_gone) else f"the brokers still show it after {_CONFIRMED_S_MAX:.0f} s"
    except ClusterError as error:
        return str(error)


def _removed_text(failure: str | None) -> str:
    if failure is None:
        return "The quota with which Kafka measured the tenants is removed."
    return (
        f"The quota with which Kafka measured the tenants is not removed: {failure}. "
        "`rheostat quotas measure --clear` removes it."
    )


def _until(condition: Callable[[], bool]) -> bool:
    until_s = time.monotonic() + _CONFIRMED_S_MAX
    while not condition():
        if time.monotonic() >= until_s:
            return False
        threading.Event().wait(0.2)
    return True


def _watch(agents: AgentReader, readings: list[Mapping[Tenant, float]], for_s: float, *, as_json: bool) -> None:
    """Reads the rates every 2 s until the time is over, and shows them on a terminal."""
    console = console_for(sys.stdout)
    is_live = not as_json and console.is_terminal
    until_s = time.monotonic() + for_s
    while True:
        rates = tenant_rates_per_s(agents.read())
        if rates is not None:
            readings.append(rates)
        if is_live and readings:
            _refresh(console, readings, until_s - time.monotonic())
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            return
        threading.Event().wait(min(_READ_EVERY_S, left_s))


def _refresh(console: Console, readings: list[Mapping[Tenant, float]], left_s: float) -> None:
    console.clear()
    show(measure_tenants(readings), console, left_s=max(0.0, left_s))


def _print(rows: list[TenantMeasure], *, as_json: bool) -> None:
    if as_json:
        out(json.dumps([{**asdict(row.tenant), **_figures(row)} for row in rows], indent=2))
    else:
        show(rows, console_for(sys.stdout))


def _figures(row: TenantMeasure) -> dict[str, float]:
    return {"last_per_s": row.last_per_s, "mean_per_s": row.mean_per_s, "peak_per_s": row.peak_per_s}


def _now_ms() -> int:
    return round(time.time() * 1000)
