"""A person's word to the tuner: pause, resume, override, release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rheostat import units
from rheostat.commands.options import Config, amount
from rheostat.saying import out

if TYPE_CHECKING:
    from rheostat.settings import Settings

_OVERRIDE_S = 1800.0
_NOBODY = "No tuner has heeded it yet: none runs, or it is between two lives. The next that acts begins with it."


def pause(config: Config) -> None:
    """Nothing is changed any more, neither up nor down, until `rheostat resume`."""
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
) -> None:
    """One broker's throttle stands at a rate for a while (30 min), then at what it was before, and is tuned again."""
    from rheostat import orders
    from rheostat.errors import BadInputError
    from rheostat.settings import load_settings
    from streaming.contract import Side
    from tuner.api.orders_api import sides_of

    settings = load_settings(config)
    if clear == (rate is not None):
        raise BadInputError("expected either --rate, the throttle to set, or --clear")
    if side is not None and side not in {s.value for s in Side}:
        raise BadInputError(f"--side: expected leader or follower, found {side!r}")
    if rate is None:
        given = orders.give(settings, orders.no_override(broker, Side(side) if side else None))
        said = (
            f"The override of broker {broker}'s {side} throttle is over."
            if side
            else f"The overrides of broker {broker} are over."
        )
    else:
        wanted = orders.checked_rate(settings, rate)
        orders.checked_broker(settings, broker)
        sides = sides_of(broker, Side(side) if side else None, wanted)
        lasts_s = for_s or _OVERRIDE_S
        given = orders.give(settings, orders.override(sides, lasts_s))
        said = (
            f"While something moves there, broker {broker} is throttled at {units.rate_text(wanted)} for the next "
            f"{units.span_text(lasts_s)}."
        )
    out(said if orders.heeded(settings, given) else f"{said}\n{_nobody(settings)}")


def release(config: Config) -> None:
    """Everything that rheostat set is taken back, now, and nothing is changed until `rheostat resume`."""
    from rheostat import orders
    from rheostat.errors import EXIT_NOT_WELL, BadInputError
    from rheostat.logs import set_up_logs
    from rheostat.settings import load_settings

    settings = load_settings(config)
    set_up_logs()
    if (other := orders.other_name(settings)) is not None:
        raise BadInputError(other)
    left = orders.take_back(settings, orders.give(settings, orders.release))
    if left:
        out("Not everything is taken back:", *left)
        raise typer.Exit(EXIT_NOT_WELL)
    out("Released: nothing of rheostat's stands any more. Nothing is changed until `rheostat resume`.")
    _plans_wait(
        settings, "steps that are under way go on, and are Kafka's to end; `rheostat reassign cancel` puts plans back"
    )


def _order(config: Config, name: str, said: str) -> None:
    from rheostat import orders
    from rheostat.settings import load_settings

    settings = load_settings(config)
    given = orders.give(settings, {"pause": orders.pause, "resume": orders.resume}[name])
    out(said if orders.heeded(settings, given) else f"{said}\n{_nobody(settings)}")
    if name == "pause":
        _plans_wait(settings, "steps that are under way end, and nothing new is begun")


def _nobody(settings: Settings) -> str:
    from rheostat import orders

    other = orders.other_name(settings)
    return _NOBODY if other is None else f"{_NOBODY}\n{other[:1].upper()}{other[1:]}."


def _plans_wait(settings: Settings, how: str) -> None:
    from rheostat.reassign import record

    waiting = [plan.id for plan in record.read(settings).active]
    if waiting:
        out(f"Plans of reassignments wait as well ({', '.join(waiting)}): {how}.")
