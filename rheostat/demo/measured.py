"""Waits until the stream has measured every broker; the tuner decides nothing before that."""

from __future__ import annotations

import threading
import time

from rheostat.demo.processes import DemoProcesses
from rheostat.demo.view import DemoView
from rheostat.errors import CommandError
from streaming.shared.kafka import consumer
from tuner.runtime.observe.signals_reader import SignalReader

MEASURED_S_MAX = 180.0
_POLL_S = 1.0


def wait_until_measured(processes: DemoProcesses, view: DemoView, brokers: int) -> None:
    """Waits until at least ``brokers`` brokers have a signal.

    Raises:
        CommandError: a process has ended, or signals are missing after ``MEASURED_S_MAX``.
    """
    topics = processes.settings.topic_names()
    signal_consumer = consumer(processes.settings.kafka, "demo-signals")
    try:
        signals = SignalReader(signal_consumer, topics.signals, processes.settings.cluster)
        until_s = time.monotonic() + MEASURED_S_MAX
        while True:
            processes.check()
            signals.rewind()
            if len(signals.brokers) >= brokers:
                return
            if time.monotonic() > until_s:
                raise CommandError(
                    f"The stream has measured {len(signals.brokers)} of {brokers} brokers in {MEASURED_S_MAX:.0f} s: this "
                    "machine is too busy for the demo. End other programs, and start the demo again."
                )
            view.show_activity("waiting for the first measurements: Spark is starting")
            threading.Event().wait(_POLL_S)
    finally:
        signal_consumer.close(timeout_ms=2000)
