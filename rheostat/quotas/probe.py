"""How long creations take for whoever asks, for a command that runs for a moment: some fifty are asked for, one after another."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from rheostat.config.settings import Settings
from streaming.shared.kafka.cluster import ClusterError
from streaming.shared.kafka.controller_ping import ControllerPing
from tuner.control.mutation_quota.probe_window import COUNT_MIN, ProbeRequest, ProbeWindow
from tuner.runtime.mutation_quota.creation_probe import BROKERS_MAX, ProbeClient

_COUNT = COUNT_MIN + 10
_PAUSE_S = 0.05
_LASTS_S_MAX = 10.0


def felt_now_ms(settings: Settings) -> float | None:
    """None: nobody asks for it, or too few were answered."""
    asked_for = settings.tuner.mutation_quota
    if asked_for is None or asked_for.objective.create_probe_p90_ms_max is None:
        return None
    asker = ControllerPing(settings.kafka, "rheostat-quotas-felt", settings.topic_names().journal)
    try:
        return felt_ms(asker, rng=random.Random(), monotonic=time.monotonic, sleep=time.sleep)
    except ClusterError:
        # The table says that it is not counted.
        return None
    finally:
        asker.close()


def felt_ms(
    asker: ProbeClient, *, rng: random.Random, monotonic: Callable[[], float], sleep: Callable[[float], None]
) -> float | None:
    """
    Raises:
        ClusterError: it is not known who is there.
    """
    until_s = monotonic() + _LASTS_S_MAX
    window, met = ProbeWindow(), list[int]()
    there = [broker.node for broker in asker.brokers()]
    for broker in rng.sample(there, min(len(there), BROKERS_MAX)):
        if monotonic() < until_s and asker.connect(broker) is None:
            met.append(broker)
    for n in range(_COUNT if met else 0):
        if monotonic() >= until_s:
            break
        sleep(rng.uniform(0.5, 1.5) * _PAUSE_S)
        broker, began_s = met[n % len(met)], monotonic()
        if asker.ping(broker) is None:
            window.add(ProbeRequest(began_s, monotonic() - began_s, broker))
    felt_s = window.p90_s(monotonic())
    return None if felt_s is None else 1000 * felt_s
