"""The entry point `rheostat`: joins the commands of all groups, and turns their errors into exit codes.

Invariant: at its top, a ``cli.py`` imports only modules that every command needs. A command imports its other modules when it runs.
Therefore the tuner never loads Spark, and `--help` is fast.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from types import FrameType
from typing import Annotated, NoReturn

import typer

from rheostat.config import cli as config
from rheostat.console.help_form import PlainGroup
from rheostat.console.output import out, tell
from rheostat.declaration import with_example
from rheostat.demo import cli as demo
from rheostat.doctor import cli as doctor
from rheostat.errors import (
    EXIT_BAD_INPUT,
    EXIT_CODES,
    EXIT_DONE,
    EXIT_FAULT,
    EXIT_INTERRUPTED,
    EXIT_OUTPUT_CLOSED,
    CommandError,
)
from rheostat.fetchers import cli as fetchers
from rheostat.history import cli as history
from rheostat.journal import cli as journal
from rheostat.lab import cli as lab
from rheostat.limits import cli as limits
from rheostat.orders import cli as orders
from rheostat.plan import cli as plan
from rheostat.quotas import cli as quotas
from rheostat.reassign import cli as reassign
from rheostat.renamed import TAKES_ANY_ARGUMENTS, refuse_move
from rheostat.replay import cli as replay
from rheostat.run import cli as run
from rheostat.signals import cli as signals
from rheostat.simulate import cli as simulate
from rheostat.status import cli as status
from rheostat.throttles import cli as throttles

_WATCH, _PLAN, _ACT, _RUN, _TRY = "Watch", "Plan", "Act", "Run", "Try"  # Panels of `--help`.

app = typer.Typer(
    name="rheostat",
    cls=PlainGroup,
    help="Adjusts Kafka's replication throttles continuously, so that reassignments finish with little effect on clients.",
    epilog="Exit codes of all commands: "
    + "; ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items())
    + ".",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_given: bool) -> None:
    if is_given:
        from importlib.metadata import version

        out(f"rheostat {version('rheostat')}")
        raise typer.Exit


@app.callback()
def rheostat(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="print the version and exit")
    ] = False,
) -> None:
    """Declares the options that stand before a command. The callback of --version prints the version and ends the program."""


# In the order of `--help`. Groups stand after the commands of their panel.
for panel, command, example in (
    (_WATCH, status.status, "rheostat status --watch"),
    (_WATCH, signals.signals, "rheostat signals --kind broker --broker 1"),
    (_WATCH, history.history, "rheostat history --since 7d --plot week.svg"),
    (_WATCH, doctor.doctor, "rheostat doctor --config rheostat.yaml"),
    (_PLAN, simulate.simulate, "rheostat simulate broker-add --plot run.svg"),
    (_PLAN, fetchers.fetchers, "rheostat fetchers --measure-for 30s"),
    (_ACT, orders.pause, "rheostat pause"),
    (_ACT, orders.resume, "rheostat resume"),
    (_ACT, orders.override, "rheostat override --broker 3 --throttle 50MB/s --for 30m"),
    (_ACT, orders.release, "rheostat release"),
    (_RUN, run.run, "rheostat run --config rheostat.yaml --dry-run"),
    (_RUN, run.collect, "rheostat collect --wait-for-cluster"),
    (_RUN, run.stream, "rheostat stream --master spark://spark-1:7077"),
    (_RUN, run.tune, "rheostat tune --dry-run"),
    (_RUN, run.learn, "rheostat learn --wait-for-cluster"),
    (_TRY, demo.demo, "rheostat demo --keep"),
    (_TRY, replay.replay, "rheostat replay --from -2h"),
):
    # These commands are about all clusters of the settings file, so they have no option --cluster.
    all_clusters = command in (run.run, run.collect, run.stream, run.learn)
    app.command(rich_help_panel=panel, **with_example(example, all_clusters=all_clusters))(command)
for panel, name, group in (
    (_WATCH, "throttles", throttles.app),
    (_WATCH, "journal", journal.app),
    (_PLAN, "plan", plan.app),
    (_PLAN, "limits", limits.app),
    (_PLAN, "quotas", quotas.app),
    (_ACT, "reassign", reassign.app),
    (_RUN, "config", config.app),
    (_TRY, "lab", lab.app),
):
    app.add_typer(group, name=name, rich_help_panel=panel)
app.command("move", hidden=True, context_settings=TAKES_ANY_ARGUMENTS)(refuse_move)


_STDOUT = 1


def _exit_on_signal(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001 - signature of a signal handler
    if number == signal.SIGHUP:  # Both the kernel and the shell send SIGHUP when a terminal closes.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    raise SystemExit(128 + number)


def main() -> None:
    """Runs the command line. SIGTERM and SIGHUP become exceptions, like Ctrl-C, so that ``with`` blocks clean up."""
    signal.signal(signal.SIGTERM, _exit_on_signal)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup ignores SIGHUP; then it stays ignored.
        signal.signal(signal.SIGHUP, _exit_on_signal)
    try:
        code = app(standalone_mode=False)
    except CommandError as error:
        tell(str(error))
        sys.exit(error.exit_code)
    except typer.Exit as exit_request:
        sys.exit(exit_request.exit_code)
    except typer.Abort:
        sys.exit(EXIT_INTERRUPTED)
    except (KeyboardInterrupt, EOFError):
        tell("interrupted")
        sys.exit(EXIT_INTERRUPTED)
    except SystemExit as exit_request:
        # If the reader of the output (head, less) closes it, typer and rich exit with 1, which has another meaning here.
        if not isinstance(exit_request.__context__, BrokenPipeError):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), _STDOUT)  # Otherwise Python reports an error when it closes stdout.
        sys.exit(EXIT_OUTPUT_CLOSED)
    except Exception as error:  # noqa: BLE001 - reported with its traceback and its own exit code
        # Click's errors about arguments have ``show``; any other exception is a fault of rheostat.
        show = getattr(error, "show", None)
        if show is None:
            tell(traceback.format_exc().rstrip())
            sys.exit(EXIT_FAULT)
        show()
        sys.exit(getattr(error, "exit_code", EXIT_BAD_INPUT))
    sys.exit(code if isinstance(code, int) else EXIT_DONE)
