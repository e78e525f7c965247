"""Declares the commands of `rheostat reassign` and their options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rheostat.console.escape import printable
from rheostat.console.output import out
from rheostat.declaration import with_example
from rheostat.errors import EXIT_DONE, EXIT_NOT_ACKNOWLEDGED, EXIT_NOT_WELL
from rheostat.options import MEASURE_FOR_S, At, Config, Json, MeasureFor, Yes, rate_option
from rheostat.renamed import GroupWithoutDefault

if TYPE_CHECKING:
    from rheostat.config.settings import Settings
    from rheostat.reassign.orders import OrderResult
    from tuner.core.batch_limits import BatchLimits


class _ReassignGroup(GroupWithoutDefault):
    path = "rheostat reassign"
    default = "start"
    former_names = ("plan",)


app = typer.Typer(
    cls=_ReassignGroup,
    help="Executes a plan of kafka-reassign-partitions in steps (KIP-435): `rheostat reassign start PLAN.json`.",
    no_args_is_help=True,
)

Id = Annotated[
    str | None, typer.Argument(metavar="PLAN-ID", help="the id of the plan; needed if several plans are active")
]
Leaders = Annotated[
    int | None,
    typer.Option("--leader-movements", min=1, metavar="N", help="at any time, at most N running steps move a leader"),
]
Partitions = Annotated[
    int | None, typer.Option("--partition-movements", min=1, metavar="N", help="at most N partitions move at a time")
]
Replicas = Annotated[
    int | None,
    typer.Option("--replica-movements", min=1, metavar="N", help="at most N replicas of one partition move at a time"),
]


@app.command("start", **with_example("rheostat reassign start plan.json --throttle 50MB/s"))
def start(
    config: Config,
    plan: Annotated[Path, typer.Argument(metavar="PLAN.json", help="a plan of kafka-reassign-partitions")],
    leader_movements: Leaders = None,
    partition_movements: Partitions = None,
    replica_movements: Replicas = None,
    allow_factor: Annotated[
        bool, typer.Option("--allow-replication-factor-change", help="partitions may get more or fewer replicas")
    ] = False,
    measure_s: MeasureFor = MEASURE_FOR_S,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="show the steps, the shortest possible time and each check that fails; start nothing"
        ),
    ] = False,
    detach: Annotated[bool, typer.Option("--detach", help="record the plan for the tuner, and return at once")] = False,
    standalone: Annotated[
        bool,
        typer.Option(
            "--standalone",
            help="run all processes of rheostat in this command until the plan has ended; for a cluster without a running tuner",
        ),
    ] = False,
    throttle: Annotated[
        float | None,
        rate_option(
            "highest leader or follower throttle of each broker, such as 50MB/s; default and maximum: tuner.rate_bytes_per_s_max",
            "--throttle",
        ),
    ] = None,
    unthrottled: Annotated[
        bool,
        typer.Option("--unthrottled", help="set no throttle for this plan; tuner.rate_bytes_per_s_max does not apply"),
    ] = False,
    at: At = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Records the plan for the tuner, and shows the plan's progress until the plan ends.

    With --at, the tuner starts the plan later, and the command returns at once, as with --detach.

    Exit code 1: the plan was not completed.
    """
    if throttle is not None and unthrottled:
        raise typer.BadParameter("give --throttle or --unthrottled, not both", param_hint="--throttle, --unthrottled")
    if detach and standalone:
        raise typer.BadParameter(
            "give --detach or --standalone, not both: with --standalone the plan is carried out by this command itself, "
            "and --detach would end the command at once",
            param_hint="--detach, --standalone",
        )
    if at is not None and standalone:
        raise typer.BadParameter(
            "give --at or --standalone, not both: a plan that starts later is executed by a tuner that runs then",
            param_hint="--at, --standalone",
        )

    from rheostat.console.logs import set_up_logs
    from rheostat.reassign.command import ReassignRequest, run_reassign
    from tuner.core.reassignment_plan import PlanThrottle

    set_up_logs()
    limits = _merge_limits(None, leader_movements, partition_movements, replica_movements)
    request = ReassignRequest(
        path=plan,
        limits=limits,
        may_change_factor=allow_factor,
        measure_s=measure_s,
        dry_run=dry_run,
        detach=detach,
        standalone=standalone,
        as_json=as_json,
        throttle=PlanThrottle(rate_bytes_per_s_max=throttle, unthrottled=unthrottled),
        at=at,
        yes=yes,
    )
    raise typer.Exit(run_reassign(config, request))


