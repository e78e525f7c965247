"""The tuner over HTTP.

/metrics   for Prometheus
/healthz   200 while cycles keep ending; a process that only looks alive is not
/readyz    200 while the cluster and fresh signals are seen, else 503 and what is missing
/status    the last cycle as JSON
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import uvicorn
from fastapi import FastAPI, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from tuner.api.board import Board
from tuner.api.quota_board import QuotaBoard

STOP_S_MAX = 10.0
_CYCLES_MISSED_MAX = 12


def make_app(
    board: Board, quotas: QuotaBoard, registry: CollectorRegistry, cycle_s: float, wall_clock: Callable[[], float]
) -> FastAPI:
    app = FastAPI(title="rheostat tuner", openapi_url=None, docs_url=None, redoc_url=None)

    @app.get("/metrics")
    def metrics() -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    @app.get("/healthz")
    def healthz() -> Response:
        at_s = board.cycled_at_s
        if at_s is not None and wall_clock() - at_s > _CYCLES_MISSED_MAX * cycle_s:
            return Response(f"no cycle has ended for {wall_clock() - at_s:.0f} s\n", status_code=503)
        return Response("ok\n")

    @app.get("/readyz")
    def readyz() -> Response:
        ready, why = board.ready()
        return Response(f"{why}\n", status_code=200 if ready else 503)

    @app.get("/status")
    def status() -> dict[str, Any]:
        ready, why = board.ready()
        return {
            "cluster": board.cluster,
            "ready": ready,
            "why": why,
            "dry_run": board.dry_run,
            "rate_bytes_per_s_max": board.limits.rate_bytes_per_s_max,
            **board.snapshot().as_json(),
            "quotas": quotas.as_json(),
        }

    return app


class HttpServer:
    """uvicorn in a thread of its own, on a socket bound by us, so that a taken port is an error and not a log line."""

    def __init__(self, app: FastAPI, host: str, port: int) -> None:
        self._socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((host, port))
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="http", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=STOP_S_MAX)
        self._socket.close()
