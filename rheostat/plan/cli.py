"""`rheostat plan`: the commands that estimate a reassignment or generate a plan. They change nothing in the cluster."""

from __future__ import annotations

import typer

from rheostat.declaration import with_example
from rheostat.plan.estimate.cli import estimate
from rheostat.plan.generate.cli import generate
from rheostat.renamed import GroupWithoutDefault


class _PlanGroup(GroupWithoutDefault):
    path = "rheostat plan"
    default = "estimate"


app = typer.Typer(
    cls=_PlanGroup,
    help="Prepares a reassignment: estimates how long it takes, or generates a plan that copies few bytes. Starts nothing.",
    no_args_is_help=True,
)
app.command(**with_example("rheostat plan estimate plan.json --throttle 50MB/s"))(estimate)
app.command(**with_example("rheostat plan generate --drain-broker 4 --out plan.json"))(generate)
