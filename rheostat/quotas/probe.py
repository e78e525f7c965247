"""Measures the topic-create latency for a command that runs once: about fifty probe requests, one after another."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from rheostat.config.settings import Settings
from streaming.shared.kafka.cluster import ClusterError
from streaming.shared.kafka.controller_ping import ControllerPing
from tuner.control.mutation_quota.probe_window import COUNT_MIN, ProbeRequest, ProbeWindow
from tuner.runtime.mutation_quota.creation_probe import BROKERS_MAX, ProbeClient

_REQUESTS = COUNT_MIN + 10  # Some requests may fail, and a p90 needs at least COUNT_MIN answers.
_PAUSE_S = 0.05
_DURATION_S_MAX = 10.0


def measure_create_p90_ms(settings: Settings) -> float | None:
    """Returns the p90 latency in ms; None if no objective needs it, or too few requests were answered."""
    quota_settings = settings.tuner.mutation_quota
    if quota_settings is None or quota_settings.objective.create_probe_p90_ms_max is None:
        return None
    client = ControllerPing(settings.kafka, "rheostat-quotas-probe", settings.topic_names().journal)
    try:
        return probe_create_p90_ms(client, rng=random.Random(), monotonic=time.monotonic, sleep=time.sleep)
    except ClusterError:
        # The table says that the latency is not measured.
        return None
    finally:
        client.close()


def probe_create_p90_ms(
    client: ProbeClient, *, rng: random.Random, monotonic: Callable[[], float], sleep: Callable[[float], None]
) -> float | None:
    """Returns the p90 latency in ms; None if too few requests were answered within 10 s.

    Raises:
        ClusterError: the list of brokers cannot be read.
    """
    until_s = monotonic() + _DURATION_S_MAX
    window, connected = ProbeWindow(), list[int]()
    brokers = [broker.node for broker in client.brokers()]
    for broker in rng.sample(brokers, min(len(brokers), BROKERS_MAX)):
        if monotonic() < until_s and client.connect(broker) is None:
            connected.append(broker)
    for n in range(_REQUESTS if connected else 0):
        if monotonic() >= until_s:
            break
        sleep(rng.uniform(0.5, 1.5) * _PAUSE_S)  # Random, so that the requests do not follow a periodic load.
        broker, began_s = connected[n % len(connected)], monotonic()
        if client.ping(broker) is None:
            window.add(ProbeRequest(began_s, monotonic() - began_s, broker))
    p90_s = window.p90_s(monotonic())
    return None if p90_s is None else 1000 * p90_s
