"""The class of a command and the form of its example, for the declaration of each command."""

from __future__ import annotations

from typing import Any

from rheostat.console.cluster_option import add_cluster_option, chosen_cluster
from rheostat.renamed import CommandWithFormerOptions

EXAMPLE = "Example: "


class CommandOfOneCluster(CommandWithFormerOptions):
    """A command that also takes --cluster if it takes --config."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        add_cluster_option(self.params)

    def invoke(self, ctx: Any) -> Any:
        """Runs the command for the chosen cluster."""
        with chosen_cluster(ctx):
            return super().invoke(ctx)


def with_example(command_line: str, *, all_clusters: bool = False) -> dict[str, Any]:
    """Returns the arguments of ``typer.Typer.command`` for a command whose help ends with this example.

    Args:
        all_clusters: the command is about all clusters of the settings file, so it has no option --cluster.
    """
    kind = CommandWithFormerOptions if all_clusters else CommandOfOneCluster
    return {"cls": kind, "epilog": f"{EXAMPLE}{command_line}"}
