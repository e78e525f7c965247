"""The program. Each command imports what it needs when it runs, so that the tuner never loads Spark."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

from rheostat import units
from rheostat.errors import EXIT_BAD_INPUT, EXIT_DONE, EXIT_NOT_WELL, CommandError

app = typer.Typer(
    name="rheostat",
    help="Keeps turning Kafka's replication throttles, so that reassignments finish and clients don't notice.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
lab_app = typer.Typer(help="A real Kafka cluster on this machine.", no_args_is_help=True)
config_app = typer.Typer(help="The settings file.", no_args_is_help=True)
app.add_typer(lab_app, name="lab")
app.add_typer(config_app, name="config")

Config = Annotated[Path, typer.Option("--config", "-c", envvar="RHEOSTAT_CONFIG", help="the settings file")]
Json = Annotated[bool, typer.Option("--json", help="one JSON value on stdout, nothing else there")]
Wait = Annotated[bool, typer.Option("--wait", help="wait for a cluster that does not answer, instead of exit code 3")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="decide and journal, write nothing to the cluster")]


class Kind(StrEnum):
    BROKER = "broker"
    MOVE = "move"
    CONTROLLER = "controller"
    TENANT = "tenant"


def _amount(parse: Callable[[str], float], help: str, metavar: str) -> Any:
    """An option read by ``parse``, whose complaint is shown whole."""

    def read(text: str) -> float:
        try:
            return parse(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error

    return typer.Option(parser=read, help=help, metavar=metavar)


def _out(text: str) -> None:
    sys.stdout.write(text + "\n")


@app.command()
def demo(
    as_json: Json = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="leave the cluster up afterwards, and say how to look around")
    ] = False,
) -> None:
    """A stalled reassignment on a real cluster is found, explained and rescued. About two minutes."""
    from rheostat.demo.story import run_demo

    raise typer.Exit(run_demo(as_json=as_json, keep=keep))


@app.command()
def run(config: Config, dry_run: DryRun = False) -> None:
    """Collector, stream and tuner for an existing cluster, supervised."""
    from rheostat.logs import set_up_logs
    from rheostat.services import probe, stop_on_signals
    from rheostat.settings import load_settings
    from rheostat.supervisor import Supervisor, children_for

    settings = load_settings(config)
    set_up_logs()
    stop = stop_on_signals()
    probe(settings)
    Supervisor(children_for(config, dry_run=dry_run)).run(stop)


def _part(name: str, config: Path, wait: bool, dry_run: bool = False, given: dict[str, str] | None = None) -> None:
    from rheostat import services
    from rheostat.logs import set_up_logs
    from rheostat.settings import load_settings

    settings = load_settings(config, {**os.environ, **(given or {})})
    if dry_run:
        settings = settings.model_copy(update={"tuner": settings.tuner.model_copy(update={"dry_run": True})})
    set_up_logs()
    stop = services.stop_on_signals()
    if not wait:
        services.probe(settings)
    {"collect": services.run_collect, "stream": services.run_stream, "tune": services.run_tune}[name](settings, stop)


@app.command()
def collect(config: Config, wait: Wait = False) -> None:
    """Only the collector: brokers → metrics topic."""
    _part("collect", config, wait)


@app.command()
def stream(
    config: Config,
    wait: Wait = False,
    master: Annotated[
        str | None, typer.Option("--master", help="local, or spark://host:port; wins over stream.master")
    ] = None,
) -> None:
    """Only the stream: metrics topics → signals topic (Spark)."""
    # As if it stood in the environment, so that it is checked with the rest.
    _part("stream", config, wait, given={"RHEOSTAT_STREAM__MASTER": master} if master else None)


@app.command()
def tune(config: Config, wait: Wait = False, dry_run: DryRun = False) -> None:
    """Only the tuner: signals → decisions → throttles."""
    _part("tune", config, wait, dry_run)


@app.command()
def status(config: Config, as_json: Json = False) -> None:
    """Brokers, throttles, moves, last decisions. Exit code 1 while a move is stuck and turning its throttle cannot help."""
    from rich.console import Console

    from rheostat.logs import set_up_logs
    from rheostat.settings import load_settings
    from rheostat.status import gather, show, stuck

    set_up_logs()
    found = gather(load_settings(config))
    if as_json:
        _out(json.dumps(found, indent=2))
    else:
        show(found, Console())
    raise typer.Exit(EXIT_NOT_WELL if stuck(found) else EXIT_DONE)


@app.command()
def signals(
    config: Config,
    kind: Annotated[
        list[Kind] | None,
        typer.Option("--kind", help="only signals of this kind; may stand several times"),
    ] = None,
    node: Annotated[
        list[int] | None,
        typer.Option("--node", "--broker", help="only signals of this broker or controller; may stand several times"),
    ] = None,
    all_clusters: Annotated[
        bool, typer.Option("--all-clusters", help="also those of other clusters than the settings' own")
    ] = False,
    as_json: Json = False,
    watch: Annotated[bool, typer.Option("--watch", help="again every 2 s, until Ctrl-C")] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="each record as it comes, one JSON value a line, until Ctrl-C")
    ] = False,
    wait_s: Annotated[
        float | None,
        typer.Option(
            "--wait",
            min=0,
            metavar="S",
            help="take in more for so many seconds first; ends --watch and --raw after them",
        ),
    ] = None,
) -> None:
    """The live signals as the tuner sees them, without a tuner. Exit code 1 when there are none, or all are stale."""
    if sum((as_json, watch, raw)) > 1:
        raise typer.BadParameter("only one of them at a time", param_hint="--json, --watch, --raw")

    from rheostat import signals as live
    from rheostat.logs import set_up_logs
    from rheostat.settings import load_settings

    set_up_logs()
    settings = load_settings(config)
    wanted = live.Wanted(None if all_clusters else settings.cluster, frozenset(kind or ()), frozenset(node or ()))
    if raw:
        raise typer.Exit(live.follow(settings, wanted, wait_s))
    if watch:
        raise typer.Exit(live.watch(settings, wanted, wait_s))
    raise typer.Exit(live.look(settings, wanted, wait_s or 0.0, as_json=as_json))


@app.command()
def plan(
    plan_file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[PLAN.json]", help="as kafka-reassign-partitions takes it; without one: what is moving now"
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", "-c", envvar="RHEOSTAT_CONFIG", help="the settings file: figures from the live cluster"
        ),
    ] = None,
    current: Annotated[
        Path | None,
        typer.Option("--current", help="a file that says how partitions stand now, in place of the live cluster"),
    ] = None,
    rate: Annotated[
        float | None, _amount(units.positive(units.parse_rate), "how long does it take at this rate?", "RATE")
    ] = None,
    within: Annotated[float | None, _amount(units.parse_span, "what rate does it take to end in time?", "TIME")] = None,
    share: Annotated[
        float | None, _amount(units.parse_share, "at most this share of --capacity, e.g. 10%", "SHARE")
    ] = None,
    capacity: Annotated[
        float | None, _amount(units.positive(units.parse_rate), "what one broker carries in one direction", "RATE")
    ] = None,
    size: Annotated[
        float | None, _amount(units.parse_bytes, "of each partition for which --current says none", "SIZE")
    ] = None,
    write_rate: Annotated[
        float | None, _amount(units.parse_rate, "to each partition, where --current says none, or unwatched", "RATE")
    ] = None,
    watch_s: Annotated[
        float, typer.Option("--watch-s", min=1, help="how long the live cluster's logs are watched for write rates")
    ] = 10.0,
    move_ratio: Annotated[
        float | None, _amount(units.parse_share, "KIP-73: partitions to move ÷ all partitions", "SHARE")
    ] = None,
    log_size_per_broker: Annotated[
        float | None, _amount(units.parse_bytes, "KIP-73: TotalLogSizePerBroker", "SIZE")
    ] = None,
    brokers: Annotated[int | None, typer.Option("--brokers", min=1, help="KIP-73: #Brokers")] = None,
    bytes_in_max: Annotated[
        float | None, _amount(units.parse_rate, "KIP-73: max(BytesInPerSec), what clients write", "RATE")
    ] = None,
    response_max: Annotated[
        float | None, _amount(units.positive(units.parse_bytes), "replica.fetch.response.max.bytes", "SIZE")
    ] = None,
    network: Annotated[
        float | None,
        _amount(units.positive(units.parse_rate), "speed of a broker's network, for the response rule", "RATE"),
    ] = None,
    window: Annotated[float | None, _amount(units.parse_span, "the replication quota's window, 11 s", "TIME")] = None,
    as_json: Json = False,
) -> None:
    """How long a move takes, or which rate ends it in time (KIP-73). Exit code 1 when what was asked can't be had."""
    from rheostat.logs import set_up_logs
    from rheostat.plan.command import run_plan
    from rheostat.plan.report import Asked
    from rheostat.plan.sources import Given

    set_up_logs()
    asked = Asked(rate, within, share, capacity, network)
    given = Given(size, write_rate, move_ratio, log_size_per_broker, brokers, bytes_in_max, response_max, window)
    raise typer.Exit(
        run_plan(asked, given, plan=plan_file, config=config, current=current, watch_s=watch_s, as_json=as_json)
    )


