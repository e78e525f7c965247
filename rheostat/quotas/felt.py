"""How long creations take for whoever asks, for a command that runs for a moment: some fifty are asked for, one after another."""

from __future__ import annotations

import random
import time

from rheostat.settings import Settings
from streaming.kafka.cluster import ClusterError
from streaming.kafka.creation_asker import CreationAsker
from tuner.model.felt_window import COUNT_MIN, WINDOW_S, Asked, FeltWindow

_COUNT = COUNT_MIN + 10
_PAUSE_S = 0.05


def felt_now_ms(settings: Settings) -> float | None:
    """None: nobody asks for it, or too few were answered."""
    asked_for = settings.tuner.mutation_quota
    if asked_for is None or asked_for.objective.create_felt_ms_max is None:
        return None
    asker = CreationAsker(settings.kafka, "rheostat-quotas-felt", settings.topic_names().journal)
    try:
        return _felt_ms(asker)
    except ClusterError:
        # The table says that it is not counted.
        return None
    finally:
        asker.close()


def _felt_ms(asker: CreationAsker) -> float | None:
    began_s = time.monotonic()
    window = FeltWindow()
    # Whoever has no connection yet would feel how long that takes.
    met = [broker.node for broker in asker.brokers() if asker.ask(broker.node) is None]
    for n in range(_COUNT if met else 0):
        if time.monotonic() - began_s > WINDOW_S / 2:
            break
        time.sleep(random.uniform(0.5, 1.5) * _PAUSE_S)
        asked_s = time.monotonic()
        if asker.ask(met[n % len(met)]) is None:
            window.add(Asked(asked_s, time.monotonic() - asked_s, met[n % len(met)]), every_s=float("inf"))
    felt_s = window.felt_s(time.monotonic())
    return None if felt_s is None else 1000 * felt_s
