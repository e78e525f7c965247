"""Declares `rheostat run`, which runs all long-running processes, and `collect`, `stream`, `tune` and `learn`, which run one."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from rheostat.options import Config, DryRun, WaitForCluster


def run(config: Config, dry_run: DryRun = False) -> None:
    """Runs the four processes of rheostat (collector, stream, tuner and learn), and restarts each process that ends."""
    from rheostat.config.change_watch import ConfigWatch
    from rheostat.config.settings import load_file
    from rheostat.console.logs import set_up_logs
    from rheostat.run.address_file import forget_addresses
    from rheostat.run.part_reports import PartReports
    from rheostat.run.probe_clusters import probe_clusters
    from rheostat.run.service_manager import ServiceManager
    from rheostat.run.services import announce_mode, stop_on_signals, with_dry_run
    from rheostat.run.sighup import reload_on_hangup
    from rheostat.run.supervisor import SHARED_PARTS, Supervisor, children_for, tuner_names
    from rheostat.run.work_reporter import WorkReporter

    settings = load_file(config)
    set_up_logs(level=settings.log.level)
    manager = ServiceManager.from_environment(os.environ)
    for cluster in settings.for_each_cluster():
        announce_mode(with_dry_run(cluster) if dry_run else cluster)
    stop = stop_on_signals()
    probe_clusters(settings)
    forget_addresses()
    reports = PartReports(required=SHARED_PARTS, tuners=tuner_names(settings.clusters))
    reports.on_reload = lambda begins: manager.reloading() if begins else manager.ready(reports.status)
    children = children_for(config, dry_run=dry_run, learn=settings.learn.enabled, clusters=settings.clusters)
    supervisor = Supervisor(children, reports=reports)
    reporter = WorkReporter(manager, reports, stop)
    reporter.start()
    watch = ConfigWatch(config, os.environ, settings, part="run")
    watch.serve_reloads()

    def reload_all() -> None:
        watch.request_reload()
        for child in supervisor.children:
            supervisor.send_signal(child.name, signal.SIGHUP)

    reload_on_hangup(reload_all, stop)
    supervisor.run(stop)
    reporter.close()
    reports.close()


def collect(config: Config, wait: WaitForCluster = False) -> None:
    """Runs only the collector, which reads metrics from the brokers and writes them to the metrics topic."""
    _run_part("collect", config, wait)


def stream(
    config: Config,
    wait: WaitForCluster = False,
    master: Annotated[
        str | None,
        typer.Option(
            "--master",
            metavar="URL",
            help="the Spark master, instead of the setting stream.master; for example local or spark://host:port",
        ),
    ] = None,
    spark_submit: Annotated[
        bool,
        typer.Option(
            "--spark-submit", help="print the command that starts the stream with spark-submit, and start nothing"
        ),
    ] = False,
) -> None:
    """Runs only the stream, a Spark query that computes signals from the metrics topics and writes them to the signals topic."""
    # The option is passed as an environment variable, so that it is validated together with the other settings.
    variables = {"RHEOSTAT_STREAM__MASTER": master} if master else {}
    if spark_submit:
        from rheostat.config.settings import load_settings
        from rheostat.console.output import out
        from rheostat.jvm.kernel import stream_jars
        from rheostat.run.submit_command import submit_command

        stream_settings = load_settings(config, {**os.environ, **variables}).stream
        out(submit_command(stream_settings, stream_jars(), config, master))
        return
    _run_part("stream", config, wait, variables=variables)


def tune(config: Config, wait: WaitForCluster = False, dry_run: DryRun = False) -> None:
    """Runs only the tuner, which reads the signals, decides, and sets throttles and quotas."""
    _run_part("tune", config, wait, dry_run=dry_run)


def learn(config: Config, wait: WaitForCluster = False) -> None:
    """Runs only learn, which computes forecasts and usual values of each broker from the history topic."""
    _run_part("learn", config, wait)


def _run_part(
    name: str, config: Path, wait: bool, *, dry_run: bool = False, variables: dict[str, str] | None = None
) -> None:
    """Runs one process until it is stopped.

    Args:
        name: "collect", "stream", "tune" or "learn". The tuner serves one cluster, the others all clusters.
        wait: wait until the cluster answers, instead of ending with an error.
        variables: environment variables that are added for the settings.
    """
    from rheostat.config.change_watch import ConfigWatch
    from rheostat.config.settings import load_file, load_settings
    from rheostat.console.logs import set_up_logs
    from rheostat.errors import ThreadEndedError
    from rheostat.run import services
    from rheostat.run.service_manager import ServiceManager
    from rheostat.run.sighup import reload_on_hangup
    from rheostat.run.work_reporter import WorkReporter
    from streaming.shared.heartbeat import Heartbeat
    from streaming.shared.thread_watch import ThreadWatch

    environ = {**os.environ, **(variables or {})}
    settings = (load_settings if name == "tune" else load_file)(config, environ)
    watch = ConfigWatch(config, environ, settings, part=name)
    if dry_run:
        settings = services.with_dry_run(settings)
    set_up_logs(level=settings.log.level, cluster=settings.cluster, part=name)
    if name == "tune":
        services.announce_mode(settings)
    stop = services.stop_on_signals()
    threads = ThreadWatch(on_vital_end=stop.set)
    threads.install()
    manager = ServiceManager.from_environment(os.environ)
    if wait:
        services.check_files(settings)
    else:
        services.probe(settings)
    watch.serve_reloads()
    reload_on_hangup(watch.request_reload, stop)
    if name == "tune":
        services.run_tune(settings, stop, watch, threads, manager)
    else:
        run_part = _part(name)
        heartbeat = Heartbeat()
        reporter = WorkReporter(manager, heartbeat, stop)
        reporter.start()
        run_part(settings, stop, heartbeat, watch.state, threads)
        if stop.is_set():
            reporter.close()
    if threads.vital_end is not None:
        raise ThreadEndedError(f"`rheostat {name}` has ended because its HTTP server ended: {threads.vital_end}.")


def _part(name: str) -> Callable[..., None]:
    """Returns the function that runs a part. It imports only the libraries of this part.

    Raises:
        SetupError: a library is missing.
    """
    from rheostat.errors import SetupError

    if name == "collect":
        from rheostat.run.collect_service import run_collect

        return run_collect
    if name == "learn":
        try:
            from rheostat.run.learn_service import run_learn
        except ImportError as error:
            raise SetupError(
                f"`rheostat learn` cannot load a library: {error}. Install rheostat again, or set learn.enabled: false."
            ) from error
        return run_learn
    from rheostat.run.stream_service import run_stream

    return run_stream
