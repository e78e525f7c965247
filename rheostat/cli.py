"""The program: its commands joined, and the one way in and out of all of them."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from types import FrameType
from typing import NoReturn

import typer

from rheostat.commands import (
    ahead,
    config,
    demo,
    fetchers,
    journal,
    lab,
    limits,
    move,
    now,
    orders,
    parts,
    quotas,
    reassign,
    replay,
)
from rheostat.errors import (
    EXIT_BAD_INPUT,
    EXIT_CODES,
    EXIT_DONE,
    EXIT_FAULT,
    EXIT_INTERRUPTED,
    EXIT_OUTPUT_CLOSED,
    CommandError,
)
from rheostat.saying import tell

app = typer.Typer(
    name="rheostat",
    help="Keeps turning Kafka's replication throttles, so that reassignments finish and clients don't notice.",
    epilog="Exit codes of all commands: "
    + "; ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items())
    + ".",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
# In the order in which `--help` names them.
for command in (
    demo.demo, parts.run, parts.collect, parts.stream, parts.tune,
    now.status, now.signals, replay.replay, ahead.plan, ahead.simulate, move.move, fetchers.fetchers,
    orders.pause, orders.resume, orders.override, orders.release, now.doctor,
):  # fmt: skip
    app.command()(command)
app.add_typer(reassign.app, name="reassign")
app.add_typer(quotas.app, name="quotas")
app.add_typer(limits.app, name="limits")
app.add_typer(journal.app, name="journal")
app.add_typer(lab.app, name="lab")
app.add_typer(config.app, name="config")


_STDOUT = 1


def _unwind(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001 - the shape of a handler
    if number == signal.SIGHUP:  # Of a terminal that goes the kernel tells, and the shell once more.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    raise SystemExit(128 + number)


def main() -> None:
    """Entry point; every ending goes through the ``with`` blocks: SIGTERM's, and that of a terminal that has gone."""
    signal.signal(signal.SIGTERM, _unwind)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # As under nohup.
        signal.signal(signal.SIGHUP, _unwind)
    try:
        code = app(standalone_mode=False)
    except CommandError as error:
        tell(str(error))
        sys.exit(error.exit_code)
    except typer.Exit as ending:
        sys.exit(ending.exit_code)
    except typer.Abort:
        sys.exit(EXIT_INTERRUPTED)
    except (KeyboardInterrupt, EOFError):
        tell("interrupted")
        sys.exit(EXIT_INTERRUPTED)
    except SystemExit as ending:
        # Where the reader of the output (head, less) closed it, typer and rich end the program with 1, which means another thing.
        if not isinstance(ending.__context__, BrokenPipeError):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), _STDOUT)  # Python would complain while closing it.
        sys.exit(EXIT_OUTPUT_CLOSED)
    except Exception as error:  # noqa: BLE001 - told with its trace, and an exit code of its own
        # Click's own complaints about arguments can show themselves; all else is a fault of rheostat.
        show = getattr(error, "show", None)
        if show is None:
            tell(traceback.format_exc().rstrip())
            sys.exit(EXIT_FAULT)
        show()
        sys.exit(getattr(error, "exit_code", EXIT_BAD_INPUT))
    sys.exit(code if isinstance(code, int) else EXIT_DONE)
