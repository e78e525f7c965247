"""The commands for operator orders: `rheostat pause`, `resume`, `override` and `release`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rheostat.console.output import out
from rheostat.errors import EXIT_NOT_ACKNOWLEDGED
from rheostat.options import Config, Yes, rate_option, time_option
from streaming.shared import units

if TYPE_CHECKING:
    from rheostat.config.settings import Settings
    from tuner.core.operator_orders import Orders

_OVERRIDE_DEFAULT_S = 1800.0


def pause(config: Config) -> None:
    """Stops all changes to throttles, quotas and plans until `rheostat resume`. Asks for no confirmation."""
    _order(config, "pause", "Paused: all settings stay as they are, also when a move ends, until `rheostat resume`.")


def resume(config: Config) -> None:
    """Ends a pause or a release. The tuner also manages again the throttles and quotas that another tool has changed."""
    _order(config, "resume", "Resumed.")


def override(
    config: Config,
    broker: Annotated[int, typer.Option("--broker", min=0, metavar="BROKER", help="the broker's id")],
    throttle: Annotated[float | None, rate_option("the throttle to set, such as 50MB/s", "--throttle")] = None,
    for_s: Annotated[float | None, time_option("how long the override lasts", "--for", shown_default="30m")] = None,
    side: Annotated[
        str | None,
        typer.Option("--side", metavar="SIDE", help="which throttle to set: leader or follower; default: both"),
    ] = None,
    clear: Annotated[
        bool,
        typer.Option("--clear", help="end the broker's overrides now; with --side, only the override of that side"),
    ] = False,
    yes: Yes = False,
) -> None:
    """Sets a fixed throttle on one broker for some time. Asks for a confirmation if this raises a throttle."""
    from rheostat.config.settings import load_settings
    from rheostat.console.confirm import confirm
    from rheostat.errors import BadInputError
    from rheostat.orders import send
    from rheostat.orders.changes import raised_rates
    from streaming.shared.contract import Side
    from tuner.api.orders_api import override_rates

    settings = load_settings(config)
    gives_throttle = throttle is not None
    if clear == gives_throttle:  # Both or none of the two are given.
        raise BadInputError("Nothing was done: give either --throttle, the throttle to set, or --clear.")
    if side is not None and side not in {s.value for s in Side}:
        raise BadInputError(f"--side: expected leader or follower, found {side!r}")
    if throttle is None:
        orders = send.submit(settings, send.end_override(broker, Side(side) if side else None))
        done_text = (
            f"The override of broker {broker}'s {side} throttle has ended."
            if side
            else f"The overrides of broker {broker} have ended."
        )
        _report_acknowledgement(settings, orders, "end of the override", done_text)
        return
    current = send.current_rates(settings, broker)
    checked_rate = send.check_rate(settings, throttle)
    ordered = override_rates(broker, Side(side) if side else None, checked_rate)
    duration_s = for_s or _OVERRIDE_DEFAULT_S
    if changes := raised_rates(current, ordered):
        confirm([f"For {units.span_text(duration_s)} this override raises:", *changes], yes=yes)
    orders = send.submit(settings, send.override(ordered, duration_s))
    done_text = (
        f"For the next {units.span_text(duration_s)}, broker {broker} is throttled at {units.rate_text(checked_rate)} while "
        "partitions move there."
    )
    _report_acknowledgement(settings, orders, "override", done_text)


def release(
    config: Config,
    yes: Yes = False,
    purge: Annotated[
        bool,
        typer.Option(
            "--purge",
            help="afterwards, delete rheostat's topics and consumer groups from the cluster; stop all processes of rheostat first",
        ),
    ] = False,
) -> None:
    """Restores all settings that rheostat has changed, and stops all changes until `rheostat resume`. Asks for a confirmation."""
    from rheostat.config.settings import load_settings
    from rheostat.console.confirm import confirm
    from rheostat.console.logs import set_up_logs
    from rheostat.errors import EXIT_NOT_WELL, BadInputError
    from rheostat.orders import send
    from rheostat.orders.changes import release_summary

    settings = load_settings(config)
    set_up_logs()
    if purge:
        _purge(settings, yes)
        return
    if (mistake := send.wrong_cluster_name(settings)) is not None:
        raise BadInputError(mistake)
    recorded = send.read_orders(settings)
    summary = release_summary(
        settings.cluster, recorded.memory, recorded.quotas, recorded.blocked, recorded.cordons.brokers
    )
    confirm(summary, yes=yes)
    remaining = send.release_all(settings, send.submit(settings, send.release))
    if remaining:
        out("Not all settings are restored:", *remaining)
        raise typer.Exit(EXIT_NOT_WELL)
    out("Released: all settings that rheostat had changed are restored. No setting is changed until `rheostat resume`.")
    _report_waiting_plans(
        settings, "Kafka completes the steps in progress; `rheostat reassign cancel` rolls a plan back"
    )


def _purge(settings: Settings, yes: Yes) -> None:
    """Restores all settings, and deletes what rheostat has created in Kafka. A second run finds nothing to do."""
    from rheostat.console.confirm import check_can_confirm, confirm
    from rheostat.console.output import tell
    from rheostat.errors import EXIT_NOT_WELL, BadInputError
    from rheostat.orders import purge, send
    from rheostat.orders.changes import release_summary
    from rheostat.run.services import probe
    from streaming.shared.lease import lease_group

    check_can_confirm(yes=yes)
    probe(settings)
    scope = purge.find_scope(settings)
    if scope.is_empty:
        out(
            f"Nothing to delete: the cluster has no topic and no consumer group of rheostat ({settings.topics.prefix}.*)."
        )
        return
    if (mistake := send.wrong_cluster_name(settings)) is not None:
        raise BadInputError(mistake)
    tell("checking that no process of rheostat uses the topics ...")
    purge.check_nothing_runs(settings, scope)
    recorded = send.read_orders(settings)
    changes = release_summary(
        settings.cluster, recorded.memory, recorded.quotas, recorded.blocked, recorded.cordons.brokers
    )[:-1]
    confirm([*changes, *purge.purge_summary(settings, scope)], yes=yes)
    # Without a journal rheostat has changed nothing, and a release would create the topics again.
    if settings.topic_names().journal in scope.topics:
        remaining = send.release_all(settings, send.submit(settings, send.release))
        if remaining:
            out("Nothing was deleted, because not all settings are restored:", *remaining)
            raise typer.Exit(EXIT_NOT_WELL)
    left = purge.delete_all(settings, purge.find_scope(settings))
    if left:
        out("The settings are restored. Not deleted:", *left)
        raise typer.Exit(EXIT_NOT_WELL)
    out(
        "Purged: all settings are restored, and rheostat's topics and its consumer groups are deleted. Kafka forgets the "
        f"transactional id {lease_group(settings.cluster)} by itself after transactional.id.expiration.ms (7 days by default)."
    )


def _order(config: Config, name: str, done_text: str) -> None:
    from rheostat.config.settings import load_settings
    from rheostat.orders import send

    settings = load_settings(config)
    orders = send.submit(settings, {"pause": send.pause, "resume": send.resume}[name])
    _report_acknowledgement(settings, orders, name, done_text)
    if name == "pause":
        _report_waiting_plans(settings, "steps in progress complete, and no new step starts")


def _report_acknowledgement(settings: Settings, orders: Orders, name: str, done_text: str) -> None:
    """Waits until a tuner acknowledges the order, and prints ``done_text``; exits with EXIT_NOT_ACKNOWLEDGED if none does.

    Args:
        name: the order as a noun for the message, such as "pause" or "end of the override".
    """
    from rheostat.orders import send

    if send.wait_until_acknowledged(settings, orders):
        out(done_text)
        return
    out(f"The {name} is recorded. {send.why_not_acknowledged(settings)}")
    raise typer.Exit(EXIT_NOT_ACKNOWLEDGED)


def _report_waiting_plans(settings: Settings, effect: str) -> None:
    """Prints the active plans, and the effect of the order on them; prints nothing if no plan is active."""
    from rheostat.reassign import plan_store

    waiting = [plan.id for plan in plan_store.read_plans(settings).active]
    if waiting:
        out(f"Reassignment plans wait as well ({', '.join(waiting)}): {effect}.")
