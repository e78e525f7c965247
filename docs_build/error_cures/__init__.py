"""The cures of error messages: what an operator does about a message for which the cure of its error class is not precise enough.

Each module has the table of one group of commands. A key is a distinctive part of the message, as docs/reference/errors.md shows
the message. A cure has no full stop at its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from docs_build.error_cures import act, cluster, common, login, plan, settings, start, try_out, watch

TABLES: tuple[Mapping[str, str], ...] = (
    settings.CURES,
    start.CURES,
    login.CURES,
    cluster.CURES,
    watch.CURES,
    plan.CURES,
    act.CURES,
    try_out.CURES,
    common.CURES,
)
CURES: Mapping[str, str] = MappingProxyType({part: cure for table in TABLES for part, cure in table.items()})

_CORRECT_SETTING = (
    "correct the value of the key after the line number; [Settings](configuration.md) lists every key, and "
    "`rheostat config check` checks the file"
)
# The cures by class of the exception. The cure of CommandError applies to all classes that are not listed.
DEFAULT_CURES: Mapping[str, str] = MappingProxyType(
    {
        "AgentAccessError": "correct the file that the message names, so that the collector can read its agents",
        "BadInputError": "nothing was changed: do what the message advises, and repeat the command",
        "ClusterError": "run `rheostat doctor`; it names what is wrong between rheostat and the brokers",
        "CommandError": "follow the advice in the message; if it gives none, run `rheostat doctor`",
        "CredentialsError": "correct the token or the file that the message names; see [API](api.md)",
        "JournalError": "run `rheostat journal check`; check that the brokers of the journal's topic are alive",
        "JournalLost": "do nothing if another tuner has taken over; `rheostat status` shows which tuners run",
        "JournalUnreadable": "do what the message says; `rheostat journal check` shows the records",
        "LoginError": "correct the setting, the file or the service that the message names; processes that run try again by "
        "themselves; see [Log in with OAuth, MSK IAM or Kerberos](../how-to/log-in-with-oauth.md)",
        "MissingPermission": "grant the right that the message names; [Permissions](permissions.md) lists the rights "
        "of each process",
        "NotAcknowledgedError": "start a tuner, or wait until one acts: the order is recorded",
        "NotConfirmedError": "repeat the command and confirm it, or give `--yes`",
        "OlderRecordError": "use the version of rheostat that wrote the record, or follow the "
        "[upgrade guide](../how-to/upgrade.md)",
        "PemError": "let this user read the file, or convert it as the message says",
        "PortError": "stop what listens at that address, or set another `tuner.http.port`",
        "ProbeFailed": "compare `kafka.bootstrap_servers` and the security settings with the listener of the broker",
        "SetupError": "install or correct on this machine what the message names",
        "StreamError": "do what the message says; the log above it has the cause that Spark reports",
        "ThreadEndedError": "restart the process, and report the error in the log above the message",
        "Unreachable": "check that the brokers are alive and reachable from here: `rheostat doctor`",
        "UnreachableError": "check that the brokers are alive and reachable from here: `rheostat doctor`; the processes "
        "of `rheostat run` wait for them with `--wait-for-cluster`",
        "UnreadableBatchError": "see "
        "[Records that cannot be unpacked](../how-to/repair-the-journal.md#records-that-cannot-be-unpacked)",
        "ValueError": _CORRECT_SETTING,
        "typer.BadParameter": "correct the option at the beginning of the message; `--help` shows the usage. Nothing was changed",
    }
)
