"""Builds the clients of services outside rheostat: the checks of ``tuner.vetoes`` and the webhooks."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import ExitStack

from streaming.shared.teardown import named_teardown
from tuner.api.external_status_store import ExternalStatusStore
from tuner.core.vetoes import Veto
from tuner.runtime.clock import Clock
from tuner.runtime.external.veto_watch import VetoWatch
from tuner.runtime.external.webhooks import Webhooks
from tuner.settings.tuner import TunerSettings
from tuner.wiring.status import StatusStores


def veto_watch(
    cleanups: ExitStack, settings: TunerSettings, status: ExternalStatusStore, clock: Clock
) -> Callable[[], tuple[Veto, ...]]:
    """Starts the checks of one leadership term. Returns a function that returns the vetoes in force."""
    if not settings.vetoes:
        return tuple
    rate_min = round(settings.rate_bytes_per_s_min)
    watch = VetoWatch(settings.vetoes, rate_min, clock.monotonic_s, status.count_failure)
    watch.start()
    status.reports = watch.reports

    def end() -> None:
        status.reports = tuple
        watch.stop()

    cleanups.callback(named_teardown("vetoes", end))
    return watch.current


def tuner_webhooks(cleanups: ExitStack, cluster: str, status: StatusStores) -> Webhooks:
    """Returns the webhooks of the process; each leadership term configures them with its settings."""
    webhooks = Webhooks(cluster, status.external.count_delivery, make_id=lambda: str(uuid.uuid4()))
    status.observers.listeners.append(webhooks)
    status.external.queue_lengths = webhooks.queue_lengths
    cleanups.callback(named_teardown("webhooks", webhooks.stop))
    return webhooks
