"""The long-running parts: all of them under one supervisor, or one at a time."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Annotated

import typer

from rheostat.options import Config, DryRun, Wait


def run(config: Config, dry_run: DryRun = False) -> None:
    """Collector, stream and tuner for an existing cluster, supervised."""
    from rheostat.config.settings import load_settings
    from rheostat.console.logs import set_up_logs
    from rheostat.run.services import announce_mode, probe, stop_on_signals, with_dry_run
    from rheostat.run.sighup import heed_hangup
    from rheostat.run.supervisor import Supervisor, children_for

    settings = load_settings(config)
    set_up_logs()
    announce_mode(with_dry_run(settings).tuner if dry_run else settings.tuner)
    stop = stop_on_signals()
    probe(settings)
    supervisor = Supervisor(children_for(config, dry_run=dry_run))
    # The tuner alone can take up other settings while it runs.
    heed_hangup(lambda: supervisor.tell("tune", signal.SIGHUP), stop)
    supervisor.run(stop)


def collect(config: Config, wait: Wait = False) -> None:
    """Only the collector: brokers → metrics topic."""
    _part("collect", config, wait)


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


def tune(config: Config, wait: Wait = False, dry_run: DryRun = False) -> None:
    """Only the tuner: signals → decisions → throttles."""
    _part("tune", config, wait, dry_run)


def _part(name: str, config: Path, wait: bool, dry_run: bool = False, given: dict[str, str] | None = None) -> None:
    from rheostat.config.change_watch import ConfigWatch
    from rheostat.config.settings import load_settings
    from rheostat.console.logs import set_up_logs
    from rheostat.errors import ThreadEndedError
    from rheostat.run import services
    from rheostat.run.sighup import heed_hangup
    from streaming.shared.thread_watch import ThreadWatch

    environ = {**os.environ, **(given or {})}
    settings = load_settings(config, environ)
    watch = ConfigWatch(config, environ, settings)
    if dry_run:
        settings = services.with_dry_run(settings)
    set_up_logs(cluster=settings.cluster, part=name)
    if name == "tune":
        services.announce_mode(settings.tuner)
    stop = services.stop_on_signals()
    threads = ThreadWatch(on_vital_end=stop.set)
    threads.install()
    if not wait:
        services.probe(settings)
    if name == "tune":
        watch.serve_reloads()
        heed_hangup(watch.ask, stop)
        services.run_tune(settings, stop, watch, threads)
    elif name == "collect":
        from rheostat.run.collect_service import run_collect

        run_collect(settings, stop, watch.state, threads)
    else:
        from rheostat.run.stream_service import run_stream

        run_stream(settings, stop, watch.state, threads)
    if threads.vital_end is not None:
        raise ThreadEndedError(
            f"`rheostat {name}` has ended, as it does not go on without its HTTP server: {threads.vital_end}."
        )
