"""Runs `rheostat quotas`: prints each tenant with its rate, quota, tokens and reason, with or without a running tuner.

The command decides one cycle from the quotas in Kafka, the newest signals and the journal, and writes nothing. The table
therefore shows the next decisions of a tuner.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Set
from dataclasses import replace
from functools import partial
from typing import Any

from kafka.errors import KafkaError
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from rheostat.config.settings import Settings
from rheostat.console import escape
from rheostat.console.output import out
from rheostat.console.rich_console import console_for
from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL, CommandError, UnreachableError
from rheostat.metrics_cluster import metrics_consumer
from rheostat.orders.send import read_orders
from rheostat.quotas.probe import measure_create_p90_ms
from rheostat.quotas.what_if import choose_total, is_any_tenant_limited, rates_of, what_if_json, what_if_text
from rheostat.run.services import probe
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, Unreachable
from streaming.shared.kafka.quotas import QuotaClient
from tuner.api.quota_status_store import QuotaSnapshot, quotas_json
from tuner.control.mutation_quota.entity import QuotaEntity
from tuner.control.mutation_quota.metering_trial import is_leftover
from tuner.control.mutation_quota.model import MutationPolicy, QuotaView, with_broker_window
from tuner.control.mutation_quota.operator_orders import step_with_orders
from tuner.control.mutation_quota.state import MutationMemory
from tuner.core.cluster import ClusterUnreadable
from tuner.core.controller import cluster_wide_measures
from tuner.core.mutation_rates import mutation_rates
from tuner.core.operator_orders import Orders, QuotaTrialKind
from tuner.core.quota_window import QuotaWindow
from tuner.journal.topic_tail import KAFKA_ERRORS
from tuner.runtime.observe.cluster_reader import read_quota_windows
from tuner.runtime.observe.signals_reader import SignalCache, SignalReader

_WATCH_S = 5.0
_NO_QUOTA_MIN = 1e19  # Kafka reports about 1e20 tokens for a tenant without a quota.
_NOT_PROBED = (
    "this command could not measure the topic-create latency (create_probe_p90_ms_max); a running tuner measures it"
)


def gather(settings: Settings, total_per_s: float | None = None) -> dict[str, Any]:
    """Returns the whole report, as printed by ``--json``.

    Args:
        total_per_s: the total rate for which the report shows which tenants it would hold back; None means the calibrated or the
            estimated total rate.

    Raises:
        UnreachableError: no broker answers.
        CommandError: a permission is missing.
    """
    probe(settings)
    client = QuotaClient(settings.kafka, "rheostat-quotas")
    try:
        quotas = client.mutation_quotas()
    except Unreachable as error:
        raise UnreachableError(str(error)) from error
    except ClusterError as error:
        raise CommandError(str(error)) from error
    finally:
        client.close()
    journal = read_orders(settings)
    signals = _read_signals(settings)
    now_ms = round(time.time() * 1000)
    evaluated = evaluate_now(
        settings,
        quotas,
        signals,
        journal.quotas,
        journal.orders,
        now_ms,
        create_p90_ms=measure_create_p90_ms(settings),
        windows=_read_windows(settings),
    )
    policy = settings.tuner.mutation_policy(settings.limits.limits()) or MutationPolicy()
    total = choose_total(total_per_s, journal.orders, evaluated["total_per_s"])
    asks = total_per_s is not None or not is_any_tenant_limited(quotas)
    clients = mutation_rates(signals.controllers, signals.brokers, signals.tenants.values(), now_ms)
    all_clients = None if clients is None else clients.mutations
    rates = rates_of(evaluated["tenants"])
    metering = journal.orders.trials.get(QuotaTrialKind.MEASURE)
    return {
        "cluster": settings.cluster,
        "enabled": settings.tuner.mutation_quota is not None,
        "paused": journal.orders.pause.by if journal.orders.pause is not None else None,
        **evaluated,
        "what_if": what_if_json(rates, all_clients, total, policy) if asks and total is not None else None,
        "metering_left": is_leftover(quotas, metering, now_ms),
        "quotas": [
            {"entity": str(entity), "rate_per_s": rate, "managed": entity in journal.quotas.owned}
            for entity, rate in sorted(quotas.items(), key=lambda item: str(item[0]))
        ],
    }


def evaluate_now(
    settings: Settings,
    quotas: Mapping[QuotaEntity, float] | ClusterUnreadable,
    signals: SignalCache,
    memory: MutationMemory,
    orders: Orders,
    now_ms: int,
    create_p90_ms: float | None = None,
    windows: Set[QuotaWindow] = frozenset(),
) -> dict[str, Any]:
    """Returns the decisions of one cycle, as the API shows them.

    Args:
        create_p90_ms: topic-create latency; None if it was not measured. Its objective is then left out.
        windows: quota windows in the brokers' settings; used unless the settings file of rheostat sets a window.
    """
    quota_settings = settings.tuner.mutation_quota
    policy = settings.tuner.mutation_policy(settings.limits.limits()) or MutationPolicy()
    if quota_settings is None or not quota_settings.window_is_given:
        policy = with_broker_window(policy, windows)
    lacks_probe = create_p90_ms is None and policy.objective.create_probe_p90_ms_max is not None
    if lacks_probe:
        policy = replace(policy, objective=replace(policy.objective, create_probe_p90_ms_max=None))
    cluster_wide = cluster_wide_measures(
        signals.controllers, signals.brokers, now_ms, policy.limits.hold_age_s, create_p90_ms
    )
    view = QuotaView(
        now_ms,
        quotas,
        controllers=dict(signals.controllers),
        tenants=tuple(signals.tenants.values()),
        cluster_wide=cluster_wide,
    )
    step = step_with_orders(view, memory, policy, orders)
    report = quotas_json(QuotaSnapshot(view, step, step.memory))
    if lacks_probe:
        report["holds"] = [*report["holds"], _NOT_PROBED]
    return report


def tenant_label(row: Mapping[str, Any]) -> str:
    """Returns the tenant of a row as text, such as ``user alice client-id app``."""
    names = (("user", row["user"]), ("client-id", row["client_id"]))
    return " ".join(f"{kind} {escape.printable_name(name)}" for kind, name in names if name is not None)


def run_quotas(settings: Settings, *, as_json: bool, watch: bool = False, total_per_s: float | None = None) -> int:
    """Prints the report, once or until Ctrl-C, and returns the exit code."""
    console = console_for(sys.stdout)
    report = gather(settings, total_per_s)
    if as_json:
        out(json.dumps(report, indent=2))
        return exit_code(report)
    print_quotas(report, console)
    if watch:
        watch_quotas(report, partial(gather, settings, total_per_s), console, time.sleep)
    return exit_code(report)


def watch_quotas(
    report: dict[str, Any], refresh: Callable[[], dict[str, Any]], console: Console, sleep: Callable[[float], None]
) -> None:
    """Refreshes the table until Ctrl-C. If a refresh fails, prints the error above the last table."""
    while True:
        sleep(_WATCH_S)
        failure = None
        try:
            report = refresh()
        except (CommandError, *KAFKA_ERRORS) as error:
            failure = f"The refresh failed; the table shows the previous state: {error}"
        console.clear()
        if failure is not None:
            console.print(failure, soft_wrap=True)
        print_quotas(report, console)


def exit_code(report: dict[str, Any]) -> int:
    """Returns exit code 1 if a quota limits a tenant, or the controller exceeds its objective, or neither could be evaluated."""
    over_objective = report["pressure"] is not None and report["pressure"] > 1
    is_evaluated = report["tenants"] is not None or report["paused"] is not None  # While paused, nothing is evaluated.
    limits_a_tenant = any(row["throttled"] for row in report["tenants"] or ())
    return EXIT_NOT_WELL if over_objective or limits_a_tenant or not is_evaluated else EXIT_DONE


def _read_windows(settings: Settings) -> Set[QuotaWindow]:
    """Returns the quota windows in the brokers' settings; empty if the brokers' settings cannot be read."""
    try:
        with ClusterClient(settings.kafka, "rheostat-quotas-windows") as client:
            return read_quota_windows(client)
    except ClusterError:
        # In this case the window in rheostat's settings file applies, as in a tuner that cannot read the brokers' settings.
        return frozenset()


def _read_signals(settings: Settings) -> SignalReader:
    try:
        reader = metrics_consumer(settings, "rheostat-quotas")
    except KafkaError as error:
        raise CommandError(f"The signals cannot be read: {error}") from error
    try:
        signals = SignalReader(reader, settings.topic_names().signals, settings.cluster)
        signals.rewind()
        return signals
    finally:
        reader.close(timeout_ms=2000)


def print_quotas(report: dict[str, Any], console: Console) -> None:
    """Prints the summary, one row per tenant, and the quotas in Kafka."""
    if not report["enabled"]:
        console.print(
            "Mutation quotas are not managed: tuner.mutation_quota is not set. The table shows the setpoints as if it were set:",
            soft_wrap=True,
        )
    console.print(report["total_text"] or "", soft_wrap=True)
    for text in report["holds"]:
        console.print(text, soft_wrap=True)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("tenant", overflow="fold")
    for name in ("rate/s", "quota/s", "setpoint/s", "tokens"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("limited", "managed", "reason"):
        table.add_column(name)
    for row in report["tenants"] or ():
        table.add_row(
            tenant_label(row),
            f"{row['demand_per_s']:.2f}",
            _number(row["quota_per_s"]),
            _number(row["quota_setpoint_per_s"]),
            _number(row["tokens"]),
            "yes" if row["throttled"] else "",
            "yes" if row["managed"] else "",
            row["reason"].replace("_", " ") + (f" (rule {row['rule'] + 1})" if row["rule"] is not None else ""),
        )
    if report["tenants"]:
        console.print(table)
    elif report["tenants"] is not None:
        console.print(
            "No tenant is known: Kafka meters mutations only for tenants with a quota. `rheostat quotas measure` lets it meter all "
            "tenants for a while.",
            soft_wrap=True,
        )
    for quota in report["quotas"]:
        console.print(
            f"{quota['entity']}: {quota['rate_per_s']:g}/s{', managed' if quota['managed'] else ''}",
            soft_wrap=True,
        )

    if report["metering_left"]:
        console.print(
            "A killed `rheostat quotas measure` has left the quota with which Kafka measured tenants. It is too high to limit one. "
            "`rheostat quotas measure --clear` removes it.",
            soft_wrap=True,
        )
    if report["what_if"] is not None:
        print_what_if(report["what_if"], console)


def print_what_if(what_if: Mapping[str, Any], console: Console) -> None:
    """Prints which tenants the total would hold back, and at which share."""
    console.print(what_if_text(what_if), soft_wrap=True)
    held_back = [row for row in what_if["tenants"] if row["held_back"]]
    if not held_back:
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("would be held back", overflow="fold")
    for name in ("rate/s", "share/s"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in held_back:
        table.add_row(tenant_label(row), f"{row['rate_per_s']:.2f}", f"{row['share_per_s']:.2f}")
    console.print(table)


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    if value > _NO_QUOTA_MIN:
        return "no quota"
    return f"{value:g}" if abs(value) < 1 else f"{value:.1f}"
