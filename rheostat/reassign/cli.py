"""`rheostat reassign`: a plan of reassignments executed, and what is said about it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from rheostat.console.escape import printable
from rheostat.console.output import out
from rheostat.errors import EXIT_DONE, EXIT_NOT_ACKNOWLEDGED, EXIT_NOT_WELL
from rheostat.options import Config, Json, Yes, amount
from rheostat.renamed import GroupWithoutDefault
from streaming.shared import units

if TYPE_CHECKING:
    from rheostat.reassign.orders import OrderResult
    from tuner.core.batch_limits import BatchLimits


class _ReassignGroup(GroupWithoutDefault):
    path = "rheostat reassign"
    default = "start"
    former_names = ("plan",)
    renamed_options: ClassVar = {"--here": "--standalone", "--leave": "--no-rollback"}


app = typer.Typer(
    cls=_ReassignGroup,
    help="Executes a plan of kafka-reassign-partitions in steps (KIP-435): `rheostat reassign start PLAN.json`.",
    no_args_is_help=True,
)

Id = Annotated[str | None, typer.Argument(metavar="[PLAN-ID]", help="needed where several plans run")]
Leaders = Annotated[int | None, typer.Option("--leader-movements", min=1, help="steps at a time that move a leader")]
Partitions = Annotated[int | None, typer.Option("--partition-movements", min=1, help="partitions at a time")]
Replicas = Annotated[int | None, typer.Option("--replica-movements", min=1, help="replicas of one partition at a time")]


@app.command("start")
def start(
    config: Config,
    plan: Annotated[Path, typer.Argument(metavar="PLAN.json", help="as kafka-reassign-partitions takes it")],
    leader_movements: Leaders = None,
    partition_movements: Partitions = None,
    replica_movements: Replicas = None,
    allow_factor: Annotated[
        bool, typer.Option("--allow-replication-factor-change", help="partitions may get more or fewer replicas")
    ] = False,
    watch_s: Annotated[
        float,
        typer.Option(
            "--watch-s", min=0, help="how long the logs are watched first for what is written; 0: from the signals"
        ),
    ] = 10.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="the steps, the time it takes at best, what forbids it; begins nothing")
    ] = False,
    detach: Annotated[bool, typer.Option("--detach", help="put it on record, and don't watch it")] = False,
    standalone: Annotated[
        bool, typer.Option("--standalone", help="run the whole service in this command until the plan has ended")
    ] = False,
    throttle: Annotated[
        float | None,
        amount(
            units.positive(units.parse_rate),
            "the most for each broker and side, such as 50MB/s; at most the ceiling, which holds without it",
            "RATE",
        ),
    ] = None,
    unthrottled: Annotated[
        bool, typer.Option("--unthrottled", help="no throttle for this plan, so that the ceiling does not hold")
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Puts the plan on record for the tuner, and watches it until it ends. Exit code 1: the plan was not done."""
    if throttle is not None and unthrottled:
        raise typer.BadParameter("give one of the two", param_hint="--throttle, --unthrottled")
    if detach and standalone:
        raise typer.BadParameter(
            "the service that --standalone runs would end with this command", param_hint="--detach, --standalone"
        )

    from rheostat.console.logs import set_up_logs
    from rheostat.reassign.command import ReassignRequest, run_reassign
    from tuner.core.reassignment_plan import PlanThrottle

    set_up_logs()
    limits = _limits(None, leader_movements, partition_movements, replica_movements)
    asked = ReassignRequest(
        plan,
        limits,
        allow_factor,
        watch_s,
        dry_run,
        detach,
        standalone,
        as_json,
        PlanThrottle(throttle, unthrottled),
        yes,
    )
    raise typer.Exit(run_reassign(config, asked))


