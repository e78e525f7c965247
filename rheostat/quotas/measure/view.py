"""Shows the mutation rates of tenants as a table."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from rheostat.console import escape
from rheostat.quotas.measure.tenant_rates import TenantMeasure
from streaming.shared.units import span_text


def show(rows: Sequence[TenantMeasure], console: Console, *, left_s: float | None = None) -> None:
    """Prints a row for each tenant.

    Args:
        left_s: how long the measurement still takes; None if it has ended.
    """
    if left_s is not None:
        console.print(f"Mutations of each tenant, in partitions/s; {span_text(left_s)} left.", soft_wrap=True)
    if not rows:
        console.print("No tenant has created or deleted topics yet.")
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("user", overflow="fold")
    table.add_column("client id", overflow="fold")
    for name in ("now/s", "mean/s", "peak/s"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        user, client_id = row.tenant.user, row.tenant.client_id
        table.add_row(
            "" if user is None else escape.printable_name(user),
            "" if client_id is None else escape.printable_name(client_id),
            f"{row.last_per_s:.2f}",
            f"{row.mean_per_s:.2f}",
            f"{row.peak_per_s:.2f}",
        )
    console.print(table)
