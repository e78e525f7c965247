"""What the operator does about an error message, where the class of the error does not tell it well enough."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# By the pattern of the message as docs/reference/errors.md shows it. Without a full stop at the end.
CURES: Mapping[str, str] = MappingProxyType(
    {
        "Not confirmed. Nothing was changed.": "repeat the command and answer with `y`, or give `--yes`",
    }
)

_CORRECT_SETTING = (
    "correct the key that the message names; `rheostat config check` says whether the file is right, and "
    "[Settings](configuration.md) lists every key"
)
# By the class of the exception. CommandError is for all that are not listed.
DEFAULT_CURES: Mapping[str, str] = MappingProxyType(
    {
        "AccessError": "correct the token or the file that the message names; see [Page and API](api.md)",
        "AgentAccessError": "correct the file that the message names, so that the collector can read its agents",
        "BadInputError": "nothing was changed: correct the argument, the key or the line that the message names, "
        "and repeat the command",
        "ClusterError": "run `rheostat doctor`; it names what is wrong between rheostat and the brokers",
        "CommandError": "do what the message says; if it says nothing to do, run `rheostat doctor`",
        "JournalError": "run `rheostat journal check`; check that the brokers of the journal's topic are alive",
        "JournalLost": "nothing, if another tuner has taken over; otherwise look at the tuners with `rheostat status`",
        "JournalUnreadable": "do what the message says; `rheostat journal check` shows the records",
        "MissingPermission": "grant the right that the message names; [Permissions](permissions.md) lists the rights "
        "of each process",
        "NotAcknowledgedError": "start a tuner, or wait until one acts: the order is recorded",
        "NotConfirmedError": "repeat the command and confirm it, or give `--yes`",
        "OlderRecordError": "use the version of rheostat that wrote the record, or follow the upgrade guide",
        "PemError": "convert the file as the message says",
        "PortError": "stop what listens at that address, or set another `tuner.http.port`",
        "ProbeFailed": "compare `kafka.bootstrap_servers` and the security settings with the listener of the broker",
        "SetupError": "install or correct on this machine what the message names",
        "StreamError": "do what the message says; the log above it has the cause that Spark reports",
        "ThreadEndedError": "restart the process, and report the error in the log above the message",
        "Unreachable": "check that the brokers are alive and reachable from here: `rheostat doctor`",
        "UnreachableError": "check that the brokers are alive and reachable from here: `rheostat doctor`; the processes "
        "of `rheostat run` wait for them with `--wait-for-cluster`",
        "UnreadableBatchError": "see “Records that cannot be unpacked” in the guide to operation",
        "ValueError": _CORRECT_SETTING,
        "typer.BadParameter": "nothing was changed: correct the option that the message names; `--help` shows the usage",
    }
)