@app.command()
def simulate(
    scenario: Annotated[
        str | None, typer.Argument(metavar="[SCENARIO]", help="a file, or the name of one that --list shows")
    ] = None,
    policy: Annotated[
        str, typer.Option("--policy", help="rheostat; static:RATE; as-is: what stands stays; none: no throttle")
    ] = "rheostat",
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="in place of the scenario's own")] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="draw rates, throttles, lag and latency over time (SVG)")
    ] = None,
    as_json: Json = False,
    list_them: Annotated[bool, typer.Option("--list", help="the scenarios that come with rheostat")] = False,
) -> None:
    """What would happen: a made-up cluster, the real decisions. Exit code 1 when the moves do not end (in time)."""
    from rheostat.simulate import command

    if list_them:
        raise typer.Exit(command.list_scenarios(as_json=as_json))
    if scenario is None:
        raise command.missing()
    raise typer.Exit(command.run_simulate(scenario, policy=policy, seed=seed, plot=plot, as_json=as_json))


@app.command()
def doctor(
    config: Config,
    as_json: Json = False,
    fetch: Annotated[bool, typer.Option("--fetch", help="fetch the JVM artifacts now, if they are missing")] = False,
) -> None:
    """Checks Java, artifacts, reachability and rights, and says what to do about each failure."""
    from rich.console import Console

    from rheostat import doctor as checks
    from rheostat.jvm.artifacts import resolve_artifacts
    from rheostat.logs import set_up_logs
    from rheostat.settings import load_settings

    set_up_logs()
    settings = load_settings(config)
    if fetch:
        resolve_artifacts(lambda line: typer.echo(line, err=True))
    findings = []
    console = Console(stderr=as_json)
    marks = {"ok": "[green]ok[/]    ", "advice": "[yellow]advice[/]", "failed": "[red]FAILED[/]"}
    for finding in checks.examine(settings):
        findings.append(finding)
        console.print(f"{marks[finding.verdict]} {finding.check}: {finding.found}", highlight=False, soft_wrap=True)
        if finding.do and finding.verdict != "ok":
            console.print(f"         → {finding.do}", highlight=False, soft_wrap=True)
    if as_json:
        _out(json.dumps(checks.as_json(findings), indent=2))
    raise typer.Exit(checks.exit_code(findings))


