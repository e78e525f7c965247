"""A thread of rheostat ends by an error: Prometheus sees it and Alertmanager notifies an operator, with the shipped rules."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from lab_parts import until
from monitoring_kit import Monitoring
from prometheus_client import CollectorRegistry

from rheostat.lab.node import free_ports
from streaming.metrics_server import serve
from streaming.shared.process_metrics import ProcessMetricsCollector
from streaming.shared.thread_watch import ThreadWatch


@pytest.mark.campaign
def test_thread_that_ends_by_an_error_fires_alert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch, registry = ThreadWatch(), CollectorRegistry()
    monkeypatch.setattr(threading, "excepthook", watch.note)
    registry.register(ProcessMetricsCollector("lab", "stream", threads=watch))
    server, (tuner, collector) = serve(registry, "127.0.0.1", 0), free_ports(2)
    ports = {"rheostat-tuner": tuner, "rheostat-collector": collector, "rheostat-stream": server.port}
    try:
        with Monitoring(tmp_path / "monitoring", ports) as monitoring:

            def breaks() -> None:
                raise RuntimeError("broken")

            thread = threading.Thread(target=breaks, name="backlog")
            thread.start()
            thread.join(timeout=5)
            assert watch.count == 1
            told = until(lambda: monitoring.ear.heard("ThreadEnded", part="stream"), 60, "an operator is told")
            assert told.receiver == "ticket"
            assert 'process "stream" of rheostat for cluster lab has lost: 1' in told.description
    finally:
        server.close()