@app.command("status")
def status(config: Config, plan: Id = None, as_json: Json = False) -> None:
    """How far plans are, what is under way and what holds them up. Exit code 1: one is held up, or was not done."""
    from rheostat.config.settings import load_settings
    from rheostat.console.logs import set_up_logs
    from rheostat.reassign import plan_store
    from rheostat.reassign.progress import as_record
    from rheostat.reassign.text import sentences
    from rheostat.reassign.watch import look
    from rheostat.run.services import probe

    set_up_logs()
    settings = load_settings(config)
    probe(settings)
    known = plan_store.read(settings)
    plans = known.active or known.plans[-1:] if plan is None else (known.of(plan),)
    shown = [look(settings, one) for one in plans]
    if as_json:
        out(json.dumps({"plans": [as_record(one) for one in shown]}, indent=2))
    elif not shown:
        out("No plan of reassignments is on record.")
    else:
        out(*(printable(line) for one in shown for line in sentences(one)))
    raise typer.Exit(EXIT_DONE if all(one.well for one in shown) else EXIT_NOT_WELL)


@app.command("pause")
def pause(config: Config, plan: Id = None, as_json: Json = False) -> None:
    """Nothing new is begun; what is under way ends. Exit code 4, as of every order: no tuner has acknowledged it."""
    _word(config, plan, "pause", as_json)


@app.command("resume")
def resume(config: Config, plan: Id = None, as_json: Json = False) -> None:
    """Goes on; also with partitions that were left alone because somebody had stopped their step."""
    _word(config, plan, "resume", as_json)


@app.command("cancel")
def cancel(
    config: Config,
    plan: Id = None,
    no_rollback: Annotated[
        bool,
        typer.Option(
            "--no-rollback", help="stop the steps under way and put nothing back, such as when the old broker is gone"
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Puts back what is on its way; partitions that have arrived stay."""
    _word(config, plan, "leave" if no_rollback else "cancel", as_json)


@app.command("limits")
def limits(
    config: Config,
    plan: Id = None,
    leader_movements: Leaders = None,
    partition_movements: Partitions = None,
    replica_movements: Replicas = None,
    none: Annotated[bool, typer.Option("--none", help="no limits of its own any more")] = False,
    as_json: Json = False,
) -> None:
    """Shows a plan's limits (KIP-435), or changes them while it runs; steps under way go on as they are."""
    from rheostat.config.settings import load_settings
    from rheostat.console.logs import set_up_logs
    from rheostat.reassign import orders, plan_store
    from rheostat.reassign.progress import limits_record
    from rheostat.reassign.text import limits_text
    from rheostat.run.services import probe

    set_up_logs()
    settings = load_settings(config)
    probe(settings)
    known = plan_store.read(settings).of(plan)
    if not none and (leader_movements, partition_movements, replica_movements) == (None, None, None):
        found = limits_record(known.head.limits)
        out(
            json.dumps({"plan": known.id, **found})
            if as_json
            else f"Plan {known.id}: {limits_text(known.head.limits)}."
        )
        return
    before = None if none else known.head.limits
    after = _limits(before, leader_movements, partition_movements, replica_movements)
    _say(orders.set_limits(settings, known, after), as_json)


def _limits(
    before: BatchLimits | None, leaders: int | None, partitions: int | None, replicas: int | None
) -> BatchLimits:
    """What they are from now on; those that are not said stay as they were, or there are none."""
    from tuner.core.batch_limits import BatchLimits

    known = before or BatchLimits()
    return BatchLimits(
        leaders or known.leader_movements_max,
        partitions or known.partition_movements_max,
        replicas or known.replica_movements_max,
    )


def _word(config: Path, plan: str | None, name: str, as_json: bool) -> None:
    from rheostat.config.settings import load_settings
    from rheostat.console.logs import set_up_logs
    from rheostat.reassign import orders, plan_store
    from rheostat.run.services import probe

    set_up_logs()
    settings = load_settings(config)
    probe(settings)
    known = plan_store.read(settings).of(plan)
    words = {"pause": orders.pause, "resume": orders.resume, "cancel": orders.cancel, "leave": orders.leave}
    _say(words[name](settings, known), as_json)


def _say(said: OrderResult, as_json: bool) -> None:
    """Who waits for it to be so must not take it for done where nobody has acknowledged it."""
    out(json.dumps({"plan": said.plan, "acknowledged": said.acknowledged}) if as_json else said.text)
    if not said.acknowledged:
        raise typer.Exit(EXIT_NOT_ACKNOWLEDGED)
