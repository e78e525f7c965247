"""A person's word to the tuner: pause, resume, override, release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rheostat.console.output import out
from rheostat.errors import EXIT_NOT_ACKNOWLEDGED
from rheostat.options import Config, Yes, amount
from streaming.shared import units

if TYPE_CHECKING:
    from rheostat.config.settings import Settings
    from tuner.core.operator_orders import Orders

_OVERRIDE_S = 1800.0


def pause(config: Config) -> None:
    """Nothing is changed any more, neither up nor down, until `rheostat resume`. Never asks."""
    _order(config, "pause", "Paused: what stands stays as it is, also at the end of a move, until `rheostat resume`.")


def resume(config: Config) -> None:
    """Ends a pause or a release, and takes up again what was left alone because somebody else had changed it."""
    _order(config, "resume", "Resumed.")


def override(
    config: Config,
    broker: Annotated[int, typer.Option("--broker", min=0, help="the broker's id")],
    rate: Annotated[
        float | None, amount(units.positive(units.parse_rate), "the throttle to set, such as 50MB/s", "RATE")
    ] = None,
    for_s: Annotated[float | None, amount(units.parse_span, "how long; 30m without it", "TIME", "--for")] = None,
    side: Annotated[str | None, typer.Option("--side", help="leader or follower; both without it")] = None,
    clear: Annotated[
        bool, typer.Option("--clear", help="end the overrides of this broker now, or of one --side")
    ] = False,
    yes: Yes = False,
) -> None:
    """One broker's throttle stands at a rate for a while (30 min), then is tuned again. Asks before it raises one."""
    from rheostat.config.settings import load_settings
    from rheostat.console.confirm import confirm
    from rheostat.errors import BadInputError
    from rheostat.orders import send
    from rheostat.orders.changes import raised_rates
    from streaming.shared.contract import Side
    from tuner.api.orders_api import override_rates

    settings = load_settings(config)
    if clear == (rate is not None):
        raise BadInputError("expected either --rate, the throttle to set, or --clear")
    if side is not None and side not in {s.value for s in Side}:
        raise BadInputError(f"--side: expected leader or follower, found {side!r}")
    if rate is None:
        given = send.submit(settings, send.end_override(broker, Side(side) if side else None))
        said = (
            f"The override of broker {broker}'s {side} throttle is over."
            if side
            else f"The overrides of broker {broker} are over."
        )
        _acknowledged(settings, given, "end of the override", said)
        return
    current = send.current_rates(settings, broker)
    wanted = send.checked_rate(settings, rate)
    sides = override_rates(broker, Side(side) if side else None, wanted)
    lasts_s = for_s or _OVERRIDE_S
    if changes := raised_rates(current, sides):
        confirm([f"This override raises, for {units.span_text(lasts_s)}:", *changes], yes=yes)
    given = send.submit(settings, send.override(sides, lasts_s))
    said = (
        f"While something moves there, broker {broker} is throttled at {units.rate_text(wanted)} for the next "
        f"{units.span_text(lasts_s)}."
    )
    _acknowledged(settings, given, "override", said)


def release(config: Config, yes: Yes = False) -> None:
    """Everything that rheostat set is taken back, now, and nothing is changed until `rheostat resume`. Asks first."""
    from rheostat.config.settings import load_settings
    from rheostat.console.confirm import confirm
    from rheostat.console.logs import set_up_logs
    from rheostat.errors import EXIT_NOT_WELL, BadInputError
    from rheostat.orders import send
    from rheostat.orders.changes import release_summary

    settings = load_settings(config)
    set_up_logs()
    if (other := send.wrong_cluster_name(settings)) is not None:
        raise BadInputError(other)
    known = send.read_orders(settings)
    confirm(release_summary(settings.cluster, known.memory, known.quotas, known.blocked), yes=yes)
    left = send.release_all(settings, send.submit(settings, send.release))
    if left:
        out("Not everything is taken back:", *left)
        raise typer.Exit(EXIT_NOT_WELL)
    out("Released: nothing of rheostat's stands any more. Nothing is changed until `rheostat resume`.")
    _plans_wait(
        settings, "steps that are under way go on, and are Kafka's to end; `rheostat reassign cancel` puts plans back"
    )


def _order(config: Config, name: str, said: str) -> None:
    from rheostat.config.settings import load_settings
    from rheostat.orders import send

    settings = load_settings(config)
    given = send.submit(settings, {"pause": send.pause, "resume": send.resume}[name])
    _acknowledged(settings, given, name, said)
    if name == "pause":
        _plans_wait(settings, "steps that are under way end, and nothing new is begun")


def _acknowledged(settings: Settings, given: Orders, name: str, said: str) -> None:
    """Waits for a tuner to acknowledge the order and says so; ends the command where none does.

    Args:
        name: of the order, for a sentence.
        said: what is so once a tuner has acknowledged it.
    """
    from rheostat.orders import send

    if send.wait_until_acknowledged(settings, given):
        out(said)
        return
    out(f"The {name} is on record. {send.why_not_acknowledged(settings)}")
    raise typer.Exit(EXIT_NOT_ACKNOWLEDGED)


def _plans_wait(settings: Settings, how: str) -> None:
    from rheostat.reassign import plan_store

    waiting = [plan.id for plan in plan_store.read_plans(settings).active]
    if waiting:
        out(f"Plans of reassignments wait as well ({', '.join(waiting)}): {how}.")