@app.command("status", **with_example("rheostat reassign status"))
def status(config: Config, plan: Id = None, as_json: Json = False) -> None:
    """Shows the progress and the running steps of plans, and what blocks a plan.

    Exit code 1: a plan is blocked or was not completed.
    """
    from rheostat.reassign import plan_store
    from rheostat.reassign.progress import as_record
    from rheostat.reassign.text import describe_plan
    from rheostat.reassign.watch import read_progress

    settings = _connect(config)
    stored = plan_store.read_plans(settings)
    # If no plan is active, the plan that was submitted last is shown.
    plans = (stored.active or stored.plans[-1:]) if plan is None else (stored.find(plan),)
    progresses = [read_progress(settings, each_plan) for each_plan in plans]
    if as_json:
        out(json.dumps({"plans": [as_record(progress) for progress in progresses]}, indent=2))
    elif not progresses:
        out("No reassignment plan is on record.")
    else:
        out(*(printable(line) for progress in progresses for line in describe_plan(progress)))
    raise typer.Exit(EXIT_DONE if all(progress.is_well for progress in progresses) else EXIT_NOT_WELL)


@app.command("pause", **with_example("rheostat reassign pause"))
def pause(config: Config, plan: Id = None, as_json: Json = False) -> None:
    """Pauses a plan: running steps finish, and no new step begins.

    Exit code 4: no tuner has acknowledged the order.
    """
    _give_order(config, plan, "pause", as_json)


@app.command("resume", **with_example("rheostat reassign resume"))
def resume(config: Config, plan: Id = None, as_json: Json = False) -> None:
    """Continues a paused plan, and retries the partitions whose step another tool has cancelled."""
    _give_order(config, plan, "resume", as_json)


@app.command("cancel", **with_example("rheostat reassign cancel --no-rollback"))
def cancel(
    config: Config,
    plan: Id = None,
    no_rollback: Annotated[
        bool,
        typer.Option(
            "--no-rollback",
            help="stop the running steps, and do not restore the original replicas, for example because the old broker is lost",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Cancels a plan: stops the running steps and restores the original replicas. Finished moves stay."""
    _give_order(config, plan, "cancel_without_rollback" if no_rollback else "cancel", as_json)


@app.command("limits", **with_example("rheostat reassign limits --partition-movements 4"))
def limits(
    config: Config,
    plan: Id = None,
    leader_movements: Leaders = None,
    partition_movements: Partitions = None,
    replica_movements: Replicas = None,
    none: Annotated[bool, typer.Option("--none", help="remove the plan's own limits")] = False,
    as_json: Json = False,
) -> None:
    """Shows or changes how many partitions of a plan move at a time (KIP-435). Running steps are not affected."""
    from rheostat.reassign import orders, plan_store
    from rheostat.reassign.progress import limits_record
    from rheostat.reassign.text import limits_text

    settings = _connect(config)
    stored = plan_store.read_plans(settings).find(plan)
    current = stored.head.limits
    options = [leader_movements, partition_movements, replica_movements]
    if not none and all(limit is None for limit in options):
        if as_json:
            out(json.dumps({"plan": stored.id, **limits_record(current)}))
        else:
            out(f"Plan {stored.id}: {limits_text(current)}.")
        return
    new = _merge_limits(None if none else current, leader_movements, partition_movements, replica_movements)
    _report_order(orders.set_limits(settings, stored, new), as_json)


def _connect(config: Path) -> Settings:
    """Sets up the logs, and returns the settings once the cluster has answered."""
    from rheostat.config.settings import load_settings
    from rheostat.console.logs import set_up_logs
    from rheostat.run.services import probe

    set_up_logs()
    settings = load_settings(config)
    probe(settings)
    return settings


def _merge_limits(
    current: BatchLimits | None, leaders: int | None, partitions: int | None, replicas: int | None
) -> BatchLimits:
    """Returns the given limits. A limit that is not given (None) is taken from ``current``, or is unlimited without ``current``."""
    from tuner.core.batch_limits import BatchLimits

    base = current or BatchLimits()
    return BatchLimits(
        leader_movements_max=leaders or base.leader_movements_max,
        partition_movements_max=partitions or base.partition_movements_max,
        replica_movements_max=replicas or base.replica_movements_max,
    )


def _give_order(config: Path, plan_id: str | None, name: str, as_json: bool) -> None:
    from rheostat.reassign import orders, plan_store

    settings = _connect(config)
    plan = plan_store.read_plans(settings).find(plan_id)
    order = {
        "pause": orders.pause,
        "resume": orders.resume,
        "cancel": orders.cancel,
        "cancel_without_rollback": orders.cancel_without_rollback,
    }[name]
    _report_order(order(settings, plan), as_json)


def _report_order(result: OrderResult, as_json: bool) -> None:
    """Prints the result; exits with EXIT_NOT_ACKNOWLEDGED if no tuner has acknowledged the order."""
    out(json.dumps({"plan": result.plan, "acknowledged": result.acknowledged}) if as_json else result.text)
    if not result.acknowledged:
        raise typer.Exit(EXIT_NOT_ACKNOWLEDGED)
