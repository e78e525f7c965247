"""`rheostat plan`: the commands that estimate a reassignment and that generate one. Neither changes the cluster."""

from __future__ import annotations

import typer

from rheostat.plan.estimate.cli import estimate
from rheostat.plan.generate.cli import generate
from rheostat.renamed import GroupWithoutDefault


class _PlanGroup(GroupWithoutDefault):
    path = "rheostat plan"
    default = "estimate"


app = typer.Typer(
    cls=_PlanGroup,
    help="Prepares a reassignment: how long a plan takes, and plans that copy little. Nothing is started.",
    no_args_is_help=True,
)
app.command()(estimate)
app.command()(generate)