@config_app.command("check")
def config_check(config: Config) -> None:
    """Exit code 0 when the file is fine, 2 with every fault named otherwise."""
    from rheostat.settings import load_settings

    load_settings(config)
    _out(f"{config}: fine")


@config_app.command("show")
def config_show(config: Config) -> None:
    """The settings in force, defaults and environment included, passwords hidden; JSON."""
    from rheostat.settings import load_settings

    _out(load_settings(config).model_dump_json(indent=2))


@config_app.command("reference")
def config_reference(
    check: Annotated[Path | None, typer.Option("--check", help="exit code 1 when this file is not current")] = None,
) -> None:
    """Every key with its type, default and meaning, as Markdown."""
    from rheostat.reference import reference

    text = reference()
    if check is None:
        _out(text.rstrip("\n"))
    elif not check.exists() or check.read_text() != text:
        raise CommandError(f"{check} is not current: make format")


@lab_app.command("up")
def lab_up(
    brokers: Annotated[int, typer.Option(min=1, max=9, help="how many brokers")] = 3,
    controllers: Annotated[int, typer.Option(help="1 or 3")] = 1,
    name: Annotated[str, typer.Option(help="labs with different names stand side by side")] = "lab",
) -> None:
    """Starts a lab and leaves it running until `rheostat lab down`."""
    from rheostat.lab import keeper

    if controllers not in (1, 3):
        raise typer.BadParameter("a lab has 1 or 3 controllers", param_hint="--controllers")
    _out(keeper.up(name, brokers, controllers))


@lab_app.command("down")
def lab_down(name: Annotated[str, typer.Option(help="as given to up")] = "lab") -> None:
    """Stops a lab and removes its data."""
    from rheostat.lab import keeper

    _out(keeper.down(name))


@lab_app.command("keep", hidden=True)
def lab_keep(name: str, brokers: int, controllers: int) -> None:
    """What `up` starts in the background: holds the lab until it is told to end."""
    from rheostat.lab import keeper

    keeper.keep(name, brokers, controllers)


def _unwind(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001 - the shape of a handler
    raise SystemExit(128 + number)


def main() -> None:
    """Entry point; every ending goes through the ``with`` blocks, SIGTERM's too."""
    signal.signal(signal.SIGTERM, _unwind)
    try:
        code = app(standalone_mode=False)
    except CommandError as error:
        typer.echo(str(error), err=True)
        sys.exit(error.exit_code)
    except typer.Exit as ending:
        sys.exit(ending.exit_code)
    except typer.Abort:
        sys.exit(130)
    except (KeyboardInterrupt, EOFError):
        typer.echo("interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read us (head, less) has enough; Python would complain while closing stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_NOT_WELL)
    except Exception as error:
        # Click's own complaints about arguments; anything else keeps its trace.
        show = getattr(error, "show", None)
        if show is None:
            raise
        show()
        sys.exit(getattr(error, "exit_code", EXIT_BAD_INPUT))
    sys.exit(code if isinstance(code, int) else EXIT_DONE)
