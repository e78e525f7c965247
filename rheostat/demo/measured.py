"""Whether the stream has told of every broker yet: before that nothing is judged, so the story would have no middle."""

from __future__ import annotations

import threading
import time

from rheostat.demo.processes import DemoProcesses
from rheostat.demo.view import DemoView
from rheostat.errors import CommandError
from streaming.shared.kafka import consumer
from tuner.runtime.observe.signals_reader import SignalReader

MEASURED_S_MAX = 180.0
_LOOK_S = 1.0
_NEWEST = 50


def wait_until_measured(parts: DemoProcesses, view: DemoView, brokers: int) -> None:
    """
    Raises:
        CommandError: a part ended by itself, or they are not told of in time.
    """
    topics = parts.settings.topic_names()
    reading = consumer(parts.settings.kafka, "demo-signals")
    try:
        signals = SignalReader(reading, topics.signals, parts.settings.cluster)
        until_s = time.monotonic() + MEASURED_S_MAX
        while True:
            parts.look()
            signals.rewind(_NEWEST)
            if len(signals.brokers) >= brokers:
                return
            if time.monotonic() > until_s:
                raise CommandError(
                    f"The stream has told of {len(signals.brokers)} of {brokers} brokers in {MEASURED_S_MAX:.0f} s: this "
                    "machine is too busy for the demo; end what else runs, and start it again."
                )
            view.now("waiting for the first measurements: Spark is starting")
            threading.Event().wait(_LOOK_S)
    finally:
        reading.close(timeout_ms=2000)
