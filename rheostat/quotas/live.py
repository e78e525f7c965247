"""`rheostat quotas`: every tenant as it stands, with or without a tuner: what it does, its quota, its bucket, and why.

The law is asked once, over what stands now, what the signals say and what the journal remembers; nothing is written. So the
table says what a tuner would do next, in the tuner's own words.
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
from rheostat.orders.send import read_orders
from rheostat.quotas.probe import felt_now_ms
from rheostat.run.services import probe
from streaming.shared.kafka import consumer
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, Unreachable
from streaming.shared.kafka.quotas import QuotaClient
from tuner.api.quota_status_store import QuotaSnapshot, quotas_json
from tuner.control.mutation_quota.entity import QuotaEntity
from tuner.control.mutation_quota.model import MutationPolicy, QuotaView, with_broker_window
from tuner.control.mutation_quota.operator_orders import step_with_orders
from tuner.control.mutation_quota.state import MutationMemory
from tuner.core.cluster import ClusterUnreadable
from tuner.core.controller import cluster_wide_measures
from tuner.core.operator_orders import Orders
from tuner.core.quota_window import QuotaWindow
from tuner.journal.topic_tail import KAFKA_ERRORS
from tuner.runtime.observe.cluster_reader import quota_windows_of
from tuner.runtime.observe.signals_reader import SignalCache, SignalReader

_SIGNAL_BACKLOG = 2_000
_WATCH_S = 5.0
_UNFELT = "how long creations take for whoever asks (create_probe_p90_ms_max) a tuner feels all the time; here it is not counted"


def gather(settings: Settings) -> dict[str, Any]:
    """
    Raises:
        UnreachableError: the cluster does not answer.
        CommandError: it answers, but a right is missing.
    """
    probe(settings)
    client = QuotaClient(settings.kafka, "rheostat-quotas")
    try:
        stands = client.mutation_quotas()
    except Unreachable as error:
        raise UnreachableError(str(error)) from error
    except ClusterError as error:
        raise CommandError(str(error)) from error
    finally:
        client.close()
    known = read_orders(settings)
    found = _signals(settings)
    return {
        "cluster": settings.cluster,
        "enabled": settings.tuner.mutation_quota is not None,
        "paused": known.orders.pause.by if known.orders.pause is not None else None,
        **asked_now(
            settings,
            stands,
            found,
            known.quotas,
            known.orders,
            round(time.time() * 1000),
            felt_ms=felt_now_ms(settings),
            windows=_windows(settings),
        ),
        "quotas": [
            {"entity": str(entity), "rate_per_s": rate, "managed": entity in known.quotas.owned}
            for entity, rate in sorted(stands.items(), key=lambda item: str(item[0]))
        ],
    }


def asked_now(
    settings: Settings,
    stands: Mapping[QuotaEntity, float] | ClusterUnreadable,
    signals: SignalCache,
    memory: MutationMemory,
    orders: Orders,
    now_ms: int,
    felt_ms: float | None = None,
    windows: Set[QuotaWindow] = frozenset(),
) -> dict[str, Any]:
    """What the law says, asked once.

    Args:
        felt_ms: how long creations take for whoever asks; None: that is not known here, and not counted.
        windows: of the buckets, that brokers have; what the settings say of them comes before.
    """
    asked = settings.tuner.mutation_quota
    policy = settings.tuner.mutation_policy(settings.limits.limits()) or MutationPolicy()
    if asked is None or not asked.window_is_given:
        policy = with_broker_window(policy, windows)
    unfelt = felt_ms is None and policy.objective.create_probe_p90_ms_max is not None
    if unfelt:
        policy = replace(policy, objective=replace(policy.objective, create_probe_p90_ms_max=None))
    beside = cluster_wide_measures(signals.controllers, signals.brokers, now_ms, policy.limits.hold_age_s, felt_ms)
    view = QuotaView(now_ms, stands, dict(signals.controllers), tuple(signals.tenants.values()), beside)
    made = step_with_orders(view, memory, policy, orders)
    told = quotas_json(QuotaSnapshot(view, made, made.memory))
    return told | {"holds": [*told["holds"], _UNFELT]} if unfelt else told


def tenant_named(row: Mapping[str, Any]) -> str:
    return " ".join(part for part in (_part("user", row["user"]), _part("client-id", row["client_id"])) if part)


def run_quotas(settings: Settings, *, as_json: bool, watch: bool = False) -> int:
    """Exit code 1 where a tenant is held back or the controller is over its objective."""
    console = console_for(sys.stdout)
    found = gather(settings)
    if as_json:
        out(json.dumps(found, indent=2))
        return exit_code(found)
    shown(found, console)
    if watch:
        watched(found, partial(gather, settings), console, time.sleep)
    return exit_code(found)


def watched(
    found: dict[str, Any], look: Callable[[], dict[str, Any]], console: Console, sleep: Callable[[float], None]
) -> None:
    """Until Ctrl-C. What cannot be seen for a moment is said, and the picture before it stays."""
    while True:
        sleep(_WATCH_S)
        trouble = None
        try:
            found = look()
        except (CommandError, *KAFKA_ERRORS) as error:
            trouble = f"Not seen now, and as it was before: {error}"
        console.clear()
        if trouble is not None:
            console.print(trouble, soft_wrap=True)
        shown(found, console)


def exit_code(found: dict[str, Any]) -> int:
    pressed = found["pressure"] is not None and found["pressure"] > 1
    # Who could not be judged is not known to be well.
    judged = found["tenants"] is not None or found["paused"] is not None
    held = any(row["throttled"] for row in found["tenants"] or ())
    return EXIT_NOT_WELL if pressed or held or not judged else EXIT_DONE


def _windows(settings: Settings) -> Set[QuotaWindow]:
    try:
        with ClusterClient(settings.kafka, "rheostat-quotas-windows") as client:
            return quota_windows_of(client)
    except ClusterError:
        # As a tuner that does not see them: the settings' own.
        return frozenset()


def _signals(settings: Settings) -> SignalReader:
    try:
        reader = consumer(settings.kafka, "rheostat-quotas")
    except KafkaError as error:
        raise CommandError(f"The signals cannot be read: {error}") from error
    try:
        signals = SignalReader(reader, settings.topic_names().signals, settings.cluster)
        signals.rewind(_SIGNAL_BACKLOG)
        return signals
    finally:
        reader.close(timeout_ms=2000)


def shown(found: dict[str, Any], console: Console) -> None:
    if not found["enabled"]:
        console.print(
            "No quotas are turned: tuner.mutation_quota is not set. What stands, and what would be wanted:",
            soft_wrap=True,
        )
    console.print(found["total_text"] or "", soft_wrap=True)
    for text in found["holds"]:
        console.print(text, soft_wrap=True)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("tenant", overflow="fold")
    for name in ("does/s", "quota/s", "wanted/s", "tokens"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("held back", "ours", "why"):
        table.add_column(name)
    for row in found["tenants"] or ():
        table.add_row(
            tenant_named(row),
            f"{row['demand_per_s']:.2f}",
            _number(row["quota_per_s"]),
            _number(row["quota_setpoint_per_s"]),
            _number(row["tokens"]),
            "yes" if row["throttled"] else "",
            "yes" if row["managed"] else "",
            row["reason"].replace("_", " ") + (f" (rule {row['rule'] + 1})" if row["rule"] is not None else ""),
        )
    if found["tenants"]:
        console.print(table)
    elif found["tenants"] is not None:
        console.print("No tenant is known: Kafka counts mutations only for whom some quota stands.")
    for quota in found["quotas"]:
        console.print(
            f"{quota['entity']}: {quota['rate_per_s']:g}/s{', ours' if quota['managed'] else ''}",
            soft_wrap=True,
        )


def _part(kind: str, name: str | None) -> str:
    return "" if name is None else f"{kind} {escape.printable_name(name)}"


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return "no quota" if value > 1e19 else f"{value:g}" if abs(value) < 1 else f"{value:.1f}"
