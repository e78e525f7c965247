"""From a metric to a notification: Prometheus and Alertmanager as shipped, over a metrics page that the test writes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from lab_parts import until
from monitoring_kit import Monitoring


class Page:
    """The metrics pages of three processes; ``put`` changes one series."""

    def __init__(self) -> None:
        series: dict[str, float] = {}

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = "".join(f"{name} {value}\n" for name, value in series.copy().items()).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                pass

        self._series = series
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, name="page", daemon=True)
        self._thread.start()

    def put(self, series: str, value: float) -> None:
        self._series[series] = value

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join(timeout=5)
        self._server.server_close()


@pytest.fixture
def page() -> Iterator[Page]:
    made = Page()
    yield made
    made.close()


def test_alerts_are_routed_silenced_and_resolved(page: Page, tmp_path: Path) -> None:
    def stalled(broker: int, cluster: str = "prod") -> str:
        return f'rheostat_move_stalled{{cluster="{cluster}",broker="{broker}"}}'

    def age(cluster: str) -> str:
        return f'rheostat_signal_age_seconds{{cluster="{cluster}",broker="1"}}'

    for cluster in ("prod", "test"):
        page.put(age(cluster), 5)
        page.put(f'rheostat_signal_age_max_seconds{{cluster="{cluster}"}}', 15)
    page.put(stalled(3), 1)
    ports = dict.fromkeys(("rheostat-tuner", "rheostat-collector", "rheostat-stream"), page.port)
    with Monitoring(tmp_path / "monitoring", ports, wait_s_max=3, every_s=1) as monitoring:
        ear = monitoring.ear
        told = until(lambda: ear.heard("ReassignmentStalled", broker="3"), 40, "a warning is sent")
        assert (told.receiver, told.labels["cluster"]) == ("ticket", "prod")
        assert told.description.startswith("The move onto broker 3 of cluster prod")

        # The signals of one cluster grow old; what is judged from them is kept back from then on, and the other's is not.
        page.put(age("prod"), 99)
        told = until(lambda: ear.heard("PipelineLagging"), 40, "somebody hears that nothing is seen")
        assert (told.receiver, told.labels["cluster"]) == ("ticket", "prod")
        page.put(stalled(4), 1)
        page.put(stalled(1, "test"), 1)
        until(lambda: ear.heard("ReassignmentStalled", broker="1", cluster="test"), 30, "the other cluster's")
        until(lambda: monitoring.firing("ReassignmentStalled", broker="4"), 30, "Prometheus says so")
        until(lambda: monitoring.silenced("ReassignmentStalled", cluster="prod"), 10, "it is kept back")
        assert ear.heard("ReassignmentStalled", broker="4") is None

        page.put(age("prod"), 5)
        until(lambda: ear.heard("ReassignmentStalled", broker="4"), 40, "it is told once signals are fresh again")
        for broker in (3, 4):
            page.put(stalled(broker), 0)
        until(lambda: ear.heard("ReassignmentStalled", "resolved", broker="3"), 40, "it is told to be over")
