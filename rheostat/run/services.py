"""Runs the tuner as a process, and provides the functions that all long-running processes use at their start.

The other processes are in collect_service.py, stream_service.py and learn_service.py.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Collection
from contextlib import ExitStack
from types import FrameType

import structlog
from prometheus_client import CollectorRegistry

from rheostat.config.change_watch import ConfigWatch
from rheostat.config.settings import Settings
from rheostat.connectivity.advice import failure_text, is_connected, remedies
from rheostat.connectivity.probe import probe_servers
from rheostat.errors import BadInputError, CommandError, SetupError, UnreachableError
from rheostat.run.address_file import write_address
from rheostat.run.service_manager import ServiceManager
from rheostat.run.sighup import SettingsReloads
from rheostat.run.work_reporter import WorkReporter
from streaming.metrics_server import serve
from streaming.shared.heartbeat import Heartbeat
from streaming.shared.kafka import KafkaSettings
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.kafka.settings import PemError
from streaming.shared.metrics_settings import MetricsHttpSettings
from streaming.shared.process_metrics import ProcessMetricsCollector
from streaming.shared.thread_watch import ThreadWatch
from streaming.shared.topics import ensure_topics
from tuner.core.dry_run_notice import dry_run_notice

PROBE_S_MAX = 5.0  # With this limit an operator gets an answer within 10 s, including the start of Python.
_RETRY_S_MAX = 30.0
_REQUESTS_MAX = 20  # One attempt to create or check the topics makes fewer requests.


def stop_on_signals() -> threading.Event:
    """Returns an event that SIGTERM and SIGINT set."""
    stop = threading.Event()

    def set_stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - signature of a signal handler
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, set_stop)
    return stop


def with_dry_run(settings: Settings) -> Settings:
    """Returns the settings with ``tuner.dry_run: true``, for the option ``--dry-run``."""
    return settings.model_copy(update={"tuner": settings.tuner.model_copy(update={"dry_run": True})})


def announce_mode(settings: Settings) -> None:
    """Logs whether the tuner of this cluster acts, and within which rates."""
    tuner, log = settings.tuner, structlog.get_logger("start")
    if settings.other_pages:
        log = log.bind(cluster=settings.cluster)
    if tuner.dry_run:
        log.warning(dry_run_notice(by_default=tuner.dry_run_by_default))
    else:
        log.info(
            "Starting. The tuner acts once it has the lease.",
            rate_bytes_per_s_min=tuner.rate_bytes_per_s_min,
            rate_bytes_per_s_max=tuner.rate_bytes_per_s_max,
        )


def check_files(settings: Settings) -> None:
    """Checks that the files of ``kafka.ssl_*`` of each cluster can be read. If not, a restart or a longer wait would not help.

    Raises:
        BadInputError: a file cannot be read.
    """
    _check_files(settings.kafka)
    for name, cluster in settings.clusters.items():
        _check_files(cluster.kafka, f"clusters.{name}.")


def _check_files(kafka: KafkaSettings, section: str = "") -> None:
    try:
        kafka.check_files()
    except PemError as error:
        raise BadInputError(f"{section}{error}") from error


def probe(settings: Settings) -> None:
    """Checks once that the watched cluster answers. Raises as ``probe_kafka`` does."""
    probe_kafka(settings.kafka)


def probe_kafka(kafka: KafkaSettings) -> None:
    """Checks once that a cluster answers, so that a wrong address ends the start with an error.

    Raises:
        BadInputError: a certificate or the key of ``kafka`` cannot be read.
        UnreachableError: no broker answers, or access is denied.
    """
    _check_files(kafka)
    timeout_s = min(PROBE_S_MAX, kafka.request_timeout_s)
    # The probe comes before kafka-python, which names no cause and waits forever for a TLS handshake.
    results = probe_servers(kafka, connect_s_max=timeout_s, answer_s_max=timeout_s)
    if not is_connected(results):
        raise UnreachableError(
            f"No broker answers at {kafka.bootstrap_servers} ({failure_text(results)}). To do: {remedies(results, 'kafka')}. "
            "`rheostat doctor` examines this further."
        )
    with ClusterClient(kafka.model_copy(update={"request_timeout_s": timeout_s}), "rheostat-probe") as client:
        try:
            client.brokers()
        except ClusterError as error:
            raise UnreachableError(
                f"A bootstrap server answers, but: {error}. Compare the brokers' advertised.listeners with what can be reached "
                "from here. `rheostat doctor` examines this further."
            ) from error


def until_topics(settings: Settings, stop: threading.Event, used: Collection[str], heartbeat: Heartbeat) -> None:
    """Creates or checks rheostat's topics; waits, with back-off, until the cluster answers.

    Args:
        used: the topics that the caller uses.
    """
    log = structlog.get_logger("start")
    wait_s = 1.0
    attempt_s_max = _RETRY_S_MAX + _REQUESTS_MAX * settings.kafka.request_timeout_s
    with ClusterClient(settings.kafka, "rheostat-start") as client:
        while not stop.is_set():
            try:
                for complaint in ensure_topics(client, settings.topic_names(), used):
                    log.warning(complaint)
                return
            except ClusterError as error:
                log.error("the cluster does not answer; trying again", error=str(error), in_s=wait_s)
                heartbeat.beat(attempt_s_max, f"waits for the cluster: {error}")
                stop.wait(wait_s)
                wait_s = min(_RETRY_S_MAX, wait_s * 2)


def serve_metrics(
    stack: ExitStack, section: str, http: MetricsHttpSettings, registry: CollectorRegistry, heartbeat: Heartbeat
) -> dict[str, str]:
    """Serves metrics and health of a process until ``stack`` is closed.

    Args:
        section: the section of the settings with ``http``: collector, stream or learn.

    Returns:
        The URL as a log field; empty if the settings name no port.

    Raises:
        SetupError: the process cannot listen on the address.
    """
    host, port = http.host, http.port
    if port is None:
        return {}
    try:
        server = serve(registry, host, port, http.token, heartbeat)
    except OSError as error:
        raise SetupError(
            f"The {section} process cannot listen on {host}:{port}: {error.strerror or error}. Stop the process that listens "
            f"there, or set {section}.http.port (or host)."
        ) from error
    stack.callback(server.close)
    return {"http": f"http://{host}:{server.port}/metrics"}


def run_tune(
    settings: Settings,
    stop: threading.Event,
    watch: ConfigWatch | None = None,
    threads: ThreadWatch | None = None,
    manager: ServiceManager | None = None,
) -> None:
    """Runs the tuner until ``stop`` is set.

    Args:
        watch: watches the settings file; None if no file is watched or reloaded.
        threads: reports threads that end because of an error; None if they are not reported.
        manager: the service manager that started this process; None if there is none.
    """
    from rheostat.reassign.page_service import PagePlanService
    from tuner.api.auth import CredentialsError
    from tuner.api.health import TunerHealth
    from tuner.api.server import HttpServer
    from tuner.app import JournalError, PortError, TunerHooks, run_tuner
    from tuner.runtime.reload import NoReloads

    state = watch.state if watch is not None else None

    reporters: list[WorkReporter] = []

    def started(server: HttpServer, health: TunerHealth) -> None:
        if manager is not None:
            reporters.append(WorkReporter(manager, health, stop))
            reporters[0].start()
        structlog.get_logger("start").info(f"The status page is at {settings.tuner.http.address(server.port)}")
        if watch is not None:
            write_address(settings.tuner.http, server.port, settings.cluster if settings.other_pages else None)
            watch.after_reload(server.reload_certificate)
            if manager is not None:
                watch.before_reload(manager.reloading)
                watch.after_reload(lambda: manager.ready(health.status))

    try:
        run_tuner(
            settings.cluster,
            settings.kafka,
            settings.topic_names(),
            settings.tuner,
            stop,
            metrics_kafka=settings.metrics_kafka,
            other_pages=settings.other_pages,
            partition_limits=settings.limits.limits(),
            hooks=TunerHooks(
                process_metrics=ProcessMetricsCollector(settings.cluster, "tune", state, threads=threads),
                reloads=SettingsReloads(watch, dry_run=settings.tuner.dry_run) if watch is not None else NoReloads(),
                on_started=started,
                threads=threads,
                plan_service=PagePlanService(settings),
            ),
        )
    except JournalError as error:
        raise CommandError(f"The tuner cannot start: {error}") from error
    except CredentialsError as error:
        raise BadInputError(f"The tuner does not start: {error}; see tuner.http.") from error
    except PortError as error:
        raise SetupError(f"The tuner cannot listen on {error}: set tuner.http.port.") from error
    finally:
        if stop.is_set():
            for reporter in reporters:
                reporter.close()
